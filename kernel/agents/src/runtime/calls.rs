//! The tool calls of one reply: validated, executed, and their results prepared for the model.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::OnceLock;

use futures::future::join_all;
use skillhost_conversation::{
    ABORTED_CALL_RESULT, CallAttempts, ModelTool, ModelToolCall, OpenCall, RunEntry, RunEvent,
};
use skillhost_core::KernelError;
use skillhost_core::foreign_text::neutralize;
use skillhost_core::mistakes::{did_you_mean, truncate};
use skillhost_payload::{
    ActiveSkillsChange, CallContext, CallOrigin, ErrorKind, SkillRef, ToolOutput,
};

use super::call_observation::CallObservation;
use super::run_call::{CallOutcome, RunCall};
use super::run_state::{AgentRun, TurnContext};
use super::{RunError, arguments};

/// The length limit of a result for the model, in bytes.
const ANSWER: usize = 64 * 1024;
/// The length limit of a result's first line for display, in characters.
const SUMMARY: usize = 200;
/// The number of tools listed in the error for an unknown one.
const NAMES: usize = 40;

/// The result of one call.
pub(super) struct ToolCallResult {
    pub(super) call: ModelToolCall,
    pub(super) text: String,
    pub(super) is_error: bool,
    /// The change of the active skills.
    pub(super) change: Option<ActiveSkillsChange>,
    /// The skill whose complete text is in the text.
    pub(super) carried: Option<SkillRef>,
    /// The call may have happened, and the text is not a result of its tool.
    pub(super) is_uncertain: bool,
}

/// The results of the calls of one reply, in their order.
pub(super) struct ToolCallResults {
    pub(super) made: Vec<ToolCallResult>,
    /// The error that ended the run before the remaining calls had a result.
    pub(super) over: Option<RunError>,
}

impl ToolCallResult {
    /// Returns the parts by which the loop guard compares calls.
    pub(super) fn loop_key(&self) -> (&str, &str, &str) {
        (&self.call.name, &self.call.arguments, &self.text)
    }

    fn from_error(call: &ModelToolCall, text: String) -> Self {
        Self {
            call: call.clone(),
            text,
            is_error: true,
            change: None,
            carried: None,
            is_uncertain: false,
        }
    }

    /// Creates the result of a call that may have happened and is not made again for a reason, if
    /// there is one.
    fn from_uncertain_call(call: &ModelToolCall, reason: Option<&str>) -> Self {
        let text = match reason {
            Some(reason) => format!("{ABORTED_CALL_RESULT}; it was not made again: {reason}"),
            None => ABORTED_CALL_RESULT.to_owned(),
        };
        Self { is_uncertain: true, ..Self::from_error(call, text) }
    }
}

