//! The caller of a tool, from the kernel's call context.

use skill_catalog::{AgentAuthor, AgentScope, Audience, CatalogScope};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{CallOrigin, CatalogScope as Catalog};

/// Returns the audience of a call: operators also see skills that are not offered to models.
pub(crate) fn audience_of(cx: &CallContext) -> Audience<'_> {
    match cx.origin {
        CallOrigin::Operator => Audience::Operator,
        CallOrigin::Agent | CallOrigin::Mcp => Audience::Agent(scope_of(cx)),
    }
}

/// Returns the skill scope of a call's agent.
pub(crate) fn scope_of(cx: &CallContext) -> AgentScope<'_> {
    let catalog = match &cx.catalog {
        Catalog::All => CatalogScope::All,
        Catalog::Declared => CatalogScope::Declared,
        Catalog::None => CatalogScope::None,
        Catalog::Globs { include, exclude } => CatalogScope::Globs { include, exclude },
    };
    AgentScope { catalog, bound: &cx.uses_skills }
}

pub(crate) fn author_of(cx: &CallContext) -> AgentAuthor {
    AgentAuthor {
        agent_id: cx.agent_id.clone(),
        session_id: cx.session_id.clone(),
        turn_id: cx.turn_id.clone(),
        // As on the wire.
        origin: json!(cx.origin).as_str().unwrap_or_default().to_owned(),
    }
}
