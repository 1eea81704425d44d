//! The tool calls of one reply: checked, made, and what becomes of their answers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

use futures::future::join_all;
use skillhost_contract::payload::{CallContext, CallOrigin, ErrorKind, SkillRef, ToolOutput};
use tokio::time::Instant;

use super::RunError;
use super::arguments::{self, did_you_mean, truncate};
use super::run::{AgentRun, TurnContext};
use crate::channel::RunEvent;
use crate::error::KernelError;
use crate::foreign_text::neutralize;
use crate::model::{ModelTool, ModelToolCall};
use crate::transcript::RunEntry;

/// Bytes of one answer that a model is given.
const ANSWER: usize = 64 * 1024;
/// Characters of an answer's first line that people are shown.
const SUMMARY: usize = 200;
/// Tools that are named when a model asks for one that does not exist.
const NAMES: usize = 40;

/// What came of one call.
pub(super) struct ToolCallResult {
    pub(super) call: ModelToolCall,
    pub(super) text: String,
    pub(super) is_error: bool,
    /// The skill that the text carries, and whether it carries it whole.
    pub(super) skill: Option<(SkillRef, bool)>,
}

/// What came of the calls of one reply, in their order.
pub(super) struct ToolCallResults {
    pub(super) made: Vec<ToolCallResult>,
    /// Why some are missing.
    pub(super) over: Option<RunError>,
}

impl ToolCallResult {
    /// What makes a call the same as another.
    pub(super) fn loop_key(&self) -> (&str, &str, &str) {
        (&self.call.name, &self.call.arguments, &self.text)
    }

    fn from_error(call: &ModelToolCall, text: String) -> Self {
        Self { call: call.clone(), text, is_error: true, skill: None }
    }
}

impl AgentRun<'_> {
    /// Makes the calls, at once unless the manifest forbids it. When the run has to end, those under
    /// way are dropped and the others are not made.
    pub(super) async fn call_tools(
        &self,
        turn: &TurnContext,
        calls: &[ModelToolCall],
    ) -> ToolCallResults {
        let made: Vec<OnceLock<ToolCallResult>> = calls.iter().map(|_| OnceLock::new()).collect();
        let numbered: Vec<_> = calls.iter().zip(&made).collect();
        let at_once = match self.agent.agent_manifest().parallel_tool_calls {
            Some(false) => 1,
            Some(true) | None => calls.len(),
        };
        let mut over = None;
        for batch in numbered.chunks(at_once.max(1)) {
            let calls = batch.iter().map(|(call, place)| async {
                // Nobody else writes there.
                let _ = place.set(self.call_tool(turn, call).await);
            });
            if let Err(error) = self.cancellable(join_all(calls)).await {
                over = Some(error);
                break;
            }
        }
        drop(numbered);
        ToolCallResults { made: made.into_iter().filter_map(OnceLock::into_inner).collect(), over }
    }

    /// One call, from what the model wrote to what it is told.
    async fn call_tool(&self, turn: &TurnContext, call: &ModelToolCall) -> ToolCallResult {
        let reporter = &self.session.reporter;
        let ModelToolCall { id, name, arguments } = call.clone();
        reporter.record(&RunEntry::Call {
            call_id: id.clone(),
            tool: name.clone(),
            arguments: arguments.clone(),
        });
        let (agent_id, tool) = (reporter.agent_id(), name.clone());
        reporter.emit(&RunEvent::ToolStarted { agent_id, tool, arguments });
        let answer = match self.validate_call(turn, call) {
            Ok(arguments) => self.invoke(turn, call, &arguments).await,
            Err(text) => ToolCallResult::from_error(call, text.0),
        };
        let answer = ToolCallResult { text: neutralize(&answer.text).into_owned(), ..answer };
        let (text, is_error) = (answer.text.clone(), answer.is_error);
        let summary = truncate(text.lines().next().unwrap_or_default(), SUMMARY);
        reporter.record(&RunEntry::Answer { call_id: id, tool: name.clone(), text, is_error });
        let (agent_id, tool) = (reporter.agent_id(), name);
        reporter.emit(&RunEvent::ToolFinished { agent_id, tool, is_error, summary });
        answer
    }

    /// Arguments that fit a tool that was offered, or what to tell the model.
    fn validate_call(
        &self,
        turn: &TurnContext,
        call: &ModelToolCall,
    ) -> Result<String, arguments::ToolArgumentsError> {
        match turn.tools.iter().find(|tool| tool.name == call.name) {
            Some(tool) => {
                let state = self.kernel.shared.state.load();
                let entry = state.tools.find(&call.name, CallOrigin::Agent).ok();
                let cached = entry.map(|entry| &*entry.arguments);
                arguments::validate_arguments(tool, cached, &call.arguments)
            }
            None => Err(arguments::ToolArgumentsError(self.no_such_tool(&turn.tools, &call.name))),
        }
    }

    fn no_such_tool(&self, tools: &[ModelTool], name: &str) -> String {
        let name = truncate(name, 100);
        if let Some(allowed) = self.session.permissions.load().allowed_tools()
            && self.kernel.shared.state.load().tools.find(&name, CallOrigin::Agent).is_ok()
        {
            let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
            return format!(
                "`{name}` was not called: the active skills allow only {}",
                allowed.join(", ")
            );
        }
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut text = format!(
            "there is no tool `{name}`{}\nThe tools are: {}",
            did_you_mean(&name, names.iter().copied()),
            names[..names.len().min(NAMES)].join(", ")
        );
        if names.len() > NAMES {
            // Writing to a string cannot fail.
            let _ = write!(text, " and {} more", names.len() - NAMES);
        }
        text
    }

    async fn invoke(
        &self,
        turn: &TurnContext,
        call: &ModelToolCall,
        arguments: &str,
    ) -> ToolCallResult {
        let context = CallContext {
            deadline_ms: self.session.budget.remaining_ms(Instant::now()),
            ..turn.context.clone()
        };
        match self.kernel.invoke_tool(context, &call.name, arguments).await {
            Ok(ToolOutput { text, is_error, skill, .. }) => {
                let (text, whole) = truncate_result(text);
                let skill = skill.filter(|_| !is_error).map(|skill| (skill, whole));
                ToolCallResult { call: call.clone(), text, is_error, skill }
            }
            Err(error) => {
                ToolCallResult::from_error(call, truncate_result(format_tool_error(&error)).0)
            }
        }
    }
}

