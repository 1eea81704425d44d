//! The model of a run, watched: its requests are counted, limited and recorded.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use skill_evals::SpentAmounts;
use skillhost_conversation::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelReply, ModelRequest,
    ModelSource, ModelToolCall, ReplyChunk, TokenUsage,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::spending::{SpendingMeter, SpendingStop};

/// The attempts of a request, or of a run, whose model does not reply.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// The tools that give a model the text of a skill.
const READ_SKILL: &str = "read_skill";
const LOAD_SKILLS: &str = "skills.load";

/// The limits of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchLimits {
    /// The skill whose reading is a trigger.
    pub(crate) skill_id: String,
    /// The requests after which the run ends; only for queries.
    pub(crate) max_requests: Option<u32>,
    /// Ends the run.
    pub(crate) cancel: CancellationToken,
}

/// The observations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedRun {
    limits: WatchLimits,
    /// The requests so far.
    pub(crate) requests: u32,
    /// Whether another request was not sent, because the run has had all of its requests.
    pub(crate) is_over: bool,
    /// Whether the model requested the text of the skill.
    pub(crate) has_read: bool,
    /// The amounts that the run spent.
    pub(crate) spent: SpentAmounts,
    /// The limit that ended the run.
    pub(crate) stop: Option<SpendingStop>,
    /// The messages and replies, each a JSON object.
    pub(crate) lines: Vec<Value>,
    /// The estimated tokens of the first request.
    pub(crate) first_tokens: u64,
    /// Whether the agent was offered a tool that runs commands.
    pub(crate) has_command_tool: bool,
    /// The messages that `lines` has.
    seen: usize,
}

/// The model of all agents of a kernel.
pub(crate) struct WatchedModels {
    state: Mutex<WatchState>,
    meter: Arc<SpendingMeter>,
}

struct WatchState {
    model: Arc<dyn ModelProvider>,
    /// Whether its requests cost anything.
    is_metered: bool,
    run: WatchedRun,
}

impl WatchedModels {
    pub(crate) fn new(model: Arc<dyn ModelProvider>, meter: Arc<SpendingMeter>) -> Arc<Self> {
        let run = WatchedRun::default();
        Arc::new(Self { state: Mutex::new(WatchState { model, is_metered: true, run }), meter })
    }

    /// Replaces the model, for controls that are free of charge.
    pub(crate) fn set_model(&self, model: Arc<dyn ModelProvider>, is_metered: bool) {
        self.with_state(|state| (state.model, state.is_metered) = (model, is_metered));
    }

    /// Starts a run.
    pub(crate) fn start_run(&self, limits: WatchLimits) {
        self.with_state(|state| state.run = WatchedRun { limits, ..WatchedRun::default() });
    }

    /// Ends a run and returns its observations.
    pub(crate) fn finish_run(&self) -> WatchedRun {
        self.with_state(|state| std::mem::take(&mut state.run))
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut WatchState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The source of models of a kernel: every agent has the tested one.
pub(crate) struct WatchedSource(pub(crate) Arc<WatchedModels>);

impl ModelSource for WatchedSource {
    fn resolve_model(
        &self,
        _name: Option<&str>,
        _agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        // Agents that receive tasks use the tested model as well, so that every request has its price.
        let metadata = self.0.with_state(|state| state.model.metadata().clone());
        Ok(Arc::new(WatchedModel { models: Arc::clone(&self.0), metadata }))
    }
}

struct WatchedModel {
    models: Arc<WatchedModels>,
    metadata: ModelMetadata,
}

#[async_trait]
impl ModelProvider for WatchedModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        let models = &self.models;
        let (model, is_metered, is_over) = models.with_state(|state| {
            state.run.record_request(request);
            (Arc::clone(&state.model), state.is_metered, state.run.is_over)
        });
        if is_over {
            return Err(stop_error(&self.metadata.name, "the run has ended"));
        }
        let asked = match is_metered {
            true => {
                request_metered(&models.meter, &*model, request, on_chunk, &mut |spent| {
                    models.with_state(|state| state.run.spent.add(spent));
                })
                .await
            }
            false => Ok(model.stream(request, on_chunk).await),
        };
        models.with_state(|state| match asked {
            Ok(Ok(reply)) => {
                state.run.record_reply(&reply);
                Ok(reply)
            }
            Ok(Err(error)) => Err(error),
            Err(stop) => {
                let error = stop_error(&self.metadata.name, &stop.reason);
                state.run.stop = Some(stop);
                state.run.limits.cancel.cancel();
                Err(error)
            }
        })
    }
}

