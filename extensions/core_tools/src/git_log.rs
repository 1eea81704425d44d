//! `git_log`.

use std::fmt::Write as _;

use skillhost_payload::format_minute;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ExtensionError, json};

use crate::git_place::RepositoryPlace;
use crate::printable::{display_safe, truncate};
use crate::repository::{Commit, CommitWalk, GitError, Head, ObjectId, find_in_tree, short_ref};
use crate::result::ToolResult;
use crate::roots::FileRoots;
use crate::walk::WalkControl;

/// The default and the maximum of the number of commits.
const COMMITS: usize = 20;
const MAX_COMMITS: usize = 200;

/// The maximum lines of a commit's message that are shown.
const MAX_LINES: usize = 12;

/// The maximum length of a line of a message, in bytes.
const MAX_LINE: usize = 300;

/// The maximum bytes of a commit's message, and number of its parents, in the structured result.
const MAX_MESSAGE: usize = 4 << 10;
const MAX_PARENTS: usize = 64;

/// The maximum bytes of a result.
const MAX_BYTES: usize = 48 << 10;

/// The arguments of `git_log`.
#[derive(Debug, Default, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields, default)]
pub struct GitLogArgs {
    path: Option<String>,
    revision: Option<String>,
    base: Option<String>,
    limit: Option<usize>,
}

/// Lists the commits of a repository, newest first.
///
/// # Errors
/// Those of the jail; `ErrorKind::NotFound` without a repository or for an unknown revision.
pub fn git_log(
    roots: &FileRoots,
    args: &GitLogArgs,
    control: &WalkControl,
) -> Result<ToolResult, ExtensionError> {
    let place = RepositoryPlace::find(roots, args.path.as_deref(), control)?;
    let repository = &place.repository;
    let head = repository.head()?;
    let start = match (&args.revision, head.id) {
        (Some(revision), _) => repository.find_commit(revision)?,
        (None, Some(id)) => id,
        (None, None) => return Ok(no_commits(&head)),
    };
    let base = args.base.as_deref().map(|base| repository.find_commit(base)).transpose()?;
    let limit = args.limit.unwrap_or(COMMITS).clamp(1, MAX_COMMITS);
    let mut walk = CommitWalk::new(repository, start, base, control)?;
    let (mut text, mut commits, mut has_more) = (String::new(), Vec::new(), false);
    while let Some((id, commit)) = walk.next()? {
        if !place.filter.is_empty() && !changes_path(&place, &commit)? {
            continue;
        }
        if commits.len() == limit || text.len() > MAX_BYTES {
            has_more = true;
            break;
        }
        write_commit(&mut text, id, &commit);
        commits.push(json!({
            "id": id.to_string(),
            "parents": commit.parents.iter().take(MAX_PARENTS).map(ToString::to_string).collect::<Vec<_>>(),
            "author": truncate(&commit.author, MAX_LINE),
            "authored": commit.authored,
            "message": truncate(&commit.message, MAX_MESSAGE),
        }));
    }
    let count = match commits.len() {
        1 => "1 commit".to_owned(),
        count => format!("{count} commits"),
    };
    let more = if has_more { "; there are more: raise limit, or name a base" } else { "" };
    let branch = describe_head(&head);
    let _ = write!(text, "[{count}{more}; {branch}]");
    let structured = json!({ "commits": commits, "complete": !has_more, "head": branch });
    Ok(ToolResult { text, structured })
}

/// Returns the result for a repository without commits.
pub(crate) fn no_commits(head: &Head) -> ToolResult {
    let branch = describe_head(head);
    let text = format!(
        "The repository has no commits yet ({branch}), so there is no history to compare with. \
         git_diff with target: worktree or target: index shows its files."
    );
    ToolResult { text, structured: json!({ "commits": [], "complete": true, "head": branch }) }
}

/// Describes the checked-out branch.
pub(crate) fn describe_head(head: &Head) -> String {
    match (&head.branch, head.id) {
        (Some(branch), _) => format!("on branch {}", display_safe(short_ref(branch))),
        (None, Some(id)) => format!("on commit {}", id.short()),
        (None, None) => "without a branch".to_owned(),
    }
}

/// Writes a commit with the beginning of its message.
pub(crate) fn write_commit(text: &mut String, id: ObjectId, commit: &Commit) {
    let author = shorten(commit.author.split('<').next().unwrap_or_default().trim());
    let when = format_minute(commit.authored.saturating_mul(1_000));
    let mut lines = commit.message.lines();
    let subject = shorten(lines.next().unwrap_or("(no message)"));
    let merge = if commit.parents.len() > 1 { " (merge)" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} {when} {author}{merge}: {subject}", id.short());
    let body: Vec<&str> = lines.skip_while(|line| line.trim().is_empty()).collect();
    for line in body.iter().take(MAX_LINES) {
        let _ = writeln!(text, "    {}", shorten(line));
    }
    if body.len() > MAX_LINES {
        let _ = writeln!(text, "    … ({} more lines)", body.len() - MAX_LINES);
    }
}

fn shorten(line: &str) -> String {
    display_safe(&truncate(line, MAX_LINE))
}

/// Returns whether a commit changes the named path, compared with its first parent.
fn changes_path(place: &RepositoryPlace, commit: &Commit) -> Result<bool, GitError> {
    let find = |tree| find_in_tree(&place.repository, tree, &place.filter);
    let before = match commit.parents.first() {
        Some(parent) => find(place.repository.commit(*parent)?.tree)?,
        None => None,
    };
    Ok(find(commit.tree)? != before)
}
