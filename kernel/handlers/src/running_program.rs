//! One process of a program, from its start to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use skillhost_payload::CallContext;
use skillhost_sandbox::{IsolationReport, SandboxLauncher};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::call_scope::{CallScope, ProgramSkill};
use crate::error::ProgramError;
use crate::program_channel::{ProgramChannel, RequestError};
use crate::program_child::{ProgramChild, ProgramSpec};
use crate::program_log::ProgramLog;
use crate::protocol::{WireError, is_nested_too_deep};

/// The number of calls of one process at the same time; further ones wait. A program that calls
/// itself does not wait for its own end.
const MAX_CALLS: usize = 8;

/// The maximum length of a description that a program states, in characters.
const MAX_DESCRIPTION: usize = 1024;

/// The maximum size of a schema, in bytes: it is part of each model request.
const MAX_SCHEMA: usize = 64 * 1024;

/// The timeout for the exit after the channel was closed, and for the reason of an exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
const EXIT_REASON_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that the last lines of output have to reach the log.
const LOG_TIMEOUT: Duration = Duration::from_millis(100);

/// The limits of the supervision of programs.
#[derive(Debug, Clone, Copy)]
pub struct SupervisionLimits {
    /// The time without a call after which a process is stopped.
    pub idle: Duration,
    /// The time that a cancelled call has to end before its process is ended.
    pub grace: Duration,
    /// The number of processes at the same time. The one that is idle for the longest time makes
    /// room.
    pub processes: usize,
}

impl Default for SupervisionLimits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), grace: Duration::from_secs(2), processes: 32 }
    }
}

/// What a program states about itself, once it is loaded. Each statement overrides SKILL.md.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramMetadata {
    /// The form of its export.
    #[serde(default)]
    pub form: ProgramForm,
    /// The name, for people; the name of the tool stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// The form of the export of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramForm {
    /// A function of arguments and context.
    #[default]
    Function,
    /// An object or a class with `invoke`.
    Tool,
}

/// The result of a call of a program.
#[derive(Debug, Deserialize)]
pub struct ProgramResult {
    /// The result, as JSON text.
    pub result: Box<RawValue>,
    /// The sources of the result, as JSON text.
    #[serde(default)]
    pub evidence: Option<Box<RawValue>>,
    /// Anything else, as JSON text.
    #[serde(default)]
    pub metadata: Option<Box<RawValue>>,
}

/// A process whose program is loaded.
pub(crate) struct RunningProgram {
    pub(crate) isolation: IsolationReport,
    pub(crate) metadata: ProgramMetadata,
    pub(crate) skill: Arc<ProgramSkill>,
    monitored: Arc<MonitoredProgram>,
}

/// The part of a running program that its monitor shares.
struct MonitoredProgram {
    channel: ProgramChannel,
    calls: Mutex<CallCount>,
    /// Notified when the last open call has ended.
    quiet: Notify,
    free: Semaphore,
    stop: CancellationToken,
    /// Set when the process is not used any more: it ends after its last call.
    retired: CancellationToken,
    ended: watch::Receiver<Option<ProgramEnd>>,
}

struct CallCount {
    open: usize,
    last_used: Instant,
    /// No call may begin any more.
    closed: bool,
}

/// The end of a process.
#[derive(Debug, Clone)]
pub(crate) enum ProgramEnd {
    /// The kernel ended it, or it was idle.
    Stopped,
    /// It ended, or it had to be ended.
    Failed(ProgramError),
}

/// A call that keeps its process from being idle.
pub(crate) struct CallPermit {
    monitored: Arc<MonitoredProgram>,
}

#[derive(Serialize)]
struct LoadParams<'a> {
    entry: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgramCallParams<'a> {
    arguments: &'a RawValue,
    request_id: String,
    task_id: &'a str,
    trace_id: &'a str,
    user_id: &'a str,
    tools: bool,
    skill: &'a ProgramSkill,
}

