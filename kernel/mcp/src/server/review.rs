//! Review by elicitation: a client asks its human about what a call has proposed.
//!
//! Whether anybody is asked is the backend's to say, and it says no unless the settings say yes: the
//! answer is only as trustworthy as the client that brings it.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
};
use serde_json::{Value, json};
use skillhost_contract::payload::{ReviewOffer, ToolOutput};

use super::asked::{CallHash, PendingQuestion};
use super::{McpRequestContext, ServerSession};
use crate::backend::ClientSession;

/// Longest reason that is kept.
const REASON: usize = 1_000;

/// What the question is called where a client carries it.
const KEY: &str = "review";

/// What becomes of a call that may be something to decide about.
pub(super) enum ElicitationOutcome {
    /// It is answered.
    Done(ToolOutput),
    /// The client is to ask its human, and to call again with the answer.
    Asks(InputRequiredResult),
}

/// Shows a person what a call has proposed, if the client can; what they decide is done, and added to
/// the call's output. Without a decision the proposal stays open.
pub(super) async fn ask_for_review(
    session: &ServerSession,
    context: &McpRequestContext,
    client: &ClientSession,
    call: CallHash,
    mut output: ToolOutput,
) -> ElicitationOutcome {
    let Some(offer) = find_offer(session, context, client, &output).await else {
        return ElicitationOutcome::Done(output);
    };
    let question = match question(&offer.text) {
        Ok(question) => question,
        Err(error) => {
            tracing::warn!(%error, "a proposal is not shown");
            return ElicitationOutcome::Done(output);
        }
    };
    // From this version on a server asks nothing by itself.
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let handle = session.shared.asked.insert(PendingQuestion { call, offer, output });
        let question = InputRequest::Elicitation(ElicitRequest::new(question));
        let questions = InputRequests::from([(KEY.to_owned(), question)]);
        return ElicitationOutcome::Asks(InputRequiredResult::new(Some(questions), Some(handle)));
    }
    let limit = Some(session.shared.limits.review);
    match context.peer.create_elicitation_with_timeout(question, limit).await {
        Ok(answer) => decide(session, client, offer, &answer, &mut output).await,
        Err(error) => tracing::warn!(%error, "nobody was asked about a proposal"),
    }
    ElicitationOutcome::Done(output)
}

/// Takes the answer to a question that the client has carried to its human.
///
/// # Errors
/// For a handle that is not one of this call, and one that is used up or too old.
pub(super) async fn handle_answer(
    session: &ServerSession,
    client: &ClientSession,
    call: CallHash,
    handle: &str,
    answers: Option<InputResponses>,
) -> Result<ToolOutput, ErrorData> {
    let asked = session.shared.asked.take(handle, call, session.shared.limits.review);
    let Some(PendingQuestion { offer, mut output, .. }) = asked else {
        let message = "the requestState is not one of this call, or not open any more";
        return Err(ErrorData::invalid_params(message, None));
    };
    let answer = answers.and_then(|mut answers| answers.remove(KEY));
    match answer.map(serde_json::from_value).transpose() {
        Ok(Some(answer)) => decide(session, client, offer, &answer, &mut output).await,
        Ok(None) => {}
        Err(error) => {
            let message = format!("the answer to {KEY:?} is none: {error}");
            return Err(ErrorData::invalid_params(message, None));
        }
    }
    Ok(output)
}

/// What a person is to decide, if this client can ask one.
async fn find_offer(
    session: &ServerSession,
    context: &McpRequestContext,
    client: &ClientSession,
    output: &ToolOutput,
) -> Option<ReviewOffer> {
    let asks = context.client_capabilities()?.elicitation?;
    // Only that it can open an address is not enough; nothing at all is how older ones say `form`.
    if asks.form.is_none() && asks.url.is_some() {
        return None;
    }
    session.backend().review(client, output).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "a proposal is not shown");
        None
    })
}

/// Does what a person has decided and adds it to a call's output.
async fn decide(
    session: &ServerSession,
    client: &ClientSession,
    offer: ReviewOffer,
    answer: &ElicitResult,
    output: &mut ToolOutput,
) {
    let Some((approve, reason)) = decision(answer) else { return };
    match session.backend().decide(client, offer, approve, reason).await {
        Ok(text) => settle(output, &text, Some(if approve { "applied" } else { "rejected" })),
        Err(error) => {
            let text = format!("A person decided, but it could not be done: {error}");
            settle(output, &text, None);
        }
    }
}

