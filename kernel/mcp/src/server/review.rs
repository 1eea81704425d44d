//! Review by elicitation: a client asks its user to decide about a proposal of a tool call.
//!
//! The backend enables reviews, and only if the settings allow them: the answer is only as
//! trustworthy as the client that sends it.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
};
use serde_json::{Value, json};
use skillhost_payload::{ReviewOffer, ToolOutput};

use super::pending_questions::{CallHash, PendingQuestion, PendingSubject};
use super::session::{McpRequestContext, ServerSession};
use crate::backend::ClientSession;

/// The maximum length of a reason, in characters.
const MAX_REASON: usize = 1_000;

/// The key of the review question in an elicitation request.
const KEY: &str = "review";

/// The outcome of a tool call that may contain a proposal.
pub(super) enum ElicitationOutcome {
    /// The tool call is complete.
    Done(ToolOutput),
    /// The client has to ask its user and to repeat the call with the answer.
    Asks(InputRequiredResult),
}

/// Asks the client's user to decide about the proposal of a tool call, if the client can.
///
/// The decision is applied and added to the output. Without a decision the proposal stays open.
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
    let question = match review_form(&offer.text) {
        Ok(question) => question,
        Err(error) => {
            tracing::warn!(%error, "proposal not offered for review");
            return ElicitationOutcome::Done(output);
        }
    };
    // From this version on a server sends no requests; the client repeats its call with the answer.
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        let handle = session
            .shared
            .pending
            .insert(PendingQuestion { call, subject: PendingSubject::Review { offer, output } });
        let question = InputRequest::Elicitation(ElicitRequest::new(question));
        let questions = InputRequests::from([(KEY.to_owned(), question)]);
        return ElicitationOutcome::Asks(InputRequiredResult::new(Some(questions), Some(handle)));
    }
    let limit = Some(session.shared.limits.review);
    match context.peer.create_elicitation_with_timeout(question, limit).await {
        Ok(answer) => decide(session, client, offer, &answer, &mut output).await,
        // The proposal stays open, so the call itself has still succeeded.
        Err(error) => tracing::warn!(%error, "review request to the client failed"),
    }
    ElicitationOutcome::Done(output)
}

/// Applies the answer to a review that the client has shown to its user.
///
/// # Errors
/// An invalid-parameter error for an answer that is none to a review.
pub(super) async fn handle_answer(
    session: &ServerSession,
    client: &ClientSession,
    offer: ReviewOffer,
    mut output: ToolOutput,
    answers: Option<InputResponses>,
) -> Result<ToolOutput, ErrorData> {
    let answer = answers.and_then(|mut answers| answers.remove(KEY));
    match answer.map(serde_json::from_value).transpose() {
        Ok(Some(answer)) => decide(session, client, offer, &answer, &mut output).await,
        // The user has not answered; the proposal stays open.
        Ok(None) => {}
        Err(error) => {
            let message = format!("response to {KEY:?} is not valid: {error}");
            return Err(ErrorData::invalid_params(message, None));
        }
    }
    Ok(output)
}

/// Returns the proposal to decide about, if this client can ask its user.
async fn find_offer(
    session: &ServerSession,
    context: &McpRequestContext,
    client: &ClientSession,
    output: &ToolOutput,
) -> Option<ReviewOffer> {
    let elicitation = context.client_capabilities()?.elicitation?;
    // The ability to open an address is not enough. Older clients declare `form` by an empty value.
    if elicitation.form.is_none() && elicitation.url.is_some() {
        return None;
    }
    session.backend().review(client, output).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "proposal not offered for review");
        None
    })
}

/// Applies the decision of a user and adds its result to the output of the tool call.
async fn decide(
    session: &ServerSession,
    client: &ClientSession,
    offer: ReviewOffer,
    answer: &ElicitResult,
    output: &mut ToolOutput,
) {
    let Some((approve, reason)) = parse_decision(answer) else { return };
    match session.backend().decide(client, offer, approve, reason).await {
        Ok(text) => {
            replace_announcement(output, &text, Some(if approve { "applied" } else { "rejected" }));
        }
        Err(error) => {
            let text = format!("A person decided, but it could not be done: {error}");
            // The proposal keeps its state, since the decision had no effect.
            replace_announcement(output, &text, None);
        }
    }
}