impl RunningProgram {
    /// Starts a process and loads its program; returns it with the permit for its first call.
    /// Dropping the future ends the process.
    ///
    /// # Errors
    /// The cause. The process has been ended then.
    pub(crate) async fn start(
        launcher: &SandboxLauncher,
        tool: &str,
        spec: ProgramSpec,
        limits: SupervisionLimits,
        on_end: impl FnOnce(&ProgramEnd) + Send + 'static,
    ) -> Result<(Self, CallPermit), ProgramError> {
        let log_limit =
            spec.policy.limits.output_kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
        let log = ProgramLog::new(tool, log_limit);
        let started = ProgramChild::start(launcher, &spec, &log).await;
        let (child, socket) = started.map_err(ProgramError::NotStarted)?;
        let isolation = child.isolation.clone();
        let (read, write) = socket.into_split();
        let (sender, ended) = watch::channel(None);
        let monitored = Arc::new(MonitoredProgram {
            channel: ProgramChannel::new(read, write, limits.grace),
            // The load counts as a call: a process is not idle before its first one.
            calls: Mutex::new(CallCount { open: 1, last_used: Instant::now(), closed: false }),
            quiet: Notify::new(),
            free: Semaphore::new(MAX_CALLS),
            stop: CancellationToken::new(),
            retired: CancellationToken::new(),
            ended,
        });
        let skill = Arc::clone(&spec.skill);
        let entry = spec.entry.display().to_string();
        let monitor = ProgramMonitor {
            child,
            log,
            grace: limits.grace,
            idle: limits.idle,
            monitored: Arc::clone(&monitored),
        };
        let kept = spec.kept;
        tokio::spawn(async move {
            let end = monitor.run().await;
            on_end(&end);
            sender.send_replace(Some(end));
            // Only after the end of the process, which uses it.
            drop(kept);
        });
        let permit = CallPermit { monitored: Arc::clone(&monitored) };
        let metadata = ProgramMetadata::default();
        let mut running = Self { isolation, metadata, skill, monitored };
        running.metadata = running.load(&entry).await?;
        Ok((running, permit))
    }

    async fn load(&self, entry: &str) -> Result<ProgramMetadata, ProgramError> {
        let params = LoadParams { entry };
        match self.monitored.channel.request("program/load", &params, None).await {
            Ok(loaded) => parse_metadata(&loaded),
            Err(RequestError::Reported(error)) => Err(ProgramError::Load(error.into_call_error())),
            Err(RequestError::Closed | RequestError::TooLong) => {
                Err(self.monitored.end_error().await)
            }
        }
    }

    /// Registers a call, or returns `None` if the process is about to end.
    pub(crate) fn begin_call(&self) -> Option<CallPermit> {
        let mut calls = self.monitored.calls();
        if calls.closed || self.monitored.channel.is_closed() || self.has_ended() {
            return None;
        }
        calls.open += 1;
        Some(CallPermit { monitored: Arc::clone(&self.monitored) })
    }

    /// Waits until it is known whether the process ends because of a cancelled call, and, if its
    /// connection is closed, until it has ended and a crash is recorded.
    pub(crate) async fn wait_until_settled(&self) {
        let MonitoredProgram { channel, ended, .. } = &*self.monitored;
        channel.wait_until_settled().await;
        if channel.is_closed() {
            // An error means that its monitor is gone.
            let _ = ended.clone().wait_for(Option::is_some).await;
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.monitored.ended.borrow().is_some()
    }

    /// Returns the time of the end of the latest call, or `None` while calls are open and once the
    /// process is about to end.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let calls = self.monitored.calls();
        let is_idle = calls.open == 0 && !calls.closed && !self.monitored.retired.is_cancelled();
        is_idle.then_some(calls.last_used)
    }

    /// Calls the program.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub(crate) async fn call(
        &self,
        _permit: &CallPermit,
        arguments: &RawValue,
        scope: CallScope,
        is_nested: bool,
    ) -> Result<ProgramResult, ProgramError> {
        // A call of the program by itself would wait for its own end.
        let _free = match is_nested {
            true => None,
            // The semaphore is never closed.
            false => self.monitored.free.acquire().await.ok(),
        };
        let scope = Arc::new(scope);
        let context = &scope.context;
        let params = ProgramCallParams {
            arguments,
            request_id: context.call_id.to_string(),
            task_id: &context.session_id,
            trace_id: context.correlation_id.as_deref().unwrap_or(&context.turn_id),
            user_id: caller_name(context),
            tools: scope.tools.is_some(),
            skill: &scope.skill,
        };
        let request =
            self.monitored.channel.request("program/call", &params, Some(Arc::clone(&scope)));
        match request.await {
            Ok(result) => parse_result(&result),
            Err(RequestError::Reported(error)) => {
                Err(ProgramError::Reported(error.into_call_error()))
            }
            Err(RequestError::TooLong) => Err(ProgramError::LongArguments),
            Err(RequestError::Closed) => Err(self.monitored.end_error().await),
        }
    }

    /// Ends the process after its last call.
    pub(crate) fn retire(&self) {
        self.monitored.retired.cancel();
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.monitored.stop.cancel();
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut calls = self.monitored.calls();
        calls.open -= 1;
        calls.last_used = Instant::now();
        if calls.open == 0 {
            self.monitored.quiet.notify_one();
        }
    }
}

