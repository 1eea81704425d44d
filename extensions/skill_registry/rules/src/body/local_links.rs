//! The local paths in a body: targets of its links and of its inline code in the file system.

use std::borrow::Cow;

use super::MarkdownBody;

/// A path in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLink {
    /// The classified target.
    pub(crate) place: LocalTarget,
    /// The byte offset in the file.
    pub(crate) at: usize,
    /// Whether it is inline code instead of a link.
    pub(crate) is_code: bool,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalTarget {
    /// A path inside the skill: relative to its directory, without `.` and `..`.
    Inside(String),
    /// A path above the skill's directory.
    Outside(String),
    /// A path from the root of the file system, of a drive, or of a home directory.
    Absolute(String),
}

/// The directories that the specification names.
const DIRECTORIES: [&str; 3] = ["assets/", "references/", "scripts/"];

/// Returns the local targets of links, and the paths in inline code that start with one of the
/// specification's directories, in the order of the file; `text` is the text of the whole file.
pub(crate) fn find_local_links(markdown: &MarkdownBody, text: &str) -> Vec<LocalLink> {
    let mut all = Vec::new();
    for link in &markdown.links {
        if let Some(place) = classify_target(&link.target) {
            all.push(LocalLink { place, at: link.range.start, is_code: false });
        }
    }
    for code in &markdown.code_spans {
        let content = &text[code.content.clone()];
        let path = content.strip_prefix("./").unwrap_or(content);
        // Other inline code is mostly commands and names, not paths of the skill.
        let is_path = DIRECTORIES.iter().any(|dir| path.starts_with(dir))
            && path.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
        if let Some(place) = is_path.then(|| classify_target(path)).flatten() {
            all.push(LocalLink { place, at: code.range.start, is_code: true });
        }
    }
    // Links and code were collected one after the other.
    all.sort_by_key(|link| link.at);
    all
}

/// Classifies the target of a link. Returns `None` for a web address, an anchor in the same file or
/// a placeholder.
fn classify_target(target: &str) -> Option<LocalTarget> {
    let end = target.find(['#', '?']).unwrap_or(target.len());
    // Percent-encoding must not hide `..` from the checks below.
    let path = percent_decode(&target[..end]);
    let is_placeholder_byte =
        |byte| matches!(byte, b'{' | b'}' | b'<' | b'>' | b'$' | b'*' | b'|' | b'\n');
    let is_placeholder = path.bytes().any(is_placeholder_byte);
    if path.is_empty() || is_placeholder || path.contains("...") || path.starts_with("//") {
        return None;
    }
    match path.split_once(':') {
        // A single letter before the colon is a Windows drive, not a URL scheme.
        Some((drive, _)) if drive.len() == 1 && drive.as_bytes()[0].is_ascii_alphabetic() => {
            return Some(LocalTarget::Absolute(path.into_owned()));
        }
        Some((scheme, _)) if is_scheme(scheme) => return None,
        _ => {}
    }
    if path.starts_with('/') || path.starts_with("~/") {
        return Some(LocalTarget::Absolute(path.into_owned()));
    }
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                // `a/../../x` leaves the directory although it starts inside.
                if components.pop().is_none() {
                    return Some(LocalTarget::Outside(path.into_owned()));
                }
            }
            component => components.push(component),
        }
    }
    Some(LocalTarget::Inside(components.join("/")))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
}

/// Decodes percent-encoding; invalid sequences stay unchanged.
fn percent_decode(target: &str) -> Cow<'_, str> {
    if !target.contains('%') {
        return Cow::Borrowed(target);
    }
    let bytes = target.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |at: usize| {
            bytes
                .get(at)
                .and_then(|byte| char::from(*byte).to_digit(16))
                .and_then(|d| u8::try_from(d).ok())
        };
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high * 16 + low);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    // Encoded bytes that are not UTF-8 cannot name a listed file.
    String::from_utf8(out).map_or(Cow::Borrowed(target), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_classified() {
        let inside = |path: &str| Some(LocalTarget::Inside(path.to_owned()));
        let outside = |path: &str| Some(LocalTarget::Outside(path.to_owned()));
        let absolute = |path: &str| Some(LocalTarget::Absolute(path.to_owned()));
        let cases = [
            ("references/a.md", inside("references/a.md")),
            ("./a//b/../c.md#x", inside("a/c.md")),
            ("a%20b.md?x", inside("a b.md")),
            ("100%.md", inside("100%.md")),
            ("%FF.md", inside("%FF.md")),
            ("a/..", inside("")),
            ("é.md", inside("é.md")),
            ("../x.md", outside("../x.md")),
            ("a/../../x.md", outside("a/../../x.md")),
            ("%2e%2e/x.md", outside("../x.md")),
            ("/etc/passwd", absolute("/etc/passwd")),
            ("~/x", absolute("~/x")),
            ("C:\\x", absolute("C:\\x")),
            ("https://e.org/../x", None),
            ("mailto:a@e.org", None),
            ("//e.org/x", None),
            ("#top", None),
            ("", None),
            ("{url}", None),
            ("<file>", None),
            ("...", None),
        ];
        for (target, expected) in cases {
            assert_eq!(classify_target(target), expected, "{target}");
        }
    }
}
