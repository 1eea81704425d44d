//! One request of a logged-in operator.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use maud::Markup;
use serde::de::DeserializeOwned;
use skillhost_control::ControlRequest;
use skillhost_home::Home;
use skillhost_kernel::{Kernel, control};
use skillhost_payload::{CallContext, CallError, CallOrigin, ErrorKind, ToolOutput};
use skillhost_tasks::TaskQueue;

use crate::console_state::ConsoleState;
use crate::error::ConsoleError;
use crate::form_fields::FormFields;
use crate::layout::{NavEntry, PageFrame, draw_csrf_field, draw_page};
use crate::login_table::LoginSession;

/// A request that the guard has admitted.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) state: Arc<ConsoleState>,
    pub(crate) session: LoginSession,
    /// The cookie of the session.
    pub(crate) cookie: String,
    pub(crate) query: FormFields,
    pub(crate) form: FormFields,
    /// The body of a JSON request.
    pub(crate) json: Arc<[u8]>,
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ConsoleError> {
        // The guard adds it to every request but those of the login.
        parts.extensions.remove::<Self>().ok_or_else(|| ConsoleError::not_found("this page"))
    }
}

impl Visit {
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.state.kernel
    }

    pub(crate) fn home(&self) -> &Home {
        self.kernel().home()
    }

    pub(crate) fn queue(&self) -> &TaskQueue {
        self.kernel().tasks().queue()
    }

    /// Returns the time of the store's clock, in milliseconds since 1970.
    pub(crate) async fn now_ms(&self) -> Result<u64, ConsoleError> {
        Ok(self.queue().store().now_ms().await.map_err(CallError::from)?)
    }

    /// Draws the hidden field of a form.
    pub(crate) fn csrf_field(&self) -> Markup {
        draw_csrf_field(&self.session.csrf)
    }

    /// Returns a page.
    pub(crate) async fn page(&self, entry: NavEntry, title: &str, body: &Markup) -> Response {
        self.page_with(StatusCode::OK, entry, title, body).await
    }

    /// Returns a page with a status.
    pub(crate) async fn page_with(
        &self,
        status: StatusCode,
        entry: NavEntry,
        title: &str,
        body: &Markup,
    ) -> Response {
        let waiting = self.kernel().tasks().status().await.open_questions;
        let csrf = &self.session.csrf;
        let page = draw_page(&PageFrame { title, entry, waiting, csrf, body });
        (status, page).into_response()
    }

    /// Sends a request to the kernel, as a program at the control socket does.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        request: ControlRequest,
    ) -> Result<T, ConsoleError> {
        let reply = control::execute_request(self.kernel(), request).await.map_err(|error| {
            let (kind, message, hint) = (error.kind(), error.to_string(), error.hint());
            CallError { kind, message, hint }
        })?;
        serde_json::from_str(reply.get()).map_err(|error| CallError::protocol_error(&error).into())
    }

    /// Calls a tool on behalf of the operator.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &serde_json::Value,
    ) -> Result<ToolOutput, ConsoleError> {
        let context = CallContext {
            session_id: "console".to_owned(),
            turn_id: "tool-call".to_owned(),
            origin: CallOrigin::Operator,
            ..CallContext::default()
        };
        let (context, arguments) = (Box::new(context), arguments.to_string());
        let request = ControlRequest::Invoke { context, tool: tool.to_owned(), arguments };
        self.request(request).await
    }
}

/// Runs work that waits for the disk on a thread for it.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ConsoleError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| CallError::new(ErrorKind::Panicked, error.to_string()).into())
}

/// Returns the response after a form was accepted: the browser gets another page, so that a reload
/// sends nothing again.
pub(crate) fn redirect_to(path: &str) -> Response {
    // Paths are encoded, so they are always valid.
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}
