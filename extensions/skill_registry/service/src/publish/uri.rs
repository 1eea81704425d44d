//! URIs of skills and their files, there and back.

use std::sync::Arc;

use skill_catalog::{Audience, RegistryError, Skill, Snapshot};
use skillhost_payload::ErrorKind;

use super::listed::SKILL_MD;
use crate::tools::find_visible;

const SCHEME: &str = "skill://";

/// A parsed `skill://` URI.
#[derive(Clone, Debug)]
pub struct UriTarget {
    /// The skill.
    pub skill: Arc<Skill>,
    /// The path below the skill's directory, decoded; empty for the directory itself.
    pub path: String,
}

/// Finds the skill and the path that a URI names.
///
/// The path need not exist. Escapes are decoded once, so that `%252e` is the name `%2e`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a URI that does not name a file, [`ErrorKind::NotFound`] for
/// an unknown skill, [`ErrorKind::Denied`] for a skill that this audience is not offered.
pub fn locate_uri(
    snapshot: &Snapshot,
    audience: Audience<'_>,
    uri: &str,
) -> Result<UriTarget, RegistryError> {
    let rest =
        uri.strip_prefix(SCHEME).ok_or_else(|| malformed("it does not start with skill://"))?;
    if rest.contains(['?', '#']) {
        return Err(malformed("it has a query or a fragment"));
    }
    let mut segments =
        rest.split('/').map(decode_segment).collect::<Result<Vec<_>, _>>()?.into_iter();
    let id = segments.next().unwrap_or_default();
    let skill = published_skill(snapshot, audience, &id)?;
    let mut segments = segments.peekable();
    if let Some(name) = name_segment(skill)
        && segments.next().as_deref() != Some(name)
    {
        return Err(RegistryError::not_found(
            "no skill has this URI".to_owned(),
            vec![root_uri(skill)],
            "skills/list has the URIs",
        ));
    }
    Ok(UriTarget { skill: Arc::clone(skill), path: segments.collect::<Vec<_>>().join("/") })
}

/// Looks a published skill up by its id alone.
pub(super) fn published_skill<'s>(
    snapshot: &'s Snapshot,
    audience: Audience<'_>,
    id: &str,
) -> Result<&'s Arc<Skill>, RegistryError> {
    let skill = find_visible(snapshot, id, audience)?;
    // `find_visible` also accepts `id@label`, which has no URI.
    if skill.id().as_str() != id {
        return Err(RegistryError::not_found(
            format!("skill `{id}` not found"),
            Vec::new(),
            "a skill that another one shadows is not published",
        ));
    }
    Ok(skill)
}

/// Returns the URI of a skill's directory, without a slash at the end, and that of its SKILL.md.
#[must_use]
pub(crate) fn skill_uris(skill: &Skill) -> (String, String) {
    let root = root_uri(skill);
    let uri = join_path(&root, SKILL_MD);
    (root, uri)
}

/// Returns the URI of a skill's directory.
pub(super) fn root_uri(skill: &Skill) -> String {
    let mut uri = String::from(SCHEME);
    encode(skill.id().as_str(), &mut uri);
    if let Some(name) = name_segment(skill) {
        uri.push('/');
        uri.push_str(name);
    }
    uri
}

/// Returns the URI of a path below a directory.
pub(super) fn join_path(root: &str, path: &str) -> String {
    let mut uri = String::with_capacity(root.len() + path.len() + 1);
    uri.push_str(root);
    for component in path.split('/') {
        uri.push('/');
        encode(component, &mut uri);
    }
    uri
}

/// Returns whether a name can be in a URI as it is: clients compare it with the segment undecoded.
pub(super) fn is_uri_safe(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.bytes().all(is_unreserved)
}

/// Returns the name as the segment after the id, where the id is not the name.
fn name_segment(skill: &Skill) -> Option<&str> {
    let name = skill.name();
    // An id that has to be escaped would not be read back as the name.
    (is_uri_safe(name) && name != skill.id().as_str()).then_some(name)
}

/// Returns whether a byte is unreserved in a segment (RFC 3986, `reg-name` and `segment`).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn encode(text: &str, uri: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if is_unreserved(byte) {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            uri.push(char::from(HEX[usize::from(byte >> 4)]));
            uri.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

fn decode_segment(segment: &str) -> Result<String, RegistryError> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (&[high, low], after) =
            rest.split_first_chunk().ok_or_else(|| malformed("an escape is cut off"))?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (Some(high), Some(low)) = (digit(high), digit(low)) else {
            return Err(malformed("an escape has no two hexadecimal digits"));
        };
        bytes.push((high * 16 + low) as u8);
        rest = after;
    }
    match String::from_utf8(bytes) {
        // It would become two components.
        Ok(text) if text.contains('/') => Err(malformed("a segment has an escaped slash")),
        Ok(text) => Ok(text),
        Err(_) => Err(malformed("it is not UTF-8")),
    }
}

fn malformed(what: &str) -> RegistryError {
    RegistryError::new(
        ErrorKind::InvalidArgument,
        format!("not a valid URI of a skill's file: {what}"),
        "write skill://<skill-id>/<path>, as skills/list has it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_through_uris() {
        for name in ["a", "a b", "a/b c", "ü/技能.md", "%2e%2e/x", "a%", "#?&=+/;:@[]", "\0\n"] {
            let uri = join_path("skill://demo", name);
            assert!(uri.is_ascii() && !uri.contains(['#', '?', ' ']), "{uri}");
            let segments: Vec<String> = uri["skill://demo/".len()..]
                .split('/')
                .map(|s| decode_segment(s).unwrap())
                .collect();
            assert_eq!(segments.join("/"), name);
        }
        assert_eq!(join_path("skill://demo", "a b/ü.md"), "skill://demo/a%20b/%C3%BC.md");
    }

    #[test]
    fn broken_escapes_are_rejected() {
        for segment in ["%", "%2", "a%zz", "%+1", "%2f", "%c0%af", "%ff", "%u2215"] {
            assert_eq!(
                decode_segment(segment).unwrap_err().kind,
                ErrorKind::InvalidArgument,
                "{segment}"
            );
        }
        assert_eq!(decode_segment("%252e").unwrap(), "%2e");
    }

    #[test]
    fn only_plain_names_are_unescaped() {
        let standing = ["a", "code-review", "A_b.c~", "v1.0(x)"].map(is_uri_safe);
        assert_eq!(standing, [true; 4]);
        let falling =
            ["", ".", "..", "a b", "a/b", "ü", "a%20b", "a?b", "a#b", "a:b"].map(is_uri_safe);
        assert_eq!(falling, [false; 10]);
    }
}
