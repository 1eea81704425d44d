//! The files of a package, such as a skill: listed with their digests, and one digest of all.
//!
//! The digest is the SHA-256 of `skill-tree-2` and one line per file, `LENGTH PATH x|- SIZE SHA256`,
//! in the order of the paths. It covers what a copy of the package contains and nothing else: links
//! and special files, `.git`, `node_modules`, `__pycache__` and temporary files are no part of it.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write};

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, File, Metadata};
use sha2::{Digest as _, Sha256};

use crate::hash::{sha256_hex, to_hex};
use crate::jail::{self, JailError, RelPath};
use crate::temporary::{is_leftover, is_temporary};

/// The limits of a package.
const MAX_FILES: usize = 512;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 8;
/// Entries that are no part of a package count too, so that no listing takes long.
const MAX_ENTRIES: usize = 5_000;

/// Directories with generated files or foreign packages, which are no part of a package.
const SKIPPED_DIRS: [&str; 3] = [".git", "node_modules", "__pycache__"];

/// One file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageFile {
    /// The path within the package; components are separated by `/`.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 of the content; hexadecimal.
    pub sha256: String,
    /// The file is executable for its owner, its group or others.
    pub executable: bool,
}

/// The files of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageTree {
    /// The files, by path.
    pub files: Vec<PackageFile>,
    /// The links and special files that were left out.
    pub left_out: Vec<String>,
}

/// An error that prevents the digest of a package.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The entry is missing or not a regular file.
    #[error("{path}: {reason}")]
    Entry {
        /// The path within the package.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The content could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path within the package.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The name of a file is not accepted in a package.
    #[error("{path}: the name is not valid in a package")]
    Name {
        /// The name, with replacements for what is not UTF-8.
        path: String,
    },
    /// The package exceeds the limits.
    #[error(
        "more than {MAX_FILES} files, {} MiB, {MAX_DEPTH} nested directories or {MAX_ENTRIES} entries",
        MAX_BYTES >> 20
    )]
    TooLarge,
}

impl PackageTree {
    /// Lists and hashes the files of a directory. Follows no link.
    ///
    /// # Errors
    /// [`PackageError`]
    pub fn read(dir: &Dir) -> Result<Self, PackageError> {
        let mut listing = PackageListing { tree: Self::default(), entries: 0, bytes: 0 };
        listing.enter(dir, dir, "", 0)?;
        let mut tree = listing.tree;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.left_out.sort_unstable();
        Ok(tree)
    }
}

/// A listing in progress.
struct PackageListing {
    tree: PackageTree,
    entries: usize,
    bytes: u64,
}

impl PackageListing {
    fn enter(
        &mut self,
        root: &Dir,
        dir: &Dir,
        prefix: &str,
        depth: usize,
    ) -> Result<(), PackageError> {
        let io_at = |source| PackageError::Io { path: prefix.to_owned(), source };
        for entry in dir.entries().map_err(io_at)? {
            let entry = entry.map_err(io_at)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(PackageError::TooLarge);
            }
            let name = entry.file_name().into_string().map_err(|name| PackageError::Name {
                path: format!("{prefix}{}", name.display()),
            })?;
            let kind = entry.file_type().map_err(io_at)?;
            if is_temporary(&name) || !kind.is_dir() && is_leftover(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            if kind.is_file() {
                self.read_file(root, &path)?;
            } else if !kind.is_dir() {
                self.tree.left_out.push(path);
            } else if !SKIPPED_DIRS.contains(&name.as_str()) {
                if depth >= MAX_DEPTH {
                    return Err(PackageError::TooLarge);
                }
                let below = dir
                    .open_dir_nofollow(&name)
                    .map_err(|source| PackageError::Io { path: path.clone(), source })?;
                self.enter(root, &below, &format!("{path}/"), depth + 1)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Dir, path: &str) -> Result<(), PackageError> {
        if self.tree.files.len() == MAX_FILES {
            return Err(PackageError::TooLarge);
        }
        let file = copy_package_file(root, path, &mut io::sink(), MAX_BYTES - self.bytes)?;
        self.bytes += file.bytes;
        self.tree.files.push(file);
        Ok(())
    }
}

/// Copies one file of a package and returns the facts of exactly the bytes that were copied.
///
/// # Errors
/// [`PackageError`], also if it has more than `limit` bytes; a part of it may have been written.
pub fn copy_package_file(
    root: &Dir,
    path: &str,
    to: &mut dyn Write,
    limit: u64,
) -> Result<PackageFile, PackageError> {
    let io_error = |source| PackageError::Io { path: path.to_owned(), source };
    let rel = RelPath::new(path).map_err(|_| PackageError::Name { path: path.to_owned() })?;
    let (file, metadata) = jail::open_file(root, &rel).map_err(|error| {
        let reason = match error {
            JailError::NotFound => "not found",
            JailError::Link => "a symbolic link",
            JailError::Directory => "a directory",
            JailError::NotRegular => "not a regular file",
            JailError::Io(source) => return io_error(source),
        };
        PackageError::Entry { path: path.to_owned(), reason }
    })?;
    let executable = is_executable(&metadata);
    let (bytes, sha256) = copy_hashing(file, to, limit).map_err(io_error)?;
    if bytes > limit {
        return Err(PackageError::TooLarge);
    }
    Ok(PackageFile { path: path.to_owned(), bytes, sha256, executable })
}

/// Copies at most `limit` bytes and one more, so that the caller notices a longer file.
fn copy_hashing(from: File, to: &mut dyn Write, limit: u64) -> io::Result<(u64, String)> {
    let mut from = from.take(limit.saturating_add(1));
    let (mut hasher, mut chunk, mut bytes) = (Sha256::new(), vec![0; 64 << 10], 0);
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            return Ok((bytes, to_hex(&hasher.finalize())));
        }
        hasher.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        bytes += read as u64;
    }
}

