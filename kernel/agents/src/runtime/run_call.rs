//! A call of a run's model: its record in the thread, and the requests to a person about it.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use skillhost_conversation::{
    CallAttempts, CallStart, OpenCall, PersonQuestion, PersonReply, RunEntry, Thread,
    UncertainCall, UncertainDecision,
};
use skillhost_core::ToolEntry;
use skillhost_payload::{CallContext, CallEffect, CallError, ErrorKind, ToolOutput};

use super::session::RunSession;
use crate::agent_runtime::AgentRuntime;

/// The result of a call that a person says has happened.
const HAPPENED_RESULT: &str = "the run was cut off before this call was answered; a person confirmed \
                               that it happened, but its result is not known";

/// A call of a run's model, with its record in the thread.
pub(super) struct RunCall<'a> {
    thread: &'a Thread,
    open: &'a OpenCall,
    /// The tool was invoked by this process.
    is_invoked: AtomicBool,
}

/// The end of a call that is not an error.
pub(super) enum CallOutcome {
    /// The tool returned an output, or a person stated the end of an earlier attempt.
    Returned(ToolOutput),
    /// The call may have happened, and is not made again.
    Uncertain,
    /// The call stays open until a person decides.
    Parked,
}

impl<'a> RunCall<'a> {
    pub(super) fn new(thread: &'a Thread, open: &'a OpenCall) -> Self {
        Self { thread, open, is_invoked: AtomicBool::new(false) }
    }

    /// Returns the arguments of an earlier attempt, if a person changed them: the call is continued
    /// as it was approved.
    pub(super) fn changed_arguments(&self) -> Option<&'a str> {
        match &self.open.attempts {
            CallAttempts::Started { arguments, .. } => arguments.as_deref(),
            CallAttempts::None | CallAttempts::Unknown => None,
        }
    }

    /// Returns whether an earlier attempt may have happened and this process has not made another.
    pub(super) fn may_have_happened(&self) -> bool {
        self.open.attempts != CallAttempts::None && !self.is_invoked.load(Ordering::Relaxed)
    }

    /// Records the start of the call; afterwards its tool must be invoked. A call without an effect
    /// needs no record: it is made again in any case, and a record costs a write to the disk.
    ///
    /// # Errors
    /// [`CallError`] if the record is not on disk; the tool must then not be invoked.
    pub(super) async fn start(
        &self,
        effect: CallEffect,
        changed: Option<&str>,
    ) -> Result<(), CallError> {
        if effect != CallEffect::Read {
            let start = CallStart {
                call_id: self.open.call.id.clone(),
                effect,
                arguments: changed.map(str::to_owned),
            };
            self.thread.start_call(start).await.map_err(|error| {
                let message = format!("the call was not made: {error}");
                CallError::new(error.kind(), message).with_hint(error.hint())
            })?;
        }
        self.is_invoked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of earlier attempts if a person has to decide whether the call is made;
    /// 0 if the call repeats another one.
    fn uncertain_attempts(&self, effect: CallEffect) -> Option<u32> {
        let call = &self.open.call;
        match &self.open.attempts {
            // Both builds of the tool have to tolerate the repetition.
            CallAttempts::Started { count, effect: before, .. } => {
                [*before, effect].contains(&CallEffect::Once).then_some(*count)
            }
            CallAttempts::Unknown => (effect != CallEffect::Read).then_some(1),
            // A `keyed` tool does not recognize the repetition, which has another key.
            CallAttempts::None => (effect != CallEffect::Read
                && self.thread.is_uncertain(&call.name, &call.arguments))
            .then_some(0),
        }
    }
}

