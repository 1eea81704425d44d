//! The effect of a tool call: what it would change, and whether that needs a person every time.
//!
//! A consent is given to a tool by its name and covers what agents work with. It never covers what
//! decides which code runs and what agents are told: extensions, agents, skills and settings.

use std::fmt::Write as _;
use std::path::Path;

use skillhost_contract::payload::{
    CallContext, ChangeKind, EffectRequest, ErrorKind, ToolEffect, ToolSpec, effect_interface,
};

use crate::error::CallError;
use crate::instance::Instance;
use crate::kernel::Kernel;

/// Folders of the sandbox that no standing consent covers.
const PROTECTED: [&str; 4] = ["extensions", "agents", "skills", "data"];

/// Lines that a person is shown of one effect at most; a terminal shows as many.
const MAX_LINES: usize = 4_000;

/// The file that makes a folder a skill, wherever it lies.
const SKILL_FILE: &str = "skill.md";

/// An effect that a person has to approve, with the text that shows all of it.
pub(super) struct ProtectedEffect {
    pub(super) digest: String,
    pub(super) details: String,
}

impl Kernel {
    /// Returns the effect of a call that no standing consent covers, or `None` where a consent for the
    /// tool is enough: its effect is elsewhere, or its extension offers no preview.
    pub(super) async fn protected_effect(
        &self,
        instance: &Instance,
        spec: &ToolSpec,
        context: &CallContext,
        arguments: &str,
    ) -> Result<Option<ProtectedEffect>, CallError> {
        if spec.read_only || !instance.provides(effect_interface::NAME) {
            return Ok(None);
        }
        let ask = |with_text| self.preview(instance, spec, context, arguments, with_text);
        // Paths alone are cheap, and of most calls nobody wants to know more.
        let is_protected = |effect: &ToolEffect| is_protected(self.shared.home.root(), effect);
        match ask(false).await? {
            Some(effect) if is_protected(&effect) => {}
            Some(_) | None => return Ok(None),
        }
        let gone = || protocol(instance, "the preview of a call has no effect any more");
        let effect = ask(true).await?.ok_or_else(gone)?;
        let details = details(&spec.name, &effect)?;
        Ok(Some(ProtectedEffect { digest: effect.digest, details }))
    }

    async fn preview(
        &self,
        instance: &Instance,
        spec: &ToolSpec,
        context: &CallContext,
        arguments: &str,
        with_text: bool,
    ) -> Result<Option<ToolEffect>, CallError> {
        let unreadable = |error: serde_json::Error| protocol(instance, &error.to_string());
        let request = EffectRequest {
            context: context.clone(),
            tool: spec.name.clone(),
            arguments: serde_json::from_str(arguments).map_err(unreadable)?,
            with_text,
        };
        let request = serde_json::to_vec(&request).map_err(unreadable)?;
        let (interface, method) = (effect_interface::NAME, effect_interface::PREVIEW);
        let limit = self.shared.limits.tool;
        let reply = instance.call(interface, method, request, limit).await?;
        serde_json::from_slice(&reply).map_err(unreadable)
    }
}

fn protocol(instance: &Instance, message: &str) -> CallError {
    let message = format!("`{}`: {message}", instance.manifest.id);
    CallError::new(ErrorKind::Protocol, message)
}

/// Tells whether any change is one that no standing consent covers.
fn is_protected(home: &Path, effect: &ToolEffect) -> bool {
    let paths = effect.changes.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]);
    paths.flatten().any(|path| is_protected_path(home, path))
}

/// Tells whether a path relative to the home is protected: everything but what lies in a folder, or
/// is a file, of the sandbox that is not named in [`PROTECTED`]. A folder above a protected one is
/// protected as well, and so is whatever is not a plain path.
fn is_protected_path(home: &Path, path: &str) -> bool {
    let lower = path.to_lowercase();
    let components: Vec<&str> = lower.split('/').collect();
    let is_odd = |component: &&str| matches!(*component, "" | "." | "..");
    let ["sandbox", top, ..] = components.as_slice() else { return true };
    if components.iter().any(is_odd) || path.contains(['\\', '\0']) {
        return true;
    }
    PROTECTED.contains(top)
        || components.last() == Some(&SKILL_FILE)
        || path.split('/').nth(1).is_some_and(|top| is_alias(home, top))
}

