//! The calls of the programs of skills.

use async_trait::async_trait;
use skillhost_core::{Plugin, PreparedCall, get_skill_tree};
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, OperatorCommand, SkillProgram, SkillTree,
    ToolOutput, ToolSpec,
};

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
        let (host, provider) = self.provider()?;
        let program = self.find_program(context, tool).await?.ok_or_else(|| {
            CallError::new(ErrorKind::NotFound, format!("the program `{tool}` was removed"))
                .with_hint(format!("see: {}", OperatorCommand::ListTools))
        })?;
        let skill = Some(&*program.skill_id);
        let tree = get_skill_tree(&provider, context, skill, host.limits().tool).await?;
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
        if program.entry.is_none() {
            let plan = Box::new(InstructionPlan { tree, program });
            return Ok(PreparedCall { plan: Some(plan), ..PreparedCall::default() });
        }
        Err(CallError::new(
            ErrorKind::Unavailable,
            format!("this kernel does not run programs of skills, such as `{name}`"),
        )
        .with_hint("read the skill and follow its instructions"))
    }

    async fn invoke(
        &self,
        _: &CallContext,
        _: &str,
        _: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        // Only the plan that was approved may run.
        let plan = prepared.plan.ok_or_else(|| {
            CallError::new(ErrorKind::Denied, "the call was not prepared for its approval")
        })?;
        let plan = plan
            .downcast::<InstructionPlan>()
            .map_err(|_| CallError::new(ErrorKind::Protocol, "the plan is of another tool"))?;
        instruction_result(&plan.tree, &plan.program)
    }
}
