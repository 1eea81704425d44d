//! Escapes for untrusted text on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes all unprintable characters as `\u{…}`: control characters other than newline and tab,
/// and those of [`skillhost_payload::is_hidden`].
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "\\u{{{:x}}}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Escapes the same characters in a JSON text with JSON's escapes, so that its meaning is
/// unchanged.
pub(crate) fn escape_in_json(json: String) -> String {
    // Outside of strings, JSON is ASCII without control characters.
    if !json.contains(is_hidden) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns whether a character is escaped; line breaks, tabs and the two emoji selectors are not.
fn is_hidden(character: char) -> bool {
    !matches!(character, '\n' | '\t' | '\u{fe0e}' | '\u{fe0f}')
        && skillhost_payload::is_hidden(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_preserve_value() {
        let text = "plain ü\u{7f}\u{9b}2J\u{202e}\u{e0041}\n\t";
        let json = escape_in_json(serde_json::to_string(text).unwrap());
        assert_eq!(json, r#""plain ü\u007f\u009b2J\u202e\udb40\udc41\n\t""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(sanitize("plain — text\n\tü"), "plain — text\n\tü");
        assert_eq!(sanitize("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(
            sanitize("a\u{200b}b\u{ad}c\u{34f}\u{3164}\u{fe01}\u{2764}\u{fe0f}"),
            "a\\u{200b}b\\u{ad}c\\u{34f}\\u{3164}\\u{fe01}\u{2764}\u{fe0f}"
        );
        assert_eq!(
            sanitize("a\rb\u{9b}c\u{202e}d\u{e0041}"),
            "a\\u{d}b\\u{9b}c\\u{202e}d\\u{e0041}"
        );
        for code in 0..=0x10_ffff_u32 {
            let Some(character) = char::from_u32(code) else { continue };
            let escaped = sanitize(character.encode_utf8(&mut [0; 4])).into_owned();
            let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!escaped.contains(steers), "{code:x}");
        }
    }
    /// Returns terminal escape sequences: introducers, parameters, terminators.
    fn escape_sequences() -> Vec<String> {
        let mut sequences = Vec::new();
        // Control sequences, introduced by ESC [ or the C1 character.
        let finals = "ABCDEFGHJKLMPSTXZ@`abcdefghilmnpqrstu";
        for introducer in ["\u{1b}[", "\u{9b}"] {
            for last in finals.chars() {
                sequences.push(format!("{introducer}2;1{last}"));
            }
            for mode in [1, 5, 6, 7, 9, 25, 47, 1000, 1002, 1003, 1006, 1047, 1049, 2004, 2026] {
                sequences.push(format!("{introducer}?{mode}h"));
                sequences.push(format!("{introducer}?{mode}l"));
            }
        }
        // Strings: operating system, device control, application, privacy, start of string.
        let strings =
            [("]", '\u{9d}'), ("P", '\u{90}'), ("_", '\u{9f}'), ("^", '\u{9e}'), ("X", '\u{98}')];
        for (after_escape, single) in strings {
            for end in ["\u{7}", "\u{1b}\\", "\u{9c}", ""] {
                sequences.push(format!("\u{1b}{after_escape}0;owned{end}"));
                sequences.push(format!("{single}52;c;b3duZWQ={end}"));
            }
        }
        // Two and three characters: reset, index, character sets, keypad, saved cursors.
        for short in
            ["c", "D", "E", "H", "M", "N", "O", "Z", "7", "8", "=", ">", "#8", "(0", ")0", "%G"]
        {
            sequences.push(format!("\u{1b}{short}"));
        }
        // Single characters: bell, backspace, return, shifts, cancel, delete and text direction.
        for single in
            "\u{7}\u{8}\u{b}\u{c}\r\u{e}\u{f}\u{18}\u{1a}\u{7f}\u{84}\u{85}\u{8d}\u{202e}\u{2066}"
                .chars()
        {
            sequences.push(single.to_string());
        }
        sequences
    }

    #[test]
    fn escape_sequences_become_visible() {
        let sequences = escape_sequences();
        assert!(sequences.len() >= 200, "{}", sequences.len());
        for sequence in &sequences {
            let escaped = sanitize(sequence);
            let mut expected = String::new();
            for character in sequence.chars() {
                match character {
                    ' '..='~' => expected.push(character),
                    hidden => expected.push_str(&format!("\\u{{{:x}}}", u32::from(hidden))),
                }
            }
            assert_eq!(escaped, expected);
            let json = escape_in_json(serde_json::to_string(sequence).unwrap());
            assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), *sequence);
        }
    }
}
