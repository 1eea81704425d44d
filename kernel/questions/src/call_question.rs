//! The questions about tool calls: their stored forms, and the decisions on them.

use serde::Serialize;
use skillhost_control::UserMessage;
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, PersonQuestion, PersonReply, UncertainCall,
    UncertainDecision,
};
use skillhost_home::KERNEL_OWNER;
use skillhost_tasks::{
    NewQuestion, Question, QuestionKind, QuestionState, TaskId, generate_question_id,
};

use crate::live_call::new_live_call;

/// The name of the operator, who asks and decides.
pub const OPERATOR: &str = "operator";

/// The choice that approves a call.
pub const APPROVE: &str = "approve";
/// The choice that approves a tool until the end of the run.
const SESSION: &str = "session";
/// The choice that changes the arguments; the reason has the new ones.
const EDIT: &str = "edit";
/// The choice that refuses a call.
pub const REFUSE: &str = "refuse";
/// The choice that confirms an uncertain call.
const HAPPENED: &str = "happened";
/// The choice that repeats an uncertain call.
const AGAIN: &str = "again";
/// The choice that does not repeat an uncertain call.
const STOP: &str = "stop";

/// The tool that builds an extension.
const BUILD_EXTENSION: &str = "build_extension";
/// The tool that restarts the kernel.
const REQUEST_RESTART: &str = "request_restart";

/// The tools of the kernel whose approval is reserved for the operator.
const OPERATOR_TOOLS: [&str; 3] = [BUILD_EXTENSION, "create_agent", REQUEST_RESTART];

/// The tools of the kernel of which the owner of a channel may also approve a call.
const OWNER_TOOLS: [&str; 2] = [BUILD_EXTENSION, REQUEST_RESTART];

/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 120;

/// The origin of a call: what its question ends with.
#[derive(Debug, Clone, Copy)]
pub enum CallSource<'a> {
    /// A run for a user message.
    Message(&'a UserMessage),
    /// A task.
    Task(&'a TaskId),
    /// A request of a program, which waits for its result.
    Client,
}

/// The bytes that are decided on: all that is executed, and on whose behalf. Made again from the
/// same call, they are the same.
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
    /// The changes of files, or the files of an extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    /// The earlier attempts of an uncertain call.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_key: Option<&'a str>,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
}

/// Makes the stored form of an approval. A call that the user has changed before has that number of
/// `edits`.
#[must_use]
pub fn make_consent(
    source: CallSource<'_>,
    request: &ApprovalRequest,
    edits: usize,
) -> NewQuestion {
    let subject = CallSubject {
        tool: Some(&request.tool),
        extension: Some(&request.extension),
        extension_sha256: request.extension_sha256.as_deref(),
        arguments: Some(&request.arguments),
        details: request.details.as_deref(),
        effect_digest: request.effect_digest.as_deref(),
        destructive: Some(request.destructive),
        call_key: request.call_key.as_deref(),
        ..source.to_subject(&request.agent_id)
    };
    let is_operators =
        request.extension == KERNEL_OWNER && OPERATOR_TOOLS.contains(&&*request.tool);
    let kind = if is_operators { QuestionKind::Build } else { QuestionKind::Consent };
    let mut options = vec![APPROVE, REFUSE];
    // A client gets exactly the call that it made.
    if !matches!(source, CallSource::Client) {
        options.push(EDIT);
    }
    if !request.always {
        options.push(SESSION);
    }
    let call = request.call_key.as_ref().map(|key| format!("consent:{key}:{edits}"));
    let title = format!("{} of {}", request.tool, request.extension);
    make_question(kind, call, &title, &subject, options)
}

/// Makes the stored form of a question about a call that may have happened.
#[must_use]
pub fn make_uncertain(source: CallSource<'_>, request: &UncertainCall) -> NewQuestion {
    let subject = CallSubject {
        tool: Some(&request.tool),
        extension: Some(&request.extension),
        extension_sha256: request.extension_sha256.as_deref(),
        arguments: Some(&request.arguments),
        attempts: Some(request.attempts),
        call_key: Some(&request.call_key),
        ..source.to_subject(&request.agent_id)
    };
    let call = format!("uncertain:{}:{}", request.call_key, request.attempts);
    let title = format!("{} of {}", request.tool, request.extension);
    let options = vec![HAPPENED, AGAIN, STOP];
    make_question(QuestionKind::Uncertain, Some(call), &title, &subject, options)
}

/// Makes the stored form of a question of an agent.
#[must_use]
pub fn make_choice(source: CallSource<'_>, request: &PersonQuestion) -> NewQuestion {
    let subject = CallSubject {
        question: Some(&request.question),
        call_key: request.call_key.as_deref(),
        ..source.to_subject(&request.agent_id)
    };
    let call = request.call_key.as_ref().map(|key| format!("choice:{key}"));
    let options = request.options.iter().map(String::as_str).collect();
    make_question(QuestionKind::Choice, call, &request.question, &subject, options)
}

/// Makes the stored form of the question whether a command of the operator installs the files of an
/// extension. It ends with the command.
#[must_use]
pub fn make_build(command: &str, extension: &str, sha256: &str, details: &str) -> NewQuestion {
    let subject = CallSubject {
        tool: Some(command),
        extension: Some(extension),
        extension_sha256: Some(sha256),
        details: Some(details),
        ..CallSource::Client.to_subject(OPERATOR)
    };
    let title = format!("{command} {extension}");
    make_question(QuestionKind::Build, None, &title, &subject, vec![APPROVE, REFUSE])
}

