//! `read_skill_resource`: pages of a skill's files.

use std::io::{self, Read, Seek, SeekFrom};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap_std::fs::{Dir, Metadata};
use serde_json::json;
use skill_catalog::{
    Advice, Audience, FileTree, NextStep, RegistryError, Snapshot, suggest_similar,
};
use skill_format::{ResourceKind, TokenCount, mime_type};
use skill_ledger::SkillAccess;
use skillhost_files::jail::{self, JailError, RelPath, RelPathError};
use skillhost_files::temporary::is_leftover_path;
use skillhost_payload::ErrorKind;

use super::{ReadResourceArgs, ToolAnswer, find_visible};
use crate::caller::is_withheld;

/// The maximum number of bytes of a text in one result.
const TEXT_PAGE: u64 = 64 << 10;

/// The maximum number of bytes of a binary file in one result: as base64 they fill a page of text.
/// A multiple of three, so that pages can be concatenated.
const BINARY_PAGE: u64 = 48 << 10;

/// The largest file that is served.
const MAX_FILE: u64 = 16 << 20;

/// The number of bytes that decide whether a file is text.
const SNIFFED: u64 = 8 << 10;

/// The length of the longest UTF-8 sequence.
const MAX_CHAR: u64 = 4;

/// Reads one page of a file of a skill.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an unknown skill or file, [`ErrorKind::InvalidArgument`] and
/// [`ErrorKind::Denied`] for a path that is malformed or leads out of the skill's directory,
/// [`ErrorKind::TooLarge`] for a file over 16 MiB, [`ErrorKind::Io`] if the disk fails.
pub fn read_skill_resource(
    snapshot: &Snapshot,
    audience: Audience<'_>,
    args: &ReadResourceArgs,
) -> Result<ToolAnswer, RegistryError> {
    let skill = find_visible(snapshot, &args.skill_id, audience)?;
    let path = RelPath::new(&args.path).map_err(to_registry_error)?;
    let opened = skill.open_directory().and_then(|dir| {
        // Versions, digests and approvals exclude such files, so they must not be served either.
        if is_leftover_path(path.as_str()) || is_withheld(audience, path.as_str()) {
            return Ok(Err(dir));
        }
        match jail::open_file(&dir, &path) {
            Err(JailError::NotFound) => Ok(Err(dir)),
            opened => opened.map(Ok),
        }
    });
    let (mut file, metadata) = match opened {
        Ok(Ok((file, metadata))) => (file.into_std(), metadata),
        Ok(Err(dir)) => return Err(unknown_file_error(&dir, audience, args, &path)),
        Err(error) => return Err(jail_registry_error(error, args, &path)),
    };
    let io_error = |error: io::Error| jail_registry_error(JailError::Io(error), args, &path);
    let page = FilePage::read(&mut file, metadata.len(), args).map_err(|error| match error {
        PageError::Registry(error) => error,
        PageError::Io(error) => io_error(error),
    })?;

    let mime = mime_type(path.as_str());
    let mut text = page.content.clone();
    if page.binary {
        text = format!("Binary resource {path} ({mime}, {} bytes), base64:\n{text}", page.size);
    }
    let mut notes = Vec::new();
    if let Some(next) = page.next {
        notes.push(format!(
            "bytes {} to {next} of {}; continue with offset {next}",
            page.offset, page.size
        ));
    }
    if page.lossy {
        notes.push("bytes that are not UTF-8 were replaced".to_owned());
    }
    if let Some(links) = hard_links(&metadata) {
        notes.push(format!("the file has {links} hard links: it may also be changed elsewhere"));
    }
    for note in &notes {
        text.push_str(&format!("\n[{note}]"));
    }
    let structured = json!({
        "generation": snapshot.generation(),
        "skill_id": args.skill_id,
        "path": path.as_str(),
        "kind": ResourceKind::from_path(path.as_str()),
        "mime_type": mime,
        "size": page.size,
        "offset": page.offset,
        "length": page.length,
        "next_offset": page.next,
        "encoding": if page.binary { "base64" } else { "utf-8" },
        "content": page.content,
        "notes": notes,
    });
    let read = SkillAccess {
        skill_id: args.skill_id.clone(),
        path: Some(args.path.clone()),
        digest: skill.digest(),
        tokens: TokenCount::estimate(&text),
    };
    Ok(ToolAnswer { text, structured, read: Some(read) })
}

