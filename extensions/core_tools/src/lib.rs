//! File tools for agents, inside the sandbox of the home.
//!
//! [`jail`] is the only access to a file: a path is accepted or rejected as text, then opened
//! without following a link. A write is planned first. Its [`WritePlan`] lists the skills that it
//! creates, so that they can be announced to the registry beforehand, and its effect, so that a
//! person can approve exactly that. Then it is committed completely or not at all.
//!
//! No tool has access to `data`, the private data of extensions. No writing tool has access to the
//! files of a skill.

mod change;
mod effect;
mod jail;
mod list;
mod patch;
mod path;
mod paths;
mod read;
mod skill;
mod spec;
mod temporary;
mod text;
mod write;

use skillhost_sdk::prelude::*;
use skillhost_sdk::{EffectProvider, SkillClient, ToolEffect, tokio};

pub use jail::Sandbox;
pub use list::{ListArgs, list_directory};
pub use patch::{PatchArgs, apply_patch};
pub use path::{SandboxPath, SandboxPathError};
pub use paths::{DeleteArgs, MoveArgs, delete_path, move_path};
pub use read::{ReadArgs, read_file};
pub use write::{WriteArgs, WriteFilesArgs, write_file, write_files};

use change::ChangeSet;

/// The extension that manages skills.
const REGISTRY: &str = "skill_registry";

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The text for a model.
    pub text: String,
    /// The value for a program.
    pub structured: Value,
}

/// A write that was examined but not committed.
#[derive(Clone, Debug)]
pub struct WritePlan {
    skills: Vec<String>,
    act: PlannedAction,
    done: ToolResult,
}

#[derive(Clone, Debug)]
enum PlannedAction {
    Edit(ChangeSet),
    Move { from: SandboxPath, to: SandboxPath },
    Delete { path: SandboxPath, recursive: bool },
}

impl WritePlan {
    fn edits(sandbox: &Sandbox, change: ChangeSet, done: ToolResult) -> Result<Self> {
        Ok(Self { skills: change.new_skills(sandbox)?, act: PlannedAction::Edit(change), done })
    }

    /// Returns the ids of the skills that it creates.
    #[must_use]
    pub fn new_skills(&self) -> &[String] {
        &self.skills
    }

    /// Returns its effect; with the texts only if `with_text` is set.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn effect(&self, sandbox: &Sandbox, with_text: bool) -> Result<ToolEffect> {
        match &self.act {
            PlannedAction::Edit(change) => Ok(effect::of_edits(change, with_text)),
            PlannedAction::Move { from, to } => effect::of_move(sandbox, from, to, with_text),
            PlannedAction::Delete { path, .. } => effect::of_deletion(sandbox, path, with_text),
        }
    }

    /// Commits the write completely or not at all. `approved` is the digest of the effect that a
    /// person approved.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if a file has changed since it was examined, or the effect is not
    /// the approved one; those of the disk.
    pub fn commit(self, sandbox: &Sandbox, approved: Option<&str>) -> Result<ToolResult> {
        match &self.act {
            PlannedAction::Edit(change) => {
                effect::check_approved(approved, || Ok(effect::of_edits(change, true)))?;
                change.commit(sandbox)?;
            }
            PlannedAction::Move { from, to } => paths::move_entry(sandbox, from, to, approved)?,
            PlannedAction::Delete { path, recursive } => {
                return paths::remove(sandbox, path, *recursive, approved);
            }
        }
        Ok(self.done)
    }
}

/// The extension.
struct CoreTools {
    sandbox: Sandbox,
    registry: Option<SkillClient>,
}

#[async_trait]
impl Extension for CoreTools {
    fn new(cx: ExtensionContext) -> Result<Self> {
        // A manifest that does not name the registry has none.
        Ok(Self { sandbox: Sandbox::new(cx.home()), registry: cx.skill_client(REGISTRY).ok() })
    }
}

#[async_trait]
impl ToolProvider for CoreTools {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        spec::tool_specs()
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let sandbox = &self.sandbox;
        match tool {
            "read_file" => {
                let args = args.parse()?;
                return output(run_blocking(|| read_file(sandbox, &args))?);
            }
            "list_directory" => {
                let args = args.parse()?;
                return output(run_blocking(|| list_directory(sandbox, &args))?);
            }
            _ => {}
        }
        // The announcement comes before the write: a new skill must never be served unannounced.
        let planned = run_blocking(|| plan(sandbox, tool, args))?;
        let (registry, skills) = (self.registry.as_ref(), planned.skills.clone());
        skill::announce_skills(registry, cx, &skills).await?;
        let mut done = run_blocking(|| planned.commit(sandbox, cx.approved_effect.as_deref()))?;
        done.text.push_str(&skill::report_written_skills(registry, cx, &skills).await);
        done.structured["new_skills"] = json!(skills);
        output(done)
    }
}

#[async_trait]
impl EffectProvider for CoreTools {
    async fn preview(
        &self,
        _cx: &CallContext,
        tool: &str,
        args: ToolArgs<'_>,
        with_text: bool,
    ) -> Result<Option<ToolEffect>> {
        let sandbox = &self.sandbox;
        run_blocking(|| plan(sandbox, tool, args)?.effect(sandbox, with_text)).map(Some)
    }
}

/// Plans the write of a tool.
fn plan(sandbox: &Sandbox, tool: &str, args: ToolArgs<'_>) -> Result<WritePlan> {
    match tool {
        "write_file" => write_file(sandbox, &args.parse()?),
        "write_files" => write_files(sandbox, &args.parse()?),
        "apply_patch" => apply_patch(sandbox, &args.parse()?),
        "move_path" => move_path(sandbox, &args.parse()?),
        "delete_path" => delete_path(sandbox, &args.parse()?),
        other => Err(ExtensionError::not_found(format!("no tool `{other}`"))),
    }
}

fn output(done: ToolResult) -> Result<ToolOutput> {
    ToolOutput::text(done.text).with_structured(&done.structured)
}

/// Runs work that blocks on the disk on a thread where it delays no other call.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

export_extension!(CoreTools: tools, effects);
