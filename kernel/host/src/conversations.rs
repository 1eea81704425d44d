//! Channels of user messages, which clients attach to and detach from.
//!
//! A channel exists from the moment its message is stored until the reply or the end of the kernel;
//! its run continues even with no client attached.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use skillhost_control::{
    ClientMessage, DecisionSurface, OpenQuestionSummary, QuestionClosure, QuestionReference,
    ServerMessage, UserMessage,
};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent,
    SecretPrompt, SecretReply, UncertainCall, UncertainDecision,
};
use skillhost_payload::{CallError, ErrorKind};
use skillhost_questions::{
    CallSource, ClientChoice, OPERATOR, QuestionTable, from_approval_decision, from_person_reply,
    from_uncertain_decision, make_choice, make_consent, make_uncertain, to_approval_decision,
    to_closure, to_person_reply, to_uncertain_decision,
};
use skillhost_tasks::{Decider, Decision, DecisionOutcome, NewQuestion, Question, QuestionState};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::thread_locks::ThreadLocks;

/// The channels of all pending messages of this kernel.
pub(crate) struct MessageChannels {
    /// The locks of the threads whose messages are processed.
    pub(crate) threads: ThreadLocks,
    questions: Arc<QuestionTable>,
    /// The time for which attached clients are asked before a question is parked.
    live_limit: Duration,
    open: Mutex<HashMap<String, Arc<MessageChannel>>>,
}

/// A channel that relays one run to the attached clients.
pub(crate) struct MessageChannel {
    message: UserMessage,
    questions: Arc<QuestionTable>,
    live_limit: Duration,
    /// Cancels the run.
    pub(crate) cancel: CancellationToken,
    state: Mutex<ChannelState>,
}

#[derive(Default)]
struct ChannelState {
    /// Unbounded senders: a slow client receives lines later, and a disconnected one is removed.
    attached: BTreeMap<u64, mpsc::UnboundedSender<ServerMessage>>,
    last_client_id: u64,
    /// The text of each agent's partial reply, for clients that attach late.
    replies: BTreeMap<String, String>,
    requests: BTreeMap<u64, OpenRequest>,
    /// The stored questions of this channel's past requests, for answers that come late.
    closed: BTreeMap<u64, QuestionReference>,
    last_request_id: u64,
    /// The number of times that a person changed the arguments of each call, by its key.
    edits: BTreeMap<String, usize>,
    /// The questions that wait for a decision without the run.
    parked: Vec<String>,
    /// The line that ended the channel.
    last: Option<ServerMessage>,
}

/// A client of a channel: its id, and the lines for it.
pub(crate) struct AttachedClient {
    pub(crate) id: u64,
    pub(crate) lines: mpsc::UnboundedReceiver<ServerMessage>,
}

/// A request without an answer.
struct OpenRequest {
    line: ServerMessage,
    target: AnswerTarget,
}

/// The receiver of an answer.
enum AnswerTarget {
    /// A stored question, which is decided by its digest.
    Question(QuestionReference),
    /// The run. A secret is never stored.
    Secret(oneshot::Sender<SecretReply>),
}

impl MessageChannels {
    pub(crate) fn new(questions: Arc<QuestionTable>, live_limit: Duration) -> Self {
        Self { threads: ThreadLocks::default(), questions, live_limit, open: Mutex::default() }
    }

    /// Returns the channel of a message, creating it if necessary.
    pub(crate) fn get_or_create(&self, message: &UserMessage) -> Arc<MessageChannel> {
        // A message sent twice must not get two channels, so the lock spans lookup and insertion.
        let mut open = lock_unpoisoned(&self.open);
        let create = || {
            Arc::new(MessageChannel {
                message: message.clone(),
                questions: Arc::clone(&self.questions),
                live_limit: self.live_limit,
                cancel: CancellationToken::new(),
                state: Mutex::default(),
            })
        };
        Arc::clone(open.entry(message.message_id.clone()).or_insert_with(create))
    }

    /// Returns the open channel of a thread, if there is one.
    pub(crate) fn find_by_thread(&self, thread: &str) -> Option<Arc<MessageChannel>> {
        lock_unpoisoned(&self.open)
            .values()
            .find(|channel| channel.message.thread == thread)
            .cloned()
    }

    /// Lists the requests that wait for an answer of the user, by thread.
    pub(crate) fn open_questions(&self) -> Vec<OpenQuestionSummary> {
        let channels: Vec<_> = lock_unpoisoned(&self.open).values().cloned().collect();
        let mut questions: Vec<_> =
            channels.iter().flat_map(|channel| channel.open_questions()).collect();
        questions.sort_by(|a, b| a.thread.cmp(&b.thread));
        questions
    }

