//! The entry of a published skill, and the facts by which a publisher keeps it.

use std::sync::Arc;

use serde_json::{Map, Value};
use skill_catalog::{FileSignature, RegistryError};
use skill_format::Digest;
use skillhost_payload::{PublishedArgument, PublishedDetails, PublishedFile};

/// A published skill, as read from its files.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillEntry {
    /// The skill's id.
    pub id: String,
    /// The frontmatter with every key, values as the author wrote them.
    pub frontmatter: Map<String, Value>,
    /// All files, SKILL.md first, then by path; `None` if the skill has more files or bytes than a
    /// manifest may have, or a file too large for an answer.
    pub files: Option<Vec<ManifestFile>>,
    /// The agent that created it, until a person approves its current files.
    pub unapproved_by: Option<String>,
    /// The arguments of its prompt.
    pub arguments: Vec<PublishedArgument>,
    /// The reason why the entry is not in `skills/list`: a strict parser would reject it. Its files
    /// are still served.
    pub unlisted: Option<String>,
}

/// A file of a published skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its URI.
    pub uri: String,
    /// Its path below the skill's directory.
    pub path: String,
    /// The SHA-256 of its bytes.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// `true` if a user has execute permission; not published.
    pub executable: bool,
}

/// The entries of several skills, and the reasons for omitted ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedEntries {
    /// The entries, in the order of the skills.
    pub entries: Vec<Arc<SkillEntry>>,
    /// The skills that cannot be read at the moment, each with the reason.
    pub left_out: Vec<(String, RegistryError)>,
}

impl SkillEntry {
    /// Returns the entry in the shape for clients.
    pub(super) fn to_details(&self) -> PublishedDetails {
        let to_file = |file: &ManifestFile| PublishedFile {
            uri: file.uri.clone(),
            path: file.path.clone(),
            size: file.size,
            sha256: file.digest.to_string(),
        };
        PublishedDetails {
            id: self.id.clone(),
            frontmatter: self.frontmatter.clone(),
            files: self.files.as_ref().map(|files| files.iter().map(to_file).collect()),
            arguments: self.arguments.clone(),
            unlisted: self.unlisted.clone(),
        }
    }
}

/// An entry with the `stat` results of its files.
#[derive(Clone, Debug)]
pub(super) struct CachedEntry {
    pub(super) entry: Arc<SkillEntry>,
    /// Changes whenever the entry does.
    pub(super) serial: u64,
    pub(super) files: Arc<[CachedFile]>,
    /// `true` if only a changed stamp can change the entry.
    pub(super) settled: bool,
}

/// The cached facts of one file.
#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    pub(super) path: String,
    pub(super) signature: FileSignature,
    /// `None` if the manifest is not published or the file cannot be read.
    pub(super) digest: Option<Digest>,
    /// The stamp was old enough, when the file was read, to be trusted.
    pub(super) settled: bool,
    /// The file can be read as a resource, as far as is known.
    pub(super) fits: bool,
}
