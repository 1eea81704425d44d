//! One process, from its handshake to its exit.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
    CustomRequest, CustomResult, ErrorCode, Implementation, JsonObject, PaginatedRequestParams,
    PingRequest, ProtocolVersion, ServerResult,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError, ServiceExt as _};
use serde_json::Value;
use skillhost_payload::{CallContext, CallError, ErrorKind, ToolOutput, ToolSpec};
use skillhost_sandbox::{ChildProcess, ChildSpec, IsolationReport, LaunchSpec, to_printable};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::call_error;
use crate::isolation_hints;
use crate::spec::ProcessSpec;
use crate::tool_inputs;
use crate::tools;
use crate::wire::{ConnectionStatus, LineTransport};

/// The limits of the tools of one process and of the pages of their list.
const MAX_TOOLS: usize = 128;
const MAX_PAGES: usize = 16;

/// The timeout for the exit of a process that has closed its output, before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout for the exit reason of a process during a call.
const EXIT_REASON_TIMEOUT: Duration = Duration::from_secs(3);

/// A process that has completed the handshake.
pub(crate) struct RunningProcess {
    pub(crate) connection: Arc<ProcessConnection>,
    child: ChildProcess,
    status: ConnectionStatus,
    /// The protocol's service, which closes the connection on drop.
    _service: RunningService<RoleClient, KernelMcpClient>,
    exit_reason: watch::Sender<Option<String>>,
}

/// A connection to a running process.
pub(crate) struct ProcessConnection {
    peer: Peer<RoleClient>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) version: String,
    /// The isolation that was reached.
    pub(crate) isolation: IsolationReport,
    /// The exit reason; `None` while the process runs.
    exit_reason: watch::Receiver<Option<String>>,
    /// Cancelled if the process does not respond after a cancelled call.
    stuck: CancellationToken,
    in_flight: Mutex<InFlightCalls>,
    grace: Duration,
}

/// The calls in progress, in the order of their start.
#[derive(Default)]
struct InFlightCalls {
    next: u64,
    open: BTreeSet<u64>,
}

/// A call in progress; it is cancelled if it is dropped before its response.
struct InFlightCall {
    number: u64,
    connection: Arc<ProcessConnection>,
    answered: bool,
}

impl RunningProcess {
    /// Starts a process, completes the handshake and lists its tools.
    ///
    /// # Errors
    /// The cause, with the latest lines of standard error. The process has been killed then.
    pub(crate) async fn start(start: &ProcessSpec) -> Result<Self, CallError> {
        let (mut child, stdin, stdout) = ChildProcess::spawn(&to_child_spec(start))
            .await
            .map_err(|error| isolation_hints::to_start_error(error, &start.program))?;
        let status = ConnectionStatus::default();
        let client = KernelMcpClient { id: start.id.to_string() };
        let wire = LineTransport::new(stdout, stdin, status.clone());
        let handshake = async {
            let service =
                client.serve(wire).await.map_err(|e| HandshakeError::Initialize(Box::new(e)))?;
            let tools = list_tools(service.peer()).await?;
            Ok::<_, HandshakeError>((service, tools))
        };
        let (service, tools) = match timeout(start.handshake, handshake).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(cause)) => {
                // Described before the kill, which would hide the process's own exit status.
                let failed = cause.into_call_error(&status, &mut child).await;
                child.kill(EXIT_TIMEOUT).await;
                return Err(isolation_hints::with_cause(failed, child.isolation()));
            }
            Err(_) => {
                let limit = start.handshake.as_millis();
                child.kill(EXIT_TIMEOUT).await;
                // The status is that of the kill; only standard error has information.
                let exit = child.describe_exit(Duration::ZERO).await;
                let stderr = exit.split_once('\n').map(|(_, lines)| format!("\n{lines}"));
                let failed = CallError {
                    kind: ErrorKind::Timeout,
                    message: format!(
                        "`initialize` and `tools/list` timed out after {limit} ms{}",
                        stderr.unwrap_or_default()
                    ),
                    hint:
                        "answer both before any long work, and flush the output after each message"
                            .to_owned(),
                };
                return Err(isolation_hints::with_cause(failed, child.isolation()));
            }
        };
        let peer = service.peer().clone();
        let server = peer.peer_info().and_then(|info| info.server_info.clone());
        let version = server.map(|server| to_printable(&server.version, 64)).unwrap_or_default();
        let (sender, exit_reason) = watch::channel(None);
        let connection = ProcessConnection {
            peer,
            tools,
            version,
            isolation: child.isolation().clone(),
            exit_reason,
            stuck: CancellationToken::new(),
            in_flight: Mutex::default(),
            grace: start.grace,
        };
        let connection = Arc::new(connection);
        Ok(Self { connection, child, status, _service: service, exit_reason: sender })
    }

    /// Waits for the exit of the process, or kills it after a violation of the protocol.
    ///
    /// Returns the reason, with which its calls fail from then on.
    pub(crate) async fn wait_until_exited(&mut self) -> String {
        tokio::select! {
            // The protocol error and standard error below explain more than the status.
            () = self.child.wait() => {}
            () = self.status.closed.cancelled() => {}
            () = self.connection.stuck.cancelled() => {}
        }
        let why = if self.connection.stuck.is_cancelled() {
            let grace = self.connection.grace.as_millis();
            format!("was killed because it did not respond for {grace} ms after a cancelled call")
        } else {
            // The transport may still have to read lines that were written before the exit.
            let _ = timeout(EXIT_TIMEOUT, self.status.closed.cancelled()).await;
            match self.status.protocol_error() {
                Some(error) => error.to_owned(),
                None => self.child.describe_exit(EXIT_TIMEOUT).await,
            }
        };
        // Even after an exit, since other processes of the group may still run.
        self.child.kill(EXIT_TIMEOUT).await;
        self.exit_reason.send_replace(Some(why.clone()));
        why
    }

    /// Closes the input of the process and stops it within a limit.
    pub(crate) async fn shutdown(mut self, limit: Duration) {
        // Calls in progress fail at once with this reason.
        self.exit_reason.send_replace(Some("was stopped".to_owned()));
        self.status.close_input.cancel();
        self.child.shutdown(limit).await;
    }
}

