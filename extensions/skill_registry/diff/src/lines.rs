//! Lines and line endings.

/// The ending of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnding {
    Lf,
    CrLf,
    /// The text ends without a newline.
    None,
}

impl LineEnding {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::None => "",
        }
    }
}

/// Splits a text into lines and their endings; a `\r` anywhere else belongs to the line.
pub(crate) fn split_lines(text: &str) -> Vec<(&str, LineEnding)> {
    let parts = text.split_inclusive('\n');
    parts
        .map(|part| match part.strip_suffix('\n') {
            None => (part, LineEnding::None),
            Some(line) => match line.strip_suffix('\r') {
                None => (line, LineEnding::Lf),
                Some(line) => (line, LineEnding::CrLf),
            },
        })
        .collect()
}

/// Returns the most frequent line ending; LF if there are no lines.
pub(crate) fn usual_ending(lines: &[(&str, LineEnding)]) -> LineEnding {
    let count = |end| lines.iter().filter(|line| line.1 == end).count();
    if count(LineEnding::CrLf) > count(LineEnding::Lf) { LineEnding::CrLf } else { LineEnding::Lf }
}
