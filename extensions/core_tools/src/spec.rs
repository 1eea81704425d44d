//! The specifications of the tools for models.

use skillhost_sdk::{ApprovalPolicy, ToolSpec, json, object_schema};

use crate::patch::FILES;

/// Declares the tools.
pub(crate) fn tool_specs() -> Vec<ToolSpec> {
    let path = |what: &str| {
        json!({
            "type": "string",
            "description": format!("{what}; below the sandbox, with /, such as skills/x/SKILL.md"),
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
        "path": path("The directory; the sandbox itself if it is not given"),
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
                            `+++ b/PATH`, that of a new file with `--- /dev/null`",
        },
    });
    vec![
        ToolSpec::new(
            "read_file",
            "Reads a text file of the sandbox, by lines, and returns its digest.",
            object_schema(&read, &["path"]),
        )
        .read_only(),
        ToolSpec::new(
            "list_directory",
            "Lists a directory of the sandbox, sorted by name, in pages.",
            object_schema(&list, &[]),
        )
        .read_only(),
        requiring_approval(ToolSpec::new(
            "write_file",
            "Creates a text file of the sandbox or replaces all of it; missing directories are created. Existing skills \
             that are there cannot be changed this way; a new directory with a SKILL.md becomes a \
             skill that a person has to approve (write its other files first).",
            object_schema(&write, &["path", "content"]),
        )),
        requiring_approval(ToolSpec::new(
            "write_files",
            "Creates or replaces several text files of the sandbox in one step: all of them, or none. \
             Use it for the files of an extension, which are then approved together.",
            object_schema(&several, &["files"]),
        )),
        requiring_approval(ToolSpec::new(
            "apply_patch",
            "Changes or creates text files of the sandbox by a unified diff: all of them, or none if \
             one part does not fit.",
            object_schema(&patch, &["patch"]),
        )),
        requiring_approval(ToolSpec::new(
            "move_path",
            "Moves or renames a file or directory of the sandbox; existing entries are not replaced.",
            object_schema(&moved, &["from", "to"]),
        )),
        requiring_approval(
            ToolSpec::new(
                "delete_path",
                "Deletes a file or directory of the sandbox; this cannot be undone.",
                object_schema(&deleted, &["path"]),
            )
            .destructive(),
        ),
    ]
}

fn requiring_approval(spec: ToolSpec) -> ToolSpec {
    spec.needs_approval(ApprovalPolicy::UnlessGranted)
}
