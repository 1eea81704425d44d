//! The HTTP server that receives messages, at `POST /hooks/NAME`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use skillhost_sdk::{CancellationToken, tracing};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::receiver::{HookReceiver, HookReply};
use crate::signature::SignedMessage;

/// The longest body, in bytes.
const BODY_LIMIT: usize = 256 << 10;
/// The timeout of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// The time that open requests have after the service is cancelled.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves requests until `cancel` is cancelled.
pub(crate) async fn listen_for_hooks(
    listener: TcpListener,
    receiver: Arc<HookReceiver>,
    cancel: &CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = accept_connection(&listener, &permits) => accepted,
            // Finished tasks are removed, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
        };
        let Some((stream, permit)) = accepted else { continue };
        let receiver = Arc::clone(&receiver);
        connections.spawn(async move {
            serve_connection(stream, receiver).await;
            drop(permit);
        });
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    // Dropping the set aborts the remaining connections.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, ended).await;
}

/// Waits for a connection; returns `None` if accepting it failed.
async fn accept_connection(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            // An immediate retry would spin, for example while too many files are open.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Serves the one request of a connection.
async fn serve_connection(stream: TcpStream, receiver: Arc<HookReceiver>) {
    let service = service_fn(|request| {
        let receiver = Arc::clone(&receiver);
        async move { Ok::<_, Infallible>(handle_request(request, &receiver).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        // Waiting for a second request would keep the place of another sender.
        .keep_alive(false)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection failed");
    }
}

async fn handle_request(
    request: Request<Incoming>,
    receiver: &HookReceiver,
) -> Response<Full<Bytes>> {
    let Some(name) = request.uri().path().strip_prefix("/hooks/").map(str::to_owned) else {
        return to_response(StatusCode::NOT_FOUND, "not found; the path of a hook is /hooks/NAME");
    };
    if request.method() != Method::POST {
        let mut response = to_response(StatusCode::METHOD_NOT_ALLOWED, "only POST is supported");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect();
    let body = match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return to_response(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 256 KiB");
        }
        Ok(Err(_)) => return to_response(StatusCode::BAD_REQUEST, "the body is not complete"),
        Err(_) => return to_response(StatusCode::REQUEST_TIMEOUT, "the body is not complete"),
    };
    let header = |name| find_header(&head.headers, name).unwrap_or_default();
    let message = SignedMessage {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signatures: header("webhook-signature"),
        body: &body,
    };
    match receiver.receive(&name, &message).await {
        HookReply::Accepted => to_response(StatusCode::ACCEPTED, "accepted"),
        HookReply::Repeated => to_response(StatusCode::OK, "received before"),
        HookReply::Replayed => to_response(StatusCode::CONFLICT, "this request came before"),
        HookReply::Refused => to_response(
            StatusCode::FORBIDDEN,
            "not processed: the hook is not paired, or the message is not allowed",
        ),
        HookReply::Throttled(seconds) => {
            let mut response = to_response(
                StatusCode::TOO_MANY_REQUESTS,
                "too many messages; send it again after the time in Retry-After",
            );
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        HookReply::Unauthorized => {
            to_response(StatusCode::UNAUTHORIZED, "name, signature or timestamp is not valid")
        }
        HookReply::Unreadable => {
            to_response(StatusCode::UNPROCESSABLE_ENTITY, "the body is not a text in UTF-8")
        }
        HookReply::Unavailable => to_response(StatusCode::SERVICE_UNAVAILABLE, "try again later"),
    }
}

/// Returns a header that occurs once.
fn find_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    // Two would be read differently by different programs on the way.
    values.next().is_none().then_some(value)
}

fn to_response(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let body = json!({ "message": text }).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests;
