//! File tools for agents, in the sandbox of the home and in the user's workspaces.
//!
//! `jail` is the only access to a file: a path is accepted or rejected as text, then opened
//! without following a link. A write is planned first. Its [`WritePlan`] lists the skills that it
//! creates, so that they can be announced to the registry beforehand, and its effect, so that a
//! person can approve exactly that. Then it is committed completely or not at all.
//!
//! No tool has access to `data`, the private data of extensions. No writing tool has access to the
//! files of a skill.

mod change;
mod changed_files;
mod effect;
mod find;
mod git_diff;
mod git_log;
mod git_place;
mod ignore_rules;
mod jail;
mod list;
mod patch;
mod path;
mod paths;
mod plan;
mod printable;
mod read;
mod relocate;
mod repository;
mod result;
mod roots;
mod search;
mod skill;
mod spec;
mod temporary;
mod text;
mod walk;
mod worktree;
mod write;

use std::time::{Duration, Instant};

use skillhost_sdk::prelude::*;
use skillhost_sdk::{EffectProvider, SkillClient, ToolEffect, tokio};

pub use find::{FindArgs, find_files};
pub use git_diff::{GitDiffArgs, git_diff};
pub use git_log::{GitLogArgs, git_log};
pub use list::{ListArgs, list_directory};
pub use patch::{PatchArgs, apply_patch};
pub use path::FilePath;
pub use paths::{DeleteArgs, MoveArgs, delete_path, move_path};
pub use plan::WritePlan;
pub use read::{ReadArgs, read_file};
pub use result::ToolResult;
pub use roots::FileRoots;
pub use search::{SearchArgs, search_text};
pub use walk::{CancelGuard, WalkControl};
pub use write::{WriteArgs, WriteFilesArgs, write_file, write_files};

/// The longest time of a walk over many files.
const WALK_TIMEOUT: Duration = Duration::from_secs(30);

/// The extension that manages skills.
const REGISTRY: &str = "skill_registry";

/// The extension.
struct CoreTools {
    roots: FileRoots,
    registry: Option<SkillClient>,
}

#[async_trait]
impl Extension for CoreTools {
    fn new(cx: ExtensionContext) -> Result<Self> {
        // A manifest that does not name the registry has none.
        Ok(Self { roots: FileRoots::new(cx.home()), registry: cx.skill_client(REGISTRY).ok() })
    }
}

#[async_trait]
impl ToolProvider for CoreTools {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        spec::tool_specs()
    }

    async fn invoke(&self, cx: &CallContext, tool: &str, args: ToolArgs<'_>) -> Result<ToolOutput> {
        let roots = &self.roots.for_call(cx);
        match tool {
            "read_file" => {
                let args = args.parse()?;
                return output(run_blocking(|| read_file(roots, &args))?);
            }
            "list_directory" => {
                let args = args.parse()?;
                return output(run_blocking(|| list_directory(roots, &args))?);
            }
            "search_text" => {
                let args: SearchArgs = args.parse()?;
                return run_walk(roots, cx, move |roots, it| search_text(roots, &args, it)).await;
            }
            "find_files" => {
                let args: FindArgs = args.parse()?;
                return run_walk(roots, cx, move |roots, it| find_files(roots, &args, it)).await;
            }
            "git_diff" => {
                let args: GitDiffArgs = args.parse()?;
                return run_walk(roots, cx, move |roots, it| git_diff(roots, &args, it)).await;
            }
            "git_log" => {
                let args: GitLogArgs = args.parse()?;
                return run_walk(roots, cx, move |roots, it| git_log(roots, &args, it)).await;
            }
            _ => {}
        }
        // The announcement comes before the write: a new skill must never be served unannounced.
        let planned = run_blocking(|| plan(roots, tool, args))?;
        let (registry, skills) = (self.registry.as_ref(), planned.new_skills().to_vec());
        skill::announce_skills(registry, cx, &skills).await?;
        let mut done = run_blocking(|| planned.commit(roots, cx.approved_effect.as_deref()))?;
        done.text.push_str(&skill::report_written_skills(registry, cx, &skills).await);
        done.structured["new_skills"] = json!(skills);
        output(done)
    }
}

#[async_trait]
impl EffectProvider for CoreTools {
    async fn preview(
        &self,
        cx: &CallContext,
        tool: &str,
        args: ToolArgs<'_>,
        with_text: bool,
    ) -> Result<Option<ToolEffect>> {
        let roots = &self.roots.for_call(cx);
        run_blocking(|| plan(roots, tool, args)?.effect(roots, with_text)).map(Some)
    }
}

/// Plans the write of a tool.
fn plan(roots: &FileRoots, tool: &str, args: ToolArgs<'_>) -> Result<WritePlan> {
    match tool {
        "write_file" => write_file(roots, &args.parse()?),
        "write_files" => write_files(roots, &args.parse()?),
        "apply_patch" => apply_patch(roots, &args.parse()?),
        "move_path" => move_path(roots, &args.parse()?),
        "delete_path" => delete_path(roots, &args.parse()?),
        other => Err(ExtensionError::not_found(format!("no tool `{other}`"))),
    }
}

fn output(done: ToolResult) -> Result<ToolOutput> {
    ToolOutput::text(done.text).with_structured(&done.structured)
}

/// Runs a walk over many files; it ends early when the call is cancelled or its time is over.
async fn run_walk(
    roots: &FileRoots,
    cx: &CallContext,
    work: impl FnOnce(&FileRoots, &WalkControl) -> Result<ToolResult> + Send + 'static,
) -> Result<ToolOutput> {
    // The result so far has to arrive before the deadline of the call.
    let limit = cx.deadline_ms.map(|ms| Duration::from_millis(ms / 4 * 3));
    let limit = limit.map_or(WALK_TIMEOUT, |limit| limit.min(WALK_TIMEOUT));
    let (control, roots) = (WalkControl::new(Instant::now() + limit), roots.clone());
    // A dropped call drops this guard; the threads of the walk check it.
    let _guard = control.cancel_on_drop();
    let walk = tokio::task::spawn_blocking(move || work(&roots, &control));
    let done = walk.await.map_err(|error| {
        ExtensionError::new(ErrorKind::Panicked, format!("the walk ended: {error}"))
    })?;
    output(done?)
}

/// Runs work that blocks on the disk on a thread where it delays no other call.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

export_extension!(CoreTools: tools, effects);
