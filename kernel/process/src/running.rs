//! One process, from its handshake to its end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, JsonObject, PaginatedRequestParams, PingRequest, ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError, ServiceExt as _};
use skillhost_kernel::{CallError, ErrorKind, ProcessSpec, ToolOutput, ToolSpec};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::child::ChildProcess;
use crate::wire::{ConnectionStatus, LineTransport};
use crate::{error, printable, tools};

/// The most tools that one process may have, and the most pages they may come on.
const MOST_TOOLS: usize = 128;
const MOST_PAGES: usize = 16;

/// How long a process that closed its output may take to end, before it is killed.
const SOON: Duration = Duration::from_secs(1);

/// How long a call waits to hear why its process ended.
const REASON: Duration = Duration::from_secs(3);

/// A process that has answered the handshake.
pub(crate) struct RunningProcess {
    pub(crate) connection: Arc<ProcessConnection>,
    child: ChildProcess,
    line: ConnectionStatus,
    /// Ends with the connection; dropped, it ends it.
    _service: RunningService<RoleClient, KernelMcpClient>,
    over: watch::Sender<Option<String>>,
}

/// The way to a running process.
pub(crate) struct ProcessConnection {
    peer: Peer<RoleClient>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) version: String,
    /// Why it is over.
    over: watch::Receiver<Option<String>>,
    /// It did not answer anything after a call was given up.
    stuck: CancellationToken,
    flights: Mutex<InFlightCalls>,
    grace: Duration,
}

/// The calls that the process works on, in the order in which they were made.
#[derive(Default)]
struct InFlightCalls {
    next: u64,
    open: BTreeSet<u64>,
}

/// One call that the process works on; dropped before its answer it is given up.
struct InFlightCall {
    number: u64,
    connection: Arc<ProcessConnection>,
    answered: bool,
}

impl RunningProcess {
    /// Starts a process, greets it and asks for its tools.
    ///
    /// # Errors
    /// What went wrong, with what the process said last; nothing of it runs any more then.
    pub(crate) async fn start(start: &ProcessSpec) -> Result<Self, CallError> {
        let (mut child, stdin, stdout) = ChildProcess::spawn(start).map_err(|e| CallError {
            kind: ErrorKind::Io,
            message: format!("{}: {e}", start.program.display()),
            hint: "check that it is a program, and that what it needs is installed".to_owned(),
        })?;
        let line = ConnectionStatus::default();
        let client = KernelMcpClient { id: start.id.to_string() };
        let wire = LineTransport::new(stdout, stdin, line.clone());
        let greeting = async {
            let service =
                client.serve(wire).await.map_err(|e| HandshakeError::Greeting(Box::new(e)))?;
            let tools = list_tools(service.peer()).await?;
            Ok::<_, HandshakeError>((service, tools))
        };
        let (service, tools) = match timeout(start.handshake, greeting).await {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(unmet)) => {
                let failed = unmet.into_call_error(&line, &mut child).await;
                child.kill(SOON).await;
                return Err(failed);
            }
            Err(_) => {
                let limit = start.handshake.as_millis();
                child.kill(SOON).await;
                let end = child.describe_exit(Duration::ZERO).await;
                let said = end.split_once('\n').map(|(_, said)| format!("\n{said}"));
                return Err(CallError {
                    kind: ErrorKind::Timeout,
                    message: format!(
                        "did not answer `initialize` and `tools/list` within {limit} ms{}",
                        said.unwrap_or_default()
                    ),
                    hint: "answer both before any long work; flush the output after each message"
                        .to_owned(),
                });
            }
        };
        let peer = service.peer().clone();
        let named = peer.peer_info().and_then(|info| info.server_info.clone());
        let version = named.map(|named| printable(&named.version, 64)).unwrap_or_default();
        let (sender, over) = watch::channel(None);
        let connection = ProcessConnection {
            peer,
            tools,
            version,
            over,
            stuck: CancellationToken::new(),
            flights: Mutex::default(),
            grace: start.grace,
        };
        let connection = Arc::new(connection);
        Ok(Self { connection, child, line, _service: service, over: sender })
    }

    /// Waits until the process is over, whyever, and makes sure that it is. Its calls then fail with
    /// what is returned.
    pub(crate) async fn wait_until_exited(&mut self) -> String {
        tokio::select! {
            // Its last words and its fault say more when they are waited for below.
            _ = self.child.wait() => {}
            () = self.line.over.cancelled() => {}
            () = self.connection.stuck.cancelled() => {}
        }
        let why = if self.connection.stuck.is_cancelled() {
            let grace = self.connection.grace.as_millis();
            format!("answered nothing for {grace} ms after a call was given up, and was killed")
        } else {
            // Lines that came before the end are still to be read.
            let _ = timeout(SOON, self.line.over.cancelled()).await;
            match self.line.protocol_error() {
                Some(fault) => fault.to_owned(),
                None => self.child.describe_exit(SOON).await,
            }
        };
        self.child.kill(SOON).await;
        self.over.send_replace(Some(why.clone()));
        why
    }

    /// Ends the process in order, within a limit.
    pub(crate) async fn shutdown(mut self, limit: Duration) {
        self.over.send_replace(Some("was stopped".to_owned()));
        self.line.end.cancel();
        self.child.shutdown(limit).await;
    }
}

