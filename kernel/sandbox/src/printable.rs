//! Text of a process in a form for terminals and logs.

/// Sanitizes text of a process for terminals and logs: one line, without control characters,
/// truncated after `max_chars` characters.
#[must_use]
pub fn to_printable(text: &str, max_chars: usize) -> String {
    let mut safe = String::new();
    for (count, character) in text.trim_end().chars().enumerate() {
        if count == max_chars {
            safe.push('…');
            break;
        }
        match character {
            '\t' => safe.push(' '),
            // Direction marks and other invisible characters could disguise the text.
            hidden if hidden.is_control() || is_invisible(hidden) => {
                safe.extend(hidden.escape_unicode());
            }
            plain => safe.push(plain),
        }
    }
    safe
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::to_printable;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(to_printable("a\tb\u{1b}[2Jc\r\n", 100), "a b\\u{1b}[2Jc");
        assert_eq!(to_printable("x\u{202e}y", 100), "x\\u{202e}y");
        assert_eq!(to_printable("äöü", 2), "äö…");
    }
}
