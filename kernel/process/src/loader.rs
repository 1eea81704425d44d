//! The load of a process from a manifest with a command, and its calls.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::BoxFuture;
use skillhost_control::{LoadTimings, RestartBackoff, RestartLimits};
use skillhost_core::{
    ExtensionCalls, ExtensionLoadError, LoadContext, LoadedPlugin, Plugin, PluginLoader,
    PreparedCall, spawn_blocking,
};
use skillhost_files::to_hex;
use skillhost_home::{
    DiscoveredManifest, Home, LoadPhase, MANIFEST, PrivateDirectory, copies_of,
    read_extension_files,
};
use skillhost_manifest::ExtensionKind;
use skillhost_payload::{
    BuildInfo, CallContext, CallError, ErrorKind, OperatorCommand, ToolOutput, ToolSpec,
    channel_interface,
};
use skillhost_sandbox::ChildContainment;
use tokio_util::sync::CancellationToken;

use crate::channel::{ProcessChannel, call_channel};
use crate::containment::{ContainedProcess, PreparedProcess};
use crate::spec::ProcessSpec;
use crate::supervised::SupervisedProcess;

/// The time for any reply of a process after the cancellation of a call.
const GRACE: Duration = Duration::from_secs(2);

/// The directory for temporary files in the home of a process. Not every isolation level has a
/// private `/tmp`.
const TEMPORARY: &str = ".tmp";

/// The directory for caches in the home of a process.
const CACHE: &str = ".cache";

/// Variables of the kernel that every process inherits.
const PASSED_ON: [&str; 3] = ["PATH", "LANG", "TMPDIR"];

/// A loader that starts process extensions and restarts them after a crash.
///
/// Five crashes within five minutes reach the restart limit.
#[derive(Debug, Clone, Default)]
pub struct ProcessSupervisor {
    restarts: RestartLimits,
    home: Option<PathBuf>,
}

impl ProcessSupervisor {
    /// Creates a supervisor with another delay after the first crash; each further crash doubles
    /// it.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Self { restarts: RestartLimits { delay, ..RestartLimits::default() }, home: None }
    }

    /// Creates a supervisor whose processes share a home directory. Without one, each has its own
    /// in the kernel's data.
    #[must_use]
    pub fn with_home(home: Option<PathBuf>) -> Self {
        Self { home, ..Self::default() }
    }

    /// Starts a process and waits for its handshake, at most [`ProcessSpec::handshake`].
    ///
    /// # Errors
    /// [`CallError`]; then none of its processes is running.
    pub async fn start(&self, start: ProcessSpec) -> Result<SupervisedProcess, CallError> {
        SupervisedProcess::start(start, RestartBackoff::new(self.restarts)).await
    }
}

#[async_trait]
impl PluginLoader for ProcessSupervisor {
    fn loads(&self, kind: &ExtensionKind) -> bool {
        matches!(kind, ExtensionKind::Process { .. })
    }

