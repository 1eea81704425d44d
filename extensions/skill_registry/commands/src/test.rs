//! `skillhost skill test`: the home that the cases of skills are tested in.

use skill_test_command::{TestArgs, TestHome};
use skill_testing::{AgentView, AgentViews};
use skillhost_home::{Home, discover_manifests};
use skillhost_manifest::{AgentCatalog, AgentManifest};
use skillhost_terminal::{CliContext, CliError, CommandResult};

use super::home_skills;

pub(super) fn cmd_skill_test(session: &CliContext, args: &TestArgs) -> CommandResult {
    let home = if session.has_home() { open_test_home(session)? } else { TestHome::default() };
    skill_test_command::cmd_skill_test(session, args, home)
}

fn open_test_home(session: &CliContext) -> Result<TestHome, CliError> {
    let home = session.home()?;
    Ok(TestHome {
        options: home_skills::home_options(session)?,
        data: Some(home.data_dir(home_skills::REGISTRY)),
        views: agent_views(session, &home)?,
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
