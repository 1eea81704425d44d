//! The paths that a body names: where its links and its inline code lead within the file system.

use skill_format::Span;

use crate::subject::Subject;

/// A path in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalLink {
    /// Where it leads.
    pub(crate) place: Place,
    /// Where it stands.
    pub(crate) span: Span,
    /// Whether it is inline code, not a link.
    pub(crate) is_code: bool,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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
pub(crate) fn local_links(skill: &Subject<'_>) -> Vec<LocalLink> {
    let markdown = skill.markdown();
    let links = markdown.links.iter().filter_map(|link| {
        Some(LocalLink { place: place(&link.target)?, span: link.span, is_code: false })
    });
    let code = markdown.code_spans.iter().filter_map(|code| {
        let path = code.text.strip_prefix("./").unwrap_or(&code.text);
        let is_path = FOLDERS.iter().any(|folder| path.starts_with(folder))
            && path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c))
            && !path.contains("...");
        is_path.then(|| Some(LocalLink { place: place(path)?, span: code.span, is_code: true }))?
    });
    let mut all: Vec<_> = links.chain(code).collect();
    all.sort_by_key(|link| link.span);
    all
}

/// Tells where a link's target leads; nothing if it is a web address, a place in the same file or
/// a placeholder.
fn place(target: &str) -> Option<Place> {
    let end = target.find(['#', '?']).unwrap_or(target.len());
    let path = decoded(&target[..end]);
    let is_placeholder = path.contains(['{', '}', '<', '>', '$', '*', '|', '\n']);
    if path.is_empty() || is_placeholder || path.contains("...") || path.starts_with("//") {
        return None;
    }
    match path.split_once(':') {
        Some((drive, _)) if drive.len() == 1 && drive.as_bytes()[0].is_ascii_alphabetic() => {
            return Some(Place::Absolute(path));
        }
        Some((scheme, _)) if is_scheme(scheme) => return None,
        _ => {}
    }
    if path.starts_with('/') || path.starts_with("~/") {
        return Some(Place::Absolute(path));
    }
    let mut components: Vec<&str> = Vec::new();
    for component in path.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                if components.pop().is_none() {
                    return Some(Place::Outside(path));
                }
            }
            component => components.push(component),
        }
    }
    Some(Place::Inside(components.join("/")))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
}

/// Undoes percent-encoding; what is not valid stays as it is.
fn decoded(target: &str) -> String {
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
    String::from_utf8(out).unwrap_or_else(|_| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sorted_by_where_they_lead() {
        let inside = |path: &str| Some(Place::Inside(path.to_owned()));
        let outside = |path: &str| Some(Place::Outside(path.to_owned()));
        let absolute = |path: &str| Some(Place::Absolute(path.to_owned()));
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
            assert_eq!(place(target), expected, "{target}");
        }
    }
}
