//! The files of an extension's directory, read once, within limits, without following links.

use std::io::{self, Read as _};
use std::path::Path;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, PermissionsExt as _};
use skillhost_files::TreeFile;

use crate::error::{BuildError, PolicyViolation};

/// The limit of files of an extension.
const MAX_FILES: usize = 200;
/// The maximum size of one file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The maximum size of all files, in bytes.
const MAX_TOTAL_BYTES: u64 = 8 * 1024 * 1024;
/// The maximum depth of nested directories.
const MAX_DEPTH: usize = 16;

/// Generated directories, which are neither reviewed nor used by a build.
const GENERATED: [&str; 3] = ["target", "__pycache__", ".git"];

/// Names that configure build tools, in any directory.
const CONFIGURATION: [(&str, &str); 3] = [
    (".cargo", "configuration for cargo"),
    ("rust-toolchain", "a choice of toolchain"),
    ("rust-toolchain.toml", "a choice of toolchain"),
];

/// Reads every file below `<extensions>/<id>`, sorted by path.
///
/// `is_generated` is called for the files directly in the directory; generated files are skipped.
///
/// # Errors
/// [`BuildError::PolicyViolations`] with all files that an extension may not contain.
pub(crate) fn read_source_tree(
    extensions: &Path,
    id: &str,
    is_generated: impl Fn(&str) -> bool,
) -> Result<Vec<TreeFile>, BuildError> {
    let at = || extensions.join(id);
    let all = Dir::open_ambient_dir(extensions, ambient_authority())
        .map_err(BuildError::io(extensions))?;
    let metadata = all.symlink_metadata(id).map_err(BuildError::io(&at()))?;
    if !metadata.is_dir() {
        return Err(BuildError::PolicyViolations(vec![violation(
            ".",
            format!("sandbox/extensions/{id} is not a directory"),
            "create a directory there with the files themselves",
        )]));
    }
    let directory = all.open_dir_nofollow(id).map_err(BuildError::io(&at()))?;
    let mut reader = DirectoryReader {
        is_generated: &is_generated,
        files: Vec::new(),
        violations: Vec::new(),
        bytes: 0,
        is_over_limit: false,
    };
    reader.read_directory(&directory, "", 0).map_err(BuildError::io(&at()))?;
    if reader.is_over_limit {
        reader.violations.push(violation(
            ".",
            format!(
                "more than {MAX_FILES} files, {} MiB or {MAX_DEPTH} nested directories",
                MAX_TOTAL_BYTES / MAX_FILE_BYTES
            ),
            "move data to the data directory of the extension",
        ));
    }
    if !reader.violations.is_empty() {
        return Err(BuildError::PolicyViolations(reader.violations));
    }
    let mut files = reader.files;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns the text of a file, or `None` if the file does not exist or is not UTF-8.
pub(crate) fn file_text<'f>(files: &'f [TreeFile], path: &str) -> Option<&'f str> {
    let file = files.iter().find(|file| file.path == path)?;
    std::str::from_utf8(&file.bytes).ok()
}

fn violation(file: impl Into<String>, what: impl Into<String>, remedy: &str) -> PolicyViolation {
    PolicyViolation { file: file.into(), line: None, what: what.into(), remedy: remedy.to_owned() }
}

/// A recursive reader of a directory.
struct DirectoryReader<'m, M> {
    is_generated: &'m M,
    files: Vec<TreeFile>,
    violations: Vec<PolicyViolation>,
    bytes: u64,
    is_over_limit: bool,
}

impl<M: Fn(&str) -> bool> DirectoryReader<'_, M> {
    fn read_directory(&mut self, directory: &Dir, prefix: &str, depth: usize) -> io::Result<()> {
        for entry in directory.entries()? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else {
                let name = format!("{prefix}{}", name.to_string_lossy());
                self.violations.push(violation(name, "the name is not UTF-8", "rename it"));
                continue;
            };
            let path = format!("{prefix}{name}");
            // Such a name could disguise another one in the text of the review.
            if name.contains(|c: char| c.is_control() || c == '\\') {
                self.violations.push(violation(
                    path.escape_debug().to_string(),
                    "the name has a control character or a backslash",
                    "rename it",
                ));
                continue;
            }
            let configuration = CONFIGURATION.iter().find(|(reserved, _)| *reserved == name);
            if let Some((_, what)) = configuration {
                self.violations.push(violation(
                    path,
                    format!("{what} is not allowed in an extension"),
                    "remove it: extensions are built with the toolchain of the installation",
                ));
                continue;
            }
            let metadata = directory.symlink_metadata(name)?;
            let is_generated = GENERATED.contains(&name) && metadata.is_dir();
            // An atomic write that was killed leaves a temporary file.
            let is_leftover = metadata.is_file() && name.starts_with('.') && name.ends_with(".tmp");
            let is_skipped = is_generated || is_leftover;
            if is_skipped || (prefix.is_empty() && metadata.is_file() && (self.is_generated)(name))
            {
                continue;
            }
            if self.files.len() >= MAX_FILES || self.bytes > MAX_TOTAL_BYTES || depth > MAX_DEPTH {
                self.is_over_limit = true;
                return Ok(());
            }
            if metadata.is_dir() {
                let below = directory.open_dir_nofollow(name)?;
                self.read_directory(&below, &format!("{path}/"), depth + 1)?;
            } else if metadata.is_file() {
                self.read_file(directory, name, path)?;
            } else {
                self.violations.push(file_type_violation(path, metadata.is_symlink()));
            }
        }
        Ok(())
    }

    fn read_file(&mut self, directory: &Dir, name: &str, path: String) -> io::Result<()> {
        // The entry may have been replaced since it was listed: a link must not be followed, and
        // the open of a pipe must not block.
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No).nonblock(true);
        let file = directory.open_with(name, &options)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            self.violations.push(file_type_violation(path, false));
            return Ok(());
        }
        let mut bytes = Vec::new();
        if metadata.len() <= MAX_FILE_BYTES {
            // The file may grow during the read, so the read has its own limit.
            file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        }
        if metadata.len() > MAX_FILE_BYTES || bytes.len() as u64 > MAX_FILE_BYTES {
            self.violations.push(violation(
                path,
                format!(
                    "{} bytes exceed the limit of {MAX_FILE_BYTES} bytes per file",
                    metadata.len()
                ),
                "move data to the data directory of the extension",
            ));
            return Ok(());
        }
        self.bytes += bytes.len() as u64;
        let executable = metadata.permissions().mode() & 0o111 != 0;
        self.files.push(TreeFile { path, bytes, executable });
        Ok(())
    }
}

fn file_type_violation(path: String, is_link: bool) -> PolicyViolation {
    let kind = if is_link { "a symbolic link" } else { "a special file" };
    violation(path, format!("it is {kind}, not a regular file"), "replace it with a regular file")
}
