//! The effect of a tool call: its changes, and the approval that they require.

use std::fmt::Write as _;

use skillhost_core::Instance;
use skillhost_payload::{
    CallContext, CallError, ChangeKind, EffectRequest, ErrorKind, ToolEffect, ToolSpec,
    effect_interface,
};
use skillhost_workspaces::{EffectScope, classify_effect};

use crate::agent_runtime::AgentRuntime;

/// The line limit of an effect shown for approval; terminals keep about as many.
const MAX_LINES: usize = 4_000;

/// An effect, with the text that shows all of it.
pub(super) struct VisibleEffect {
    pub(super) digest: String,
    pub(super) details: String,
    /// The workspaces that the effect is limited to; `None` requires an approval every time.
    pub(super) scope: Option<String>,
}

impl AgentRuntime {
    /// Returns the effect of a call that is shown for its approval, or `None` where an approval for
    /// the tool is enough: its effect is elsewhere, or its extension offers no preview.
    pub(super) async fn shown_effect(
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
        let classify =
            |effect: &ToolEffect| classify_effect(self.extensions().home().root(), effect);
        match request_preview(false).await? {
            Some(effect) if classify(&effect) != EffectScope::Sandbox => {}
            Some(_) | None => return Ok(None),
        }
        let missing = || protocol_error(instance, "preview of the call no longer has an effect");
        let effect = request_preview(true).await?.ok_or_else(missing)?;
        // The complete effect counts: it has every file of a directory.
        let (scope, title) = match classify(&effect) {
            EffectScope::Workspaces(labels) => {
                let labels: Vec<_> = labels.iter().map(|it| format!("workspace:{it}")).collect();
                let labels = labels.join(", ");
                (Some(labels.clone()), format!("changes files in {labels}:"))
            }
            EffectScope::Sandbox | EffectScope::Protected => {
                (None, "changes code that runs or instructions of agents:".to_owned())
            }
        };
        let details = format_details(&spec.name, &title, &effect)?;
        Ok(Some(VisibleEffect { digest: effect.digest, details, scope }))
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
            is_short.then_some(VisibleEffect { digest: effect.digest, details, scope: None })
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

/// Formats an effect for approval. Diff lines begin with a mark of the diff, so none can pass for a
/// change.
fn format_details(tool: &str, title: &str, effect: &ToolEffect) -> Result<String, CallError> {
    // An approval must cover exactly the shown text, so a partial text is never approved.
    if let Some(hidden) = &effect.hidden {
        return Err(hidden_effect_error(tool, hidden));
    }
    let changes = format_changes(effect);
    let text = format!("{title}\n{changes}");
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
