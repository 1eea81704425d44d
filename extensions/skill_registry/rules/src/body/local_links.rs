//! The paths that a body names: where its links and its inline code lead within the file system.

use std::borrow::Cow;

use crate::subject::SkillDocument;

/// A path in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLink {
    /// Where it leads.
    pub(crate) place: LocalTarget,
    /// The byte of the file at which it stands.
    pub(crate) at: usize,
    /// Whether it is inline code, not a link.
    pub(crate) is_code: bool,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalTarget {
    /// Into the skill: the path from its directory, without `.` and `..`.
    Inside(String),
    /// Above the skill's directory.
    Outside(String),
    /// From the root of the file system, of a drive, or of somebody's home.
    Absolute(String),
}

/// The folders that the specification names.
const FOLDERS: [&str; 3] = ["assets/", "references/", "scripts/"];

/// Returns the paths that the links of a body lead to, and those that its inline code names with
/// one of the specification's folders in front, in the order of the file.
pub(crate) fn find_local_links(skill: &SkillDocument<'_>) -> Vec<LocalLink> {
    let markdown = skill.markdown();
    let mut all = Vec::new();
    for link in &markdown.links {
        if let Some(place) = classify_target(&link.target) {
            all.push(LocalLink { place, at: link.range.start, is_code: false });
        }
    }
    for code in &markdown.code_spans {
        let text = &skill.text()[code.content.clone()];
        let path = text.strip_prefix("./").unwrap_or(text);
        let is_path = FOLDERS.iter().any(|folder| path.starts_with(folder))
            && path.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
        if let Some(place) = is_path.then(|| classify_target(path)).flatten() {
            all.push(LocalLink { place, at: code.range.start, is_code: true });
        }
    }
    all.sort_by_key(|link| link.at);
    all
}

/// Tells where a link's target leads; nothing if it is a web address, a place in the same file or
/// a placeholder.
fn classify_target(target: &str) -> Option<LocalTarget> {
    let end = target.find(['#', '?']).unwrap_or(target.len());
    let path = decoded(&target[..end]);
    let stands_in = |byte| matches!(byte, b'{' | b'}' | b'<' | b'>' | b'$' | b'*' | b'|' | b'\n');
    let is_placeholder = path.bytes().any(stands_in);
    if path.is_empty() || is_placeholder || path.contains("...") || path.starts_with("//") {
        return None;
    }
    match path.split_once(':') {
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

/// Undoes percent-encoding; what is not valid stays as it is.
fn decoded(target: &str) -> Cow<'_, str> {
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
    String::from_utf8(out).map_or(Cow::Borrowed(target), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sorted_by_where_they_lead() {
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
