//! `skillhost skill`: skills on disk, without a kernel. One file per command.

mod approve;
mod approve_scripts;
mod arguments;
mod audit_log;
mod batch;
mod call;
mod case_scripts;
mod compare;
mod consent;
mod cost;
mod declared;
mod difference;
mod doctor;
mod export;
mod fmt;
mod graph;
mod history;
mod home_reviews;
mod home_skills;
mod known_ids;
mod line_diff;
mod lint;
mod loadable_skills;
mod lsp;
mod new;
mod operator_policy;
mod optimize;
mod page;
mod policy_run;
mod programs;
mod proposals;
mod prune;
mod rebase;
mod recorded;
mod reference;
mod reject;
mod render;
mod report;
mod review;
mod review_context;
mod roles;
mod rollback;
mod rules;
mod run_script;
mod script_approval;
mod search;
mod skills_ref;
mod states;
mod stats;
mod test;
mod validate;
mod waiting;
mod wording;

use skillhost_terminal::{CliContext, CommandResult};

pub use arguments::{ExportArgs, SkillCommand};
use arguments::{LedgerCommand, ProposalCommand};
pub use doctor::ToolRequests;
pub use export::cmd_export;
pub use home_reviews::HomeReviews;
pub use home_skills::{REGISTRY, registry_config};
pub use known_ids::{proposal_ids, rule_ids, skill_ids};
pub use new::create_directory;
pub use skill_test_command::ModelRunners;
pub use skills_ref::{reference_tool_name, run_reference_tool};
pub use waiting::waiting_reviews;

/// Runs a command about skills. `kernel` is used by the one command that a kernel answers, `models` by
/// tests and optimizations with a model.
///
/// # Errors
/// The command failed.
pub fn cmd_skill(
    session: &CliContext,
    command: &SkillCommand,
    kernel: ToolRequests<'_>,
    models: ModelRunners<'_>,
) -> CommandResult {
    match command {
        SkillCommand::List { query, tag, roots } => {
            home_skills::cmd_skill_list(session, query.as_deref(), tag, roots)
        }
        SkillCommand::Search(args) => search::cmd_skill_search(session, args),
        SkillCommand::Enable(args) => states::cmd_skill_enable(session, args),
        SkillCommand::Disable(args) => states::cmd_skill_disable(session, args),
        SkillCommand::Show { id, roots } => home_skills::cmd_skill_show(session, id, roots),
        SkillCommand::Read { id, path: None, roots } => {
            home_skills::cmd_skill_read(session, id, roots)
        }
        SkillCommand::Read { id, path: Some(path), roots }
        | SkillCommand::Resource { id, path, roots } => {
            home_skills::cmd_skill_resource(session, id, path, roots)
        }
        SkillCommand::Run(args) => run_script::cmd_skill_run(session, args),
        SkillCommand::ApproveScripts(args) => {
            approve_scripts::cmd_skill_approve_scripts(session, args)
        }
        SkillCommand::Validate(args) => validate::cmd_skill_validate(session, args),
        SkillCommand::Lint(args) => lint::cmd_skill_lint(session, args),
        SkillCommand::Test(args) => test::cmd_skill_test(session, args, models.tests),
        SkillCommand::Optimize(args) => {
            optimize::cmd_skill_optimize(session, args, models.optimizations)
        }
        SkillCommand::Lsp => lsp::cmd_skill_lsp(session),
        SkillCommand::Fmt(args) => fmt::cmd_skill_fmt(session, args),
        SkillCommand::Call(args) => call::cmd_skill_call(session, args, kernel),
        SkillCommand::New(args) => new::cmd_skill_new(session, args),
        SkillCommand::Rules(args) => rules::cmd_skill_rules(session, args),
        SkillCommand::Cost(args) => cost::cmd_skill_cost(session, args),
        SkillCommand::Doctor(args) => doctor::cmd_skill_doctor(session, args, kernel),
        SkillCommand::Graph(args) => graph::cmd_skill_graph(session, args),
        SkillCommand::Render(args) => render::cmd_skill_render(session, args),
        SkillCommand::Export(args) => export::cmd_export(session, args),
        SkillCommand::Explain(args) => doctor::cmd_skill_explain(session, args, kernel),
        SkillCommand::Roles(args) => roles::cmd_skill_roles(session, args),
        SkillCommand::ReadProperties(args) => reference::cmd_skill_read_properties(session, args),
        SkillCommand::ToPrompt(args) => reference::cmd_skill_to_prompt(session, args),
        SkillCommand::Ledger(command) => ledger(session, command),
    }
}

fn ledger(session: &CliContext, command: &LedgerCommand) -> CommandResult {
    match command {
        LedgerCommand::Proposal(command) => proposal(session, command),
        LedgerCommand::Proposals(args) => proposals::cmd_skill_proposals(session, args),
        LedgerCommand::Review(args) => review::cmd_skill_review(session, args),
        LedgerCommand::Approve(args) => approve::cmd_skill_approve(session, args),
        LedgerCommand::Reject(args) => reject::cmd_skill_reject(session, args),
        LedgerCommand::Rebase(args) => rebase::cmd_skill_rebase(session, args),
        LedgerCommand::History(args) => history::cmd_skill_history(session, args),
        LedgerCommand::Diff(args) => compare::cmd_skill_diff(session, args),
        LedgerCommand::Rollback(args) => rollback::cmd_skill_rollback(session, args),
        LedgerCommand::Prune(args) => prune::prune(session, args),
        LedgerCommand::AuditLog(args) => audit_log::cmd_skill_audit_log(session, args),
        LedgerCommand::Stats(args) => stats::cmd_skill_stats(session, args),
    }
}

fn proposal(session: &CliContext, command: &ProposalCommand) -> CommandResult {
    match command {
        ProposalCommand::List(args) => proposals::cmd_skill_proposals(session, args),
        ProposalCommand::Review(args) => review::cmd_skill_review(session, args),
        ProposalCommand::Approve(args) => approve::cmd_skill_approve(session, args),
        ProposalCommand::Reject(args) => reject::cmd_skill_reject(session, args),
        ProposalCommand::Rebase(args) => rebase::cmd_skill_rebase(session, args),
    }
}