impl AgentRun<'_> {
    /// Executes the open calls of the last reply, concurrently unless the manifest forbids it. A call that may change the
    /// active skills runs alone, so that those after it see its effect. When the run has to end,
    /// active calls are dropped and the others are not started. A parked call has no result; those at
    /// the same time as it end first.
    pub(super) async fn call_tools(
        &self,
        turn: &TurnContext,
        calls: &[OpenCall],
    ) -> ToolCallResults {
        let made: Vec<OnceLock<ToolCallResult>> = calls.iter().map(|_| OnceLock::new()).collect();
        let numbered: Vec<_> = calls.iter().zip(&made).collect();
        let one_by_one = self.agent.agent_manifest().parallel_tool_calls == Some(false);
        let is_alone = |open: &OpenCall| one_by_one || self.changes_skills(&open.call.name);
        let mut over = None;
        for batch in numbered.chunk_by(|(one, _), (next, _)| !is_alone(one) && !is_alone(next)) {
            let calls = batch.iter().map(|(call, cell)| async {
                if let Some(result) = self.call_tool(turn, call).await {
                    // Each call has a cell of its own, so it is empty here.
                    let _ = cell.set(result);
                }
            });
            if let Err(error) = self.cancellable(join_all(calls)).await {
                over = Some(error);
                break;
            }
            if batch.iter().any(|(_, cell)| cell.get().is_none()) {
                over = Some(RunError::Parked);
                break;
            }
        }
        drop(numbered);
        ToolCallResults { made: made.into_iter().filter_map(OnceLock::into_inner).collect(), over }
    }

    /// Returns whether calls of a tool may change the active skills.
    fn changes_skills(&self, name: &str) -> bool {
        let state = self.agents.extensions().state();
        state.tools.find(name, CallOrigin::Agent).is_ok_and(|entry| entry.spec.changes_skills)
    }

    /// Executes one call, from the model's arguments to the text of its result; `None` for a parked
    /// call.
    async fn call_tool(&self, turn: &TurnContext, open: &OpenCall) -> Option<ToolCallResult> {
        let call = &open.call;
        let reporter = &self.session.reporter;
        let ModelToolCall { id, name, arguments } = call.clone();
        reporter.record(&RunEntry::Call {
            call_id: id.clone(),
            tool: name.clone(),
            arguments: arguments.clone(),
        });
        let (agent_id, tool) = (reporter.agent_id(), name.clone());
        reporter.emit(&RunEvent::ToolStarted { agent_id, tool, arguments });
        // The call is on disk before it has an effect.
        reporter.flush().await;
        let result = match self.validate_call(turn, call) {
            Ok(arguments) => self.invoke(turn, open, &arguments).await?,
            Err(text) => {
                self.observe_invalid_call(turn, call);
                match open.attempts {
                    CallAttempts::None => ToolCallResult::from_error(call, text.0),
                    _ => ToolCallResult::from_uncertain_call(call, Some(&text.0)),
                }
            }
        };
        // Results may quote tags of the kernel; neutralized, they cannot pass for them.
        let result = ToolCallResult { text: neutralize(&result.text).into_owned(), ..result };
        let (text, is_error) = (result.text.clone(), result.is_error);
        let summary = truncate(text.lines().next().unwrap_or_default(), SUMMARY);
        reporter.record(&RunEntry::Answer { call_id: id, tool: name.clone(), text, is_error });
        let (agent_id, tool) = (reporter.agent_id(), name);
        reporter.emit(&RunEvent::ToolFinished { agent_id, tool, is_error, summary });
        Some(result)
    }

    /// Returns arguments that are valid for an offered tool, or the error text for the model.
    fn validate_call(
        &self,
        turn: &TurnContext,
        call: &ModelToolCall,
    ) -> Result<String, arguments::ToolArgumentsError> {
        match turn.tools.iter().find(|tool| tool.name == call.name) {
            Some(tool) => {
                let state = self.agents.extensions().state();
                let entry = state.tools.find(&call.name, CallOrigin::Agent).ok();
                let cached = entry.map(|entry| &*entry.arguments);
                arguments::validate_arguments(tool, cached, &call.arguments)
            }
            None => {
                Err(arguments::ToolArgumentsError(self.unknown_tool_error(&turn.tools, &call.name)))
            }
        }
    }

    /// Observes a call that is not made because of its arguments, such as the name of a skill that
    /// does not exist. The name of an unknown tool is a text of the model, so it is not observed.
    fn observe_invalid_call(&self, turn: &TurnContext, call: &ModelToolCall) {
        let state = self.agents.extensions().state();
        if let Ok(entry) = state.tools.find(&call.name, CallOrigin::Agent) {
            let mut observation = CallObservation::new(self.agents.run_observer());
            let (arguments, session) = (&call.arguments, Some(&*self.session));
            observation.describe(&entry.spec, arguments, &turn.context, session);
            observation.fail(ErrorKind::InvalidArgument);
        }
    }

    fn unknown_tool_error(&self, tools: &[ModelTool], name: &str) -> String {
        let name = truncate(name, 100);
        if let Some(allowed) = self.session.permissions.load().allowed_tools()
            && self.agents.extensions().state().tools.find(&name, CallOrigin::Agent).is_ok()
        {
            let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
            return format!(
                "`{name}` was not called: the active skills allow only {}",
                allowed.join(", ")
            );
        }
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut text = format!(
            "tool `{name}` not found{}\nThe tools are: {}",
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
        open: &OpenCall,
        arguments: &str,
    ) -> Option<ToolCallResult> {
        let call = &open.call;
        let context = CallContext {
            idempotency_key: Some(open.key.clone()),
            call_number: Some(self.session.next_call_number()),
            call_chain: self.session.call_chain.clone(),
            ..turn.context.clone()
        };
        let run_call = RunCall::new(self.thread, open);
        let ended = self.agents.invoke_for_model(context, &call.name, arguments, &run_call).await;
        Some(match ended {
            Ok(CallOutcome::Parked) => return None,
            Ok(CallOutcome::Uncertain) => ToolCallResult::from_uncertain_call(call, None),
            Ok(CallOutcome::Returned(output)) => {
                let ToolOutput { text, is_error, skill, skills_change, .. } = output;
                let (text, is_complete) = truncate_result(text);
                // A truncated skill is incomplete, so the next request carries its text.
                let carried = skill.filter(|_| !is_error && is_complete);
                ToolCallResult {
                    call: call.clone(),
                    text,
                    is_error,
                    change: skills_change,
                    carried,
                    is_uncertain: false,
                }
            }
            Err(error) => {
                let text = truncate_result(format_tool_error(&error)).0;
                // The error is not that of the attempt that may have happened.
                match run_call.may_have_happened() {
                    true => ToolCallResult::from_uncertain_call(call, Some(&text)),
                    false => ToolCallResult::from_error(call, text),
                }
            }
        })
    }
}

/// Formats a tool's error for the model: kind, message and hint.
fn format_tool_error(error: &KernelError) -> String {
    let hint = match error {
        // The hint names commands of the terminal, which a model cannot run.
        KernelError::NotFound { .. } => String::new(),
        other => other.hint(),
    };
    let kind: ErrorKind = error.kind();
    match hint.as_str() {
        "" => format!("{}: {error}", kind.as_str()),
        hint => format!("{}: {error}\nhint: {hint}", kind.as_str()),
    }
}

/// Returns a result truncated to the limit for models, and whether it is complete.
fn truncate_result(text: String) -> (String, bool) {
    if text.len() <= ANSWER {
        return (text, true);
    }
    // A cut inside of a character would panic.
    let end = text.floor_char_boundary(ANSWER);
    let total = text.len();
    (format!("{}\n(truncated: {end} of {total} bytes; request a part)", &text[..end]), false)
}

/// Makes call ids unique, so that each result belongs to one call.
pub(super) fn deduplicate_call_ids(mut calls: Vec<ModelToolCall>) -> Vec<ModelToolCall> {
    let mut seen = BTreeSet::new();
    for (number, call) in calls.iter_mut().enumerate() {
        // Some models send no ids, or the same one for parallel calls.
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
    fn long_result_is_truncated() {
        assert_eq!(truncate_result("ok".into()), ("ok".into(), true));
        let (text, is_complete) = truncate_result("é".repeat(40_000));
        assert!(!is_complete && text.starts_with('é'));
        assert!(text.ends_with("é\n(truncated: 65536 of 80000 bytes; request a part)"));
    }

    #[test]
    fn call_ids_become_unique() {
        let call = |id: &str| ModelToolCall { id: id.into(), ..ModelToolCall::default() };
        let calls = deduplicate_call_ids(vec![call("a"), call(""), call("a"), call("b")]);
        let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "call-1", "acall-2", "b"]);
    }
}
