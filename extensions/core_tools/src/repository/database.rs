//! An open repository: its objects, references and index.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use cap_std::fs::Dir;

use super::commit::{Commit, parse_commit, tagged_object};
use super::error::GitError;
use super::file::{MAX_FILE, read_file};
use super::git_object::{GitObject, ObjectKind};
use super::index::{IndexEntry, modified_time, parse_index};
use super::object_id::ObjectId;
use super::objects::ObjectStore;
use super::refs::{Head, RefStore};
use crate::walk::WalkControl;

/// The index of a repository.
#[derive(Default)]
pub(crate) struct GitIndex {
    pub(crate) entries: Vec<IndexEntry>,
    /// When it was written, in seconds since 1970 and nanoseconds.
    pub(crate) written: (i64, u32),
}

/// An open repository.
pub(crate) struct Repository {
    git: Dir,
    objects: ObjectStore,
    refs: RefStore,
    shallow: OnceCell<BTreeSet<ObjectId>>,
}

impl Repository {
    /// Opens the repository with this `.git` directory. Objects are read until `control` ends the
    /// work, so no structure of them takes longer.
    pub(crate) fn open(git: Dir, control: &WalkControl) -> Result<Self, GitError> {
        if git.symlink_metadata("reftable").is_ok() {
            return Err(GitError::Unsupported("the reference format `reftable`"));
        }
        // One word of the configuration matters; the rest is not interpreted.
        let config = read_file(&git, "config", MAX_FILE)?.unwrap_or_default();
        let config = String::from_utf8_lossy(&config).to_ascii_lowercase();
        let mut lines = config.lines().map(|line| line.replace(' ', ""));
        if lines.any(|line| line.trim() == "objectformat=sha256") {
            return Err(GitError::Unsupported("the object format sha256"));
        }
        let objects = ObjectStore::open(&git, control.clone())?;
        let refs = RefStore::new(git.try_clone()?);
        Ok(Self { git, objects, refs, shallow: OnceCell::new() })
    }

    /// Returns the checked-out branch and its commit.
    pub(crate) fn head(&self) -> Result<Head, GitError> {
        self.refs.head()
    }

    /// Returns the default branch: that of the remote `origin`, else `main` or `master`.
    pub(crate) fn default_branch(
        &self,
        head: &Head,
    ) -> Result<Option<(String, ObjectId)>, GitError> {
        let remote = self.refs.symbolic_target("refs/remotes/origin/HEAD")?;
        let known = [
            "refs/remotes/origin/main",
            "refs/remotes/origin/master",
            "refs/heads/main",
            "refs/heads/master",
        ];
        for name in remote.iter().map(String::as_str).chain(known) {
            // A branch has no changes against itself.
            if head.branch.as_deref() == Some(name) {
                continue;
            }
            if let Some(id) = self.refs.resolve(name)? {
                return Ok(Some((short_ref(name).to_owned(), id)));
            }
        }
        Ok(None)
    }

    /// Finds the commit of a revision: a branch, a tag, an id or its beginning, or `HEAD`, with any
    /// number of `~N` and `^N` at the end.
    pub(crate) fn find_commit(&self, revision: &str) -> Result<ObjectId, GitError> {
        let unknown = || GitError::NoRevision(revision.chars().take(100).collect());
        let end = revision.find(['~', '^']).unwrap_or(revision.len());
        let (name, steps) = revision.split_at(end);
        let found = match self.refs.find(name)? {
            Some(id) => Some(id),
            None => self.objects.find_by_prefix(name)?,
        };
        let mut id = self.peel(found.ok_or_else(unknown)?)?.ok_or_else(unknown)?;
        let mut rest = steps;
        while !rest.is_empty() {
            let (is_first_parent, after) = match (rest.strip_prefix('~'), rest.strip_prefix('^')) {
                (Some(after), _) => (true, after),
                (None, Some(after)) => (false, after),
                (None, None) => return Err(unknown()),
            };
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (digits, after) = after.split_at(end);
            let number = match digits {
                "" => 1,
                digits => digits.parse::<usize>().map_err(|_| unknown())?,
            };
            rest = after;
            match number {
                number if is_first_parent => {
                    for _ in 0..number {
                        id = *self.commit(id)?.parents.first().ok_or_else(unknown)?;
                    }
                }
                0 => {}
                number => id = *self.commit(id)?.parents.get(number - 1).ok_or_else(unknown)?,
            }
        }
        Ok(id)
    }

    /// Follows tags to a commit; `None` for another object.
    fn peel(&self, mut id: ObjectId) -> Result<Option<ObjectId>, GitError> {
        for _ in 0..10 {
            let object = self.objects.read(id)?;
            match object.kind {
                ObjectKind::Commit => return Ok(Some(id)),
                ObjectKind::Tag => {
                    id = tagged_object(&object.data)
                        .ok_or(GitError::Damaged("a tag is malformed"))?;
                }
                ObjectKind::Tree | ObjectKind::Blob => return Ok(None),
            }
        }
        Err(GitError::Damaged("tags refer to each other"))
    }

    /// Reads a commit.
    pub(crate) fn commit(&self, id: ObjectId) -> Result<Commit, GitError> {
        let object = self.objects.read(id)?;
        let parsed = match object.kind {
            ObjectKind::Commit => parse_commit(&object.data),
            _ => None,
        };
        let mut commit = parsed.ok_or(GitError::Damaged("a commit is malformed"))?;
        if self.shallow()?.contains(&id) {
            // The parents of these are left out in a shallow clone.
            commit.parents.clear();
        }
        Ok(commit)
    }

    fn shallow(&self) -> Result<&BTreeSet<ObjectId>, GitError> {
        if let Some(shallow) = self.shallow.get() {
            return Ok(shallow);
        }
        let text = read_file(&self.git, "shallow", MAX_FILE)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(self.shallow.get_or_init(|| text.lines().filter_map(ObjectId::from_hex).collect()))
    }

    /// Reads the contents of a file.
    pub(crate) fn blob(&self, id: ObjectId) -> Result<Vec<u8>, GitError> {
        match self.objects.read(id)? {
            GitObject { kind: ObjectKind::Blob, data } => Ok(data),
            _ => Err(GitError::Damaged("a file is not stored as one")),
        }
    }

    /// Reads a directory.
    pub(super) fn tree(&self, id: ObjectId) -> Result<Vec<u8>, GitError> {
        match self.objects.read(id)? {
            GitObject { kind: ObjectKind::Tree, data } => Ok(data),
            _ => Err(GitError::Damaged("a directory is not stored as one")),
        }
    }

    /// Reads the index; an empty one if there is none.
    pub(crate) fn index(&self) -> Result<GitIndex, GitError> {
        let Some(bytes) = read_file(&self.git, "index", MAX_FILE)? else {
            return Ok(GitIndex::default());
        };
        let written = modified_time(&self.git.symlink_metadata("index")?);
        Ok(GitIndex { entries: parse_index(&bytes)?, written })
    }
}

/// Returns the name of a reference without its directory.
pub(crate) fn short_ref(name: &str) -> &str {
    ["refs/heads/", "refs/remotes/", "refs/tags/"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}
