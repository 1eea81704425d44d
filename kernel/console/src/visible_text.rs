//! Untrusted texts as a person reads them.

use std::borrow::Cow;

use maud::{Markup, html};
use skillhost_payload::{format_rfc3339, format_second, is_hidden};

/// Draws a text of any source. Invisible characters are drawn as their code points, so that a text
/// cannot look like another one.
pub(crate) fn draw_text(text: &str) -> Markup {
    if !text.contains(is_concealed) {
        return html! { (text) };
    }
    html! {
        @for run in split_runs(text) {
            @match run {
                TextRun::Plain(text) => (text),
                TextRun::Concealed(character) => {
                    span.codepoint title="invisible character" { (format_code_point(character)) }
                }
            }
        }
    }
}

/// Draws the text of an error or a hint, whose names are between backticks as in terminals.
pub(crate) fn draw_error_text(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An even number of parts is an odd number of backticks: one of them is part of a name.
    if parts.len().is_multiple_of(2) {
        return draw_text(text);
    }
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at % 2 == 1 { code { (draw_text(part)) } } @else { (draw_text(part)) }
        }
    }
}

/// Makes a text of any source one line without invisible characters, for attributes and titles.
pub(crate) fn to_line(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !is_concealed(c) && c != '\n' && c != '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            c if is_concealed(c) => line.push_str(&format_code_point(c)),
            c => line.push(c),
        }
    }
    Cow::Owned(line)
}

/// Shortens a text to a number of characters, with an ellipsis.
pub(crate) fn shorten(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Draws a time in UTC, with its age for people who look at it now.
pub(crate) fn draw_time(ms: u64) -> Markup {
    let signed = i64::try_from(ms).unwrap_or(i64::MAX);
    html! { time datetime=(format_rfc3339(signed)) { (format_second(signed)) " UTC" } }
}

/// Draws the time since a moment. Ages below a second have no unit of their own.
pub(crate) fn draw_age(since_ms: u64, now_ms: u64) -> Markup {
    let signed = i64::try_from(since_ms).unwrap_or(i64::MAX);
    let age = match now_ms.saturating_sub(since_ms) {
        0..1000 => "< 1 s".to_owned(),
        age => format_duration(age),
    };
    html! { time datetime=(format_rfc3339(signed)) title={ (format_second(signed)) " UTC" } { (age) } }
}

/// Formats a duration with its largest unit, and the next one where it is of interest.
pub(crate) fn format_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats a number with its unit, such as `1 attempt` and `8,120 tokens`.
pub(crate) fn format_count(count: u64, unit: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {unit}{plural}", group_digits(count))
}

/// Formats a number with its digits in groups of three.
pub(crate) fn group_digits(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        // Counted from the end of the number.
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

enum TextRun<'a> {
    Plain(&'a str),
    Concealed(char),
}

fn split_runs(text: &str) -> Vec<TextRun<'_>> {
    let (mut runs, mut start) = (Vec::new(), 0);
    for (at, c) in text.char_indices().filter(|(_, c)| is_concealed(*c)) {
        if start < at {
            runs.push(TextRun::Plain(&text[start..at]));
        }
        runs.push(TextRun::Concealed(c));
        start = at + c.len_utf8();
    }
    if start < text.len() {
        runs.push(TextRun::Plain(&text[start..]));
    }
    runs
}

/// Returns whether a character is drawn as its code point. Line breaks, tabs and the emoji selectors
/// have a visible effect.
fn is_concealed(c: char) -> bool {
    !matches!(c, '\n' | '\t' | '\u{fe0e}' | '\u{fe0f}') && is_hidden(c)
}

fn format_code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_drawn() {
        let drawn = draw_text("a\u{202e}<b>\u{0}").into_string();
        assert_eq!(
            drawn,
            "a<span class=\"codepoint\" title=\"invisible character\">U+202E</span>&lt;b&gt;\
             <span class=\"codepoint\" title=\"invisible character\">U+0000</span>"
        );
        assert_eq!(draw_text("plain\n\"").into_string(), "plain\n&quot;");
        assert_eq!(to_line("a\nb\u{200b}"), "a bU+200B");
        assert_eq!(shorten("aéb", 2), "aé…");
    }

    #[test]
    fn names_in_messages_are_code() {
        let drawn = draw_error_text("tool `a<b` failed").into_string();
        assert_eq!(drawn, "tool <code>a&lt;b</code> failed");
        assert_eq!(draw_error_text("a ` b").into_string(), "a ` b");
        assert_eq!(draw_error_text("").into_string(), "");
    }

    #[test]
    fn counts_are_grouped() {
        let counts = [0, 1, 999, 1_000, 1_234_567].map(|count| format_count(count, "token"));
        assert_eq!(
            counts,
            ["0 tokens", "1 token", "999 tokens", "1,000 tokens", "1,234,567 tokens"]
        );
    }

    #[test]
    fn durations_have_two_units() {
        let cases = [
            (12, "12 ms"),
            (59_999, "59 s"),
            (61_000, "1 min"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(format_duration(ms), text);
        }
    }
}
