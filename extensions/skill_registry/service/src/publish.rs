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

use serde_json::Value;
use skill_catalog::{CreatedSkill, RegistryError, Skill, SkillBytes, Snapshot, Store};
use skill_format::{Digest, sanitize_line};

mod argument;
mod entry;
mod file;
mod frontmatter;
mod limits;
mod listed;
mod prompt;
mod publication;
mod strict;
mod uri;

pub use entry::{ManifestFile, PublishedEntries, SkillEntry};
pub use file::{published_directory, read_published};
pub(crate) use frontmatter::read_frontmatter;
pub use publication::{SkillDetailsBatch, SkillPublication};
pub use strict::explain_unlisted;
pub use uri::{UriTarget, locate_uri};

use entry::{CachedEntry, CachedFile};
use limits::{MAX_BYTES, MAX_FILES};
pub(crate) use listed::{FileListing, ListedFile};

/// A builder of entries that caches the digests of unchanged files.
#[derive(Debug, Default)]
pub struct SkillPublisher {
    kept: Mutex<HashMap<String, CachedEntry>>,
    /// The number of entries built with new content.
    made: AtomicU64,
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
    /// [`NotFound`](skillhost_payload::ErrorKind::NotFound) if its directory is gone,
    /// [`Io`](skillhost_payload::ErrorKind::Io) if it cannot be read and no good text of it is held.
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
        let (manifest, files) = build_manifest(store, &dir, skill, &listing, &text, known);
        let settled = text.signature.is_some() && files.iter().all(|file| file.settled);
        let entry = SkillEntry { unapproved_by, ..describe(skill, &text, manifest) };
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
fn describe(skill: &Skill, text: &SkillBytes, files: Option<Vec<ManifestFile>>) -> SkillEntry {
    let name = skill.name().to_owned();
    let (mut frontmatter, unlisted) = match strict::read_strictly(&text.bytes) {
        Ok(read) => {
            // The index may be of an earlier text.
            let other = (read["name"] != *name)
                .then(|| format!("the name in SKILL.md is not `{}`", sanitize_line(&name)));
            (read, other)
        }
        Err(reason) => (frontmatter::read_frontmatter(&text.decoded), Some(reason)),
    };
    frontmatter.insert("name".to_owned(), name.into());
    if frontmatter.get("description").and_then(Value::as_str).is_none() {
        let description = text.frontmatter.description.clone();
        frontmatter.insert("description".to_owned(), description.into());
    }
    SkillEntry {
        id: skill.id().to_string(),
        frontmatter,
        files,
        unapproved_by: None,
        arguments: argument::read_arguments(&text.frontmatter),
        unlisted,
    }
}

/// Builds the manifest of a skill and the cache of its files.
fn build_manifest(
    store: &Store,
    dir: &cap_std::fs::Dir,
    skill: &Skill,
    listing: &FileListing,
    text: &SkillBytes,
    known: &[CachedFile],
) -> (Option<Vec<ManifestFile>>, Vec<CachedFile>) {
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
        return (None, remembered);
    }
    (Some(files), remembered)
}
