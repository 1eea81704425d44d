//! The observation of one call on its way through the dispatcher.

use std::sync::Arc;

use skillhost_core::KernelError;
use skillhost_payload::{CallContext, CallOrigin, ErrorKind, ToolSpec};

use super::run_call::CallOutcome;
use super::session::RunSession;
use crate::run_observer::{ObservedCall, ObservedSpan, RunObserver, SpanEnd, SpanPlace};

/// The observation of one call on its way through the dispatcher. Without an observer it has no
/// cost.
pub(super) struct CallObservation<'a> {
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
    pub(super) fn new(observer: Option<&'a dyn RunObserver>) -> Self {
        Self { observer, facts: None, span: None }
    }

    /// Describes the call, once its tool is found. A person's own calls are not observed.
    pub(super) fn describe(
        &mut self,
        spec: &Arc<ToolSpec>,
        arguments: &str,
        context: &CallContext,
        session: Option<&RunSession>,
    ) {
        if self.observer.is_none() || context.origin == CallOrigin::Operator {
            return;
        }
        self.facts = Some(CallFacts {
            spec: Arc::clone(spec),
            arguments: arguments.to_owned(),
            context: CallContext {
                active_skills: session.map_or_else(Vec::new, |session| session.skills.list()),
                ..context.clone()
            },
            root_thread_id: session.map(|session| session.root_thread_id.clone()),
            parent: session.and_then(|session| session.span),
        });
    }

    /// Observes that the tool is invoked now, with the arguments that were approved.
    pub(super) fn start(&mut self, arguments: &str) {
        if let (Some(observer), Some(facts)) = (self.observer, &self.facts) {
            self.span = Some(observer.start_call(&ObservedCall {
                spec: &facts.spec,
                arguments,
                context: &facts.context,
                root_thread_id: facts.root_thread_id.as_deref(),
                parent: facts.parent,
            }));
        }
    }

    /// Observes the end of the call.
    pub(super) fn end(mut self, ended: &Result<CallOutcome, KernelError>) {
        let end = match ended {
            Ok(CallOutcome::Returned(output)) => SpanEnd::Returned(output),
            Ok(CallOutcome::Uncertain | CallOutcome::Parked) => SpanEnd::Done,
            Err(error) => return self.fail(error.kind()),
        };
        if let Some(span) = self.span.take() {
            span.end(end);
        }
    }

    /// Observes an error. A call that failed before its tool was invoked has a span without a
    /// duration, with the arguments of the caller.
    pub(super) fn fail(mut self, kind: ErrorKind) {
        if self.span.is_none() {
            let given = self.facts.as_ref().map(|facts| facts.arguments.clone());
            self.start(&given.unwrap_or_default());
        }
        if let Some(span) = self.span.take() {
            span.end(SpanEnd::Failed(kind));
        }
    }
}
