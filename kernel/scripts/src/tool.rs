//! The tool `skills.run_script`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_core::{
    ExtensionHost, Plugin, PreparedCall, ToolTable, get_skill_tree, report_script_run,
};
use skillhost_files::remove_abandoned_runs;
use skillhost_home::{GrantStatus, KERNEL_OWNER, load_operator_policy};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, CallOrigin, ErrorKind, OperatorCommand, SkillTree,
    SkillUse, SkillUseKind, TaskSupport, ToolAudience, ToolOutput, ToolSpec, object_schema,
};
use skillhost_policy::PolicyUse;
use skillhost_sandbox::SandboxLauncher;
use tokio::task::spawn_blocking;

use crate::grant::{check_grant, describe_grant, load_grants};
use crate::plan::{MAX_ARGUMENT, MAX_ARGUMENTS, ScriptPlan, ScriptRequest};
use crate::work_directory::open_thread_directory;

const NAME: &str = "skills.run_script";

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunScriptArgs {
    path: String,
    #[serde(default)]
    skill: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "work_directory")]
    workdir: String,
}

fn work_directory() -> String {
    ".".to_owned()
}

/// The tool.
struct ScriptTool {
    /// Weak, because the host has the tool.
    host: Weak<ExtensionHost>,
    launcher: SandboxLauncher,
}

/// Adds the tool to those of the kernel, and removes the private directories of killed kernels on
/// another thread.
///
/// # Panics
/// If the name is taken, which is a mistake in the program; outside of a tokio runtime.
pub fn add_script_tool(tools: &mut ToolTable, host: &Arc<ExtensionHost>) {
    let owner = ExtensionId::new(KERNEL_OWNER).expect("the id is valid");
    let tool = ScriptTool { host: Arc::downgrade(host), launcher: SandboxLauncher::default() };
    let plugin: Arc<dyn Plugin> = Arc::new(tool);
    // Nothing waits for it: a directory that is in use is locked.
    drop(spawn_blocking(remove_abandoned_runs));
    let added = tools.add_builtin(&owner, &plugin, &[tool_spec()]);
    added.expect("the tool has a valid name and schema");
}

fn tool_spec() -> ToolSpec {
    let properties = json!({
        "path": {
            "type": "string", "minLength": 1,
            "description": "The script in the skill, such as scripts/report.py"
        },
        "skill": {
            "type": "string",
            "description": "A loaded skill; the one loaded last by default"
        },
        "args": {
            "type": "array", "maxItems": MAX_ARGUMENTS,
            "items": {"type": "string", "maxLength": MAX_ARGUMENT},
            "description": "Arguments of the script; no shell splits or expands them"
        },
        "env": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Further variables for the script"
        },
        "workdir": {
            "type": "string", "default": ".",
            "description": "Where it starts: a directory below the work directory of this thread \
                            (sandbox/work/THREAD for the file tools), or @skill for the skill's \
                            read-only files"
        },
    });
    ToolSpec {
        name: NAME.to_owned(),
        description: "Runs a script of a loaded skill in isolation and returns its exit code, its \
                      output and the files that it wrote. The script can write only in the work \
                      directory, has no network unless the operator listed hosts, gets no input, and \
                      its time, memory and output are limited. Pass data as arguments or as files in \
                      the work directory. The user may have to approve the run."
            .to_owned(),
        input_schema: object_schema(&properties, &["path"]),
        output_schema: None,
        read_only: false,
        destructive: true,
        needs_approval: ApprovalPolicy::UnlessGranted,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: vec!["script:run".to_owned()],
        skill_use: Some(SkillUse {
            kind: SkillUseKind::Script,
            skill_argument: "skill".to_owned(),
            path_argument: Some("path".to_owned()),
        }),
    }
}

