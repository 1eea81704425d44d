//! The files of a directory: read once, digested, written to a private copy.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::file_kind::irregular_kind;
use crate::hash::to_hex;

/// The limits of a directory.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const MAX_DEPTH: usize = 32;

/// Directories with generated files, which are neither digested nor copied.
const GENERATED_DIRS: [&str; 3] = ["target", "__pycache__", ".git"];

/// One file of a directory.
#[derive(Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// The path within the directory.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// The file is executable.
    pub executable: bool,
}

impl fmt::Debug for TreeFile {
    /// Omits the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, executable } = self;
        write!(f, "{path} ({} bytes{})", bytes.len(), if *executable { ", executable" } else { "" })
    }
}

/// An error that prevents the digest of a directory's files.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or directory could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An entry that is neither a file nor a directory.
    #[error("{}: it is {kind}, not a regular file", path.display())]
    NotAFile {
        /// The link, pipe, socket or device.
        path: PathBuf,
        /// Its kind, with an article.
        kind: &'static str,
    },
    /// A name that is not UTF-8.
    #[error("{}: the name is not UTF-8", path.display())]
    Name {
        /// The file or directory.
        path: PathBuf,
    },
    /// The directory exceeds the limits.
    #[error("{}: more than {MAX_FILES} files, {} MiB or {MAX_DEPTH} nested directories", path.display(), MAX_BYTES / (1024 * 1024))]
    TooLarge {
        /// The directory.
        path: PathBuf,
    },
}

impl TreeError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "check that it exists and may be read".to_owned(),
            Self::NotAFile { .. } => "put a copy of the file in its place".to_owned(),
            Self::Name { .. } => "rename it".to_owned(),
            Self::TooLarge { .. } => {
                "keep its data in its data directory, outside the extension's directory".to_owned()
            }
        }
    }
}

/// Reads the files of a directory, in the order of their paths, except those in directories named
/// `target`, `__pycache__` and `.git`, and temporary files of interrupted writers. Does not follow
/// links.
///
/// # Errors
/// [`TreeError`] if a file cannot be read, or a link or a pipe is among them.
pub fn read_tree(dir: &Path) -> Result<Vec<TreeFile>, TreeError> {
    read_listed(dir, |name| GENERATED_DIRS.contains(&name), is_temporary)
}

/// Reads every file of a directory as [`read_tree`] does, and leaves none out.
///
/// # Errors
/// [`TreeError`] if a file cannot be read, or a link or a pipe is among them.
pub fn read_complete_tree(dir: &Path) -> Result<Vec<TreeFile>, TreeError> {
    read_listed(dir, |_| false, |_| false)
}

/// Returns whether a file is the leftover of a killed writer.
fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".tmp")
}

fn read_listed(
    dir: &Path,
    skip_dir: fn(&str) -> bool,
    skip_file: fn(&str) -> bool,
) -> Result<Vec<TreeFile>, TreeError> {
    let mut files = Vec::new();
    let mut total = 0;
    for (name, path) in list_files(dir, skip_dir, skip_file)? {
        let mut bytes = Vec::new();
        let executable = read_file(&path, &mut bytes)?;
        total += bytes.len() as u64;
        // The files may have grown since they were listed.
        if total > MAX_BYTES {
            return Err(TreeError::TooLarge { path: dir.to_owned() });
        }
        files.push(TreeFile { path: name, bytes, executable });
    }
    Ok(files)
}

/// Computes the digest that an approval names: sha256 of path, mode and content of every file,
/// which must be in the order of their paths; hexadecimal.
#[must_use]
pub fn files_digest(files: &[TreeFile]) -> String {
    prefixed_digest(b"skillhost files 2\n", files)
}

/// Computes the sha256 of a prefix, which tells kinds of digests apart, and of path, mode and
/// content of every file; hexadecimal.
#[must_use]
pub fn prefixed_digest(prefix: &[u8], files: &[TreeFile]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(prefix);
    for file in files {
        // The lengths keep the end of one file apart from the start of the next.
        hasher.update((file.path.len() as u64).to_le_bytes());
        hasher.update(file.path.as_bytes());
        hasher.update([u8::from(file.executable)]);
        hasher.update((file.bytes.len() as u64).to_le_bytes());
        hasher.update(&file.bytes);
    }
    to_hex(&hasher.finalize())
}

/// Writes files to a new directory that only the owner can enter.
///
/// # Errors
/// [`TreeError`]; the files written so far remain.
pub fn write_tree(files: &[TreeFile], to: &Path) -> Result<(), TreeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TreeError::Io { path, source }
    };
    let private = |path: &Path| {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))
    };
    private(to)?;
    for file in files {
        let target = to.join(&file.path);
        private(target.parent().unwrap_or(to))?;
        let mut options = OpenOptions::new();
        // `create_new` fails on any existing entry, so no link is written through.
        options.write(true).create_new(true).mode(if file.executable { 0o700 } else { 0o600 });
        let mut written = options.open(&target).map_err(failed(&target))?;
        written.write_all(&file.bytes).map_err(failed(&target))?;
    }
    Ok(())
}

