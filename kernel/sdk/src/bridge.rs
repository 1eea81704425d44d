//! Forwards the extension's log events and panics to the kernel.
//!
//! A library has its own copies of `tracing` and of the panic hook, so without this its events and
//! panic messages would be lost.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, EnteredSpan, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Span, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::link::{HostLink, LogLine};
use crate::linkage::Linkage;

thread_local! {
    /// The span of an extension's thread, for as long as the thread runs.
    static THREAD_SPAN: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
}

/// Returns the span that names a bundled extension in the kernel's log; the events of a library have
/// its id, and need none. `extension` is the target that filters know.
pub(crate) fn extension_span(linkage: Linkage, id: &str) -> Span {
    match linkage {
        Linkage::Library => Span::none(),
        Linkage::Bundled => tracing::error_span!(target: "extension", "extension", id),
    }
}

/// Enters a span until the current thread ends.
pub(crate) fn enter_on_thread(span: &Span) {
    if !span.is_none() {
        THREAD_SPAN.with(|entered| *entered.borrow_mut() = Some(span.clone().entered()));
    }
}

/// Exits the span of the current thread, before the thread's other values are dropped.
pub(crate) fn exit_on_thread() {
    THREAD_SPAN.with(|entered| drop(entered.borrow_mut().take()));
}

/// Forwards every event of this library to the kernel, and every panic as an error event.
///
/// Only the first call in a library has an effect: there is one subscriber per library.
pub(crate) fn install_log_bridge(link: HostLink) {
    let subscriber = tracing_subscriber::registry().with(HostLayer(link));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        std::panic::set_hook(Box::new(|info| {
            let location = info.location().map(ToString::to_string).unwrap_or_default();
            let message = info.payload_as_str().unwrap_or("a panic without a message");
            tracing::error!(target: "extension.panic", location, "{message}");
        }));
    }
}

/// A layer that forwards events to the kernel.
struct HostLayer(HostLink);

/// A span's name with its fields, formatted once when the span is created.
struct SpanText(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for HostLayer {
    // Called once per callsite and cached, so that a disabled event costs a load and a branch.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.log_enabled(level_number(*metadata.level()), metadata.target()) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.log_enabled(level_number(*metadata.level()), metadata.target())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = EventFields::default();
        attributes.record(&mut fields);
        if let Some(span) = cx.span(id) {
            let text = format!("{}{}", span.name(), fields.to_json());
            span.extensions_mut().insert(SpanText(text));
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let mut spans = String::new();
        for span in cx.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if !spans.is_empty() {
                spans.push(':');
            }
            if let Some(SpanText(text)) = span.extensions().get() {
                spans.push_str(text);
            }
        }
        let metadata = event.metadata();
        self.0.log(&LogLine {
            level: level_number(*metadata.level()),
            target: metadata.target(),
            message: &fields.message,
            fields_json: &fields.to_json(),
            spans: &spans,
            file: metadata.file().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
        });
    }
}

fn level_number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The fields of an event, with the message separate.
#[derive(Default)]
struct EventFields {
    message: String,
    others: Map<String, Value>,
}

impl EventFields {
    fn to_json(&self) -> String {
        if self.others.is_empty() {
            return String::new();
        }
        serde_json::to_string(&self.others).unwrap_or_default()
    }

    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing into a String cannot fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.insert(field, format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.insert(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }
}
