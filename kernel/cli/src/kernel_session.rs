//! A kernel in this process, for as long as a command works with it.

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use skillhost_builder::CargoExtensionBuilder;
use skillhost_console::WebConsole;
use skillhost_control::ControlRequest;
use skillhost_core::PluginLoader;
use skillhost_home::{Home, Settings, TelemetrySettings};
use skillhost_kernel::control;
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_models::{LiveModels, ModelRegistry, home_keys, keys_of_environment};
use skillhost_process::ProcessSupervisor;
use skillhost_telemetry::TelemetryExport;
use skillhost_terminal::{CliContext, CliError, parse_answer};
use tokio::task::JoinHandle;

use crate::commands::supervise::{SupervisorLink, is_supervised};
use crate::failures::kernel_error;

/// Sends a request to the home's running kernel, or to a new one if none runs. The running kernel
/// knows more (the last valid text of a skill broken since).
pub(crate) fn request_from_kernel<T: DeserializeOwned>(
    session: &CliContext,
    request: ControlRequest,
) -> Result<T, CliError> {
    match session.try_running_kernel(&session.trusted_home()?, &request)? {
        Some(answer) => Ok(answer),
        None => parse_answer(&with_kernel(session, |kernel| {
            Box::pin(async move {
                control::execute_request(&kernel, request).await.map_err(kernel_error)
            })
        })?),
    }
}

/// Returns the models in the settings of a home. Requests require a trusted home: its settings
/// decide where keys are sent. The `.env` of an untrusted home is not read.
pub(crate) fn open_models(session: &CliContext, home: &Home, settings: &Settings) -> ModelRegistry {
    let (keys, note) = match home.is_untrusted() {
        true => (keys_of_environment(), None),
        false => home_keys(home.root()),
    };
    if let Some(note) = note {
        session.output.print_note(note);
    }
    ModelRegistry::new(settings.models.clone(), home.root(), keys)
}

/// Boots a kernel for a trusted home, runs `work`, and shuts the kernel down.
pub(crate) fn with_kernel<'a, T>(
    session: &'a CliContext,
    work: impl FnOnce(Kernel) -> LocalBoxFuture<'a, Result<T, CliError>>,
) -> Result<T, CliError> {
    let booted = boot_kernel(session)?;
    session.block_on(Box::pin(async move {
        let own = booted.await?;
        let result = work(own.kernel.clone()).await;
        // An error of `work` is returned only after the shutdown, which extensions rely on.
        own.shut_down().await;
        result
    }))?
}

/// Returns the options of a kernel with the files and the extensions of the program.
pub(crate) fn boot_options(session: &CliContext, home: Home, settings: Settings) -> BootOptions {
    let (installation, bundled) = (session.installation().cloned(), skillhost_bundle::EXTENSIONS);
    BootOptions { installation, bundled, ..BootOptions::new(home, settings) }
}

/// Starts the export of telemetry that the settings name; must be called in the runtime.
///
/// # Errors
/// A usage error if the program cannot send to a collector.
pub(crate) fn start_telemetry(
    settings: &TelemetrySettings,
) -> Result<Option<TelemetryExport>, CliError> {
    TelemetryExport::start(settings)
        .map_err(|error| CliError::usage(error.to_string()).with_hint(error.hint()))
}

/// A booted kernel, the export of its runs, and the heartbeat for its supervisor.
struct BootedKernel {
    kernel: Kernel,
    telemetry: Option<TelemetryExport>,
    heartbeat: Option<JoinHandle<()>>,
}

/// Returns the boot of a kernel for a trusted home.
fn boot_kernel(
    session: &CliContext,
) -> Result<LocalBoxFuture<'static, Result<BootedKernel, CliError>>, CliError> {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let settings_file = Some(home.settings_file());
    let models = open_models(session, &home, &settings);
    let models = Arc::new(LiveModels::new(home.root().to_owned(), models));
    let supervised = is_supervised();
    let supervisor = SupervisorLink::of_this_process().inspect(|link| link.alive());
    let loaders: Vec<Arc<dyn PluginLoader>> = vec![Arc::new(ProcessSupervisor::default())];
    let (build, telemetry) = (settings.build.clone(), settings.telemetry.clone());
    let options = boot_options(session, home, settings);
    let builder = CargoExtensionBuilder::new(&options.home, build, options.installation.as_ref());
    let builder = Arc::new(builder);
    let options = BootOptions { settings_file, models, loaders, supervised, builder, ..options };
    Ok(Box::pin(async move {
        let telemetry = start_telemetry(&telemetry)?;
        // On a thread of the runtime: the heartbeat stops if all of them are blocked.
        let heartbeat = supervisor.map(|link| tokio::spawn(link.stay_alive()));
        let kernel = Kernel::boot(options).await;
        kernel.set_console(Arc::new(WebConsole::default()));
        if let Some(export) = &telemetry {
            kernel.agents().set_run_observer(export.observer());
        }
        Ok(BootedKernel { kernel, telemetry, heartbeat })
    }))
}

impl BootedKernel {
    fn shut_down(self) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            self.kernel.shutdown().await;
            // Only now: the runs that the shutdown ended have spans as well.
            if let Some(export) = self.telemetry {
                export.shut_down().await;
            }
            if let Some(heartbeat) = self.heartbeat {
                heartbeat.abort();
            }
        })
    }
}
