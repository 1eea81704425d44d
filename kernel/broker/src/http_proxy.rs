//! The HTTP proxy: one request for each connection.
//!
//! Requests are parsed and written again, never passed on as bytes, so that both sides agree on
//! where a request ends.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::destination::{ConnectError, HostAccess};

/// The time for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of the header of a request, in bytes, and its number of fields.
const MAX_HEADER: usize = 64 << 10;
const MAX_HEADER_FIELDS: usize = 100;

/// The fields that concern one connection only.
const CONNECTION_FIELDS: [HeaderName; 9] = [
    CONNECTION,
    EXPECT,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

type ResponseBody = Either<Incoming, String>;

/// The part of a connection that outlives the answer to its request.
#[derive(Default)]
struct ProxyTunnel {
    /// The bytes after a `CONNECT`, and the connection to the host.
    tunnel: Option<(OnUpgrade, TcpStream)>,
    /// The connection to the host of another request.
    upstream: JoinSet<()>,
}

/// Serves a connection of a program to its end.
pub(crate) async fn serve(stream: TcpStream, access: Arc<HostAccess>) {
    let continuation = Arc::new(Mutex::new(ProxyTunnel::default()));
    let service = service_fn(|request| {
        let (access, continuation) = (Arc::clone(&access), Arc::clone(&continuation));
        async move {
            let response = match answer(request, &access, &continuation).await {
                Ok(response) => response,
                Err(problem) => problem.to_response(),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEADER)
        .max_headers(MAX_HEADER_FIELDS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let tunnel = continuation.lock().unwrap_or_else(PoisonError::into_inner).tunnel.take();
    if let (Ok(()), Some((upgrade, mut upstream))) = (served, tunnel)
        && let Ok(upgraded) = upgrade.await
    {
        // Either side may end it at any time.
        let _ = copy_bidirectional(&mut TokioIo::new(upgraded), &mut upstream).await;
    }
}

/// The reason for an answer of the proxy itself.
enum ProxyError {
    Request(&'static str),
    Connect(ConnectError),
    Upstream(hyper::Error),
}

impl ProxyError {
    fn to_response(&self) -> Response<ResponseBody> {
        let (status, text) = match self {
            Self::Request(reason) => (StatusCode::BAD_REQUEST, (*reason).to_owned()),
            Self::Connect(error @ ConnectError::Invalid { .. }) => {
                (StatusCode::BAD_REQUEST, error.to_string())
            }
            Self::Connect(error @ ConnectError::Refused { .. }) => {
                (StatusCode::FORBIDDEN, error.to_string())
            }
            Self::Connect(error @ ConnectError::Unreachable { .. }) => {
                (StatusCode::BAD_GATEWAY, error.to_string())
            }
            Self::Upstream(error) => {
                (StatusCode::BAD_GATEWAY, format!("the host did not answer correctly: {error}"))
            }
        };
        let help = match status {
            StatusCode::FORBIDDEN => {
                "\nThe sandbox allows the hosts in `network.allowedDomains` of its policy; the operator can add them below `sandbox` in the settings."
            }
            _ => "",
        };
        // Many programs show only the first line of an answer.
        let phrase = ReasonPhrase::try_from(text.clone());
        let mut response = Response::new(Either::Right(format!("{text}{help}\n")));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if let Ok(phrase) = phrase {
            response.extensions_mut().insert(phrase);
        }
        response
    }
}

impl From<ConnectError> for ProxyError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<hyper::Error> for ProxyError {
    fn from(error: hyper::Error) -> Self {
        Self::Upstream(error)
    }
}

async fn answer(
    mut request: Request<Incoming>,
    access: &HostAccess,
    continuation: &Mutex<ProxyTunnel>,
) -> Result<Response<ResponseBody>, ProxyError> {
    let (host, port) = read_destination(request.method(), request.uri())?;
    let stream = access.connect(&host, port).await?;
    if request.method() == Method::CONNECT {
        let upgrade = hyper::upgrade::on(&mut request);
        let mut continuation = continuation.lock().unwrap_or_else(PoisonError::into_inner);
        continuation.tunnel = Some((upgrade, stream));
        return Ok(Response::new(Either::Right(String::new())));
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    continuation.lock().unwrap_or_else(PoisonError::into_inner).upstream.spawn(async {
        // Its errors appear in the response.
        let _ = connection.await;
    });
    let mut response = sender.send_request(to_upstream(request)?).await?;
    remove_connection_fields(response.headers_mut());
    Ok(response.map(Either::Left))
}

/// Returns the host and port that a request names.
fn read_destination(method: &Method, uri: &Uri) -> Result<(String, u16), ProxyError> {
    let authority = uri.authority().ok_or(ProxyError::Request(
        "this is a proxy: a request names its host, as in `GET http://HOST/` or `CONNECT HOST:443`",
    ))?;
    if authority.as_str().contains('@') {
        return Err(ProxyError::Request("a user is not part of a host"));
    }
    let port = match (method, uri.scheme_str()) {
        (&Method::CONNECT, _) => {
            authority.port_u16().ok_or(ProxyError::Request("`CONNECT` names a host and a port"))?
        }
        (_, Some("http")) => match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => 80,
            None => return Err(ProxyError::Request("the port is not valid")),
        },
        _ => return Err(ProxyError::Request("use `CONNECT` for schemes other than `http`")),
    };
    Ok((authority.host().to_owned(), port))
}

/// Returns the request for the host itself, which is named by the address alone.
fn to_upstream(mut request: Request<Incoming>) -> Result<Request<Incoming>, ProxyError> {
    let invalid = || ProxyError::Request("the address is not valid");
    let uri = request.uri();
    let host = uri.authority().ok_or_else(invalid)?.as_str();
    let host = HeaderValue::from_str(host).map_err(|_| invalid())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = path.parse::<Uri>().map_err(|_| invalid())?;
    remove_connection_fields(request.headers_mut());
    // Replaces all fields of this name.
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = path;
    *request.version_mut() = Version::HTTP_11;
    Ok(request)
}

/// Removes the fields that concern one connection, and those that `Connection` names.
fn remove_connection_fields(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // These state the length of the message and its destination.
        .filter(|name| *name != CONTENT_LENGTH && *name != HOST)
        .collect();
    for name in named.iter().chain(&CONNECTION_FIELDS) {
        fields.remove(name);
    }
    fields.remove("proxy-connection");
}
