//! Untrusted texts as people see them: without control characters and changes of direction.

use std::fmt::Write as _;

use skillhost_payload::is_hidden;

/// The length limit of a name or title, in characters.
const MAX_LINE_CHARS: usize = 120;

/// Removes invisible characters from a message; line breaks and tabs remain.
#[must_use]
pub(crate) fn clean_message(text: &str) -> String {
    text.chars().filter(|c| !is_invisible(*c)).collect()
}

/// Returns one line of a bounded length without invisible characters.
#[must_use]
pub(crate) fn clean_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = clean_message(&words.join(" "));
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Writes invisible characters as code points, so that what is decided on is visible.
#[must_use]
pub(crate) fn escape_hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_ignorable(c) {
            // Writing to a string cannot fail.
            true => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// Returns whether a character has no place in a key or a name.
#[must_use]
pub(crate) fn is_ignorable(c: char) -> bool {
    is_invisible(c) || is_joiner(c)
}

/// Returns whether a character is invisible, or changes the direction of writing. Line breaks, tabs
/// and joiners are not.
fn is_invisible(c: char) -> bool {
    !matches!(c, '\n' | '\t') && !is_joiner(c) && (is_hidden(c) || is_direction(c))
}

/// Returns whether a character changes the direction of writing.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character joins others and is invisible alone. Messages keep them, as scripts
/// and emoji need them.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed_or_escaped() {
        let text = "a\u{202e}b\u{0}c\u{1b}[2Jd\te\nf 👩\u{200d}💻";
        assert_eq!(clean_message(text), "abc[2Jd\te\nf 👩\u{200d}💻");
        assert_eq!(escape_hidden("a\u{202e}\u{200d}\n"), "a\\u{202e}\\u{200d}\n");
        assert_eq!(clean_line(" a \n b "), "a b");
        assert_eq!(clean_line(&"x".repeat(200)).chars().count(), 121);
    }
}
