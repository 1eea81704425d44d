//! The context of a command: the output, the home, its settings, and the kernel that runs for it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, LocalBoxFuture};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use skillhost_control::{
    ControlRequest, ControlResponse, KernelNotices, PendingChange, RequestError, SupervisorLock,
    send_request, socket_path,
};
use skillhost_home::{
    Environment, Home, HomeError, Installation, InstallationSearch, LoadedSettings, Settings,
};
use skillhost_payload::OperatorCommand;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::GlobalArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{Output, show_held_output};

/// The global arguments together with the environment and the runtime of the process.
pub struct CliContext {
    /// The format of the output.
    pub output: Output,
    /// The variables and directories of the process.
    pub environment: Environment,
    home_argument: Option<PathBuf>,
    trust_home: bool,
    find_installation: fn(&Environment) -> InstallationSearch,
    /// The outcome of the search, made once and only by commands that need it.
    installation: OnceLock<InstallationSearch>,
    /// Set when the failure of the search was printed.
    installation_noted: OnceLock<()>,
    /// Started by the first asynchronous work.
    runtime: OnceLock<Runtime>,
    /// Set when the notices of the running kernel were printed.
    noticed: OnceLock<()>,
}

impl CliContext {
    /// Creates the context of a command.
    ///
    /// `find_installation` finds the files that belong to the program.
    ///
    /// # Errors
    /// The working directory does not exist.
    pub fn new(
        global: &GlobalArgs,
        find_installation: fn(&Environment) -> InstallationSearch,
    ) -> Result<Self, CliError> {
        Ok(Self {
            output: Output { json: global.json },
            environment: Environment::from_process().map_err(|error| {
                CliError::new(exit::IO, format!("the working directory: {error}"))
                    .with_hint("change to a directory that exists")
            })?,
            home_argument: global.home.clone(),
            trust_home: global.trust_home,
            find_installation,
            installation: OnceLock::new(),
            installation_noted: OnceLock::new(),
            runtime: OnceLock::new(),
            noticed: OnceLock::new(),
        })
    }

    /// Returns the home, trusted or not, for commands that load no extensions. An untrusted home is
    /// marked as such.
    ///
    /// # Errors
    /// No home is found, or it is broken.
    pub fn home(&self) -> Result<Home, CliError> {
        let home = Home::find(self.home_argument.as_deref(), &self.environment)?;
        // An unusable record grants no trust; commands that require trust report the reason.
        let trusted = self.trust_home || home.require_trust(&self.environment).is_ok();
        Ok(if trusted { home } else { home.into_untrusted() })
    }

    /// Returns the files that belong to the program; `None` if there are none, which matters only to
    /// commands that cannot do without. Prints a note, once, if they were restored or cannot be
    /// unpacked.
    pub fn installation(&self) -> Option<&Installation> {
        let search = self.search_installation();
        if let Some((reason, _)) = &search.failure
            && self.installation_noted.set(()).is_ok()
        {
            self.output.print_note(reason);
        }
        search.installation.as_ref()
    }

    /// Returns the files that belong to the program. If there are none, the error names `files` and
    /// gives `hint`.
    ///
    /// # Errors
    /// They are not next to the program, and it contains none or cannot unpack them.
    pub fn require_installation(&self, files: &str, hint: &str) -> Result<&Installation, CliError> {
        let search = self.search_installation();
        search.installation.as_ref().ok_or_else(|| match &search.failure {
            Some((reason, remedy)) => CliError::new(exit::IO, reason).with_hint(remedy),
            None => {
                let message = format!("{files} were not found next to this executable");
                CliError::new(exit::NOT_FOUND, message).with_hint(hint)
            }
        })
    }

    fn search_installation(&self) -> &InstallationSearch {
        self.installation.get_or_init(|| {
            let search = (self.find_installation)(&self.environment);
            if let Some(note) = &search.note {
                self.output.print_note(note);
            }
            search
        })
    }

    /// Returns `true` if a home is named or found, even if it is broken.
    pub fn has_home(&self) -> bool {
        let found = Home::find(self.home_argument.as_deref(), &self.environment);
        !matches!(found, Err(HomeError::NotFound))
    }

    /// Returns the home if it is trusted.
    ///
    /// # Errors
    /// No home is found, or it is broken or untrusted.
    pub fn trusted_home(&self) -> Result<Home, CliError> {
        let home = Home::find(self.home_argument.as_deref(), &self.environment)?;
        if !self.trust_home {
            home.require_trust(&self.environment)?;
        }
        Ok(home)
    }

    /// Returns the home as [`CliContext::trusted_home`] does, or `None` if no home is named or
    /// found.
    ///
    /// # Errors
    /// The home is broken or untrusted.
    pub fn find_trusted_home(&self) -> Result<Option<Home>, CliError> {
        match Home::find(self.home_argument.as_deref(), &self.environment) {
            // Only a missing home is optional; an untrusted or broken one is an error.
            Err(HomeError::NotFound) => Ok(None),
            _ => self.trusted_home().map(Some),
        }
    }

    /// Spells a command for the home of this one: with `--home` where this command was given it.
    #[must_use]
    pub fn spell_command(&self, command: OperatorCommand<'_>) -> String {
        self.spell_arguments(&format!("{command:#}"))
    }

    /// Spells a command line of this program for the home of this one, as
    /// [`CliContext::spell_command`] does.
    #[must_use]
    pub fn spell_arguments(&self, arguments: &str) -> String {
        match &self.home_argument {
            Some(dir) => format!("skillhost --home {} {arguments}", quote_for_shell(dir)),
            None => format!("skillhost {arguments}"),
        }
    }

