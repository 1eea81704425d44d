//! Skills as the Skills extension of MCP publishes them: entries with a manifest, files and
//! directories under `skill://` URIs.
//!
//! This module is independent of the protocol: the server maps these values to its messages. A
//! skill's files are `skill://<id>/<path>`, or `skill://<id>/<name>/<path>` if the frontmatter has
//! another name than the directory, because the last segment before `SKILL.md` is the name. Every
//! file in the manifest can be read, byte for byte; links, special files, `.git` and `node_modules`
//! are not part of a published skill.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use skill_catalog::{
    CreatedSkill, FileSignature, RegistryError, Skill, SkillBytes, Snapshot, Store, TrustLevel,
};
use skill_format::{Digest, sanitize_line};

mod argument;
mod file;
mod frontmatter;
mod listed;
mod prompt;
mod publication;
mod strict;
mod uri;

pub use argument::PromptArgument;
pub use file::{DirectoryChild, FileContent, PublishedFile, published_directory, read_published};
pub use prompt::SkillPrompt;
pub use publication::{
    FileBody, FileBodyContent, FileDetails, SkillDetails, SkillDetailsBatch, SkillPublication,
    SkillSummaries, SkillSummary,
};
pub use strict::explain_unlisted;
pub use uri::{UriTarget, locate_uri};

use listed::{FileListing, ListedFile};

/// The limit on the files of a skill with a published manifest.
const MAX_FILES: usize = 512;

/// The limit on the total bytes of a skill with a published manifest.
const MAX_BYTES: u64 = 16 << 20;

/// A published skill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkillEntry {
    /// The skill's id.
    pub id: String,
    /// The URI of its SKILL.md.
    pub uri: String,
    /// The URI of its directory, without a slash at the end.
    pub root: String,
    /// The frontmatter's name; the id where it has none.
    pub name: String,
    /// The description as written.
    pub description: String,
    /// The frontmatter with every key, values as the author wrote them.
    pub frontmatter: Map<String, Value>,
    /// Its files.
    pub resources: FileManifest,
    /// The label of the root it was found in.
    pub source: String,
    /// The trust in its root.
    pub trust: TrustLevel,
    /// The agent that created it, until a person approves its current files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unapproved_by: Option<String>,
    /// `true` if models are offered the skill.
    pub model_invocable: bool,
    /// `true` if users get a prompt for it.
    pub user_invocable: bool,
    /// A hint about the arguments of its prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The arguments of its prompt.
    pub arguments: Vec<PromptArgument>,
    /// The reason why the entry is not in `skills/list`: a strict parser would reject it. Its files
    /// are still served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// The files of a published skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileManifest {
    /// All files, SKILL.md first, then by path.
    Files(Vec<ManifestFile>),
    /// The skill has more files or bytes than a manifest may have, or a file too large for an answer;
    /// on the wire `"dynamic"`.
    Dynamic,
}

impl Serialize for FileManifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Files(files) => files.serialize(serializer),
            Self::Dynamic => serializer.serialize_str("dynamic"),
        }
    }
}

/// A file of a published skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestFile {
    /// Its URI.
    pub uri: String,
    /// Its path below the skill's directory.
    pub path: String,
    /// The SHA-256 of its bytes; on the wire after `sha256:`.
    #[serde(serialize_with = "with_algorithm")]
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// The MIME type, if the extension is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<&'static str>,
    /// `true` if a user has execute permission; not on the wire.
    #[serde(skip)]
    pub executable: bool,
}

fn with_algorithm<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("sha256:{digest}"))
}

/// The entries of several skills, and the reasons for omitted ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedEntries {
    /// The entries, in the order of the skills.
    pub entries: Vec<Arc<SkillEntry>>,
    /// The skills that cannot be read at the moment, each with the reason.
    pub left_out: Vec<(String, RegistryError)>,
}

/// A builder of entries that caches the digests of unchanged files.
#[derive(Debug, Default)]
pub struct SkillPublisher {
    kept: Mutex<HashMap<String, CachedEntry>>,
    /// The number of entries built with new content.
    made: AtomicU64,
}

/// An entry with the `stat` results of its files.
#[derive(Clone, Debug)]
struct CachedEntry {
    entry: Arc<SkillEntry>,
    /// Changes whenever the entry does.
    serial: u64,
    files: Arc<[CachedFile]>,
    /// `true` if only a changed stamp can change the entry.
    settled: bool,
}

