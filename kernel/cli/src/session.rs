//! The context of a command: the home, its settings, a kernel.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use skillhost_builder::CargoExtensionBuilder;
use skillhost_kernel::control::{self, ControlRequest, ControlResponse, RequestError, socket_path};
use skillhost_kernel::supervision::SupervisorLock;
use skillhost_kernel::{
    BootOptions, Environment, Home, HomeError, Kernel, LoadedSettings, Settings,
};
use skillhost_models::{ModelRegistry, home_keys, keys_of_environment};
use skillhost_process::ProcessSupervisor;

use crate::cli::GlobalArgs;
use crate::commands::{SupervisorLink, is_supervised};
use crate::error::CliError;
use crate::exit;
use crate::output::Output;

/// The global arguments together with the environment.
pub(crate) struct CliContext {
    pub(crate) output: Output,
    pub(crate) environment: Environment,
    home_argument: Option<PathBuf>,
    trust_home: bool,
}

impl CliContext {
    pub(crate) fn new(global: &GlobalArgs) -> Result<Self, CliError> {
        Ok(Self {
            output: Output { json: global.json },
            environment: Environment::from_process().map_err(|error| {
                CliError::new(exit::IO, format!("the working directory: {error}"))
                    .with_hint("change to a directory that exists")
            })?,
            home_argument: global.home.clone(),
            trust_home: global.trust_home,
        })
    }

    /// Returns the home, trusted or not, for commands that load no extensions. An untrusted home is
    /// marked as such.
    pub(crate) fn home(&self) -> Result<Home, CliError> {
        let home = Home::find(self.home_argument.as_deref(), &self.environment)?;
        // An unusable record grants no trust; commands that require trust report the reason.
        let trusted = self.trust_home || home.require_trust(&self.environment).is_ok();
        Ok(if trusted { home } else { home.into_untrusted() })
    }

    /// Returns the home if it is trusted.
    pub(crate) fn trusted_home(&self) -> Result<Home, CliError> {
        let home = Home::find(self.home_argument.as_deref(), &self.environment)?;
        if !self.trust_home {
            home.require_trust(&self.environment)?;
        }
        Ok(home)
    }

    /// Returns the home as [`CliContext::trusted_home`] does, or `None` if no home is named or
    /// found.
    pub(crate) fn find_trusted_home(&self) -> Result<Option<Home>, CliError> {
        match Home::find(self.home_argument.as_deref(), &self.environment) {
            // Only a missing home is optional; an untrusted or broken one is an error.
            Err(HomeError::NotFound) => Ok(None),
            _ => self.trusted_home().map(Some),
        }
    }

    /// Sends a request to the home's running kernel, or to a new one if none runs. The running
    /// kernel knows more (the last valid text of a skill broken since).
    pub(crate) fn request_from_kernel<T: DeserializeOwned>(
        &self,
        request: ControlRequest,
    ) -> Result<T, CliError> {
        match self.try_running_kernel(&self.trusted_home()?, &request)? {
            Some(answer) => Ok(answer),
            None => parse_answer(&self.with_kernel(async |kernel| {
                Ok(control::execute_request(kernel, request).await?)
            })?),
        }
    }

    /// Sends a request as [`CliContext::request_from_kernel`] does; `None` if no kernel runs.
    pub(crate) fn try_running_kernel<T: DeserializeOwned>(
        &self,
        home: &Home,
        request: &ControlRequest,
    ) -> Result<Option<T>, CliError> {
        // Without the file the runtime for the connection is not needed.
        let Some(path) = socket_path(home, &self.environment).filter(|path| path.exists()) else {
            return Ok(None);
        };
        // A kernel never runs for an untrusted home.
        if home.is_untrusted() {
            return Ok(None);
        }
        self.block_on(ask_kernel(&path, home, request, false))?
    }

    pub(crate) fn settings(&self, home: &Home) -> Result<LoadedSettings, CliError> {
        Ok(Settings::load_home(home)?)
    }

    /// Returns the models in the settings of a home. Requests require a trusted home: its settings
    /// decide where keys are sent. The `.env` of an untrusted home is not read.
    pub(crate) fn models(&self, home: &Home, settings: &Settings) -> ModelRegistry {
        let (keys, note) = match home.is_untrusted() {
            true => (keys_of_environment(), None),
            false => home_keys(home.root()),
        };
        if let Some(note) = note {
            self.output.print_note(note);
        }
        ModelRegistry::new(settings.models.clone(), home.root(), keys)
    }

