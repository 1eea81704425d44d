//! The specifications of the tools for models.

use skillhost_sdk::{ApprovalPolicy, ToolSpec, json, object_schema};

use crate::patch::FILES;

/// The capabilities that calls use, by which skills declare them.
const READS: &str = "file:read";
const WRITES: &str = "file:write";

/// Declares the tools.
pub(crate) fn tool_specs() -> Vec<ToolSpec> {
    let path = |what: &str| {
        json!({
            "type": "string",
            "description": format!(
                "{what}; below the sandbox, with /, such as notes/a.md, or in a workspace of the \
                 user, such as workspace:LABEL/src/a.rs"
            ),
        })
    };
    let directory = |what: &str| {
        json!({
            "type": "string",
            "description": format!(
                "{what}: workspace:LABEL for a whole workspace, workspace:LABEL/src, or a path \
                 below the sandbox; the sandbox itself if it is not given"
            ),
        })
    };
    let whole =
        |what: &str, least: u64| json!({"type": "integer", "minimum": least, "description": what});
    let read = json!({
        "path": path("The file"),
        "offset": whole("The first line, counted from 1", 1),
        "limit": whole("Maximum number of lines; 2000 by default", 1),
    });
    let write = json!({
        "path": path("The file"),
        "content": {"type": "string", "description": "All of the new text"},
        "expected_digest": {
            "type": "string",
            "description": "The sha256 of the text you replace, as read_file shows it, or `none` \
                            if there must be no file yet; nothing is written if it is another",
        },
    });
    let several = json!({
        "files": {
            "type": "array",
            "minItems": 1,
            "maxItems": FILES,
            "items": object_schema(&json!({
                "path": path("The file"),
                "content": {"type": "string", "description": "All of the new text"},
            }), &["path", "content"]),
        },
    });
    let list = json!({
        "path": directory("The directory"),
        "offset": whole("Number of entries to skip", 0),
        "limit": whole("Maximum number of entries; 200 by default", 1),
    });
    let moved = json!({"from": path("The entry to move"), "to": path("The new path, which must not exist yet")});
    let deleted = json!({
        "path": path("The entry to delete"),
        "recursive": {"type": "boolean", "description": "Also a directory that is not empty"},
    });
    let patch = json!({
        "patch": {
            "type": "string",
            "description": "A unified diff; the part of each file begins with `--- a/PATH` and \
                            `+++ b/PATH`, that of a new file with `--- /dev/null`; in a workspace \
                            PATH begins with workspace:LABEL/",
        },
    });
    let flag = |what: &str| json!({"type": "boolean", "description": what});
    let all = flag("Also hidden files and those that .gitignore and .ignore exclude");
    let search = json!({
        "pattern": {
            "type": "string", "minLength": 1,
            "description": "A regular expression of Rust (no look-around, no backreferences)",
        },
        "path": directory("The directory to search"),
        "glob": {
            "type": "string",
            "description": "Only these files, as in .gitignore: *.rs, src/**/*.ts, !*.lock, *.{c,h}",
        },
        "literal": flag("The pattern is plain text"),
        "ignore_case": flag("Upper and lower case are equal"),
        "context": whole("Lines to show before and after each match, at most 10", 0),
        "limit": whole("Maximum number of matches to list; 100 by default", 1),
        "files_only": flag("Only list the files, with the number of their matches"),
        "all": all,
    });
    let find = json!({
        "glob": {
            "type": "string",
            "description": "As in .gitignore: *.rs at any depth, src/**/*.ts, !*.lock, *.{c,h}",
        },
        "path": directory("The directory to look in, at any depth"),
        "offset": whole("Number of files to skip", 0),
        "limit": whole("Maximum number of files; 200 by default", 1),
        "all": all,
    });
    let revision = |what: &str| {
        json!({
            "type": "string",
            "description": format!("{what}: a branch, a tag, a commit or HEAD, also HEAD~2"),
        })
    };
    let place = path(
        "A repository, or a file or directory in it to limit the result to; workspace:LABEL for a \
         whole workspace",
    );
    let diff = json!({
        "path": place,
        "base": revision(
            "What to compare with; by default where the branch left the default branch, and HEAD \
             for target index or worktree"
        ),
        "target": {
            "enum": ["branch", "index", "worktree"],
            "description": "branch (default): the commits of the branch; index: the staged files; \
                worktree: the present files, committed or not",
        },
        "summary": flag("Only list the files, without their diffs"),
    });
    let log = json!({
        "path": place,
        "revision": revision("The last commit to list, HEAD by default"),
        "base": revision("Leave out the commits that this one has"),
        "limit": whole("Maximum number of commits; 20 by default", 1),
    });
    vec![
        ToolSpec::new(
            "git_diff",
            "Shows the changes on the current git branch, with its commits, or those in the index \
             or the worktree. Runs no program and changes nothing.",
            object_schema(&diff, &["path"]),
        )
        .read_only()
        .needs([READS]),
        ToolSpec::new(
            "git_log",
            "Lists commits of a git repository, newest first, with their messages. Runs no \
             program and changes nothing.",
            object_schema(&log, &["path"]),
        )
        .read_only()
        .needs([READS]),
        ToolSpec::new(
            "search_text",
            "Searches text files at any depth for a pattern and lists the matching lines with \
             path and line number, sorted by path. Hidden files and those that .gitignore \
             excludes are left out.",
            object_schema(&search, &["pattern"]),
        )
        .read_only()
        .needs([READS]),
        ToolSpec::new(
            "find_files",
            "Lists the files at any depth whose path matches a glob, sorted by path, in pages. \
             Hidden files and those that .gitignore excludes are left out.",
            object_schema(&find, &[]),
        )
        .read_only()
        .needs([READS]),
        ToolSpec::new(
            "read_file",
            "Reads a text file of the sandbox or of a workspace, by lines, and returns its digest.",
            object_schema(&read, &["path"]),
        )
        .read_only()
        .needs([READS]),
        ToolSpec::new(
            "list_directory",
            "Lists a directory of the sandbox or of a workspace, sorted by name, in pages.",
            object_schema(&list, &[]),
        )
        .read_only()
        .needs([READS]),
        requiring_approval(ToolSpec::new(
            "write_file",
            "Creates a text file of the sandbox or of a writable workspace, or replaces all of it; missing directories are created. Existing skills \
             that are there cannot be changed this way; a new directory with a SKILL.md becomes a \
             skill that a person has to approve (write its other files first).",
            object_schema(&write, &["path", "content"]),
        )),
        requiring_approval(ToolSpec::new(
            "write_files",
            "Creates or replaces several text files in one step: all of them, or none. \
             Use it for the files of an extension, which are then approved together.",
            object_schema(&several, &["files"]),
        )),
        requiring_approval(ToolSpec::new(
            "apply_patch",
            "Changes or creates text files by a unified diff: all of them, or none if \
             one part does not fit.",
            object_schema(&patch, &["patch"]),
        )),
        requiring_approval(ToolSpec::new(
            "move_path",
            "Moves or renames a file or directory within the sandbox or one workspace; existing \
             entries are not replaced.",
            object_schema(&moved, &["from", "to"]),
        )),
        requiring_approval(
            ToolSpec::new(
                "delete_path",
                "Deletes a file or directory; this cannot be undone.",
                object_schema(&deleted, &["path"]),
            )
            .destructive(),
        ),
    ]
}

/// Returns the spec of a tool that changes files. Its effect is the default, `once`: repeated after a
/// crash, the call could replace what the user has changed since.
fn requiring_approval(spec: ToolSpec) -> ToolSpec {
    spec.needs_approval(ApprovalPolicy::UnlessGranted).needs([WRITES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_single_blanks() {
        for spec in tool_specs() {
            let text = format!("{spec:?}");
            assert!(!text.contains("  "), "{text}");
        }
    }
}
