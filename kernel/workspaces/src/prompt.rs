//! The workspaces in an agent's prompt.

use std::fmt::Write as _;

use skillhost_payload::Workspace;

/// Appends the names of the workspaces to the instructions of an agent. They come before the blocks
/// of extensions: they stay the same for a thread, which the caches of models need.
#[must_use]
pub fn append_workspaces(instructions: &str, workspaces: &[Workspace]) -> String {
    match describe_workspaces(workspaces) {
        Some(text) if instructions.trim().is_empty() => text,
        Some(text) => format!("{}\n\n{text}", instructions.trim_end()),
        None => instructions.to_owned(),
    }
}

/// Returns the part of a system prompt that names the workspaces, or `None` without any. It has
/// labels and access only: paths of the user's machine are not sent to a model.
fn describe_workspaces(workspaces: &[Workspace]) -> Option<String> {
    if workspaces.is_empty() {
        return None;
    }
    let mut text = String::from(
        "[Workspaces]\nThe user's directories, which tools with paths reach besides the sandbox:\n",
    );
    for Workspace { label, access, .. } in workspaces {
        // A label has no character that could end the line or open a tag. Writing to a string
        // cannot fail.
        let _ = writeln!(text, "- {}{label} ({access})", Workspace::PREFIX);
    }
    let example = &workspaces[0].label;
    let _ = write!(
        text,
        "Begin paths in them so, such as {0}{example}/README.md; {0}{example} alone is the \
         directory itself. All other paths are in the sandbox.",
        Workspace::PREFIX
    );
    Some(text)
}

#[cfg(test)]
mod tests {
    use skillhost_payload::WorkspaceAccess;

    use super::*;

    #[test]
    fn prompt_names_labels_and_access_only() {
        let workspace = |label: &str, access| Workspace {
            label: label.into(),
            path: "/secret/place".into(),
            access,
        };
        assert_eq!(append_workspaces("You work.\n", &[]), "You work.\n");
        let one = append_workspaces("You work.\n", &[workspace("a", WorkspaceAccess::Read)]);
        assert!(one.starts_with("You work.\n\n[Workspaces]\n"), "{one}");
        let both =
            [workspace("a", WorkspaceAccess::Read), workspace("b-2", WorkspaceAccess::Write)];
        assert_eq!(
            describe_workspaces(&both).unwrap(),
            "[Workspaces]\nThe user's directories, which tools with paths reach besides the \
             sandbox:\n- workspace:a (read)\n- workspace:b-2 (read and write)\nBegin paths in them \
             so, such as workspace:a/README.md; workspace:a alone is the directory itself. All \
             other paths are in the sandbox."
        );
    }
}
