//! The files of a published skill, with the `stat` result of each.

use std::io;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use skill_catalog::{FileSignature, SkillFile};
use skillhost_files::jail::RelPath;
use skillhost_files::temporary::{is_leftover, is_temporary};

use super::entry::CachedEntry;
use crate::file_stamp::file_signature;

/// The limit on the entries of a skill's directory.
const MAX_ENTRIES: usize = 5_000;

/// The limit on the depth of a skill's directory.
const MAX_DEPTH: usize = 8;

/// The name under which a skill's own file is published, however it is written on the disk.
pub(super) const SKILL_MD: &str = "SKILL.md";

/// Directories that are not part of a published skill.
pub(super) const HIDDEN: [&str; 2] = [".git", "node_modules"];

/// A file that can be published.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedFile {
    /// The path as it is published.
    pub(crate) path: String,
    pub(crate) signature: FileSignature,
}

/// The files of a skill.
#[derive(Debug, Default)]
pub(crate) struct FileListing {
    /// SKILL.md first, then by path.
    pub(crate) files: Vec<ListedFile>,
    /// `true` if a limit cut the list.
    pub(super) cut: bool,
    seen: usize,
}

impl FileListing {
    /// Lists the publishable files of a skill whose own file has a name.
    pub(crate) fn list(dir: &Dir, own: SkillFile) -> io::Result<Self> {
        let mut listing = Self::default();
        listing.enter(dir, "", 0)?;
        if own == SkillFile::Lower {
            let other = SkillFile::Lower.name();
            listing.files.iter_mut().filter(|file| file.path == other).for_each(|file| {
                SKILL_MD.clone_into(&mut file.path);
            });
        }
        let key = |file: &ListedFile| (file.path != SKILL_MD, file.path.clone());
        listing.files.sort_by_cached_key(key);
        Ok(listing)
    }

    fn enter(&mut self, dir: &Dir, prefix: &str, depth: usize) -> io::Result<()> {
        for entry in dir.entries()? {
            let entry = entry?;
            self.seen += 1;
            if self.seen > MAX_ENTRIES {
                self.cut = true;
                return Ok(());
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = entry.file_type()?;
            if is_temporary(&name) || !kind.is_dir() && is_leftover(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if kind.is_file() {
                // The entry was removed after the listing.
                let Ok(metadata) = entry.metadata() else { continue };
                if RelPath::new(&path).is_ok() {
                    self.files.push(ListedFile { path, signature: file_signature(&metadata) });
                }
            } else if kind.is_dir() && !HIDDEN.contains(&name.as_str()) {
                if depth >= MAX_DEPTH {
                    self.cut = true;
                } else if let Ok(below) = dir.open_dir_nofollow(&name) {
                    self.enter(&below, &format!("{path}/"), depth + 1)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the files are the same as when an entry was built.
    pub(super) fn is_unchanged(&self, kept: &CachedEntry) -> bool {
        self.files.len() == kept.files.len()
            && self
                .files
                .iter()
                .zip(kept.files.iter())
                .all(|(now, then)| now.signature == then.signature && now.path == then.path)
    }
}
