//! The objects of a repository: single files, and packs.

use std::io::Read as _;

use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError};

use super::delta::apply_delta;
use super::error::GitError;
use super::git_object::{GitObject, MAX_OBJECT, ObjectKind, inflate};
use super::object_id::ObjectId;
use super::pack::{Pack, PackedObject};
use crate::walk::WalkControl;

/// The largest number of packs: each has two open files.
const MAX_PACKS: usize = 200;

/// The shortest beginning of an id that finds an object.
const MIN_PREFIX: usize = 6;

/// The objects of a repository.
pub(crate) struct ObjectStore {
    dir: Dir,
    packs: Vec<Pack>,
    control: WalkControl,
}

impl ObjectStore {
    pub(crate) fn open(git: &Dir, control: WalkControl) -> Result<Self, GitError> {
        let dir = jail::open_component(git, "objects").map_err(|error| match error {
            JailError::Io(error) => GitError::Io(error),
            _ => GitError::Damaged("it has no directory `objects`"),
        })?;
        let mut packs = Vec::new();
        if let Ok(folder) = jail::open_component(&dir, "pack") {
            let mut names: Vec<String> = folder
                .entries()?
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.starts_with("pack-") && name.ends_with(".idx"))
                .collect();
            if names.len() > MAX_PACKS {
                return Err(GitError::Unsupported("more than 200 packs"));
            }
            names.sort_unstable();
            for name in names {
                packs.push(Pack::open(&folder, &name)?);
            }
        }
        Ok(Self { dir, packs, control })
    }

    /// Reads an object.
    pub(crate) fn read(&self, id: ObjectId) -> Result<GitObject, GitError> {
        self.check_time()?;
        for pack in &self.packs {
            let Some(offset) = pack.find(&id)? else { continue };
            let PackedObject { base: mut object, deltas } = pack.read(offset)?;
            for delta in deltas.iter().rev() {
                // A long chain of small deltas can copy a large object thousands of times.
                self.check_time()?;
                object.data = apply_delta(&object.data, delta)
                    .ok_or(GitError::Damaged("a delta is malformed"))?;
            }
            return Ok(object);
        }
        self.read_loose(id)?.ok_or(GitError::NoObject(id))
    }

    fn check_time(&self) -> Result<(), GitError> {
        if self.control.is_over() { Err(GitError::TimedOut) } else { Ok(()) }
    }

    fn read_loose(&self, id: ObjectId) -> Result<Option<GitObject>, GitError> {
        let hex = id.to_string();
        let Ok(folder) = jail::open_component(&self.dir, &hex[..2]) else { return Ok(None) };
        let (file, metadata) = match jail::open_regular(&folder, &hex[2..]) {
            Ok(opened) => opened,
            Err(JailError::Io(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        let limit = MAX_OBJECT as u64 + 1024;
        if metadata.len() > limit {
            return Err(GitError::TooLarge(metadata.len()));
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        let inflated = inflate(&bytes, MAX_OBJECT + 64)?;
        parse_loose(inflated).ok_or(GitError::Damaged("an object is malformed")).map(Some)
    }

    /// Finds the object whose id begins with these digits, if it is the only one.
    pub(crate) fn find_by_prefix(&self, prefix: &str) -> Result<Option<ObjectId>, GitError> {
        let is_hex = prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || prefix.len() < MIN_PREFIX || prefix.len() > 2 * ObjectId::LENGTH {
            return Ok(None);
        }
        let prefix = prefix.to_ascii_lowercase();
        let mut found = Vec::new();
        for pack in &self.packs {
            found.extend(pack.find_by_prefix(&prefix)?);
        }
        if let Ok(folder) = jail::open_component(&self.dir, &prefix[..2]) {
            for entry in folder.entries()?.flatten() {
                let name = entry.file_name();
                let hex = format!("{}{}", &prefix[..2], name.to_string_lossy());
                found.extend(ObjectId::from_hex(&hex).filter(|_| hex.starts_with(&prefix)));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(if found.len() == 1 { found.pop() } else { None })
    }
}

fn parse_loose(inflated: Vec<u8>) -> Option<GitObject> {
    let end = inflated.iter().take(64).position(|byte| *byte == 0)?;
    let header = std::str::from_utf8(&inflated[..end]).ok()?;
    let (kind, size) = header.split_once(' ')?;
    let kind = match kind {
        "commit" => ObjectKind::Commit,
        "tree" => ObjectKind::Tree,
        "blob" => ObjectKind::Blob,
        "tag" => ObjectKind::Tag,
        _ => return None,
    };
    let size: usize = size.parse().ok()?;
    let mut data = inflated;
    data.drain(..=end);
    (size == data.len()).then_some(GitObject { kind, data })
}