impl WatchedRun {
    /// Counts a request and records its new messages. The request after the last one is not sent, and
    /// ends the run.
    fn record_request(&mut self, request: &ModelRequest) {
        if self.limits.max_requests.is_some_and(|max| self.requests >= max) {
            self.is_over = true;
            self.limits.cancel.cancel();
            return;
        }
        if self.requests == 0 {
            self.first_tokens = estimate_tokens(request);
            self.lines.push(json!({"role": "system", "text": request.system}));
            self.has_command_tool =
                request.tools.iter().any(|tool| runs_commands(&tool.name, &tool.input_schema));
        }
        self.requests += 1;
        // A summary replaces messages; those after it are new.
        let seen = self.seen.min(request.messages.len());
        let new = request.messages[seen..].iter();
        // Replies are recorded as they arrive.
        let others = new.filter(|message| !matches!(message, Message::Assistant { .. }));
        self.lines.extend(others.map(|message| json!(message)));
        self.seen = request.messages.len();
    }

    fn record_reply(&mut self, reply: &ModelReply) {
        let (text, calls) = (reply.text.clone(), reply.calls.clone());
        self.lines.push(json!(Message::Assistant { text, calls }));
        let id = &self.limits.skill_id;
        // A request for the text counts even if the text is refused: the model has chosen.
        self.has_read |= reply.calls.iter().any(|call| is_read(call, id));
        // Only a hit ends a query early: a model may search before it reads.
        if self.has_read && self.limits.max_requests.is_some() {
            self.limits.cancel.cancel();
        }
    }
}

/// Returns whether a tool runs commands: scripts of skills, or a `command` of its arguments.
fn runs_commands(name: &str, schema: &Value) -> bool {
    name.ends_with("run_script") || schema["properties"].get("command").is_some()
}

/// Returns whether a call requests the text of exactly this skill.
fn is_read(call: &ModelToolCall, skill_id: &str) -> bool {
    let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return false };
    match call.name.as_str() {
        READ_SKILL => arguments["skill_id"] == skill_id,
        LOAD_SKILLS => {
            let names = arguments["names"].as_array();
            names.is_some_and(|names| names.iter().any(|name| name == skill_id))
        }
        _ => false,
    }
}

/// Sends a request that is counted before and after. `on_spent` gets the amounts. A reply that breaks off
/// ends it, although the provider would repeat it: the repetition may cost as much, and would not be
/// counted.
pub(crate) async fn request_metered(
    meter: &Arc<SpendingMeter>,
    model: &dyn ModelProvider,
    request: &ModelRequest,
    on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    on_spent: &mut (dyn FnMut(SpentAmounts) + Send),
) -> Result<Result<ModelReply, ModelError>, SpendingStop> {
    let price = model.metadata().price;
    let to_amounts = |usage: TokenUsage| SpentAmounts {
        requests: 1,
        tokens: usage.input.saturating_add(usage.output),
        usd: price.map(|price| usage.cost_at(&price)),
    };
    let estimate = TokenUsage { input: estimate_tokens(request), ..TokenUsage::default() };
    let open = meter.start(to_amounts(estimate)).await?;
    let interrupted = Notify::new();
    let mut watch_chunk = |chunk: ReplyChunk| {
        if let ReplyChunk::ReplyRestarted { may_be_charged: true, .. } = chunk {
            interrupted.notify_one();
        }
        on_chunk(chunk);
    };
    // If the run is cancelled here, the record stays open and counts as estimated.
    let reply = tokio::select! {
        biased;
        () = interrupted.notified() => Err(interruption_error(&model.metadata().name)),
        reply = model.stream(request, &mut watch_chunk) => reply,
    };
    let used = match &reply {
        Ok(reply) => to_amounts(reply.usage),
        // The provider may have worked on it.
        Err(error) if is_charged(error.kind) => to_amounts(estimate),
        Err(_) => to_amounts(TokenUsage::default()),
    };
    meter.finish(open, used).await;
    on_spent(used);
    Ok(reply)
}

fn is_charged(kind: ModelErrorKind) -> bool {
    matches!(kind, ModelErrorKind::Timeout | ModelErrorKind::Network | ModelErrorKind::Protocol)
}

fn interruption_error(model: &str) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Network,
        model: model.to_owned(),
        message: "reply was interrupted".to_owned(),
        hint: String::new(),
    }
}

fn stop_error(model: &str, reason: &str) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Refused,
        model: model.to_owned(),
        message: reason.to_owned(),
        hint: String::new(),
    }
}

