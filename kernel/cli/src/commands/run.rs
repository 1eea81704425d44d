//! `skillhost run`: services until Ctrl-C, one line per event.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use skillhost_control::{KernelLock, KernelLockError, socket_path};
use skillhost_events::topic;
use skillhost_files::{LogLimits, RotatedLog};
use skillhost_home::Home;
use skillhost_kernel::Kernel;
use skillhost_kernel::control::ControlServer;
use skillhost_payload::{Event, OperatorCommand};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, Output, display_safe, exit, queue,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;

use super::event_text::format_payload;
use super::ext::print_load_report;
use crate::kernel_session::with_kernel;

/// The time limit for a kernel's shutdown, in all.
const END_LIMIT: Duration = Duration::from_secs(60);

pub(super) fn cmd_run(session: &CliContext, args: &crate::cli::RunArgs) -> CommandResult {
    // A slow or absent reader of the output must not block the kernel.
    queue::install(session.output.json);
    let home = session.trusted_home()?;
    let workspaces = skillhost_chat::resolve_workspace_args(session, &home, &args.workspaces)?;
    // Before extensions are loaded: two kernels of one home would work on the same data.
    let _lock = lock_home(session, &home)?;
    open_log_file(session, &home);
    with_kernel(session, move |kernel| {
        Box::pin(async move {
            kernel.agents().set_workspaces(workspaces);
            let output = session.output;
            // Before the services start: no event is missed, and no two kernels serve one home.
            let mut events = kernel.events().subscribe_all();
            // Installed before the first output, so that every signal after it shuts down in order. Up
            // to here a signal ends the process at once.
            guard_end()?;
            let mut interrupted = signal(SignalKind::interrupt())?;
            let mut terminated = signal(SignalKind::terminate())?;
            let control = bind_control_socket(session, &kernel).await?;
            stop_on_request(&kernel);
            kernel.publish_restart_outcome().await;
            // Dead letters are loaded before a client can list them, and services find their
            // subscribers when they publish.
            kernel.start_event_delivery().await?;
            let control = tokio::spawn(control.serve(kernel.clone()));
            kernel.start_services().await;
            kernel.start_schedules();
            kernel.follow_configuration().await;
            announce(output, &kernel)?;
            serve_console(output, &kernel).await;
            tracing::info!(pid = std::process::id(), "kernel started");
            let restart = loop {
                tokio::select! {
                    biased;
                    _ = interrupted.recv() => break false,
                    _ = terminated.recv() => break false,
                    event = events.recv() => print(output, event)?,
                    () = kernel.wait_for_restart_request() => break true,
                }
            };
            output.print_note(if restart { "restarting" } else { "shutting down" });
            tracing::info!(restart, "kernel shuts down");
            // Runs may still publish events, so the loop keeps printing during the drain.
            let mut rest = pin!(kernel.drain_runs());
            let restart = loop {
                tokio::select! {
                    biased;
                    // A shutdown takes precedence over a restart and does not wait for one.
                    _ = interrupted.recv() => break false,
                    _ = terminated.recv() => break false,
                    event = events.recv() => print(output, event)?,
                    () = &mut rest => break restart,
                }
            };
            // Aborted only now: clients of draining runs receive their replies through it.
            control.abort();
            Ok(if restart { exit::RESTART } else { exit::OK })
        })
    })
}

/// Makes this process the kernel of a home. A home whose data directory cannot be written has no
/// lock, and its kernel still runs.
fn lock_home(session: &CliContext, home: &Home) -> Result<Option<KernelLock>, CliError> {
    match KernelLock::acquire(home) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ KernelLockError::Held { .. }) => Err(error.into()),
        Err(error @ KernelLockError::Io { .. }) => {
            session.output.print_note(format!("a second kernel would not be noticed: {error}"));
            Ok(None)
        }
    }
}

/// Opens the log file; a kernel without one still runs.
fn open_log_file(session: &CliContext, home: &Home) {
    let path = home.log_file();
    match RotatedLog::open(&path, LogLimits::default()) {
        Ok(log) => queue::install_log_file(log),
        Err(error) => session
            .output
            .print_note(format!("{}: {error}; the log goes to stderr only", path.display())),
    }
}

