//! `skillhost skill`: skills on disk, without a kernel. One file per command.

mod batch;
mod cost;
mod doctor;
mod fmt;
mod graph;
mod lint;
mod loaded;
mod new;
mod reference;
mod render;
mod report;
mod rules;
mod stored;
mod triads;
mod validate;

use crate::cli::SkillCommand;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn skill(session: &Session, command: &SkillCommand) -> Outcome {
    match command {
        SkillCommand::List { query, tag, roots } => {
            stored::list(session, query.as_deref(), tag, roots)
        }
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
    }
}