    /// Sends the last line to the attached clients and removes the channel.
    pub(crate) fn close(&self, message_id: &str, last: ServerMessage) {
        if let Some(channel) = lock_unpoisoned(&self.open).remove(message_id) {
            channel.close(last);
        }
    }

    /// Closes all channels during the shutdown.
    pub(crate) fn close_all(&self, last: &ServerMessage) {
        let all = std::mem::take(&mut *lock_unpoisoned(&self.open));
        for channel in all.into_values() {
            channel.close(last.clone());
        }
    }
}

impl MessageChannel {
    /// Attaches a client: it receives the message, the partial reply and the open requests, then
    /// all further lines. The last line is the one that ended the channel.
    pub(crate) fn attach(&self) -> AttachedClient {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut state = lock_unpoisoned(&self.state);
        // The receiver is still in this function, so sending cannot fail.
        let _ = sender.send(ServerMessage::Accepted(self.message.clone()));
        for (agent_id, text) in &state.replies {
            let (agent_id, text) = (agent_id.clone(), text.clone());
            let _ = sender.send(ServerMessage::RunEvent(RunEvent::Text { agent_id, text }));
        }
        let requests = state.requests.values().map(|request| request.line.clone());
        for line in requests.chain(state.last.clone()) {
            let _ = sender.send(line);
        }
        state.last_client_id += 1;
        let id = state.last_client_id;
        // A closed channel sends its last line only.
        if state.last.is_none() {
            state.attached.insert(id, sender);
        }
        AttachedClient { id, lines }
    }

    /// Handles a client's message. Of several answers to a request, the first counts, also before
    /// those of other surfaces; the client of a later one gets to know which one counted.
    pub(crate) async fn handle_client_message(&self, client: u64, message: ClientMessage) {
        match message {
            ClientMessage::Cancel => self.cancel.cancel(),
            ClientMessage::Answer { id, decision, digest, surface } => {
                let answer = ClientAnswer { client, id, digest, surface };
                self.decide(answer, from_approval_decision(decision)).await;
            }
            ClientMessage::UncertainDecided { id, decision, digest, surface } => {
                let answer = ClientAnswer { client, id, digest, surface };
                self.decide(answer, from_uncertain_decision(decision)).await;
            }
            ClientMessage::PersonReplied { id, reply, digest, surface } => {
                let answer = ClientAnswer { client, id, digest, surface };
                self.decide(answer, from_person_reply(reply)).await;
            }
            ClientMessage::Secret { id, value } => {
                self.answer_secret(id, SecretReply::Given(SecretString::from(value)));
            }
            ClientMessage::SecretDeclined { id, reason } => {
                self.answer_secret(id, SecretReply::Refused { reason });
            }
        }
    }

    fn answer_secret(&self, id: u64, reply: SecretReply) {
        let mut state = lock_unpoisoned(&self.state);
        let is_secret = |request: &OpenRequest| matches!(request.target, AnswerTarget::Secret(_));
        if !state.requests.get(&id).is_some_and(is_secret) {
            return;
        }
        if let Some(OpenRequest { target: AnswerTarget::Secret(answer), .. }) =
            state.requests.remove(&id)
        {
            // The run may have stopped waiting.
            let _ = answer.send(reply);
            state.broadcast(&withdrawn_line(id, None));
        }
    }

    /// Decides the stored question of a request. The run waits for the row, not for this answer.
    async fn decide(&self, answer: ClientAnswer, (choice, reason): ClientChoice) {
        let ClientAnswer { client, id, digest, surface } = answer;
        let Some(question) = self.find_question(id) else { return };
        let Some(choice) = choice else {
            if let Some(reason) = reason {
                self.questions.withdraw(&question.question, &reason).await;
            }
            return;
        };
        let surface = surface.unwrap_or_default().as_str().to_owned();
        let decision = Decision {
            question: question.question.clone(),
            digest: digest.unwrap_or(question.digest),
            choice,
            reason,
            decider: Decider { name: OPERATOR.to_owned(), surface },
        };
        let rejected = match self.questions.decide(decision).await {
            Ok(DecisionOutcome::Decided { .. }) => return,
            Ok(
                DecisionOutcome::Closed { question } | DecisionOutcome::DigestMismatch { question },
            ) => Some(to_closure(&question)),
            Err(error) => {
                tracing::warn!(%error, "answer could not be stored");
                // An answer that can never be stored is not asked for again.
                if matches!(error.kind, ErrorKind::TooLarge | ErrorKind::InvalidArgument) {
                    let reason = format!("the answer is not valid: {error}");
                    self.questions.withdraw(&question.question, &reason).await;
                }
                None
            }
        };
        let line = ServerMessage::QuestionWithdrawn { id, closure: rejected, is_rejected: true };
        let state = lock_unpoisoned(&self.state);
        if let Some(sender) = state.attached.get(&client) {
            // A disconnected client needs no reply.
            let _ = sender.send(line);
        }
    }

