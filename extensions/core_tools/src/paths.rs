//! `move_path` and `delete_path`.

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::jail::FileEntryKind;
use crate::path::FilePath;
use crate::plan::{PlannedAction, WritePlan};
use crate::relocate::{examine, examine_deletion, format_deletion, refuse_odd};
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::skill::new_skill;

/// The arguments of `move_path`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct MoveArgs {
    from: String,
    to: String,
}

/// The arguments of `delete_path`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct DeleteArgs {
    path: String,
    #[serde(default)]
    recursive: bool,
}

/// Plans to rename a file or a directory to a name that does not exist.
///
/// # Errors
/// Those of the jail; `ErrorKind::Denied` for a protected path, `ErrorKind::Conflict` if the
/// new name exists.
pub fn move_path(roots: &FileRoots, args: &MoveArgs) -> Result<WritePlan, ExtensionError> {
    let (from, to) = (FilePath::new(&args.from)?, FilePath::new(&args.to)?);
    if from.workspace() != to.workspace() {
        let message = format!("`{from}` and `{to}` are in different places");
        return Err(ExtensionError::invalid_argument(message)
            .with_hint("write the new file, then delete the old one"));
    }
    let (_, kind, inside) = examine(roots, &from)?;
    refuse_odd(&from, &inside, "move")?;
    roots.check_mutable(&to)?;
    // A directory cannot be moved into itself.
    if to.is_within(&from) {
        return Err(ExtensionError::invalid_argument(format!("`{to}` is `{from}` or lies in it"))
            .with_hint("choose a name elsewhere"));
    }
    let skill = new_skill(roots, &to)?.filter(|_| kind == FileEntryKind::File);
    let done = ToolResult {
        text: format!("Moved `{from}` to `{to}`."),
        structured: json!({"from": from.as_str(), "to": to.as_str(), "kind": kind.as_str()}),
    };
    Ok(WritePlan {
        skills: skill.into_iter().collect(),
        act: PlannedAction::Move { from, to },
        done,
    })
}

/// Plans to delete a file, an empty directory, or a directory with all its entries.
///
/// # Errors
/// Those of the jail; `ErrorKind::Denied` for a protected path, `ErrorKind::InvalidArgument`
/// for a directory that is not empty without `recursive`.
pub fn delete_path(roots: &FileRoots, args: &DeleteArgs) -> Result<WritePlan, ExtensionError> {
    let (path, recursive) = (FilePath::new(&args.path)?, args.recursive);
    let (_, kind, inside) = examine_deletion(roots, &path, recursive)?;
    let done = format_deletion(&path, kind, &inside);
    Ok(WritePlan { skills: Vec::new(), act: PlannedAction::Delete { path, recursive }, done })
}
