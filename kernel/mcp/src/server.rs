//! The protocol: maps the requests of clients to the backend.

use skillhost_payload::ErrorKind;

mod asked;
mod completion;
mod gate;
mod listed;
mod notify;
mod page;
mod prompts;
mod resources;
mod review;
mod skills;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
    GetSkillResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, BackendError, ChangeCounter, ClientSession};
use crate::limits::ClientLimits;
use asked::PendingQuestions;
use gate::RequestLimiter;
use listed::SkillListCache;
use notify::WatchedResources;
use skills::SkillPages;
use tools::KnownTools;

/// A server that offers one backend to any number of clients; cheap to clone.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<ServerShared>,
}

struct ServerShared {
    backend: Arc<dyn Backend>,
    limits: ClientLimits,
    version: String,
    listed: SkillListCache,
    pages: SkillPages,
    known_tools: KnownTools,
    pending: PendingQuestions,
}

/// The server side of one client session.
pub(crate) struct ServerSession {
    shared: Arc<ServerShared>,
    id: String,
    gate: RequestLimiter,
    watched: Arc<WatchedResources>,
    /// Changes since the start of the session.
    changes: watch::Receiver<ChangeCounter>,
    /// Cancelled at the end of the client's input, where the transport reports it.
    disconnected: CancellationToken,
}

impl McpServer {
    /// Creates a server for a backend. Clients receive `version` in the server information.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, limits: ClientLimits, version: &str) -> Self {
        let version = version.to_owned();
        let shared = ServerShared {
            backend,
            limits,
            version,
            listed: SkillListCache::default(),
            pages: SkillPages::default(),
            known_tools: KnownTools::default(),
            pending: PendingQuestions::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn limits(&self) -> &ClientLimits {
        &self.shared.limits
    }

    /// Starts a client session.
    pub(crate) fn session(&self) -> ServerSession {
        let limits = &self.shared.limits;
        let mut changes = self.shared.backend.changes();
        // A new client has seen no list yet, so earlier changes are no news to it.
        changes.mark_unchanged();
        ServerSession {
            shared: Arc::clone(&self.shared),
            id: format!("mcp-{}", ulid::Ulid::generate().to_string().to_lowercase()),
            gate: RequestLimiter::new(limits.running, limits.waiting),
            watched: Arc::default(),
            changes,
            disconnected: CancellationToken::new(),
        }
    }
}

type McpRequestContext = RequestContext<RoleServer>;

impl ServerSession {
    fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }

    /// Returns the token that the transport cancels at the end of the client's input.
    pub(crate) fn disconnect_token(&self) -> CancellationToken {
        self.disconnected.clone()
    }

    /// Waits until the client has disconnected and the farewell time has passed.
    async fn wait_until_idle(&self) {
        self.disconnected.cancelled().await;
        tokio::time::sleep(self.shared.limits.farewell).await;
    }

    /// Returns the session id and the name that the client reports for itself.
    fn client(&self, context: &McpRequestContext) -> ClientSession {
        let client = context.client_info().map_or_else(|| "client".to_owned(), |info| info.name);
        ClientSession { id: self.id.clone(), client }
    }

    /// Runs the work of one request within the request limit, until the client cancels it.
    async fn run_request<T>(
        &self,
        context: &McpRequestContext,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let work = async {
            let _permit = self.gate.acquire().await?;
            work.await
        };
        tokio::select! {
            // A cancelled request must not start its work, so the cancellation is polled first.
            biased;
            // The library sends no response to a cancelled request, so this error is never seen.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            outcome = work => outcome,
            // Otherwise the library would wait for this request before it closes the session.
            () = self.wait_until_idle() => {
                Err(ErrorData::internal_error("client disconnected", None))
            }
        }
    }

    /// Returns the time, in milliseconds, for which a response may be cached, and the cache scope.
    fn cache_control(&self) -> (u64, CacheScope) {
        // A cached response must not outlive the interval at which changes are detected.
        let milliseconds = self.shared.limits.watch.min(Duration::from_secs(5)).as_millis();
        (u64::try_from(milliseconds).unwrap_or(u64::MAX), CacheScope::Private)
    }
}

/// Converts a backend error to a protocol error; an unknown name is an invalid parameter.
fn to_protocol_error(error: &BackendError) -> ErrorData {
    let code = match error.kind {
        ErrorKind::NotFound
        | ErrorKind::InvalidArgument
        | ErrorKind::Denied
        | ErrorKind::TooLarge => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let data = serde_json::json!({ "kind": error.kind, "hint": error.hint });
    ErrorData::new(code, error.message.clone(), Some(data))
}

/// Converts a backend error about a resource to a protocol error.
///
/// An unknown resource has its own code, which the library replaces for clients of the newest
/// version.
fn resource_error(error: &BackendError) -> ErrorData {
    let data = to_protocol_error(error);
    match error.kind {
        ErrorKind::NotFound => ErrorData { code: ErrorCode::RESOURCE_NOT_FOUND, ..data },
        _ => data,
    }
}

/// Returns the error for a resource that does not exist or is hidden from this client.
fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData { code: ErrorCode::RESOURCE_NOT_FOUND, ..unknown_parameter_error("resource", uri) }
}

/// Returns the error for a parameter whose value does not exist or is hidden from this client.
fn unknown_parameter_error(subject: &str, name: &str) -> ErrorData {
    // The name comes from the client; the error must not return megabytes of it.
    let name: String = name.chars().take(256).collect();
    let message = format!("{subject} {name:?} not found");
    ErrorData::invalid_params(message, Some(serde_json::json!({ "kind": ErrorKind::NotFound })))
}

impl ServerHandler for ServerSession {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_skills_with_directory_read()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("skillhost", &self.shared.version)
                    .with_title("skillhost")
                    .with_description("A registry for Agent Skills"),
            )
            .with_instructions(self.backend().instructions())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        notify::notify_session(self, context.peer);
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListToolsResult, ErrorData> {
        self.run_request(&context, tools::list_tools(self, &context, request)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: McpRequestContext,
    ) -> Result<CallToolResponse, ErrorData> {
        self.run_request(&context, tools::call_tool(self, &context, request)).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.known_tool(name)
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListSkillsResult, ErrorData> {
        self.run_request(&context, skills::list_skills(self, &context, request)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: McpRequestContext,
    ) -> Result<GetSkillResult, ErrorData> {
        self.run_request(&context, skills::get_skill(self, &context, &request.uri)).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.run_request(&context, resources::list_resources(self, &context, request)).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: McpRequestContext,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::list_templates(self))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: McpRequestContext,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.run_request(&context, resources::read_resource(self, &context, &request.uri)).await
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: McpRequestContext,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        self.run_request(&context, resources::read_directory(self, &context, request)).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: McpRequestContext,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.run_request(&context, prompts::list_prompts(self, &context, request)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: McpRequestContext,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.run_request(&context, prompts::get_prompt(self, &context, request)).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: McpRequestContext,
    ) -> Result<CompleteResult, ErrorData> {
        self.run_request(&context, completion::complete_argument(self, &context, &request)).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.run_request(&context, notify::watch_resource(self, &context, request.uri)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: McpRequestContext,
    ) -> Result<(), ErrorData> {
        self.watched.forget(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(notify::accept_filter(self, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        notify::notify_subscription(self, &context).await
    }
}
