//! File names in diffs.

/// The names of the two sides in diffs without a file name.
const ANONYMOUS: [&str; 6] = ["original", "modified", "old", "new", "before", "after"];

/// The name of a file that does not exist.
pub(crate) const NOWHERE: &str = "/dev/null";

/// The match of a name in a diff with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameMatch {
    Other,
    /// A possible match: the last component, a longer path, a name for any file.
    Loose,
    Exact,
}

/// Compares a name with a path.
pub(crate) fn match_name(name: &str, path: &str) -> NameMatch {
    let name = name.replace('\\', "/");
    let name = name.strip_prefix("./").unwrap_or(&name);
    let bare = ["a/", "b/"].into_iter().find_map(|side| name.strip_prefix(side)).unwrap_or(name);
    if bare == path || name == path {
        return NameMatch::Exact;
    }
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|start| start.ends_with('/'))
    };
    // Only a bare name may match by its last component; `a/api.md` names another directory.
    let last = !name.contains('/') && ends(path, name);
    if last || ends(name, path) || ANONYMOUS.contains(&bare) {
        NameMatch::Loose
    } else {
        NameMatch::Other
    }
}

/// Parses the name after `--- ` or `+++ `: it ends before a tab, or is quoted.
pub(crate) fn parse_name(text: &str) -> String {
    let text = text.trim_end_matches('\r');
    if let Some(quoted) = text.trim_end().strip_prefix('"') {
        return unquote_name(quoted).0;
    }
    text.split('\t').next().unwrap_or_default().trim().to_owned()
}

/// Parses the two names after `diff --git `; `None` if they cannot be separated.
pub(crate) fn parse_git_names(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('"') {
        let (first, rest) = unquote_name(quoted);
        return Some((first, parse_name(rest.trim_start())));
    }
    // Names may contain blanks; without a rename, both halves differ only in the side.
    let blanks = || text.match_indices(' ').map(|(at, _)| (&text[..at], &text[at + 1..]));
    // The limit keeps a line of thousands of blanks from taking quadratic time.
    let stem = |name: &str| name.split_once('/').map(|(_, rest)| rest.to_owned());
    let alike = |(a, b): &(&str, &str)| stem(a).is_some() && stem(a) == stem(b);
    let (first, second) =
        blanks().take(64).find(alike).or_else(|| blanks().find(|(_, b)| b.starts_with("b/")))?;
    Some((first.to_owned(), parse_name(second)))
}

/// Quotes a name for a header if a reader would misread it otherwise.
pub(crate) fn quote_name(name: &str) -> String {
    let plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    if name.chars().all(plain) && name.trim() == name {
        return name.to_owned();
    }
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            _ if c.is_ascii_control() => text.push_str(&format!("\\{:03o}", u32::from(c))),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Parses a quoted name without its first quote; returns the rest, too.
fn unquote_name(text: &str) -> (String, &str) {
    let mut name = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && bytes[at] != b'"' {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            name.push(bytes[at]);
            at += 1;
            continue;
        }
        // git writes bytes outside of ASCII as three octal digits.
        let octal = bytes[at + 1..].iter().take(3).take_while(|byte| (b'0'..b'8').contains(byte));
        let digits = octal.count();
        if digits == 3 {
            let value = bytes[at + 1..at + 4].iter();
            name.push(value.fold(0_u8, |sum, byte| sum.wrapping_mul(8).wrapping_add(byte - b'0')));
            at += 4;
            continue;
        }
        name.push(match bytes[at + 1] {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            other => other,
        });
        at += 2;
    }
    let rest = text.get(at + 1..).unwrap_or_default();
    (String::from_utf8_lossy(&name).into_owned(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_name_recognizes_path() {
        let path = "references/api.md";
        let table = [
            ("references/api.md", NameMatch::Exact),
            ("a/references/api.md", NameMatch::Exact),
            ("b/references/api.md", NameMatch::Exact),
            ("./references/api.md", NameMatch::Exact),
            ("a\\references\\api.md", NameMatch::Exact),
            ("api.md", NameMatch::Loose),
            ("/home/me/skills/beads/references/api.md", NameMatch::Loose),
            ("a/beads/references/api.md", NameMatch::Loose),
            ("original", NameMatch::Loose),
            ("a/SKILL.md", NameMatch::Other),
            ("pi.md", NameMatch::Other),
            ("a/api.md", NameMatch::Other),
            ("references/other.md", NameMatch::Other),
            ("xreferences/api.md", NameMatch::Other),
            ("", NameMatch::Other),
        ];
        for (name, expected) in table {
            assert_eq!(match_name(name, path), expected, "{name}");
        }
    }

    #[test]
    fn quoted_name_parses_back() {
        for name in ["a/plain.md", "a/with \"quotes\" \\ and\ttab\u{1}", "a/näme.md ", "a/x\n"] {
            assert_eq!(parse_name(&quote_name(name)), name);
        }
        assert_eq!(parse_name("\"a/n\\303\\244me.md\"\t2026-01-01"), "a/näme.md");
        assert_eq!(parse_name("a/SKILL.md\t2026-11-22 02:47:55 +0000"), "a/SKILL.md");
        assert_eq!(parse_name("\"open\\"), "open\\");
        let both = |text| parse_git_names(text).unwrap();
        assert_eq!(
            both("a/my file.md b/my file.md"),
            ("a/my file.md".into(), "b/my file.md".into())
        );
        assert_eq!(both("a/x.md b/y.md"), ("a/x.md".into(), "b/y.md".into()));
        assert_eq!(both("\"a/\\303\\244\" \"b/\\303\\244\""), ("a/ä".into(), "b/ä".into()));
        assert_eq!(parse_git_names("nonsense"), None);
    }
}
