//! `skillhost skill test --model`: kernels in homes of their own.

use std::sync::Arc;

use skill_evals::ModelReport;
use skill_testing::ModelTestRequest;
use skillhost_conversation::{ModelErrorKind, ModelSource};
use skillhost_evals::{EvalEnvironment, EvalError, run_model_tests};
use skillhost_kernel::BootOptions;
use skillhost_models::LiveModels;
use skillhost_process::ProcessSupervisor;
use skillhost_terminal::{CliContext, CliError, exit};

use crate::kernel_session::{boot_options, open_models};

/// Runs the cases of a skill with a model of the home.
pub(crate) fn run_skill_tests(
    session: &CliContext,
    request: &ModelTestRequest,
) -> Result<ModelReport, CliError> {
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings;
    let registry = open_models(session, &home, &settings);
    let models: Arc<dyn ModelSource> = Arc::new(LiveModels::new(home.root().to_owned(), registry));
    let options = |home, settings| BootOptions {
        loaders: vec![Arc::new(ProcessSupervisor::default())],
        ..boot_options(session, home, settings)
    };
    let environment = EvalEnvironment { home, settings, models, options: &options };
    session
        .block_on(Box::pin(run_model_tests(&environment, request)))?
        .map_err(|error| to_cli_error(&error))
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
