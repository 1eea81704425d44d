//! `move_path` and `delete_path`.

use std::io::ErrorKind as IoKind;
use std::sync::PoisonError;

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ErrorKind, ExtensionError, json};

use crate::change::rename_new;
use crate::jail::{self, Fault, Kind, Made, Sandbox, Spot, kind_of, part_of_skill};
use crate::path::SandboxPath;
use crate::skill::{Holds, holds, new_skill};
use crate::temporary::temporary_name;
use crate::{Act, Done, Plan, effect};

/// Folders of the sandbox that stay where they are.
const FIXED: [&str; 2] = ["skills", "extensions"];

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

/// Plans to give a file or a directory another name that nothing has.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Denied`] for what is kept, [`ErrorKind::Conflict`] if something
/// has the new name.
pub fn move_path(sandbox: &Sandbox, args: &MoveArgs) -> Result<Plan, ExtensionError> {
    let (from, to) = (SandboxPath::new(&args.from)?, SandboxPath::new(&args.to)?);
    let (_, kind, inside) = examine(sandbox, &from)?;
    refuse_odd(&from, &inside, "move")?;
    sandbox.refuse_kept(&to)?;
    if to.is_within(&from) {
        return Err(ExtensionError::invalid_argument(format!("`{to}` is `{from}` or lies in it"))
            .with_hint("choose a name elsewhere"));
    }
    let skill = new_skill(sandbox, &to)?.filter(|_| kind == Kind::File);
    let done = Done {
        text: format!("Moved `{from}` to `{to}`."),
        structured: json!({"from": from.as_str(), "to": to.as_str(), "kind": kind.as_str()}),
    };
    Ok(Plan { skills: skill.into_iter().collect(), act: Act::Move { from, to }, done })
}

/// Plans to delete a file, an empty directory, or a directory with all it has.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Denied`] for what is kept, [`ErrorKind::InvalidArgument`] for a
/// directory that is not empty where that was not said.
pub fn delete_path(sandbox: &Sandbox, args: &DeleteArgs) -> Result<Plan, ExtensionError> {
    let (path, recursive) = (SandboxPath::new(&args.path)?, args.recursive);
    let (_, kind, inside) = examine_deletion(sandbox, &path, recursive)?;
    let done = deleted(&path, kind, &inside);
    Ok(Plan { skills: Vec::new(), act: Act::Delete { path, recursive }, done })
}

/// Deletes what was planned to be deleted, if its effect is the approved one.
pub(crate) fn remove(
    sandbox: &Sandbox,
    path: &SandboxPath,
    recursive: bool,
    approved: Option<&str>,
) -> Result<Done, ExtensionError> {
    let _one = sandbox.writing.lock().unwrap_or_else(PoisonError::into_inner);
    let (spot, kind, inside) = examine_deletion(sandbox, path, recursive)?;
    effect::check_approved(approved, || effect::of_deletion(sandbox, path, true))?;
    let failed = |error: std::io::Error| Fault::from(error).at(path);
    match (kind, inside.entries) {
        (Kind::Directory, 0) => spot.dir.remove_dir(&spot.name).map_err(failed)?,
        (Kind::Directory, _) => {
            // Out of sight at once: nobody sees half of it.
            let hidden = temporary_name();
            spot.dir.rename(&spot.name, &spot.dir, &hidden).map_err(failed)?;
            spot.dir.remove_dir_all(&hidden).map_err(failed)?;
        }
        _ => spot.dir.remove_file(&spot.name).map_err(failed)?,
    }
    jail::sync(&spot.dir)?;
    Ok(deleted(path, kind, &inside))
}