/// The cached facts of one file.
#[derive(Clone, Debug)]
struct CachedFile {
    path: String,
    signature: FileSignature,
    /// `None` if the manifest is not published or the file cannot be read.
    digest: Option<Digest>,
    /// The stamp was old enough, when the file was read, to be trusted.
    settled: bool,
    /// The file can be read as a resource, as far as is known.
    fits: bool,
}

impl SkillPublisher {
    /// Creates a publisher with an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds the entries of skills of a snapshot. Unchanged files cost one `stat` each.
    pub fn entries<'s>(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        skills: impl IntoIterator<Item = &'s Arc<Skill>>,
    ) -> PublishedEntries {
        let mut published = PublishedEntries::default();
        for skill in skills {
            match self.entry(store, snapshot, skill) {
                Ok(entry) => published.entries.push(entry),
                Err(error) => published.left_out.push((skill.id().to_string(), error)),
            }
        }
        self.forget_what_is_gone(snapshot);
        published
    }

    /// Builds the entry of one skill.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](skill_catalog::ErrorKind::NotFound) if its directory is gone, [`ErrorKind::Io`](skill_catalog::ErrorKind::Io) if it cannot be read and
    /// no good text of it is held.
    pub fn entry(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        skill: &Skill,
    ) -> Result<Arc<SkillEntry>, RegistryError> {
        Ok(self.refresh(store, snapshot, skill)?.0)
    }

    /// Returns a number that changes whenever the entry of one of these skills does. Unchanged
    /// files cost one `stat` each.
    pub fn stamp<'s>(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        skills: impl IntoIterator<Item = &'s Arc<Skill>>,
    ) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Another publisher counts for itself.
        std::ptr::from_ref(self).addr().hash(&mut hasher);
        for skill in skills {
            skill.id().as_str().hash(&mut hasher);
            self.refresh(store, snapshot, skill).ok().map(|made| made.1).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Builds the entry of one skill, with its serial number.
    fn refresh(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        skill: &Skill,
    ) -> Result<(Arc<SkillEntry>, u64), RegistryError> {
        let key = skill.cache_key();
        let kept = self.lock().get(&key).cloned();
        // Opened once, so that the listing and the reads below see the same directory.
        let dir =
            skill.open_directory().map_err(|error| file::to_registry_error(error, skill, ""))?;
        let listing = FileListing::list(&dir, skill.file())
            .map_err(|error| file::to_registry_error(error.into(), skill, ""))?;
        let unapproved_by = snapshot.unapproved(skill).map(CreatedSkill::author_line);
        if let Some(kept) = &kept
            && kept.settled
            && kept.entry.unapproved_by == unapproved_by
            && listing.is_unchanged(kept)
        {
            return Ok((Arc::clone(&kept.entry), kept.serial));
        }
        let known = kept.as_ref().map_or(&[][..], |kept| &kept.files);
        let text = store.read_bytes(skill)?;
        let (resources, files) = manifest(store, &dir, skill, &listing, &text, known);
        let settled = text.signature.is_some() && files.iter().all(|file| file.settled);
        let entry = SkillEntry { unapproved_by, ..describe(skill, &text, resources) };
        let serial = match kept {
            // Read again for its stamps alone.
            Some(kept) if *kept.entry == entry => kept.serial,
            _ => self.made.fetch_add(1, Ordering::Relaxed),
        };
        let entry = Arc::new(entry);
        let kept = CachedEntry { entry: Arc::clone(&entry), serial, files: files.into(), settled };
        self.lock().insert(key, kept);
        Ok((entry, serial))
    }

    /// Drops the cached entries of removed skills once they outnumber the current ones.
    fn forget_what_is_gone(&self, snapshot: &Snapshot) {
        let mut kept = self.lock();
        // The slack avoids a pass over the cache at every call.
        if kept.len() > 2 * snapshot.skills().len() {
            let there: HashSet<String> =
                snapshot.skills().iter().map(|skill| skill.cache_key()).collect();
            kept.retain(|key, _| there.contains(key));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CachedEntry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the part of an entry that does not depend on a skill's other files.
fn describe(skill: &Skill, text: &SkillBytes, resources: FileManifest) -> SkillEntry {
    let root = uri::root_uri(skill);
    let name = skill.name().to_owned();
    let description = text.frontmatter.description.clone();
    let (mut frontmatter, unlisted) = match strict::read_strictly(&text.bytes) {
        Ok(read) => {
            // The index may be of an earlier text.
            let other = (read["name"] != *name)
                .then(|| format!("the name in SKILL.md is not `{}`", sanitize_line(&name)));
            (read, other)
        }
        Err(reason) => (frontmatter::read_frontmatter(&text.decoded), Some(reason)),
    };
    frontmatter.insert("name".to_owned(), name.clone().into());
    if frontmatter.get("description").and_then(Value::as_str).is_none() {
        frontmatter.insert("description".to_owned(), description.clone().into());
    }
    SkillEntry {
        id: skill.id().to_string(),
        uri: uri::join_path(&root, listed::SKILL_MD),
        root,
        name,
        description,
        frontmatter,
        resources,
        source: skill.source().to_owned(),
        trust: skill.trust(),
        unapproved_by: None,
        model_invocable: !text.frontmatter.disable_model_invocation,
        user_invocable: text.frontmatter.user_invocable,
        argument_hint: text.frontmatter.argument_hint.clone(),
        arguments: argument::read_arguments(&text.frontmatter),
        unlisted,
    }
}

/// Builds the manifest of a skill and the cache of its files.
fn manifest(
    store: &Store,
    dir: &cap_std::fs::Dir,
    skill: &Skill,
    listing: &FileListing,
    text: &SkillBytes,
    known: &[CachedFile],
) -> (FileManifest, Vec<CachedFile>) {
    let before: HashMap<&str, &CachedFile> =
        known.iter().map(|file| (file.path.as_str(), file)).collect();
    let now = store.now();
    let others = || listing.files.iter().filter(|file| file.path != listed::SKILL_MD);
    let bytes: u64 = others().map(|file| file.signature.size).sum();
    let dynamic = listing.cut
        || others().count() + 1 > MAX_FILES
        || bytes + text.bytes.len() as u64 > MAX_BYTES;
    let root = uri::root_uri(skill);
    let entry = |path: &str, digest: Digest, size: u64, mode: u32| ManifestFile {
        uri: uri::join_path(&root, path),
        path: path.to_owned(),
        digest,
        size,
        mime_type: file::known_mime(path),
        executable: cfg!(unix) && mode & 0o111 != 0,
    };
    // The last good text is served instead of the file on disk, so the digest has to be that of the
    // text.
    let own = Digest::compute(&text.bytes);
    let mut files = vec![entry(listed::SKILL_MD, own, text.bytes.len() as u64, 0)];
    let mut remembered = Vec::with_capacity(listing.files.len());
    for ListedFile { path, signature } in &listing.files {
        let unread = CachedFile {
            path: path.clone(),
            signature: *signature,
            digest: None,
            settled: dynamic,
            fits: true,
        };
        if path == listed::SKILL_MD {
            let settled = text.signature == Some(*signature) && !signature.is_racy(now);
            files[0].executable = cfg!(unix) && signature.mode & 0o111 != 0;
            remembered.push(CachedFile { digest: Some(own), settled, ..unread });
            continue;
        }
        let mut learned = match before.get(path.as_str()) {
            Some(known) if known.settled && known.signature == *signature => (*known).clone(),
            _ => unread,
        };
        if learned.digest.is_none() && !dynamic {
            learned.settled = false;
            if let Some(read) = file::hash_file(dir, path) {
                learned.digest = Some(read.digest);
                learned.signature = read.signature;
                learned.fits = read.fits;
                learned.settled = !read.torn && !read.signature.is_racy(now);
            }
        }
        if let Some(digest) = learned.digest {
            files.push(entry(path, digest, learned.signature.size, signature.mode));
        }
        remembered.push(learned);
    }
    let total: u64 = files.iter().map(|file| file.size).sum();
    // A file over the limit cannot be read and must not be in the manifest.
    if dynamic || total > MAX_BYTES || remembered.iter().any(|file| !file.fits) {
        return (FileManifest::Dynamic, remembered);
    }
    (FileManifest::Files(files), remembered)
}
