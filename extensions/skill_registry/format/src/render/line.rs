//! Untrusted text as one harmless line.

use std::borrow::Cow;

use skillhost_payload::is_hidden;

/// The maximum number of characters of a short description.
pub(crate) const SHORT_DESCRIPTION: usize = 160;

/// The minimum room for a useful start of a trigger sentence, in characters.
const MIN_TRIGGER: usize = 32;

/// The phrases that start the advice when to use a skill, in lower case.
const TRIGGERS: [&str; 13] = [
    "use when",
    "use this",
    "use for",
    "use it",
    "use if",
    "use to",
    "use whenever",
    "when the user",
    "when you need",
    "when asked",
    "triggers on",
    "trigger when",
    "invoke when",
];

/// The bytes that start one of [`TRIGGERS`], in either case: most bytes need no comparison.
const OPENS_TRIGGER: [bool; 256] = {
    let mut opens = [false; 256];
    let mut at = 0;
    while at < TRIGGERS.len() {
        let first = TRIGGERS[at].as_bytes()[0];
        opens[first as usize] = true;
        opens[first.to_ascii_uppercase() as usize] = true;
        at += 1;
    }
    opens
};

/// Returns whether a character is removed from a line: an invisible one, except the joiners and
/// variation selectors that scripts and emoji require.
fn is_removed(c: char) -> bool {
    is_hidden(c)
        && !matches!(c, '\u{200C}'..='\u{200D}' | '\u{FE00}'..='\u{FE0F}' | '\u{180B}'..='\u{180D}' | '\u{180F}')
}

/// Converts a text to one harmless line.
///
/// Whitespace is folded to single blanks and trimmed; control, bidirectional and invisible
/// characters are removed; backticks become apostrophes and angle brackets become `‹` and `›`, so
/// that the line can neither leave its position in a prompt nor look like markup.
#[must_use]
pub fn sanitize_line(text: &str) -> String {
    sanitize_text(text).into_owned()
}

/// Sanitizes like [`sanitize_line`], but borrows a text that is harmless already.
pub(super) fn sanitize_text(text: &str) -> Cow<'_, str> {
    let mut clean = clean_length(text);
    if clean == text.len() && !text.ends_with(' ') {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        line.push_str(&rest[..clean]);
        rest = &rest[clean..];
        let Some(c) = rest.chars().next() else { break };
        rest = &rest[c.len_utf8()..];
        match c {
            '`' => line.push('\''),
            '<' => line.push('\u{2039}'),
            '>' => line.push('\u{203A}'),
            c if c.is_whitespace() && !line.is_empty() && !line.ends_with(' ') => line.push(' '),
            _ => {}
        }
        // A removed character between two blanks must not leave both of them.
        if line.is_empty() || line.ends_with(' ') {
            rest = rest.trim_start();
        }
        clean = clean_length(rest);
    }
    line.truncate(line.trim_end().len());
    Cow::Owned(line)
}

/// The visible ASCII characters that are allowed in a line, by byte.
const VISIBLE: [bool; 256] = {
    let mut visible = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        visible[byte as usize] = !matches!(byte, b'`' | b'<' | b'>');
        byte += 1;
    }
    visible
};

/// Returns the length of the start of a text that needs no change; a blank at its end may still
/// have to be trimmed.
fn clean_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if VISIBLE[usize::from(byte)] || byte == b' ' && at > 0 && bytes[at - 1] != b' ' {
            at += 1;
        } else if byte.is_ascii() {
            break;
        } else {
            let c = text[at..].chars().next();
            let Some(c) = c.filter(|c| !c.is_whitespace() && !is_removed(*c)) else { break };
            at += c.len_utf8();
        }
    }
    at
}

/// Shortens a description to one harmless line of at most 160 characters.
///
/// A longer one becomes its first sentence, followed by the first sentence with a trigger phrase,
/// cut at a word if both do not fit.
#[must_use]
pub fn shorten_description(description: &str) -> String {
    shorten_text(description).into_owned()
}

