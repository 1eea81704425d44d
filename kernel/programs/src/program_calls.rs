//! The calls of the programs of skills.

use async_trait::async_trait;
use skillhost_core::{Plugin, PreparedCall};
use skillhost_handlers::ProgramPlan;
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, OperatorCommand, SkillProgram, SkillTree,
    ToolOutput, ToolSpec,
};
use skillhost_policy::{PolicyLayer, parse_policy_json};

use crate::instructions::instruction_result;
use crate::skill_programs::SkillPrograms;

/// The plan of a call of a skill without a program.
struct InstructionPlan {
    tree: SkillTree,
    program: SkillProgram,
}

impl SkillPrograms {
    /// Finds the program of a tool as the caller sees it, with the files of its skill.
    async fn find(
        &self,
        context: &CallContext,
        tool: &str,
    ) -> Result<(SkillTree, SkillProgram), CallError> {
        // Requested for each call: the table may be older than the skill.
        let (host, provider) = self.provider()?;
        let program = self.find_program(context, tool).await?.ok_or_else(|| {
            CallError::new(ErrorKind::NotFound, format!("the program `{tool}` was removed"))
                .with_hint(format!("see: {}", OperatorCommand::ListTools))
        })?;
        let tree = self.get_tree(&host, &provider, context, &program).await?;
        Ok((tree, program))
    }
}

#[async_trait]
impl Plugin for SkillPrograms {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        // They are listed for each caller, by the source of the host.
        Ok(Vec::new())
    }

    async fn prepare(
        &self,
        context: &CallContext,
        name: &str,
        _: &str,
    ) -> Result<PreparedCall, CallError> {
        if context.origin == CallOrigin::Mcp {
            let message = "programs of skills are not called for clients of the MCP server";
            return Err(
                CallError::new(ErrorKind::Denied, message).with_hint("ask the user to call it")
            );
        }
        let (tree, program) = self.find(context, name).await?;
        // Instructions are text that the caller may read anyway, so they need no approval.
        if program.entry.is_none() {
            let plan = Box::new(InstructionPlan { tree, program });
            return Ok(PreparedCall { plan: Some(plan), ..PreparedCall::default() });
        }
        let layer = context.operator_policy.as_deref().map(parse_layer).transpose()?;
        let plan = self.runtime.prepare(tree, program, layer, context).await?;
        Ok(PreparedCall {
            details: Some(plan.describe()),
            scope: Some(plan.scope()),
            is_protected: plan.requires_approval(),
            grant: plan.status().into(),
            plan: Some(Box::new(plan)),
            ..PreparedCall::default()
        })
    }

    async fn invoke(
        &self,
        context: &CallContext,
        _: &str,
        arguments: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        // Only the plan that was approved may run.
        let plan = prepared.plan.ok_or_else(|| {
            CallError::new(ErrorKind::Denied, "the call was not prepared for its approval")
        })?;
        match plan.downcast::<InstructionPlan>() {
            Ok(plan) => instruction_result(&plan.tree, &plan.program),
            Err(plan) => match plan.downcast::<ProgramPlan>() {
                Ok(plan) => self.runtime.call(&plan, arguments, context).await,
                Err(_) => Err(CallError::new(ErrorKind::Protocol, "the plan is of another tool")),
            },
        }
    }
}

fn parse_layer(text: &str) -> Result<PolicyLayer, CallError> {
    let parsed = parse_policy_json(text).map_err(|error| {
        CallError::new(ErrorKind::InvalidArgument, format!("the policy of this call: {error}"))
            .with_hint("it is JSON with the keys of `sandbox.handlers` in skillhost.yaml")
    })?;
    for key in &parsed.ignored {
        tracing::warn!("`{key}` of the policy has no effect");
    }
    Ok(parsed.layer)
}
