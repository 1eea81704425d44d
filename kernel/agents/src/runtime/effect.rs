//! The effect of a tool call: its changes, and whether they require approval every time.
//!
//! An approval for a tool covers the files that agents work with. It never covers the files that
//! decide which code runs and which instructions agents have: extensions, agents, skills and
//! settings.

use std::fmt::Write as _;
use std::path::Path;

use skillhost_core::Instance;
use skillhost_payload::{
    CallContext, CallError, ChangeKind, EffectRequest, ErrorKind, ToolEffect, ToolSpec,
    effect_interface,
};

use crate::agent_runtime::AgentRuntime;

/// Directories of the sandbox that no approval for a tool covers.
const PROTECTED: [&str; 4] = ["extensions", "agents", "skills", "data"];

/// The line limit of an effect shown for approval; terminals keep about as many.
const MAX_LINES: usize = 4_000;

/// The file that makes any directory a skill.
const SKILL_FILE: &str = "skill.md";

/// An effect, with the text that shows all of it.
pub(super) struct VisibleEffect {
    pub(super) digest: String,
    pub(super) details: String,
}

impl AgentRuntime {
    /// Returns the effect of a call that requires approval every time, or `None` where an approval
    /// for the tool is enough: its effect is elsewhere, or its extension offers no preview.
    pub(super) async fn protected_effect(
        &self,
        instance: &Instance,
        spec: &ToolSpec,
        context: &CallContext,
        arguments: &str,
    ) -> Result<Option<VisibleEffect>, CallError> {
        if spec.read_only || !instance.provides(effect_interface::NAME) {
            return Ok(None);
        }
        let request_preview =
            |with_text| self.preview(instance, spec, context, arguments, with_text);
        // Paths alone are cheap, and for most calls they are enough.
        let is_protected =
            |effect: &ToolEffect| is_protected(self.extensions().home().root(), effect);
        match request_preview(false).await? {
            Some(effect) if is_protected(&effect) => {}
            Some(_) | None => return Ok(None),
        }
        let missing = || protocol_error(instance, "preview of the call no longer has an effect");
        let effect = request_preview(true).await?.ok_or_else(missing)?;
        let details = format_details(&spec.name, &effect)?;
        Ok(Some(VisibleEffect { digest: effect.digest, details }))
    }

    /// Returns the changes of a call whose approval covers no protected effect, so that a person sees
    /// them before the decision; `None` where no preview can show all of them as text.
    pub(super) async fn visible_effect(
        &self,
        instance: &Instance,
        spec: &ToolSpec,
        context: &CallContext,
        arguments: &str,
    ) -> Result<Option<VisibleEffect>, CallError> {
        if spec.read_only || !instance.provides(effect_interface::NAME) {
            return Ok(None);
        }
        let effect = self.preview(instance, spec, context, arguments, true).await?;
        Ok(effect.filter(|effect| effect.hidden.is_none()).and_then(|effect| {
            let details = format_changes(&effect);
            let is_short = details.lines().count() <= MAX_LINES;
            is_short.then_some(VisibleEffect { digest: effect.digest, details })
        }))
    }

    async fn preview(
        &self,
        instance: &Instance,
        spec: &ToolSpec,
        context: &CallContext,
        arguments: &str,
        with_text: bool,
    ) -> Result<Option<ToolEffect>, CallError> {
        let unreadable = |error: serde_json::Error| protocol_error(instance, &error.to_string());
        let request = EffectRequest {
            context: context.clone(),
            tool: spec.name.clone(),
            arguments: serde_json::from_str(arguments).map_err(unreadable)?,
            with_text,
        };
        let request = serde_json::to_vec(&request).map_err(unreadable)?;
        let (interface, method) = (effect_interface::NAME, effect_interface::PREVIEW);
        let limit = self.extensions().limits().tool;
        let reply = instance.call(interface, method, request, limit).await?;
        serde_json::from_slice(&reply).map_err(unreadable)
    }
}

fn protocol_error(instance: &Instance, message: &str) -> CallError {
    let message = format!("`{}`: {message}", instance.manifest.id);
    CallError::new(ErrorKind::Protocol, message)
}

/// Returns whether any change of an effect is protected.
fn is_protected(home: &Path, effect: &ToolEffect) -> bool {
    let paths = effect.changes.iter().flat_map(|change| [Some(&change.path), change.to.as_ref()]);
    paths.flatten().any(|path| is_protected_path(home, path))
}

/// Returns whether a path relative to the home is protected: every path, except for those in the
/// sandbox outside of [`PROTECTED`]. A parent of a protected directory is protected as well, and so
/// is a path that is not in plain form.
fn is_protected_path(home: &Path, path: &str) -> bool {
    let lower = path.to_lowercase();
    // Lower case first: a file system may ignore case.
    let components: Vec<&str> = lower.split('/').collect();
    let is_odd = |component: &&str| matches!(*component, "" | "." | "..");
    let ["sandbox", top, ..] = components.as_slice() else { return true };
    if components.iter().any(is_odd) || path.contains(['\\', '\0']) {
        return true;
    }
    PROTECTED.contains(top)
        // A new skill outside of `skills` would still be found by a provider with another root.
        || components.last() == Some(&SKILL_FILE)
        || path.split('/').nth(1).is_some_and(|top| is_alias(home, top))
}

/// Returns whether a name in the sandbox is another name of a protected directory: a link, or a
/// spelling that the file system treats as equal.
fn is_alias(home: &Path, name: &str) -> bool {
    let sandbox = home.join("sandbox");
    let Some(target) = file_identity(&sandbox.join(name)) else { return false };
    PROTECTED.iter().any(|protected| file_identity(&sandbox.join(protected)) == Some(target))
}

#[cfg(unix)]
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    // Device and inode also match through a link.
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn file_identity(path: &Path) -> Option<std::path::PathBuf> {
    path.canonicalize().ok()
}

/// Formats an effect for approval. Diff lines begin with a mark of the diff, so none can pass for a
/// change.
fn format_details(tool: &str, effect: &ToolEffect) -> Result<String, CallError> {
    // An approval must cover exactly the shown text, so a partial text is never approved.
    if let Some(hidden) = &effect.hidden {
        return Err(hidden_effect_error(tool, hidden));
    }
    let changes = format_changes(effect);
    let text = format!("changes code that runs or instructions of agents:\n{changes}");
    let lines = text.lines().count();
    if lines > MAX_LINES {
        return Err(hidden_effect_error(
            tool,
            &format!("{lines} lines exceed the limit of {MAX_LINES}"),
        ));
    }
    Ok(text)
}

fn format_changes(effect: &ToolEffect) -> String {
    let mut text = String::new();
    for change in &effect.changes {
        let to = change.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} {}{to}", change_verb(change.kind), change.path);
        text.push_str(&change.diff);
        if !change.diff.is_empty() && !change.diff.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

fn change_verb(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Create => "create",
        ChangeKind::Modify => "modify",
        ChangeKind::Delete => "delete",
        ChangeKind::Move => "move",
    }
}

fn hidden_effect_error(tool: &str, reason: &str) -> CallError {
    let message = format!("call of `{tool}` cannot be shown in full for approval: {reason}");
    CallError::new(ErrorKind::Denied, message)
        .with_hint("make smaller changes; ask the operator to add files that are not text")
}

#[cfg(test)]
mod tests;
