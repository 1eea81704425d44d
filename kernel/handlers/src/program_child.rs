//! The isolated process of a program.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use skillhost_policy::SandboxPolicy;
use skillhost_sandbox::{IsolationReport, LaunchSpec};

use crate::call_scope::ProgramSkill;

/// The process of a program to start.
pub struct ProgramSpec {
    /// The interpreter with its arguments, of which the last one is the runner.
    pub launch: LaunchSpec,
    /// The absolute path of the program's file.
    pub entry: PathBuf,
    /// The permissions and limits of the process. `output_kib` limits what is logged; `seconds` is
    /// a limit of calls and has no effect here.
    pub policy: SandboxPolicy,
    /// The skill.
    pub skill: Arc<ProgramSkill>,
    /// What must exist as long as the process runs, such as a copy of the skill.
    pub kept: Box<dyn Any + Send + Sync>,
}

#[cfg(target_os = "linux")]
pub(crate) use sandboxed::ProgramChild;

#[cfg(target_os = "linux")]
mod sandboxed {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use skillhost_payload::{CallError, ErrorKind};
    use skillhost_sandbox::{
        InputMode, LevelSelection, RefusalKind, SandboxError, SandboxLauncher, SandboxSpec,
        SandboxedChild,
    };
    use tokio::time::timeout;

    use super::{IsolationReport, ProgramSpec};
    use crate::program_log::ProgramLog;

    /// The timeout for the end of a process that was ended.
    const END_TIMEOUT: Duration = Duration::from_secs(2);

    /// A process with its end of the channel. Ended on drop.
    pub(crate) struct ProgramChild {
        child: SandboxedChild,
        pub(crate) isolation: IsolationReport,
    }

    impl ProgramChild {
        /// Starts a process; its output goes to the log.
        pub(crate) async fn start(
            launcher: &SandboxLauncher,
            spec: &ProgramSpec,
            log: &ProgramLog,
        ) -> Result<(Self, tokio::net::UnixStream), CallError> {
            let (ours, theirs) = UnixStream::pair().map_err(|error| io_error(&error))?;
            let ours =
                ours.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(ours));
            let ours = ours.map_err(|error| io_error(&error))?;
            let mut policy = spec.policy.clone();
            // Both are limits of one call, and the process runs for many.
            policy.limits.seconds = None;
            policy.limits.output_kib = None;
            let spec = SandboxSpec {
                launch: spec.launch.clone(),
                policy,
                stdin: InputMode::Null,
                channel: Some(theirs.into()),
                levels: LevelSelection::default(),
            };
            let mut child = launcher.spawn(spec).await.map_err(to_call_error)?;
            if let Some(stdout) = child.stdout.take() {
                tokio::spawn(log.clone().read("stdout", stdout));
            }
            if let Some(stderr) = child.stderr.take() {
                tokio::spawn(log.clone().read("stderr", stderr));
            }
            let isolation = child.isolation.clone();
            Ok((Self { child, isolation }, ours))
        }

        /// Waits for the end, and describes it as a predicate without a subject. Cancel-safe.
        pub(crate) async fn wait(&mut self) -> String {
            match self.child.wait().await {
                Ok(end) => end.describe(),
                Err(error) => format!("is lost: {error}"),
            }
        }

        /// Ends the process and all that it has started.
        pub(crate) async fn end(mut self) {
            // An error means that it has ended already; a drop ends it in any case.
            if self.child.cancel(None).is_ok() {
                let _ = timeout(END_TIMEOUT, self.child.wait()).await;
            }
        }
    }

    fn to_call_error(error: SandboxError) -> CallError {
        match error {
            SandboxError::Refused(refusal) => {
                let kind = match refusal.kind {
                    RefusalKind::Policy => ErrorKind::InvalidArgument,
                    RefusalKind::Isolation | RefusalKind::Start => ErrorKind::Unavailable,
                };
                CallError::new(kind, refusal.to_string()).with_hint(refusal.hint)
            }
            SandboxError::Launcher(error) => io_error(&error),
        }
    }

    fn io_error(error: &io::Error) -> CallError {
        CallError::new(ErrorKind::Io, format!("the program cannot be started: {error}"))
    }
}
