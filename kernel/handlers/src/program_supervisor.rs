//! The processes of programs: one per thread and program, started for its first call, stopped when
//! it is idle, and started again after a crash within limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::value::RawValue;
use skillhost_control::{ExitCause, RestartBackoff, RestartDecision, RestartLimits};
use skillhost_payload::{CallContext, CallError, ErrorKind, MAX_CALL_DEPTH};
use skillhost_sandbox::{IsolationReport, SandboxLauncher};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::call_scope::{CallScope, ToolInvoker};
use crate::error::ProgramError;
use crate::program_child::ProgramSpec;
use crate::running_program::{
    CallPermit, ProgramEnd, ProgramMetadata, ProgramResult, RunningProgram, SupervisionLimits,
};

/// The number of programs whose statements about themselves are kept.
const MAX_KNOWN: usize = 1024;

/// A program in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramKey {
    /// The session id of its calls.
    pub thread: String,
    /// The name of its tool.
    pub tool: String,
    /// The digest of the skill's files.
    pub tree: String,
    /// The digest of the policy.
    pub policy: String,
}

/// A call of a program.
pub struct ProgramCall {
    /// The arguments as JSON text.
    pub arguments: Box<RawValue>,
    /// The caller.
    pub context: CallContext,
    /// The way to tools; `None` without tools.
    pub tools: Option<Arc<dyn ToolInvoker>>,
    /// The only tools that the skill may call; `None` if it names none.
    pub allowed_tools: Option<Vec<String>>,
    /// The time limit, which includes the start of a process.
    pub limit: Duration,
}

/// The result of a call, and where it was made.
#[derive(Debug)]
pub struct ProgramReport {
    /// The result.
    pub result: ProgramResult,
    /// The isolation of the process.
    pub isolation: IsolationReport,
}

/// Makes the description of a process, for a program that does not run yet.
pub type SpecSource<'a> = BoxFuture<'a, Result<ProgramSpec, CallError>>;

/// The processes of all programs.
#[derive(Clone)]
pub struct ProgramSupervisor {
    shared: Arc<SupervisorState>,
}

struct SupervisorState {
    launcher: SandboxLauncher,
    limits: SupervisionLimits,
    restarts: RestartLimits,
    slots: Mutex<HashMap<ProgramKey, Arc<ProgramSlot>>>,
    /// What programs state about themselves, by tool and digest of the files.
    known: Mutex<HashMap<(String, String), ProgramMetadata>>,
    /// The number of processes.
    running: Arc<AtomicUsize>,
}

/// The present process of a program, and its crashes.
struct ProgramSlot {
    program: tokio::sync::Mutex<Option<Arc<RunningProgram>>>,
    crashes: Arc<Mutex<CrashHistory>>,
}

struct CrashHistory {
    backoff: RestartBackoff,
    limits: RestartLimits,
    /// The origin of the times of the backoff.
    started: Instant,
    latest: Option<CrashRecord>,
}

#[derive(Clone)]
struct CrashRecord {
    why: String,
    at: Instant,
    decision: RestartDecision,
}

/// A running program with a permit for one call.
type PermittedProgram = (Arc<RunningProgram>, CallPermit);

