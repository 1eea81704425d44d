//! The result of a call of a skill without a program.

use skillhost_handlers::{ProgramSkill, SkillResource};
use skillhost_payload::{CallError, SkillProgram, SkillTree, ToolOutput};

/// The name of the file with the instructions.
const SKILL_MD: &str = "SKILL.md";

/// Returns a skill as its callers see it.
fn describe_skill(tree: &SkillTree, program: &SkillProgram) -> ProgramSkill {
    // The instructions are in the result; the document lists the other files.
    let others = tree.files.iter().filter(|file| !file.path.eq_ignore_ascii_case(SKILL_MD));
    ProgramSkill {
        name: tree.name.clone(),
        description: tree.description.clone(),
        instructions: program.instructions.clone(),
        resources: others.map(|file| SkillResource::from_path(&file.path)).collect(),
        dir_path: tree.root.clone(),
    }
}

/// Returns the name, the description, the instructions and the files of a skill.
pub(crate) fn instruction_result(
    tree: &SkillTree,
    program: &SkillProgram,
) -> Result<ToolOutput, CallError> {
    let text = serde_json::to_string(&describe_skill(tree, program))
        .map_err(|error| CallError::protocol_error(&error))?;
    // Text and value are the same, because a client may pass only one of them to its model.
    let structured = serde_json::value::RawValue::from_string(text.clone())
        .map_err(|error| CallError::protocol_error(&error))?;
    Ok(ToolOutput { text, structured: Some(structured), ..ToolOutput::default() })
}
