//! `git_diff`.

use std::fmt::Write as _;

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, Value, json};

use crate::changed_files::{ChangeSources, ChangedFile, FileContent, find_changes};
use crate::git_log::{describe_head, no_commits, write_commit};
use crate::git_place::RepositoryPlace;
use crate::printable::display_safe;
use crate::repository::{
    CommitWalk, FileMode, GitError, Head, ObjectId, Repository, merge_base, short_ref,
};
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::walk::WalkControl;
use crate::worktree::Worktree;

/// The maximum bytes of the diffs of one result.
const MAX_DIFF: usize = 40 << 10;

/// The largest file whose lines are compared, in bytes.
const MAX_FILE: usize = 512 << 10;

/// The maximum number of files and commits that are listed.
const MAX_FILES: usize = 300;
const MAX_COMMITS: usize = 20;

/// The arguments of `git_diff`.
#[derive(Debug, Default, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields, default)]
pub struct GitDiffArgs {
    path: Option<String>,
    base: Option<String>,
    target: DiffTarget,
    summary: bool,
}

/// The newer side of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "serde", rename_all = "snake_case")]
enum DiffTarget {
    /// The last commit of the branch.
    #[default]
    Branch,
    /// The files for the next commit.
    Index,
    /// The files as they are.
    Worktree,
}

/// The older side of a diff, and how it is described.
struct DiffBase {
    id: Option<ObjectId>,
    title: String,
}

/// Compares the branch, the index or the worktree of a repository with an earlier commit.
///
/// # Errors
/// Those of the jail; `ErrorKind::NotFound` without a repository or for an unknown revision.
pub fn git_diff(
    roots: &FileRoots,
    args: &GitDiffArgs,
    control: &WalkControl,
) -> Result<ToolResult, ExtensionError> {
    let place = RepositoryPlace::find(roots, args.path.as_deref(), control)?;
    let repository = &place.repository;
    let head = repository.head()?;
    let base = match args.target {
        DiffTarget::Branch => {
            let Some(id) = head.id else { return Ok(no_commits(&head)) };
            match branch_base(repository, &head, id, args.base.as_deref(), control)? {
                Ok(base) => base,
                Err(explanation) => return Ok(plain_result(&explanation)),
            }
        }
        DiffTarget::Index | DiffTarget::Worktree => {
            let id = match &args.base {
                Some(base) => Some(repository.find_commit(base)?),
                None => head.id,
            };
            let base = id.map_or_else(|| "the empty tree".to_owned(), ObjectId::short);
            let what = if args.target == DiffTarget::Index { "index" } else { "worktree" };
            DiffBase { id, title: format!("Changes in the {what} since {base}") }
        }
    };
    let tree = |commit: Option<ObjectId>| match commit {
        Some(id) => Ok::<_, GitError>(repository.commit(id)?.tree),
        None => Ok(None),
    };
    let old = tree(base.id)?;
    let sources = match args.target {
        DiffTarget::Branch => ChangeSources::Trees { old, new: tree(head.id)? },
        DiffTarget::Index => ChangeSources::Index { old, with_worktree: false },
        DiffTarget::Worktree => ChangeSources::Index { old, with_worktree: true },
    };
    let changes = find_changes(roots, &place, &sources, control)?;
    let mut text = format!("{} ({}):\n", base.title, describe_head(&head));
    let mut commits = Vec::new();
    if let (DiffTarget::Branch, Some(id)) = (args.target, head.id) {
        commits = write_commits(&mut text, repository, id, base.id, control)?;
    }
    let diffs = write_files(&mut text, &place, &changes.files, args.summary, control)?;
    let mut notes = changes.notes;
    if args.target == DiffTarget::Branch {
        // Changes that are not committed are part of what the user sees as the branch.
        let sources = ChangeSources::Index { old: tree(head.id)?, with_worktree: true };
        let open = find_changes(roots, &place, &sources, control)?;
        let count = open.files.len();
        if count > 0 {
            notes.push(format!(
                "{count} more files differ in the worktree and are not committed: see target: \
                 worktree"
            ));
        }
        notes.extend(open.notes);
    }
    for note in &notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    text.push_str(&diffs.text);
    let structured = json!({
        "base": base.id.map(|id| id.to_string()),
        "head": head.id.map(|id| id.to_string()),
        "branch": head.branch.as_deref().map(short_ref),
        "commits": commits,
        "files": diffs.files,
        "notes": notes,
        "complete": diffs.is_complete,
    });
    Ok(ToolResult { text, structured })
}

fn plain_result(text: &str) -> ToolResult {
    ToolResult { text: text.to_owned(), structured: json!({"files": [], "explanation": text}) }
}

/// Finds the commit that a branch is compared with: where it left the base. Returns an explanation
/// where there is nothing to compare with.
fn branch_base(
    repository: &Repository,
    head: &Head,
    id: ObjectId,
    base: Option<&str>,
    control: &WalkControl,
) -> Result<Result<DiffBase, String>, GitError> {
    let branch = describe_head(head);
    let (name, other) = match base {
        Some(base) => (base.to_owned(), repository.find_commit(base)?),
        None => match repository.default_branch(head)? {
            Some(found) => found,
            None => {
                return Ok(Err(format!(
                    "The repository is {branch}, and no other branch named main or master is \
                     known to compare with. Name a base, such as HEAD~1; git_log lists the commits."
                )));
            }
        },
    };
    let name = display_safe(&name);
    let Some(common) = merge_base(repository, id, other, control)? else {
        return Ok(Err(format!("HEAD and {name} have no commit in common; name another base.")));
    };
    if common == id && base.is_none() {
        return Ok(Err(format!(
            "The repository is {branch}, which has no commits that {name} lacks. target: worktree \
             shows changes that are not committed; a base such as HEAD~1 compares with an earlier \
             commit."
        )));
    }
    let title = format!("Changes on the branch since it left {name} at {}", common.short());
    Ok(Ok(DiffBase { id: Some(common), title }))
}

