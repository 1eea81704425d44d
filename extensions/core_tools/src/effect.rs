//! The effect of a planned write, as a person sees it before approval.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use skillhost_files::sha256_hex;
use skillhost_sdk::{
    ChangeKind, EffectChange, ErrorKind, ExtensionError, Result, ToolEffect, serde_json,
};

use crate::change::ChangeSet;
use crate::jail::{EntryPath, FileEntryKind, classify_entry};
use crate::path::FilePath;
use crate::read;
use crate::roots::FileRoots;

/// A collector of changes up to the display limit.
#[derive(Default)]
struct Collector {
    changes: Vec<EffectChange>,
    bytes: usize,
    hidden: Option<String>,
}

/// Returns the effect of writing texts.
pub(crate) fn of_edits(change: &ChangeSet, with_text: bool) -> ToolEffect {
    let mut collector = Collector::default();
    for edit in &change.edits {
        let kind = if edit.base.is_none() { ChangeKind::Create } else { ChangeKind::Modify };
        collector.push(kind, &edit.path, None, || {
            with_text.then(|| hunks(&edit.old, &edit.new, &edit.path))
        });
    }
    collector.finish()
}

/// Returns the effect of a move: with texts, of a directory every file at its new path.
pub(crate) fn of_move(
    roots: &FileRoots,
    from: &FilePath,
    to: &FilePath,
    with_text: bool,
) -> Result<ToolEffect> {
    let mut collector = Collector::default();
    // Without texts the files below the directory are not needed.
    if !with_text {
        collector.push(ChangeKind::Move, from, Some(to), || None);
        return Ok(collector.finish());
    }
    for (path, location) in files_of(roots, from)? {
        let rest = &path.as_str()[from.as_str().len()..];
        let new = FilePath::new(&format!("{to}{rest}"))?;
        let shown = match location.filter(|_| collector.hidden.is_none()) {
            None => None,
            Some(location) => match read::read_text(&location, &path) {
                Ok(now) => Some(hunks("", &now.text, &new)),
                Err(error) => {
                    collector.hide(format!("`{path}` cannot be shown: {}", error.message()));
                    None
                }
            },
        };
        collector.push(ChangeKind::Move, &path, Some(&new), || shown);
    }
    Ok(collector.finish())
}

/// Returns the effect of a deletion: with texts every entry.
pub(crate) fn of_deletion(
    roots: &FileRoots,
    path: &FilePath,
    with_text: bool,
) -> Result<ToolEffect> {
    let mut collector = Collector::default();
    if !with_text {
        collector.push(ChangeKind::Delete, path, None, || None);
        return Ok(collector.finish());
    }
    for (path, location) in files_of(roots, path)? {
        let size = match location.map(|location| location.metadata()).transpose()?.flatten() {
            Some(metadata) => format!("{} bytes\n", metadata.len()),
            None => String::new(),
        };
        collector.push(ChangeKind::Delete, &path, None, || Some(size));
    }
    Ok(collector.finish())
}

/// Rejects a write whose effect is not the approved one.
///
/// # Errors
/// [`ErrorKind::Conflict`] if the effect differs from the approved one.
pub(crate) fn check_approved(
    approved: Option<&str>,
    effect: impl FnOnce() -> Result<ToolEffect>,
) -> Result<()> {
    let Some(approved) = approved else { return Ok(()) };
    if effect()?.digest == approved {
        return Ok(());
    }
    Err(ExtensionError::new(ErrorKind::Conflict, "the files have changed since the approval")
        .with_hint("make the call again, so that its effect is shown as it is now"))
}

impl Collector {
    fn push(
        &mut self,
        kind: ChangeKind,
        path: &FilePath,
        to: Option<&FilePath>,
        diff: impl FnOnce() -> Option<String>,
    ) {
        let home = |path: &FilePath| match path.workspace() {
            Some(_) => path.to_string(),
            None => format!("sandbox/{path}"),
        };
        let mut diff = diff().unwrap_or_default();
        self.bytes += diff.len() + path.as_str().len();
        if self.bytes > ToolEffect::TEXT_LIMIT {
            self.hide(format!("the changes have more than {} bytes", ToolEffect::TEXT_LIMIT));
            diff.clear();
        }
        self.changes.push(EffectChange { path: home(path), kind, to: to.map(home), diff });
    }

    /// Records a reason for hiding the effect.
    fn hide(&mut self, reason: String) {
        // The first reason stays: later ones often follow from it.
        self.hidden.get_or_insert(reason);
    }

    fn finish(self) -> ToolEffect {
        let bytes = serde_json::to_vec(&self.changes).unwrap_or_default();
        ToolEffect { digest: sha256_hex(&bytes), changes: self.changes, hidden: self.hidden }
    }
}

/// Returns the entry at a path and, of a directory, all that lies in it, sorted by path; files with
/// where they lie. Links are not followed.
fn files_of(roots: &FileRoots, path: &FilePath) -> Result<Vec<(FilePath, Option<EntryPath>)>> {
    let location = roots.open_entry(path)?;
    let is_dir = location.metadata()?.is_some_and(|metadata| metadata.is_dir());
    if !is_dir {
        return Ok(vec![(path.clone(), Some(location))]);
    }
    let top = location.open_dir().map_err(|fault| fault.with_path(path))?;
    let (mut found, mut dirs) = (vec![(path.clone(), None)], vec![(path.clone(), top)]);
    while let Some((above, dir)) = dirs.pop() {
        for entry in dir.entries()? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| {
                let name = name.to_string_lossy();
                ExtensionError::new(
                    ErrorKind::Denied,
                    format!("`{above}` holds `{name}`, no UTF-8"),
                )
                .with_hint("a person has to do it")
            })?;
            let path = FilePath::new(&format!("{above}/{name}"))?;
            if classify_entry(&entry.metadata()?) == FileEntryKind::Directory {
                let inner: Dir = dir.open_dir_nofollow(&name)?;
                found.push((path.clone(), None));
                dirs.push((path, inner));
            } else {
                found.push((path, Some(EntryPath { dir: dir.try_clone()?, name })));
            }
        }
    }
    // The digest covers the list, so its order must not depend on the disk.
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// Returns the hunks of a diff; its first two lines would only repeat the path.
fn hunks(old: &str, new: &str, path: &FilePath) -> String {
    // The two header lines name the path, which the change already has.
    let diff = skill_diff::unified_diff(old, new, path.as_str());
    diff.splitn(3, '\n').nth(2).unwrap_or_default().to_owned()
}