    /// Sends a request to the home's running kernel; `None` if none runs.
    ///
    /// # Errors
    /// The kernel refused the request, or its reply was lost.
    pub fn try_running_kernel<T: DeserializeOwned>(
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
        // These report the same themselves, or settle it.
        let reports_itself = matches!(
            request,
            ControlRequest::Status | ControlRequest::Diagnose | ControlRequest::Reload { .. }
        );
        self.block_on(Box::pin(async {
            if !reports_itself && self.noticed.set(()).is_ok() {
                self.print_kernel_notices(&path).await;
            }
            ask_kernel(&path, home, request, false).await
        }))?
    }

    /// Prints what the running kernel has not applied, and the model keys that only this process
    /// has. A kernel of an earlier version has no such notices.
    async fn print_kernel_notices(&self, socket: &Path) {
        let reply = send_request(socket, &ControlRequest::Notices).await;
        let Ok(ControlResponse::Done(answer)) = reply else { return };
        let Ok(notices) = parse_answer::<KernelNotices>(&answer) else { return };
        for note in format_notices(&notices, |name| std::env::var_os(name).is_some()) {
            self.output.print_note(note);
        }
    }

    /// Loads the settings of a home.
    ///
    /// # Errors
    /// The file is not readable or not valid.
    pub fn settings(&self, home: &Home) -> Result<LoadedSettings, CliError> {
        Ok(Settings::load_home(home)?)
    }

    /// Runs asynchronous work on the runtime of the process.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn block_on<T>(&self, work: LocalBoxFuture<'_, T>) -> Result<T, CliError> {
        Ok(self.runtime()?.block_on(work))
    }

    /// Starts asynchronous work on the runtime of the process; it ends with the context.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn spawn(&self, work: BoxFuture<'static, ()>) -> Result<(), CliError> {
        self.runtime()?.spawn(work);
        Ok(())
    }

    /// Shows the output that [`hold_output`](crate::hold_output) has held back, one screen at a time
    /// if it is longer than one. If the pager fails, the output is printed directly, and one note
    /// gives the reason.
    pub fn show_held_output(&self) {
        show_held_output(&|| {
            let runtime =
                self.runtime().map_err(|error| io::Error::other(error.message().to_owned()))?;
            // The handler stays for the rest of the process.
            runtime.block_on(async { signal(SignalKind::interrupt()) }).map(drop)
        });
    }

    fn runtime(&self) -> Result<&Runtime, CliError> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("skillhost")
            .enable_all()
            .build()?;
        Ok(self.runtime.get_or_init(|| runtime))
    }
}

/// Quotes a path for a shell, unless it needs no quotes.
fn quote_for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

impl Drop for CliContext {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Blocking threads, such as one that reads the terminal, cannot be canceled.
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
    }
}

/// The time limit of the wait for a kernel that has ended.
pub const KERNEL_WAIT: Duration = Duration::from_secs(60);

/// The interval between connection attempts.
pub const KERNEL_PAUSE: Duration = Duration::from_millis(50);

/// Sends a request to the kernel that listens at a socket; `None` if none does. If the kernel ends
/// before it replies, a repeatable request goes to the next kernel. A kernel `seen` a moment ago
/// that is about to restart is awaited.
///
/// # Errors
/// The kernel refused the request, or its reply was lost.
pub async fn ask_kernel<T: DeserializeOwned>(
    socket: &Path,
    home: &Home,
    request: &ControlRequest,
    seen: bool,
) -> Result<Option<T>, CliError> {
    let mut lost: Option<Instant> = seen.then(Instant::now);
    loop {
        let error = match send_request(socket, request).await {
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

/// Formats the notices of a running kernel, one line each. `is_set` tells which variables the
/// client's environment has.
fn format_notices(notices: &KernelNotices, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let change = |change: &PendingChange| {
        let PendingChange { subject, reason, hint } = change;
        format!("{subject}: {reason}; {hint}").replace('\n', " ")
    };
    let KernelNotices { invalid_settings, pending, missing_keys } = notices;
    let mut lines: Vec<_> = invalid_settings.iter().map(change).collect();
    match pending.as_slice() {
        [] => {}
        [only] => lines.push(change(only)),
        several => lines.push(format!(
            "{} changes are not in force in the running kernel; see: {}",
            several.len(),
            OperatorCommand::ShowStatus
        )),
    }
    let keys = missing_keys.iter().filter(|name| is_set(name));
    lines.extend(keys.map(|name| {
        format!(
            "{name} is set here and not in the running kernel; add it to .env of the home, or \
             restart the kernel with it"
        )
    }));
    lines
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

/// Parses the reply of a kernel.
///
/// # Errors
/// The reply is not of the expected type.
pub fn parse_answer<T: DeserializeOwned>(answer: &RawValue) -> Result<T, CliError> {
    Ok(serde_json::from_str(answer.get()).map_err(io::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_keys_and_changes() {
        let change = |subject: &str| PendingChange {
            subject: subject.to_owned(),
            reason: "is not\nloaded yet".to_owned(),
            hint: "skillhost ext reload x".to_owned(),
        };
        let mut notices = KernelNotices {
            invalid_settings: None,
            pending: vec![change("extension `x`")],
            missing_keys: vec!["A_KEY".to_owned(), "B_KEY".to_owned()],
        };
        let lines = format_notices(&notices, |name| name == "B_KEY");
        assert_eq!(
            lines,
            [
                "extension `x`: is not loaded yet; skillhost ext reload x",
                "B_KEY is set here and not in the running kernel; add it to .env of the home, or \
                 restart the kernel with it",
            ]
        );
        notices.pending.push(change("extension `y`"));
        notices.missing_keys.clear();
        let lines = format_notices(&notices, |_| true);
        assert_eq!(
            lines,
            ["2 changes are not in force in the running kernel; see: skillhost status"]
        );
    }
}
