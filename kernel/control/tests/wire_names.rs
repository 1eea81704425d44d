//! The names on the socket: a client of another version reads and writes the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skillhost_control::{
    AgentStatus, ClientMessage, ControlRequest, ControlResponse, InstructionLayerKind,
    MessageFailure, ServerMessage,
};

/// Reads lines as another version of the program writes them, and writes them again.
fn assert_stable<T: Serialize + DeserializeOwned>(lines: &[&str]) {
    for line in lines {
        let expected: Value = serde_json::from_str(line).unwrap();
        let message: T = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), expected);
    }
}

#[test]
fn request_names_are_stable() {
    assert_stable::<ControlRequest>(&[
        r#"{"command": "reload", "id": "e"}"#,
        r#"{"command": "preview_build", "id": "e"}"#,
        r#"{"command": "build", "id": "e", "sha256": "s", "surface": "terminal"}"#,
        r#"{"command": "build", "id": "e", "sha256": "s", "surface": "channel"}"#,
        r#"{"command": "build", "id": "e", "sha256": "s", "surface": "command_line"}"#,
        r#"{"command": "roll_back", "id": "e"}"#,
        r#"{"command": "turn", "agent": "a", "prompt": "p"}"#,
        r#"{"command": "invoke_for", "agent": "a", "tool": "t", "arguments": "{}"}"#,
        r#"{"command": "tools", "agent": null}"#,
        r#"{"command": "agents"}"#,
        r#"{"command": "agent", "id": "a"}"#,
        r#"{"command": "talk", "message_id": "i", "thread": "t", "agent": "a", "text": "Hi",
            "model": "p/m"}"#,
        r#"{"command": "attach", "thread": "t"}"#,
        r#"{"command": "activate", "thread": "t", "skill": "s"}"#,
        r#"{"command": "compact", "thread": "t", "model": "p/m"}"#,
        r#"{"command": "report"}"#,
        r#"{"command": "status"}"#,
        r#"{"command": "notices"}"#,
        r#"{"command": "stop"}"#,
        r#"{"command": "diagnose"}"#,
        r#"{"command": "open_console"}"#,
        r#"{"command": "schedules"}"#,
        r#"{"command": "run_schedule", "id": "e/s"}"#,
    ]);
    let line = r#"{"command": "invoke", "context": {"agent_id": "a", "session_id": "", "turn_id": "",
        "call_id": 1}, "tool": "t", "arguments": "{}"}"#;
    let request: ControlRequest = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_value(&request).unwrap()["command"], "invoke");
}

#[test]
fn response_names_are_stable() {
    assert_stable::<ControlResponse>(&[
        r#"{"done": {"id": "e"}}"#,
        r#"{"failed": {"kind": "not_found", "message": "m", "hint": "h"}}"#,
    ]);
    assert_stable::<AgentStatus>(&[r#""ready""#, r#""error""#]);
    assert_stable::<InstructionLayerKind>(&[r#""prompt""#, r#""skill""#, r#""inline""#]);
}

#[test]
fn message_names_are_stable() {
    assert_stable::<ServerMessage>(&[
        r#"{"hears": {"message_id": "i", "thread": "t", "agent": "a", "text": "Hi"}}"#,
        r#"{"given_up": {"id": 1}}"#,
        r#"{"ending": {"again": true}}"#,
        r#"{"ask": {"id": 1, "request": {"agent_id": "a", "tool": "t", "extension": "e",
            "arguments": "{}", "destructive": false, "always": false}}}"#,
        r#"{"ask_secret": {"id": 1, "request": {"agent_id": "a", "name": "N",
            "extensions": ["e"], "reason": "r"}}}"#,
        r#"{"ask_uncertain": {"id": 1, "request": {"agent_id": "a", "tool": "t", "extension": "e",
            "arguments": "{}", "call_key": "k", "attempts": 1}}}"#,
        r#"{"ask_person": {"id": 1, "request": {"agent_id": "a", "question": "q",
            "options": ["o"]}}}"#,
        r#"{"ask": {"id": 1, "request": {"agent_id": "a", "tool": "t", "extension": "e",
            "arguments": "{}", "destructive": false, "always": false},
            "question": {"question": "q", "digest": "d"}}}"#,
        r#"{"given_up": {"id": 1, "closure": {"question": "q", "state": "decided",
            "choice": "approve", "reason": "r", "by": "operator", "surface": "inbox",
            "at_ms": 1}, "is_rejected": true}}"#,
        r#"{"run_event": {"event": "restart", "agent_id": "a", "reason": "r"}}"#,
        r#"{"run_event": {"event": "tool_begun", "agent_id": "a", "tool": "t",
            "arguments": "{}"}}"#,
        r#"{"run_event": {"event": "tool_ended", "agent_id": "a", "tool": "t",
            "is_error": false, "summary": "s"}}"#,
        r#"{"run_event": {"event": "used", "agent_id": "a", "model": "m",
            "usage": {"input": 1, "output": 2, "cached": 0, "estimated": false}}}"#,
    ]);
    assert_stable::<ClientMessage>(&[
        r#"{"no_secret": {"id": 1, "reason": "r"}}"#,
        r#"{"secret": {"id": 1, "value": "v"}}"#,
        r#"{"answer": {"id": 1, "decision": "once", "digest": "d", "surface": "terminal"}}"#,
        r#"{"uncertain": {"id": 1, "decision": "happened", "digest": "d",
            "surface": "socket"}}"#,
        r#"{"uncertain": {"id": 1, "decision": "happened"}}"#,
        r#"{"uncertain": {"id": 1, "decision": "again"}}"#,
        r#"{"uncertain": {"id": 1, "decision": "stop"}}"#,
        r#"{"person": {"id": 1, "reply": {"answer": "yes"}}}"#,
        r#"{"person": {"id": 1, "reply": {"refused": {"reason": "r"}}}}"#,
    ]);
}

#[test]
fn failure_names_are_stable() {
    assert_stable::<ServerMessage>(&[
        r#"{"failed": {"what": "model", "kind": "denied", "message": "m", "hint": "h"}}"#,
    ]);
    assert_stable::<MessageFailure>(&[
        r#""agent""#,
        r#""model""#,
        r#""budget""#,
        r#""loop""#,
        r#""cancelled""#,
        r#""restarting""#,
        r#""parked""#,
        r#""left_behind""#,
        r#""nothing_said""#,
        r#""overflow""#,
        r#""thread""#,
        r#""request""#,
        r#""dead""#,
    ]);
    let later: MessageFailure = serde_json::from_str(r#""later""#).unwrap();
    assert_eq!(later, MessageFailure::Other);
}
