//! Reading the files and directories of a published skill.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, File};
use skill_catalog::{Audience, FileSignature, RegistryError, Skill, Snapshot, Store};
use skill_format::{Digest, mime_type};
use skillhost_files::jail::{self, JailError, RelPath};
use skillhost_files::temporary::{is_leftover, is_leftover_path, is_temporary};
use skillhost_payload::{ErrorKind, PublishedBody, PublishedContent, PublishedEntry};

use super::limits::MAX_BYTES;
use super::listed::{HIDDEN, SKILL_MD};
use super::uri::{self, published_skill};
use crate::file_stamp::file_signature;
use crate::tools;

/// The limit on the listed entries of a directory.
const MAX_CHILDREN: usize = 5_000;

/// The limit on the bytes of a file's content in a result: as JSON for a text, else in base64.
/// Clients reject messages that are not much larger.
const MAX_CONTENT: u64 = 8 << 20;

/// The MIME type of a text with an unknown extension.
const PLAIN: &str = "text/plain";

/// The MIME type of an unknown file.
const UNKNOWN: &str = "application/octet-stream";

/// Reads the bytes of a file of a published skill.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an unknown skill or file, [`ErrorKind::InvalidArgument`] and
/// [`ErrorKind::Denied`] for a path that is malformed or leads out of the skill's directory,
/// [`ErrorKind::TooLarge`] for a file that takes more than 8 MiB in an answer, [`ErrorKind::Io`] if
/// the disk fails.
pub fn read_published(
    store: &Store,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    skill_id: &str,
    path: &str,
) -> Result<Vec<u8>, RegistryError> {
    let skill = published_skill(snapshot, audience, skill_id)?;
    let path = parse_path(skill, path)?;
    if path.as_str() == SKILL_MD {
        return Ok(store.read_bytes(skill)?.bytes);
    }
    let failed = |error| to_registry_error(error, skill, path.as_str());
    let dir = skill.open_directory().map_err(failed)?;
    let (mut file, metadata) = jail::open_file(&dir, &path).map_err(failed)?;
    let bytes = read_up_to(&mut file, MAX_CONTENT).map_err(|error| failed(error.into()))?;
    bytes.filter(|bytes| fits_answer(bytes)).ok_or_else(|| {
        RegistryError::new(
            ErrorKind::TooLarge,
            format!(
                "{path} has {} bytes; in an answer it takes more than {MAX_CONTENT}",
                metadata.len()
            ),
            "split the file, or process it with a script instead of reading it",
        )
    })
}

/// Converts the bytes of a file into the shape for clients.
pub(super) fn published_body(path: &str, bytes: Vec<u8>) -> PublishedBody {
    // The same distinction as in `is_text`, without a second pass over the bytes.
    let content = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => PublishedContent::Text(text),
        Ok(text) => PublishedContent::Base64(STANDARD.encode(text)),
        Err(error) => PublishedContent::Base64(STANDARD.encode(error.as_bytes())),
    };
    let mime_type = match (mime_type(path), &content) {
        (UNKNOWN, PublishedContent::Text(_)) => PLAIN,
        (known, _) => known,
    };
    PublishedBody { mime_type: mime_type.to_owned(), content }
}

/// Lists the entries of a directory of a published skill, by name; an empty path is the skill's own
/// directory.
///
/// # Errors
/// As [`read_published`]; [`ErrorKind::InvalidArgument`] also for a path that is not a directory.
pub fn published_directory(
    snapshot: &Snapshot,
    audience: Audience<'_>,
    skill_id: &str,
    path: &str,
) -> Result<Vec<PublishedEntry>, RegistryError> {
    let skill = published_skill(snapshot, audience, skill_id)?;
    let mut dir = skill.open_directory().map_err(|error| to_registry_error(error, skill, path))?;
    if !path.is_empty() {
        let path = parse_path(skill, path)?;
        for component in path.as_str().split('/') {
            dir = step(&dir, component).map_err(|error| match error {
                JailError::NotRegular => RegistryError::new(
                    ErrorKind::InvalidArgument,
                    format!("{path} is not a directory"),
                    "read it as a resource",
                ),
                error => to_registry_error(error, skill, path.as_str()),
            })?;
        }
    }
    // Errors of single entries carry the directory's path, because they have no name yet.
    let io_error = |error: std::io::Error| to_registry_error(error.into(), skill, path);
    let root = uri::root_uri(skill);
    let mut children = Vec::new();
    for (index, entry) in dir.entries().map_err(io_error)?.enumerate() {
        if index == MAX_CHILDREN {
            return Err(RegistryError::new(
                ErrorKind::TooLarge,
                format!("the directory has more than {MAX_CHILDREN} entries"),
                "put its files into several directories",
            ));
        }
        let entry = entry.map_err(io_error)?;
        let (Ok(mut name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            // A name that is not UTF-8 cannot be part of a URI.
            continue;
        };
        let directory = kind.is_dir();
        let hidden = match directory {
            true => HIDDEN.contains(&name.as_str()) || is_temporary(&name),
            false => !kind.is_file() || is_leftover(&name),
        };
        if hidden {
            continue;
        }
        // Clients expect the upper-case name; the case on the disk may differ.
        if path.is_empty() && name == skill.file().name() {
            SKILL_MD.clone_into(&mut name);
        }
        let rel = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        // Every listed child must be readable by its path.
        if RelPath::new(&rel).is_err() {
            continue;
        }
        let size = if directory { None } else { entry.metadata().ok().map(|found| found.len()) };
        let mime_type = if directory { Some("inode/directory") } else { known_mime(&name) };
        children.push(PublishedEntry {
            uri: uri::join_path(&root, &rel),
            name,
            directory,
            size,
            mime_type: mime_type.map(str::to_owned),
        });
    }
    // The order of the disk varies; clients compare listings.
    children.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(children)
}

/// Returns the MIME type of a known extension.
fn known_mime(path: &str) -> Option<&'static str> {
    Some(mime_type(path)).filter(|mime| *mime != UNKNOWN)
}

