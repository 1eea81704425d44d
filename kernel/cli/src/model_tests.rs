//! `skillhost skill test --model` and `skill optimize`: kernels in homes of their own.

use std::sync::Arc;

use skill_evals::{ModelReport, OptimizationReport};
use skill_testing::{ModelTestRequest, OptimizationRequest, ScreenedCandidate};
use skillhost_conversation::{ModelErrorKind, ModelSource};
use skillhost_evals::{
    EvalEnvironment, EvalError, OptimizationError, optimize_skill, run_model_tests,
};
use skillhost_kernel::BootOptions;
use skillhost_models::LiveModels;
use skillhost_process::ProcessSupervisor;
use skillhost_terminal::{CliContext, CliError, exit};
use tokio::task::block_in_place;

use crate::kernel_session::{boot_options, open_models};

/// Runs the cases of a skill with a model of the home.
pub(crate) fn run_skill_tests(
    session: &CliContext,
    request: &ModelTestRequest,
) -> Result<ModelReport, CliError> {
    with_environment(session, |environment| {
        let run = session.block_on(Box::pin(run_model_tests(environment, request)))?;
        run.map_err(|error| to_cli_error(&error))
    })
}

/// Optimizes a skill with a model of the home.
pub(crate) fn run_skill_optimization(
    session: &CliContext,
    request: &OptimizationRequest,
    screen: &dyn Fn(&str) -> Result<ScreenedCandidate, CliError>,
) -> Result<OptimizationReport, CliError> {
    // The ledger waits for the disk, which a thread of the runtime may do only here.
    let screen = |text: &str| block_in_place(|| screen(text));
    with_environment(session, |environment| {
        let run = session.block_on(Box::pin(optimize_skill(environment, request, &screen)))?;
        run.map_err(|error| match error {
            OptimizationError::Screen(error) => error,
            OptimizationError::Eval(error) => to_cli_error(&error),
        })
    })
}

/// Calls a function with the environment of runs in the home.
fn with_environment<T>(
    session: &CliContext,
    run: impl FnOnce(&EvalEnvironment<'_>) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let registry = open_models(session, &home, &settings);
    let models: Arc<dyn ModelSource> = Arc::new(LiveModels::new(home.root().to_owned(), registry));
    let options = |home, settings| BootOptions {
        loaders: vec![Arc::new(ProcessSupervisor::default())],
        ..boot_options(session, home, settings)
    };
    run(&EvalEnvironment { home, settings, models, options: &options })
}

fn to_cli_error(error: &EvalError) -> CliError {
    let code = match error {
        EvalError::UnknownPrice { .. } => exit::USAGE,
        EvalError::Model(error) if error.kind == ModelErrorKind::Unknown => exit::NOT_FOUND,
        EvalError::Lock(_) => exit::CONFLICT,
        // A harness that cannot measure is like a file that cannot be read.
        _ => exit::IO,
    };
    let cli_error = CliError::new(code, error.to_string());
    match error.hint() {
        hint if hint.is_empty() => cli_error,
        hint => cli_error.with_hint(hint),
    }
}
