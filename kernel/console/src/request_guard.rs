//! The checks of every request, before any page.
//!
//! - `Host` is the console's own: a name that was rebound to this address is refused.
//! - A `POST` has the console's own `Origin`, no foreign `Sec-Fetch-Site`, and the CSRF token of its
//!   session; other methods change nothing.
//! - All but the login and the assets requires a session.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use skillhost_home::now_ms;

use crate::console_state::ConsoleState;
use crate::error::{ConsoleError, LOGIN_COMMAND};
use crate::form_fields::FormFields;
use crate::login_table::LoginSession;
use crate::visit::Visit;

/// The size limit of a body, in bytes.
const MAX_BODY: usize = 2 << 20;

/// The path of the login.
pub(crate) const LOGIN: &str = "/login";
/// The paths below which the assets are.
const ASSETS: &str = "/assets/";
/// The paths of programs, which no page of another site may read.
const API: &str = "/api/";

/// The content security policy of every response.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                      base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Not `no-referrer`: browsers then send the origin `null` with forms.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The fields of the login form, which has no session yet.
#[derive(Clone)]
pub(crate) struct LoginForm(pub(crate) FormFields);

/// Checks a request, and adds the headers of every response.
pub(crate) async fn guard_request(
    State(state): State<Arc<ConsoleState>>,
    request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with(API);
    let mut response = match admit_request(&state, request).await {
        Ok(request) => next.run(request).await,
        Err(error) if is_api => to_json_response(&error),
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Only assets are kept, as they are the same for everyone.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Converts an error for a program.
pub(crate) fn to_json_response(error: &ConsoleError) -> Response {
    let body = serde_json::json!({ "error": { "message": error.message(), "hint": error.hint() } });
    (error.status(), axum::Json(body)).into_response()
}

async fn admit_request(
    state: &Arc<ConsoleState>,
    request: Request,
) -> Result<Request, ConsoleError> {
    let (mut parts, body) = request.into_parts();
    check_host(state, &parts.headers, parts.uri.authority().map(|it| it.as_str()))?;
    let path = parts.uri.path();
    let is_post = parts.method == Method::POST;
    match parts.method {
        Method::GET | Method::HEAD => check_reader(&parts.headers, path)?,
        Method::POST => check_origin(state, &parts.headers)?,
        _ => {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            return Err(ConsoleError::new(status, "method is not supported", "use GET or POST"));
        }
    }
    // The login page has no session and requires its style.
    if path.starts_with(ASSETS) && !is_post {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let is_login = path == LOGIN;
    let found = find_session(state, &parts.headers);
    let session = match found {
        None if !is_login => return Err(login_required_error()),
        // A body is read for a session and for the login only.
        found => found,
    };
    let bytes = match is_post {
        true => to_bytes(body, MAX_BODY).await.map_err(|_| too_large_error())?,
        false => axum::body::Bytes::new(),
    };
    let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    if is_login {
        let fields = if is_post { FormFields::parse(&bytes) } else { query };
        parts.extensions.insert(LoginForm(fields));
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let Some((cookie, session)) = session else { return Err(login_required_error()) };
    let mut form = FormFields::default();
    let mut json: Arc<[u8]> = Arc::default();
    if is_post {
        let given = match content_type(&parts.headers) {
            "application/x-www-form-urlencoded" => {
                form = FormFields::parse(&bytes);
                form.get("csrf").to_owned()
            }
            "application/json" => {
                json = Arc::from(&bytes[..]);
                header_text(&parts.headers, "x-csrf-token").to_owned()
            }
            _ => {
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                return Err(ConsoleError::new(status, "content type is not supported", ""));
            }
        };
        // Compared as digests: the time of the comparison says nothing about the token.
        let digest = |text: &str| skillhost_files::sha256_hex(text.as_bytes());
        if digest(&given) != digest(&session.csrf) {
            return Err(foreign_error("the form belongs to another session"));
        }
    }
    let state = Arc::clone(state);
    parts.extensions.insert(Visit { state, session, cookie, query, form, json });
    Ok(Request::from_parts(parts, Body::empty()))
}

fn check_host(
    state: &ConsoleState,
    headers: &HeaderMap,
    authority: Option<&str>,
) -> Result<(), ConsoleError> {
    let own = &state.authority;
    let mut hosts = headers.get_all(header::HOST).iter();
    let is_own = |host: &HeaderValue| host.as_bytes().eq_ignore_ascii_case(own.as_bytes());
    let first = hosts.next().is_some_and(is_own);
    let target = authority.is_none_or(|target| target.eq_ignore_ascii_case(own));
    if first && target && hosts.next().is_none() {
        return Ok(());
    }
    let message = "this address does not belong to the console";
    let hint = format!("open the address that `{LOGIN_COMMAND}` prints");
    Err(ConsoleError::new(StatusCode::MISDIRECTED_REQUEST, message, hint))
}

fn check_origin(state: &ConsoleState, headers: &HeaderMap) -> Result<(), ConsoleError> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    // A missing origin is refused: every browser sends one with a form.
    let is_own = origins.next().is_some_and(|origin| origin.as_bytes() == state.origin.as_bytes());
    let site = header_text(headers, "sec-fetch-site");
    if is_own && origins.next().is_none() && matches!(site, "" | "same-origin") {
        return Ok(());
    }
    Err(foreign_error("the form was sent by another site"))
}

/// Checks that no page of another site reads what a program reads.
fn check_reader(headers: &HeaderMap, path: &str) -> Result<(), ConsoleError> {
    match header_text(headers, "sec-fetch-site") {
        "" | "same-origin" | "none" => Ok(()),
        _ if !path.starts_with(API) => Ok(()),
        _ => Err(foreign_error("the request was sent by another site")),
    }
}

/// Returns the session of the request's cookie, and the cookie.
fn find_session(state: &ConsoleState, headers: &HeaderMap) -> Option<(String, LoginSession)> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let own = pairs.filter(|(name, _)| name.trim() == state.cookie_name);
    // Another console of this name may have left a cookie; only one that is known counts.
    let mut found = own.filter_map(|(_, value)| {
        let session = state.logins.find_session(value.trim(), now_ms())?;
        Some((value.trim().to_owned(), session))
    });
    found.next()
}

fn content_type(headers: &HeaderMap) -> &str {
    header_text(headers, "content-type").split(';').next().unwrap_or_default().trim()
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn login_required_error() -> ConsoleError {
    let hint = format!("run `{LOGIN_COMMAND}` and open the address that it prints");
    ConsoleError::new(StatusCode::UNAUTHORIZED, "a login is required", hint)
}

fn foreign_error(message: &str) -> ConsoleError {
    ConsoleError::new(
        StatusCode::FORBIDDEN,
        message,
        "reload the page of the console and try again",
    )
}

fn too_large_error() -> ConsoleError {
    let message = format!("the text is too long: at most {} MiB are accepted", MAX_BODY >> 20);
    ConsoleError::new(StatusCode::PAYLOAD_TOO_LARGE, message, "shorten it")
}