impl<'a> CallSource<'a> {
    fn to_subject(self, agent: &'a str) -> CallSubject<'a> {
        let subject = CallSubject { agent, ..CallSubject::default() };
        match self {
            Self::Message(message) => CallSubject {
                thread: Some(&message.thread),
                message: Some(&message.message_id),
                ..subject
            },
            Self::Task(task) => CallSubject { task: Some(task.as_str()), ..subject },
            Self::Client => subject,
        }
    }
}

fn make_question(
    kind: QuestionKind,
    call: Option<String>,
    title: &str,
    subject: &CallSubject<'_>,
    options: Vec<&str>,
) -> NewQuestion {
    NewQuestion {
        id: generate_question_id(),
        thread: subject.thread.map(str::to_owned),
        kind,
        asker: subject.agent.to_owned(),
        call: call.unwrap_or_else(new_live_call),
        title: title.chars().take(MAX_TITLE_CHARS).collect(),
        // A struct of texts and numbers is always valid JSON.
        subject: serde_json::to_string(subject).unwrap_or_default(),
        options: options.into_iter().map(str::to_owned).collect(),
    }
}

/// Returns the id of the user message that a question belongs to.
#[must_use]
pub fn message_of_question(question: &Question) -> Option<String> {
    let subject: serde_json::Value = serde_json::from_str(&question.subject).ok()?;
    Some(subject.get("message")?.as_str()?.to_owned())
}

/// Returns whether the owner of a channel may decide a question, in a conversation with the owner
/// alone. Reserved for the operator are new agents, and the commands of the operator that install
/// code.
#[must_use]
pub fn can_owner_decide(question: &Question) -> bool {
    question.kind != QuestionKind::Build || tool_of(question).is_some()
}

/// Returns the name of the operation that the kernel asks an owner about, for headings.
#[must_use]
pub fn name_kernel_operation(question: &Question) -> Option<&'static str> {
    match tool_of(question)? {
        BUILD_EXTENSION => Some("Build of an extension"),
        _ => Some("Restart of the kernel"),
    }
}

/// Returns the tool of the kernel that a question is about, if it is one of [`OWNER_TOOLS`].
fn tool_of(question: &Question) -> Option<&'static str> {
    #[derive(serde::Deserialize)]
    struct CalledTool {
        tool: String,
        extension: String,
    }
    let called: CalledTool = serde_json::from_str(&question.subject).ok()?;
    let is_kernel = question.kind == QuestionKind::Build && called.extension == KERNEL_OWNER;
    OWNER_TOOLS.into_iter().find(|tool| is_kernel && *tool == called.tool)
}

/// A choice of a client and its reason. `None` declines to choose.
pub type ClientChoice = (Option<String>, Option<String>);

/// Converts a client's decision to a choice.
#[must_use]
pub fn from_approval_decision(decision: ApprovalDecision) -> ClientChoice {
    let (choice, reason) = match decision {
        ApprovalDecision::Once => (APPROVE, None),
        ApprovalDecision::Session => (SESSION, None),
        ApprovalDecision::Edited { arguments } => (EDIT, Some(arguments)),
        ApprovalDecision::Refuse { reason } => (REFUSE, Some(reason)),
        // A client cannot park a question; it remains open without an answer.
        ApprovalDecision::Parked => return (None, None),
    };
    (Some(choice.to_owned()), reason)
}

/// Converts a client's decision about an uncertain call to a choice.
#[must_use]
pub fn from_uncertain_decision(decision: UncertainDecision) -> ClientChoice {
    let choice = match decision {
        UncertainDecision::Happened => HAPPENED,
        UncertainDecision::Again => AGAIN,
        UncertainDecision::Stop => STOP,
        UncertainDecision::Parked => return (None, None),
    };
    (Some(choice.to_owned()), None)
}

/// Converts a client's reply to a choice. To decline withdraws the question, as no option says so.
#[must_use]
pub fn from_person_reply(reply: PersonReply) -> ClientChoice {
    match reply {
        PersonReply::Answer(text) => (Some(text), None),
        PersonReply::Refused { reason } => (None, Some(reason)),
        PersonReply::Parked => (None, None),
    }
}

/// Converts a closed question to the decision of its call.
#[must_use]
pub fn to_approval_decision(question: &Question) -> ApprovalDecision {
    match decided_choice(question) {
        Ok(APPROVE) => ApprovalDecision::Once,
        Ok(SESSION) => ApprovalDecision::Session,
        Ok(EDIT) => {
            ApprovalDecision::Edited { arguments: question.reason.clone().unwrap_or_default() }
        }
        Ok(_) => ApprovalDecision::Refuse { reason: question.reason.clone().unwrap_or_default() },
        Err(reason) => ApprovalDecision::Refuse { reason },
    }
}

/// Converts a closed question to the decision about its uncertain call.
#[must_use]
pub fn to_uncertain_decision(question: &Question) -> UncertainDecision {
    match decided_choice(question) {
        Ok(HAPPENED) => UncertainDecision::Happened,
        Ok(AGAIN) => UncertainDecision::Again,
        Ok(_) | Err(_) => UncertainDecision::Stop,
    }
}

/// Converts a closed question to the reply to its agent.
#[must_use]
pub fn to_person_reply(question: &Question) -> PersonReply {
    match decided_choice(question) {
        Ok(answer) => PersonReply::Answer(answer.to_owned()),
        Err(reason) => PersonReply::Refused { reason },
    }
}

/// Returns the choice of a decided question, or the reason why it has none.
fn decided_choice(question: &Question) -> Result<&str, String> {
    match (question.state, question.choice.as_deref()) {
        (QuestionState::Decided, Some(choice)) => Ok(choice),
        _ => {
            let why = question.reason.as_ref().map(|reason| format!(": {reason}"));
            Err(format!("the question was not decided{}", why.unwrap_or_default()))
        }
    }
}
