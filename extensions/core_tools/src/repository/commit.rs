//! Commits and tags.

use super::object_id::ObjectId;

/// A commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its files; `None` never occurs in a parsed commit.
    pub(crate) tree: Option<ObjectId>,
    pub(crate) parents: Vec<ObjectId>,
    /// The author, as `Name <mail>`.
    pub(crate) author: String,
    /// When it was committed, in seconds since 1970.
    pub(crate) committed: i64,
    /// When it was written, in seconds since 1970.
    pub(crate) authored: i64,
    pub(crate) message: String,
}

/// Parses a commit; `None` if it is malformed.
pub(crate) fn parse_commit(bytes: &[u8]) -> Option<Commit> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut commit = Commit::default();
    for line in head.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "tree" if commit.tree.is_none() => commit.tree = Some(ObjectId::from_hex(value)?),
            "parent" => commit.parents.push(ObjectId::from_hex(value)?),
            "author" => (commit.author, commit.authored) = parse_person(value),
            "committer" => commit.committed = parse_person(value).1,
            // Signatures, encodings and their continued lines.
            _ => {}
        }
    }
    commit.tree?;
    let message = bytes.get(end + 2..).unwrap_or_default();
    commit.message = String::from_utf8_lossy(message).trim_end().to_owned();
    Some(commit)
}

/// Parses `Name <mail> SECONDS ZONE`.
fn parse_person(text: &str) -> (String, i64) {
    let Some(end) = text.rfind('>') else { return (text.to_owned(), 0) };
    let time = text[end + 1..].split_whitespace().next();
    (text[..=end].to_owned(), time.and_then(|time| time.parse().ok()).unwrap_or(0))
}

/// Returns the object that a tag names.
pub(super) fn tagged_object(bytes: &[u8]) -> Option<ObjectId> {
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    ObjectId::from_hex(std::str::from_utf8(first).ok()?.strip_prefix("object ")?)
}
