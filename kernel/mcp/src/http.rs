//! Many clients over streamable HTTP, at one path.
//!
//! Who may speak to the server is decided in this order: only so many connections; the `Host` and
//! `Origin` of the request, so that no web page reaches a server on loopback under another name; the
//! bearer token, where there is one. Off loopback there has to be one.

mod token;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use token::{Token, TokenError};

use crate::server::{Server, Session};

/// Where the protocol is spoken.
pub const PATH: &str = "/mcp";

/// Connections at the same time; more wait in the system's queue.
const CONNECTIONS: usize = 256;

/// Sessions at the same time; a client that begins one more is told to come back later.
const SESSIONS: usize = 512;

/// How long a connection may be silent before a request, and while sending its head.
const IDLE: Duration = Duration::from_secs(60);

/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(30);

/// How long connections may go on once the server is to end.
const LINGER: Duration = Duration::from_secs(2);

type Body = BoxBody<Bytes, Infallible>;

/// Who may speak to a server.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What requests have to carry.
    pub token: Option<Token>,
    /// Names under which the server may be addressed beside those of loopback and its address.
    pub hosts: Vec<String>,
    /// Origins of web pages that may speak to it beside those on loopback.
    pub origins: Vec<String>,
}

/// Why a server may not listen somewhere.
#[derive(Debug, thiserror::Error)]
#[error("{0} can be reached from other machines, and no bearer token is set")]
pub struct NotGuarded(SocketAddr);

impl Access {
    /// Refuses to be open to other machines without a token.
    ///
    /// # Errors
    /// [`NotGuarded`] for an address off loopback without a token.
    pub fn check(&self, address: SocketAddr) -> Result<(), NotGuarded> {
        match address.ip().is_loopback() || self.token.is_some() {
            true => Ok(()),
            false => Err(NotGuarded(address)),
        }
    }

    fn config(&self, address: SocketAddr, server: &Server) -> StreamableHttpServerConfig {
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(self.hosts.iter().cloned());
        let loopback = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let origins = loopback.map(str::to_owned).into_iter().chain(self.origins.iter().cloned());
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation();
        config.max_request_body_bytes = server.limits().message;
        config
    }
}

/// Serves clients until `stop` is cancelled.
///
/// # Errors
/// [`NotGuarded`] before anybody is served.
pub async fn serve(
    server: &Server,
    listener: TcpListener,
    access: Access,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    access.check(address).map_err(std::io::Error::other)?;
    let mut config = access.config(address, server);
    config.cancellation_token = stop.child_token();
    let sessions = Arc::<LocalSessionManager>::default();
    let template = server.clone();
    let service =
        StreamableHttpService::new(move || Ok(template.session()), Arc::clone(&sessions), config);
    let door = Arc::new(Door { service, sessions, access, message: server.limits().message });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
            // Whatever has ended is taken out, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let Some((stream, place)) = accepted else { continue };
        let (door, stop) = (Arc::clone(&door), stop.clone());
        connections.spawn(async move {
            let _place = place;
            connection(stream, door, stop).await;
        });
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    // Dropping the set ends the others.
    let _ = tokio::time::timeout(LINGER, ended).await;
    Ok(())
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// Waits for a connection and a place for it; nothing if it went away again.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            // Such as too many open files: trying again at once would not help.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, door: Arc<Door>, stop: CancellationToken) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.enter(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_headers(64);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended");
    }
}

/// What every request passes on its way in.
struct Door {
    service: StreamableHttpService<Session, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    access: Access,
    message: usize,
}

impl Door {
    async fn enter(&self, request: Request<Incoming>) -> Response<Body> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "MCP is spoken at /mcp");
        }
        if let Some(token) = &self.access.token
            && !bearer(request.headers()).is_some_and(|given| token.is(given))
        {
            let mut refusal = refusal(StatusCode::UNAUTHORIZED, "a bearer token is needed");
            let scheme = http::HeaderValue::from_static("Bearer realm=\"skillhost\"");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return refusal;
        }
        let begins = !request.headers().contains_key("mcp-session-id");
        if begins && self.sessions.sessions.read().await.len() >= SESSIONS {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many sessions");
        }
        let (head, body) = request.into_parts();
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.is_some_and(|n| n.parse::<usize>().is_ok_and(|n| n > self.message)) {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large");
        }
        // Before the library waits for it, which it would do for ever.
        let body = tokio::time::timeout(BODY, Limited::new(body, self.message).collect()).await;
        match body {
            Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the message did not end in time"),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                refusal(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large")
            }
            Ok(Err(_)) => refusal(StatusCode::BAD_REQUEST, "the message was cut off"),
            Ok(Ok(body)) => {
                let request = Request::from_parts(head, Full::new(body.to_bytes()));
                self.service.handle(request).await
            }
        }
    }
}

/// What a request says after `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_a_token() {
        let open = Access::default();
        let guarded =
            Access { token: Some(Token::new("0123456789abcdef").unwrap()), ..open.clone() };
        for (address, alone) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", false), ("10.0.0.1:1", false)]
        {
            let address = address.parse().unwrap();
            assert_eq!(open.check(address).is_ok(), alone, "{address}");
            assert!(guarded.check(address).is_ok());
        }
    }

    #[test]
    fn a_bearer_token_is_found_where_it_belongs() {
        let found = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(found("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(found("bearer  abc ").as_deref(), Some("abc"));
        assert_eq!(found("Basic abc"), None);
        assert_eq!(found("Bearer"), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
