//! The spans of runs and calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use skillhost_agents::{ObservedCall, ObservedRun, ObservedSpan, RunObserver, SpanEnd, SpanPlace};

use crate::conventions::{ConventionNames, ERROR_TYPE};
use crate::skill_call::SkillCall;

/// The kind of an error that a tool reports in its result.
const TOOL_ERROR: &str = "tool_error";
/// The kind of error of a run or call that was dropped.
const CANCELLED: &str = "cancelled";

/// Makes the spans of runs and calls.
pub(crate) struct SpanObserver {
    tracer: SdkTracer,
    /// `None` for spans without attributes of the GenAI conventions.
    names: Option<&'static ConventionNames>,
    /// Spans have descriptions and addresses of skills.
    has_content: bool,
    ended: Arc<AtomicU64>,
}

/// The spans of one run or call: a call that loads several skills has one for each of them.
struct OpenSpans {
    /// Empty once they have ended.
    spans: Vec<Span>,
    place: SpanPlace,
    /// The skill call, with the names of its attributes.
    skill_call: Option<(SkillCall, &'static ConventionNames)>,
    has_content: bool,
    ended: Arc<AtomicU64>,
}

impl SpanObserver {
    pub(crate) fn new(
        tracer: SdkTracer,
        names: Option<&'static ConventionNames>,
        has_content: bool,
    ) -> Self {
        Self { tracer, names, has_content, ended: Arc::default() }
    }

    /// Returns the number of spans that have ended.
    pub(crate) fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn start(&self, name: String, attributes: Vec<KeyValue>, parent: Option<SpanPlace>) -> Span {
        let builder =
            SpanBuilder::from_name(name).with_kind(SpanKind::Internal).with_attributes(attributes);
        self.tracer.build_with_context(builder, &parent.map_or_else(Context::new, to_context))
    }

    fn open(
        &self,
        spans: Vec<Span>,
        skill_call: Option<(SkillCall, &'static ConventionNames)>,
    ) -> Box<dyn ObservedSpan> {
        let nowhere = SpanPlace { trace_id: 0, span_id: 0, is_sampled: false };
        let place = spans.first().map_or(nowhere, |span| {
            let context = span.span_context();
            SpanPlace {
                is_sampled: context.is_sampled(),
                trace_id: u128::from_be_bytes(context.trace_id().to_bytes()),
                span_id: u64::from_be_bytes(context.span_id().to_bytes()),
            }
        });
        let (has_content, ended) = (self.has_content, Arc::clone(&self.ended));
        Box::new(OpenSpans { spans, place, skill_call, has_content, ended })
    }
}

impl RunObserver for SpanObserver {
    fn start_run(&self, run: &ObservedRun<'_>) -> Box<dyn ObservedSpan> {
        let attributes = self.names.map_or_else(Vec::new, |names| {
            vec![
                KeyValue::new(names.operation, names.invoke_agent),
                KeyValue::new(names.agent, run.agent_id.to_owned()),
                KeyValue::new(names.conversation, run.root_thread_id.to_owned()),
            ]
        });
        let name = format!("invoke_agent {}", run.agent_id);
        self.open(vec![self.start(name, attributes, run.parent)], None)
    }

    fn start_call(&self, call: &ObservedCall<'_>) -> Box<dyn ObservedSpan> {
        let name = format!("execute_tool {}", call.spec.name);
        let Some(names) = self.names else {
            return self.open(vec![self.start(name, Vec::new(), call.parent)], None);
        };
        let mut attributes = vec![
            KeyValue::new(names.operation, names.execute_tool),
            KeyValue::new(names.tool, call.spec.name.clone()),
        ];
        if !call.context.agent_id.is_empty() {
            attributes.push(KeyValue::new(names.agent, call.context.agent_id.clone()));
        }
        if let Some(thread) = call.root_thread_id {
            attributes.push(KeyValue::new(names.conversation, thread.to_owned()));
        }
        let skill_call = SkillCall::read(call);
        let spans = match &skill_call {
            Some(used) if !used.skills.is_empty() => used
                .skills
                .iter()
                .map(|skill| {
                    let mut name = format!("{name} {skill}");
                    let mut attributes = attributes.clone();
                    attributes.push(KeyValue::new(names.skill, skill.clone()));
                    if let Some(path) = &used.resource {
                        name.push_str(&format!(" {path}"));
                        attributes.push(KeyValue::new(names.skill_resource, path.clone()));
                    }
                    if let Some(program) = used.executable() {
                        attributes.push(KeyValue::new(names.executable, program.to_owned()));
                    }
                    if self.has_content {
                        let source = format!("skill://{skill}/SKILL.md");
                        attributes.push(KeyValue::new(names.skill_source, source));
                    }
                    self.start(name, attributes, call.parent)
                })
                .collect(),
            _ => vec![self.start(name, attributes, call.parent)],
        };
        self.open(spans, skill_call.map(|used| (used, names)))
    }
}

impl ObservedSpan for OpenSpans {
    fn place(&self) -> SpanPlace {
        self.place
    }

    fn end(mut self: Box<Self>, end: SpanEnd<'_>) {
        if let (SpanEnd::Returned(output), Some((used, names))) = (end, &self.skill_call) {
            let outcome = used.read_outcome(output);
            for span in &mut self.spans {
                if let Some(code) = outcome.exit_code {
                    span.set_attribute(KeyValue::new(names.exit_code, code));
                }
                if let Some(text) = outcome.description.clone().filter(|_| self.has_content) {
                    span.set_attribute(KeyValue::new(names.skill_description, text));
                }
            }
        }
        self.close(match end {
            SpanEnd::Failed(kind) => Some(kind.as_str()),
            SpanEnd::Returned(output) if output.is_error => Some(TOOL_ERROR),
            SpanEnd::Returned(_) | SpanEnd::Done => None,
        });
    }
}

impl OpenSpans {
    fn close(&mut self, error: Option<&'static str>) {
        for mut span in self.spans.drain(..) {
            if let Some(kind) = error {
                span.set_attribute(KeyValue::new(ERROR_TYPE, kind));
                // Without the message, which may quote prompts and files.
                span.set_status(Status::error(""));
            }
            // Only sampled spans are exported.
            let is_sampled = span.is_recording();
            span.end();
            self.ended.fetch_add(u64::from(is_sampled), Ordering::Relaxed);
        }
    }
}

impl Drop for OpenSpans {
    fn drop(&mut self) {
        self.close(Some(CANCELLED));
    }
}

/// Returns the context of a child of a span.
fn to_context(parent: SpanPlace) -> Context {
    Context::new().with_remote_span_context(SpanContext::new(
        TraceId::from_bytes(parent.trace_id.to_be_bytes()),
        SpanId::from_bytes(parent.span_id.to_be_bytes()),
        // A sampler that follows the parent leaves out the calls of a run that it left out.
        if parent.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED },
        true,
        TraceState::NONE,
    ))
}
