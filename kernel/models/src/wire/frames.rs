//! The raw chunks of a reply.
//!
//! genai skips invalid chunks of the Responses protocol, and does not report the first chunks of a
//! stream that ended without text. This observer detects both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde::Deserialize;
use serde_json::Value;
use skillhost_home::ProviderProtocol;

/// The delta events of the Responses protocol that form a reply.
const DELTAS: [&str; 5] = [
    "response.output_text.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
];

/// An observer of the chunks of one reply.
#[derive(Debug)]
pub(crate) struct FrameObserver {
    wire: ProviderProtocol,
    chunks: AtomicU32,
    started: AtomicBool,
    unreadable: AtomicBool,
}

/// A chunk of the Responses protocol.
#[derive(Deserialize)]
struct ResponsesChunk {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<Value>,
    item: Option<Value>,
}

impl FrameObserver {
    pub(crate) fn new(wire: ProviderProtocol) -> Self {
        let (chunks, started, unreadable) = (AtomicU32::new(0), false.into(), false.into());
        Self { wire, chunks, started, unreadable }
    }

    /// Returns `true` if genai has skipped a chunk.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Returns `true` if a chunk of a model has arrived.
    pub(crate) fn has_chunk(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns `true` if an early end can be that of a model: its reply had started, or the stream
    /// had no chunks. An HTML page of another server has chunks, none of which is valid.
    pub(crate) fn can_be_cut_off(&self) -> bool {
        self.has_chunk() || self.chunks.load(Ordering::Relaxed) == 0
    }

    fn observe(&self, data: &str) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        // Every protocol sends JSON objects; an HTML page or an error text is none.
        if data.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok() {
            self.started.store(true, Ordering::Relaxed);
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

/// Returns `true` if genai reads a chunk without loss.
fn is_readable(data: &str) -> bool {
    // Comments are empty, and some servers send the end marker of the older protocol.
    if data.is_empty() || data == "[DONE]" {
        return true;
    }
    let Ok(chunk) = serde_json::from_str::<ResponsesChunk>(data) else { return false };
    match chunk.kind.as_str() {
        kind if DELTAS.contains(&kind) => chunk.delta.is_some_and(|delta| delta.is_string()),
        "response.output_item.added" | "response.output_item.done" => chunk.item.is_some(),
        // Other events contain no part of the reply.
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
    fn page_does_not_start_reply() {
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