    fn find_question(&self, id: u64) -> Option<QuestionReference> {
        let state = lock_unpoisoned(&self.state);
        match state.requests.get(&id).map(|request| &request.target) {
            Some(AnswerTarget::Question(question)) => Some(question.clone()),
            Some(AnswerTarget::Secret(_)) => None,
            None => state.closed.get(&id).cloned(),
        }
    }

    fn open_questions(&self) -> Vec<OpenQuestionSummary> {
        let summarize = |agent: &str, tool: Option<&str>, secret: Option<&str>| {
            let thread = self.message.thread.clone();
            let (tool, secret) = (tool.map(str::to_owned), secret.map(str::to_owned));
            OpenQuestionSummary { thread, agent: agent.to_owned(), tool, secret }
        };
        let state = lock_unpoisoned(&self.state);
        let lines = state.requests.values().map(|request| &request.line);
        let questions = lines.filter_map(|line| match line {
            ServerMessage::ApprovalRequested { request, .. } => {
                Some(summarize(&request.agent_id, Some(&request.tool), None))
            }
            ServerMessage::SecretRequested { request, .. } => {
                Some(summarize(&request.agent_id, None, Some(&request.name)))
            }
            ServerMessage::UncertainCall { request, .. } => {
                Some(summarize(&request.agent_id, Some(&request.tool), None))
            }
            ServerMessage::PersonQuestion { request, .. } => {
                Some(summarize(&request.agent_id, None, None))
            }
            _ => None,
        });
        questions.collect()
    }

    fn close(&self, last: ServerMessage) {
        // The lock spans both steps: a client that attaches in between would miss the last line.
        let mut state = lock_unpoisoned(&self.state);
        for sender in std::mem::take(&mut state.attached).into_values() {
            let _ = sender.send(last.clone());
        }
        state.last = Some(last);
    }

    /// Sends a request to the attached and later clients, until the guard is dropped.
    fn open_request(
        &self,
        line: impl FnOnce(u64) -> ServerMessage,
        target: AnswerTarget,
    ) -> RequestGuard<'_> {
        let mut state = lock_unpoisoned(&self.state);
        state.last_request_id += 1;
        let id = state.last_request_id;
        let line = line(id);
        state.broadcast(&line);
        state.requests.insert(id, OpenRequest { line, target });
        RequestGuard { channel: self, id }
    }

    /// Stores a question, shows it and waits until it is closed on any surface. A question that can
    /// be parked is shown for a limited time and then `None`: it stays open without the run.
    ///
    /// # Errors
    /// The error of the store. The question was then not shown, or remains open.
    async fn ask_question(
        &self,
        question: NewQuestion,
        can_park: bool,
        line: impl FnOnce(u64, QuestionReference) -> ServerMessage,
    ) -> Result<Option<Question>, CallError> {
        let stored = match can_park {
            true => self.questions.ask_and_wait(question).await?,
            false => self.questions.ask(question).await?,
        };
        // Decided before an earlier run of the message ended.
        if stored.state != QuestionState::Open {
            return Ok(Some(stored));
        }
        let id = stored.id;
        let reference = QuestionReference { question: id.clone(), digest: stored.digest };
        // A run that was cancelled does not ask again.
        let is_kept = || can_park && !self.cancel.is_cancelled();
        let _withdrawal =
            WithdrawalGuard { questions: &self.questions, id: &id, is_kept: &is_kept };
        let target = AnswerTarget::Question(reference.clone());
        let request = self.open_request(|id| line(id, reference), target);
        let closed = match can_park {
            true => self.questions.wait_at_most(&id, self.live_limit).await?,
            false => Some(self.questions.wait_until_closed(&id).await?),
        };
        match &closed {
            Some(question) => request.close(to_closure(question)),
            None => lock_unpoisoned(&self.state).parked.push(id.clone()),
        }
        Ok(closed)
    }

    /// Returns the ids of the questions that the run left open.
    pub(crate) fn parked_questions(&self) -> Vec<String> {
        lock_unpoisoned(&self.state).parked.clone()
    }
}

/// An answer of a client to a request.
struct ClientAnswer {
    client: u64,
    /// The request.
    id: u64,
    digest: Option<String>,
    surface: Option<DecisionSurface>,
}

impl ChannelState {
    fn broadcast(&mut self, line: &ServerMessage) {
        self.attached.retain(|_, sender| sender.send(line.clone()).is_ok());
    }

    /// Removes a request; returns whether it was open.
    fn remove_request(&mut self, id: u64) -> bool {
        let Some(request) = self.requests.remove(&id) else { return false };
        // A late answer is compared with the decision that counts.
        if let AnswerTarget::Question(question) = request.target {
            self.closed.insert(id, question);
        }
        true
    }
}