/// Makes a call's output say what came of the decision instead of what was to come: the text that it
/// announced as `next` gives way, and so does its state.
fn settle(output: &mut ToolOutput, decided: &str, state: Option<&str>) {
    let value = output.structured.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
    let Some(Value::Object(mut value)) = value else {
        append(&mut output.text, decided);
        return;
    };
    let announced = value.get("next").and_then(Value::as_str).filter(|next| !next.is_empty());
    match announced.filter(|next| output.text.contains(*next)) {
        Some(next) => output.text = output.text.replacen(next, decided, 1),
        None => append(&mut output.text, decided),
    }
    for (key, text) in [("next", Some(decided)), ("state", state)] {
        if let (Some(known), Some(text)) = (value.get_mut(key), text) {
            *known = text.into();
        }
    }
    value.insert("review".to_owned(), decided.into());
    output.structured = serde_json::value::to_raw_value(&value).ok();
}

fn append(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

fn question(text: &str) -> Result<ElicitRequestParams, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "approve changes the skill now; reject leaves it as it is",
                "enum": ["approve", "reject"],
            },
            "reason": { "type": "string", "title": "Reason", "maxLength": REASON },
        },
        "required": ["decision"],
    });
    let fields = schema.as_object().cloned().unwrap_or_default();
    let requested_schema = ElicitationSchema::from_json_schema(fields)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let message = text.to_owned();
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What a person decided and why; nothing unless they said it in so many words.
fn decision(answer: &ElicitResult) -> Option<(bool, String)> {
    let content = answer.content.as_ref().filter(|_| answer.action == ElicitationAction::Accept)?;
    let approve = match content["decision"].as_str()? {
        "approve" => true,
        "reject" => false,
        _ => return None,
    };
    let reason = content["reason"].as_str().unwrap_or_default().trim();
    // A rejection has to have one.
    let reason = if reason.is_empty() && !approve { "no reason given" } else { reason };
    Some((approve, reason.chars().take(REASON).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(action: ElicitationAction, content: Value) -> Option<(bool, String)> {
        decision(&ElicitResult::new(action).with_content(content))
    }

    #[test]
    fn only_an_explicit_answer_decides() {
        use ElicitationAction::{Accept, Cancel, Decline};
        let yes = json!({ "decision": "approve", "reason": " Good. " });
        assert_eq!(decided(Accept, yes.clone()), Some((true, "Good.".to_owned())));
        let no = decided(Accept, json!({ "decision": "reject" }));
        assert_eq!(no, Some((false, "no reason given".to_owned())));
        assert_eq!(decided(Decline, yes.clone()), None);
        assert_eq!(decided(Cancel, yes), None);
        for content in
            [json!({}), json!({ "decision": true }), json!({ "decision": "Approve" }), json!(null)]
        {
            assert_eq!(decided(Accept, content.clone()), None, "{content}");
        }
        assert_eq!(decision(&ElicitResult::new(Accept)), None);
    }

    fn settled(text: &str, value: &Value, state: Option<&str>) -> (String, Value) {
        let structured = serde_json::value::to_raw_value(value).ok();
        let text = text.to_owned();
        let mut output = ToolOutput { text, structured, is_error: false, skill: None };
        settle(&mut output, "Approved.", state);
        (output.text, serde_json::from_str(output.structured.unwrap().get()).unwrap())
    }

    #[test]
    fn decision_replaces_the_announcement() {
        let value = json!({ "proposal": "p", "state": "open", "next": "A person decides." });
        let (text, value) =
            settled("Recorded. A person decides.\nNote: n.", &value, Some("applied"));
        assert_eq!(text, "Recorded. Approved.\nNote: n.");
        let expected = json!({
            "proposal": "p", "state": "applied", "next": "Approved.", "review": "Approved.",
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn decision_without_announcement_is_appended() {
        let (text, value) = settled("Recorded.", &json!({ "state": "open" }), None);
        assert_eq!(text, "Recorded.\nApproved.");
        assert_eq!(value, json!({ "state": "open", "review": "Approved." }));
        let (text, value) = settled("Recorded.", &json!([1]), Some("applied"));
        assert_eq!((&*text, value), ("Recorded.\nApproved.", json!([1])));
    }

    #[test]
    fn the_question_has_a_form_that_clients_can_show() {
        assert!(question("What changes.").is_ok());
    }
}
