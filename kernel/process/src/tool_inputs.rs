//! Questions of a tool's call, and their answers in its repetition.

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, InputRequest as ProtocolRequest, InputRequiredResult,
    ProtocolVersion,
};
use serde_json::Value;
use skillhost_payload::{
    CallError, ErrorKind, InputAnswer, InputQuestion, InputRequest, InputResponse, ToolOutput,
};
use skillhost_sandbox::to_printable;

use crate::error::call_error;

/// The maximum number of questions of one result.
const MAX_QUESTIONS: usize = 16;

/// The size limits of the name of a question and of a tool's state, in bytes.
const MAX_KEY: usize = 256;
const MAX_STATE: usize = 64 * 1024;

/// Adds the answers to a call, and the declaration that it may end with questions.
///
/// A process that negotiated an earlier version of the protocol may answer such a call as one of
/// 2026-07-28: each request of that version declares it.
pub(crate) fn add_input(request: &mut CallToolRequestParams, input: &InputResponse) {
    let meta = request.meta.get_or_insert_default();
    meta.set_protocol_version(ProtocolVersion::V_2026_07_28);
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(ElicitationCapability::new().with_form(Default::default()));
    meta.set_client_capabilities(capabilities);
    if !input.answers.is_empty() {
        let answers = input.answers.iter().map(|(key, answer)| (key.clone(), to_response(answer)));
        request.input_responses = Some(answers.collect());
    }
    request.request_state.clone_from(&input.state);
}

fn to_response(answer: &InputAnswer) -> Value {
    let result = match answer {
        InputAnswer::Accepted(content) => ElicitResult::new(ElicitationAction::Accept)
            .with_content(Value::Object(content.clone())),
        InputAnswer::Declined => ElicitResult::new(ElicitationAction::Decline),
        InputAnswer::Expired => ElicitResult::new(ElicitationAction::Cancel),
    };
    // The types of the protocol are objects.
    serde_json::to_value(result).unwrap_or_default()
}

/// Converts the questions with which a call ended.
///
/// # Errors
/// [`ErrorKind::Failed`] if the caller cannot wait for a person, [`ErrorKind::Protocol`] for requests
/// that are not forms, and [`ErrorKind::TooLarge`] beyond the limits.
pub(crate) fn to_input_output(
    result: InputRequiredResult,
    may_ask: bool,
) -> Result<ToolOutput, CallError> {
    if !may_ask {
        let message = "the tool asks a person, and this call cannot wait for an answer";
        let hint = "call it in a background task; its `skillhost/task` must be may or must";
        return Err(call_error(ErrorKind::Failed, message).with_hint(hint));
    }
    let requests = result.input_requests.unwrap_or_default();
    let state = result.request_state;
    if requests.len() > MAX_QUESTIONS {
        let message = format!("asks {} questions at once, at most {MAX_QUESTIONS}", requests.len());
        return Err(call_error(ErrorKind::TooLarge, message));
    }
    if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
        let message = format!("`requestState` has more than {MAX_STATE} bytes");
        return Err(call_error(ErrorKind::TooLarge, message));
    }
    let questions = requests.into_iter().map(|(key, request)| to_question(key, request));
    let questions = questions.collect::<Result<_, _>>()?;
    let input_request = Some(Box::new(InputRequest { questions, state }));
    Ok(ToolOutput { input_request, ..ToolOutput::default() })
}

fn to_question(key: String, request: ProtocolRequest) -> Result<InputQuestion, CallError> {
    let shown = to_printable(&key, 64);
    if key.len() > MAX_KEY {
        let message = format!("the name of the question `{shown}` has more than {MAX_KEY} bytes");
        return Err(call_error(ErrorKind::TooLarge, message));
    }
    let ProtocolRequest::Elicitation(request) = request else {
        let message = format!("`{shown}` is not an elicitation");
        return Err(call_error(ErrorKind::Protocol, message));
    };
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } =
        request.params
    else {
        let message = format!("`{shown}` is not a form");
        return Err(call_error(ErrorKind::Protocol, message));
    };
    let form = serde_json::to_value(requested_schema).unwrap_or_default();
    Ok(InputQuestion { key, text: message, form })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn convert(requests: &Value, may_ask: bool) -> Result<ToolOutput, CallError> {
        let result = json!({
            "resultType": "input_required", "inputRequests": requests, "requestState": "s",
        });
        to_input_output(serde_json::from_value(result).unwrap(), may_ask)
    }

    fn form(key: &str) -> Value {
        let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
        let params = json!({"mode": "form", "message": "Sure?", "requestedSchema": schema});
        json!({ key: { "method": "elicitation/create", "params": params } })
    }

    #[test]
    fn form_becomes_question() {
        let request = convert(&form("confirm"), true).unwrap().input_request.unwrap();
        assert_eq!((request.state.as_deref(), request.questions.len()), (Some("s"), 1));
        let question = &request.questions[0];
        assert_eq!((&*question.key, &*question.text), ("confirm", "Sure?"));
        assert_eq!(question.form["properties"]["ok"]["type"], "boolean");
    }

    #[test]
    fn request_beyond_limits_is_error() {
        let kind = |requests| convert(&requests, true).unwrap_err().kind;
        assert_eq!(convert(&form("a"), false).unwrap_err().kind, ErrorKind::Failed);
        let many = (0..=MAX_QUESTIONS).flat_map(|n| form(&n.to_string()).as_object().cloned());
        let many: Vec<_> = many.flatten().collect();
        assert_eq!(kind(Value::Object(many.into_iter().collect())), ErrorKind::TooLarge);
        assert_eq!(kind(form(&"k".repeat(MAX_KEY + 1))), ErrorKind::TooLarge);
        assert_eq!(kind(json!({"roots": {"method": "roots/list"}})), ErrorKind::Protocol);
    }

    #[test]
    fn answers_are_input_responses() {
        let mut request = CallToolRequestParams::new("t");
        let content = json!({"ok": true}).as_object().cloned().unwrap();
        let answers = BTreeMap::from([
            ("a".to_owned(), InputAnswer::Accepted(content)),
            ("b".to_owned(), InputAnswer::Declined),
            ("c".to_owned(), InputAnswer::Expired),
        ]);
        add_input(&mut request, &InputResponse { answers, state: Some("s".to_owned()) });
        let sent = serde_json::to_value(&request).unwrap();
        let expected = json!({
            "a": {"action": "accept", "content": {"ok": true}},
            "b": {"action": "decline"},
            "c": {"action": "cancel"},
        });
        assert_eq!(sent["inputResponses"], expected);
        assert_eq!(sent["requestState"], "s");
        let meta = &sent["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_object());
    }
}