/// Shortens like [`shorten_description`], but borrows a short and harmless text.
pub(super) fn shorten_text(description: &str) -> Cow<'_, str> {
    let line = sanitize_text(description);
    if fits_limit(&line, SHORT_DESCRIPTION) {
        return line;
    }
    let mut sentences = split_sentences(&line);
    let first = sentences.next().unwrap_or_default();
    let room = SHORT_DESCRIPTION.saturating_sub(first.chars().count() + 1);
    // A first sentence with a trigger phrase already contains the advice.
    let trigger = if room < MIN_TRIGGER || has_trigger_phrase(first) {
        None
    } else {
        sentences.find(|sentence| has_trigger_phrase(sentence))
    };
    let mut both = String::with_capacity(first.len() + trigger.map_or(0, |t| t.len() + 1));
    both.push_str(first);
    if let Some(trigger) = trigger {
        both.push(' ');
        both.push_str(trigger);
    }
    if let Cow::Owned(cut) = cut_at_word(&both, SHORT_DESCRIPTION) {
        return Cow::Owned(cut);
    }
    Cow::Owned(both)
}

fn fits_limit(text: &str, limit: usize) -> bool {
    // Bytes are never fewer than characters, so short texts need no count.
    text.len() <= limit || text.chars().nth(limit).is_none()
}

fn has_trigger_phrase(sentence: &str) -> bool {
    let bytes = sentence.as_bytes();
    let opens = |trigger: &str, rest: &[u8]| {
        rest.get(..trigger.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(trigger.as_bytes()))
    };
    (0..bytes.len()).any(|at| {
        OPENS_TRIGGER[usize::from(bytes[at])]
            // Phrases start at a word: `because when` does not contain `use when`.
            && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric())
            && TRIGGERS.iter().any(|trigger| opens(trigger, &bytes[at..]))
    })
}

/// Splits a line after `.`, `!` or `?` and a blank, unless a lower-case letter follows, as after
/// "e.g.", and after the full stops of scripts that put no blank there.
fn split_sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (sentence, after) = rest.split_at(sentence_length(rest));
        rest = after.trim_start();
        Some(sentence)
    })
}

fn sentence_length(line: &str) -> usize {
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'.' | b'!' | b'?' => {
                let after = line[at + 1..].strip_prefix(' ');
                if after.is_some_and(|after| !after.starts_with(char::is_lowercase)) {
                    return at + 1;
                }
            }
            // The first bytes of the wide full stops; they cannot occur within a character,
            // because every continuation byte is smaller.
            0xE3 | 0xEF if line[at..].starts_with(['。', '！', '？']) => return at + 3,
            _ => {}
        }
    }
    line.len()
}