/// A tool's error as the model is told it: kind, message and hint.
fn format_tool_error(error: &KernelError) -> String {
    let hint = match error {
        // The hint of the kernel's own is for people at a terminal.
        KernelError::NotFound { .. } => String::new(),
        other => other.hint(),
    };
    let kind: ErrorKind = error.kind();
    match hint.as_str() {
        "" => format!("{}: {error}", kind.as_str()),
        hint => format!("{}: {error}\nhint: {hint}", kind.as_str()),
    }
}

/// As much of an answer as a model is given, and whether that is all.
fn truncate_result(text: String) -> (String, bool) {
    if text.len() <= ANSWER {
        return (text, true);
    }
    let end = text.floor_char_boundary(ANSWER);
    let whole = text.len();
    (
        format!("{}\n(cut off: these are {end} of {whole} bytes; ask for a part)", &text[..end]),
        false,
    )
}

/// Calls whose ids tie each answer to one of them, whatever the model wrote.
pub(super) fn deduplicate_call_ids(mut calls: Vec<ModelToolCall>) -> Vec<ModelToolCall> {
    let mut seen = BTreeSet::new();
    for (number, call) in calls.iter_mut().enumerate() {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("{}call-{number}", call.id);
            seen.insert(call.id.clone());
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_cut_between_characters_and_say_so() {
        assert_eq!(truncate_result("ok".into()), ("ok".into(), true));
        let (text, whole) = truncate_result("é".repeat(40_000));
        assert!(!whole && text.starts_with('é'));
        assert!(text.ends_with("é\n(cut off: these are 65536 of 80000 bytes; ask for a part)"));
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let call = |id: &str| ModelToolCall { id: id.into(), ..ModelToolCall::default() };
        let calls = deduplicate_call_ids(vec![call("a"), call(""), call("a"), call("b")]);
        let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "call-1", "acall-2", "b"]);
    }
}