    /// Starts a process extension in its private copy and waits for its handshake.
    async fn load(&self, context: &LoadContext<'_>) -> Result<LoadedPlugin, ExtensionLoadError> {
        let LoadContext { found, settings, home, limits, .. } = context;
        let command = found.manifest.command().expect("a process has a command");
        let started = Instant::now();
        let (home_copy, found_copy) = (Home::clone(home), DiscoveredManifest::clone(found));
        let folder = spawn_blocking(move || open_private_copy(&home_copy, &found_copy))
            .await
            .map_err(|error| ExtensionLoadError::from_call_error(LoadPhase::Probe, error))??;
        let copy_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let process_home = self.create_directories(context)?;
        let contained = ContainedProcess {
            home: Home::clone(home),
            settings: settings.processes.clone(),
            manifest: Arc::clone(&found.manifest),
            folder: folder.path.clone(),
            data: context.init.data_dir.clone(),
            process_home: process_home.clone(),
        };
        // Version managers are asked for the program, which takes some milliseconds.
        let prepared = spawn_blocking(move || contained.prepare())
            .await
            .map_err(|error| ExtensionLoadError::from_call_error(LoadPhase::Probe, error))??;
        let PreparedProcess { program, folder: work, containment, search_path } = prepared;
        let mut environment = build_environment(context, &process_home);
        if matches!(containment, ChildContainment::Sandboxed(_)) {
            let temporary = process_home.join(TEMPORARY).to_string_lossy().into_owned();
            environment.insert("TMPDIR".to_owned(), temporary);
            environment.insert("PATH".to_owned(), search_path);
        }
        let arguments = command.get(1..).unwrap_or_default();
        let start = ProcessSpec {
            id: found.manifest.id.clone(),
            program: program.clone(),
            arguments: arguments.to_vec(),
            folder: work,
            environment,
            handshake: found.manifest.start_timeout_ms.map_or(limits.start, Duration::from_millis),
            grace: GRACE,
            stop: limits.stop,
            containment,
        };
        let process = self.start(start).await;
        let process = process
            .map_err(|error| ExtensionLoadError::from_call_error(LoadPhase::Start, error))?;
        // The manifest was approved, and is where authors look first.
        let version =
            found.manifest.version.clone().unwrap_or_else(|| process.version().to_owned());
        let build = BuildInfo { package: found.manifest.id.to_string(), version };
        let timings = LoadTimings { copy_us, ..LoadTimings::default() };
        let isolation = Some(process.isolation().clone());
        let is_channel = found.manifest.is_channel;
        let plugin = Box::new(ProcessPlugin {
            process: Arc::new(process),
            interfaces: is_channel
                .then(|| channel_interface::NAME.to_owned())
                .into_iter()
                .collect(),
            calls: context.calls.clone(),
            receiving: CancellationToken::new(),
            _folder: folder,
        });
        Ok(LoadedPlugin { plugin, build, file: program, timings, bundled: false, isolation })
    }
}

impl ProcessSupervisor {
    /// Creates the data directory and the home of a process; returns the home.
    fn create_directories(&self, context: &LoadContext<'_>) -> Result<PathBuf, ExtensionLoadError> {
        let (init, manifest) = (&context.init, &context.found.manifest);
        let process_home = self.home.clone();
        let process_home =
            process_home.unwrap_or_else(|| context.home.process_home(manifest.id.as_str()));
        let temporary = process_home.join(TEMPORARY);
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        // Files of an earlier run; whether they are gone does not matter to this one.
        let _ = fs::remove_dir_all(&temporary);
        for (path, created) in [
            (&init.data_dir, fs::create_dir_all(&init.data_dir)),
            (&process_home, private(&process_home)),
            (&process_home, private(&process_home.join(CACHE))),
            (&temporary, private(&temporary)),
        ] {
            created.map_err(|error| ExtensionLoadError {
                phase: LoadPhase::Probe,
                reason: format!("{}: {error}", path.display()),
                hint: "check that the home may be written to".to_owned(),
            })?;
        }
        Ok(process_home)
    }
}

/// Builds the complete environment of a process: few variables of the kernel, a home directory,
/// the fields of the contract's `ExtensionInit`, and the variables and secrets of the manifest.
fn build_environment(context: &LoadContext<'_>, process_home: &Path) -> BTreeMap<String, String> {
    let (init, manifest) = (&context.init, &context.found.manifest);
    let secrets = manifest.secrets.iter();
    let mut environment: BTreeMap<_, _> =
        secrets.filter_map(|name| Some((name.clone(), context.secrets.get(name)?))).collect();
    // Later entries replace secrets of the same name.
    environment.extend(
        PASSED_ON.iter().filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?))),
    );
    if !manifest.env.contains_key("HOME") {
        let to_text = |path: &Path| path.to_string_lossy().into_owned();
        environment.insert("HOME".to_owned(), to_text(process_home));
        environment.insert("XDG_CACHE_HOME".to_owned(), to_text(&process_home.join(CACHE)));
    }
    // After `HOME`, and before the contract's variables, which a manifest cannot replace.
    environment.extend(manifest.env.clone());
    let data_dir = init.data_dir.to_string_lossy().into_owned();
    for (name, value) in [
        ("SKILLHOST_ID", init.id.clone()),
        ("SKILLHOST_DATA_DIR", data_dir),
        ("SKILLHOST_CONFIG", init.config.to_string()),
    ] {
        environment.insert(name.to_owned(), value);
    }
    environment
}