fn examine_deletion(
    sandbox: &Sandbox,
    path: &SandboxPath,
    recursive: bool,
) -> Result<(Spot, Kind, Holds), ExtensionError> {
    let (spot, kind, inside) = examine(sandbox, path)?;
    refuse_odd(path, &inside, "delete")?;
    if kind == Kind::Directory && inside.entries > 0 && !recursive {
        return Err(ExtensionError::invalid_argument(format!(
            "`{path}` is a directory with {} entries",
            inside.entries
        ))
        .with_hint("with recursive: true all of it is deleted"));
    }
    Ok((spot, kind, inside))
}

fn deleted(path: &SandboxPath, kind: Kind, inside: &Holds) -> Done {
    let more = match inside.entries {
        0 => String::new(),
        entries => format!(" and the {entries} entries in it"),
    };
    let structured =
        json!({"path": path.as_str(), "kind": kind.as_str(), "entries": inside.entries});
    Done { text: format!("Deleted `{path}`{more}."), structured }
}

/// Refuses a tree with links or special files: what it stands for lies elsewhere.
fn refuse_odd(path: &SandboxPath, inside: &Holds, verb: &str) -> Result<(), ExtensionError> {
    if !inside.odd {
        return Ok(());
    }
    Err(ExtensionError::new(ErrorKind::Denied, format!("`{path}` holds links or special files"))
        .with_hint(format!("a person has to {verb} it")))
}

/// Moves what was planned to be moved, if its effect is the approved one.
pub(crate) fn carry(
    sandbox: &Sandbox,
    from: &SandboxPath,
    to: &SandboxPath,
    approved: Option<&str>,
) -> Result<(), ExtensionError> {
    let _one = sandbox.writing.lock().unwrap_or_else(PoisonError::into_inner);
    let (old, _, inside) = examine(sandbox, from)?;
    refuse_odd(from, &inside, "move")?;
    sandbox.refuse_kept(to)?;
    effect::check_approved(approved, || effect::of_move(sandbox, from, to, true))?;
    let mut made = Made::default();
    let moved = sandbox.spot_made(to, &mut made).and_then(|new| {
        rename_new(&old.dir, &old.name, &new.dir, &new.name).map_err(|error| {
            match error.kind() {
                IoKind::AlreadyExists => {
                    ExtensionError::new(ErrorKind::Conflict, format!("`{to}` is there already"))
                        .with_hint("choose another name, or delete it first")
                }
                _ => Fault::from(error).at(to),
            }
        })?;
        jail::sync(&new.dir)?;
        jail::sync(&old.dir).map_err(ExtensionError::from)
    });
    if moved.is_err() {
        made.undo();
    }
    moved
}

/// Finds what is to be moved or deleted, and refuses what has to stay.
fn examine(sandbox: &Sandbox, path: &SandboxPath) -> Result<(Spot, Kind, Holds), ExtensionError> {
    sandbox.refuse_kept(path)?;
    if FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(path.as_str())) {
        return Err(ExtensionError::new(
            ErrorKind::Denied,
            format!("`{path}` is part of every sandbox"),
        )
        .with_hint("name something in it"));
    }
    let spot = sandbox.spot(path)?;
    let metadata = spot.metadata().map_err(|error| Fault::from(error).at(path))?;
    let kind = metadata.map(|metadata| kind_of(&metadata)).ok_or(Fault::NotFound);
    match kind.map_err(|fault| fault.at(path))? {
        is @ (Kind::Link | Kind::Special) => Err(Fault::Not { is }.at(path)),
        Kind::File => Ok((spot, Kind::File, Holds::default())),
        Kind::Directory => {
            let dir = spot.open_dir().map_err(|fault| fault.at(path))?;
            let inside = holds(&dir, path)?;
            if jail::has_skill_file(&dir)? {
                return Err(part_of_skill(path, path.as_str()));
            }
            if inside.skill {
                return Err(ExtensionError::new(
                    ErrorKind::Denied,
                    format!("`{path}` holds skills"),
                )
                .with_hint("skills are read-only; name what is beside them"));
            }
            Ok((spot, Kind::Directory, inside))
        }
    }
}
