//! `find_files`.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::path::DirectoryPath;
use crate::printable::display_safe;
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::walk::{WalkControl, WalkFilter, WalkedFile, walk_files};

/// The default and the maximum of the number of listed files.
const FILES: usize = 200;
const MAX_FILES: usize = 2_000;

/// The maximum number of files before the listed ones.
const MAX_OFFSET: usize = 1_000_000;

/// The arguments of `find_files`.
#[derive(Debug, Default, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields, default)]
pub struct FindArgs {
    glob: Option<String>,
    path: Option<String>,
    offset: usize,
    limit: Option<usize>,
    all: bool,
}

/// The first paths in alphabetic order, up to a limit.
#[derive(Default)]
struct FoundFiles {
    paths: BTreeSet<String>,
    total: usize,
}

/// Lists the files below a directory that match a glob, sorted by path, in pages.
///
/// # Errors
/// Those of the jail; `ErrorKind::InvalidArgument` for a malformed glob.
pub fn find_files(
    roots: &FileRoots,
    args: &FindArgs,
    control: &WalkControl,
) -> Result<ToolResult, ExtensionError> {
    let path = DirectoryPath::new(args.path.as_deref())?;
    let filter = WalkFilter::new(args.glob.as_deref(), args.all)?;
    let (offset, limit) =
        (args.offset.min(MAX_OFFSET), args.limit.unwrap_or(FILES).clamp(1, MAX_FILES));
    let end = offset + limit;
    let found = Mutex::new(FoundFiles::default());
    let report = walk_files(roots, &path, &filter, control, || {
        |file: &WalkedFile<'_>| {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.total += 1;
            // The files with the first paths are kept, whichever thread is faster.
            if found.paths.len() < end
                || found.paths.last().is_some_and(|last| file.path < last.as_str())
            {
                found.paths.insert(file.path.to_owned());
                if found.paths.len() > end {
                    found.paths.pop_last();
                }
            }
        }
    })?;
    let FoundFiles { paths, total } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let page: Vec<&String> = paths.iter().skip(offset).collect();
    let next = (end < total).then_some(end);
    let mut lines: Vec<String> = page.iter().map(|path| display_safe(path)).collect();
    let mut notes = vec![match (total, next) {
        (0, _) => "no files".to_owned(),
        (1, _) => "1 file".to_owned(),
        (total, None) => format!("{total} files"),
        (total, Some(next)) => format!("{total} files; continue with offset {next}"),
    }];
    if report.unreadable > 0 {
        notes.push(format!("{} names or directories are not readable", report.unreadable));
    }
    if report.timed_out {
        notes.push("the time was over before all directories were listed".to_owned());
    }
    lines.push(format!("[{}]", notes.join("; ")));
    let structured = json!({
        "files": page,
        "total": total,
        "next_offset": next,
        "complete": next.is_none() && !report.timed_out,
    });
    Ok(ToolResult { text: lines.join("\n"), structured })
}
