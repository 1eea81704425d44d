//! A program in isolation, as seen by the kernel: its pipes, its isolation and its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use skillhost_broker::{NetworkBroker, proxy_environment};
use skillhost_policy::SandboxPolicy;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::isolation::{EndCause, IsolationReport, RefusalKind, RunEnd, SandboxRefusal};
use crate::protocol::{
    AccessPolicy, CONTROL_DESCRIPTOR, ControlSocket, HostMessage, LAUNCHER_ARGUMENT, LaunchRequest,
    LauncherMessage, PROTOCOL_VERSION, ReceivedDocument,
};
use crate::sandbox_spec::{InputMode, SandboxError, SandboxSpec, SandboxedExit};
use crate::sys;

/// The timeout for the set-up of the isolation.
pub(crate) const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout for the rest of the output after the end of the run.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The launcher: a program whose `main` calls [`crate::exit_if_launcher`] first.
#[derive(Debug, Clone)]
pub struct SandboxLauncher {
    program: PathBuf,
}

impl Default for SandboxLauncher {
    /// Returns the program of this process, even if its file was replaced in the meantime.
    fn default() -> Self {
        Self { program: "/proc/self/exe".into() }
    }
}

/// A running program. The run is ended on drop.
#[derive(Debug)]
pub struct SandboxedChild {
    /// The isolation that was reached.
    pub isolation: IsolationReport,
    /// The standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The standard output, until it is taken.
    pub stdout: Option<ChildStdout>,
    /// The standard error, until it is taken.
    pub stderr: Option<ChildStderr>,
    launcher: Child,
    control: AsyncFd<ControlSocket>,
    broker: Option<NetworkBroker>,
    end: Option<RunEnd>,
}

impl SandboxLauncher {
    /// Returns a launcher that is another program.
    #[must_use]
    pub fn from_program(program: PathBuf) -> Self {
        Self { program }
    }

    /// Returns the program of the launcher.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the command of a launcher with its end of the socket and nothing else.
    pub(crate) fn to_command(&self, control: ControlSocket) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(LAUNCHER_ARGUMENT).env_clear().current_dir("/");
        sys::pass_descriptor(&mut command, control.into_descriptor(), CONTROL_DESCRIPTOR);
        command
    }

    /// Starts a program, and returns when it runs.
    ///
    /// # Errors
    /// [`SandboxError`]; nothing of the program was run then.
    pub async fn spawn(&self, spec: SandboxSpec) -> Result<SandboxedChild, SandboxError> {
        let piped = spec.stdin == InputMode::Pipe;
        let network = spec.policy.network.clone();
        let (request, channel) = to_request(spec)?;
        let (control, theirs) = ControlSocket::create_pair()?;
        let mut command = self.to_command(theirs);
        command
            .stdin(if piped { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let mut launcher = command.spawn()?;
        // The command owns the other end of the socket, whose end is the sign of a failure.
        drop(command);
        // Blocking, because a large request fills the socket before the launcher reads it.
        let control = spawn_blocking(move || {
            let descriptors: Vec<_> = channel.iter().map(OwnedFd::as_fd).collect();
            control.send(&request, &descriptors).map(|()| control)
        })
        .await
        .map_err(io::Error::other)??;
        rustix::io::ioctl_fionbio(&control, true).map_err(io::Error::from)?;
        let mut control = sys::register_socket(control)?;
        let ready = timeout(SETUP_TIMEOUT, receive(&mut control)).await;
        let ready = ready.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let isolation = match ready.content {
            LauncherMessage::Ready { isolation } => isolation,
            LauncherMessage::Refused(refusal) => return Err(refusal.into()),
            LauncherMessage::Ended(_) => return Err(unexpected_message().into()),
        };
        let (stdin, stdout, stderr) =
            (launcher.stdin.take(), launcher.stdout.take(), launcher.stderr.take());
        let listener = ready.descriptors.into_iter().next();
        let broker =
            listener.map(|listener| NetworkBroker::start(listener, network)).transpose()?;
        let end = None;
        Ok(SandboxedChild { isolation, stdin, stdout, stderr, launcher, control, broker, end })
    }

    /// Runs a program without input to its end, and collects its output within the limit.
    ///
    /// # Errors
    /// [`SandboxError`]. A limit that ended the program is not an error.
    pub async fn run(&self, spec: SandboxSpec) -> Result<SandboxedExit, SandboxError> {
        self.run_with_input(spec, None).await
    }

    /// Runs a program as [`SandboxLauncher::run`] does; it reads the content of a file or pipe.
    ///
    /// The program gets a pipe, never the descriptor: it could open that again to write.
    ///
    /// # Errors
    /// [`SandboxError`]. A limit that ended the program is not an error.
    pub async fn run_with_input(
        &self,
        mut spec: SandboxSpec,
        input: Option<File>,
    ) -> Result<SandboxedExit, SandboxError> {
        spec.stdin = if input.is_some() { InputMode::Pipe } else { InputMode::Null };
        let limit = spec.policy.limits.output_kib;
        let limit = limit.map_or(usize::MAX, |kib| {
            usize::try_from(kib.saturating_mul(1024)).unwrap_or(usize::MAX)
        });
        let mut child = self.spawn(spec).await?;
        if let (Some(input), Some(stdin)) = (input, child.stdin.take()) {
            copy_input(input, stdin)?;
        }
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let full = Notify::new();
        let output = async {
            tokio::join!(read_output(stdout, limit, &full), read_output(stderr, limit, &full))
        };
        tokio::pin!(output);
        let mut outputs = None;
        let end = loop {
            tokio::select! {
                read = &mut output, if outputs.is_none() => outputs = Some(read),
                () = full.notified() => child.cancel(Some(EndCause::Output))?,
                end = child.wait() => break end?,
            }
        };
        let (stdout, stderr) = match outputs {
            Some(outputs) => outputs,
            // All processes have ended, so that the rest of the output is in the pipes.
            None => timeout(OUTPUT_TIMEOUT, output)
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?,
        };
        let isolation = child.isolation;
        Ok(SandboxedExit { isolation, end, stdout: stdout?, stderr: stderr? })
    }
}

impl SandboxedChild {
    /// Waits until the program and all its processes have ended. Cancel-safe.
    ///
    /// # Errors
    /// The launcher has ended without a message; its processes have ended with it.
    pub async fn wait(&mut self) -> io::Result<RunEnd> {
        let end = match &self.end {
            Some(end) => end.clone(),
            None => match receive(&mut self.control).await?.content {
                LauncherMessage::Ended(mut end) => {
                    // Its connections end with the run.
                    let broker = self.broker.take();
                    end.hosts = broker.map(|broker| broker.contacts()).unwrap_or_default();
                    // Kept, because the next wait may be cancelled.
                    self.end.insert(end).clone()
                }
                _ => return Err(unexpected_message()),
            },
        };
        self.launcher.wait().await?;
        Ok(end)
    }

    /// Ends the run; `wait` returns its end.
    ///
    /// # Errors
    /// The error of the socket; the run has ended already then.
    pub fn cancel(&self, cause: Option<EndCause>) -> io::Result<()> {
        match self.control.get_ref().send(&HostMessage::Cancel { ended_by: cause }, &[]) {
            // The launcher has ended after its last message.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Sends SIGTERM to the program and to the processes in its group.
    ///
    /// # Errors
    /// The error of the socket; the run has ended already then.
    pub fn terminate(&self) -> io::Result<()> {
        self.control.get_ref().send(&HostMessage::Terminate, &[])
    }

    /// Returns the process id of the launcher.
    #[must_use]
    pub fn launcher_id(&self) -> Option<u32> {
        self.launcher.id()
    }
}

/// Copies a file to the standard input of a program until one of both ends. On a detached thread,
/// because the read of an idle pipe cannot be cancelled.
fn copy_input(mut input: File, stdin: ChildStdin) -> io::Result<()> {
    let pipe = stdin.into_owned_fd()?;
    rustix::io::ioctl_fionbio(&pipe, false)?;
    let mut pipe = File::from(pipe);
    let copy = move || {
        // The program may end before it has read everything.
        let _ = io::copy(&mut input, &mut pipe);
    };
    std::thread::Builder::new().name("sandbox-input".to_owned()).spawn(copy)?;
    Ok(())
}

async fn receive(
    control: &mut AsyncFd<ControlSocket>,
) -> io::Result<ReceivedDocument<LauncherMessage>> {
    loop {
        let mut guard = control.readable_mut().await?;
        match guard.try_io(|socket| socket.get_mut().receive::<LauncherMessage>()) {
            Ok(Ok(Some(message))) => return Ok(message),
            Ok(Ok(None)) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"));
            }
            // The launcher has ended without reading a message; its own messages follow.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Ok(Err(error)) => return Err(error),
            // Not readable after all.
            Err(_) => {}
        }
    }
}

fn unexpected_message() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "unexpected message")
}