/// Lists a directory's files, sorted by path, within the limits.
fn list_files(
    dir: &Path,
    skip_dir: fn(&str) -> bool,
    skip_file: fn(&str) -> bool,
) -> Result<Vec<(String, PathBuf)>, TreeError> {
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut dirs = vec![(String::new(), dir.to_owned(), 0)];
    while let Some((prefix, path, depth)) = dirs.pop() {
        let io = |source| TreeError::Io { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_name().unwrap_or_default().to_str();
            let name = name.ok_or_else(|| TreeError::Name { path: path.clone() })?;
            let below = format!("{prefix}{name}");
            let metadata = fs::symlink_metadata(&path)
                .map_err(|source| TreeError::Io { path: path.clone(), source })?;
            if metadata.is_dir() {
                if !skip_dir(name) {
                    dirs.push((format!("{below}/"), path, depth + 1));
                }
            } else if metadata.is_file() {
                if !skip_file(name) {
                    bytes += metadata.len();
                    files.push((below, path));
                }
            } else {
                return Err(TreeError::NotAFile {
                    path,
                    kind: irregular_kind(metadata.file_type()),
                });
            }
            if files.len() + dirs.len() > MAX_FILES || bytes > MAX_BYTES || depth > MAX_DEPTH {
                return Err(TreeError::TooLarge { path: dir.to_owned() });
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a regular file, within the limit of a directory, and returns whether it is executable. The
/// entry may have changed since it was listed: a link is not followed, a pipe not waited for.
fn read_file(path: &Path, bytes: &mut Vec<u8>) -> Result<bool, TreeError> {
    use std::os::unix::fs::PermissionsExt as _;
    let io = |source| TreeError::Io { path: path.to_owned(), source };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    let file: File = options.open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        let kind = irregular_kind(metadata.file_type());
        return Err(TreeError::NotAFile { path: path.to_owned(), kind });
    }
    let read = file.take(MAX_BYTES + 1).read_to_end(bytes).map_err(io)?;
    if read as u64 > MAX_BYTES {
        return Err(TreeError::TooLarge { path: path.to_owned() });
    }
    Ok(metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "manifest.yaml", "id: a\nname: A\nentrypoint: a\n");
        write(dir.path(), "server.py", "print()\n");
        write(dir.path(), "lib/b.py", "");
        dir
    }

    fn digest(dir: &Path) -> String {
        files_digest(&read_tree(dir).unwrap())
    }

    #[test]
    fn digest_covers_path_mode_and_content() {
        let dir = sample();
        let mut seen = vec![digest(dir.path())];
        let mut changed = |what: &str| {
            let digest = digest(dir.path());
            assert!(!seen.contains(&digest), "{what} is not in the digest");
            seen.push(digest);
        };
        write(dir.path(), "server.py", "print(1)\n");
        changed("a changed byte");
        fs::rename(dir.path().join("lib/b.py"), dir.path().join("lib/c.py")).unwrap();
        changed("a name");
        fs::rename(dir.path().join("lib/c.py"), dir.path().join("c.py")).unwrap();
        changed("a folder");
        write(dir.path(), "manifest.yaml", "id: a\nname: B\nentrypoint: a\n");
        changed("the manifest");
        let pin = format!("id: a\nname: B\nsha256: {}\nentrypoint: a\n", "0a".repeat(32));
        write(dir.path(), "manifest.yaml", &pin);
        changed("the pin of the manifest");
        write(dir.path(), "src/target", "a file of that name is a file");
        changed("a file named as a folder that is left out");
        // Moving bytes from one file to the next changes the digest.
        write(dir.path(), "server.py", "print(1)\nsrc/target");
        changed("a boundary between files");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path().join("server.py"), mode).unwrap();
        changed("the executable bit");
    }

    #[test]
    fn generated_files_are_not_digested() {
        let dir = sample();
        let before = digest(dir.path());
        for made in ["target/release/a", "lib/__pycache__/b.pyc", ".git/HEAD", "lib/.b.py.7-0.tmp"]
        {
            write(dir.path(), made, "made");
        }
        assert_eq!(digest(dir.path()), before);
        assert_eq!(read_complete_tree(dir.path()).unwrap().len(), 3 + 4);
    }

    #[test]
    fn links_and_pipes_are_rejected() {
        let dir = sample();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("lib/link")).unwrap();
        let error = read_tree(dir.path()).unwrap_err();
        let place = dir.path().join("lib/link");
        let expected = format!("{}: it is a symbolic link, not a regular file", place.display());
        assert_eq!(error.to_string(), expected);
        fs::remove_file(dir.path().join("lib/link")).unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert!(matches!(read_tree(dir.path()), Err(TreeError::NotAFile { .. })));
        // A pipe that was a file when the directory was listed is not waited for.
        assert!(matches!(read_file(&pipe, &mut Vec::new()), Err(TreeError::NotAFile { .. })));
    }

    #[test]
    fn written_tree_keeps_digest() {
        let dir = sample();
        fs::set_permissions(dir.path().join("server.py"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("deep/copy");
        write_tree(&read_tree(dir.path()).unwrap(), &copy).unwrap();
        assert_eq!(digest(&copy), digest(dir.path()));
        let mode = |name: &str| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("server.py"), mode("manifest.yaml"), mode("lib")), (0o700, 0o600, 0o700));
    }
}
