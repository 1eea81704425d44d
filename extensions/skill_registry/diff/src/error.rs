//! The errors of applying a diff.

/// The maximum length of a line's excerpt in a message, in characters.
const MAX_EXCERPT: usize = 160;

/// An error of applying a diff.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The diff has no text.
    #[error("the diff is empty")]
    Empty,
    /// The diff has no hunk.
    #[error(
        "the diff has no hunk: a hunk is a line `@@ -1,3 +1,3 @@` and lines that begin with a \
         blank, `-` or `+`"
    )]
    NoHunks,
    /// The diff has hunks, but none adds or deletes a line.
    #[error("the diff has only context: no line begins with `-` or `+`")]
    OnlyContext,
    /// A line belongs to no hunk, but changes follow it.
    #[error(
        "line {line} of the diff starts with neither a blank, `-` nor `+`, and changes follow it: \
         {}",
        quote_line(text)
    )]
    Malformed {
        /// The line of the diff, counted from 1.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The diff compares a result with several bases.
    #[error("combined diffs (`@@@`) are not supported: diff against one text")]
    Combined,
    /// The diff is for another file.
    #[error("the diff is for another file: {}", quote_line(named))]
    OtherFile {
        /// The name in the diff.
        named: String,
    },
    /// The diff is for several files.
    #[error("the diff is for several files ({}): give one diff for each", format_names(named))]
    SeveralFiles {
        /// The names in the diff, in its order.
        named: Vec<String>,
    },
    /// The diff is for a binary file.
    #[error("binary diffs are not supported: only text can be changed")]
    Binary,
    /// The diff renames or copies the file.
    #[error("renaming or copying a file is not supported ({})", format_names(named))]
    Rename {
        /// The names in the diff, in its order.
        named: Vec<String>,
    },
    /// The diff deletes the file.
    #[error("deleting the file is not supported")]
    Deletion,
    /// The diff creates a file that already exists.
    #[error("the diff creates a file that already exists: diff against its text")]
    Exists,
    /// A hunk has no old lines, so its position cannot be found.
    #[error("hunk {hunk} has only added lines: give lines of context around them")]
    NoContext {
        /// The hunk, counted from 1.
        hunk: usize,
    },
    /// A hunk does not fit the text.
    #[error("{}", format_mismatch(*hunk, *line, expected, found.as_deref()))]
    Mismatch {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The line of the base, counted from 1.
        line: usize,
        /// The line of the diff, without its first character.
        expected: String,
        /// The line of the base; `None` after its end.
        found: Option<String>,
    },
    /// No line of a hunk is in the text.
    #[error(
        "hunk {hunk} does not apply: the file has none of its lines, such as {}",
        quote_line(expected)
    )]
    Nowhere {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first old line that is not empty, without its first character.
        expected: String,
    },
    /// A hunk fits several positions.
    #[error(
        "hunk {hunk} fits at line {first} and at line {second}: give more lines of context or the \
         right line number"
    )]
    Ambiguous {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first line of one position in the base, counted from 1.
        first: usize,
        /// The first line of another position.
        second: usize,
    },
    /// A hunk fits only before the previous one, or changes the same lines.
    #[error(
        "hunk {hunk} fits only at line {line}, before the end of the changes of hunk {}: give \
         every change once, in the order of the file",
        hunk - 1
    )]
    OutOfOrder {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first line of its position in the base, counted from 1.
        line: usize,
    },
    /// The text already contains the result of a hunk.
    #[error(
        "hunk {hunk} does not apply, and its result is already at line {line}: the diff was \
         applied before, or is reversed"
    )]
    Reversed {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first line of the hunk's new text in the base, counted from 1.
        line: usize,
    },
    /// The diff or the text is too large, or the search for positions takes too long.
    #[error("{what} is too large: change less at once")]
    TooLarge {
        /// The diff, the text or the search.
        what: &'static str,
    },
    /// The diff does not change the text.
    #[error("the diff changes nothing")]
    NothingChanges,
}

fn format_mismatch(hunk: usize, line: usize, expected: &str, found: Option<&str>) -> String {
    let start = format!("hunk {hunk} does not apply: at line {line} the diff has");
    match found {
        None => format!("{start} {}, but the file ends before it", quote_line(expected)),
        Some(found) => {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().concat();
            // A lost tab or trailing blank is invisible in a message, so it is named.
            let only_blanks = squeezed(expected) == squeezed(found);
            let end = if only_blanks { " (only blanks differ)" } else { "" };
            format!("{start} {}, the file has {}{end}", quote_line(expected), quote_line(found))
        }
    }
}

/// Quotes a line with escapes for tabs and invisible characters.
fn quote_line(text: &str) -> String {
    // Models read these messages: quotes and backslashes stay as they are in the file.
    let escape = |c: char| match c {
        '"' | '\'' | '\\' => c.to_string(),
        _ => c.escape_debug().to_string(),
    };
    let start: String = text.chars().take(MAX_EXCERPT).map(escape).collect();
    let more = if text.chars().nth(MAX_EXCERPT).is_some() { "…" } else { "" };
    match text.contains('`') {
        _ if text.is_empty() => "an empty line".to_owned(),
        true => format!("\"{start}{more}\""),
        false => format!("`{start}{more}`"),
    }
}

fn format_names(names: &[String]) -> String {
    let mut quoted: Vec<_> = names.iter().take(4).map(|name| quote_line(name)).collect();
    if names.len() > quoted.len() {
        quoted.push(format!("{} more", names.len() - quoted.len()));
    }
    quoted.join(", ")
}