/// Replaces the announced `next` text and the state in a tool output by the result of the decision.
fn replace_announcement(output: &mut ToolOutput, decided: &str, state: Option<&str>) {
    let value = output.structured.as_ref().and_then(|text| serde_json::from_str(text.get()).ok());
    let Some(Value::Object(mut value)) = value else {
        append_line(&mut output.text, decided);
        return;
    };
    // An empty `next` would match everywhere in the text.
    let announced = value.get("next").and_then(Value::as_str).filter(|next| !next.is_empty());
    match announced.filter(|next| output.text.contains(*next)) {
        Some(next) => output.text = output.text.replacen(next, decided, 1),
        None => append_line(&mut output.text, decided),
    }
    for (key, text) in [("next", Some(decided)), ("state", state)] {
        // Only fields that the tool has sent are replaced, so that its schema stays valid.
        if let (Some(field), Some(text)) = (value.get_mut(key), text) {
            *field = text.into();
        }
    }
    value.insert("review".to_owned(), decided.into());
    output.structured = serde_json::value::to_raw_value(&value).ok();
}

pub(super) fn append_line(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

fn review_form(text: &str) -> Result<ElicitRequestParams, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "approve changes the skill now; reject leaves it as it is",
                "enum": ["approve", "reject"],
            },
            "reason": { "type": "string", "title": "Reason", "maxLength": MAX_REASON },
        },
        "required": ["decision"],
    });
    let fields = schema.as_object().cloned().unwrap_or_default();
    let requested_schema = ElicitationSchema::from_json_schema(fields)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let message = text.to_owned();
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Returns the decision of a user and its reason, or `None` unless the answer is explicit.
fn parse_decision(answer: &ElicitResult) -> Option<(bool, String)> {
    let content = answer.content.as_ref().filter(|_| answer.action == ElicitationAction::Accept)?;
    let approve = match content["decision"].as_str()? {
        "approve" => true,
        "reject" => false,
        _ => return None,
    };
    let reason = content["reason"].as_str().unwrap_or_default().trim();
    // The registry requires a reason for a rejection.
    let reason = if reason.is_empty() && !approve { "no reason given" } else { reason };
    Some((approve, reason.chars().take(MAX_REASON).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(action: ElicitationAction, content: Value) -> Option<(bool, String)> {
        parse_decision(&ElicitResult::new(action).with_content(content))
    }

    #[test]
    fn review_requires_explicit_answer() {
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
        assert_eq!(parse_decision(&ElicitResult::new(Accept)), None);
    }

    fn replaced(text: &str, value: &Value, state: Option<&str>) -> (String, Value) {
        let structured = serde_json::value::to_raw_value(value).ok();
        let text = text.to_owned();
        let mut output = ToolOutput { text, structured, ..ToolOutput::default() };
        replace_announcement(&mut output, "Approved.", state);
        (output.text, serde_json::from_str(output.structured.unwrap().get()).unwrap())
    }

    #[test]
    fn decision_replaces_the_announcement() {
        let value = json!({ "proposal": "p", "state": "open", "next": "A person decides." });
        let (text, value) =
            replaced("Recorded. A person decides.\nNote: n.", &value, Some("applied"));
        assert_eq!(text, "Recorded. Approved.\nNote: n.");
        let expected = json!({
            "proposal": "p", "state": "applied", "next": "Approved.", "review": "Approved.",
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn decision_without_announcement_is_appended() {
        let (text, value) = replaced("Recorded.", &json!({ "state": "open" }), None);
        assert_eq!(text, "Recorded.\nApproved.");
        assert_eq!(value, json!({ "state": "open", "review": "Approved." }));
        let (text, value) = replaced("Recorded.", &json!([1]), Some("applied"));
        assert_eq!((&*text, value), ("Recorded.\nApproved.", json!([1])));
    }

    #[test]
    fn review_form_is_valid() {
        assert!(review_form("What changes.").is_ok());
    }
}