    /// Boots a kernel for a trusted home, runs `work`, and shuts the kernel down.
    pub(crate) fn with_kernel<T>(
        &self,
        work: impl AsyncFnOnce(&Kernel) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let home = self.trusted_home()?;
        let settings = self.settings(&home)?.settings;
        let settings_file = Some(home.settings_file());
        let models = Arc::new(self.models(&home, &settings));
        let supervised = is_supervised();
        let supervisor = SupervisorLink::of_this_process();
        if let Some(supervisor) = supervisor {
            supervisor.alive();
        }
        let processes = Arc::new(ProcessSupervisor::default());
        let build = settings.build.clone();
        let options = BootOptions::new(home, settings);
        let builder =
            CargoExtensionBuilder::new(&options.home, build, options.installation.as_ref());
        let builder = Arc::new(builder);
        let options =
            BootOptions { settings_file, models, processes, supervised, builder, ..options };
        let result = self.block_on(async {
            // On a thread of the runtime: the heartbeat stops if all of them are blocked.
            let signs = supervisor.map(|link| tokio::spawn(link.stay_alive()));
            let kernel = Kernel::boot(options).await;
            // An error of `work` is returned only after the shutdown, which extensions rely on.
            let result = work(&kernel).await;
            kernel.shutdown().await;
            if let Some(signs) = signs {
                signs.abort();
            }
            result
        });
        result?
    }

    /// Runs asynchronous work; tasks that still block a thread afterwards are abandoned.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("skillhost")
            .enable_all()
            .build()?;
        let result = runtime.block_on(work);
        // Blocking threads, such as one that reads the terminal, cannot be canceled.
        runtime.shutdown_timeout(Duration::from_millis(100));
        Ok(result)
    }
}

/// The time limit of the wait for a kernel that has ended.
pub(crate) const KERNEL_WAIT: Duration = Duration::from_secs(60);

/// The interval between connection attempts.
pub(crate) const KERNEL_PAUSE: Duration = Duration::from_millis(50);

/// Sends a request to the kernel that listens at a socket; `None` if none does. If the kernel ends
/// before it replies, a repeatable request goes to the next kernel. A kernel `seen` a moment ago
/// that is about to restart is awaited.
pub(crate) async fn ask_kernel<T: DeserializeOwned>(
    socket: &Path,
    home: &Home,
    request: &ControlRequest,
    seen: bool,
) -> Result<Option<T>, CliError> {
    let mut lost: Option<Instant> = seen.then(Instant::now);
    loop {
        let error = match control::send_request(socket, request).await {
            Ok(ControlResponse::Done(value)) => return parse_answer(&value).map(Some),
            Ok(ControlResponse::Failed(error)) => return Err(error.into()),
            Err(error) => error,
        };
        let waits = |lost: Instant| lost.elapsed() < KERNEL_WAIT;
        match (error, lost) {
            // The kernel was running, so its supervisor restarts it.
            (error, Some(since))
                if error.is_gone() && SupervisorLock::is_held(home) && waits(since) => {}
            // No kernel listens and none is known to restart; the caller may start its own.
            (error, _) if error.is_gone() => return Ok(None),
            // Only repeatable requests are sent twice: the lost kernel may have executed the first.
            (RequestError::NoAnswer(_), since)
                if request.is_repeatable() && since.is_none_or(waits) =>
            {
                lost.get_or_insert_with(Instant::now);
            }
            (RequestError::NoAnswer(_), _) => return Err(unanswered(request)),
            (RequestError::NotSent(error), _) => return Err(CliError::io(socket, &error)),
            (RequestError::Unreadable(error), _) => {
                let message = format!("the answer of the kernel is not readable: {error}");
                return Err(CliError::new(exit::IO, message)
                    .with_hint("start `skillhost run` again if it is of another version"));
            }
        }
        tokio::time::sleep(KERNEL_PAUSE).await;
    }
}

/// Returns the error for a request that was lost with its kernel.
fn unanswered(request: &ControlRequest) -> CliError {
    let what = match request {
        ControlRequest::Invoke { tool, .. } | ControlRequest::InvokeFor { tool, .. } => {
            format!("the call of `{tool}` may have happened")
        }
        ControlRequest::Reload { id } => format!("`{id}` may have been reloaded"),
        ControlRequest::Build { id, .. } => format!("`{id}` may have been built and installed"),
        ControlRequest::RollBack { id } => format!("`{id}` may have been rolled back"),
        ControlRequest::RunSchedule { id } => format!("`{id}` may have run"),
        _ => return CliError::new(exit::FINDINGS, "the kernel ended before it answered"),
    };
    CliError::new(exit::FINDINGS, format!("the kernel ended before it answered; {what}"))
        .with_hint("check its effect before you repeat it")
}

fn parse_answer<T: DeserializeOwned>(answer: &RawValue) -> Result<T, CliError> {
    Ok(serde_json::from_str(answer.get()).map_err(io::Error::from)?)
}
