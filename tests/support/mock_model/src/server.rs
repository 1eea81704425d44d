//! The server.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

use crate::mock_request::MockRequest;
use crate::step::{Deed, End, Hold, Reply, Step};
use crate::wire::Wire;

/// The timeout of [`MockModel::wait_for`]; no test depends on it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// A server that plays models; it ends when this is dropped.
pub struct MockModel {
    shared: Arc<Shared>,
    address: SocketAddr,
    end: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

type Responder = Box<dyn Fn(&MockRequest) -> Option<Step> + Send + Sync>;

#[derive(Default)]
struct Inner {
    steps: VecDeque<Step>,
    asked: Vec<MockRequest>,
}

struct Shared {
    inner: Mutex<Inner>,
    responders: Mutex<Vec<Responder>>,
    more: Condvar,
    released: Semaphore,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MockModel {
    fn default() -> Self {
        Self::with([])
    }
}

impl MockModel {
    /// Starts a server without steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a server with steps.
    #[must_use]
    pub fn with(steps: impl IntoIterator<Item = Step>) -> Self {
        let inner = Inner { steps: steps.into_iter().collect(), asked: Vec::new() };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            responders: Mutex::default(),
            more: Condvar::new(),
            released: Semaphore::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener of tokio does not block");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (end, ended) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || serve(listener, serving, ended));
        Self { shared, address, end: Some(end), thread: Some(thread) }
    }

    /// Adds a step.
    pub fn push(&self, step: Step) {
        self.shared.inner().steps.push_back(step);
    }

    /// Adds a responder that comes before the queue of steps; for threads in an open order, such as
    /// those of concurrent agents.
    pub fn answer_with(
        &self,
        responder: impl Fn(&MockRequest) -> Option<Step> + Send + Sync + 'static,
    ) {
        let mut responders = self.shared.responders.lock().unwrap_or_else(PoisonError::into_inner);
        responders.push(Box::new(responder));
    }

    /// Releases one held step, now or when it arrives.
    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// Returns the server's address, such as `http://127.0.0.1:40000`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL of a wire.
    #[must_use]
    pub fn base_url(&self, wire: Wire) -> String {
        format!("{}{}", self.url(), wire.base())
    }

    /// Returns settings that make `mock/test-model`, on this server, the default. It needs no key.
    #[must_use]
    pub fn settings(&self, wire: Wire) -> String {
        format!(
            "models:\n  default: mock/test-model\n  providers:\n    mock: {{wire: {}, base_url: \
             \"{}\"}}\n",
            wire.name(),
            self.base_url(wire)
        )
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<MockRequest> {
        self.shared.inner().asked.clone()
    }

    /// Waits until so many requests have come, and returns all of them.
    #[must_use]
    pub fn wait_for(&self, count: usize) -> Vec<MockRequest> {
        let inner = self.shared.inner();
        let waited = self
            .shared
            .more
            .wait_timeout_while(inner, STUCK_AFTER, |inner| inner.asked.len() < count);
        let (inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!result.timed_out(), "{} of {count} requests came", inner.asked.len());
        inner.asked.clone()
    }

    /// Returns the number of unused steps.
    #[must_use]
    pub fn left(&self) -> usize {
        self.shared.inner().steps.len()
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve(listener: TcpListener, shared: Arc<Shared>, ended: oneshot::Receiver<Infallible>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime for the server");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener of tokio");
        let router = Router::new().fallback(answer).with_state(shared);
        tokio::select! {
            // Connections that are still open are dropped with the runtime.
            _ = ended => {}
            result = axum::serve(listener, router).into_future() => {
                result.expect("the server runs until it is stopped");
            }
        }
    });
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(wire) = Wire::of(uri.path()) else {
        return (StatusCode::NOT_FOUND, "no such path").into_response();
    };
    let asked = read(wire, &uri, &headers, &body);
    let step = next(&shared, &asked);
    let step = step.unwrap_or_else(|| Step::status(500, "the mock has no step left"));
    if step.hold == Hold::Before {
        wait(&shared).await;
    }
    match &step.deed {
        Deed::Reply(reply) if asked.stream => in_pieces(&shared, &asked, reply, &step),
        Deed::Reply(reply) => {
            let body = wire.whole(&asked.model, reply).to_string();
            with_type(StatusCode::OK, "application/json", body)
        }
        Deed::Fault { status, code, message, retry_after } => {
            let message = message.replace("[KEY]", asked.key().unwrap_or("none"));
            let body = wire.error(*status, code, &message).to_string();
            let status = StatusCode::from_u16(*status).expect("a status of HTTP");
            let mut response = with_type(status, "application/json", body);
            if let Some(seconds) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
            }
            response
        }
        Deed::Page(html) => with_type(StatusCode::OK, "text/html", html.clone()),
    }
}

fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

fn read(wire: Wire, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> MockRequest {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let of_path = || uri.path().rsplit('/').next().and_then(|last| last.split(':').next());
    let model = body["model"].as_str().or_else(of_path).unwrap_or_default().to_owned();
    let stream = match wire {
        Wire::Gemini => uri.path().ends_with(":streamGenerateContent"),
        // Ollama streams unless the request turns it off.
        Wire::Ollama => body["stream"] != false,
        _ => body["stream"] == true,
    };
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    MockRequest { wire, path: uri.to_string(), model, stream, headers, body }
}

/// Logs the request and takes a step for it.
fn next(shared: &Shared, asked: &MockRequest) -> Option<Step> {
    let responders = shared.responders.lock().unwrap_or_else(PoisonError::into_inner);
    let made = responders.iter().find_map(|responder| responder(asked));
    drop(responders);
    let mut inner = shared.inner();
    inner.asked.push(asked.clone());
    shared.more.notify_all();
    made.or_else(|| inner.steps.pop_front())
}

async fn wait(shared: &Shared) {
    if let Ok(permit) = shared.released.acquire().await {
        permit.forget();
    }
}

fn in_pieces(shared: &Arc<Shared>, asked: &MockRequest, reply: &Reply, step: &Step) -> Response {
    let wire = asked.wire;
    let mut pieces = wire.pieces(&asked.model, reply);
    let middle = pieces.len() / 2;
    match &step.end {
        End::Whole => {}
        End::Broken | End::Quiet => pieces.truncate(middle),
        End::After(count) => pieces.truncate(*count),
        End::Damaged => {
            let piece = &mut pieces[middle];
            let kept = piece.floor_char_boundary(piece.len() * 2 / 3);
            piece.truncate(kept);
            piece.push_str("\n\n");
        }
        End::Told { code, message } => {
            pieces.truncate(middle);
            pieces.push(wire.stream_error(code, message));
        }
    }
    let held = (step.hold == Hold::Midway).then_some(middle);
    let shared = Arc::clone(shared);
    let pieces = stream::iter(pieces.into_iter().enumerate()).then(move |(index, piece)| {
        let shared = Arc::clone(&shared);
        async move {
            if held == Some(index) {
                wait(&shared).await;
            }
            Ok(piece)
        }
    });
    let broken = (step.end == End::Broken).then(|| Err(io::Error::other("broken on purpose")));
    let body = Body::from_stream(pieces.chain(stream::iter(broken)));
    with_type(StatusCode::OK, wire.content_type(), body)
}