/// Writes the commits of the branch; returns their ids.
fn write_commits(
    text: &mut String,
    repository: &Repository,
    start: ObjectId,
    base: Option<ObjectId>,
    control: &WalkControl,
) -> Result<Vec<String>, GitError> {
    let mut walk = CommitWalk::new(repository, start, base, control)?;
    let mut ids = Vec::new();
    while let Some((id, commit)) = walk.next()? {
        if ids.len() == MAX_COMMITS {
            text.push_str("… and earlier commits: see git_log\n");
            break;
        }
        write_commit(text, id, &commit);
        ids.push(id.to_string());
    }
    Ok(ids)
}

/// The diffs of files.
struct FileDiffs {
    text: String,
    files: Vec<Value>,
    is_complete: bool,
}

/// Writes a line for each file; returns the diffs.
fn write_files(
    text: &mut String,
    place: &RepositoryPlace,
    files: &[ChangedFile],
    is_summary: bool,
    control: &WalkControl,
) -> Result<FileDiffs, GitError> {
    let mut diffs = FileDiffs { text: String::new(), files: Vec::new(), is_complete: true };
    let (mut added, mut removed, mut hidden) = (0, 0, Vec::new());
    let mut worktree = Worktree::new(place, (0, 0));
    for (number, file) in files.iter().enumerate() {
        // Comparing the lines of one file can take a second.
        if number == MAX_FILES || control.is_over() {
            let _ = writeln!(text, "… and {} more files", files.len() - number);
            diffs.is_complete = false;
            break;
        }
        let path = format!("{}{}", place.prefix, file.path);
        let change = describe_change(place, &mut worktree, file, &path)?;
        added += change.added;
        removed += change.removed;
        let _ = writeln!(text, " {} {}{}", file.letter(), display_safe(&path), change.note);
        diffs.files.push(json!({
            "path": path,
            "change": file.letter().to_string(),
            "from": file.renamed_from.as_ref().map(|from| format!("{}{from}", place.prefix)),
            "added": change.added,
            "removed": change.removed,
        }));
        if is_summary || change.diff.is_empty() {
            continue;
        }
        if diffs.text.len() + change.diff.len() > MAX_DIFF {
            hidden.push(display_safe(&path));
            continue;
        }
        diffs.text.push('\n');
        diffs.text.push_str(&change.diff);
    }
    let count = files.len();
    let files = if count == 1 { "file" } else { "files" };
    let part = if diffs.files.len() < count { " in those listed" } else { "" };
    let _ = writeln!(text, "[{count} {files}, +{added} -{removed} lines{part}]");
    if !hidden.is_empty() {
        diffs.is_complete = false;
        let _ = writeln!(
            text,
            "Note: the diffs of these are too long for this result; request each with path, or \
             read it: {}.",
            hidden.join(", ")
        );
    }
    Ok(diffs)
}

/// The change of one file.
#[derive(Default)]
struct FileChange {
    added: usize,
    removed: usize,
    note: String,
    diff: String,
}

fn describe_change(
    place: &RepositoryPlace,
    worktree: &mut Worktree<'_>,
    file: &ChangedFile,
    path: &str,
) -> Result<FileChange, GitError> {
    let note = |note: String| FileChange { note, ..FileChange::default() };
    if let Some(from) = &file.renamed_from {
        let from = display_safe(&format!("{}{from}", place.prefix));
        return Ok(note(format!(" (renamed from {from}, same content)")));
    }
    let sides = [&file.old, &file.new];
    if sides.iter().any(|side| side.as_ref().is_some_and(|it| it.mode == FileMode::Submodule)) {
        return Ok(note(" (submodule)".to_owned()));
    }
    let mut texts = Vec::new();
    for side in sides {
        let content = match side.as_ref().map(|side| (side.mode, &side.content)) {
            None => Vec::new(),
            Some((mode, FileContent::Worktree)) => match worktree.read(&file.path, mode)? {
                Some(bytes) => bytes,
                None => return Ok(note(" (not readable)".to_owned())),
            },
            Some((_, FileContent::Object(id))) => match place.repository.blob(*id) {
                Ok(bytes) => bytes,
                Err(GitError::TooLarge(size)) => return Ok(note(format!(" ({size} bytes)"))),
                Err(error) => return Err(error),
            },
        };
        if content.len() > MAX_FILE {
            return Ok(note(format!(" ({} bytes, too large to compare)", content.len())));
        }
        match String::from_utf8(content) {
            Ok(text) if !text.contains('\0') => texts.push(text),
            _ => return Ok(note(" (binary)".to_owned())),
        }
    }
    let mode = match (&file.old, &file.new) {
        (Some(old), Some(new)) if old.mode != new.mode => {
            format!(" ({} → {})", mode_name(old.mode), mode_name(new.mode))
        }
        _ => String::new(),
    };
    let diff = skill_diff::unified_diff(&texts[0], &texts[1], path);
    // After the two header lines, each line begins with its mark.
    let count = |mark| diff.split('\n').skip(2).filter(|line| line.starts_with(mark)).count();
    let (added, removed) = (count('+'), count('-'));
    Ok(FileChange { added, removed, note: format!("  +{added} -{removed}{mode}"), diff })
}

fn mode_name(mode: FileMode) -> &'static str {
    match mode {
        FileMode::Regular => "file",
        FileMode::Executable => "executable",
        FileMode::Link => "link",
        FileMode::Submodule => "submodule",
    }
}
