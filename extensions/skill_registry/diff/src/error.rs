//! Why a diff does not apply.

/// The longest excerpt of a line in a message, in characters.
const SHOWN: usize = 160;

/// Says why a diff does not apply.
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
    /// A line belongs to no hunk and yet changes follow it.
    #[error(
        "line {line} of the diff begins with neither a blank, `-` nor `+`, and changes follow it: \
         {}",
        quote_line(text)
    )]
    Malformed {
        /// The line of the diff, counted from 1.
        line: usize,
        /// What it says.
        text: String,
    },
    /// The diff compares a result with several bases.
    #[error("the diff is a combined one (`@@@`): make it against one text")]
    Combined,
    /// The diff is for another file.
    #[error("the diff is for another file: {}", quote_line(named))]
    OtherFile {
        /// The name in the diff.
        named: String,
    },
    /// The diff is for several files.
    #[error("the diff is for several files ({}): give one diff for each", list(named))]
    SeveralFiles {
        /// The names in the diff, in its order.
        named: Vec<String>,
    },
    /// The diff is for a file that is no text.
    #[error("the diff is a binary one: only text can be changed")]
    Binary,
    /// The diff renames or copies the file.
    #[error("the diff renames or copies a file ({}): that is not possible", list(named))]
    Rename {
        /// The names in the diff, in its order.
        named: Vec<String>,
    },
    /// The diff deletes the file.
    #[error("the diff deletes the file: that is not possible")]
    Deletion,
    /// The diff creates a file that is there already.
    #[error("the diff creates the file, but it is there already: make the diff against its text")]
    Exists,
    /// A hunk has nothing by which to find its place.
    #[error("hunk {hunk} has only added lines: give lines of context around them")]
    NoContext {
        /// The hunk, counted from 1.
        hunk: usize,
    },
    /// A hunk does not fit the text.
    #[error("{}", mismatch(*hunk, *line, expected, found.as_deref()))]
    Mismatch {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The line of the base, counted from 1.
        line: usize,
        /// What the diff has there, without its first character.
        expected: String,
        /// What the base has there; nothing after its end.
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
        /// The first of its old lines that is not empty, without its first character.
        expected: String,
    },
    /// A hunk fits several places.
    #[error(
        "hunk {hunk} fits at line {first} and at line {second}: give more lines of context or the \
         right line number"
    )]
    Ambiguous {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first line of one place in the base, counted from 1.
        first: usize,
        /// The first line of another.
        second: usize,
    },
    /// A hunk belongs before the one it follows, or changes lines that the other has changed.
    #[error(
        "hunk {hunk} fits at line {line} only, which is before the end of the changes of hunk \
         {}: give every change once, in the order of the file",
        hunk - 1
    )]
    OutOfOrder {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The first line of its place in the base, counted from 1.
        line: usize,
    },
    /// The text is already what a hunk makes of it.
    #[error(
        "hunk {hunk} does not apply, and what it makes is at line {line} already: the diff was \
         applied before, or is reversed"
    )]
    Reversed {
        /// The hunk, counted from 1.
        hunk: usize,
        /// The line of the base where the hunk's new text begins, counted from 1.
        line: usize,
    },
    /// The diff or the text is too large, or its places would take too long to find.
    #[error("{what} is too large: change less at once")]
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// The text is the same after it.
    #[error("the diff changes nothing")]
    NothingChanges,
}

fn mismatch(hunk: usize, line: usize, expected: &str, found: Option<&str>) -> String {
    let start = format!("hunk {hunk} does not apply: at line {line} the diff has");
    match found {
        None => format!("{start} {}, but the file ends before it", quote_line(expected)),
        Some(found) => {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().concat();
            let only_blanks = squeezed(expected) == squeezed(found);
            let end = if only_blanks { " (only blanks differ)" } else { "" };
            format!("{start} {}, the file has {}{end}", quote_line(expected), quote_line(found))
        }
    }
}

/// Quotes a line so that tabs and what cannot be seen are seen.
fn quote_line(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\'' | '\\' => c.to_string(),
        _ => c.escape_debug().to_string(),
    };
    let start: String = text.chars().take(SHOWN).map(escape).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "…" } else { "" };
    match text.contains('`') {
        _ if text.is_empty() => "an empty line".to_owned(),
        true => format!("\"{start}{more}\""),
        false => format!("`{start}{more}`"),
    }
}

fn list(names: &[String]) -> String {
    let mut shown: Vec<_> = names.iter().take(4).map(|name| quote_line(name)).collect();
    if names.len() > shown.len() {
        shown.push(format!("{} more", names.len() - shown.len()));
    }
    shown.join(", ")
}