/// Tells whether a name in the sandbox stands for a protected folder: by a link, or on a file system
/// that takes other letters for the same.
fn is_alias(home: &Path, name: &str) -> bool {
    let sandbox = home.join("sandbox");
    let Some(own) = identity(&sandbox.join(name)) else { return false };
    PROTECTED.iter().any(|protected| identity(&sandbox.join(protected)) == Some(own))
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<std::path::PathBuf> {
    path.canonicalize().ok()
}

/// Writes an effect out for a person. A line that is a part of a text begins with a mark of the diff,
/// so none can pass for a change.
fn details(tool: &str, effect: &ToolEffect) -> Result<String, CallError> {
    if let Some(hidden) = &effect.hidden {
        return Err(hidden_effect(tool, hidden));
    }
    let mut text = String::from("changes what runs or what agents are told:\n");
    for change in &effect.changes {
        let to = change.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}{to}", verb(change.kind), change.path);
        text.push_str(&change.diff);
        if !change.diff.is_empty() && !change.diff.ends_with('\n') {
            text.push('\n');
        }
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        return Err(hidden_effect(tool, &format!("it has {lines} lines, more than {MAX_LINES}")));
    }
    Ok(text)
}

fn verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Modify => "modify",
        ChangeKind::Delete => "delete",
        ChangeKind::Move => "move",
    }
}

fn hidden_effect(tool: &str, reason: &str) -> CallError {
    let message = format!("the call of `{tool}` cannot be shown whole to a person: {reason}");
    CallError::new(ErrorKind::Denied, message)
        .with_hint("make smaller changes; what is not text a person has to put there")
}

#[cfg(test)]
mod tests {
    use skillhost_contract::payload::EffectChange;

    use super::*;

    fn change(kind: ChangeKind, path: &str, to: Option<&str>) -> EffectChange {
        let to = to.map(str::to_owned);
        EffectChange { path: path.into(), kind, to, diff: "@@ -0,0 +1 @@\n+x\n".into() }
    }

    #[test]
    fn paths_decide_what_is_protected() {
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
            assert!(is_protected_path(home.path(), path), "{path}");
        }
        for path in [
            "sandbox/notes/a.md",
            "sandbox/a",
            "sandbox/notes/extensions/a",
            "sandbox/extensions.md",
            "sandbox/notes/skill.md.txt",
            "sandbox/.env",
        ] {
            assert!(!is_protected_path(home.path(), path), "{path}");
        }
    }

    #[test]
    fn moves_count_at_both_ends() {
        let home = Path::new("/nonexistent");
        let moved = |from, to| ToolEffect {
            changes: vec![
                change(ChangeKind::Create, "sandbox/notes/a", None),
                change(ChangeKind::Move, from, Some(to)),
            ],
            ..ToolEffect::default()
        };
        assert!(is_protected(home, &moved("sandbox/notes/x", "sandbox/extensions/x")));
        assert!(is_protected(home, &moved("sandbox/extensions/x", "sandbox/notes/x")));
        assert!(!is_protected(home, &moved("sandbox/notes/x", "sandbox/notes/y")));
    }

    #[test]
    fn details_show_everything_or_nothing() {
        let mut effect = ToolEffect {
            changes: vec![
                change(ChangeKind::Create, "sandbox/extensions/x/a", None),
                change(ChangeKind::Move, "sandbox/b", Some("sandbox/extensions/b")),
            ],
            ..ToolEffect::default()
        };
        assert_eq!(
            details("move_path", &effect).unwrap(),
            "changes what runs or what agents are told:\n\
             create sandbox/extensions/x/a\n@@ -0,0 +1 @@\n+x\n\
             move sandbox/b to sandbox/extensions/b\n@@ -0,0 +1 @@\n+x\n"
        );
        effect.hidden = Some("`b` is a program or library, not text".into());
        let refused = details("move_path", &effect).unwrap_err();
        assert_eq!(
            (refused.kind, refused.message.as_str()),
            (
                ErrorKind::Denied,
                "the call of `move_path` cannot be shown whole to a person: `b` is a program or \
                 library, not text"
            )
        );
    }
}
