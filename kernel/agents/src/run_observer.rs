//! The observation of runs and of the calls of tools, for telemetry.

use skillhost_payload::{CallContext, ErrorKind, ToolOutput, ToolSpec};

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
    /// Whether the trace is exported.
    pub is_sampled: bool,
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
