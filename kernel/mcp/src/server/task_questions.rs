//! The questions of a task as requests to the client's user, and the answers.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest,
};
use serde_json::{Map, Value, json};
use skillhost_payload::is_hidden;
use skillhost_tasks::{Question, QuestionKind};

/// The maximum length of a message in bytes; a longer subject cannot be shown completely.
const MAX_MESSAGE: usize = 64 * 1024;

/// The maximum length of a reason, in characters.
const MAX_REASON: usize = 1_000;

/// The property of the answer to a question without a form of its own.
const ANSWER: &str = "answer";

/// The property of the decision about a call.
const DECISION: &str = "decision";

/// The questions that a client may answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnswerRights {
    /// The client can show a form to its user.
    pub(super) has_forms: bool,
    /// The settings let clients approve calls.
    pub(super) has_consents: bool,
}

/// An answer of a client's user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserAnswer {
    /// A choice, with a reason.
    Choice(String, Option<String>),
    /// The user declines to answer.
    Declined,
    /// The user closed the form; the question stays open.
    Dismissed,
}

impl AnswerRights {
    /// Returns whether the client may answer a question.
    pub(super) fn permits(self, question: &Question) -> bool {
        self.has_forms
            && match question.kind {
                QuestionKind::Choice => true,
                QuestionKind::Consent => self.has_consents,
                _ => false,
            }
    }
}

/// Returns the request that shows a question to the client's user; `None` if no form can.
pub(super) fn to_input_request(question: &Question) -> Option<InputRequest> {
    Some(InputRequest::Elicitation(ElicitRequest::new(to_form(question)?)))
}

/// Returns the form that shows a question; `None` if no form can.
pub(super) fn to_form(question: &Question) -> Option<ElicitRequestParams> {
    let (message, schema) = match question.kind {
        QuestionKind::Consent => consent_form(question),
        _ => choice_form(question),
    };
    let requested_schema = ElicitationSchema::from_json_schema(schema).ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// Converts the result of an elicitation to an answer.
///
/// # Errors
/// The reason for which the content does not answer the question.
pub(super) fn parse_answer(question: &Question, result: &Value) -> Result<UserAnswer, String> {
    let result: ElicitResult =
        serde_json::from_value(result.clone()).map_err(|error| error.to_string())?;
    let content = match result.action {
        ElicitationAction::Accept => result.content.unwrap_or_default(),
        ElicitationAction::Decline => return Ok(UserAnswer::Declined),
        _ => return Ok(UserAnswer::Dismissed),
    };
    let Value::Object(content) = content else { return Err("`content` is not an object".into()) };
    if question.kind == QuestionKind::Consent {
        let choice = text_property(&content, DECISION)?;
        if !offered_decisions(question).contains(&choice) {
            return Err(format!("`{DECISION}` is not an offered option"));
        }
        let reason = content.get("reason").and_then(Value::as_str).map(str::trim);
        let reason = reason.filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| reason.chars().take(MAX_REASON).collect());
        return Ok(UserAnswer::Choice(choice, reason));
    }
    let choice = match form_properties(question) {
        None => text_property(&content, ANSWER)?,
        Some(properties) => form_choice(&properties, &content)?,
    };
    match question.options.is_empty() || question.options.contains(&choice) {
        true => Ok(UserAnswer::Choice(choice, None)),
        false => Err(format!("the options are: {}", question.options.join(", "))),
    }
}

/// Returns the message and the form of a question of an agent or an extension.
fn choice_form(question: &Question) -> (String, Map<String, Value>) {
    let subject = subject_of(question);
    let text = subject.get("question").and_then(Value::as_str).unwrap_or(&question.title);
    let mut message = visible_text(text);
    truncate_text(&mut message);
    let own = form_properties(question).and_then(|_| subject["form"].as_object().cloned());
    (message, own.unwrap_or_else(|| answer_schema(&question.options)))
}

/// Returns the message and the form of the approval of a call.
fn consent_form(question: &Question) -> (String, Map<String, Value>) {
    let mut message = subject_text(question);
    if message.len() > MAX_MESSAGE {
        truncate_text(&mut message);
        message.push_str("\n…\nThe rest does not fit here: the operator can approve it.");
    }
    message.push_str(&format!("\nsha256 {}", question.digest));
    let schema = json!({
        "type": "object",
        "properties": {
            DECISION: { "type": "string", "title": "Decision", "enum": offered_decisions(question) },
            "reason": { "type": "string", "title": "Reason", "maxLength": MAX_REASON },
        },
        "required": [DECISION],
    });
    (message, schema.as_object().cloned().unwrap_or_default())
}

/// Returns the decisions that are offered for a call: no approval of what is not shown completely.
fn offered_decisions(question: &Question) -> Vec<String> {
    let is_complete = subject_text(question).len() <= MAX_MESSAGE;
    // Changed arguments and approvals of later calls are the operator's.
    let offered = |choice: &&String| *choice == "refuse" || is_complete && *choice == "approve";
    question.options.iter().filter(offered).cloned().collect()
}

/// Returns the text of the subject of a call, with invisible characters as code points.
fn subject_text(question: &Question) -> String {
    let pretty = serde_json::to_string_pretty(&subject_of(question));
    let subject = pretty.unwrap_or_else(|_| question.subject.clone());
    format!("{} requests approval:\n{}", visible_text(&question.asker), visible_text(&subject))
}

fn subject_of(question: &Question) -> Value {
    serde_json::from_str(&question.subject).unwrap_or_default()
}

/// Returns the properties of a question's own form, if it has one that clients can show.
fn form_properties(question: &Question) -> Option<Map<String, Value>> {
    let mut subject = subject_of(question);
    let form = subject.get_mut("form")?.as_object_mut()?;
    ElicitationSchema::from_json_schema(form.clone()).ok()?;
    match form.get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) if !properties.is_empty() => Some(properties),
        _ => None,
    }
}

fn answer_schema(options: &[String]) -> Map<String, Value> {
    let mut property = json!({ "type": "string", "title": "Answer" });
    if !options.is_empty() {
        property["enum"] = json!(options);
    }
    let schema =
        json!({ "type": "object", "properties": { ANSWER: property }, "required": [ANSWER] });
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the choice of a filled form: the value of its only property, or a JSON object.
fn form_choice(
    properties: &Map<String, Value>,
    content: &Map<String, Value>,
) -> Result<String, String> {
    let mut filled = Map::new();
    for (name, schema) in properties {
        let value = content.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
        let fits = match schema["type"].as_str() {
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("array") => value.is_array(),
            _ => value.is_string(),
        };
        if !fits {
            return Err(format!("`{name}` has another type"));
        }
        filled.insert(name.clone(), value.clone());
    }
    Ok(match filled.len() {
        1 => match filled.into_iter().next() {
            Some((_, Value::String(text))) => text,
            Some((_, value)) => value.to_string(),
            None => String::new(),
        },
        _ => Value::Object(filled).to_string(),
    })
}

fn text_property(content: &Map<String, Value>, name: &str) -> Result<String, String> {
    let value = content.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{name}` is not a text"))
}

/// Replaces invisible characters, except line breaks and tabs, by their code points.
fn visible_text(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => visible.push(c),
            c if is_hidden(c) => visible.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => visible.push(c),
        }
    }
    visible
}

fn truncate_text(text: &mut String) {
    let end = text.floor_char_boundary(MAX_MESSAGE);
    text.truncate(end);
}

#[cfg(test)]
mod tests;