impl AgentRuntime {
    /// Requests a decision about a call that may have happened. Returns `None` if the call is to be
    /// made.
    pub(super) async fn resolve_uncertain_call(
        &self,
        session: &RunSession,
        context: &CallContext,
        call: &RunCall<'_>,
        entry: &ToolEntry,
        extension_sha256: Option<String>,
    ) -> Option<CallOutcome> {
        let attempts = call.uncertain_attempts(session.call_effect(context, entry))?;
        let can_park = session.can_park(context);
        let request = UncertainCall {
            agent_id: session.agent.to_string(),
            tool: entry.spec.name.clone(),
            extension: entry.owner.to_string(),
            arguments: call.changed_arguments().unwrap_or(&call.open.call.arguments).to_owned(),
            call_key: call.open.key.clone(),
            attempts,
            extension_sha256,
            can_park,
        };
        let decision = match &session.reporter.channel {
            Some(channel) => {
                let _alone = session.approval_lock.lock().await;
                let asked = channel.resolve_uncertain_call(&request);
                self.within_approval_limit(can_park, asked).await
            }
            None => None,
        };
        let decision = match decision {
            Some(UncertainDecision::Parked) if !can_park => UncertainDecision::Stop,
            Some(decision) => decision,
            None => UncertainDecision::Stop,
        };
        session.reporter.record(&RunEntry::Uncertain { tool: request.tool, decision });
        match decision {
            UncertainDecision::Happened => {
                let text = HAPPENED_RESULT.to_owned();
                Some(CallOutcome::Returned(ToolOutput { text, ..ToolOutput::default() }))
            }
            UncertainDecision::Again => None,
            UncertainDecision::Stop => Some(CallOutcome::Uncertain),
            UncertainDecision::Parked => Some(CallOutcome::Parked),
        }
    }

    /// Waits for a person. A channel that parks limits the wait itself; elsewhere the result is
    /// `None` after the limit of approvals.
    pub(super) async fn within_approval_limit<T>(
        &self,
        can_park: bool,
        asked: impl Future<Output = T>,
    ) -> Option<T> {
        if can_park {
            return Some(asked.await);
        }
        tokio::time::timeout(self.extensions().limits().approval, asked).await.ok()
    }

    /// Asks the person of a run a question, on behalf of a tool of the kernel; the context is that of
    /// the tool's call. Where the question is parked, the error ends the call without a result, and
    /// the next attempt of the call asks again: such a tool must have the effect
    /// [`CallEffect::Read`].
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] without an answer; [`ErrorKind::Unavailable`] outside of a run, and for
    /// a parked question.
    pub fn ask_person<'a>(
        &'a self,
        context: &'a CallContext,
        question: String,
        options: Vec<String>,
    ) -> BoxFuture<'a, Result<String, CallError>> {
        Box::pin(async move {
            let session = self.session_for(context).ok_or_else(super::tool_spec::no_run_error)?;
            let can_park = session.can_park(context);
            let request = PersonQuestion {
                agent_id: session.agent.to_string(),
                call_key: context.idempotency_key.clone(),
                question,
                options,
                can_park,
            };
            let refuse = |reason: String| PersonReply::Refused { reason };
            // The wait for a person is no work of the call.
            let _waiting = session.budget.start_wait(context.call_id);
            let reply = match &session.reporter.channel {
                Some(channel) => {
                    let _alone = session.approval_lock.lock().await;
                    let asked = channel.ask_person(&request);
                    self.within_approval_limit(can_park, asked).await.unwrap_or_else(|| {
                        let limit = self.extensions().limits().approval.as_millis();
                        refuse(format!("no answer within {limit} ms"))
                    })
                }
                None => refuse("no person is available".to_owned()),
            };
            let answer = match &reply {
                PersonReply::Answer(text) => Some(text.clone()),
                PersonReply::Refused { .. } | PersonReply::Parked => None,
            };
            session.reporter.record(&RunEntry::Question { question: request.question, answer });
            match reply {
                PersonReply::Answer(text) => Ok(text),
                PersonReply::Refused { reason } => Err(not_answered_error(&reason)),
                PersonReply::Parked => Err(self.park_call(context)),
            }
        })
    }

    /// Marks a call of a run's model as parked: its result is discarded, and the run ends with the
    /// call open once its other calls are done. Returns the error that the tool returns.
    ///
    /// Only a tool of the kernel whose effect is [`CallEffect::Read`] may park its call. Where the
    /// run cannot be started again, the error is the result for the model.
    #[must_use]
    pub fn park_call(&self, context: &CallContext) -> CallError {
        let session = self.session_for(context).filter(|session| session.can_park(context));
        match (session, &context.idempotency_key) {
            (Some(session), Some(key)) => {
                session.park_call(key);
                CallError::new(ErrorKind::Unavailable, "the call waits for a decision")
            }
            _ => not_answered_error("this run cannot wait for a decision"),
        }
    }
}

fn not_answered_error(reason: &str) -> CallError {
    CallError::new(ErrorKind::Denied, format!("the question was not answered: {reason}"))
        .with_hint("continue without the answer, or name it in the reply")
}
