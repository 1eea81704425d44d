//! Text of agents that people and reviewers read.

use skill_format::sanitize_line;

/// Replaces the characters of a multi-line text that would steer a terminal or hide other text.
pub(super) fn display_safe(text: &str) -> String {
    // The same characters as in a line. Between two letters, because the ends are trimmed; a
    // carriage return becomes a space there, which counts as unsafe because it overwrites.
    let is_unchanged = |c: char| {
        let between = format!("a{c}a");
        sanitize_line(&between) == between
    };
    let is_safe = |c: char| matches!(c, '\n' | '\t') || is_unchanged(c);
    text.chars().map(|c| if is_safe(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_safe_replaces_hidden_characters() {
        assert_eq!(
            display_safe("+a\tb\n-\u{1b}[2Kc\u{202e}d\r"),
            "+a\tb\n-\u{fffd}[2Kc\u{fffd}d\u{fffd}"
        );
    }
}
