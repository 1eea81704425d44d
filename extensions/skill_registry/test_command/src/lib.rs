//! `skillhost skill test`: the cases of skills, without a model.

mod arguments;
mod html;
mod junit;
mod selection;
mod summary;
mod text;

use std::path::{Path, PathBuf};

use skill_catalog::StoreOptions;
use skill_testing::{AgentViews, HarnessError, RoutingHarness, RoutingSetup, test_all_routing};
use skillhost_files::write_atomically;
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

pub use arguments::TestArgs;

use crate::summary::{TestSummary, TestedReport};

/// The home that skills are tested in.
#[derive(Debug, Default)]
pub struct TestHome {
    /// The options of its catalog; without roots where there is no home.
    pub options: StoreOptions,
    /// The directory with the data of the registry, which has the held-out cases.
    pub data: Option<PathBuf>,
    /// The views of its agents.
    pub views: AgentViews,
}

/// Tests skills.
///
/// # Errors
/// A skill or an agent does not exist, a path cannot be read, or a report cannot be written.
pub fn cmd_skill_test(session: &CliContext, args: &TestArgs, home: TestHome) -> CommandResult {
    let TestHome { options, data, mut views } = home;
    if let Some(agent) = &args.agent {
        let view = views.get(agent).cloned().ok_or_else(|| {
            CliError::new(exit::NOT_FOUND, format!("agent `{agent}` not found"))
                .with_hint("see: skillhost agent list")
        })?;
        views.insert(String::new(), view);
    }
    let targets = selection::find_targets(session, args)?;
    let setup = RoutingSetup { options, candidates: targets.candidates(), with_distractors: true };
    let harness = RoutingHarness::open(setup).map_err(to_cli_error)?;
    let filter = args.filter()?;
    let (directories, cases) = targets.load(&harness, data.as_deref(), args.seed)?;
    let reports = test_all_routing(&harness, &cases, &views);
    let tested = directories.into_iter().zip(cases.into_iter().zip(reports));
    let skills = tested.map(|(directory, (cases, report))| {
        let report = report.filtered(|result| filter.admits(&cases.skill_id, result));
        TestedReport { directory, cases, report }
    });
    let skills = skills.collect();
    let summary = TestSummary { distractors: harness.distractor_count(), skills };
    // The reports are written after the output: a full disk must not hide the results.
    if session.output.json {
        session.output.print_json(&summary)?;
    } else {
        text::print_summary(session.output, &summary)?;
    }
    if let Some(path) = &args.junit {
        write_report(session, path, &junit::render(&summary)?)?;
    }
    if let Some(path) = &args.html {
        write_report(session, path, &html::render(&summary))?;
    }
    Ok(summary.exit_code())
}

fn write_report(session: &CliContext, path: &Path, text: &str) -> Result<(), CliError> {
    let path = session.environment.current_dir.join(path);
    write_atomically(&path, text.as_bytes()).map_err(|error| CliError::io(&path, &error))
}

fn to_cli_error(error: HarnessError) -> CliError {
    let code = match error {
        HarnessError::Io(_) => exit::IO,
        _ => exit::USAGE,
    };
    CliError::new(code, error.to_string()).with_hint("see: skillhost config")
}
