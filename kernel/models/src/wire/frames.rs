//! The chunks of an answer as they stand on the wire.
//!
//! genai skips a chunk of the Responses wire that it cannot read, and says nothing about how a stream
//! began that ended without a text. Both are seen here.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde::Deserialize;
use serde_json::Value;
use skillhost_kernel::ProviderProtocol;

/// Deltas of the Responses wire that an answer is made of.
const DELTAS: [&str; 5] = [
    "response.output_text.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
];

/// An observer of the chunks of one answer.
#[derive(Debug)]
pub(crate) struct FrameObserver {
    wire: ProviderProtocol,
    chunks: AtomicU32,
    begun: AtomicBool,
    unreadable: AtomicBool,
}

/// A chunk of the Responses wire.
#[derive(Deserialize)]
struct ResponsesChunk {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<Value>,
    item: Option<Value>,
}

impl FrameObserver {
    pub(crate) fn new(wire: ProviderProtocol) -> Self {
        let (chunks, begun, unreadable) = (AtomicU32::new(0), false.into(), false.into());
        Self { wire, chunks, begun, unreadable }
    }

    /// Whether a chunk was skipped.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Whether a chunk came that only a model sends.
    pub(crate) fn has_chunk(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether an end without an answer is one of a model: its answer had begun, or nothing came at
    /// all. A page of a server that is none has chunks, and none of them can be read.
    pub(crate) fn can_be_cut_off(&self) -> bool {
        self.has_chunk() || self.chunks.load(Ordering::Relaxed) == 0
    }

    fn observe(&self, data: &str) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        if data.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok() {
            self.begun.store(true, Ordering::Relaxed);
        }
        if self.wire == ProviderProtocol::OpenaiResponses && !is_readable(data) {
            self.unreadable.store(true, Ordering::Relaxed);
        }
    }
}

impl ChatFrameSink for FrameObserver {
    fn on_frame(&self, _context: &FrameCtx, frame: RawFrameRef<'_>) {
        self.observe(frame.data);
    }
}

/// Whether nothing of an answer is lost with what genai makes of a chunk.
fn is_readable(data: &str) -> bool {
    // Comments, and the end that some servers send as on the older wire.
    if data.is_empty() || data == "[DONE]" {
        return true;
    }
    let Ok(chunk) = serde_json::from_str::<ResponsesChunk>(data) else { return false };
    match chunk.kind.as_str() {
        kind if DELTAS.contains(&kind) => chunk.delta.is_some_and(|delta| delta.is_string()),
        "response.output_item.added" | "response.output_item.done" => chunk.item.is_some(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_chunks_are_unreadable() {
        for data in [
            "",
            "[DONE]",
            r#"{"type":"response.created","response":{}}"#,
            r#"{"type":"response.output_text.delta","delta":"a"}"#,
            r#"{"type":"response.something.new","delta":{"a":1}}"#,
        ] {
            assert!(is_readable(data), "{data}");
        }
        for data in [
            "{\"type\":\"response.output_text.delta\",\"del",
            r#"{"type":"response.output_text.delta"}"#,
            r#"{"type":"response.output_text.delta","delta":7}"#,
            r#"{"type":"response.output_item.done"}"#,
            r#"{"delta":"a"}"#,
            "[]",
            "x",
        ] {
            assert!(!is_readable(data), "{data}");
        }
    }

    #[test]
    fn pages_do_not_begin_an_answer() {
        let observed = |chunks: &[&str]| {
            let observer = FrameObserver::new(ProviderProtocol::Openai);
            chunks.iter().for_each(|chunk| observer.observe(chunk));
            (observer.can_be_cut_off(), observer.has_unreadable())
        };
        assert_eq!(observed(&[]), (true, false));
        assert_eq!(observed(&["", "{\"id\":1}"]), (true, false));
        assert_eq!(observed(&["", "<p>"]), (false, false));
    }
}
