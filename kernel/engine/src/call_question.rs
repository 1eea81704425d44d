//! The stored forms of the questions of a task's run, and the decisions on them.

use serde::Serialize;
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, PersonQuestion, PersonReply, UncertainCall,
    UncertainDecision,
};
use skillhost_home::KERNEL_OWNER;
use skillhost_tasks::{NewQuestion, Question, QuestionKind, QuestionState, TaskId};

/// The choices about a call: to approve it, for this run too, with other arguments, or not.
const APPROVE: &str = "approve";
const SESSION: &str = "session";
const EDIT: &str = "edit";
const REFUSE: &str = "refuse";
/// The choices about a call that may have happened.
pub(crate) const HAPPENED: &str = "happened";
pub(crate) const AGAIN: &str = "again";
const STOP: &str = "stop";

/// The tools of the kernel whose approval is reserved for the operator.
const OPERATOR_TOOLS: [&str; 3] = ["build_extension", "create_agent", "request_restart"];
/// The length limit of a title, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// The bytes that are decided on: all that is executed, and on whose behalf. Made again from the same
/// call, they are the same.
#[derive(Default, Serialize)]
struct CallSubject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension_sha256: Option<&'a str>,
    /// The arguments, as the model or a person wrote them.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_key: Option<&'a str>,
    agent: &'a str,
    task: &'a str,
}

/// Makes the question for the approval of a call.
pub(crate) fn make_consent(task: &TaskId, request: &ApprovalRequest) -> NewQuestion {
    let subject = CallSubject {
        tool: Some(&request.tool),
        extension: Some(&request.extension),
        extension_sha256: request.extension_sha256.as_deref(),
        arguments: Some(&request.arguments),
        details: request.details.as_deref(),
        effect_digest: request.effect_digest.as_deref(),
        destructive: Some(request.destructive),
        call_key: request.call_key.as_deref(),
        agent: &request.agent_id,
        task: task.as_str(),
        ..CallSubject::default()
    };
    let is_operators =
        request.extension == KERNEL_OWNER && OPERATOR_TOOLS.contains(&&*request.tool);
    let kind = if is_operators { QuestionKind::Build } else { QuestionKind::Consent };
    let mut options = vec![APPROVE, REFUSE, EDIT];
    if !request.always {
        options.push(SESSION);
    }
    let call = format!("consent:{}", request.call_key.as_deref().unwrap_or_default());
    make_question(
        kind,
        call,
        &format!("{} of {}", request.tool, request.extension),
        &subject,
        options,
    )
}

/// Makes the question about a call that may have happened.
pub(crate) fn make_uncertain(task: &TaskId, request: &UncertainCall) -> NewQuestion {
    let subject = CallSubject {
        tool: Some(&request.tool),
        extension: Some(&request.extension),
        extension_sha256: request.extension_sha256.as_deref(),
        arguments: Some(&request.arguments),
        attempts: Some(request.attempts),
        call_key: Some(&request.call_key),
        agent: &request.agent_id,
        task: task.as_str(),
        ..CallSubject::default()
    };
    let call = format!("uncertain:{}:{}", request.call_key, request.attempts);
    let title = format!("{} of {}", request.tool, request.extension);
    make_question(QuestionKind::Uncertain, call, &title, &subject, vec![HAPPENED, AGAIN, STOP])
}

/// Makes the question of an agent.
pub(crate) fn make_choice(task: &TaskId, request: &PersonQuestion) -> NewQuestion {
    let subject = CallSubject {
        question: Some(&request.question),
        call_key: request.call_key.as_deref(),
        agent: &request.agent_id,
        task: task.as_str(),
        ..CallSubject::default()
    };
    let call = format!("choice:{}", request.call_key.as_deref().unwrap_or_default());
    let options = request.options.iter().map(String::as_str).collect();
    make_question(QuestionKind::Choice, call, &request.question, &subject, options)
}

fn make_question(
    kind: QuestionKind,
    call: String,
    title: &str,
    subject: &CallSubject<'_>,
    options: Vec<&str>,
) -> NewQuestion {
    NewQuestion {
        id: TaskId::generate().to_string(),
        thread: None,
        kind,
        asker: subject.agent.to_owned(),
        call,
        title: title.chars().take(MAX_TITLE_CHARS).collect(),
        // A struct of texts and numbers is always valid JSON.
        subject: serde_json::to_string(subject).unwrap_or_default(),
        options: options.into_iter().map(str::to_owned).collect(),
    }
}

/// Converts a closed question to the decision on its call.
pub(crate) fn to_approval_decision(question: &Question) -> ApprovalDecision {
    let reason = question.reason.clone().unwrap_or_default();
    match decided_choice(question) {
        Ok(APPROVE) => ApprovalDecision::Once,
        Ok(SESSION) => ApprovalDecision::Session,
        Ok(EDIT) => ApprovalDecision::Edited { arguments: reason },
        Ok(_) => ApprovalDecision::Refuse { reason },
        Err(reason) => ApprovalDecision::Refuse { reason },
    }
}

/// Converts a closed question to the decision about its uncertain call.
pub(crate) fn to_uncertain_decision(question: &Question) -> UncertainDecision {
    match decided_choice(question) {
        Ok(HAPPENED) => UncertainDecision::Happened,
        Ok(AGAIN) => UncertainDecision::Again,
        Ok(_) | Err(_) => UncertainDecision::Stop,
    }
}

/// Converts a closed question to the reply to its agent.
pub(crate) fn to_person_reply(question: &Question) -> PersonReply {
    match decided_choice(question) {
        Ok(answer) => PersonReply::Answer(answer.to_owned()),
        Err(reason) => PersonReply::Refused { reason },
    }
}

fn decided_choice(question: &Question) -> Result<&str, String> {
    match (question.state, question.choice.as_deref()) {
        (QuestionState::Decided, Some(choice)) => Ok(choice),
        _ => Err(format!(
            "the question was not decided: {}",
            question.reason.as_deref().unwrap_or("no person answered")
        )),
    }
}
