//! `run_command`: a command line of an agent, run after its approval.
//!
//! The tool is part of the kernel, because only `skillhost-sandbox` starts programs of others, and the
//! boundary of extensions has no such service. `containment` composes the policy of a command and
//! tells the isolation that it reaches; the approval and the result state it. With `sandbox: off` in
//! the settings a command runs with the permissions of the user, and both say so. `toolchains` finds
//! the programs of developers that a command may read, `proposal` the settings that a failed one
//! would need.

mod containment;
mod directory;
mod environment;
mod output;
mod proposal;
mod toolchains;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_core::{Plugin, PreparedCall, ToolTable};
use skillhost_home::{Home, KERNEL_OWNER};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, TaskSupport, ToolAudience, ToolOutput,
    ToolSpec, is_hidden, object_schema,
};
use skillhost_sandbox::{
    InputMode, LaunchError, LaunchSpec, LevelSelection, ProcessLimits, SandboxError,
    SandboxLauncher, SandboxSpec, run_limited,
};

use containment::{ContainedCommand, Containment, prepare_containment, to_refusal_error};
use directory::{CommandDirectory, resolve_directory};
use output::{format_contained, format_exit};

const NAME: &str = "run_command";

/// The default and the maximum of the time for a command.
const TIMEOUT: Duration = Duration::from_secs(120);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// The longest command line, in bytes: all of it is shown for approval.
const MAX_COMMAND: usize = 8 << 10;

