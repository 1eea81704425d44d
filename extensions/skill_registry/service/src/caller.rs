//! The caller of the registry, from the kernel's call context.

use serde_json::json;
use skill_catalog::{AgentAuthor, AgentScope, Audience, CatalogScope, HiddenSkill};
use skill_format::is_case_file;
use skillhost_payload::{CallContext, CallOrigin, CatalogScope as CallerScope};

/// Returns the audience of a call: operators also see skills that are not offered to models.
#[must_use]
pub fn audience_of(context: &CallContext) -> Audience<'_> {
    audience_without(context, &[])
}

/// Returns the audience of a call whose agent is not offered some skills.
#[must_use]
pub fn audience_without<'a>(context: &'a CallContext, hidden: &'a [HiddenSkill]) -> Audience<'a> {
    match context.origin {
        CallOrigin::Operator => Audience::Operator,
        CallOrigin::Agent | CallOrigin::Mcp => Audience::Agent(scope_of(context, hidden)),
    }
}

/// Returns the author of what a call writes.
#[must_use]
pub fn author_of(context: &CallContext) -> AgentAuthor {
    AgentAuthor {
        agent_id: context.agent_id.clone(),
        session_id: context.session_id.clone(),
        turn_id: context.turn_id.clone(),
        // As on the wire.
        origin: json!(context.origin).as_str().unwrap_or_default().to_owned(),
    }
}

/// Returns the skill scope of a call's agent.
pub(crate) fn scope_of<'a>(context: &'a CallContext, hidden: &'a [HiddenSkill]) -> AgentScope<'a> {
    let catalog = match &context.catalog {
        CallerScope::All => CatalogScope::All,
        CallerScope::Declared => CatalogScope::Declared,
        CallerScope::None => CatalogScope::None,
        CallerScope::Globs { include, exclude } => CatalogScope::Globs { include, exclude },
    };
    AgentScope { catalog, bound: &context.uses_skills, hidden }
}

/// Returns whether a model does not get a file: the cases of a skill are for those who test it, and
/// would only teach a model how it is tested.
pub(crate) fn is_withheld(audience: Audience<'_>, path: &str) -> bool {
    audience != Audience::Operator && is_case_file(path)
}