impl ProgramSupervisor {
    /// Creates a supervisor without processes.
    #[must_use]
    pub fn new(
        launcher: SandboxLauncher,
        limits: SupervisionLimits,
        restarts: RestartLimits,
    ) -> Self {
        let shared = SupervisorState {
            launcher,
            limits,
            restarts,
            slots: Mutex::default(),
            known: Mutex::default(),
            running: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Calls a program, in the process of its thread. Dropping the future cancels the call.
    ///
    /// Up to eight calls of one process run at the same time; further ones wait within their limit.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub async fn call(
        &self,
        key: ProgramKey,
        call: ProgramCall,
        spec: SpecSource<'_>,
    ) -> Result<ProgramReport, ProgramError> {
        let ProgramCall { arguments, mut context, tools, allowed_tools, limit } = call;
        if context.call_chain.len() >= MAX_CALL_DEPTH {
            return Err(ProgramError::TooDeep { depth: MAX_CALL_DEPTH });
        }
        let step = format!("program {}", key.tool);
        let is_nested = context.call_chain.contains(&step);
        // Before the call, so that every tool that the program calls in turn counts one deeper.
        context.call_chain.push(step);
        let deadline = Instant::now() + limit;
        // The start of a process and the wait for a permit are within the limit of the call.
        let calling = async {
            let (program, permit) = self.ensure_running(key, spec, deadline).await?;
            let skill = Arc::clone(&program.skill);
            let scope = CallScope { context, deadline, tools, allowed_tools, skill };
            let result = program.call(&permit, &arguments, scope, is_nested).await?;
            Ok(ProgramReport { result, isolation: program.isolation.clone() })
        };
        match timeout_at(deadline, calling).await {
            Ok(called) => called,
            Err(_) => Err(ProgramError::TimedOut { limit }),
        }
    }

    /// Loads a program and returns what it states about itself. Its process stays for calls.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub async fn load(
        &self,
        key: ProgramKey,
        limit: Duration,
        spec: SpecSource<'_>,
    ) -> Result<ProgramMetadata, ProgramError> {
        let deadline = Instant::now() + limit;
        match timeout_at(deadline, self.ensure_running(key, spec, deadline)).await {
            Ok(program) => Ok(program?.0.metadata.clone()),
            Err(_) => Err(ProgramError::TimedOut { limit }),
        }
    }

    /// Returns what a program stated about itself when it was loaded by this kernel. Runs nothing.
    #[must_use]
    pub fn known_metadata(&self, tool: &str, tree: &str) -> Option<ProgramMetadata> {
        lock(&self.shared.known).get(&(tool.to_owned(), tree.to_owned())).cloned()
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn running_count(&self) -> usize {
        self.shared.running.load(Ordering::Acquire)
    }

    /// Returns the process of a program, which is started if there is none.
    async fn ensure_running(
        &self,
        key: ProgramKey,
        spec: SpecSource<'_>,
        deadline: Instant,
    ) -> Result<PermittedProgram, ProgramError> {
        let slot = self.slot(&key);
        let mut program = slot.program.lock().await;
        if let Some(running) = &*program {
            // A new call is not lost with a process that is about to be ended.
            running.wait_until_settled().await;
            if let Some(permit) = running.begin_call() {
                return Ok((Arc::clone(running), permit));
            }
        }
        *program = None;
        slot.wait_for_restart(deadline).await?;
        let process = self.admit_process()?;
        let spec = spec.await.map_err(ProgramError::NotStarted)?;
        let crashes = Arc::clone(&slot.crashes);
        let on_end = move |end: &ProgramEnd| {
            if let ProgramEnd::Failed(error) = end {
                lock(&crashes).record(error);
            }
            drop(process);
        };
        let SupervisorState { launcher, limits, .. } = &*self.shared;
        let started = RunningProgram::start(launcher, &key.tool, spec, *limits, on_end).await;
        let (started, permit) = match started {
            Ok((started, permit)) => (Arc::new(started), permit),
            Err(error) => {
                // Other ends are recorded by the monitor of the process.
                if let ProgramError::Load(_) | ProgramError::InvalidResult(_) = &error {
                    lock(&slot.crashes).record(&error);
                }
                return Err(error);
            }
        };
        let mut known = lock(&self.shared.known);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert((key.tool, key.tree), started.metadata.clone());
        drop(known);
        *program = Some(Arc::clone(&started));
        Ok((started, permit))
    }

    /// Returns the slot of a program. Processes of other files of the same program are retired.
    fn slot(&self, key: &ProgramKey) -> Arc<ProgramSlot> {
        let mut slots = lock(&self.shared.slots);
        if let Some(slot) = slots.get(key) {
            return Arc::clone(slot);
        }
        slots.retain(|other, slot| {
            let is_outdated = other.thread == key.thread && other.tool == key.tool;
            if is_outdated {
                slot.retire();
            }
            !is_outdated && slot.is_used()
        });
        let limits = self.shared.restarts;
        let history = CrashHistory {
            backoff: RestartBackoff::new(limits),
            limits,
            started: Instant::now(),
            latest: None,
        };
        let slot = ProgramSlot {
            program: tokio::sync::Mutex::default(),
            crashes: Arc::new(Mutex::new(history)),
        };
        let slot = Arc::new(slot);
        slots.insert(key.clone(), Arc::clone(&slot));
        slot
    }

    /// Counts a process that is about to start; the process that is idle for the longest time is
    /// stopped if there are too many.
    fn admit_process(&self) -> Result<ProcessCount, ProgramError> {
        let (running, limit) = (&self.shared.running, self.shared.limits.processes);
        if running.fetch_add(1, Ordering::AcqRel) >= limit {
            let slots = lock(&self.shared.slots);
            let programs = slots.values().filter_map(|slot| slot.program.try_lock().ok()?.clone());
            let idle = programs.filter_map(|program| Some((program.idle_since()?, program)));
            match idle.min_by_key(|(since, _)| *since) {
                Some((_, longest)) => longest.retire(),
                None => {
                    running.fetch_sub(1, Ordering::AcqRel);
                    return Err(ProgramError::TooMany { count: limit });
                }
            }
        }
        Ok(ProcessCount { running: Arc::clone(running) })
    }
}

/// One process in the number of processes.
struct ProcessCount {
    running: Arc<AtomicUsize>,
}

impl Drop for ProcessCount {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ProgramSlot {
    /// Waits until the pause after a crash is over, if it is over before the deadline.
    async fn wait_for_restart(&self, deadline: Instant) -> Result<(), ProgramError> {
        let Some(CrashRecord { why, at, decision }) = lock(&self.crashes).latest.clone() else {
            return Ok(());
        };
        let until = match decision {
            RestartDecision::Restart(pause) => at + pause,
            RestartDecision::Stop(crashes) => {
                return Err(ProgramError::RestartLimit { why, crashes });
            }
        };
        if until >= deadline {
            let wait = until.saturating_duration_since(Instant::now());
            return Err(ProgramError::Paused { why, wait });
        }
        sleep_until(until).await;
        Ok(())
    }