/// Cuts a line to at most `limit` characters, at the end of a word in its last half if there is
/// one, and marks the cut with `…`.
pub(super) fn cut_at_word(line: &str, limit: usize) -> Cow<'_, str> {
    if fits_limit(line, limit) {
        return Cow::Borrowed(line);
    }
    // One character is reserved for the mark.
    let Some(room) = limit.checked_sub(1) else { return Cow::Borrowed("") };
    let end = line.char_indices().nth(room).map_or(line.len(), |(at, _)| at);
    let head = &line[..end];
    let cut = if line[end..].starts_with(' ') {
        head
    } else {
        head.rfind(' ').filter(|at| *at >= end / 2).map_or(head, |at| &head[..at])
    };
    Cow::Owned(format!("{}…", cut.trim_end_matches([' ', '.', ',', ';', ':', '-', '—', '–'])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sanitized_line_stays_on_line() {
        let cases = [
            ("", ""),
            ("  plain  text ", "plain text"),
            ("two\r\n\tlines\u{2028}three\u{a0}four", "two lines three four"),
            ("`code` <b>bold</b>", "'code' ‹b›bold‹/b›"),
            ("a\u{202e}b\u{2066}c\u{200f}d", "abcd"),
            ("\u{1b}[31mred\u{7}\0", "[31mred"),
            ("hid\u{e0041}den\u{200b}\u{feff}", "hidden"),
            ("family \u{1F469}\u{200D}\u{1F467}", "family \u{1F469}\u{200D}\u{1F467}"),
            ("\u{200b} \u{202e}", ""),
            ("a \u{200b} b", "a b"),
        ];
        for (text, expected) in cases {
            assert_eq!(sanitize_line(text), expected, "{text:?}");
            assert_eq!(sanitize_line(expected), expected, "twice: {text:?}");
        }
    }

    #[test]
    fn short_description_is_unchanged() {
        let text = "x".repeat(SHORT_DESCRIPTION);
        assert_eq!(shorten_description(&text), text);
        assert_eq!(shorten_description("  Counts\n beads. "), "Counts beads.");
    }

    #[test]
    fn long_description_keeps_trigger_sentence() {
        let filler = "It also does many other things that few users need. ".repeat(4);
        assert_eq!(
            shorten_description(&format!(
                "Counts beads, e.g. in jars. {filler}Use when asked for beads. Use this twice."
            )),
            "Counts beads, e.g. in jars. Use when asked for beads."
        );
        assert_eq!(
            shorten_description(&format!("Counts beads v1.5! {filler}")),
            "Counts beads v1.5!"
        );
        assert_eq!(
            shorten_description(&format!("Use when counting. {filler}Use this for beads.")),
            "Use when counting."
        );
        assert_eq!(shorten_description(&format!("数える。{filler}")), "数える。");
    }

    #[test]
    fn overlong_text_is_cut_at_word() {
        let words = "word ".repeat(60);
        let expected = format!("{}…", "word ".repeat(31) + "word");
        assert_eq!(shorten_description(&words).chars().count(), 160);
        assert_eq!(shorten_description(&words), expected);
        let one_word = "x".repeat(300);
        assert_eq!(shorten_description(&one_word), format!("{}…", "x".repeat(159)));
        let trigger = format!("Counts beads. Use when {}.", "asked ".repeat(60).trim());
        assert_eq!(
            shorten_description(&trigger),
            format!("Counts beads. Use when{}…", " asked".repeat(22))
        );
        let long_first = format!("{}. Use when asked.", "y".repeat(140));
        assert_eq!(shorten_description(&long_first), "y".repeat(140) + ". Use when asked.");
        let longer_first = format!("{}. Use when asked for beads.", "y".repeat(140));
        assert_eq!(shorten_description(&longer_first), "y".repeat(140) + ".");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sanitized_line_is_harmless(
            text in prop_oneof![
                any::<String>(),
                "[a-c .`<>\n\t\u{200b}\u{202e}\u{e0041}\u{a0}é]{0,40}",
                "([A-Za-z]{1,9}[ .,\n]{1,2}){0,80}",
            ],
        ) {
            let line = sanitize_line(&text);
            prop_assert_eq!(&sanitize_line(&line), &line);
            prop_assert_eq!(line.trim(), &line);
            prop_assert!(!line.contains("  "));
            let harmful = |c: char| {
                is_removed(c) || c != ' ' && c.is_whitespace() || matches!(c, '`' | '<' | '>')
            };
            prop_assert!(!line.contains(harmful), "{:?}", line);
            let visible = |c: &char| !c.is_whitespace() && !is_removed(*c);
            prop_assert_eq!(
                line.chars().filter(visible).count(),
                text.chars().filter(visible).count()
            );
            let short = shorten_description(&text);
            prop_assert!(short.chars().count() <= SHORT_DESCRIPTION);
            prop_assert_eq!(shorten_description(&short), short);
        }
    }

    #[test]
    fn cut_respects_characters_and_limit() {
        assert_eq!(cut_at_word("añadir más", 7), "añadir…");
        assert_eq!(cut_at_word("one, two three", 6), "one…");
        assert_eq!(cut_at_word("abc", 3), "abc");
        assert_eq!(cut_at_word("abcd", 1), "…");
        assert_eq!(cut_at_word("abcd", 0), "");
    }
}
