//! The files of an extension's folder: read once, within limits, without following a link.

use std::io::{self, Read as _};
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, PermissionsExt as _};
use sha2::{Digest as _, Sha256};
use skillhost_kernel::PlannedFile;

use crate::error::{BuildError, PolicyViolation};

/// Files that an extension may consist of.
const MOST_FILES: usize = 200;
/// Bytes of one of them.
const MOST_BYTES: u64 = 1024 * 1024;
/// Bytes of all of them.
const MOST_IN_ALL: u64 = 8 * 1024 * 1024;
/// Folders one in the other.
const DEEPEST: usize = 16;

/// Folders that are made from the rest; neither shown nor built from.
const MADE: [&str; 3] = ["target", "__pycache__", ".git"];

/// Names that tell a build tool what to do, wherever they lie.
const STEERING: [(&str, &str); 3] = [
    (".cargo", "configuration for cargo"),
    ("rust-toolchain", "a choice of toolchain"),
    ("rust-toolchain.toml", "a choice of toolchain"),
];

/// Reads every file below `<extensions>/<id>` in the order of the paths. `made` says of a name
/// directly in the folder that it is made from the rest.
///
/// # Errors
/// [`BuildError::PolicyViolations`] with everything that an extension may not consist of.
pub(crate) fn read_source_tree(
    extensions: &Path,
    id: &str,
    made: impl Fn(&str) -> bool,
) -> Result<Vec<PlannedFile>, BuildError> {
    let at = || extensions.join(id);
    let all = Dir::open_ambient_dir(extensions, ambient_authority())
        .map_err(BuildError::io(extensions))?;
    let metadata = all.symlink_metadata(id).map_err(BuildError::io(&at()))?;
    if !metadata.is_dir() {
        return Err(BuildError::PolicyViolations(vec![violation(
            ".",
            format!("sandbox/extensions/{id} is not a folder"),
            "put the files themselves into a folder there",
        )]));
    }
    let folder = all.open_dir_nofollow(id).map_err(BuildError::io(&at()))?;
    let mut reader = DirectoryReader {
        made: &made,
        files: Vec::new(),
        refusals: Vec::new(),
        bytes: 0,
        over: false,
    };
    reader.folder(&folder, "", 0).map_err(BuildError::io(&at()))?;
    if reader.over {
        reader.refusals.push(violation(
            ".",
            format!(
                "more than {MOST_FILES} files, {} MiB or {DEEPEST} folders one in the other",
                MOST_IN_ALL / MOST_BYTES
            ),
            "keep what it works on in its data directory, not beside its code",
        ));
    }
    if !reader.refusals.is_empty() {
        return Err(BuildError::PolicyViolations(reader.refusals));
    }
    let mut files = reader.files;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// sha256 over names, lengths and contents; hexadecimal.
pub(crate) fn digest_files(files: &[PlannedFile]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        hasher.update((file.path.len() as u64).to_le_bytes());
        hasher.update(file.path.as_bytes());
        hasher.update([u8::from(file.executable)]);
        hasher.update((file.bytes.len() as u64).to_le_bytes());
        hasher.update(&file.bytes);
    }
    hex(&hasher.finalize())
}

/// sha256 of some bytes; hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of a file of a plan, where it is there and is text.
pub(crate) fn file_text<'f>(files: &'f [PlannedFile], path: &str) -> Option<&'f str> {
    let file = files.iter().find(|file| file.path == path)?;
    std::str::from_utf8(&file.bytes).ok()
}

fn violation(file: impl Into<String>, what: impl Into<String>, remedy: &str) -> PolicyViolation {
    PolicyViolation { file: file.into(), line: None, what: what.into(), remedy: remedy.to_owned() }
}

struct DirectoryReader<'m, M> {
    made: &'m M,
    files: Vec<PlannedFile>,
    refusals: Vec<PolicyViolation>,
    bytes: u64,
    over: bool,
}

impl<M: Fn(&str) -> bool> DirectoryReader<'_, M> {
    fn folder(&mut self, folder: &Dir, prefix: &str, depth: usize) -> io::Result<()> {
        for entry in folder.entries()? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else {
                let shown = format!("{prefix}{}", name.to_string_lossy());
                self.refusals.push(violation(shown, "the name is not UTF-8", "rename it"));
                continue;
            };
            let path = format!("{prefix}{name}");
            if name.contains(|c: char| c.is_control() || c == '\\') {
                self.refusals.push(violation(
                    path.escape_debug().to_string(),
                    "the name has a character that a name should not have",
                    "rename it",
                ));
                continue;
            }
            if let Some((_, what)) = STEERING.iter().find(|(steering, _)| *steering == name) {
                self.refusals.push(violation(
                    path,
                    format!("{what} is not taken from an extension"),
                    "remove it: extensions are built with the toolchain of the installation",
                ));
                continue;
            }
            let metadata = folder.symlink_metadata(name)?;
            let is_made = MADE.contains(&name) && metadata.is_dir();
            // What a killed writer left is no part of it.
            let is_leftover = metadata.is_file() && name.starts_with('.') && name.ends_with(".tmp");
            let is_made = is_made || is_leftover;
            if is_made || (prefix.is_empty() && metadata.is_file() && (self.made)(name)) {
                continue;
            }
            if self.files.len() >= MOST_FILES || self.bytes > MOST_IN_ALL || depth > DEEPEST {
                self.over = true;
                return Ok(());
            }
            if metadata.is_dir() {
                let below = folder.open_dir_nofollow(name)?;
                self.folder(&below, &format!("{path}/"), depth + 1)?;
            } else if metadata.is_file() {
                self.file(folder, name, path)?;
            } else {
                self.refusals.push(not_a_file(path, metadata.is_symlink()));
            }
        }
        Ok(())
    }

    fn file(&mut self, folder: &Dir, name: &str, path: String) -> io::Result<()> {
        // It may have become something else since it was listed: a link is not followed, a pipe not
        // waited for.
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No).nonblock(true);
        let file = folder.open_with(name, &options)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            self.refusals.push(not_a_file(path, false));
            return Ok(());
        }
        let mut bytes = Vec::new();
        if metadata.len() <= MOST_BYTES {
            file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        }
        if metadata.len() > MOST_BYTES || bytes.len() as u64 > MOST_BYTES {
            self.refusals.push(violation(
                path,
                format!(
                    "{} bytes, more than the {MOST_BYTES} that one file may have",
                    metadata.len()
                ),
                "keep what it works on in its data directory, not beside its code",
            ));
            return Ok(());
        }
        self.bytes += bytes.len() as u64;
        let executable = metadata.permissions().mode() & 0o111 != 0;
        self.files.push(PlannedFile { path, bytes, executable });
        Ok(())
    }
}

fn not_a_file(path: String, is_link: bool) -> PolicyViolation {
    let kind = if is_link { "a symbolic link" } else { "a special file" };
    violation(path, format!("it is {kind}, not a regular file"), "replace it with a regular file")
}
