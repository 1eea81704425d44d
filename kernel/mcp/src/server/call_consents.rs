//! Approvals of calls that are no tasks: the client's user is asked, and every other surface may
//! decide as well.
//!
//! The settings have to allow it, as the answer is only as trustworthy as the client that sends it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::model::{
    ElicitRequest, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ProtocolVersion,
};
use serde_json::{Map, Value};
use skillhost_agents::TaskCall;
use skillhost_conversation::{ApprovalDecision, ApprovalRequest};
use skillhost_payload::{CallEffect, CallError};
use skillhost_questions::{
    CallSource, QuestionTable, describe_closure, make_consent, to_approval_decision, to_closure,
};
use skillhost_tasks::{Decider, Decision, Question, QuestionKind, QuestionState};

use super::pending_questions::{CallHash, PendingQuestion, PendingSubject};
use super::session::{McpRequestContext, ServerSession};
use super::task_questions::{UserAnswer, parse_answer, to_form};
use super::tasks::answer_rights;

/// The key of the approval in the requests of a call.
const KEY: &str = "consent";

/// The name of this surface.
const SURFACE: &str = "mcp";

/// The maker of a call, whose user is asked for its approval.
pub(super) struct ClientConsent<'a> {
    session: &'a ServerSession,
    context: &'a McpRequestContext,
    questions: Arc<QuestionTable>,
    /// The client, as a decider.
    client: String,
    call: CallHash,
    arguments: Map<String, Value>,
    /// The question that an earlier request of this call has shown.
    shown: Option<Question>,
    end: Mutex<ConsentEnd>,
}

/// What is left of a request for an approval.
#[derive(Default)]
struct ConsentEnd {
    /// The request to the client, without whose answer the call is not made.
    asks: Option<InputRequiredResult>,
    /// The decision that another surface has made.
    note: Option<String>,
}

impl<'a> ClientConsent<'a> {
    /// Returns the maker of a call; `None` if this client may not ask its user.
    pub(super) fn new(
        session: &'a ServerSession,
        context: &'a McpRequestContext,
        call: CallHash,
        arguments: Map<String, Value>,
        shown: Option<Question>,
    ) -> Option<Self> {
        let tasks = session.backend().tasks()?;
        let rights = answer_rights(tasks, context);
        (rights.has_forms && rights.has_consents).then(|| Self {
            session,
            context,
            questions: Arc::clone(tasks.questions()),
            client: session.client(context).agent_id(),
            call,
            arguments,
            shown,
            end: Mutex::default(),
        })
    }

    /// Returns the request to the client, if the call waits for its answer.
    pub(super) fn take_request(&self) -> Option<InputRequiredResult> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).asks.take()
    }

    /// Returns who decided, if that was not this client.
    pub(super) fn take_note(&self) -> Option<String> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).note.take()
    }

    /// Shows a question to the client's user: in the answer to this request, or, to a client of an
    /// older version, by a request of its own.
    async fn ask(&self, request: &ApprovalRequest) -> Result<ApprovalDecision, CallError> {
        let new = make_consent(CallSource::Client, request, 0);
        if new.kind != QuestionKind::Consent {
            return Ok(refuse("only the operator may approve it"));
        }
        let question = self.questions.ask(new).await?;
        let Some(form) = to_form(&question) else {
            self.questions.withdraw(&question.id, "no form can show it").await;
            return Ok(refuse("no form can show it"));
        };
        let limit = self.session.shared.limits.review;
        // From this version on a server sends no requests; the client repeats its call.
        if self.context.protocol_version().is_some_and(|it| it >= ProtocolVersion::V_2026_07_28) {
            let (questions, id) = (Arc::clone(&self.questions), question.id.clone());
            tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                // Without effect on a question that is closed.
                questions.withdraw(&id, "the client did not answer").await;
            });
            let subject = PendingSubject::Consent {
                question: Box::new(question),
                arguments: self.arguments.clone(),
            };
            let pending = PendingQuestion { call: self.call, subject };
            let handle = self.session.shared.pending.insert(pending);
            let form = InputRequest::Elicitation(ElicitRequest::new(form));
            let requests = InputRequests::from([(KEY.to_owned(), form)]);
            let asks = InputRequiredResult::new(Some(requests), Some(handle));
            self.end.lock().unwrap_or_else(PoisonError::into_inner).asks = Some(asks);
            return Ok(ApprovalDecision::Parked);
        }
        let _withdrawal = OpenQuestionGuard { questions: &self.questions, id: &question.id };
        let elicited = self.context.peer.create_elicitation_with_timeout(form, Some(limit));
        let closed = tokio::select! {
            closed = self.questions.wait_until_closed(&question.id) => closed?,
            answer = elicited => {
                let answer = answer.ok().and_then(|answer| serde_json::to_value(answer).ok());
                let answer = answer.map(|answer| parse_answer(&question, &answer));
                match answer {
                    Some(Ok(answer)) => store_answer(&self.questions, &question, answer, &self.client).await?,
                    // A client that fails or sends another form has no answer.
                    Some(Err(_)) | None => {
                        let answer = UserAnswer::Dismissed;
                        store_answer(&self.questions, &question, answer, &self.client).await?
                    }
                }
            }
        };
        Ok(self.to_decision(&closed))
    }

    /// Returns the decision on a question that an earlier request has shown: it counts for exactly
    /// those bytes.
    async fn use_decision(
        &self,
        shown: &Question,
        request: &ApprovalRequest,
    ) -> Result<ApprovalDecision, CallError> {
        if make_consent(CallSource::Client, request, 0).subject != shown.subject {
            self.questions.withdraw(&shown.id, "the subject has changed").await;
            return Ok(refuse("what it would do has changed since it was shown"));
        }
        let closed = self.questions.find(&shown.id).await?;
        Ok(match closed {
            Some(closed) if closed.state != QuestionState::Open => self.to_decision(&closed),
            _ => refuse("the question has no answer"),
        })
    }

    /// Converts a closed question; the decision of another surface is noted with who made it.
    fn to_decision(&self, closed: &Question) -> ApprovalDecision {
        let decider = closed.decider.as_ref();
        let is_own = |it: &Decider| it.name == self.client && it.surface == SURFACE;
        let decision = to_approval_decision(closed);
        let Some(decider) = decider.filter(|decider| !is_own(decider)) else { return decision };
        let note = describe_closure(&to_closure(closed));
        self.end.lock().unwrap_or_else(PoisonError::into_inner).note = Some(note);
        match decision {
            ApprovalDecision::Refuse { reason } => {
                let Decider { name, surface } = decider;
                let reason = Some(reason).filter(|reason| !reason.is_empty());
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                refuse(&format!("refused by {name}, {surface}{reason}"))
            }
            other => other,
        }
    }
}

