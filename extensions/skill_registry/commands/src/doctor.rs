//! `skillhost skill doctor`: the stages of each skill on its way into an agent's prompt.

mod chain;
mod print;
mod turn_explanation;

use serde::Serialize;
use skill_catalog::{AgentScope, Audience, PartialScan, SkillRoot};
use skill_format::RenderReport;
use skill_ledger::ToolGrant;
use skill_rules::Profile;
use skillhost_terminal::{CliContext, CommandResult, exit};

use self::chain::{ScanRemark, StageRow};
pub use self::turn_explanation::ToolRequests;
use super::approve::offer_approvals;
use super::consent::is_interactive;
use super::home_skills;
use crate::arguments::{DoctorArgs, ExplainArgs};

/// The output of the command with `--json`.
#[derive(Debug, Serialize)]
struct SkillDoctorReport {
    profile: Profile,
    roots: Vec<SkillRoot>,
    /// The patterns of directories that the settings exclude from the scan.
    ignored: Vec<String>,
    /// The parts that the scan did not cover.
    partial: Option<PartialScan>,
    /// Findings of the scan about entries that are not skills.
    remarks: Vec<ScanRemark>,
    /// The cuts of the catalog; `None` if it has no skill.
    catalog: Option<RenderReport>,
    skills: Vec<StageRow>,
    /// The skills whose `allowed-tools` is not in force because their current version is
    /// unapproved.
    not_granted: Vec<ToolGrant>,
}

pub(super) fn cmd_skill_explain(
    session: &CliContext,
    args: &ExplainArgs,
    kernel: ToolRequests<'_>,
) -> CommandResult {
    turn_explanation::explain_turn(session, &args.agent, &args.prompt, kernel)
}

pub(super) fn cmd_skill_doctor(
    session: &CliContext,
    args: &DoctorArgs,
    kernel: ToolRequests<'_>,
) -> CommandResult {
    if let (Some(agent), Some(prompt)) = (&args.agent, &args.prompt) {
        return turn_explanation::explain_turn(session, agent, prompt, kernel);
    }
    let store = home_skills::open_store(session, &args.roots)?;
    let snapshot = store.snapshot();
    let profile = Profile::from(args.profile);
    let budget = store.options().l1_budget_chars;
    let catalog = snapshot.catalog(AgentScope::default(), budget);
    // In a large registry, the catalog lists a selection that depends on the prompt.
    let visible = snapshot.visible(Audience::Model).count();
    let is_picked = |report: &RenderReport| {
        visible > store.options().l1_full_limit
            && report.omitted + report.shortened + report.without_description > 0
    };
    let catalog = catalog.filter(|catalog| !is_picked(&catalog.report));
    let (skills, remarks) = chain::check_stages(&snapshot, catalog.as_deref(), profile);
    let not_granted = if args.roots.roots.is_empty() {
        let mut grants = home_skills::tool_grants(session, &store, &snapshot);
        grants.retain(|grant| !grant.approved);
        grants
    } else {
        Vec::new()
    };
    let examination = SkillDoctorReport {
        profile,
        roots: snapshot.roots().iter().map(|root| SkillRoot::clone(root)).collect(),
        ignored: store.options().ignore.clone(),
        partial: snapshot.partial().cloned(),
        remarks,
        catalog: catalog.map(|catalog| catalog.report),
        skills,
        not_granted,
    };
    if session.output.json {
        session.output.print_json(&examination)?;
    } else {
        print::print(session.output, &examination)?;
        if is_interactive(session) {
            offer_approvals(session, &examination.not_granted)?;
        }
    }
    let sound = examination.partial.is_none() && !examination.skills.iter().any(|row| row.defect);
    Ok(if sound { exit::OK } else { exit::FINDINGS })
}
