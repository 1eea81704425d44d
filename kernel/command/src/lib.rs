//! `run_command`: a command line of an agent, run after its approval.
//!
//! The tool is part of the kernel, because only `skillhost-sandbox` starts programs of others, and the
//! boundary of extensions has no such service. Nothing contains a command yet: it runs with the
//! permissions of the user, within limits of time and output and with an environment of its own. The
//! description, the approval and the result say so.

mod directory;
mod environment;
mod output;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use skillhost_core::{Plugin, PreparedCall, ToolTable};
use skillhost_home::{Home, KERNEL_OWNER};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, ToolAudience, ToolOutput, ToolSpec,
    is_hidden, object_schema,
};
use skillhost_sandbox::{LaunchError, LaunchSpec, ProcessLimits, run_limited};

use directory::{CommandDirectory, resolve_directory};
use output::format_exit;

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
}

/// The tool.
struct CommandTool {
    home: Home,
}

/// Adds the tool to those of the kernel.
pub fn add_command_tool(tools: &mut ToolTable, home: &Home) {
    let owner = ExtensionId::new(KERNEL_OWNER).expect("the id is valid");
    let plugin: Arc<dyn Plugin> = Arc::new(CommandTool { home: home.clone() });
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
            "description": "Milliseconds until it is ended; 120000 by default, at most 600000"
        },
    });
    ToolSpec {
        name: NAME.to_owned(),
        description: "Runs a command line in a writable workspace or the sandbox and returns its exit code \
                      and output. It is not contained: it runs with the user's permissions, so the \
                      user sees the exact command line and directory and has to approve it. It gets \
                      no input. Use the file and search tools instead where they are enough."
            .to_owned(),
        input_schema: object_schema(&properties, &["command", "directory"]),
        output_schema: None,
        read_only: false,
        destructive: true,
        needs_approval: ApprovalPolicy::UnlessGranted,
        audience: ToolAudience::Agent,
        changes_skills: false,
    }
}

impl CommandTool {
    fn plan(&self, context: &CallContext, arguments: &str) -> Result<CommandPlan, CallError> {
        let args: RunCommandArgs = serde_json::from_str(arguments).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}"))
        })?;
        check_command(&args.command)?;
        let directory = resolve_directory(&self.home, &context.workspaces, &args.directory)?;
        let asked = args.timeout_ms.map_or(TIMEOUT, Duration::from_millis).min(MAX_TIMEOUT);
        // The run may end before the command has to.
        let rest = context.deadline_ms.map_or(MAX_TIMEOUT, Duration::from_millis);
        Ok(CommandPlan { command: args.command, directory, timeout: asked.min(rest) })
    }
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
        let plan = self.plan(context, arguments)?;
        let path = plan.directory.path.display();
        let details = format!(
            "runs with your permissions and is not contained, for at most {} s:\n$ {}\nin {path}",
            plan.timeout.as_secs_f32().ceil(),
            plan.command.replace('\n', "\n  "),
        );
        Ok(PreparedCall {
            details: Some(details),
            // An approval for the session covers this command line in this directory only.
            scope: Some(format!("{path}\0{}", plan.command)),
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
            None => self.plan(context, arguments)?,
        };
        let launch = LaunchSpec {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), plan.command.clone().into()],
            environment: environment::command_environment(|name| std::env::var_os(name)),
            folder: plan.directory.path.clone(),
        };
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

#[cfg(test)]
mod tests {
    use skillhost_home::HomeSource;
    use skillhost_payload::{Workspace, WorkspaceAccess};

    use super::*;

    struct Fixture {
        _temp: tempfile::TempDir,
        tool: CommandTool,
        context: CallContext,
    }

    fn fixture() -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(temp.path()).unwrap();
        for dir in ["home/sandbox", "project/src", "readable"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink("/", base.join("project/out")).unwrap();
        let home = Home::open(&base.join("home"), HomeSource::Argument).unwrap();
        let workspace = |label: &str, dir: &str, access| Workspace {
            label: label.into(),
            path: base.join(dir),
            access,
        };
        let context = CallContext {
            workspaces: vec![
                workspace("p", "project", WorkspaceAccess::Write),
                workspace("r", "readable", WorkspaceAccess::Read),
            ],
            ..CallContext::default()
        };
        Fixture { _temp: temp, tool: CommandTool { home }, context }
    }