/// The key of a call's idempotency key in the `_meta` of its request.
const CALL_KEY: &str = "skillhost/key";

impl ProcessConnection {
    /// Calls a tool; of the context, it gets the idempotency key and the answers to its questions.
    ///
    /// # Errors
    /// The error of the process, or [`ErrorKind::Unavailable`] with its exit reason.
    pub(crate) async fn call(
        self: &Arc<Self>,
        context: &CallContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, CallError> {
        let mut call = InFlightCall::register(self);
        let mut request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        if let Some(key) = &context.idempotency_key {
            request.meta.get_or_insert_default().insert(CALL_KEY.to_owned(), key.as_str().into());
        }
        let input = context.input.as_deref().filter(|_| self.may_ask(name));
        if let Some(input) = input {
            tool_inputs::add_input(&mut request, input);
        }
        // If this future is dropped, the library sends `notifications/cancelled` to the process.
        let response = self.peer.call_tool_once(request).await;
        call.answered = true;
        match response {
            Ok(CallToolResponse::Complete(result)) => tools::to_tool_output(result),
            Ok(CallToolResponse::InputRequired(result)) => {
                tool_inputs::to_input_output(result, input.is_some())
            }
            Ok(_) => {
                let message = "unsupported request from the extension process";
                Err(call_error(ErrorKind::Protocol, message))
            }
            // An exception of the tool, which the process contained.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::INTERNAL_ERROR => {
                Err(call_error(ErrorKind::Panicked, error.message.to_string()))
            }
            Err(ServiceError::McpError(error)) => Err(tools::to_call_error(&error)),
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Err(self.exit_error().await)
            }
            Err(other) => Err(call_error(ErrorKind::Protocol, other.to_string())),
        }
    }

    /// Sends a request of the kernel's own protocol. It is not counted as a call in progress: one that
    /// waits for messages is open all the time.
    ///
    /// # Errors
    /// The error of the process, or [`ErrorKind::Unavailable`] with its exit reason.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let request = CustomRequest::new(method, Some(params));
        match self.peer.send_request(ClientRequest::CustomRequest(request)).await {
            Ok(ServerResult::CustomResult(CustomResult(value))) => Ok(value),
            Ok(_) => {
                let message = format!("the result of `{method}` is that of another method");
                Err(call_error(ErrorKind::Protocol, message))
            }
            Err(ServiceError::McpError(error)) => Err(tools::to_call_error(&error)),
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Err(self.exit_error().await)
            }
            Err(other) => Err(call_error(ErrorKind::Protocol, other.to_string())),
        }
    }

    /// Returns whether a tool may end a call with questions: only one that is made for tasks.
    fn may_ask(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name && !tool.task.is_never())
    }

    /// Checks that the process responds to a ping.
    ///
    /// A process with calls in progress counts as healthy: it may be too busy to respond, and each
    /// call has its own timeout.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the exit reason.
    pub(crate) async fn health(&self) -> Result<(), CallError> {
        if !self.in_flight().open.is_empty() {
            return Ok(());
        }
        match self.ping().await {
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Err(self.exit_error().await)
            }
            // An error response shows that the process is alive, too.
            _ => Ok(()),
        }
    }

    async fn ping(&self) -> Result<(), ServiceError> {
        let request = ClientRequest::PingRequest(PingRequest::default());
        self.peer.send_request(request).await.map(drop)
    }

    /// Returns the error of a call whose process has exited.
    async fn exit_error(&self) -> CallError {
        // The connection closes before the supervisor knows the reason of the exit.
        let mut exit_reason = self.exit_reason.clone();
        let why = timeout(EXIT_REASON_TIMEOUT, exit_reason.wait_for(Option::is_some)).await;
        let why = why.ok().and_then(Result::ok).and_then(|why| why.clone());
        CallError {
            kind: ErrorKind::Unavailable,
            message: format!("the process {}", why.unwrap_or_else(|| "ended".to_owned())),
            hint: "check for partial effects of the call; the process is restarted".to_owned(),
        }
    }

    /// Marks the process as stuck if it does not respond after a cancelled call.
    async fn watch_cancelled_call(self: Arc<Self>, cancelled: u64) {
        let ping = self.ping();
        tokio::pin!(ping);
        loop {
            tokio::select! {
                _ = &mut ping => return,
                () = sleep(self.grace) => {
                    // A process that handles calls in sequence may be busy with an earlier one.
                    if self.in_flight().open.first().is_none_or(|first| *first > cancelled) {
                        self.stuck.cancel();
                        return;
                    }
                }
            }
        }
    }

    fn in_flight(&self) -> std::sync::MutexGuard<'_, InFlightCalls> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    fn register(connection: &Arc<ProcessConnection>) -> Self {
        let mut in_flight = connection.in_flight();
        let number = in_flight.next;
        in_flight.next += 1;
        in_flight.open.insert(number);
        drop(in_flight);
        Self { number, connection: Arc::clone(connection), answered: false }
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.connection.in_flight().open.remove(&self.number);
        // The drop may happen outside of a runtime, for example during its shutdown.
        if let (false, Ok(runtime)) = (self.answered, tokio::runtime::Handle::try_current()) {
            runtime.spawn(Arc::clone(&self.connection).watch_cancelled_call(self.number));
        }
    }
}

