//! Keeps untrusted text from steering the terminal it is printed on.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes everything that is not printable: control characters other than newline and tab, bidi
/// overrides and isolates, zero-width and tag characters. Shown as `\u{…}`, so nothing is hidden.
pub(crate) fn sanitise(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            // Writing into a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_passes() {
        assert_eq!(sanitise("plain — text\n\tü"), "plain — text\n\tü");
        assert_eq!(sanitise("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(
            sanitise("a\rb\u{9b}c\u{202e}d\u{e0041}"),
            "a\\u{d}b\\u{9b}c\\u{202e}d\\u{e0041}"
        );
        for code in 0..=0x10_ffff_u32 {
            let Some(character) = char::from_u32(code) else { continue };
            let shown = sanitise(character.encode_utf8(&mut [0; 4])).into_owned();
            let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!shown.contains(steers), "{code:x}");
        }
    }
}
