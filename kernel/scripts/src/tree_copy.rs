//! Private copies of skills: the files that run are exactly those of a digest.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use skillhost_files::jail::{RelPath, open_root};
use skillhost_files::{PackageError, PackageFile, RunDirectory, copy_package_file, package_digest};
use skillhost_payload::{CallError, ErrorKind, SkillTree, SkillTreeFile};

/// A private copy of a skill's files. Removed on drop.
#[derive(Debug)]
pub struct TreeCopy {
    directory: RunDirectory,
    root: PathBuf,
    digest: String,
}

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum TreeCopyError {
    /// A file is not the one that was listed.
    #[error("{skill_id} changed since approval: {path}")]
    Changed {
        /// The skill.
        skill_id: String,
        /// The file, or `SKILL.md` if the list of files does not have its digest.
        path: String,
    },
    /// A file could not be read or written.
    #[error("the copy of {skill_id}: {source}")]
    Package {
        /// The skill.
        skill_id: String,
        /// The error.
        source: PackageError,
    },
    /// The directory of the copy could not be created.
    #[error("the copy of {skill_id}: {}: {source}", path.display())]
    Directory {
        /// The skill.
        skill_id: String,
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TreeCopyError {
    /// Converts it into the error of a call.
    #[must_use]
    pub fn to_call_error(&self) -> CallError {
        let (kind, hint) = match self {
            Self::Changed { .. } => {
                (ErrorKind::Conflict, "load the skill again, then repeat the call")
            }
            Self::Package { source: PackageError::TooLarge, .. } => {
                (ErrorKind::TooLarge, "keep data outside of the skill")
            }
            Self::Package { .. } | Self::Directory { .. } => {
                (ErrorKind::Io, "check the free space of the temporary directory")
            }
        };
        CallError::new(kind, self.to_string()).with_hint(hint)
    }
}

impl TreeCopy {
    /// Returns the directory of the copy, which has the skill's id as its name.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the private directory that contains the copy and nothing else.
    #[must_use]
    pub fn parent(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the digest of the files in the copy.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// Copies the listed files of a skill to a new private directory and hashes each as it is copied.
/// Blocks on the disk.
///
/// # Errors
/// [`TreeCopyError`], [`TreeCopyError::Changed`] if one byte, a mode or a path differs.
pub fn copy_tree(tree: &SkillTree) -> Result<TreeCopy, TreeCopyError> {
    let skill_id = || tree.skill_id.clone();
    let changed =
        |path: &str| TreeCopyError::Changed { skill_id: skill_id(), path: path.to_owned() };
    let listed: Vec<PackageFile> = tree.files.iter().map(to_package_file).collect();
    if package_digest(&listed) != tree.digest {
        return Err(changed("SKILL.md"));
    }
    let directory_error = |path: &Path| {
        let (skill_id, path) = (skill_id(), path.to_owned());
        move |source| TreeCopyError::Directory { skill_id, path, source }
    };
    let temporary = std::env::temp_dir();
    let directory = RunDirectory::create().map_err(directory_error(&temporary))?;
    let root = directory.path().join(directory_name(&tree.skill_id));
    create_dir(&root).map_err(directory_error(&root))?;
    let source = open_root(&tree.root).map_err(directory_error(&tree.root))?;
    for file in &listed {
        let package_error = |source| match source {
            PackageError::Entry { .. } => changed(&file.path),
            source => TreeCopyError::Package { skill_id: skill_id(), source },
        };
        let failed = |source| PackageError::Io { path: file.path.clone(), source };
        let name = PackageError::Name { path: file.path.clone() };
        let rel = RelPath::new(&file.path).map_err(|_| package_error(name))?;
        let target = root.join(rel.as_str());
        create_dir(target.parent().unwrap_or(&root)).map_err(|e| package_error(failed(e)))?;
        let mode = if file.executable { 0o500 } else { 0o400 };
        let mut options = OpenOptions::new();
        // `create_new` fails on any existing entry, so no link is written through.
        options.write(true).create_new(true).mode(mode);
        let mut to = options.open(&target).map_err(|error| package_error(failed(error)))?;
        // Never more than was listed, so that a growing file cannot fill the disk.
        let copied = copy_package_file(&source, &file.path, &mut to, file.bytes);
        let copied = copied.map_err(|error| match error {
            PackageError::TooLarge => changed(&file.path),
            other => package_error(other),
        })?;
        if copied != *file {
            return Err(changed(&file.path));
        }
    }
    Ok(TreeCopy { directory, root, digest: tree.digest.clone() })
}

/// Returns the name of the copy's directory: the id without the label of a shadowed skill's root.
fn directory_name(skill_id: &str) -> String {
    let name = skill_id.split('@').next().unwrap_or_default();
    let is_name = RelPath::new(name).is_ok_and(|name| name.components().count() == 1);
    if is_name { name.to_owned() } else { "skill".to_owned() }
}

fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn to_package_file(file: &SkillTreeFile) -> PackageFile {
    PackageFile {
        path: file.path.clone(),
        bytes: file.bytes,
        sha256: file.sha256.clone(),
        executable: file.executable,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use skillhost_files::PackageTree;
    use tempfile::TempDir;

    use super::*;

    fn listed(root: &Path) -> SkillTree {
        let files = PackageTree::read(&open_root(root).unwrap()).unwrap().files;
        SkillTree {
            skill_id: "pdf".into(),
            name: "pdf".into(),
            description: "Fills forms.".into(),
            source: "skills".into(),
            root: root.to_owned(),
            is_operator_root: true,
            digest: package_digest(&files),
            files: files
                .into_iter()
                .map(|file| SkillTreeFile {
                    path: file.path,
                    bytes: file.bytes,
                    sha256: file.sha256,
                    executable: file.executable,
                })
                .collect(),
            allowed_tools: None,
            sandbox: None,
            security: None,
        }
    }

    fn skill() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("scripts")).unwrap();
        fs::write(dir.path().join("SKILL.md"), "---\n").unwrap();
        fs::write(dir.path().join("scripts/a.sh"), "echo a\n").unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path().join("scripts/a.sh"), mode).unwrap();
        symlink("/etc/passwd", dir.path().join("scripts/link")).unwrap();
        dir
    }

    #[test]
    fn copy_has_listed_files_only() {
        let skill = skill();
        let tree = listed(skill.path());
        fs::write(skill.path().join("scripts/later.sh"), "").unwrap();
        let copy = copy_tree(&tree).unwrap();
        assert!(copy.root().ends_with("pdf") && copy.root().starts_with(copy.parent()));
        assert_eq!(listed(copy.root()).digest, tree.digest);
        assert_eq!(copy.digest(), tree.digest);
        assert!(!copy.root().join("scripts/link").exists());
        let private = copy.parent().to_owned();
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700);
        drop(copy);
        assert!(!private.exists());
    }

    #[test]
    fn changed_file_is_a_conflict() {
        let changes: [fn(&Path); 6] = [
            |path| fs::write(path, "echo b\n").unwrap(),
            |path| fs::write(path, "echo a\nrm -r x\n").unwrap(),
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap(),
            |path| fs::remove_file(path).unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                symlink("/etc/passwd", path).unwrap();
            },
            |path| {
                let scripts = path.parent().unwrap();
                fs::rename(scripts, scripts.with_file_name("other")).unwrap();
                symlink("other", scripts).unwrap();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let skill = skill();
            let tree = listed(skill.path());
            change(&skill.path().join("scripts/a.sh"));
            let error = copy_tree(&tree).unwrap_err();
            assert_eq!(error.to_string(), "pdf changed since approval: scripts/a.sh", "{number}");
            assert_eq!(error.to_call_error().kind, ErrorKind::Conflict);
        }
        let skill = skill();
        let mut tree = listed(skill.path());
        tree.files.pop();
        assert!(matches!(copy_tree(&tree), Err(TreeCopyError::Changed { .. })));
    }

    #[test]
    fn odd_ids_do_not_leave_private_directory() {
        for (id, name) in [("a@root", "a"), ("../x", "skill"), ("", "skill"), ("a/b", "skill")] {
            assert_eq!(directory_name(id), name);
        }
    }
}
