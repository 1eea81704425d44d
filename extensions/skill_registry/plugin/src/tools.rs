//! The registry's tools and the audience of their results.

use skill_service::{
    ExplainCatalogArgs, ListSkillsArgs, audience_of, read_skill, read_skill_resource,
};
use skillhost_sdk::prelude::*;

use crate::bridge::{run_blocking, to_extension_error, to_tool_output};
use crate::embedding_search::EmbeddingSearch;
use crate::registry_state::RegistryState;

/// Calls `list_skills`.
pub(crate) async fn call_list_skills(
    of: &EmbeddingSearch,
    cx: &CallContext,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, args) = (of.registry.store.snapshot(), args.parse::<ListSkillsArgs>()?);
    let near = of.score_similarity(&snapshot, args.query.as_deref().unwrap_or_default()).await;
    to_tool_output(run_blocking(|| {
        of.registry.finder.list(&snapshot, audience_of(cx), &args, near.as_ref())
    }))
}

/// Calls `explain_catalog`.
pub(crate) async fn call_explain_catalog(
    of: &EmbeddingSearch,
    cx: &CallContext,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, args) = (of.registry.store.snapshot(), args.parse::<ExplainCatalogArgs>()?);
    let near = of.score_similarity(&snapshot, &args.prompt).await;
    let turn = of.registry.finder.block_request(cx, &args.prompt);
    to_tool_output(run_blocking(|| of.registry.finder.explain(&snapshot, &turn, near.as_ref())))
}

/// Calls a tool that reads a skill; the complete call uses one snapshot.
pub(crate) fn call_read(
    of: &RegistryState,
    cx: &CallContext,
    tool: &str,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, audience) = (of.store.snapshot(), audience_of(cx));
    tracing::debug!(args = args.as_str(), "{tool}");
    let answer = match tool {
        "read_skill" => read_skill(&of.store, &snapshot, audience, &args.parse()?),
        "read_skill_resource" => read_skill_resource(&snapshot, audience, &args.parse()?),
        other => return Err(ExtensionError::not_found(format!("no tool `{other}`"))),
    };
    let answer = answer.map_err(to_extension_error)?;
    if let Some(read) = answer.read.clone() {
        of.finder.record_read(&cx.session_id, &cx.agent_id, &read);
        of.record_access(cx, read);
    }
    to_tool_output(answer)
}
