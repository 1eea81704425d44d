//! File tools for agents, inside the sandbox of the home.
//!
//! `jail` is the only access to a file: a path is accepted or rejected as text, then opened
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
mod plan;
mod read;
mod relocate;
mod result;
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
pub use path::SandboxPath;
pub use paths::{DeleteArgs, MoveArgs, delete_path, move_path};
pub use plan::WritePlan;
pub use read::{ReadArgs, read_file};
pub use result::ToolResult;
pub use write::{WriteArgs, WriteFilesArgs, write_file, write_files};

/// The extension that manages skills.
const REGISTRY: &str = "skill_registry";

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
        let (registry, skills) = (self.registry.as_ref(), planned.new_skills().to_vec());
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
