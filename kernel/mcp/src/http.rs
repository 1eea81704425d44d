//! The server for many clients over streamable HTTP, at one path.
//!
//! A request is accepted or rejected by its head alone: first `Host` and `Origin`, so that no web
//! page reaches a server on loopback under another name; then the bearer token, if one is set.
//! Off loopback a token is required. The body of a rejected request is not read. Connections
//! without an accepted request have a limit of their own and five seconds for a head, so that they
//! delay no client.

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
use futures::future::BoxFuture;
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

use crate::backend::ClientPrincipal;
use crate::server::{McpServer, ServerSession};
use connections::{Connection, ConnectionLimits, Connections, WatchedBody, WatchedStream};
use guard::{HeadError, HeadGuard};
use sessions::Sessions;

/// The path of the MCP endpoint.
pub const PATH: &str = "/mcp";

/// The timeout of a request body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that connections have to complete after `stop` is cancelled.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The header that names a client's session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The header that names the version of the protocol.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The header that names the method of a message.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");

type HttpBody = BoxBody<Bytes, Infallible>;

/// The rules for access to a server.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// The bearer token that requests must send.
    pub token: Option<BearerToken>,
    /// Allowed host names in addition to those of loopback and the listening address.
    pub hosts: Vec<String>,
    /// Allowed origins of web pages in addition to those on loopback.
    pub origins: Vec<String>,
}

/// An error for an address off loopback without a bearer token.
#[derive(Debug, thiserror::Error)]
#[error("{0} is reachable from other machines and requires a bearer token")]
pub struct UnguardedAddressError(SocketAddr);

impl AccessPolicy {
    /// Checks that a server that other machines can reach has a token.
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
/// [`UnguardedAddressError`] before the first connection is accepted.
pub fn serve_http(
    server: &McpServer,
    listener: TcpListener,
    access: AccessPolicy,
    stop: CancellationToken,
) -> BoxFuture<'_, std::io::Result<()>> {
    Box::pin(accept_connections(server, listener, access, stop))
}

async fn accept_connections(
    server: &McpServer,
    listener: TcpListener,
    access: AccessPolicy,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    access.check(address).map_err(std::io::Error::other)?;
    let guard = Arc::new(HttpGuard::new(server, &access, address, &stop));
    let open = Connections::new(ConnectionLimits::default());
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept_connection(&listener) => accepted,
            // Finished tasks are removed, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let Some(stream) = accepted else { continue };
        // Responses are small, and Nagle's algorithm would delay them. A failure is harmless.
        let _ = stream.set_nodelay(true);
        connections.spawn(serve_connection(stream, open.open(), Arc::clone(&guard), stop.clone()));
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    // Dropping the set aborts the remaining connections.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, ended).await;
    Ok(())
}

/// Waits for a connection; returns `None` if accepting it failed.
async fn accept_connection(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            // An immediate retry would spin, for example while too many files are open.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Serves one connection until it ends, times out or is closed in favor of another one.
async fn serve_connection<S>(
    stream: S,
    connection: Connection,
    guard: Arc<HttpGuard>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(|request| {
        let (guard, connection) = (Arc::clone(&guard), connection.clone());
        async move {
            let serving = connection.serve();
            let response = guard.handle_request(request, &connection).await;
            Ok::<_, Infallible>(response.map(|body| WatchedBody { body, _guard: serving }))
        }
    });
    let stream = WatchedStream { stream, connection: connection.clone() };
    let mut builder = http1::Builder::new();
    // The connection itself limits the time of a head: its clock starts with the first byte and is
    // shared with the idle timeout.
    builder.header_read_timeout(None).max_headers(64);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut expired = std::pin::pin!(connection.expired());
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = expired.as_mut() => return,
        () = stop.cancelled() => {
            // The current response is completed; no further request is accepted.
            served.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = served => outcome,
                () = expired => return,
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection failed");
    }
}

/// The checks that every request passes before the protocol's service.
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
        let principal = ClientPrincipal::http(access.token.as_ref().map(BearerToken::hash));
        let service = StreamableHttpService::new(
            move || Ok(template.session(principal.clone())),
            Arc::clone(&sessions),
            config,
        );
        let guard = HeadGuard::new(access, address);
        let message = server.limits().message;
        Self { server: server.clone(), service, sessions, guard, message }
    }

    /// Handles a request; its body is read only if its head is accepted.
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
            return head_error_response(error);
        }
        // After the head check, so that a rejected request takes no client connection.
        if !connection.admit() {
            return error_response(StatusCode::SERVICE_UNAVAILABLE, "too many connections");
        }
        if request.uri().path() != PATH {
            return error_response(StatusCode::NOT_FOUND, "the MCP endpoint is /mcp");
        }
        if may_start_session(&request) && !self.sessions.has_room() {
            return error_response(StatusCode::SERVICE_UNAVAILABLE, "too many sessions");
        }
        let (head, body) = request.into_parts();
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        // A body that is announced as too large is rejected without reading it.
        if announced.is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n > self.message)) {
            return error_response(StatusCode::PAYLOAD_TOO_LARGE, "message is too large");
        }
        // The body is read here, because the library would wait for it without a timeout.
        let body = Limited::new(body, self.message).collect();
        let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
        match body {
            Err(_) => error_response(StatusCode::REQUEST_TIMEOUT, "message timed out"),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                error_response(StatusCode::PAYLOAD_TOO_LARGE, "message is too large")
            }
            Ok(Err(_)) => error_response(StatusCode::BAD_REQUEST, "message is incomplete"),
            Ok(Ok(body)) => {
                if head.headers.get(METHOD).is_some_and(|method| method == "tools/call") {
                    // The library compares argument headers with the tool's schema, which it reads
                    // from the cache only.
                    self.server.refresh_tools().await;
                }
                let request = Request::from_parts(head, Full::new(body.to_bytes()));
                self.service.handle(request).await
            }
        }
    }
}

/// Returns `true` if a request may start a session; the newest protocol version has none.
fn may_start_session<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let version = headers.get(VERSION).and_then(|version| version.to_str().ok());
    // Versions are dates, so they sort as text.
    let newest = version.is_some_and(|v| v >= ProtocolVersion::V_2026_07_28.as_str());
    request.method() == http::Method::POST && !headers.contains_key(SESSION) && !newest
}

fn head_error_response(error: HeadError) -> Response<HttpBody> {
    let mut response = error_response(error.status, error.text);
    // HTTP requires a challenge in every 401 response (RFC 9110, section 15.5.2).
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
