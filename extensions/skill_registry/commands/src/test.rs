//! `skillhost skill test`: the home that the cases of skills are tested in.

use std::path::Path;
use std::sync::Arc;

use skill_test_command::{
    BaselineChoice, ModelTests, SkillVersions, TestArgs, TestHome, VersionFiles,
};
use skill_testing::{AgentView, AgentViews, CaseScripts, ComparedChange};
use skillhost_files::TreeFile;
use skillhost_home::{Home, discover_manifests};
use skillhost_manifest::{AgentCatalog, AgentManifest};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use super::case_scripts::SandboxedScripts;
use super::home_skills;
use super::review_context::{ReviewContext, current_actor};
use super::wording::registry_error;

/// The directory with the results of runs with a model, below the data of the kernel.
const RESULTS: &str = "evals";

pub(super) fn cmd_skill_test(
    session: &CliContext,
    args: &TestArgs,
    models: ModelTests<'_>,
) -> CommandResult {
    let home = if session.has_home() { open_test_home(session)? } else { TestHome::default() };
    skill_test_command::cmd_skill_test(session, args, home, models, &HomeVersions { session })
}

/// The versions and proposals of a home.
struct HomeVersions<'a> {
    session: &'a CliContext,
}

impl SkillVersions for HomeVersions<'_> {
    fn find_changed_skill(&self, proposal: &str) -> Result<String, CliError> {
        let context = ReviewContext::open(self.session)?;
        let changed = context.with_ledger(|ledger, _| ledger.proposal(proposal))?.summary;
        let id = changed.skill_id;
        if changed.base_digest.is_none() && changed.path == "SKILL.md" {
            let message = format!("proposal {proposal} creates {id}: there is no base to test");
            let hint = format!("approve it, and run: skillhost skill test {id} --model MODEL");
            return Err(CliError::new(exit::NOT_FOUND, message).with_hint(hint));
        }
        Ok(id)
    }

    fn load_files(
        &self,
        skill_id: &str,
        choice: &BaselineChoice,
    ) -> Result<VersionFiles, CliError> {
        find_version(self.session, skill_id, choice)
    }

    fn open_scripts(&self, directory: &Path) -> Result<Arc<dyn CaseScripts>, CliError> {
        Ok(Arc::new(SandboxedScripts::open(self.session, directory)?))
    }

    fn record_evidence(
        &self,
        proposal: &str,
        compared: ComparedChange<'_>,
    ) -> Result<(), CliError> {
        let no_verdict = || CliError::new(exit::FINDINGS, "the runs have no verdict");
        let evidence = compared.to_evidence().ok_or_else(no_verdict)?;
        let ledger = home_skills::open_ledger(&self.session.home()?);
        let actor = current_actor("cli");
        ledger.record_model_evidence(&actor, proposal, &evidence).map_err(registry_error)
    }
}

/// Returns the files of a version or a proposal.
fn find_version(
    session: &CliContext,
    skill_id: &str,
    choice: &BaselineChoice,
) -> Result<VersionFiles, CliError> {
    // As `skill history` does, it records the first version of a new skill.
    let context = ReviewContext::open(session)?;
    match choice {
        BaselineChoice::Without => Ok(VersionFiles::Complete(Vec::new())),
        BaselineChoice::Version(number) => {
            let version =
                context.with_ledger(|ledger, _| ledger.version(skill_id, Some(*number)))?;
            let files = version.files.into_iter().map(|file| TreeFile {
                executable: file.mode & 0o111 != 0,
                bytes: file.content.to_vec(),
                path: file.path,
            });
            Ok(VersionFiles::Complete(files.collect()))
        }
        BaselineChoice::Proposal(id) => {
            let proposal = context.with_ledger(|ledger, _| ledger.proposal(id))?;
            let changed = &proposal.summary.skill_id;
            if changed != skill_id {
                let message = format!("proposal {id} is about {changed}, not {skill_id}");
                let hint = "omit the skill: the proposal names it";
                return Err(CliError::usage(message).with_hint(hint));
            }
            let Some(text) = proposal.new_text else {
                let message = format!("the text of proposal {id} is lost");
                return Err(CliError::new(exit::CONFLICT, message));
            };
            let path = proposal.summary.path;
            let bytes = text.into_bytes();
            Ok(VersionFiles::Changed(TreeFile { path, bytes, executable: false }))
        }
    }
}

pub(super) fn open_test_home(session: &CliContext) -> Result<TestHome, CliError> {
    let home = session.home()?;
    Ok(TestHome {
        options: home_skills::home_options(session)?,
        data: Some(home.data_dir(home_skills::REGISTRY)),
        views: agent_views(session, &home)?,
        results: Some(home.data_dir("kernel").join(RESULTS)),
    })
}

/// Returns the parts of the catalog that the agents of a home see.
fn agent_views(session: &CliContext, home: &Home) -> Result<AgentViews, CliError> {
    let settings = session.settings(home)?.settings;
    let found = discover_manifests(home, session.installation(), &settings.allow_shadowing);
    // Agents that are not approved do not run, so their views need no test.
    let agents = found.manifests.iter().filter_map(|(id, found)| {
        let agent = found.manifest.agent()?;
        Some((id.to_string(), to_view(agent)))
    });
    Ok(agents.collect())
}

fn to_view(agent: &AgentManifest) -> AgentView {
    let bound: Vec<String> = agent.uses_skills.iter().map(|id| id.to_string()).collect();
    let (include, exclude) = match &agent.catalog {
        AgentCatalog::All => (vec!["*".to_owned()], Vec::new()),
        AgentCatalog::Declared => (bound.clone(), Vec::new()),
        AgentCatalog::None => (Vec::new(), Vec::new()),
        AgentCatalog::Globs { include, exclude } => (include.clone(), exclude.clone()),
    };
    AgentView { include, exclude, bound }
}
