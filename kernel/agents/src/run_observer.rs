//! The observation of runs and of the calls of tools, for telemetry.

use std::borrow::Cow;
use std::sync::Arc;

use skillhost_core::KernelError;
use skillhost_payload::{CallContext, CallOrigin, ErrorKind, ToolOutput, ToolSpec};

use crate::runtime::run_call::CallOutcome;
use crate::runtime::session::RunSession;

/// An observer of the runs of agents, and of the calls of tools by models, programs and MCP clients.
/// Its methods are called on the way of each call, so none may wait.
pub trait RunObserver: Send + Sync {
    /// Observes the start of a run.
    fn start_run(&self, run: &ObservedRun<'_>) -> Box<dyn ObservedSpan>;

    /// Observes the start of a call, after its approval.
    fn start_call(&self, call: &ObservedCall<'_>) -> Box<dyn ObservedSpan>;
}

/// An observed run or call. One that is dropped before its end was cancelled.
pub trait ObservedSpan: Send {
    /// Returns the place of the run or the call in its trace.
    fn place(&self) -> SpanPlace;

    /// Observes the end.
    fn end(self: Box<Self>, end: SpanEnd<'_>);
}

/// The place of a span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanPlace {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
}

/// The end of a run or of a call.
#[derive(Debug, Clone, Copy)]
pub enum SpanEnd<'a> {
    /// A tool returned an output.
    Returned(&'a ToolOutput),
    /// A run ended, or continues later.
    Done,
    /// It failed.
    Failed(ErrorKind),
}

/// A run of an agent.
#[derive(Debug, Clone, Copy)]
pub struct ObservedRun<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// The thread at the root of its delegations.
    pub root_thread_id: &'a str,
    /// The run that delegated to it.
    pub parent: Option<SpanPlace>,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    /// The tool.
    pub spec: &'a ToolSpec,
    /// The arguments, as JSON text.
    pub arguments: &'a str,
    /// The context of the call.
    pub context: &'a CallContext,
    /// The thread at the root of its run, if it has one.
    pub root_thread_id: Option<&'a str>,
    /// The run that makes the call.
    pub parent: Option<SpanPlace>,
}

/// The observation of one call on its way through the dispatcher. Without an observer it has no
/// cost.
pub(crate) struct CallObservation<'a> {
    observer: Option<&'a dyn RunObserver>,
    facts: Option<CallFacts>,
    span: Option<Box<dyn ObservedSpan>>,
}

/// The parts of a call that its span is made of.
struct CallFacts {
    spec: Arc<ToolSpec>,
    arguments: String,
    context: CallContext,
    root_thread_id: Option<String>,
    parent: Option<SpanPlace>,
}

impl<'a> CallObservation<'a> {
    pub(crate) fn new(observer: Option<&'a dyn RunObserver>) -> Self {
        Self { observer, facts: None, span: None }
    }

    /// Describes the call, once its tool is found. A person's own calls are not observed.
    pub(crate) fn describe(
        &mut self,
        spec: &Arc<ToolSpec>,
        arguments: &Cow<'_, str>,
        context: &CallContext,
        session: Option<&RunSession>,
    ) {
        if self.observer.is_none() || context.origin == CallOrigin::Operator {
            return;
        }
        self.facts = Some(CallFacts {
            spec: Arc::clone(spec),
            arguments: arguments.to_string(),
            context: CallContext {
                active_skills: session.map_or_else(Vec::new, |session| session.skills.list()),
                ..context.clone()
            },
            root_thread_id: session.map(|session| session.root_thread_id.clone()),
            parent: session.and_then(|session| session.span),
        });
    }

    /// Observes that the tool is invoked now.
    pub(crate) fn start(&mut self) {
        if let (Some(observer), Some(facts)) = (self.observer, &self.facts) {
            self.span = Some(observer.start_call(&ObservedCall {
                spec: &facts.spec,
                arguments: &facts.arguments,
                context: &facts.context,
                root_thread_id: facts.root_thread_id.as_deref(),
                parent: facts.parent,
            }));
        }
    }

    /// Observes the end of the call. One that failed before its tool was invoked has a span without
    /// a duration.
    pub(crate) fn end(mut self, ended: &Result<CallOutcome, KernelError>) {
        let end = match ended {
            Ok(CallOutcome::Returned(output)) => SpanEnd::Returned(output),
            Ok(CallOutcome::Uncertain | CallOutcome::Parked) => SpanEnd::Done,
            Err(error) => SpanEnd::Failed(error.kind()),
        };
        if self.span.is_none() && matches!(end, SpanEnd::Failed(_)) {
            self.start();
        }
        if let Some(span) = self.span.take() {
            span.end(end);
        }
    }
}
