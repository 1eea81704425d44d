//! `write_file` and `write_files`.

use skillhost_files::sha256_hex;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ErrorKind, ExtensionError, json};

use crate::change::{ChangeSet, FileEdit, read_current};
use crate::patch::FILES;
use crate::path::FilePath;
use crate::plan::WritePlan;
use crate::read::CurrentText;
use crate::result::ToolResult;
use crate::roots::FileRoots;

/// The digest value that means a missing file.
const ABSENT: &str = "none";

/// The arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct WriteArgs {
    path: String,
    content: String,
    /// The sha256 of the text that is replaced, or `none`.
    #[serde(default)]
    expected_digest: Option<String>,
}

/// Plans to write a complete text file.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Denied`] for a protected path, [`ErrorKind::Conflict`] if the
/// file is not the expected one.
pub fn write_file(roots: &FileRoots, args: &WriteArgs) -> Result<WritePlan, ExtensionError> {
    let path = FilePath::new(&args.path)?;
    let (base, old) = read_current(roots, &path)?.map_or((None, String::new()), split_contents);
    let now = base.as_deref().unwrap_or(ABSENT);
    if let Some(expected) = args.expected_digest.as_deref().filter(|expected| *expected != now) {
        let message = match (expected, now) {
            (ABSENT, _) => format!("`{path}` already exists"),
            (_, ABSENT) => format!("`{path}` not found"),
            _ => format!("`{path}` has the digest {now}, not the expected one"),
        };
        return Err(ExtensionError::new(ErrorKind::Conflict, message)
            .with_hint("read_file shows the text and its digest as they are now"));
    }
    let (digest, size) = (sha256_hex(args.content.as_bytes()), args.content.len());
    let verb = if base.is_none() { "Created" } else { "Replaced" };
    let lines = args.content.lines().count();
    let done = ToolResult {
        text: format!("{verb} `{path}`: {lines} lines, {size} bytes; sha256 {digest}."),
        structured: json!({
            "path": path.as_str(), "created": base.is_none(), "digest": digest, "size": size,
        }),
    };
    let mut change = ChangeSet::default();
    change.add(FileEdit { path, base, old, new: args.content.clone() })?;
    WritePlan::edits(roots, change, done)
}

/// The arguments of `write_files`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct WriteFilesArgs {
    files: Vec<NewText>,
}

/// A file of `write_files`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct NewText {
    path: String,
    content: String,
}

/// Plans to write several complete text files: all of them or none.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Denied`] for a protected path, [`ErrorKind::InvalidArgument`]
/// for an empty list and for a repeated path.
pub fn write_files(roots: &FileRoots, args: &WriteFilesArgs) -> Result<WritePlan, ExtensionError> {
    if args.files.is_empty() {
        return Err(ExtensionError::invalid_argument("`files` names no file")
            .with_hint("give each file as {\"path\": …, \"content\": …}"));
    }
    if args.files.len() > FILES {
        let message = format!("`files` has {} files, more than {FILES}", args.files.len());
        return Err(
            ExtensionError::new(ErrorKind::TooLarge, message).with_hint("make several calls")
        );
    }
    let mut change = ChangeSet::default();
    let (mut lines, mut files) = (Vec::new(), Vec::new());
    for NewText { path, content } in &args.files {
        let path = FilePath::new(path)?;
        let is_same = |edit: &FileEdit| edit.path.is_within(&path) || path.is_within(&edit.path);
        if let Some(edit) = change.edits.iter().find(|edit| is_same(edit)) {
            let message = format!("`{path}` and `{}` cannot both be files", edit.path);
            return Err(ExtensionError::invalid_argument(message).with_hint("name each file once"));
        }
        let (base, old) = read_current(roots, &path)?.map_or((None, String::new()), split_contents);
        let created = base.is_none();
        lines.push(format!("{} `{path}`", if created { "created" } else { "replaced" }));
        let digest = sha256_hex(content.as_bytes());
        files.push(json!({"path": path.as_str(), "created": created, "digest": digest}));
        change.add(FileEdit { path, base, old, new: content.clone() })?;
    }
    let text = format!("Written: {}.", lines.join(", "));
    WritePlan::edits(roots, change, ToolResult { text, structured: json!({ "files": files }) })
}

/// Returns the digest and the text of an existing file.
fn split_contents(now: CurrentText) -> (Option<String>, String) {
    (Some(now.digest), now.text)
}