/// The retained standard output, in bytes: the end of it, which is shown, has to be within.
const MAX_STDOUT: usize = 16 << 20;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunCommandArgs {
    command: String,
    directory: String,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// A command that was checked and is shown for approval.
struct CommandPlan {
    command: String,
    directory: CommandDirectory,
    timeout: Duration,
    containment: Containment,
}

/// The tool.
struct CommandTool {
    home: Home,
    launcher: SandboxLauncher,
}

/// Adds the tool to those of the kernel.
pub fn add_command_tool(tools: &mut ToolTable, home: &Home) {
    let owner = ExtensionId::new(KERNEL_OWNER).expect("the id is valid");
    let plugin: Arc<dyn Plugin> =
        Arc::new(CommandTool { home: home.clone(), launcher: SandboxLauncher::default() });
    let added = tools.add_builtin(&owner, &plugin, &[tool_spec()]);
    added.expect("the tool has a valid name and schema");
}

fn tool_spec() -> ToolSpec {
    let properties = json!({
        "command": {
            "type": "string", "minLength": 1, "maxLength": MAX_COMMAND,
            "description": "A command line for /bin/sh, such as cargo test --workspace"
        },
        "directory": {
            "type": "string", "minLength": 1,
            "description": "Where it runs: workspace:LABEL or a directory below it, or sandbox"
        },
        "timeout_ms": {
            "type": "integer", "minimum": 1,
            "description": "Milliseconds until it is ended, rounded up to seconds; 120000 by default, at most 600000"
        },
    });
    ToolSpec {
        name: NAME.to_owned(),
        description: "Runs a command line in a writable workspace or the sandbox and returns its exit code \
                      and output. It is contained: it can write in that workspace or directory only, \
                      read that, the system and installed toolchains, and use no network, unless the \
                      user has set more or less. The user sees the exact command line and directory \
                      and has to approve it. It gets no input. Use the file and search tools instead \
                      where they are enough."
            .to_owned(),
        input_schema: object_schema(&properties, &["command", "directory"]),
        output_schema: None,
        read_only: false,
        destructive: true,
        needs_approval: ApprovalPolicy::UnlessGranted,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: vec!["shell:execute".to_owned()],
        skill_use: None,
    }
}

impl CommandTool {
    async fn plan(&self, context: &CallContext, arguments: &str) -> Result<CommandPlan, CallError> {
        let args: RunCommandArgs = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        check_command(&args.command)?;
        let mut directory = resolve_directory(&self.home, &context.workspaces, &args.directory)?;
        let asked = args.timeout_ms.map_or(TIMEOUT, Duration::from_millis).min(MAX_TIMEOUT);
        // The run may end before the command has to.
        let rest = context.deadline_ms.map_or(MAX_TIMEOUT, Duration::from_millis);
        let timeout = asked.min(rest);
        let (home, launcher) = (self.home.clone(), self.launcher.clone());
        let prepared = tokio::task::spawn_blocking(move || {
            // Links in the path of the home are the operator's, but a policy has none.
            directory.writable =
                directory.writable.canonicalize().map_err(|error| to_io_error(&error))?;
            directory.path = directory.path.canonicalize().map_err(|error| to_io_error(&error))?;
            let containment = prepare_containment(&home, &launcher, &directory.writable, timeout)?;
            Ok::<_, CallError>((directory, containment))
        });
        let (directory, containment) = prepared
            .await
            .map_err(|error| CallError::new(ErrorKind::Failed, error.to_string()))??;
        Ok(CommandPlan { command: args.command, directory, timeout, containment })
    }

    /// Runs a command in isolation.
    async fn run_contained(
        &self,
        plan: &CommandPlan,
        contained: &ContainedCommand,
        mut launch: LaunchSpec,
    ) -> Result<ToolOutput, CallError> {
        launch.environment.clone_from(&contained.environment);
        let spec = SandboxSpec {
            launch,
            policy: contained.composed.policy.clone(),
            stdin: InputMode::Null,
            channel: None,
            levels: LevelSelection::default(),
        };
        match self.launcher.run(spec).await {
            Ok(exit) => {
                let policy = &contained.composed.policy;
                Ok(format_contained(&plan.command, &plan.directory.name, &exit, policy))
            }
            Err(SandboxError::Refused(refusal)) => Err(to_refusal_error(refusal)),
            Err(error) => Err(CallError::new(ErrorKind::Io, error.to_string())),
        }
    }
}

fn to_io_error(error: &std::io::Error) -> CallError {
    CallError::new(ErrorKind::Io, error.to_string())
        .with_hint("the directory may be gone; list_directory shows the entries")
}

/// Rejects a command line that a person could not read as it is.
fn check_command(command: &str) -> Result<(), CallError> {
    let is_odd = |c: char| (c.is_control() || is_hidden(c)) && !matches!(c, '\n' | '\t');
    let reason = if command.trim().is_empty() {
        "the command is empty"
    } else if command.len() > MAX_COMMAND {
        "the command is too long to be shown for approval"
    } else if command.contains(is_odd) {
        "the command has control characters or hidden characters"
    } else {
        return Ok(());
    };
    Err(CallError::new(ErrorKind::InvalidArgument, reason)
        .with_hint("write long scripts to a file first, where the user sees them"))
}

#[async_trait]
impl Plugin for CommandTool {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(vec![tool_spec()])
    }

    async fn prepare(
        &self,
        context: &CallContext,
        _: &str,
        arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        let plan = self.plan(context, arguments).await?;
        let path = plan.directory.path.display();
        let time = plan.timeout.as_secs_f32().ceil();
        let command = plan.command.replace('\n', "\n  ");
        let (details, policy) = match &plan.containment {
            Containment::Off => (
                format!(
                    "runs with your permissions and is not contained (sandbox: off), for at most \
                     {time} s:\n$ {command}\nin {path}"
                ),
                "off".to_owned(),
            ),
            Containment::Contained(contained) => (
                format!(
                    "contained (isolation level {}), for at most {time} s:\n$ {command}\nin {path}\n{}",
                    contained.isolation.level,
                    contained.describe(),
                ),
                contained.composed.digest(),
            ),
        };
        Ok(PreparedCall {
            details: Some(details),
            // An approval for the session covers this command line in this directory with this policy.
            scope: Some(format!("{path}\0{policy}\0{}", plan.command)),
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
        let plan = prepared.plan.and_then(|plan| plan.downcast::<CommandPlan>().ok());
        let plan = match plan {
            Some(plan) => *plan,
            None => self.plan(context, arguments).await?,
        };
        let launch = LaunchSpec {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), plan.command.clone().into()],
            environment: environment::command_environment(|name| std::env::var_os(name)),
            folder: plan.directory.path.clone(),
        };
        if let Containment::Contained(contained) = &plan.containment {
            return self.run_contained(&plan, contained, launch).await;
        }
        let limits = ProcessLimits { time: plan.timeout, memory: None, stdout: MAX_STDOUT };
        let began = Instant::now();
        match run_limited(&launch, limits).await {
            Ok(exit) => {
                Ok(format_exit(&plan.command, &plan.directory.name, &exit, began.elapsed()))
            }
            Err(LaunchError::TimedOut { limit }) => Err(CallError::new(
                ErrorKind::Timeout,
                format!(
                    "the command was ended after {} ms, with all that it had started",
                    limit.as_millis()
                ),
            )
            .with_hint("give a larger timeout_ms, at most 600000, or run a part of it")),
            Err(error) => Err(CallError::new(ErrorKind::Io, error.to_string())
                .with_hint("the directory may be gone; list_directory shows the entries")),
        }
    }
}
