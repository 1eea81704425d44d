//! Untrusted names on one line.

/// Shows an untrusted name on one line.
pub(crate) fn display_safe(name: &str) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
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