impl MonitoredProgram {
    fn calls(&self) -> MutexGuard<'_, CallCount> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the process was idle for a time; then no call begins any more.
    async fn wait_until_idle(&self, idle: Duration) {
        loop {
            let quiet = self.quiet.notified();
            let until = {
                let mut calls = self.calls();
                let until = calls.last_used + idle;
                let is_over = until <= Instant::now() || self.retired.is_cancelled();
                if calls.open == 0 && is_over {
                    calls.closed = true;
                    return;
                }
                (calls.open == 0).then_some(until)
            };
            match until {
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.retired.cancelled() => {}
                },
                None => quiet.await,
            }
        }
    }

    /// Returns the error of a call whose process has ended.
    async fn end_error(&self) -> ProgramError {
        // The channel closes before the monitor knows the reason.
        let mut ended = self.ended.clone();
        let end = timeout(EXIT_REASON_TIMEOUT, ended.wait_for(Option::is_some)).await;
        match end.ok().and_then(Result::ok).and_then(|end| end.clone()) {
            Some(ProgramEnd::Failed(error)) => error,
            Some(ProgramEnd::Stopped) => ProgramError::Stopped,
            None => ProgramError::Exited { how: "ended".to_owned() },
        }
    }
}

/// The task that waits for the end of a process, and ends it where necessary.
struct ProgramMonitor {
    child: ProgramChild,
    log: ProgramLog,
    grace: Duration,
    idle: Duration,
    monitored: Arc<MonitoredProgram>,
}

impl ProgramMonitor {
    async fn run(mut self) -> ProgramEnd {
        let channel = self.monitored.channel.clone();
        let end = tokio::select! {
            // A violation is the reason, also if the process has ended in the meantime.
            biased;
            () = channel.wait_until_closed() => match channel.violation() {
                Some(violation) => Ok(ProgramEnd::Failed(violation.into())),
                None => match timeout(EXIT_TIMEOUT, self.child.wait()).await {
                    Ok(how) => Err(how),
                    Err(_) => Err("closed descriptor 3".to_owned()),
                },
            },
            how = self.child.wait() => Err(how),
            () = channel.wait_until_stuck() => Err(format!(
                "was ended, because a cancelled call did not end within {} ms",
                self.grace.as_millis()
            )),
            () = self.monitored.wait_until_idle(self.idle) => Ok(ProgramEnd::Stopped),
            () = self.monitored.stop.cancelled() => Ok(ProgramEnd::Stopped),
        };
        self.monitored.calls().closed = true;
        // Wakes those that wait for the process to settle.
        channel.close();
        self.child.end().await;
        match end {
            Ok(end) => end,
            Err(how) => {
                // The pipes are closed, so the readers of the output are about to end.
                tokio::time::sleep(LOG_TIMEOUT).await;
                let lines = self.log.recent_lines();
                let how = match lines.is_empty() {
                    true => how,
                    false => format!("{how}\nlast lines of its output:\n{}", lines.join("\n")),
                };
                ProgramEnd::Failed(ProgramError::Exited { how })
            }
        }
    }
}

/// Returns the name of the caller, for `ctx.userId`.
fn caller_name(context: &CallContext) -> &str {
    match context.agent_id.as_str() {
        "" => "operator",
        agent => agent,
    }
}

fn parse_metadata(loaded: &RawValue) -> Result<ProgramMetadata, ProgramError> {
    let invalid = |error: String| ProgramError::InvalidResult(format!("program/load: {error}"));
    let mut metadata: ProgramMetadata =
        serde_json::from_str(loaded.get()).map_err(|error| invalid(error.to_string()))?;
    // Both are shown to models and to people.
    let shorten = |text: String| {
        let text: String = text.chars().take(MAX_DESCRIPTION).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    metadata.name = metadata.name.map(shorten).filter(|name| !name.is_empty());
    metadata.description = metadata.description.map(shorten).filter(|text| !text.is_empty());
    if let Some(schema) = &metadata.schema
        && schema.to_string().len() > MAX_SCHEMA
    {
        return Err(invalid(format!("the schema has more than {MAX_SCHEMA} bytes")));
    }
    // A schema of something else than an object, such as a union, cannot describe arguments.
    metadata.schema =
        metadata.schema.filter(|schema| schema.get("type").is_some_and(|kind| kind == "object"));
    Ok(metadata)
}

fn parse_result(result: &RawValue) -> Result<ProgramResult, ProgramError> {
    if is_nested_too_deep(result.get()) {
        let error = WireError {
            kind: "too_large".to_owned(),
            message: "the result is nested too deep".to_owned(),
            hint: String::new(),
        };
        return Err(ProgramError::Reported(error.into_call_error()));
    }
    serde_json::from_str(result.get())
        .map_err(|error| ProgramError::InvalidResult(error.to_string()))
}
