//! `skillhost stop`: stops the running kernel and waits for its end.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost_control::{
    ControlRequest, ControlResponse, KernelLock, RequestError, StopOutcome, SupervisorLock,
    send_request, socket_path,
};
use skillhost_home::Home;
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit, parse_answer};

/// The time limit of the shutdown; a kernel that exceeds its own limit of a minute is killed.
const STOP_LIMIT: Duration = Duration::from_secs(75);

/// The interval at which the locks are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Stops the running kernel, with its supervisor, and waits for the end of both.
///
/// # Errors
/// No kernel runs, or it does not end in time.
pub fn cmd_stop(session: &CliContext) -> CommandResult {
    let home = session.trusted_home()?;
    let socket = socket_path(&home, &session.environment);
    let output = session.output;
    let pid = session.block_on(Box::pin(stop_kernel(session, &home, socket.as_deref())))??;
    if output.json {
        output.print_json(&json!({ "stopped": true, "pid": pid }))?;
    } else {
        let process = pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
        output.print_line(format!("stopped the kernel of {}{process}", home.root().display()))?;
    }
    Ok(exit::OK)
}

/// Requests the shutdown and waits for the end of kernel and supervisor; returns the id of the
/// kernel's process, if it is known.
async fn stop_kernel(
    session: &CliContext,
    home: &Home,
    socket: Option<&Path>,
) -> Result<Option<u32>, CliError> {
    let began = Instant::now();
    let mut pid = KernelLock::holder(home).and_then(|holder| holder.pid);
    let (mut requested, mut seen) = (false, false);
    loop {
        // Under a supervisor the kernel may be between two starts; then the next one is asked.
        if !requested && let Some(reply) = request_stop(socket).await? {
            requested = true;
            pid = reply.or(pid);
            session.output.print_progress("stopping");
        }
        // A kernel whose data directory is not writable has no lock, but a socket.
        let has_socket = requested && socket.is_some_and(Path::exists);
        match is_running(home) || has_socket {
            false if requested || seen => return Ok(pid),
            false => return Err(no_kernel_error(home)),
            true if began.elapsed() > STOP_LIMIT => return Err(still_running_error(home, pid)),
            true => seen = true,
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Returns whether a kernel or its supervisor runs for a home.
fn is_running(home: &Home) -> bool {
    KernelLock::holder(home).is_some() || SupervisorLock::is_held(home)
}

/// Requests the shutdown; `None` if no kernel listens. The id of its process is absent if the kernel
/// ended before it replied.
async fn request_stop(socket: Option<&Path>) -> Result<Option<Option<u32>>, CliError> {
    let Some(socket) = socket else { return Ok(None) };
    match send_request(socket, &ControlRequest::Stop).await {
        Ok(ControlResponse::Done(answer)) => {
            Ok(Some(Some(parse_answer::<StopOutcome>(&answer)?.pid)))
        }
        Ok(ControlResponse::Failed(error)) => Err(error.into()),
        Err(error) if error.is_gone() => Ok(None),
        Err(RequestError::NoAnswer(_)) => Ok(Some(None)),
        Err(RequestError::NotSent(error)) => Err(CliError::io(socket, &error)),
        Err(error @ RequestError::Unreadable(_)) => Err(CliError::new(exit::IO, error.to_string())),
    }
}

/// Returns the error for a home without a running kernel.
fn no_kernel_error(home: &Home) -> CliError {
    let message = format!("no kernel runs for {}", home.root().display());
    CliError::new(exit::NOT_FOUND, message)
        .with_hint(format!("start one: {}", OperatorCommand::RunKernel))
}

fn still_running_error(home: &Home, pid: Option<u32>) -> CliError {
    let process = pid.map(|pid| format!(", process {pid},")).unwrap_or_default();
    let message = format!(
        "the kernel of {}{process} has not ended within {} s",
        home.root().display(),
        STOP_LIMIT.as_secs()
    );
    CliError::new(exit::CONFLICT, message).with_hint(format!("see: {}", OperatorCommand::ShowLogs))
}
