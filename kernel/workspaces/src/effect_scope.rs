//! The places that the effect of a tool call changes, and the approval that they require.
//!
//! An approval for a tool covers the files that agents work with. It never covers the files that
//! decide which code runs and which instructions agents have: extensions, agents, skills and
//! settings, and in a workspace hidden files, such as those of version control and of editors.

use std::collections::BTreeSet;
use std::path::Path;

use skillhost_payload::{ToolEffect, Workspace};

use crate::identity::read_identity;

/// Directories of the sandbox that no approval for a tool covers.
const PROTECTED: [&str; 4] = ["extensions", "agents", "skills", "data"];

/// The file that makes any directory a skill.
const SKILL_FILE: &str = "skill.md";

/// The approval that an effect requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectScope {
    /// That of the tool: only ordinary files of the sandbox change.
    Sandbox,
    /// One for the tool in these workspaces, by label.
    Workspaces(BTreeSet<String>),
    /// One of its own.
    Protected,
}

/// The place of one path.
enum PathScope<'p> {
    Sandbox,
    Workspace(&'p str),
    Protected,
}

/// Returns the approval that an effect in a home requires.
#[must_use]
pub fn classify_effect(home: &Path, effect: &ToolEffect) -> EffectScope {
    let paths = effect.changes.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]);
    let mut labels = BTreeSet::new();
    for path in paths.flatten() {
        match classify_path(home, path) {
            PathScope::Sandbox => {}
            PathScope::Workspace(label) => {
                labels.insert(label.to_owned());
            }
            PathScope::Protected => return EffectScope::Protected,
        }
    }
    if labels.is_empty() { EffectScope::Sandbox } else { EffectScope::Workspaces(labels) }
}

/// Returns the place of a path relative to the home. All paths are protected, except for those in
/// the sandbox outside of [`PROTECTED`], and in workspaces. A parent of a protected directory is
/// protected as well, and so is a path that is not in plain form.
fn classify_path<'p>(home: &Path, path: &'p str) -> PathScope<'p> {
    let lower = path.to_lowercase();
    // Lower case first: a file system may ignore case.
    let components: Vec<&str> = lower.split('/').collect();
    let is_odd = |component: &&str| matches!(*component, "" | "." | "..");
    // A new skill outside of `skills` would still be found by a provider with another root.
    let is_skill = components.last() == Some(&SKILL_FILE);
    if components.iter().any(is_odd) || path.contains(['\\', '\0']) || is_skill {
        return PathScope::Protected;
    }
    if let Some(rest) = path.strip_prefix(Workspace::PREFIX) {
        let (label, inner) = rest.split_once('/').unwrap_or((rest, ""));
        // The directory itself, and files such as `.git/config` and `.envrc`.
        let is_hidden = inner.is_empty() || inner.split('/').any(|name| name.starts_with('.'));
        return if is_hidden { PathScope::Protected } else { PathScope::Workspace(label) };
    }
    let ["sandbox", top, ..] = components.as_slice() else { return PathScope::Protected };
    match PROTECTED.contains(top) || path.split('/').nth(1).is_some_and(|top| is_alias(home, top)) {
        true => PathScope::Protected,
        false => PathScope::Sandbox,
    }
}

/// Returns whether a name in the sandbox is another name of a protected directory: a link, or a
/// spelling that the file system treats as equal.
fn is_alias(home: &Path, name: &str) -> bool {
    let sandbox = home.join("sandbox");
    let Some(target) = read_identity(&sandbox.join(name)) else { return false };
    PROTECTED
        .iter()
        .any(|protected| read_identity(&sandbox.join(protected)).as_ref() == Some(&target))
}

#[cfg(test)]
mod tests {
    use skillhost_payload::{ChangeKind, EffectChange};

    use super::*;

    fn effect(paths: &[(&str, Option<&str>)]) -> ToolEffect {
        let change = |(path, to): &(&str, Option<&str>)| EffectChange {
            path: (*path).to_owned(),
            kind: if to.is_some() { ChangeKind::Move } else { ChangeKind::Create },
            to: to.map(str::to_owned),
            diff: String::new(),
        };
        ToolEffect { changes: paths.iter().map(change).collect(), ..ToolEffect::default() }
    }

    fn classify(home: &Path, path: &str) -> EffectScope {
        classify_effect(home, &effect(&[(path, None)]))
    }

    #[test]
    fn protected_paths_are_recognized() {
        let home = tempfile::tempdir().unwrap();
        let sandbox = home.path().join("sandbox");
        std::fs::create_dir_all(sandbox.join("extensions")).unwrap();
        std::os::unix::fs::symlink("extensions", sandbox.join("plugins")).unwrap();
        for path in [
            "sandbox/extensions/x/manifest.yaml",
            "sandbox/extensions",
            "sandbox/EXTENSIONS/x",
            "Sandbox/Extensions/x",
            "sandbox/agents/a",
            "sandbox/skills/s/SKILL.md",
            "sandbox/data/kernel/approvals.jsonl",
            "sandbox/notes/SKILL.md",
            "sandbox/notes/skill.MD",
            "sandbox/plugins/x",
            "sandbox",
            "sandbox/",
            "sandbox/notes/../extensions/x",
            "sandbox//extensions",
            "sandbox/notes\\..\\extensions",
            "skillhost.yaml",
            ".env",
            "manifests/x/manifest.yaml",
            "/etc/passwd",
            "../x",
            "",
        ] {
            assert_eq!(classify(home.path(), path), EffectScope::Protected, "{path}");
        }
        for path in [
            "sandbox/notes/a.md",
            "sandbox/a",
            "sandbox/notes/extensions/a",
            "sandbox/extensions.md",
            "sandbox/notes/skill.md.txt",
            "sandbox/.env",
        ] {
            assert_eq!(classify(home.path(), path), EffectScope::Sandbox, "{path}");
        }
        for path in [
            "workspace:p",
            "workspace:p/",
            "workspace:p/.git/hooks/pre-commit",
            "workspace:p/src/.cargo/config.toml",
            "workspace:p/.envrc",
            "workspace:p/skills/x/SKILL.md",
            "workspace:p/a/../../x",
            "workspace:p/a\\b",
        ] {
            assert_eq!(classify(home.path(), path), EffectScope::Protected, "{path}");
        }
        let labels = |labels: &[&str]| {
            EffectScope::Workspaces(labels.iter().map(|label| (*label).to_owned()).collect())
        };
        assert_eq!(classify(home.path(), "workspace:p/src/lib.rs"), labels(&["p"]));
        let both = effect(&[
            ("sandbox/notes/a", None),
            ("workspace:b/x", None),
            ("workspace:a/y", Some("workspace:b/z")),
        ]);
        assert_eq!(classify_effect(home.path(), &both), labels(&["a", "b"]));
    }

    #[test]
    fn move_checks_both_paths() {
        let home = Path::new("/nonexistent");
        let moved = |from, to| {
            classify_effect(home, &effect(&[("sandbox/notes/a", None), (from, Some(to))]))
        };
        assert_eq!(moved("sandbox/notes/x", "sandbox/extensions/x"), EffectScope::Protected);
        assert_eq!(moved("sandbox/extensions/x", "sandbox/notes/x"), EffectScope::Protected);
        assert_eq!(moved("sandbox/notes/x", "sandbox/notes/y"), EffectScope::Sandbox);
        assert_eq!(moved("workspace:p/x", "sandbox/extensions/x"), EffectScope::Protected);
    }
}
