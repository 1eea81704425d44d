//! The server.

use std::convert::Infallible;
use std::future::IntoFuture as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::api_state::{ApiError, ApiFault, ApiState, BotCall};

/// The time after which a test is stuck; no test depends on it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// A server that plays the Bot API; it ends when this is dropped.
pub struct FakeBotApi {
    shared: Arc<SharedState>,
    address: SocketAddr,
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

struct SharedState {
    state: Mutex<ApiState>,
    /// Wakes the threads of a test.
    called: Condvar,
    /// Wakes polls that are held.
    changed: Notify,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, ApiState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeBotApi {
    /// Starts a server for the bot with this token.
    #[must_use]
    pub fn new(token: &str) -> Self {
        let shared = Arc::new(SharedState {
            state: Mutex::new(ApiState::new(token)),
            called: Condvar::new(),
            changed: Notify::new(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener of tokio does not block");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (end, ended) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || serve(listener, serving, ended));
        Self { shared, address, end: Some(end), thread: Some(thread) }
    }

    /// Returns the base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds an update with the next id; returns the id.
    pub fn push_update(&self, update: &Value) -> i64 {
        let mut update = update.clone();
        let mut state = self.shared.lock();
        let id = state.next_update;
        state.next_update += 1;
        update["update_id"] = id.into();
        state.updates.insert(id, update.to_string());
        drop(state);
        self.shared.changed.notify_waiters();
        id
    }

    /// Adds a text as the next update; returns the id under which the server keeps it.
    pub fn push_raw_update(&self, text: &str) -> i64 {
        let mut state = self.shared.lock();
        let id = state.next_update;
        state.next_update += 1;
        state.updates.insert(id, text.to_owned());
        drop(state);
        self.shared.changed.notify_waiters();
        id
    }

    /// Adds a message of a person to the bot in a direct chat, which has the person's id.
    pub fn push_message(&self, person: i64, message: i64, text: &str) -> i64 {
        self.push_update(&json!({"message": {
            "message_id": message,
            "date": 1_700_000_000,
            "chat": {"id": person, "type": "private"},
            "from": {"id": person, "is_bot": false, "first_name": "Person"},
            "text": text,
        }}))
    }

    /// Lets the next call of a method fail.
    pub fn fail_next(&self, method: &str, fault: ApiFault) {
        self.shared.lock().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Asks a function about the fault of each call that has none of its own.
    pub fn fail_by(&self, plan: impl FnMut(&str) -> Option<ApiFault> + Send + 'static) {
        self.shared.lock().plan = Some(Box::new(plan));
    }

    /// Ends the faults.
    pub fn stop_faults(&self) {
        let mut state = self.shared.lock();
        state.plan = None;
        state.faults.clear();
    }

    /// Replaces the valid token, or revokes it.
    pub fn set_token(&self, token: Option<&str>) {
        let mut state = self.shared.lock();
        state.token = token.map(str::to_owned);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Sets a webhook, which conflicts with polls until it is deleted.
    pub fn set_webhook(&self) {
        self.shared.lock().has_webhook = true;
    }

    /// Lets a person block the bot.
    pub fn block_chat(&self, chat: i64) {
        self.shared.lock().blocked.insert(chat);
    }

    /// Deletes a chat.
    pub fn delete_chat(&self, chat: i64) {
        self.shared.lock().deleted.insert(chat);
    }

    /// Returns the calls of a method so far.
    #[must_use]
    pub fn calls(&self, method: &str) -> Vec<BotCall> {
        of_method(&self.shared.lock(), method)
    }

    /// Returns the number of updates that no offset has confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.shared.lock().updates.len()
    }

    /// Waits until a method was called so often, and returns all of its calls.
    #[must_use]
    pub fn wait_for_calls(&self, method: &str, count: usize) -> Vec<BotCall> {
        let is_short = |state: &mut ApiState| of_method(state, method).len() < count;
        of_method(&self.wait_while(is_short, method), method)
    }

    /// Waits until every update is confirmed.
    pub fn wait_until_confirmed(&self) {
        drop(self.wait_while(|state| !state.updates.is_empty(), "confirmed updates"));
    }

    fn wait_while(
        &self,
        condition: impl FnMut(&mut ApiState) -> bool,
        subject: &str,
    ) -> MutexGuard<'_, ApiState> {
        let waited =
            self.shared.called.wait_timeout_while(self.shared.lock(), STUCK_AFTER, condition);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!result.timed_out(), "no {subject} after {:?}", state.calls.last());
        state
    }
}

fn of_method(state: &ApiState, method: &str) -> Vec<BotCall> {
    state.calls.iter().filter(|call| call.method == method).cloned().collect()
}

impl Drop for FakeBotApi {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: TcpListener, shared: Arc<SharedState>, ended: oneshot::Receiver<Infallible>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime for the server");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener of tokio");
        let router = Router::new().fallback(handle_call).with_state(shared);
        tokio::select! {
            // Connections that are still open are dropped with the runtime.
            _ = ended => {}
            result = axum::serve(listener, router).into_future() => {
                result.expect("the server runs until it is stopped");
            }
        }
    });
}

async fn handle_call(State(shared): State<Arc<SharedState>>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path().strip_prefix("/bot").and_then(|rest| rest.rsplit_once('/'));
    let Some((token, method)) = path else {
        return (StatusCode::NOT_FOUND, "no such path").into_response();
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let fault = {
        let mut state = shared.lock();
        if state.token.as_deref() != Some(token) {
            record_call(&shared, &mut state, method, &body, false);
            return error_response(&ApiError::new(401, "Unauthorized"));
        }
        state.take_fault(method)
    };
    let fails_before = fault.as_ref().is_some_and(|fault| *fault != ApiFault::CutAfter);
    if fails_before {
        record_call(&shared, &mut shared.lock(), method, &body, false);
    }
    match fault {
        Some(ApiFault::Status(code, description)) => {
            error_response(&ApiError::new(code, &description))
        }
        Some(ApiFault::Throttle(seconds)) => error_response(&ApiError {
            retry_after: Some(seconds),
            ..ApiError::new(429, "Too Many Requests: retry later")
        }),
        Some(ApiFault::CutBefore) => cut_response("{\"ok\":"),
        Some(ApiFault::Body(text)) => ok_response(text),
        Some(ApiFault::CutAfter) => match answer(&shared, token, method, &body).await {
            Ok(result) => cut_response(&result[..result.len() / 2]),
            Err(error) => error_response(&error),
        },
        None => match answer(&shared, token, method, &body).await {
            Ok(result) => ok_response(result),
            Err(error) => error_response(&error),
        },
    }
}

fn record_call(
    shared: &SharedState,
    state: &mut ApiState,
    method: &str,
    body: &Value,
    had_effect: bool,
) {
    state.calls.push(BotCall { method: method.to_owned(), body: body.clone(), had_effect });
    shared.called.notify_all();
}

/// Returns the body of a successful response.
async fn answer(
    shared: &SharedState,
    token: &str,
    method: &str,
    body: &Value,
) -> Result<String, ApiError> {
    if method == "getUpdates" {
        return poll_updates(shared, token, body).await;
    }
    let mut state = shared.lock();
    let result = state.answer(method, body);
    record_call(shared, &mut state, method, body, result.is_ok());
    result.map(|result| json!({"ok": true, "result": result}).to_string())
}

/// Holds a poll until there are updates, its timeout has passed, or another one begins.
async fn poll_updates(shared: &SharedState, token: &str, body: &Value) -> Result<String, ApiError> {
    let own = {
        let mut state = shared.lock();
        state.polls += 1;
        if state.has_webhook {
            record_call(shared, &mut state, "getUpdates", body, false);
            return Err(ApiError::new(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook \
                 to delete the webhook first",
            ));
        }
        // With its offset, the call confirms updates at once.
        state.take_updates(body);
        record_call(shared, &mut state, "getUpdates", body, true);
        state.polls
    };
    shared.changed.notify_waiters();
    let end = Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or_default());
    loop {
        let changed = shared.changed.notified();
        let mut changed = std::pin::pin!(changed);
        // Registered before the state is read, so that no change is missed.
        changed.as_mut().enable();
        {
            let mut state = shared.lock();
            // A poll that is held ends with an error, as after a real revocation.
            if state.token.as_deref() != Some(token) {
                return Err(ApiError::new(401, "Unauthorized"));
            }
            if state.polls != own {
                return Err(ApiError::new(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot \
                     instance is running",
                ));
            }
            let updates = state.take_updates(body);
            if !updates.is_empty() || Instant::now() >= end {
                return Ok(format!("{{\"ok\":true,\"result\":[{}]}}", updates.join(",")));
            }
        }
        let _ = tokio::time::timeout_at(end, changed).await;
    }
}

fn ok_response(body: String) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error_response(error: &ApiError) -> Response {
    let mut body = json!({"ok": false, "error_code": error.code, "description": error.description});
    if let Some(seconds) = error.retry_after {
        body["parameters"] = json!({ "retry_after": seconds });
    }
    let status = StatusCode::from_u16(error.code).expect("a status of HTTP");
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Returns a response that ends with an error in its middle.
fn cut_response(beginning: &str) -> Response {
    let parts = [Ok(beginning.to_owned()), Err(io::Error::other("cut on purpose"))];
    (StatusCode::OK, Body::from_stream(futures::stream::iter(parts))).into_response()
}
