//! Many clients over streamable HTTP, at one path.
//!
//! A request is decided about by its head alone: the `Host` and `CallOrigin`, so that no web page reaches
//! a server on loopback under another name; then the bearer token, where there is one. Off loopback
//! there has to be one. Of a request that is refused no byte of the body is read. Connections that
//! have not come that far have places of their own and five seconds for a head, so that they keep no
//! client waiting.

mod connections;
mod guard;
mod sessions;
mod token;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use token::{BearerToken, TokenError};

use crate::server::{McpServer, ServerSession};
use connections::{Connection, ConnectionLimits, Connections, WatchedBody, WatchedStream};
use guard::{HeadError, HeadGuard};
use sessions::Sessions;

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";

/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(30);

/// How long connections may go on once the server is to end.
const LINGER: Duration = Duration::from_secs(2);

/// The header that names a client's session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The header that names the version of the protocol.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the method of a message.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");

type HttpBody = BoxBody<Bytes, Infallible>;

/// Who may speak to a server.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// What requests have to carry.
    pub token: Option<BearerToken>,
    /// Names under which the server may be addressed beside those of loopback and its address.
    pub hosts: Vec<String>,
    /// Origins of web pages that may speak to it beside those on loopback.
    pub origins: Vec<String>,
}

/// Why a server may not listen somewhere.
#[derive(Debug, thiserror::Error)]
#[error("{0} can be reached from other machines, and no bearer token is set")]
pub struct UnguardedAddressError(SocketAddr);

impl AccessPolicy {
    /// Refuses to be open to other machines without a token.
    ///
    /// # Errors
    /// [`UnguardedAddressError`] for an address off loopback without a token.
    pub fn check(&self, address: SocketAddr) -> Result<(), UnguardedAddressError> {
        match address.ip().is_loopback() || self.token.is_some() {
            true => Ok(()),
            false => Err(UnguardedAddressError(address)),
        }
    }

    fn config(&self, address: SocketAddr, server: &McpServer) -> StreamableHttpServerConfig {
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(guard::allowed_hosts(self, address))
            .with_allowed_origins(guard::allowed_origins(self))
            .enforce_origin_validation();
        config.max_request_body_bytes = server.limits().message;
        config
    }
}

/// Serves clients until `stop` is cancelled.
///
/// # Errors
/// [`UnguardedAddressError`] before anybody is served.
pub async fn serve_http(
    server: &McpServer,
    listener: TcpListener,
    access: AccessPolicy,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    access.check(address).map_err(std::io::Error::other)?;
    let door = Arc::new(HttpGuard::new(server, &access, address, &stop));
    let open = Connections::new(ConnectionLimits::default());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener) => accepted,
            // Whatever has ended is taken out, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let Some(stream) = accepted else { continue };
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        connections.spawn(serve_connection(stream, open.open(), Arc::clone(&door), stop.clone()));
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    // Dropping the set ends the others.
    let _ = tokio::time::timeout(LINGER, ended).await;
    Ok(())
}

/// Waits for a connection; nothing if it went away again.
async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            // Such as too many open files: trying again at once would not help.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Serves one connection until it ends, its time is up or it has to give way to another one.
async fn serve_connection<S>(
    stream: S,
    connection: Connection,
    door: Arc<HttpGuard>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| {
        let (door, connection) = (Arc::clone(&door), connection.clone());
        async move {
            let guard = connection.serve();
            let answer = door.handle_request(request, &connection).await;
            Ok::<_, Infallible>(answer.map(|body| WatchedBody { body, _guard: guard }))
        }
    });
    let stream = WatchedStream { stream, connection: connection.clone() };
    let mut builder = http1::Builder::new();
    // How long a head may take is the connection's to say.
    builder.header_read_timeout(None).max_headers(64);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut expired = std::pin::pin!(connection.expired());
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = expired.as_mut() => return,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = served => outcome,
                () = expired => return,
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended");
    }
}

/// What every request passes on its way in.
struct HttpGuard {
    server: McpServer,
    service: StreamableHttpService<ServerSession, Sessions>,
    sessions: Arc<Sessions>,
    guard: HeadGuard,
    message: usize,
}

impl HttpGuard {
    fn new(
        server: &McpServer,
        access: &AccessPolicy,
        address: SocketAddr,
        stop: &CancellationToken,
    ) -> Self {
        Self::with_sessions(server, access, address, stop, Sessions::default())
    }

    fn with_sessions(
        server: &McpServer,
        access: &AccessPolicy,
        address: SocketAddr,
        stop: &CancellationToken,
        sessions: Sessions,
    ) -> Self {
        let mut config = access.config(address, server);
        config.cancellation_token = stop.child_token();
        let sessions = Arc::new(sessions);
        let template = server.clone();
        let service = StreamableHttpService::new(
            move || Ok(template.session()),
            Arc::clone(&sessions),
            config,
        );
        let guard = HeadGuard::new(access, address);
        let message = server.limits().message;
        Self { server: server.clone(), service, sessions, guard, message }
    }

    /// Answers a request. Only of one that its head lets in, the body is read.
    async fn handle_request<B>(
        &self,
        request: Request<B>,
        connection: &Connection,
    ) -> Response<HttpBody>
    where
        B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Display,
    {
        if let Err(error) = self.guard.check(request.uri(), request.headers()) {
            return head_refusal(error);
        }
        if !connection.admit() {
            return error_response(StatusCode::SERVICE_UNAVAILABLE, "too many connections");
        }
        if request.uri().path() != PATH {
            return error_response(StatusCode::NOT_FOUND, "MCP is spoken at /mcp");
        }
        if may_begin_session(&request) && !self.sessions.has_room() {
            return error_response(StatusCode::SERVICE_UNAVAILABLE, "too many sessions");
        }
        let (head, body) = request.into_parts();
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n > self.message)) {
            return error_response(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large");
        }
        // Before the library waits for it, which it would do for ever.
        let body = tokio::time::timeout(BODY, Limited::new(body, self.message).collect()).await;
        match body {
            Err(_) => {
                error_response(StatusCode::REQUEST_TIMEOUT, "the message did not end in time")
            }
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                error_response(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")
            }
            Ok(Err(_)) => error_response(StatusCode::BAD_REQUEST, "the message was cut off"),
            Ok(Ok(body)) => {
                if head.headers.get(METHOD).is_some_and(|method| method == "tools/call") {
                    // The library compares the headers of arguments with the tool's schema.
                    self.server.refresh_tools().await;
                }
                let request = Request::from_parts(head, Full::new(body.to_bytes()));
                self.service.handle(request).await
            }
        }
    }
}

/// Tells whether a request may be one that begins a session; the newest versions have none.
fn may_begin_session<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    let newest = version.is_some_and(|v| v >= ProtocolVersion::V_2026_07_28.as_str());
    request.method() == http::Method::POST && !headers.contains_key(SESSION) && !newest
}

fn head_refusal(error: HeadError) -> Response<HttpBody> {
    let mut response = error_response(error.status, error.text);
    if error.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer realm=\"skillhost\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

fn error_response(status: StatusCode, text: &'static str) -> Response<HttpBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
