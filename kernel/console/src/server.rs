//! The listener of the console and its routes.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use futures::future::BoxFuture;
use skillhost_control::ConsoleAddress;
use skillhost_files::sha256_hex;
use skillhost_home::{Home, now_ms};
use skillhost_kernel::{ConsoleServer, Kernel};
use skillhost_payload::{CallError, ErrorKind};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::assets::serve_asset;
use crate::console_state::ConsoleState;
use crate::error::ConsoleError;
use crate::login_table::LoginTable;
use crate::pages;
use crate::request_guard::{LOGIN, guard_request};

/// The digits of a home's own name.
const NAME_DIGITS: usize = 8;

/// The web console of a kernel; it listens once it is started or opened.
#[derive(Default)]
pub struct WebConsole {
    running: Mutex<Option<Arc<ConsoleState>>>,
}

impl WebConsole {
    /// Returns the running console, which is started if necessary.
    async fn running(&self, kernel: Kernel) -> Result<Arc<ConsoleState>, CallError> {
        // Held while it starts: two requests at once must not bind twice.
        let mut running = self.running.lock().await;
        if let Some(state) = &*running {
            return Ok(Arc::clone(state));
        }
        let state = listen(kernel).await?;
        *running = Some(Arc::clone(&state));
        Ok(state)
    }
}

impl ConsoleServer for WebConsole {
    fn start(&self, kernel: Kernel) -> BoxFuture<'_, Result<String, CallError>> {
        Box::pin(async move { Ok(self.running(kernel).await?.origin.clone()) })
    }

    fn open(&self, kernel: Kernel) -> BoxFuture<'_, Result<ConsoleAddress, CallError>> {
        Box::pin(async move {
            let state = self.running(kernel).await?;
            let (token, expires_ms) = state.logins.issue_token(now_ms())?;
            Ok(ConsoleAddress { url: format!("{}{LOGIN}?token={token}", state.origin), expires_ms })
        })
    }
}

/// Listens and serves until the kernel shuts down.
async fn listen(kernel: Kernel) -> Result<Arc<ConsoleState>, CallError> {
    // Read at the start: a change of the address requires a restart of the kernel.
    let settings = kernel.extensions().settings().console.clone();
    let address = settings.listen_address();
    let failed = |error: io::Error| {
        let kind = match error.kind() {
            // Another console, or another program: the remedy is the same.
            io::ErrorKind::AddrInUse => ErrorKind::Conflict,
            _ => ErrorKind::Io,
        };
        let message = format!("the console cannot listen on {address}: {error}");
        let hint = "set `console.listen` in skillhost.yaml to a free address, or stop the program \
                    that uses this one";
        CallError::new(kind, message).with_hint(hint)
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    // The port may have been chosen by the system, so it is known only now.
    let name = home_name(kernel.home());
    let origin = match settings.public_origin {
        Some(origin) => origin,
        None => format!("http://{name}.localhost:{port}"),
    };
    // Behind a proxy requests name the public host, not the address of the listener.
    let authority = origin.split_once("://").map_or(&*origin, |(_, host)| host).to_owned();
    let stopping = kernel.shutdown_token();
    let state = Arc::new(ConsoleState {
        kernel,
        logins: LoginTable::default(),
        cookie_name: format!("skillhost_{name}"),
        authority,
        origin,
    });
    let served = axum::serve(listener, build_router(&state));
    tokio::spawn(async move {
        // Connections end with the process; those that follow replies end by themselves.
        let ended = stopping.run_until_cancelled(served.into_future()).await;
        if let Some(Err(error)) = ended {
            tracing::error!(%error, "the console has stopped");
        }
    });
    Ok(state)
}

/// Returns the name of a home among those of the machine: cookies ignore ports, so each home has a
/// host of its own.
fn home_name(home: &Home) -> String {
    let digest = sha256_hex(home.root().as_os_str().as_encoded_bytes());
    digest.chars().take(NAME_DIGITS).collect()
}

fn build_router(state: &Arc<ConsoleState>) -> Router {
    Router::new()
        .route(LOGIN, get(pages::login::show_login).post(pages::login::log_in))
        .route("/logout", post(pages::login::log_out))
        .route("/assets/{version}/{name}", get(serve_asset))
        .route("/", get(pages::overview::show_overview))
        .route("/inbox", get(pages::inbox::list_questions))
        .route("/inbox/{id}", get(pages::inbox::show_question).post(pages::inbox::decide_question))
        .route("/proposals", get(pages::proposals::list_proposals))
        .route("/threads", get(pages::threads::list_threads).post(pages::threads::start_thread))
        .route("/threads/{id}", get(pages::thread::show_thread).post(pages::thread::send_form))
        .route("/threads/{id}/cancel", post(pages::thread::cancel_reply))
        .route("/api/threads/{id}/events", get(pages::thread_api::follow_thread))
        .route("/api/threads/{id}/messages", post(pages::thread_api::send_message))
        .route("/api/changes", get(pages::thread_api::follow_changes))
        .route("/tasks", get(pages::tasks::list_tasks))
        .route("/tasks/{id}", get(pages::task::show_task))
        .route("/tasks/{id}/cancel", post(pages::task::cancel_task))
        .route("/tasks/{id}/retry", post(pages::task::retry_task))
        .route("/skills", get(pages::skills::list_skills))
        .route("/skills/{id}", get(pages::skill::show_skill))
        .route(
            "/skills/{id}/edit",
            get(pages::skill_editor::show_editor).post(pages::skill_editor::propose_change),
        )
        .route("/skills/{id}/versions/{number}", get(pages::skill_versions::show_version))
        .route(
            "/skills/{id}/versions/{number}/restore",
            post(pages::skill_versions::propose_restore),
        )
        .route("/events", get(pages::events::show_events))
        .route("/events/retry", post(pages::events::retry_delivery))
        .route("/schedules", get(pages::schedules::list_schedules))
        .route("/schedules/run", post(pages::schedules::run_schedule))
        .route("/extensions", get(pages::extensions::list_extensions))
        .route("/extensions/rollback", post(pages::extensions::roll_back))
        .route("/channels", get(pages::channels::list_channels))
        .route("/channels/pair", post(pages::channels::pair_person))
        .route("/channels/revoke", post(pages::channels::revoke_person))
        .route("/channels/test", post(pages::channels::send_test))
        .route("/settings", get(pages::settings::show_settings))
        .fallback(async || ConsoleError::not_found("this page"))
        .layer(from_fn_with_state(Arc::clone(state), guard_request))
        .with_state(Arc::clone(state))
}