async fn read_output(
    from: Option<impl AsyncRead + Unpin>,
    limit: usize,
    full: &Notify,
) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return Ok(kept) };
    let mut chunk = vec![0; 64 << 10];
    let mut exceeded = false;
    loop {
        let read = from.read(&mut chunk).await?;
        let room = limit - kept.len();
        kept.extend_from_slice(&chunk[..read.min(room)]);
        if read > room && !exceeded {
            exceeded = true;
            full.notify_one();
        }
        if read == 0 {
            return Ok(kept);
        }
    }
}

fn to_request(spec: SandboxSpec) -> Result<(LaunchRequest, Option<OwnedFd>), SandboxRefusal> {
    let text = |value: OsString| {
        value.into_string().map_err(|value| {
            let message = format!("`{}` is not UTF-8", value.display());
            let hint = "use arguments, variables and paths of UTF-8 text";
            SandboxRefusal::new(RefusalKind::Policy, "request", message, hint)
        })
    };
    let mut command = vec![text(spec.launch.program.into())?];
    for argument in spec.launch.arguments {
        command.push(text(argument)?);
    }
    let mut env = BTreeMap::new();
    for (name, value) in spec.launch.environment {
        env.insert(text(name)?, text(value)?);
    }
    let SandboxPolicy { filesystem, network, limits, isolation, deny_execution } = spec.policy;
    for (name, value) in proxy_environment(&network) {
        env.insert(name.to_owned(), value);
    }
    let request = LaunchRequest {
        v: PROTOCOL_VERSION,
        command,
        cwd: spec.launch.folder,
        env,
        stdin: spec.stdin,
        channel: spec.channel.is_some(),
        policy: AccessPolicy { filesystem, network, deny_execution },
        limits,
        isolation,
        levels: spec.levels.levels,
        landlock_abi: spec.levels.landlock_abi,
        probe: false,
        protected: Vec::new(),
        sockets: Vec::new(),
    };
    Ok((request, spec.channel))
}