/// A running process and its working directory.
struct ProcessPlugin {
    /// Stopped before its directory is removed.
    process: Arc<SupervisedProcess>,
    interfaces: Vec<String>,
    calls: ExtensionCalls,
    /// Cancelled when the receipt of messages ends.
    receiving: CancellationToken,
    _folder: Arc<PrivateDirectory>,
}

#[async_trait]
impl Plugin for ProcessPlugin {
    /// The tools of a process stay as approved; a later list has no effect.
    fn has_fixed_tools(&self) -> bool {
        true
    }

    async fn check_health(&self) -> Result<(), CallError> {
        self.process.health().await
    }

    async fn stop(&self) -> Result<(), CallError> {
        self.process.stop().await;
        Ok(())
    }

    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(self.process.tools().to_vec())
    }

    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        _: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        self.process.invoke(context, name, arguments).await
    }

    fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    fn has_service(&self) -> bool {
        !self.interfaces.is_empty()
    }

    fn run_service(&self) -> Option<BoxFuture<'static, Result<(), CallError>>> {
        let channel = ProcessChannel {
            process: Arc::clone(&self.process),
            calls: self.calls.clone(),
            cancel: self.receiving.clone(),
        };
        self.has_service().then(|| Box::pin(channel.run()) as BoxFuture<'static, _>)
    }

    fn cancel_service(&self) {
        self.receiving.cancel();
    }

    async fn call(
        &self,
        interface: &str,
        method: &str,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        if self.interfaces.iter().any(|name| name == interface) {
            return call_channel(&self.process, method, &payload).await;
        }
        Err(CallError::new(
            ErrorKind::Unavailable,
            format!("a process extension has no interface `{interface}`"),
        ))
    }
}

/// Returns the private copy in which a process runs: the admitted one, or a new one of a shipped
/// extension that an operator has installed.
fn open_private_copy(
    home: &Home,
    found: &DiscoveredManifest,
) -> Result<Arc<PrivateDirectory>, ExtensionLoadError> {
    let manifest = &found.manifest;
    let id = &manifest.id;
    let to_error =
        |reason: String, hint: String| ExtensionLoadError { phase: LoadPhase::Probe, reason, hint };
    let folder = match &found.copy {
        Some(copy) => Arc::clone(copy),
        None => {
            let files = read_extension_files(found.directory())
                .map_err(|error| to_error(error.to_string(), error.hint()))?;
            let copied = files.iter().find(|file| file.path == MANIFEST);
            let copied = copied.and_then(|file| std::str::from_utf8(&file.bytes).ok());
            let copied = copied.and_then(|text| skillhost_manifest::parse_manifest(text).ok());
            // The copied files must belong to the manifest that was planned.
            if copied.as_ref() != Some(&**manifest) {
                let reason = "its manifest was changed while it was read".to_owned();
                return Err(to_error(reason, "try again".to_owned()));
            }
            let place = copies_of(home, manifest);
            let copy = PrivateDirectory::with_files(&files, &place)
                .map_err(|error| to_error(error.to_string(), error.hint()))?;
            Arc::new(copy)
        }
    };
    let actual = &folder.pin;
    if let Some(pinned) = manifest.sha256.map(|pinned| to_hex(&pinned)).filter(|pin| pin != actual)
    {
        let reason = format!("the sha256 of its files is {actual}, the manifest pins {pinned}");
        let build = OperatorCommand::BuildExtension { id: id.as_str() };
        let hint = format!("review its files, then: {build}");
        return Err(to_error(reason, hint));
    }
    Ok(folder)
}
