//! A server and the sessions of its clients.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CacheScope, ErrorData};
use rmcp::service::{RequestContext, RoleServer};
use skillhost_payload::PublishedSkills;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::declared::{KnownTool, KnownTools};
use super::pending_questions::PendingQuestions;
use super::protocol_error::to_protocol_error;
use super::request_limiter::RequestLimiter;
use super::skill_list_cache::SkillListCache;
use super::skill_pages::SkillPages;
use super::watched::WatchedResources;
use crate::backend::{Backend, BackendError, ChangeCounter, ClientPrincipal, ClientSession};
use crate::limits::ClientLimits;

/// A server that offers one backend to any number of clients; cheap to clone.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<ServerShared>,
}

/// The parts that all sessions of a server have in common.
pub(super) struct ServerShared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) limits: ClientLimits,
    pub(super) version: String,
    listed: SkillListCache,
    pub(super) pages: SkillPages,
    pub(super) known_tools: KnownTools,
    pub(super) pending: PendingQuestions,
}

/// The server side of one client session.
pub(crate) struct ServerSession {
    pub(super) shared: Arc<ServerShared>,
    pub(super) id: String,
    /// The owner of the tasks that the client submits.
    pub(super) principal: ClientPrincipal,
    gate: RequestLimiter,
    pub(super) watched: Arc<WatchedResources>,
    /// Changes since the start of the session.
    pub(super) changes: watch::Receiver<ChangeCounter>,
    /// Cancelled at the end of the client's input, where the transport reports it.
    pub(super) disconnected: CancellationToken,
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

    /// Starts a session of a client that came through a connection of this principal.
    pub(crate) fn session(&self, principal: ClientPrincipal) -> ServerSession {
        let limits = &self.shared.limits;
        let mut changes = self.shared.backend.changes();
        // A new client has seen no list yet, so earlier changes are no news to it.
        changes.mark_unchanged();
        ServerSession {
            shared: Arc::clone(&self.shared),
            id: format!("mcp-{}", ulid::Ulid::generate().to_string().to_lowercase()),
            principal,
            gate: RequestLimiter::new(limits.running, limits.waiting),
            watched: Arc::default(),
            changes,
            disconnected: CancellationToken::new(),
        }
    }

    /// Refreshes the cached tools if they may have changed.
    ///
    /// [`rmcp::ServerHandler::get_tool`] is synchronous and reads only the cache.
    pub(crate) async fn refresh_tools(&self) {
        // Read before the tools: a change during the listing then invalidates it next time.
        let now = *self.shared.backend.changes().borrow();
        let client = ClientSession { id: "mcp-http".to_owned(), client: "http".to_owned() };
        if let Err(error) = self.shared.known_tools.load(&*self.shared.backend, &client, now).await
        {
            tracing::warn!(%error, "exported tools not available");
        }
    }
}

impl ServerShared {
    /// Returns the skills that clients see.
    pub(super) async fn skills(
        &self,
        client: &ClientSession,
    ) -> Result<Arc<PublishedSkills>, ErrorData> {
        let skills = self.listed.load(&*self.backend, client).await;
        skills.map_err(|error| to_protocol_error(&error))
    }
}

/// The context of one request.
pub(super) type McpRequestContext = RequestContext<RoleServer>;

impl ServerSession {
    pub(super) fn backend(&self) -> &dyn Backend {
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
    pub(super) fn client(&self, context: &McpRequestContext) -> ClientSession {
        let client = context.client_info().map_or_else(|| "client".to_owned(), |info| info.name);
        ClientSession { id: self.id.clone(), client }
    }

    /// Runs the work of one request within the request limit, until the client cancels it.
    pub(super) async fn run_request<T>(
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
    pub(super) fn cache_control(&self) -> (u64, CacheScope) {
        // A cached response must not outlive the interval at which changes are detected.
        let milliseconds = self.shared.limits.watch.min(Duration::from_secs(5)).as_millis();
        (u64::try_from(milliseconds).unwrap_or(u64::MAX), CacheScope::Private)
    }

    /// Returns an exported tool; `None` if clients have no such tool.
    pub(super) async fn known_tool(
        &self,
        client: &ClientSession,
        name: &str,
    ) -> Result<Option<Arc<KnownTool>>, BackendError> {
        // Read before the tools: a change during the listing then invalidates it next time.
        let now = *self.changes.borrow();
        let tools = self.shared.known_tools.load(self.backend(), client, now).await?;
        Ok(tools.get(name).cloned())
    }
}
