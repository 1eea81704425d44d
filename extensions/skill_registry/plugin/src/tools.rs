//! The registry's tools: who answers, and for whom.

use skill_store::{
    ActivationKind, Answer, ExplainArgs, Finder, ReadArgs, ResourceArgs, Store, read_skill,
    read_skill_resource, tool_descriptions,
};
use skillhost_sdk::prelude::*;

use crate::caller::{audience, turn};
use crate::desk::Desk;
use crate::meaning::Meaning;
use crate::{blocking, refused};

/// Declares the tools for whoever calls.
pub(crate) fn specs(store: &Store, cx: &CallContext) -> Vec<ToolSpec> {
    let declared = tool_descriptions(&store.snapshot(), audience(cx)).into_iter().map(|tool| {
        let spec = ToolSpec::new(tool.name, tool.description, tool.schema);
        let spec = if tool.read_only { spec.read_only() } else { spec };
        if tool.operators_only { spec.operator_only() } else { spec }
    });
    declared.collect()
}

/// Calls a tool that looks for skills.
pub(crate) async fn find(
    finder: &Arc<Finder>,
    (store, meaning): (&Store, &Meaning),
    cx: &CallContext,
    tool: &str,
    args: Args<'_>,
) -> Result<ToolOutput> {
    let snapshot = store.snapshot();
    if tool == "explain_catalog" {
        let args: ExplainArgs = args.parse()?;
        let near = meaning.near(&snapshot, &args.prompt).await;
        let turn = turn(cx, finder.config(), &args.prompt);
        return output(blocking(|| finder.explain(&snapshot, &turn, near.as_ref())));
    }
    let args: skill_store::ListArgs = args.parse()?;
    let near = meaning.near(&snapshot, args.query.as_deref().unwrap_or_default()).await;
    output(blocking(|| finder.list(&snapshot, audience(cx), &args, near.as_ref())))
}

/// Calls a tool that reads a skill; the whole call sees one snapshot.
pub(crate) fn read(
    store: &Store,
    (desk, finder): (&Desk, &Finder),
    cx: &CallContext,
    tool: &str,
    args: Args<'_>,
) -> Result<ToolOutput> {
    let (snapshot, audience) = (store.snapshot(), audience(cx));
    match tool {
        "read_skill" => {
            let args: ReadArgs = args.parse()?;
            tracing::debug!(skill = args.skill_id, "read_skill");
            let answer = read_skill(store, &snapshot, audience, &args).map_err(refused)?;
            finder.note_read(&cx.session_id, &cx.agent_id, &args.skill_id);
            desk.record(cx, ActivationKind::Skill, args.skill_id, None, answer.read);
            output(answer)
        }
        "read_skill_resource" => {
            let args: ResourceArgs = args.parse()?;
            tracing::debug!(skill = args.skill_id, path = args.path, "read_skill_resource");
            let answer = read_skill_resource(&snapshot, audience, &args).map_err(refused)?;
            let kind = ActivationKind::Resource;
            desk.record(cx, kind, args.skill_id, Some(args.path), answer.read);
            output(answer)
        }
        other => Err(ExtError::not_found(format!("no tool `{other}`"))),
    }
}

/// An answer in the kernel's shape.
pub(crate) fn output(answer: Answer) -> Result<ToolOutput> {
    ToolOutput::text(answer.text).with_structured(&answer.structured)
}
