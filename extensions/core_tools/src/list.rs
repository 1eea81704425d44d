//! `list_directory`.

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::jail::{FileEntryKind, classify_entry, has_skill_file};
use crate::path::DirectoryPath;
use crate::printable::display_safe;
use crate::result::ToolResult;
use crate::roots::{FileRoots, is_private};

/// The default and the maximum of the number of listed entries.
const ENTRIES: usize = 200;
const MOST: usize = 1_000;

/// The limit on the examined entries of a directory.
const LOOKED_AT: usize = 100_000;

/// The arguments of `list_directory`.
#[derive(Debug, Default, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields, default)]
pub struct ListArgs {
    path: Option<String>,
    offset: usize,
    limit: Option<usize>,
}

/// Lists a directory, sorted by name, in pages.
///
/// # Errors
/// Those of the jail.
pub fn list_directory(roots: &FileRoots, args: &ListArgs) -> Result<ToolResult, ExtensionError> {
    let path = DirectoryPath::new(args.path.as_deref())?;
    let dir = roots.open_directory(&path)?;
    let (mut names, mut notes, mut strange) = (Vec::new(), Vec::new(), 0_usize);
    for (count, entry) in dir.entries()?.enumerate() {
        if count == LOOKED_AT {
            notes.push(format!("only {LOOKED_AT} entries were looked at"));
            break;
        }
        match entry?.file_name().into_string() {
            Ok(name) if path.is_sandbox() && is_private(&name) => {}
            Ok(name) => names.push(name),
            Err(_) => strange += 1,
        }
    }
    // The order of the disk varies; pages need a stable one.
    names.sort_unstable();
    if strange > 0 {
        notes.push(format!("{strange} names are not UTF-8 and cannot be reached"));
    }
    let limit = args.limit.unwrap_or(ENTRIES).clamp(1, MOST);
    let mut lines = Vec::new();
    let mut entries = Vec::new();
    let page = names.iter().skip(args.offset).take(limit);
    for name in page {
        // The entry may have been removed since the listing.
        let Ok(metadata) = dir.symlink_metadata(name) else { continue };
        let kind = classify_entry(&metadata);
        let is_skill = kind == FileEntryKind::Directory && holds_skill(&dir, name);
        lines.push(match kind {
            FileEntryKind::Directory if is_skill => {
                format!("{}/ (skill, read-only)", display_safe(name))
            }
            FileEntryKind::Directory => format!("{}/", display_safe(name)),
            FileEntryKind::File => format!("{} ({} bytes)", display_safe(name), metadata.len()),
            kind => format!("{} ({}, not followed)", display_safe(name), kind.as_str()),
        });
        let size = (kind == FileEntryKind::File).then(|| metadata.len());
        entries.push(json!({
            "name": name, "kind": kind.as_str(), "size": size, "skill": is_skill,
        }));
    }
    let end = args.offset.saturating_add(limit);
    let next = (end < names.len()).then_some(end);
    match next {
        _ if names.is_empty() => notes.push("empty directory".to_owned()),
        Some(next) => notes.push(format!("{} entries; continue with offset {next}", names.len())),
        None => notes.push(format!("{} entries", names.len())),
    }
    lines.push(format!("[{}]", notes.join("; ")));
    let structured = json!({
        "path": path.to_text(),
        "entries": entries,
        "total": names.len(),
        "next_offset": next,
        "unreachable": strange,
    });
    Ok(ToolResult { text: lines.join("\n"), structured })
}

fn holds_skill(dir: &cap_std::fs::Dir, name: &str) -> bool {
    use cap_fs_ext::DirExt as _;
    let inner = dir.open_dir_nofollow(name);
    inner.is_ok_and(|inner| has_skill_file(&inner).unwrap_or(false))
}