/// Estimates the tokens of a request, at four characters each.
pub(crate) fn estimate_tokens(request: &ModelRequest) -> u64 {
    let messages: usize =
        request.messages.iter().map(|message| json!(message).to_string().len()).sum();
    let tools: usize = request.tools.iter().map(|tool| json!(tool).to_string().len()).sum();
    ((request.system.len() + messages + tools) as u64).div_ceil(4)
}

/// A model of a control, with fixed replies.
pub(crate) struct ControlModel {
    metadata: ModelMetadata,
    calls: Vec<ModelToolCall>,
}

impl ControlModel {
    /// Creates a model that replies with a text, after the call of `read_skill` for `reads`.
    pub(crate) fn new(reads: Option<&str>) -> Arc<Self> {
        let calls = reads.map(|id| ModelToolCall {
            id: "control_1".to_owned(),
            name: READ_SKILL.to_owned(),
            arguments: json!({"skill_id": id}).to_string(),
        });
        let metadata =
            ModelMetadata { name: "control/control".to_owned(), context_window: None, price: None };
        Arc::new(Self { metadata, calls: calls.into_iter().collect() })
    }
}

#[async_trait]
impl ModelProvider for ControlModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        _on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError> {
        // After the result of its call, a control ends.
        let has_called = matches!(request.messages.last(), Some(Message::Tool { .. }));
        Ok(match has_called || self.calls.is_empty() {
            true => ModelReply { text: "done".to_owned(), ..ModelReply::default() },
            false => ModelReply { calls: self.calls.clone(), ..ModelReply::default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use skill_testing::SpendingLimits;

    use super::*;

    /// A model that repeats a request whose reply broke off, or that was refused.
    struct RepeatingModel {
        metadata: ModelMetadata,
        may_be_charged: bool,
    }

    #[async_trait]
    impl ModelProvider for RepeatingModel {
        fn metadata(&self) -> &ModelMetadata {
            &self.metadata
        }

        async fn stream(
            &self,
            _request: &ModelRequest,
            on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
        ) -> Result<ModelReply, ModelError> {
            let (reason, may_be_charged) = (String::new(), self.may_be_charged);
            on_chunk(ReplyChunk::ReplyRestarted { reason, may_be_charged });
            // The delay before the repetition.
            tokio::task::yield_now().await;
            on_chunk(ReplyChunk::RequestRepeated);
            let usage = TokenUsage { input: 7, ..TokenUsage::default() };
            Ok(ModelReply { usage, ..ModelReply::default() })
        }
    }

    #[tokio::test]
    async fn interrupted_reply_is_not_repeated() {
        let request = ModelRequest { system: "x".repeat(40), ..ModelRequest::default() };
        let send = async |may_be_charged| {
            let directory = tempfile::tempdir().unwrap();
            let meter = SpendingMeter::open(directory.path(), SpendingLimits::default()).unwrap();
            let metadata =
                ModelMetadata { name: "m/m".to_owned(), context_window: None, price: None };
            let model = RepeatingModel { metadata, may_be_charged };
            let mut repeated = 0;
            let mut count = |chunk| repeated += u32::from(chunk == ReplyChunk::RequestRepeated);
            let sent = request_metered(&meter, &model, &request, &mut count, &mut |_| ()).await;
            let kind = sent.unwrap().map(|_| ()).map_err(|error| error.kind);
            (kind, repeated, meter.spent().tokens)
        };
        // The first attempt counts as estimated.
        let interrupted = (Err(ModelErrorKind::Network), 0, estimate_tokens(&request));
        assert_eq!(send(true).await, interrupted);
        assert_eq!(send(false).await, (Ok(()), 1, 7));
    }

    #[test]
    fn only_exact_skill_is_read() {
        let call = |name: &str, arguments: &str| ModelToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let is_hit = |name: &str, arguments: &str| is_read(&call(name, arguments), "pdf");
        assert!(is_hit("read_skill", r#"{"skill_id": "pdf"}"#));
        assert!(is_hit("skills.load", r#"{"names": ["csv", "pdf"]}"#));
        assert!(!is_hit("read_skill", r#"{"skill_id": "pdf-forms"}"#));
        assert!(!is_hit("read_skill", r#"{"skill_id": "pdf@other"}"#));
        assert!(!is_hit("skills.load", r#"{"names": "pdf"}"#));
        assert!(!is_hit("list_skills", r#"{"skill_id": "pdf"}"#));
        assert!(!is_hit("read_skill", "pdf"));
    }
}
