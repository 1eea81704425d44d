//! The names in threads, transcripts and on the socket: other versions read and write the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skillhost_conversation::{ApprovalDecision, Message, ModelError, ModelReply};

/// Reads a value as another version of the program writes it, and writes it again.
fn assert_stable<T: Serialize + DeserializeOwned>(lines: &[&str]) {
    for line in lines {
        let expected: Value = serde_json::from_str(line).unwrap();
        let value: T = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&value).unwrap(), expected);
    }
}

#[test]
fn names_of_messages_are_stable() {
    assert_stable::<Message>(&[
        r#"{"role": "user", "text": "t"}"#,
        r#"{"role": "assistant", "text": "t", "calls": [{"id": "c", "name": "n",
            "arguments": "{}"}]}"#,
        r#"{"role": "tool", "call_id": "c", "name": "n", "text": "t", "is_error": true}"#,
    ]);
}

#[test]
fn names_of_replies_are_stable() {
    for stop in ["end", "length", "filtered"] {
        assert_stable::<ModelReply>(&[&format!(
            r#"{{"text": "t", "calls": [], "usage": {{"input": 1, "output": 2, "cached": 3,
                "estimated": true}}, "stop": "{stop}", "only_reasoning": false}}"#
        )]);
    }
    let kinds = ["unknown", "key", "too_long", "busy", "timeout", "network", "refused", "protocol"];
    for kind in kinds {
        assert_stable::<ModelError>(&[&format!(
            r#"{{"kind": "{kind}", "model": "p/m", "message": "m", "hint": "h"}}"#
        )]);
    }
}

#[test]
fn names_of_decisions_are_stable() {
    assert_stable::<ApprovalDecision>(&[
        r#""once""#,
        r#""session""#,
        r#"{"refuse": {"reason": "r"}}"#,
    ]);
}
