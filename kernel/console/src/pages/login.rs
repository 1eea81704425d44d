//! The login: a page with a button, so that a prefetch uses no token, and the logout.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use maud::html;
use skillhost_home::now_ms;
use skillhost_payload::{CallError, ErrorKind};

use crate::console_state::ConsoleState;
use crate::error::{ConsoleError, LOGIN_COMMAND, PageResult};
use crate::layout::draw_bare_page;
use crate::login_table::SESSION_MS;
use crate::request_guard::{LOGIN, LoginForm};
use crate::visit::{Visit, redirect_to};

/// Shows the button that logs in. The token is not looked up: this changes nothing.
pub(crate) async fn show_login(Extension(LoginForm(query)): Extension<LoginForm>) -> PageResult {
    let token = query.get("token");
    if token.is_empty() {
        let hint = format!("run `{LOGIN_COMMAND}` and open the address that it prints");
        return Err(ConsoleError::new(StatusCode::UNAUTHORIZED, "a login is required", hint));
    }
    let body = html! {
        h1 { "skillhost" }
        p { "This address opens the console of your kernel once. You can do there what you can do \
             in a terminal." }
        form method="post" action=(LOGIN) {
            input type="hidden" name="token" value=(token);
            button.primary type="submit" { "Open the console" }
        }
    };
    Ok(draw_bare_page("Log in", &body).into_response())
}

/// Opens a session with a token.
pub(crate) async fn log_in(
    State(state): State<Arc<ConsoleState>>,
    Extension(LoginForm(form)): Extension<LoginForm>,
) -> PageResult {
    let Some(cookie) = state.logins.redeem_token(form.get("token"), now_ms())? else {
        let hint =
            format!("run `{LOGIN_COMMAND}` again: an address works once, within two minutes");
        let message = "this address was used before, or is too old";
        return Err(ConsoleError::new(StatusCode::UNAUTHORIZED, message, hint));
    };
    with_cookie(&state, &cookie, SESSION_MS / 1000)
}

/// Ends the session of the request; with `all`, every session.
pub(crate) async fn log_out(visit: Visit) -> PageResult {
    match visit.form.get("all") {
        "1" => visit.state.logins.close_all(),
        _ => visit.state.logins.close_session(&visit.cookie),
    }
    with_cookie(&visit.state, "", 0)
}

fn with_cookie(state: &ConsoleState, cookie: &str, seconds: u64) -> PageResult {
    let secure = if state.is_public() { "; Secure" } else { "" };
    let name = &state.cookie_name;
    let line =
        format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    let line = HeaderValue::from_str(&line)
        .map_err(|error| CallError::new(ErrorKind::Failed, error.to_string()))?;
    let mut response: Response = redirect_to("/");
    response.headers_mut().insert(SET_COOKIE, line);
    Ok(response)
}
