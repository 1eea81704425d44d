//! Lines and their ends.

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lf,
    CrLf,
    /// The text ends without a newline.
    None,
}

impl End {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::None => "",
        }
    }
}

/// Splits a text into lines and their ends; a `\r` anywhere else belongs to the line.
pub(crate) fn split(text: &str) -> Vec<(&str, End)> {
    let parts = text.split_inclusive('\n');
    parts
        .map(|part| match part.strip_suffix('\n') {
            None => (part, End::None),
            Some(line) => match line.strip_suffix('\r') {
                None => (line, End::Lf),
                Some(line) => (line, End::CrLf),
            },
        })
        .collect()
}

/// Returns the line end most lines have; LF if there is none.
pub(crate) fn usual_end(lines: &[(&str, End)]) -> End {
    let count = |end| lines.iter().filter(|line| line.1 == end).count();
    if count(End::CrLf) > count(End::Lf) { End::CrLf } else { End::Lf }
}
