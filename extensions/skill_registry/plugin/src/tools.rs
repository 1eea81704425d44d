//! The registry's tools: who answers, and for whom.

use skill_store::{
    Answer, ExplainArgs, ListArgs, read_skill, read_skill_resource, tool_descriptions,
};
use skillhost_sdk::prelude::*;

use crate::caller::audience;
use crate::desk::Desk;
use crate::meaning::Meaning;
use crate::{blocking, refused};

/// Declares the tools for whoever calls.
pub(crate) fn specs(desk: &Desk, cx: &CallContext) -> Vec<ToolSpec> {
    let declared = tool_descriptions(&desk.store.snapshot(), audience(cx));
    let declared = declared.into_iter().map(|tool| {
        let spec = ToolSpec::new(tool.name, tool.description, tool.schema);
        let spec = match tool.value {
            Some(schema) => spec.output_schema(schema),
            None => spec,
        };
        let spec = if tool.read_only { spec.read_only() } else { spec };
        if tool.operators_only { spec.operator_only() } else { spec }
    });
    declared.collect()
}

/// Calls `list_skills`.
pub(crate) async fn list(of: &Meaning, cx: &CallContext, args: ToolArgs<'_>) -> Result<ToolOutput> {
    let (snapshot, args) = (of.desk.store.snapshot(), args.parse::<ListArgs>()?);
    let near = of.near(&snapshot, args.query.as_deref().unwrap_or_default()).await;
    output(blocking(|| of.desk.finder.list(&snapshot, audience(cx), &args, near.as_ref())))
}

/// Calls `explain_catalog`.
pub(crate) async fn explain(
    of: &Meaning,
    cx: &CallContext,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, args) = (of.desk.store.snapshot(), args.parse::<ExplainArgs>()?);
    let near = of.near(&snapshot, &args.prompt).await;
    let turn = of.desk.turn(cx, &args.prompt);
    output(blocking(|| of.desk.finder.explain(&snapshot, &turn, near.as_ref())))
}

/// Calls a tool that reads a skill; the whole call sees one snapshot.
pub(crate) fn read(
    of: &Desk,
    cx: &CallContext,
    tool: &str,
    args: ToolArgs<'_>,
) -> Result<ToolOutput> {
    let (snapshot, audience) = (of.store.snapshot(), audience(cx));
    tracing::debug!(args = args.as_str(), "{tool}");
    let answer = match tool {
        "read_skill" => read_skill(&of.store, &snapshot, audience, &args.parse()?),
        "read_skill_resource" => read_skill_resource(&snapshot, audience, &args.parse()?),
        other => return Err(ExtensionError::not_found(format!("no tool `{other}`"))),
    };
    let mut answer = answer.map_err(refused)?;
    let skill = answer.skill();
    if let Some(read) = answer.read.take() {
        of.finder.note_read(&cx.session_id, &cx.agent_id, &read);
        of.record(cx, read);
    }
    let output = output(answer)?;
    Ok(match skill {
        Some((skill_id, digest)) => output.with_skill(skill_id, digest),
        None => output,
    })
}

/// An answer in the kernel's shape.
pub(crate) fn output(answer: Answer) -> Result<ToolOutput> {
    ToolOutput::text(answer.text).with_structured(&answer.structured)
}