/// A guard that withdraws a request when its run stops waiting.
struct RequestGuard<'a> {
    channel: &'a MessageChannel,
    id: u64,
}

impl RequestGuard<'_> {
    /// Withdraws the request, with the end of its question for the other clients.
    fn close(self, closure: QuestionClosure) {
        let mut state = lock_unpoisoned(&self.channel.state);
        if state.remove_request(self.id) {
            state.broadcast(&withdrawn_line(self.id, Some(closure)));
        }
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock_unpoisoned(&self.channel.state);
        if state.remove_request(self.id) {
            state.broadcast(&withdrawn_line(self.id, None));
        }
    }
}

/// A guard that withdraws a stored question when its run stops waiting, unless the question is kept
/// for a later run.
struct WithdrawalGuard<'a> {
    questions: &'a Arc<QuestionTable>,
    id: &'a str,
    is_kept: &'a (dyn Fn() -> bool + Sync),
}

impl Drop for WithdrawalGuard<'_> {
    fn drop(&mut self) {
        if (self.is_kept)() {
            return;
        }
        // At the end of the process the next kernel withdraws it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (questions, id) = (Arc::clone(self.questions), self.id.to_owned());
        // Without effect on a question that is closed.
        runtime.spawn(async move { questions.withdraw(&id, "its run stopped waiting").await });
    }
}

fn withdrawn_line(id: u64, closure: Option<QuestionClosure>) -> ServerMessage {
    ServerMessage::QuestionWithdrawn { id, closure, is_rejected: false }
}

fn refuse(reason: impl Into<String>) -> ApprovalDecision {
    ApprovalDecision::Refuse { reason: reason.into() }
}

#[async_trait]
impl Channel for MessageChannel {
    fn on_event(&self, event: &RunEvent) {
        let mut state = lock_unpoisoned(&self.state);
        match event {
            RunEvent::Text { agent_id, text } => {
                state.replies.entry(agent_id.clone()).or_default().push_str(text);
            }
            // From here on the partial reply is either complete or discarded.
            RunEvent::ReplyRestarted { agent_id, .. }
            | RunEvent::UsageReported { agent_id, .. } => {
                state.replies.remove(agent_id);
            }
            _ => {}
        }
        state.broadcast(&ServerMessage::RunEvent(event.clone()));
    }

    fn can_park(&self) -> bool {
        true
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        let edits = request.call_key.as_ref().map_or(0, |key| {
            lock_unpoisoned(&self.state).edits.get(key).copied().unwrap_or_default()
        });
        let asked = make_consent(CallSource::Message(&self.message), request, edits);
        let line = |id, question| {
            let (request, question) = (request.clone(), Some(question));
            ServerMessage::ApprovalRequested { id, request, question }
        };
        let decision = match self.ask_question(asked, request.can_park, line).await {
            Ok(Some(closed)) => to_approval_decision(&closed),
            Ok(None) => ApprovalDecision::Parked,
            Err(error) => refuse(format!("the question could not be asked: {error}")),
        };
        if let (ApprovalDecision::Edited { .. }, Some(key)) = (&decision, &request.call_key) {
            // The changed call is asked about by a question of its own.
            *lock_unpoisoned(&self.state).edits.entry(key.clone()).or_default() += 1;
        }
        decision
    }

    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        let request = ask.clone();
        let (answer, answered) = oneshot::channel();
        // At the timeout the kernel drops this future, and with it the request.
        let _request = self.open_request(
            |id| ServerMessage::SecretRequested { id, request },
            AnswerTarget::Secret(answer),
        );
        let unanswered = || SecretReply::Refused { reason: "request was not answered".to_owned() };
        answered.await.unwrap_or_else(|_| unanswered())
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        let line = |id, question| {
            let (request, question) = (call.clone(), Some(question));
            ServerMessage::UncertainCall { id, request, question }
        };
        let asked = make_uncertain(CallSource::Message(&self.message), call);
        match self.ask_question(asked, call.can_park, line).await {
            Ok(Some(closed)) => to_uncertain_decision(&closed),
            Ok(None) => UncertainDecision::Parked,
            Err(error) => {
                tracing::warn!(%error, "question could not be asked");
                UncertainDecision::Stop
            }
        }
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        let line = |id, stored| {
            let (request, question) = (question.clone(), Some(stored));
            ServerMessage::PersonQuestion { id, request, question }
        };
        let asked = make_choice(CallSource::Message(&self.message), question);
        match self.ask_question(asked, question.can_park, line).await {
            Ok(Some(closed)) => to_person_reply(&closed),
            Ok(None) => PersonReply::Parked,
            Err(error) => {
                PersonReply::Refused { reason: format!("the question could not be asked: {error}") }
            }
        }
    }
}

/// Locks a mutex; entries stay consistent even if another thread panicked.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