/// An error of a handshake.
enum HandshakeError {
    Initialize(Box<ClientInitializeError>),
    Listing(ServiceError),
    Tools(CallError),
}

impl HandshakeError {
    /// Converts to a call error with the most specific cause: invalid output, then the exit, then
    /// the error response.
    async fn into_call_error(
        self,
        status: &ConnectionStatus,
        child: &mut ChildProcess,
    ) -> CallError {
        let hint = "write only protocol messages to standard output, one per line, and all \
                    other output to standard error";
        if let Some(error) = status.protocol_error() {
            let (message, hint) = (error.to_owned(), hint.to_owned());
            return CallError { kind: ErrorKind::Protocol, message, hint };
        }
        match self {
            Self::Listing(ServiceError::McpError(error)) => CallError {
                message: format!("rejected `tools/list`: {}", to_printable(&error.message, 300)),
                ..tools::to_call_error(&error)
            },
            Self::Tools(error) => error,
            _ if status.closed.is_cancelled() => {
                let exit = child.describe_exit(EXIT_TIMEOUT).await;
                let (how, stderr) = exit.split_once('\n').unwrap_or((&*exit, ""));
                let message = format!("{how} before it answered the handshake\n{stderr}");
                call_error(ErrorKind::Failed, message.trim_end())
            }
            Self::Initialize(cause) => match *cause {
                ClientInitializeError::JsonRpcError(error) => CallError {
                    message: format!(
                        "rejected `initialize`: {}",
                        to_printable(&error.message, 300)
                    ),
                    ..tools::to_call_error(&error)
                },
                other => call_error(ErrorKind::Protocol, to_printable(&other.to_string(), 300)),
            },
            Self::Listing(other) => {
                call_error(ErrorKind::Protocol, to_printable(&other.to_string(), 300))
            }
        }
    }
}

async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<ToolSpec>, HandshakeError> {
    let mut specs = Vec::new();
    let mut cursor = None;
    // Cursors come from the process, which could return one without end.
    for _ in 0..MAX_PAGES {
        let request = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(request)).await.map_err(HandshakeError::Listing)?;
        for tool in page.tools {
            specs.push(tools::to_tool_spec(tool).map_err(HandshakeError::Tools)?);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || specs.len() > MAX_TOOLS {
            break;
        }
    }
    if cursor.is_some() || specs.len() > MAX_TOOLS {
        let message = format!(
            "has more than {MAX_TOOLS} tools, or lists them on more than {MAX_PAGES} pages"
        );
        return Err(HandshakeError::Tools(call_error(ErrorKind::TooLarge, message)));
    }
    Ok(specs)
}

/// The kernel as a client of the process, without methods that the process could call.
struct KernelMcpClient {
    id: String,
}

impl ClientHandler for KernelMcpClient {
    fn get_info(&self) -> ClientConfig {
        let kernel = Implementation::new("skillhost", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), kernel)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        // The tool table of the kernel is fixed until a reload.
        tracing::info!(id = %self.id, "tool list changed; reload the extension to use it");
    }
}

/// Returns the child of a specification.
fn to_child_spec(start: &ProcessSpec) -> ChildSpec {
    let variables = start.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let launch = LaunchSpec {
        program: start.program.clone(),
        arguments: start.arguments.iter().map(Into::into).collect(),
        environment: variables.collect(),
        folder: start.folder.clone(),
    };
    ChildSpec { id: start.id.to_string(), launch, containment: start.containment.clone() }
}