impl ScriptTool {
    /// Returns the files of the skill that a call names, which must be loaded.
    async fn tree(
        &self,
        host: &ExtensionHost,
        context: &CallContext,
        skill: Option<&str>,
    ) -> Result<SkillTree, CallError> {
        let loaded = &context.active_skills;
        let found = match skill {
            Some(skill) => loaded.iter().find(|active| active.skill_id == skill),
            None => loaded.last(),
        };
        let Some(found) = found else {
            let names: Vec<_> = loaded.iter().map(|active| &*active.skill_id).collect();
            let hint = match names.as_slice() {
                [] => "call skills.load with the name of the skill".to_owned(),
                names => format!("loaded: {}; load others with skills.load", names.join(", ")),
            };
            return Err(CallError::new(ErrorKind::Denied, "load a skill first").with_hint(hint));
        };
        let provider = host.skill_provider().ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, "no extension provides skills")
                .with_hint(format!("see: {}", OperatorCommand::CheckExtensions))
        })?;
        get_skill_tree(&provider, context, Some(&found.skill_id), host.limits().tool).await
    }

    async fn plan(
        &self,
        context: &CallContext,
        arguments: &str,
    ) -> Result<(ScriptPlan, GrantStatus), CallError> {
        if context.origin == CallOrigin::Mcp {
            let message = "scripts of skills are not run for clients of the MCP server";
            return Err(CallError::new(ErrorKind::Denied, message)
                .with_hint("read the script and follow it, or ask the user to run it"));
        }
        let args: RunScriptArgs = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        let host = self
            .host
            .upgrade()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "the kernel is shutting down"))?;
        let tree = self.tree(&host, context, args.skill.as_deref()).await?;
        let (home, launcher) = (host.home().clone(), self.launcher.clone());
        let thread = context.session_id.clone();
        let deadline_seconds = context.deadline_ms.map(|ms| ms / 1000);
        let planned = spawn_blocking(move || {
            let operator = load_operator_policy(&home).map_err(|error| {
                CallError::new(ErrorKind::Unavailable, format!("the settings: {error}"))
                    .with_hint(error.hint())
            })?;
            let work = open_thread_directory(&home, &thread)?;
            let request = ScriptRequest {
                tree: &tree,
                policy_use: PolicyUse::Script,
                path: &args.path,
                arguments: &args.args,
                variables: &args.env,
                workdir: &args.workdir,
                work: &work,
                operator_layer: None,
                deadline_seconds,
            };
            let plan = ScriptPlan::prepare(&operator, &launcher, &request)?;
            let status = check_grant(&load_grants(&home)?, &plan);
            Ok((plan, status))
        });
        planned.await.map_err(|error| CallError::new(ErrorKind::Io, error.to_string()))?
    }
}

#[async_trait]
impl Plugin for ScriptTool {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(vec![tool_spec()])
    }

    async fn prepare(
        &self,
        context: &CallContext,
        _: &str,
        arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        let (plan, status) = self.plan(context, arguments).await?;
        let tree = &plan.tree;
        let changed = describe_grant(&status, &tree.skill_id);
        let mut details = changed.map(|changed| format!("!!! {changed}\n")).unwrap_or_default();
        details.push_str(&plan.describe());
        // An approval for the session covers the scripts of exactly these files, under this policy
        // and level.
        let (root, digest) = (tree.root.display(), &tree.digest);
        let (policy, level) = (&plan.granted_policy().digest, plan.isolation().level.as_str());
        let scope = format!("{}\0{root}\0{digest}\0{policy}\0{level}", tree.skill_id);
        Ok(PreparedCall {
            details: Some(details),
            scope: Some(scope),
            // A skill that declares the whole system is approved for each run.
            is_protected: plan.requires_approval(),
            grant: (&status).into(),
            plan: Some(Box::new(plan)),
            ..PreparedCall::default()
        })
    }

    async fn invoke(
        &self,
        context: &CallContext,
        _: &str,
        _: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        // Only the plan that was approved may run.
        let plan = prepared.plan.and_then(|plan| plan.downcast::<ScriptPlan>().ok());
        let plan = plan.ok_or_else(|| {
            CallError::new(ErrorKind::Denied, "the run was not prepared for its approval")
        })?;
        let result = plan.run().await?;
        if let Some(host) = self.host.upgrade()
            && let Some(provider) = host.skill_provider()
        {
            report_script_run(&provider, context, &result.skill, host.limits().tool).await;
        }
        Ok(result.to_tool_output())
    }
}
