//! The files that ship with the product: an installed copy, the source tree, or files that the
//! program contained and has unpacked.

use std::fmt;
use std::path::{Path, PathBuf};

/// The manifests, skills and SDK that belong to this executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Shipped `manifests/`.
    pub manifests: PathBuf,
    /// Shipped skills.
    pub skills: PathBuf,
    /// The documentation.
    pub docs: PathBuf,
    /// Sources of `skillhost-sdk`; those of the crates that it uses are in the same parent
    /// directory.
    pub sdk: PathBuf,
    /// `<prefix>/share/skillhost` of an installed copy, or the directory of unpacked files; `None` in
    /// the source tree.
    pub share_dir: Option<PathBuf>,
    /// The check of unpacked files; an installed copy has none.
    pub check: Option<FilesCheck>,
}

/// A function that returns whether the manifests and prompts in a directory are those of the program.
#[derive(Clone, Copy)]
pub struct FilesCheck(pub fn(&Path) -> bool);

impl fmt::Debug for FilesCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FilesCheck")
    }
}

impl PartialEq for FilesCheck {
    /// A program has one check.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FilesCheck {}

/// The outcome of the search for the files that belong to the program.
#[derive(Debug, Default)]
pub struct InstallationSearch {
    /// The files, if they were found.
    pub installation: Option<Installation>,
    /// The reason why the program could not unpack them, with a hint.
    pub failure: Option<(String, String)>,
    /// A repair of the unpacked files.
    pub note: Option<String>,
}

impl Installation {
    /// Finds the files of the running executable.
    #[must_use]
    pub fn from_current_exe() -> Option<Self> {
        let executable = std::env::current_exe().and_then(std::fs::canonicalize).ok()?;
        Self::from_exe(&executable)
    }

    /// Finds the files of an executable: `<exe>/../../share/skillhost`, else a source tree above.
    #[must_use]
    pub fn from_exe(executable: &Path) -> Option<Self> {
        let dir = executable.parent()?;
        let share = dir.parent()?.join("share/skillhost");
        if share.join("manifests").is_dir() {
            return Some(Self::from_share_dir(share));
        }
        // Two files, because a source tree of another project may contain one of the names.
        let tree = dir.ancestors().find(|dir| {
            dir.join("kernel/sdk/Cargo.toml").is_file()
                && dir.join("manifests/skill_registry/manifest.yaml").is_file()
        })?;
        Some(Self {
            manifests: tree.join("manifests"),
            skills: tree.join("sandbox/skills"),
            docs: tree.join("docs"),
            sdk: tree.join("kernel/sdk"),
            share_dir: None,
            check: None,
        })
    }

    /// Returns the files of a directory like `<prefix>/share/skillhost`.
    #[must_use]
    pub fn from_share_dir(share: PathBuf) -> Self {
        Self {
            manifests: share.join("manifests"),
            skills: share.join("skills"),
            docs: share.join("docs"),
            sdk: share.join("sdk/sdk"),
            share_dir: Some(share),
            check: None,
        }
    }

    /// Returns the directory whose manifests count in every home, if its files may be used.
    ///
    /// # Errors
    /// The directory, if files in it are not those that the program has unpacked.
    pub(crate) fn checked_share_dir(&self) -> Result<Option<&Path>, &Path> {
        match (self.share_dir.as_deref(), self.check) {
            (Some(dir), Some(FilesCheck(is_unchanged))) if !is_unchanged(dir) => Err(dir),
            (dir, _) => Ok(dir),
        }
    }
}

/// Returns the file name of the library with a base name.
#[must_use]
pub fn library_file_name(entrypoint: &str) -> String {
    format!("{}{entrypoint}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn installed_copy_beats_source_tree() {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path();
        let executable = tree.join("prefix/bin/skillhost");
        assert_eq!(Installation::from_exe(&executable), None);
        fs::create_dir_all(tree.join("kernel/sdk")).unwrap();
        fs::create_dir_all(tree.join("manifests/skill_registry")).unwrap();
        fs::write(tree.join("kernel/sdk/Cargo.toml"), "").unwrap();
        fs::write(tree.join("manifests/skill_registry/manifest.yaml"), "").unwrap();
        let found = Installation::from_exe(&executable).unwrap();
        assert_eq!((found.manifests, found.share_dir), (tree.join("manifests"), None));
        fs::create_dir_all(tree.join("prefix/share/skillhost/manifests")).unwrap();
        let found = Installation::from_exe(&executable).unwrap();
        assert_eq!(found.sdk, tree.join("prefix/share/skillhost/sdk/sdk"));
        assert_eq!(found.share_dir, Some(tree.join("prefix/share/skillhost")));
    }
}
