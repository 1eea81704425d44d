//! `apply_patch`.

use std::collections::BTreeMap;

use skill_diff::DiffError;
use skillhost_files::sha256_hex;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ErrorKind, ExtensionError, json};

use crate::change::{ChangeSet, FileEdit, read_current};
use crate::path::FilePath;
use crate::plan::WritePlan;
use crate::result::ToolResult;
use crate::roots::FileRoots;

/// The maximum number of files per call.
pub(crate) const FILES: usize = 50;

/// The arguments of `apply_patch`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct PatchArgs {
    patch: String,
}

/// Plans to change text files by a unified diff: all of them or none.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Conflict`] where the diff does not fit a file, with the line that
/// differs.
pub fn apply_patch(roots: &FileRoots, args: &PatchArgs) -> Result<WritePlan, ExtensionError> {
    let parts = skill_diff::split_files(&args.patch);
    if parts.is_empty() {
        return Err(ExtensionError::invalid_argument("the patch names no file").with_hint(
            "begin the part of each file with `--- a/PATH` and `+++ b/PATH`; a new file has \
             `--- /dev/null`",
        ));
    }
    if parts.len() > FILES {
        let message = format!("the patch has {} parts, more than {FILES}", parts.len());
        return Err(ExtensionError::new(ErrorKind::TooLarge, message)
            .with_hint("split it into several patches"));
    }
    // Sorted by path, so that the result does not depend on the order of the patch.
    let mut edits: BTreeMap<FilePath, FileEdit> = BTreeMap::new();
    let mut notes = Vec::new();
    for part in parts {
        let path = FilePath::new(&part.path)?;
        // A second section for the same file applies to the text after the first one.
        let mut edit = match edits.remove(&path) {
            Some(edit) => edit,
            None => {
                let now = read_current(roots, &path)?;
                let (base, old) =
                    now.map_or((None, String::new()), |now| (Some(now.digest), now.text));
                FileEdit { path: path.clone(), base, new: old.clone(), old }
            }
        };
        let is_there = edit.base.is_some() || !edit.new.is_empty();
        let patched = skill_diff::apply_diff(&edit.new, part.text, path.as_str())
            .map_err(|error| to_tool_error(&path, &error, is_there))?;
        notes.extend(patched.fuzz.iter().map(|note| format!("\nNote: `{path}`: {note}.")));
        edit.new = patched.text;
        edits.insert(path, edit);
    }
    let mut change = ChangeSet::default();
    let (mut lines, mut files) = (Vec::new(), Vec::new());
    for edit in edits.into_values() {
        let created = edit.base.is_none();
        lines.push(format!("{} `{}`", if created { "created" } else { "changed" }, edit.path));
        let digest = sha256_hex(edit.new.as_bytes());
        files.push(json!({"path": edit.path.as_str(), "created": created, "digest": digest}));
        change.add(edit)?;
    }
    let text = format!("Applied: {}.{}", lines.join(", "), notes.concat());
    WritePlan::edits(roots, change, ToolResult { text, structured: json!({ "files": files }) })
}

fn to_tool_error(path: &FilePath, error: &DiffError, is_there: bool) -> ExtensionError {
    let (kind, hint) = match error {
        DiffError::Deletion => (ErrorKind::InvalidArgument, "use delete_path"),
        DiffError::Rename { .. } => (ErrorKind::InvalidArgument, "use move_path, then change it"),
        DiffError::TooLarge { .. } => (ErrorKind::TooLarge, "make smaller patches"),
        _ if !is_there => (ErrorKind::NotFound, "a new file has `--- /dev/null`"),
        DiffError::Mismatch { .. }
        | DiffError::Nowhere { .. }
        | DiffError::Reversed { .. }
        | DiffError::Exists
        | DiffError::NothingChanges => {
            (ErrorKind::Conflict, "read_file again and make the diff against that text")
        }
        _ => (ErrorKind::InvalidArgument, "give a unified diff with context lines"),
    };
    ExtensionError::new(kind, format!("no changes made; `{path}`: {error}")).with_hint(hint)
}
