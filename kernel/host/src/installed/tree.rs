//! One digest for all files of an extension's folder, and a copy of exactly those files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::loader::hex;

/// What an extension's folder may hold at most.
const MOST_FILES: usize = 5_000;
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const DEEPEST: usize = 32;

/// Folders that are made from the rest, so they are neither digested nor copied.
const MADE: [&str; 3] = ["target", "__pycache__", ".git"];

/// The file whose pin is no part of the digest: it names it.
const MANIFEST: &str = "manifest.yaml";

/// The digest of a folder's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDigest {
    /// Over every file's path, length and bytes, in the order of the paths; hexadecimal.
    pub sha256: String,
    /// Path below the folder and length in bytes of each file, in that order.
    pub files: Vec<(String, u64)>,
}

/// Why a folder's files have no digest.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or folder could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something that is neither a file nor a folder.
    #[error("{}: neither a file nor a folder, which is all that an extension may consist of", path.display())]
    NotAFile {
        /// The link, pipe, socket or device.
        path: PathBuf,
    },
    /// A name that is not UTF-8.
    #[error("{}: the name is not UTF-8", path.display())]
    Name {
        /// The file or folder.
        path: PathBuf,
    },
    /// More than any extension needs.
    #[error("{}: more than {MOST_FILES} files, {} MiB or {DEEPEST} folders one in the other", path.display(), MOST_BYTES / (1024 * 1024))]
    TooLarge {
        /// The folder.
        path: PathBuf,
    },
}

impl TreeError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "check that it exists and may be read".to_owned(),
            Self::NotAFile { .. } => "put a copy of the file in its place".to_owned(),
            Self::Name { .. } => "rename it".to_owned(),
            Self::TooLarge { .. } => {
                "keep what it works on in its data directory, not beside its code".to_owned()
            }
        }
    }
}

/// Computes the digest of an extension's files: all but those in folders named `target`,
/// `__pycache__` and `.git`, and without the line `sha256: …` of its manifest. Follows no links.
///
/// # Errors
/// [`TreeError`] where not every file can be read, or a link or a pipe is among them.
pub fn digest_of(folder: &Path) -> Result<TreeDigest, TreeError> {
    let mut hasher = Sha256::new();
    hasher.update(b"skillhost files 1\n");
    let mut files = Vec::new();
    for (name, path) in walk(folder)? {
        let mut bytes = Vec::new();
        read(&path, &mut bytes)?;
        let length = bytes.len() as u64;
        if name == MANIFEST {
            bytes = without_pin(&bytes);
        }
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
        files.push((name, length));
    }
    let digest: [u8; 32] = hasher.finalize().into();
    Ok(TreeDigest { sha256: hex(&digest), files })
}

/// Copies exactly the files that [`digest_of`] looks at into a new folder that is the owner's alone.
/// Whoever then takes the digest of the copy knows what is in it, whatever happens to the original.
///
/// # Errors
/// [`TreeError`]; what was copied so far stays.
pub fn copy_tree(folder: &Path, to: &Path) -> Result<(), TreeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TreeError::Io { path, source }
    };
    let private = |path: &Path| {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))
    };
    private(to)?;
    for (name, path) in walk(folder)? {
        let target = to.join(&name);
        private(target.parent().unwrap_or(to))?;
        let mut bytes = Vec::new();
        let executable = read(&path, &mut bytes)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(if executable { 0o700 } else { 0o600 });
        let mut file = options.open(&target).map_err(failed(&target))?;
        file.write_all(&bytes).map_err(failed(&target))?;
    }
    Ok(())
}

