//! Moves and deletes entries of the sandbox.

use std::io::ErrorKind as IoKind;
use std::sync::PoisonError;

use skillhost_files::jail::sync_directory;
use skillhost_files::temporary::unique_temporary_name;
use skillhost_sdk::{ErrorKind, ExtensionError, json};

use crate::change::rename_new;
use crate::effect;
use crate::jail::{
    self, CreatedDirectories, EntryError, EntryPath, FileEntryKind, classify_entry,
    read_only_skill_error,
};
use crate::path::FilePath;
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::skill::{DirectoryContents, inspect_directory};

/// Directories of the sandbox that cannot be moved or deleted.
const FIXED: [&str; 2] = ["skills", "extensions"];

/// Deletes the planned entry if its effect is the approved one.
pub(crate) fn remove(
    roots: &FileRoots,
    path: &FilePath,
    recursive: bool,
    approved: Option<&str>,
) -> Result<ToolResult, ExtensionError> {
    let _one = roots.writing.lock().unwrap_or_else(PoisonError::into_inner);
    // Examined again: the entry may have changed since the plan.
    let (location, kind, inside) = examine_deletion(roots, path, recursive)?;
    effect::check_approved(approved, || effect::of_deletion(roots, path, true))?;
    let failed = |error: std::io::Error| EntryError::from(error).with_path(path);
    match (kind, inside.entries) {
        (FileEntryKind::Directory, 0) => location.dir.remove_dir(&location.name).map_err(failed)?,
        (FileEntryKind::Directory, _) => {
            // The entry is renamed first: no reader sees a half-deleted directory.
            let hidden = unique_temporary_name();
            location.dir.rename(&location.name, &location.dir, &hidden).map_err(failed)?;
            location.dir.remove_dir_all(&hidden).map_err(failed)?;
        }
        _ => location.dir.remove_file(&location.name).map_err(failed)?,
    }
    // The removal survives a crash only after the directory is synced.
    sync_directory(&location.dir)?;
    Ok(format_deletion(path, kind, &inside))
}

pub(crate) fn examine_deletion(
    roots: &FileRoots,
    path: &FilePath,
    recursive: bool,
) -> Result<(EntryPath, FileEntryKind, DirectoryContents), ExtensionError> {
    let (location, kind, inside) = examine(roots, path)?;
    refuse_odd(path, &inside, "delete")?;
    if kind == FileEntryKind::Directory && inside.entries > 0 && !recursive {
        return Err(ExtensionError::invalid_argument(format!(
            "`{path}` is a directory with {} entries",
            inside.entries
        ))
        .with_hint("with recursive: true all of it is deleted"));
    }
    Ok((location, kind, inside))
}

pub(crate) fn format_deletion(
    path: &FilePath,
    kind: FileEntryKind,
    inside: &DirectoryContents,
) -> ToolResult {
    let more = match inside.entries {
        0 => String::new(),
        entries => format!(" and the {entries} entries in it"),
    };
    let structured =
        json!({"path": path.as_str(), "kind": kind.as_str(), "entries": inside.entries});
    ToolResult { text: format!("Deleted `{path}`{more}."), structured }
}

/// Rejects a tree with links or special files, whose targets lie elsewhere.
pub(crate) fn refuse_odd(
    path: &FilePath,
    inside: &DirectoryContents,
    verb: &str,
) -> Result<(), ExtensionError> {
    if !inside.odd {
        return Ok(());
    }
    Err(ExtensionError::new(ErrorKind::Denied, format!("`{path}` holds links or special files"))
        .with_hint(format!("a person has to {verb} it")))
}

/// Moves the planned entry if its effect is the approved one.
pub(crate) fn move_entry(
    roots: &FileRoots,
    from: &FilePath,
    to: &FilePath,
    approved: Option<&str>,
) -> Result<(), ExtensionError> {
    let _one = roots.writing.lock().unwrap_or_else(PoisonError::into_inner);
    // Examined again: the entry may have changed since the plan.
    let (old, _, inside) = examine(roots, from)?;
    refuse_odd(from, &inside, "move")?;
    roots.check_mutable(to)?;
    effect::check_approved(approved, || effect::of_move(roots, from, to, true))?;
    let mut made = CreatedDirectories::default();
    let moved = roots.open_entry_creating(to, &mut made).and_then(|new| {
        rename_new(&old.dir, &old.name, &new.dir, &new.name).map_err(|error| {
            match error.kind() {
                IoKind::AlreadyExists => {
                    ExtensionError::new(ErrorKind::Conflict, format!("`{to}` already exists"))
                        .with_hint("choose another name, or delete it first")
                }
                _ => EntryError::from(error).with_path(to),
            }
        })?;
        // The new name is synced first, so that a crash leaves the entry under at least one name.
        sync_directory(&new.dir)?;
        sync_directory(&old.dir).map_err(ExtensionError::from)
    });
    if moved.is_err() {
        made.undo();
    }
    moved
}

/// Finds the entry to move or delete, and rejects a protected one.
pub(crate) fn examine(
    roots: &FileRoots,
    path: &FilePath,
) -> Result<(EntryPath, FileEntryKind, DirectoryContents), ExtensionError> {
    roots.check_mutable(path)?;
    // Ignoring case: on some file systems `Skills` is the same directory.
    if FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(path.as_str())) {
        return Err(ExtensionError::new(
            ErrorKind::Denied,
            format!("`{path}` is part of every sandbox"),
        )
        .with_hint("name an entry in it"));
    }
    let location = roots.open_entry(path)?;
    let metadata = location.metadata().map_err(|error| EntryError::from(error).with_path(path))?;
    let kind = metadata.map(|metadata| classify_entry(&metadata)).ok_or(EntryError::NotFound);
    match kind.map_err(|fault| fault.with_path(path))? {
        is @ (FileEntryKind::Link | FileEntryKind::Special) => {
            Err(EntryError::Not { is }.with_path(path))
        }
        FileEntryKind::File => Ok((location, FileEntryKind::File, DirectoryContents::default())),
        FileEntryKind::Directory => {
            let dir = location.open_dir().map_err(|fault| fault.with_path(path))?;
            let inside = inspect_directory(&dir, path)?;
            if jail::has_skill_file(&dir)? {
                return Err(read_only_skill_error(path, path.as_str()));
            }
            if inside.skill {
                return Err(ExtensionError::new(
                    ErrorKind::Denied,
                    format!("`{path}` holds skills"),
                )
                .with_hint("skills are read-only; name the entries next to them"));
            }
            if inside.repository && path.workspace().is_some() {
                return Err(ExtensionError::new(
                    ErrorKind::Denied,
                    format!("`{path}` holds a repository"),
                )
                .with_hint("a person has to do it"));
            }
            Ok((location, FileEntryKind::Directory, inside))
        }
    }
}
