//! The registry's tools and the audience of their results.

use skill_service::{
    ExplainCatalogArgs, LOAD_SKILLS, ListSkillsArgs, READ_LOADED, ReadSkillArgs, UNLOAD_SKILLS,
    audience_without, check_room, load_skills, read_loaded, read_skill, read_skill_resource,
    unload_skills,
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
    let hidden = of.registry.declarations.hidden_skills(cx);
    let audience = audience_without(cx, &hidden);
    to_tool_output(run_blocking(|| {
        of.registry.finder.list(&snapshot, audience, &args, near.as_ref())
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
    let hidden = of.registry.declarations.hidden_skills(cx);
    let turn = of.registry.finder.block_request(cx, &args.prompt, &hidden);
    to_tool_output(run_blocking(|| of.registry.finder.explain(&snapshot, &turn, near.as_ref())))
}

/// Calls a tool that reads a skill; the complete call uses one snapshot.
pub(crate) fn call_read(
    of: &RegistryState,
    cx: &CallContext,
    tool: &str,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, hidden) = (of.store.snapshot(), of.declarations.hidden_skills(cx));
    let audience = audience_without(cx, &hidden);
    tracing::debug!(args = args.as_str(), "{tool}");
    let answer = match tool {
        LOAD_SKILLS | UNLOAD_SKILLS | READ_LOADED => return call_session_tool(of, cx, tool, args),
        "read_skill" => {
            let args: ReadSkillArgs = args.parse()?;
            let room = check_room(cx, &args.skill_id);
            let answer = room.and_then(|()| read_skill(&of.store, &snapshot, audience, &args));
            answer.map(|it| {
                it.with_notes(of.declarations.conflict_notes(&snapshot, cx, &args.skill_id))
            })
        }
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

/// Calls a tool of the skills that the caller's thread has loaded.
fn call_session_tool(
    of: &RegistryState,
    cx: &CallContext,
    tool: &str,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (store, snapshot) = (&of.store, of.store.snapshot());
    let answer = match tool {
        LOAD_SKILLS => {
            let args = args.parse()?;
            let fits = of.declarations.check_load(&snapshot, cx, &args);
            fits.and_then(|()| load_skills(store, &snapshot, cx, &args))
        }
        UNLOAD_SKILLS => unload_skills(store, &snapshot, cx, &args.parse()?),
        _ => read_loaded(&snapshot, cx, &args.parse()?),
    };
    let answer = answer.map_err(to_extension_error)?;
    for read in answer.reads {
        of.finder.record_read(&cx.session_id, &cx.agent_id, &read);
        of.record_access(cx, read);
    }
    let output = ToolOutput::text(answer.text).with_structured(&answer.structured)?;
    Ok(match answer.change {
        Some(change) => output.with_skills_change(change),
        None => output,
    })
}
