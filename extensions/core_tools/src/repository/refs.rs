//! References: branches, tags and `HEAD`.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use cap_std::fs::Dir;

use super::error::GitError;
use super::file::{MAX_FILE, read_file};
use super::object_id::ObjectId;

/// The largest number of symbolic references in a row.
const MAX_STEPS: usize = 5;

/// The largest file of one reference, in bytes.
const MAX_REF: u64 = 4 << 10;

/// The references of a repository.
pub(super) struct RefStore {
    git: Dir,
    packed: OnceCell<BTreeMap<String, ObjectId>>,
}

/// The checked-out branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The complete name of the branch; `None` if a commit is checked out.
    pub(crate) branch: Option<String>,
    /// The commit; `None` before the first one.
    pub(crate) id: Option<ObjectId>,
}

enum RefTarget {
    Symbolic(String),
    Object(ObjectId),
}

impl RefStore {
    pub(super) fn new(git: Dir) -> Self {
        Self { git, packed: OnceCell::new() }
    }

    fn packed(&self) -> Result<&BTreeMap<String, ObjectId>, GitError> {
        if let Some(packed) = self.packed.get() {
            return Ok(packed);
        }
        let text = read_file(&self.git, "packed-refs", MAX_FILE)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // Lines with `#` and `^` are comments and the targets of tags.
        let parse = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.trim().to_owned(), ObjectId::from_hex(id)?))
        };
        let packed = text.lines().filter_map(parse).collect();
        Ok(self.packed.get_or_init(|| packed))
    }

    fn read(&self, name: &str) -> Result<Option<RefTarget>, GitError> {
        if let Some(bytes) = read_file(&self.git, name, MAX_REF)? {
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim();
            if let Some(target) = text.strip_prefix("ref:") {
                return Ok(Some(RefTarget::Symbolic(target.trim().to_owned())));
            }
            if let Some(id) = ObjectId::from_hex(text) {
                return Ok(Some(RefTarget::Object(id)));
            }
        }
        Ok(self.packed()?.get(name).copied().map(RefTarget::Object))
    }

    /// Returns the object of a reference by its complete name.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<ObjectId>, GitError> {
        let mut name = name.to_owned();
        for _ in 0..MAX_STEPS {
            // Other names in `.git` are files of another kind.
            if name != "HEAD" && !name.starts_with("refs/") {
                return Ok(None);
            }
            match self.read(&name)? {
                Some(RefTarget::Object(id)) => return Ok(Some(id)),
                Some(RefTarget::Symbolic(target)) => name = target,
                None => return Ok(None),
            }
        }
        Err(GitError::Damaged("references refer to each other"))
    }

    /// Returns the reference that a symbolic one names.
    pub(super) fn symbolic_target(&self, name: &str) -> Result<Option<String>, GitError> {
        Ok(match self.read(name)? {
            Some(RefTarget::Symbolic(target)) => Some(target),
            Some(RefTarget::Object(_)) | None => None,
        })
    }

    pub(super) fn head(&self) -> Result<Head, GitError> {
        match self.read("HEAD")? {
            Some(RefTarget::Object(id)) => Ok(Head { branch: None, id: Some(id) }),
            Some(RefTarget::Symbolic(branch)) => {
                let id = self.resolve(&branch)?;
                Ok(Head { branch: Some(branch), id })
            }
            None => Err(GitError::Damaged("it has no HEAD")),
        }
    }

    /// Finds a reference or an object by a name that people write.
    pub(super) fn find(&self, name: &str) -> Result<Option<ObjectId>, GitError> {
        if let Some(id) = ObjectId::from_hex(name) {
            return Ok(Some(id));
        }
        let name = if name == "@" { "HEAD" } else { name };
        for prefix in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
            if let Some(id) = self.resolve(&format!("{prefix}{name}"))? {
                return Ok(Some(id));
            }
        }
        self.resolve(&format!("refs/remotes/{name}/HEAD"))
    }
}