#[async_trait]
impl TaskCall for ClientConsent<'_> {
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        let decided = match &self.shown {
            Some(shown) => self.use_decision(shown, request).await,
            None => self.ask(request).await,
        };
        decided.unwrap_or_else(|error| refuse(&format!("the question could not be asked: {error}")))
    }

    async fn start_call(&self, _: CallEffect) -> Result<(), CallError> {
        // The client has no record of its calls.
        Ok(())
    }
}

/// Stores the answer to a question that an earlier request has shown; returns the question as it
/// counts. Without an answer it is withdrawn.
///
/// # Errors
/// The reason for which the response is none to the question, and the error of the store.
pub(super) async fn store_response(
    questions: &QuestionTable,
    question: &Question,
    responses: Option<InputResponses>,
    client: &str,
) -> Result<Result<Question, String>, CallError> {
    let response = responses.and_then(|mut responses| responses.remove(KEY));
    let answer = match response.map(|response| parse_answer(question, &response)).transpose() {
        Ok(answer) => answer.unwrap_or(UserAnswer::Dismissed),
        Err(reason) => {
            questions.withdraw(&question.id, "the response of the client is not valid").await;
            return Ok(Err(format!("response to {KEY:?} is not valid: {reason}")));
        }
    };
    Ok(Ok(store_answer(questions, question, answer, client).await?))
}

/// Stores an answer of the client's user. The first decision counts, of whichever surface.
async fn store_answer(
    questions: &QuestionTable,
    question: &Question,
    answer: UserAnswer,
    client: &str,
) -> Result<Question, CallError> {
    let (choice, reason) = match answer {
        UserAnswer::Choice(choice, reason) => (choice, reason),
        UserAnswer::Declined => (skillhost_questions::REFUSE.to_owned(), None),
        UserAnswer::Dismissed => {
            questions.withdraw(&question.id, &format!("{client} did not answer")).await;
            return Ok(questions.find(&question.id).await?.unwrap_or_else(|| question.clone()));
        }
    };
    let decider = Decider { name: client.to_owned(), surface: SURFACE.to_owned() };
    let (id, digest) = (question.id.clone(), question.digest.clone());
    questions.decide(Decision { question: id, digest, choice, reason, decider }).await?;
    Ok(questions.find(&question.id).await?.unwrap_or_else(|| question.clone()))
}

/// A guard that withdraws an open question when its request ends.
struct OpenQuestionGuard<'a> {
    questions: &'a Arc<QuestionTable>,
    id: &'a str,
}

impl Drop for OpenQuestionGuard<'_> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (questions, id) = (Arc::clone(self.questions), self.id.to_owned());
        // Without effect on a question that is closed.
        runtime.spawn(async move { questions.withdraw(&id, "its call has ended").await });
    }
}

fn refuse(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Refuse { reason: reason.to_owned() }
}
