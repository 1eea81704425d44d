//! Untrusted text in results.

use std::borrow::Cow;

use skillhost_payload::is_hidden;

/// Cuts a long text between characters.
pub(crate) fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    match text.floor_char_boundary(limit) {
        end if end < text.len() => Cow::Owned(format!("{}…", &text[..end])),
        _ => Cow::Borrowed(text),
    }
}

/// Shows an untrusted name on one line.
pub(crate) fn display_safe(name: &str) -> String {
    // The emoji selectors are part of visible characters.
    let is_odd = |c: char| is_hidden(c) && !matches!(c, '\u{fe0e}' | '\u{fe0f}');
    name.chars()
        .map(|c| if is_odd(c) { c.escape_unicode().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_displayed_on_one_line() {
        assert_eq!(display_safe("a\n\u{1b}[2Kb\u{202e}é"), "a\\u{a}\\u{1b}[2Kb\\u{202e}é");
    }
}
