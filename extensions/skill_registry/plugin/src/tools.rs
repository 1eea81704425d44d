//! The registry's tools: who answers, and for whom.

use skill_store::{
    ActivationKind, Answer, Audience, ExplainArgs, ListArgs, ReadArgs, ResourceArgs, Snapshot,
    Store, list_skills, read_skill, read_skill_resource, tool_descriptions,
};
use skillhost_sdk::prelude::*;

use crate::block::Prompter;
use crate::desk::Desk;
use crate::{audience, refused};

/// Declares the tools for one audience.
pub(crate) fn specs(snapshot: &Snapshot, audience: Audience<'_>) -> Vec<ToolSpec> {
    let declared = tool_descriptions(snapshot, audience).into_iter().map(|tool| {
        let spec = ToolSpec::new(tool.name, tool.description, tool.schema);
        let spec = if tool.read_only { spec.read_only() } else { spec };
        if tool.operators_only { spec.operator_only() } else { spec }
    });
    declared.collect()
}

/// Calls a tool that only reads; the whole call sees one snapshot.
pub(crate) fn invoke(
    store: &Store,
    desk: &Desk,
    prompter: &Prompter,
    cx: &CallContext,
    tool: &str,
    args: Args<'_>,
) -> Result<ToolOutput> {
    let (snapshot, audience) = (store.snapshot(), audience(cx));
    match tool {
        "list_skills" => output(list_skills(&snapshot, audience, &args.parse::<ListArgs>()?)),
        "read_skill" => {
            let args: ReadArgs = args.parse()?;
            tracing::debug!(skill = args.skill_id, "read_skill");
            let answer = read_skill(store, &snapshot, audience, &args).map_err(refused)?;
            prompter.blocks.note_read(&cx.session_id, &cx.agent_id, &args.skill_id);
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
        "explain_catalog" => output(prompter.explain(cx, &args.parse::<ExplainArgs>()?.prompt)),
        other => Err(ExtError::not_found(format!("no tool `{other}`"))),
    }
}

/// An answer in the kernel's shape.
pub(crate) fn output(answer: Answer) -> Result<ToolOutput> {
    ToolOutput::text(answer.text).with_structured(&answer.structured)
}
