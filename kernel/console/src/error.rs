//! Errors of requests, as pages and as JSON.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use skillhost_payload::{CallError, ErrorKind};

use crate::layout::{draw_bare_page, draw_brand};
use crate::visible_text::draw_error_text;

/// The command that prints an address for a login.
pub(crate) const LOGIN_COMMAND: &str = "skillhost console";

/// An error of a request, with the status that its response has.
#[derive(Debug)]
pub(crate) struct ConsoleError {
    status: StatusCode,
    message: String,
    hint: String,
}

/// The response to a request, or its error.
pub(crate) type PageResult = Result<Response, ConsoleError>;

impl ConsoleError {
    pub(crate) fn new(
        status: StatusCode,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status, message: message.into(), hint: hint.into() }
    }

    /// Creates the error of a page or a row that does not exist.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{what} not found"), "go back to the overview")
    }

    /// Replaces the next step if a row does not exist.
    pub(crate) fn with_hint_if_not_found(self, hint: &str) -> Self {
        match self.status {
            StatusCode::NOT_FOUND => Self { hint: hint.to_owned(), ..self },
            _ => self,
        }
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the next step.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

impl From<CallError> for ConsoleError {
    fn from(error: CallError) -> Self {
        let status = match error.kind {
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, message: error.message, hint: error.hint }
    }
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        let Self { status, message, hint } = &self;
        let body = html! {
            (draw_brand())
            h1 { (status.canonical_reason().unwrap_or("Error")) }
            p.sentence { (draw_error_text(message)) }
            @if !hint.is_empty() { p.hint.sentence { (draw_error_text(hint)) } }
            p { a.button href="/" { "Go to the overview" } }
        };
        let page = draw_bare_page(status.canonical_reason().unwrap_or("Error"), &body);
        (*status, page).into_response()
    }
}