impl ProcessConnection {
    /// Calls a tool.
    ///
    /// # Errors
    /// What the process answers, or why it did not.
    pub(crate) async fn call(
        self: &Arc<Self>,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolOutput, CallError> {
        let mut flight = InFlightCall::register(self);
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        // Dropped, this tells the process that the call is given up.
        let answer = self.peer.call_tool_once(request).await;
        flight.answered = true;
        match answer {
            Ok(CallToolResponse::Complete(result)) => tools::to_tool_output(result),
            Ok(_) => Err(error(ErrorKind::Protocol, "it asks for what this kernel does not give")),
            Err(ServiceError::McpError(refused)) => Err(tools::to_call_error(&refused)),
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Err(self.exit_error().await)
            }
            Err(other) => Err(error(ErrorKind::Protocol, other.to_string())),
        }
    }

    /// Asks for any answer at all. While it works on calls it may be too busy for that, and each of
    /// them has its own limit.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn health(&self) -> Result<(), CallError> {
        if !self.flights().open.is_empty() {
            return Ok(());
        }
        match self.ping().await {
            Err(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Err(self.exit_error().await)
            }
            // That it cannot be pinged is an answer.
            _ => Ok(()),
        }
    }

    async fn ping(&self) -> Result<(), ServiceError> {
        let request = ClientRequest::PingRequest(PingRequest::default());
        self.peer.send_request(request).await.map(drop)
    }

    /// The error of a call whose process ended.
    async fn exit_error(&self) -> CallError {
        let mut over = self.over.clone();
        let why = timeout(REASON, over.wait_for(Option::is_some)).await;
        let why = why.ok().and_then(Result::ok).and_then(|why| why.clone());
        CallError {
            kind: ErrorKind::Unavailable,
            message: format!("the process {}", why.unwrap_or_else(|| "ended".to_owned())),
            hint: "it is started again; what it was doing may be half done".to_owned(),
        }
    }

    /// Sees to it that a process that hangs in a call that was given up does not hang for ever.
    async fn watch(self: Arc<Self>, given_up: u64) {
        let ping = self.ping();
        tokio::pin!(ping);
        loop {
            tokio::select! {
                _ = &mut ping => return,
                () = sleep(self.grace) => {
                    // One that takes calls in turn may be at work on an earlier one.
                    if self.flights().open.first().is_none_or(|first| *first > given_up) {
                        self.stuck.cancel();
                        return;
                    }
                }
            }
        }
    }

    fn flights(&self) -> std::sync::MutexGuard<'_, InFlightCalls> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightCall {
    fn register(connection: &Arc<ProcessConnection>) -> Self {
        let mut flights = connection.flights();
        let number = flights.next;
        flights.next += 1;
        flights.open.insert(number);
        drop(flights);
        Self { number, connection: Arc::clone(connection), answered: false }
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.connection.flights().open.remove(&self.number);
        if let (false, Ok(runtime)) = (self.answered, tokio::runtime::Handle::try_current()) {
            runtime.spawn(Arc::clone(&self.connection).watch(self.number));
        }
    }
}

/// What became of a handshake.
enum HandshakeError {
    Greeting(Box<ClientInitializeError>),
    Listing(ServiceError),
    Tools(CallError),
}

impl HandshakeError {
    /// The best explanation there is: what it wrote, how it ended, what it answered.
    async fn into_call_error(self, line: &ConnectionStatus, child: &mut ChildProcess) -> CallError {
        let hint = "nothing but messages of the protocol goes to standard output, one a line; \
                    everything else belongs on standard error";
        if let Some(fault) = line.protocol_error() {
            let (message, hint) = (fault.to_owned(), hint.to_owned());
            return CallError { kind: ErrorKind::Protocol, message, hint };
        }
        match self {
            Self::Listing(ServiceError::McpError(refused)) => CallError {
                message: format!("refuses `tools/list`: {}", printable(&refused.message, 300)),
                ..tools::to_call_error(&refused)
            },
            Self::Tools(error) => error,
            _ if line.over.is_cancelled() => {
                let end = child.describe_exit(SOON).await;
                let (how, said) =
                    end.split_once('\n').map_or((&*end, ""), |(how, said)| (how, said));
                let message = format!("{how} before it answered the handshake\n{said}");
                error(ErrorKind::Failed, message.trim_end())
            }
            Self::Greeting(unmet) => match *unmet {
                ClientInitializeError::JsonRpcError(refused) => CallError {
                    message: format!("refuses `initialize`: {}", printable(&refused.message, 300)),
                    ..tools::to_call_error(&refused)
                },
                other => error(ErrorKind::Protocol, printable(&other.to_string(), 300)),
            },
            Self::Listing(other) => error(ErrorKind::Protocol, printable(&other.to_string(), 300)),
        }
    }
}

async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<ToolSpec>, HandshakeError> {
    let mut specs = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let request = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(request)).await.map_err(HandshakeError::Listing)?;
        for tool in page.tools {
            specs.push(tools::to_tool_spec(tool).map_err(HandshakeError::Tools)?);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || specs.len() > MOST_TOOLS {
            break;
        }
    }
    if cursor.is_some() || specs.len() > MOST_TOOLS {
        let many = format!(
            "has more than {MOST_TOOLS} tools, or lists them on more than {MOST_PAGES} pages"
        );
        return Err(HandshakeError::Tools(error(ErrorKind::TooLarge, many)));
    }
    Ok(specs)
}

/// The kernel as a client of the process: it offers nothing that the process could call.
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
        tracing::info!(id = %self.id, "has other tools now; they are taken over by a reload");
    }
}