/// A page of a file.
struct FilePage {
    size: u64,
    offset: u64,
    /// The number of bytes of the file that the content represents.
    length: u64,
    next: Option<u64>,
    content: String,
    binary: bool,
    lossy: bool,
}

enum PageError {
    Registry(RegistryError),
    Io(io::Error),
}

impl From<io::Error> for PageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FilePage {
    fn read(
        file: &mut (impl Read + Seek),
        size: u64,
        args: &ReadResourceArgs,
    ) -> Result<Self, PageError> {
        if size > MAX_FILE {
            return Err(PageError::Registry(RegistryError::new(
                ErrorKind::TooLarge,
                format!("the file has {size} bytes, at most {MAX_FILE} are served"),
                "split the file, or process it with a script instead of reading it",
            )));
        }
        let offset = args.offset.unwrap_or(0);
        if offset > size {
            return Err(PageError::Registry(RegistryError::new(
                ErrorKind::InvalidArgument,
                format!("offset {offset} is beyond the end of the file, which has {size} bytes"),
                "start at 0 or at the next_offset of the page before",
            )));
        }
        if args.limit == Some(0) {
            return Err(PageError::Registry(RegistryError::new(
                ErrorKind::InvalidArgument,
                "limit is 0".to_owned(),
                format!("ask for 1 to {TEXT_PAGE} bytes, or leave limit out"),
            )));
        }
        let limit = args.limit.unwrap_or(TEXT_PAGE);
        // Always from the start of the file, so that all pages have the same encoding.
        let start = read_window(file, 0, SNIFFED)?;
        if is_binary(&start) {
            Self::binary(file, size, offset, limit.min(BINARY_PAGE))
        } else {
            Self::text(file, size, offset, limit.min(TEXT_PAGE))
        }
    }

    fn binary(
        file: &mut (impl Read + Seek),
        size: u64,
        offset: u64,
        limit: u64,
    ) -> Result<Self, PageError> {
        let bytes = read_window(file, offset, limit)?;
        let length = bytes.len() as u64;
        let next = Some(offset + length).filter(|next| length > 0 && *next < size);
        let content = STANDARD.encode(bytes);
        Ok(Self { size, offset, length, next, content, binary: true, lossy: false })
    }

    /// Reads a page of text that starts and ends between characters and has at least one of them.
    fn text(
        file: &mut (impl Read + Seek),
        size: u64,
        offset: u64,
        limit: u64,
    ) -> Result<Self, PageError> {
        // A few bytes more at both ends, to find the boundaries of characters there.
        let from = offset.saturating_sub(MAX_CHAR - 1);
        let bytes = read_window(file, from, offset - from + limit + MAX_CHAR)?;
        let start = boundary_before(&bytes, (offset - from) as usize);
        let wanted = start + limit as usize;
        let mut end = boundary_before(&bytes, wanted);
        // The limit is smaller than the first character.
        if end <= start {
            end = boundary_after(&bytes, start + 1);
        }
        let bytes = &bytes[start..end];
        let (content, lossy) = match std::str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (String::from_utf8_lossy(bytes).into_owned(), true),
        };
        let (offset, length) = (from + start as u64, bytes.len() as u64);
        let next = Some(offset + length).filter(|next| length > 0 && *next < size);
        Ok(Self { size, offset, length, next, content, binary: false, lossy })
    }
}