/// Computes the digest of a package from its files, which must be in the order of their paths, as
/// `sha256:` and hexadecimal digits.
#[must_use]
pub fn package_digest(files: &[PackageFile]) -> String {
    let mut lines = "skill-tree-2\n".to_owned();
    for PackageFile { path, bytes, sha256, executable } in files {
        let (length, mode) = (path.len(), if *executable { 'x' } else { '-' });
        // The length keeps a path with a line break from imitating another line. Writing to a
        // string cannot fail.
        let _ = writeln!(lines, "{length} {path} {mode} {bytes} {sha256}");
    }
    format!("sha256:{}", sha256_hex(lines.as_bytes()))
}

#[cfg(unix)]
fn is_executable(metadata: &Metadata) -> bool {
    use cap_std::fs::MetadataExt as _;
    metadata.mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(dir: &Path) -> Result<PackageTree, PackageError> {
        PackageTree::read(&jail::open_root(dir).unwrap())
    }

    fn digest(dir: &Path) -> String {
        package_digest(&read(dir).unwrap().files)
    }

    #[test]
    fn digest_is_that_of_lines() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "scripts/a.py", "print()\n");
        write(dir.path(), "SKILL.md", "x");
        fs::set_permissions(dir.path().join("scripts/a.py"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let lines = format!(
            "skill-tree-2\n8 SKILL.md - 1 {}\n12 scripts/a.py x 8 {}\n",
            sha256_hex(b"x"),
            sha256_hex(b"print()\n")
        );
        assert_eq!(digest(dir.path()), format!("sha256:{}", sha256_hex(lines.as_bytes())));
        let before = digest(dir.path());
        fs::set_permissions(dir.path().join("scripts/a.py"), fs::Permissions::from_mode(0o644))
            .unwrap();
        assert_ne!(digest(dir.path()), before);
    }

    #[test]
    fn links_and_generated_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "SKILL.md", "x");
        let before = digest(dir.path());
        for path in [".git/HEAD", "node_modules/a/b.js", "scripts/__pycache__/a.pyc", "a.py~"] {
            write(dir.path(), path, "y");
        }
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        symlink("/etc", dir.path().join("scripts/etc")).unwrap();
        assert_eq!(digest(dir.path()), before);
        assert_eq!(read(dir.path()).unwrap().left_out, ["link", "scripts/etc"]);
        let root = jail::open_root(dir.path()).unwrap();
        for path in ["link", "scripts/etc/passwd", "../x", "missing"] {
            assert!(copy_package_file(&root, path, &mut Vec::new(), 9).is_err(), "{path}");
        }
    }

    #[test]
    fn package_size_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..MAX_FILES {
            write(dir.path(), &format!("{n}"), "");
        }
        assert_eq!(read(dir.path()).unwrap().files.len(), MAX_FILES);
        write(dir.path(), "more", "");
        assert!(matches!(read(dir.path()), Err(PackageError::TooLarge)));
        let dir = tempfile::tempdir().unwrap();
        fs::File::create(dir.path().join("a")).unwrap().set_len(MAX_BYTES).unwrap();
        assert_eq!(read(dir.path()).unwrap().files[0].bytes, MAX_BYTES);
        write(dir.path(), "b", "1");
        assert!(matches!(read(dir.path()), Err(PackageError::TooLarge)));
    }
}
