//! `skillhost skill`: skills on disk, without a kernel. One file per command.

mod approve;
mod audit_log;
mod batch;
mod compare;
mod consent;
mod cost;
mod declared;
mod desk;
mod doctor;
mod fmt;
mod graph;
mod history;
mod lint;
mod loaded;
pub(super) mod new;
mod page;
mod proposals;
mod prune;
mod rebase;
mod recorded;
mod reference;
mod reject;
mod render;
mod report;
mod review;
mod rollback;
mod rules;
mod search;
mod states;
mod stats;
pub(super) mod stored;
mod triads;
mod validate;

use crate::cli::{LedgerCommand, SkillCommand};
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn skill(session: &Session, command: &SkillCommand) -> Outcome {
    match command {
        SkillCommand::List { query, tag, roots } => {
            stored::list(session, query.as_deref(), tag, roots)
        }
        SkillCommand::Search(args) => search::search(session, args),
        SkillCommand::Enable(args) => states::enable(session, args),
        SkillCommand::Disable(args) => states::disable(session, args),
        SkillCommand::Show { id, roots } => stored::show(session, id, roots),
        SkillCommand::Read { id, roots } => stored::read(session, id, roots),
        SkillCommand::Resource { id, path, roots } => stored::resource(session, id, path, roots),
        SkillCommand::Validate(args) => validate::validate(session, args),
        SkillCommand::Lint(args) => lint::lint(session, args),
        SkillCommand::Fmt(args) => fmt::fmt(session, args),
        SkillCommand::New(args) => new::new(session, args),
        SkillCommand::Rules(args) => rules::rules(session, args),
        SkillCommand::Cost(args) => cost::cost(session, args),
        SkillCommand::Doctor(args) => doctor::doctor(session, args),
        SkillCommand::Graph(args) => graph::graph(session, args),
        SkillCommand::Render(args) => render::render(session, args),
        SkillCommand::Triads(args) => triads::triads(session, args),
        SkillCommand::ReadProperties(args) => reference::read_properties(session, args),
        SkillCommand::ToPrompt(args) => reference::to_prompt(session, args),
        SkillCommand::Ledger(command) => ledger(session, command),
    }
}

fn ledger(session: &Session, command: &LedgerCommand) -> Outcome {
    match command {
        LedgerCommand::Proposals(args) => proposals::proposals(session, args),
        LedgerCommand::Review(args) => review::review(session, args),
        LedgerCommand::Approve(args) => approve::approve(session, args),
        LedgerCommand::Reject(args) => reject::reject(session, args),
        LedgerCommand::Rebase(args) => rebase::rebase(session, args),
        LedgerCommand::History(args) => history::history(session, args),
        LedgerCommand::Diff(args) => compare::diff(session, args),
        LedgerCommand::Rollback(args) => rollback::rollback(session, args),
        LedgerCommand::Prune(args) => prune::prune(session, args),
        LedgerCommand::AuditLog(args) => audit_log::audit_log(session, args),
        LedgerCommand::Stats(args) => stats::stats(session, args),
    }
}