/// Reads a part of a file; less at the end of the file.
fn read_window(file: &mut (impl Read + Seek), offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns `true` if the start of a file is not UTF-8 text.
fn is_binary(start: &[u8]) -> bool {
    let broken = match std::str::from_utf8(start) {
        Ok(_) => false,
        // An incomplete sequence at the end may only have been cut off by the limit.
        Err(error) => error.error_len().is_some() || (start.len() as u64) < SNIFFED,
    };
    broken || start.contains(&0)
}

fn is_boundary(bytes: &[u8], at: usize) -> bool {
    // Continuation bytes start with the bits 10.
    bytes.get(at).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

/// Returns the start of the character at a position; the position itself if none is near.
fn boundary_before(bytes: &[u8], at: usize) -> usize {
    let at = at.min(bytes.len());
    let earliest = at.saturating_sub(MAX_CHAR as usize - 1);
    (earliest..=at).rev().find(|&at| is_boundary(bytes, at)).unwrap_or(at)
}

/// Returns the start of the first character at or after a position.
fn boundary_after(bytes: &[u8], at: usize) -> usize {
    let latest = at + MAX_CHAR as usize - 1;
    (at..=latest).find(|&at| is_boundary(bytes, at)).unwrap_or(at).min(bytes.len())
}

fn hard_links(metadata: &Metadata) -> Option<u64> {
    let links = cap_fs_ext::MetadataExt::nlink(metadata);
    (links > 1).then_some(links)
}

pub(crate) fn to_registry_error(error: RelPathError) -> RegistryError {
    let kind = match error {
        RelPathError::Empty
        | RelPathError::TooLong(_)
        | RelPathError::TooDeep(_)
        | RelPathError::Nul
        | RelPathError::Control
        | RelPathError::EmptyComponent => ErrorKind::InvalidArgument,
        RelPathError::Backslash
        | RelPathError::Absolute
        | RelPathError::Drive
        | RelPathError::Dots => ErrorKind::Denied,
    };
    let hint = Advice::from("give the path as ")
        .with_step(NextStep::ReadSkill)
        .with_text(" lists it, relative to the skill's directory and with /");
    RegistryError::new(kind, error.to_string(), hint)
}

fn jail_registry_error(error: JailError, args: &ReadResourceArgs, path: &RelPath) -> RegistryError {
    let (kind, message, hint) = match error {
        JailError::NotFound => {
            let message = format!("the directory of `{}` not found", args.skill_id);
            (
                ErrorKind::NotFound,
                message,
                Advice::from(NextStep::ListSkills).with_text(" shows the available skills"),
            )
        }
        JailError::Link => (
            ErrorKind::Denied,
            format!("{path} is or passes through a symbolic link"),
            "links inside a skill are not followed; the file must lie in the skill itself".into(),
        ),
        JailError::Directory => (
            ErrorKind::InvalidArgument,
            format!("{path} is a directory"),
            Advice::from("name a file; ").with_step(NextStep::ReadSkill).with_text(" lists them"),
        ),
        JailError::NotRegular => (
            ErrorKind::Denied,
            format!("{path} is not a regular file"),
            "name a regular file".into(),
        ),
        JailError::Io(error) => (
            ErrorKind::Io,
            format!("{path} cannot be read: {error}"),
            "ask the operator to check the file's permissions and the disk".into(),
        ),
    };
    RegistryError::new(kind, message, hint)
}

fn unknown_file_error(
    dir: &Dir,
    audience: Audience<'_>,
    args: &ReadResourceArgs,
    path: &RelPath,
) -> RegistryError {
    let mut files = FileTree::list(dir).map(|tree| tree.files).unwrap_or_default();
    files.retain(|file| !is_withheld(audience, file));
    let otherwise = if path.as_str().contains('%') {
        " lists the files; a path is taken literally, nothing in it is decoded"
    } else {
        " lists the files"
    };
    let otherwise = Advice::from(NextStep::ReadSkill).with_text(otherwise);
    RegistryError::not_found(
        format!("`{}` has no file {path}", args.skill_id),
        suggest_similar(path.as_str(), files.iter().map(String::as_str)),
        otherwise,
    )
}