/// Shuts this process down when a client requests it, in the same way as for a signal.
fn stop_on_request(kernel: &Kernel) {
    let kernel = kernel.clone();
    tokio::spawn(async move {
        kernel.wait_for_stop_request().await;
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    });
}

/// Kills this process if it does not shut down in time: extension code that never returns cannot be
/// ended otherwise. Runs on a thread and a runtime of its own, which no other task can block.
fn guard_end() -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = async {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        // The regular shutdown normally ends the process before this delay.
        tokio::time::sleep(END_LIMIT).await;
        tracing::error!("the kernel did not end within {} s; it is killed", END_LIMIT.as_secs());
        queue::flush(Duration::from_millis(100));
        rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)?;
        Ok::<_, std::io::Error>(())
    };
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        // Without signal handlers the guard has no trigger.
        let _ = runtime.block_on(guard);
    })?;
    Ok(())
}

/// Binds the control socket; a second `run` for the same home would poll and write concurrently.
async fn bind_control_socket(
    session: &CliContext,
    kernel: &Kernel,
) -> Result<ControlServer, CliError> {
    let path = socket_path(kernel.home(), &session.environment).ok_or_else(|| {
        CliError::new(exit::IO, "neither XDG_RUNTIME_DIR, XDG_STATE_HOME nor HOME is set")
    })?;
    ControlServer::bind(&path).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let home = kernel.home().root().display();
            CliError::new(exit::CONFLICT, format!("skillhost already runs for {home}"))
                .with_hint(format!("see: {}", OperatorCommand::ShowStatus))
        }
        _ => CliError::io(&path, &error)
            .with_hint("XDG_RUNTIME_DIR has to name a directory of yours that may be written to"),
    })
}

/// Starts the web console if the settings enable it. A kernel whose console cannot listen still runs.
async fn serve_console(output: Output, kernel: &Kernel) {
    if !kernel.extensions().settings().console.enabled {
        return;
    }
    match kernel.start_console().await {
        Ok(address) => output.print_note(format!(
            "console on {address}; log in with the address of `skillhost console`"
        )),
        Err(error) => {
            tracing::error!(%error, "the console is not served");
            output.print_note(format!("the console is not served: {error}; {}", error.hint));
        }
    }
}

fn announce(output: Output, kernel: &Kernel) -> Result<(), CliError> {
    let report = kernel.report();
    if output.json {
        return output.print_json(&json!({
            "event": "kernel.started",
            "pid": std::process::id(),
            "report": *report,
        }));
    }
    print_load_report(output, &report)?;
    output.print_line("running; Ctrl-C ends it")
}

fn print(output: Output, event: Result<Arc<Event>, RecvError>) -> Result<(), CliError> {
    match event {
        Ok(event) => print_event(output, &event),
        // The event channel is bounded; a slow output loses events instead of blocking the kernel.
        Err(RecvError::Lagged(missed)) => {
            output.print_note(format!("{missed} events were dropped"));
            Ok(())
        }
        // The kernel outlives this loop and holds the sender.
        Err(RecvError::Closed) => Ok(()),
    }
}

fn print_event(output: Output, event: &Event) -> Result<(), CliError> {
    let mut payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    // Extensions may order fields freely; printed lines have a fixed order.
    payload.sort_all_objects();
    if output.json {
        return output.print_json(&json!({
            "event": event.topic,
            "source": event.source,
            "payload": payload,
        }));
    }
    let text = |key: &str| payload[key].as_str().unwrap_or_default();
    let line = match event.topic.as_str() {
        topic::NOTICE => text("text").to_owned(),
        topic::RESTART_REQUESTED => format!("asks for a restart: {}", text("text")),
        topic => format!("{topic} {}", format_payload(&payload)),
    };
    output.print_line(format!(
        "{DIM}{}{DIM:#} {}",
        display_safe(&event.source),
        display_safe(&line)
    ))
}
