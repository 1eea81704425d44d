//! The position and the reason of a JSON error.

use yaml_tree::Span;

/// A JSON error with its position in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonParseError {
    /// The position, whose column counts characters. `serde_json` counts bytes, and those of the end
    /// of a text inconsistently.
    pub span: Span,
    /// The reason without a position.
    pub reason: String,
}

impl JsonParseError {
    /// Converts an error of parsing a complete text.
    #[must_use]
    pub fn new(text: &str, error: &serde_json::Error) -> Self {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
        let bytes = if error.is_eof() { line.len() } else { error.column().saturating_sub(1) };
        let before = line.char_indices().take_while(|(at, _)| *at < bytes).count();
        let reason = error.to_string();
        let reason = reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason);
        let span = Span { line: number(error.line()), column: number(before + 1) };
        Self { span, reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str) -> (u32, u32) {
        let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
        let found = JsonParseError::new(text, &error);
        assert!(!found.reason.contains(" at line "), "{found:?}");
        (found.span.line, found.span.column)
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(position("[\n  \"ö\" 1]"), (2, 7));
        assert_eq!(position("{\"größe\": tru}"), (1, 14));
        assert_eq!(position("[\"ö"), (1, 4));
        assert_eq!(position("[1,\n"), (2, 1));
        assert_eq!(position(""), (1, 1));
    }
}