/// Lists a folder's files, sorted by path, within the limits.
fn walk(folder: &Path) -> Result<Vec<(String, PathBuf)>, TreeError> {
    let mut files = Vec::new();
    let mut bytes = 0;
    let mut folders = vec![(String::new(), folder.to_owned(), 0)];
    while let Some((prefix, path, depth)) = folders.pop() {
        let io = |source| TreeError::Io { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(io)? {
            let path = entry.map_err(io)?.path();
            let name = path.file_name().unwrap_or_default().to_str();
            let name = name.ok_or_else(|| TreeError::Name { path: path.clone() })?;
            let below = format!("{prefix}{name}");
            let metadata = fs::symlink_metadata(&path)
                .map_err(|source| TreeError::Io { path: path.clone(), source })?;
            if metadata.is_dir() {
                if !MADE.contains(&name) {
                    folders.push((format!("{below}/"), path, depth + 1));
                }
            } else if metadata.is_file() {
                bytes += metadata.len();
                files.push((below, path));
            } else {
                return Err(TreeError::NotAFile { path });
            }
            if files.len() + folders.len() > MOST_FILES || bytes > MOST_BYTES || depth > DEEPEST {
                return Err(TreeError::TooLarge { path: folder.to_owned() });
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Reads a regular file, at most as many bytes as a folder may have, and says whether it may be run.
/// It may have become something else since it was listed: a link is not followed, a pipe not waited
/// for.
fn read(path: &Path, bytes: &mut Vec<u8>) -> Result<bool, TreeError> {
    use std::os::unix::fs::PermissionsExt as _;
    let io = |source| TreeError::Io { path: path.to_owned(), source };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    let file: File = options.open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(TreeError::NotAFile { path: path.to_owned() });
    }
    let read = file.take(MOST_BYTES + 1).read_to_end(bytes).map_err(io)?;
    if read as u64 > MOST_BYTES {
        return Err(TreeError::TooLarge { path: path.to_owned() });
    }
    Ok(metadata.permissions().mode() & 0o111 != 0)
}

/// A manifest's text without its pin: a line of its own that says nothing else.
fn without_pin(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_pin(line))
        .flatten()
        .copied()
        .collect()
}

fn is_pin(line: &[u8]) -> bool {
    let Some(value) = line.strip_prefix(b"sha256:") else { return false };
    let value = value.trim_ascii();
    let quoted = |quote: &[u8]| value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote));
    let value = quoted(b"\"").or_else(|| quoted(b"'")).unwrap_or(value);
    value.len() == 64 && value.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn sample() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "manifest.yaml", "id: a\nname: A\n");
        write(folder.path(), "server.py", "print()\n");
        write(folder.path(), "lib/b.py", "");
        folder
    }

    fn digest(folder: &Path) -> String {
        digest_of(folder).unwrap().sha256
    }

    #[test]
    fn the_digest_stands_for_every_name_and_byte() {
        let folder = sample();
        let first = digest_of(folder.path()).unwrap();
        let files = [("lib/b.py", 0), ("manifest.yaml", 14), ("server.py", 8)];
        let files: Vec<_> = files.map(|(name, length)| (name.to_owned(), length)).into();
        assert_eq!(first.files, files);
        let mut seen = vec![first.sha256];
        let mut changed = |what: &str| {
            let digest = digest(folder.path());
            assert!(!seen.contains(&digest), "{what} is not in the digest");
            seen.push(digest);
        };
        write(folder.path(), "server.py", "print(1)\n");
        changed("a changed byte");
        fs::rename(folder.path().join("lib/b.py"), folder.path().join("lib/c.py")).unwrap();
        changed("a name");
        fs::rename(folder.path().join("lib/c.py"), folder.path().join("c.py")).unwrap();
        changed("a place");
        write(folder.path(), "manifest.yaml", "id: a\nname: B\n");
        changed("the manifest");
        write(folder.path(), "src/target", "a file of that name is a file");
        changed("a file named as a folder that is left out");
        // The end of one file is not the beginning of the next.
        write(folder.path(), "server.py", "print(1)\nsrc/target");
        changed("a boundary between files");
    }

    #[test]
    fn what_is_made_from_the_rest_and_the_manifests_pin_do_not_count() {
        let folder = sample();
        let before = digest(folder.path());
        write(folder.path(), "target/release/a", "built");
        write(folder.path(), "lib/__pycache__/b.pyc", "made");
        write(folder.path(), ".git/HEAD", "ref");
        assert_eq!(digest(folder.path()), before);
        let pin = "0a".repeat(32);
        for pin in
            [format!("sha256: {pin}"), format!("sha256:  \"{pin}\" "), format!("sha256: '{pin}'")]
        {
            write(folder.path(), "manifest.yaml", &format!("id: a\n{pin}\nname: A\n"));
            assert_eq!(digest(folder.path()), before, "{pin}");
        }
        // A line that says more than the pin is a part of what was approved.
        for more in
            [format!("sha256: {pin}, entrypoint: {{command: [sh]}}"), "sha256: x".to_owned()]
        {
            write(folder.path(), "manifest.yaml", &format!("id: a\n{more}\nname: A\n"));
            assert_ne!(digest(folder.path()), before, "{more}");
        }
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let folder = sample();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("lib/link")).unwrap();
        let error = digest_of(folder.path()).unwrap_err();
        assert!(matches!(&error, TreeError::NotAFile { path } if path.ends_with("lib/link")));
        fs::remove_file(folder.path().join("lib/link")).unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert!(matches!(digest_of(folder.path()), Err(TreeError::NotAFile { .. })));
        // Had it been a file when the folder was listed, it would not be waited for.
        assert!(matches!(read(&pipe, &mut Vec::new()), Err(TreeError::NotAFile { .. })));
    }

    #[test]
    fn a_copy_has_the_same_digest_and_no_more_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = sample();
        write(folder.path(), "__pycache__/server.pyc", "poison");
        fs::set_permissions(folder.path().join("server.py"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("deep/copy");
        copy_tree(folder.path(), &copy).unwrap();
        assert_eq!(digest(&copy), digest(folder.path()));
        assert!(!copy.join("__pycache__").exists());
        let mode = |name: &str| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("server.py"), mode("manifest.yaml"), mode("lib")), (0o700, 0o600, 0o700));
    }
}
