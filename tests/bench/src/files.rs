//! A search in files, in a process of its own, for the comparison with ripgrep.

use std::path::Path;
use std::time::{Duration, Instant};

use core_tools::{FileRoots, SearchArgs, WalkControl, search_text};
use serde::Serialize;
use serde_json::json;
use skillhost_payload::{CallContext, Workspace, WorkspaceAccess};

/// The result of a search.
#[derive(Debug, Serialize)]
pub(crate) struct FileSearch {
    files_searched: u64,
    total_matches: u64,
}

/// Searches the files of a directory as the tool does.
pub(crate) fn search(
    directory: &Path,
    pattern: &str,
) -> Result<FileSearch, Box<dyn std::error::Error>> {
    let path = std::fs::canonicalize(directory)?;
    let workspace = Workspace { label: "files".into(), path, access: WorkspaceAccess::Read };
    let context = CallContext { workspaces: vec![workspace], ..CallContext::default() };
    let roots = FileRoots::new(Path::new("/nonexistent")).for_call(&context);
    let args: SearchArgs =
        serde_json::from_value(json!({"pattern": pattern, "path": "workspace:files"}))?;
    let control = WalkControl::new(Instant::now() + Duration::from_secs(600));
    let found = search_text(&roots, &args, &control).map_err(|error| error.to_string())?;
    let number = |key: &str| found.structured[key].as_u64().unwrap_or_default();
    Ok(FileSearch {
        files_searched: number("files_searched"),
        total_matches: number("total_matches"),
    })
}
