//! The parser of `allowed-tools`, which has three notations.

use std::collections::HashSet;

use super::frontmatter::AllowedTools;

/// Parses the text form: tools separated by blanks or commas, as in `Bash(git add:*), Read`.
///
/// Separators in parentheses belong to the tool's pattern.
pub(super) fn parse_text(text: &str) -> AllowedTools {
    let text = text.trim();
    // A quoted or broken flow list arrives as text with its brackets.
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    to_allowed_tools(split_tools(bare, |c| c == ',' || c.is_whitespace()))
}

/// Parses the list form: one tool per item.
pub(super) fn parse_items(items: &[String]) -> AllowedTools {
    // `[Bash(git log, git diff), Read]` is three items to YAML and two tools to its author.
    to_allowed_tools(split_tools(&items.join(","), |c| c == ','))
}

fn to_allowed_tools(tools: Option<Vec<String>>) -> AllowedTools {
    match tools {
        None => AllowedTools::Unparsable,
        Some(tools) if tools.is_empty() => AllowedTools::Absent,
        Some(tools) => AllowedTools::List(dedup_texts(tools)),
    }
}

/// Removes texts that occur earlier in the list.
pub(super) fn dedup_texts(mut texts: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::with_capacity(texts.len());
    // `retain` alone cannot compare with earlier elements while it borrows the list.
    let first: Vec<bool> = texts.iter().map(|text| seen.insert(text.as_str())).collect();
    let mut first = first.into_iter();
    texts.retain(|_| first.next().unwrap_or(true));
    texts
}

/// Splits at separators outside parentheses; `None` if the parentheses are not paired.
fn split_tools(text: &str, is_separator: impl Fn(char) -> bool) -> Option<Vec<String>> {
    let mut tools: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let mut close = |piece: &str| {
        let tool = piece.trim().trim_matches(['"', '\'']).trim();
        match tools.last_mut() {
            // `Bash (git:*)` is one tool.
            Some(last) if tool.starts_with('(') && !last.ends_with(')') => last.push_str(tool),
            _ if tool.is_empty() => {}
            _ => tools.push(tool.to_owned()),
        }
    };
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            c if depth == 0 && is_separator(c) => {
                close(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    close(&text[start..]);
    (depth == 0).then_some(tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(expected: &[&str]) -> AllowedTools {
        AllowedTools::List(expected.iter().map(|tool| (*tool).to_owned()).collect())
    }

    #[test]
    fn text_splits_outside_parentheses() {
        let cases: [(&str, &[&str]); 11] = [
            ("Read", &["Read"]),
            ("Bash(git:*) Read", &["Bash(git:*)", "Read"]),
            ("Read, Write,Edit ,, Grep,", &["Read", "Write", "Edit", "Grep"]),
            (
                "Bash(git add:*), Bash(npm run test, lint)",
                &["Bash(git add:*)", "Bash(npm run test, lint)"],
            ),
            ("Read\n  Write\tEdit", &["Read", "Write", "Edit"]),
            ("[Read, \"Write\"]", &["Read", "Write"]),
            ("'Read' 'Write'", &["Read", "Write"]),
            ("Read Read, Read", &["Read"]),
            ("mcp__x__y *", &["mcp__x__y", "*"]),
            ("Bash (git:*) Read", &["Bash(git:*)", "Read"]),
            ("Bash(f(x) y) Read", &["Bash(f(x) y)", "Read"]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_text(text), tools(expected), "{text:?}");
        }
        for text in ["", "  ", ",", "[]"] {
            assert_eq!(parse_text(text), AllowedTools::Absent, "{text:?}");
        }
        for text in ["Bash(git:*", "Read)", "a)b("] {
            assert_eq!(parse_text(text), AllowedTools::Unparsable, "{text:?}");
        }
    }

    #[test]
    fn list_items_may_contain_blanks() {
        let items = |items: &[&str]| {
            parse_items(&items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(items(&["Read", "Web Search"]), tools(&["Read", "Web Search"]));
        assert_eq!(
            items(&["Bash(git log", "git diff)", "Read"]),
            tools(&["Bash(git log,git diff)", "Read"])
        );
        assert_eq!(items(&[]), AllowedTools::Absent);
        assert_eq!(items(&["Bash(git log", "Read"]), AllowedTools::Unparsable);
    }
}