    fn retire(&self) {
        // A slot whose program is being started is in use: its process stops when it is idle.
        if let Ok(program) = self.program.try_lock()
            && let Some(program) = &*program
        {
            program.retire();
        }
    }

    /// Returns whether the slot has a process, or crashes that count.
    fn is_used(&self) -> bool {
        let has_process = match self.program.try_lock() {
            Ok(program) => program.as_ref().is_some_and(|program| !program.has_ended()),
            Err(_) => true,
        };
        let history = lock(&self.crashes);
        let counts = |crash: &CrashRecord| crash.at.elapsed() < history.limits.within;
        has_process || history.latest.as_ref().is_some_and(counts)
    }
}

impl CrashHistory {
    fn record(&mut self, error: &ProgramError) {
        let now = Instant::now();
        let decision = self.backoff.record_exit(ExitCause::Crashed, now - self.started);
        let why = match error {
            ProgramError::Violation(violation) => format!("was ended: {violation}"),
            other => other.to_string(),
        };
        tracing::warn!(why, ?decision, "program of a skill ended");
        self.latest = Some(CrashRecord { why, at: now, decision });
    }
}

/// Locks a mutex; entries stay consistent even if another thread panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgramCall {
    /// Returns the arguments of a call, which must be an object.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`].
    pub fn parse_arguments(arguments: &str) -> Result<Box<RawValue>, CallError> {
        let invalid = |error: &dyn std::fmt::Display| {
            CallError::new(
                ErrorKind::InvalidArgument,
                format!("arguments are not a JSON object: {error}"),
            )
        };
        let parsed: Box<RawValue> =
            serde_json::from_str(arguments).map_err(|error| invalid(&error))?;
        match parsed.get().trim_start().starts_with('{') {
            true => Ok(parsed),
            false => Err(invalid(&"another value")),
        }
    }
}
