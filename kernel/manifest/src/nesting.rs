//! The nesting depth of YAML text, measured without recursion and before another parser reads it.

use saphyr_parser::{Event, Parser};

use crate::Located;

/// Finds the position where YAML text is nested deeper than `limit` lists and mappings, or `None`.
///
/// Parsers that collect a text first take quadratic time for deep nesting, or a stack frame for
/// each level; untrusted text is checked with this function before it reaches one of them. Only the
/// brackets of text that is not YAML are counted.
pub fn find_excessive_nesting(text: &str, limit: usize) -> Option<Located<usize>> {
    let mut depth = 0_usize;
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    for event in Parser::new_from_str(text) {
        // The other parser may accept what this one rejects, so the check cannot end here.
        let Ok((event, span)) = event else { return find_excessive_brackets(text, limit) };
        match event {
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        // At once, before the parser spends time on deeper levels.
        if depth > limit {
            let at = span.start;
            return Some(Located {
                value: limit,
                line: number(at.line()),
                column: number(at.col() + 1),
            });
        }
    }
    None
}

/// Finds the position where more than `limit` brackets are open, those in text and comments
/// included.
fn find_excessive_brackets(text: &str, limit: usize) -> Option<Located<usize>> {
    let mut depth = 0_usize;
    for (line, content) in (1..).zip(text.lines()) {
        for (column, c) in (1..).zip(content.chars()) {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > limit {
                return Some(Located { value: limit, line, column });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_above_limit_is_found() {
        assert_eq!(find_excessive_nesting("a: [[1], {b: [2]}]\n", 4), None);
        let found = find_excessive_nesting("a:\n  b: [[1], {c: [2]}]\n", 4).unwrap();
        assert_eq!((found.value, found.line, found.column), (4, 2, 16));
        assert!(find_excessive_nesting(&"- ".repeat(100), 64).is_some());
        // The parser has limits of its own; after its error the brackets count.
        for deep in ["[", "{", "{a: [", "\t[", "'a' 'b': [", "? ", "- "] {
            let text = deep.repeat(50_000);
            assert!(find_excessive_nesting(&text, 64).is_some(), "{deep:?}");
        }
        let shallow = "[]".repeat(50_000);
        assert_eq!(find_excessive_nesting(&shallow, 64), None);
    }
}