    async fn run(fixture: &Fixture, arguments: serde_json::Value) -> Result<ToolOutput, CallError> {
        let arguments = arguments.to_string();
        let prepared = fixture.tool.prepare(&fixture.context, NAME, &arguments).await?;
        fixture.tool.invoke(&fixture.context, NAME, &arguments, prepared).await
    }

    #[tokio::test]
    async fn command_runs_in_its_directory() {
        let fixture = fixture();
        let script = "pwd; echo to-stderr >&2; read -r line; echo \"[$line]\"; exit 3";
        let done = run(&fixture, json!({"command": script, "directory": "workspace:p/src"}))
            .await
            .unwrap();
        assert!(done.is_error);
        let value: serde_json::Value =
            serde_json::from_str(done.structured.unwrap().get()).unwrap();
        let path = fixture.context.workspaces[0].path.join("src");
        assert_eq!(value["stdout"], format!("{}\n[]\n", path.display()));
        assert_eq!((&value["stderr"], &value["exit_code"]), (&json!("to-stderr\n"), &json!(3)));
        assert!(done.text.contains("not contained"), "{}", done.text);
        let done = run(&fixture, json!({"command": "pwd", "directory": "sandbox"})).await.unwrap();
        assert!(!done.is_error && done.text.contains("/home/sandbox\n"), "{}", done.text);
    }

    #[tokio::test]
    async fn approval_shows_exact_command_and_directory() {
        let fixture = fixture();
        let arguments =
            json!({"command": "echo 'a\nb' | sh", "directory": "workspace:p"}).to_string();
        let prepared = fixture.tool.prepare(&fixture.context, NAME, &arguments).await.unwrap();
        let path = fixture.context.workspaces[0].path.display().to_string();
        assert_eq!(
            prepared.details.unwrap(),
            format!(
                "runs with your permissions and is not contained, for at most 120 s:\n\
                 $ echo 'a\n  b' | sh\nin {path}"
            )
        );
        assert_eq!(prepared.scope.unwrap(), format!("{path}\0echo 'a\nb' | sh"));
        assert!(!prepared.is_protected);
    }

    #[tokio::test]
    async fn other_directories_are_refused() {
        let fixture = fixture();
        for (directory, kind) in [
            ("workspace:r", ErrorKind::Denied),
            ("workspace:none", ErrorKind::NotFound),
            ("workspace:p/none", ErrorKind::NotFound),
            ("workspace:p/out", ErrorKind::Denied),
            ("workspace:p/../readable", ErrorKind::Denied),
            ("/tmp", ErrorKind::InvalidArgument),
            ("sandbox/..", ErrorKind::Denied),
            ("sandbox/data", ErrorKind::Denied),
            ("", ErrorKind::InvalidArgument),
        ] {
            let error = run(&fixture, json!({"command": "true", "directory": directory})).await;
            assert_eq!(error.unwrap_err().kind, kind, "{directory}");
        }
        for command in [" ", "echo \u{1b}[2J", "echo \u{202e}x", "a\rb", &"x".repeat(9_000)] {
            let error = run(&fixture, json!({"command": command, "directory": "sandbox"})).await;
            assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidArgument, "{command:?}");
        }
    }

    #[tokio::test]
    async fn time_and_output_are_limited() {
        let fixture = fixture();
        let slow = json!({"command": "sleep 1000", "directory": "sandbox", "timeout_ms": 200});
        let error = run(&fixture, slow).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        let long = json!({"command": "yes | head -c 3000000; echo END", "directory": "sandbox"});
        let done = run(&fixture, long).await.unwrap();
        assert!(done.text.len() < 60_000, "{}", done.text.len());
        assert!(done.text.contains("bytes left out"), "{}", &done.text[..200]);
        assert!(done.text.ends_with("y\nEND\n"), "{}", &done.text[done.text.len() - 200..]);
    }
}