/// Returns whether bytes are sent as a text: UTF-8 without NUL.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// Returns whether bytes fit into the size of a result that clients accept.
fn fits_answer(bytes: &[u8]) -> bool {
    let escaped = |byte: &u8| match byte {
        // The escapes of JSON: short ones for common control characters, `\u00XX` for the others.
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1_u64,
    };
    let size = match is_text(bytes) {
        true => bytes.iter().map(escaped).sum(),
        // Base64 has four characters for every three bytes.
        false => (bytes.len() as u64).div_ceil(3) * 4,
    };
    size <= MAX_CONTENT
}

/// A file that was read for its digest.
pub(super) struct HashedFile {
    pub(super) digest: Digest,
    /// The `stat` result before the read; the size is that of the bytes.
    pub(super) signature: FileSignature,
    /// `true` if the file changed during the read.
    pub(super) torn: bool,
    /// `true` if the file can be read as a resource.
    pub(super) fits: bool,
}

/// Hashes a file below a skill's directory; returns `None` if it cannot be read or is too large.
pub(super) fn hash_file(dir: &Dir, path: &str) -> Option<HashedFile> {
    let (mut file, before) = jail::open_file(dir, &RelPath::new(path).ok()?).ok()?;
    let bytes = read_up_to(&mut file, MAX_BYTES).ok()??;
    // Both signatures come from the open file, so a rename in between does not matter.
    let (before, after) = (file_signature(&before), file_signature(&file.metadata().ok()?));
    let size = bytes.len() as u64;
    let torn = before != after || size != after.size;
    let (digest, fits) = (Digest::compute(&bytes), fits_answer(&bytes));
    Some(HashedFile { digest, signature: FileSignature { size, ..before }, torn, fits })
}

fn read_up_to(file: &mut File, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the file exceeds it.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= limit))
}

fn parse_path(skill: &Skill, path: &str) -> Result<RelPath, RegistryError> {
    let checked = RelPath::new(path).map_err(tools::to_registry_error)?;
    // Hidden entries are reported as missing, so that clients learn no more than a listing shows.
    if path.split('/').any(|component| HIDDEN.contains(&component)) || is_leftover_path(path) {
        return Err(to_registry_error(JailError::NotFound, skill, path));
    }
    Ok(checked)
}

fn step(dir: &Dir, component: &str) -> Result<Dir, JailError> {
    match dir.symlink_metadata(component)? {
        found if found.is_symlink() => Err(JailError::Link),
        found if !found.is_dir() => Err(JailError::NotRegular),
        // A link that replaces the file after the check above is rejected here.
        _ => Ok(dir.open_dir_nofollow(component)?),
    }
}

/// Converts an error of the jail.
pub(super) fn to_registry_error(error: JailError, skill: &Skill, path: &str) -> RegistryError {
    let id = skill.id();
    // The path comes from the client and must not fill the message.
    let shown: String = path.chars().take(128).collect();
    let (kind, message, hint) = match error {
        JailError::NotFound if path.is_empty() => (
            ErrorKind::NotFound,
            format!("the directory of `{id}` is gone"),
            "list the skills again",
        ),
        JailError::NotFound => (
            ErrorKind::NotFound,
            format!("`{id}` has no file {shown}"),
            "the skill's entry lists its files",
        ),
        JailError::Link => (
            ErrorKind::Denied,
            format!("{shown} is or passes through a symbolic link"),
            "links inside a skill are not followed; the file must lie in the skill itself",
        ),
        JailError::Directory => (
            ErrorKind::InvalidArgument,
            format!("{shown} is a directory"),
            "name a file; the skill's entry lists them",
        ),
        JailError::NotRegular => {
            (ErrorKind::Denied, format!("{shown} is not a regular file"), "name a regular file")
        }
        JailError::Io(error) => (
            ErrorKind::Io,
            format!("{shown} of `{id}` cannot be read: {error}"),
            "tell the operator: the file's permissions or the disk need attention",
        ),
    };
    RegistryError::new(kind, message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_size_counts_escapes_and_base64() {
        let most = usize::try_from(MAX_CONTENT).unwrap();
        for (bytes, fits) in [
            (vec![b'x'; most], true),
            (vec![b'x'; most + 1], false),
            (vec![b'\n'; most / 2], true),
            (vec![b'\n'; most / 2 + 1], false),
            (vec![1; most / 6], true),
            (vec![1; most / 6 + 1], false),
            (vec![0xff; most / 4 * 3], true),
            (vec![0xff; most / 4 * 3 + 1], false),
            (vec![0; most / 4 * 3 + 1], false),
        ] {
            assert_eq!(fits_answer(&bytes), fits, "{} of {}", bytes.len(), bytes[0]);
            if fits {
                let text = String::from_utf8(bytes.clone()).ok().filter(|_| is_text(&bytes));
                let sent = text.unwrap_or_else(|| STANDARD.encode(&bytes));
                let sent = serde_json::to_string(&sent).unwrap();
                assert!(sent.len() <= most + 2, "{}", bytes[0]);
            }
        }
    }
}
