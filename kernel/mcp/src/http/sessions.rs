//! The sessions of clients that start with `initialize`, and their eviction at the limit.
//!
//! A new session is rejected only while every other one is in use. Otherwise the session that has
//! been idle for longest ends, first those without a message after `initialize`. A client whose
//! session has ended receives 404 and starts another one, as the protocol requires.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};

/// The limit of concurrent sessions.
const MAX_SESSIONS: usize = 512;

/// An error of session management.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// Every session is in use.
    #[error("too many sessions are in use")]
    AllBusy,
    /// An error of the library's session manager.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    local: Arc<LocalSessionManager>,
    table: Arc<Mutex<SessionTable>>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::with_limit(MAX_SESSIONS)
    }
}

impl Sessions {
    pub(super) fn with_limit(limit: usize) -> Self {
        let table = SessionTable { limit, uses: HashMap::new(), events: 0 };
        Self { local: Arc::default(), table: Arc::new(Mutex::new(table)) }
    }

    /// Returns `true` if one more session can start.
    pub(super) fn has_room(&self) -> bool {
        let table = lock_table(&self.table);
        table.uses.len() < table.limit || table.longest_idle(None).is_some()
    }

    /// Marks a session as in use until the guard is dropped.
    fn mark_busy(&self, id: &SessionId) -> BusyGuard {
        lock_table(&self.table).start_use(id);
        BusyGuard { table: Arc::clone(&self.table), id: Arc::clone(id) }
    }
}

fn lock_table(table: &Mutex<SessionTable>) -> MutexGuard<'_, SessionTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The table of session uses.
#[derive(Debug)]
struct SessionTable {
    limit: usize,
    uses: HashMap<SessionId, SessionUse>,
    /// A counter of events, which orders uses without a clock.
    events: u64,
}

/// The use of one session.
#[derive(Debug, Default)]
struct SessionUse {
    /// The last use, as a count of events.
    last: u64,
    /// `true` after the first message that follows `initialize`.
    is_confirmed: bool,
    /// The number of open requests and streams.
    open: usize,
}

impl SessionTable {
    fn next_event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Adds a session and returns the evicted one, if the limit was reached.
    ///
    /// # Errors
    /// [`SessionError::AllBusy`] if every session is in use.
    fn insert(&mut self, id: &SessionId) -> Result<Option<SessionId>, SessionError> {
        let ends = match self.uses.len() < self.limit {
            true => None,
            false => Some(self.longest_idle(Some(id)).ok_or(SessionError::AllBusy)?),
        };
        if let Some(ends) = &ends {
            self.uses.remove(ends);
        }
        let last = self.next_event();
        self.uses.insert(Arc::clone(id), SessionUse { last, ..SessionUse::default() });
        Ok(ends)
    }

    fn longest_idle(&self, except: Option<&SessionId>) -> Option<SessionId> {
        let idle = self.uses.iter().filter(|(id, used)| used.open == 0 && Some(*id) != except);
        // `false` sorts first, so unconfirmed sessions are evicted before used ones.
        let longest = idle.min_by_key(|(_, used)| (used.is_confirmed, used.last));
        longest.map(|(id, _)| Arc::clone(id))
    }

    fn start_use(&mut self, id: &SessionId) {
        let last = self.next_event();
        if let Some(used) = self.uses.get_mut(id) {
            (used.last, used.is_confirmed) = (last, true);
            used.open += 1;
        }
    }

    fn stop_use(&mut self, id: &SessionId) {
        let last = self.next_event();
        if let Some(used) = self.uses.get_mut(id) {
            used.last = last;
            used.open = used.open.saturating_sub(1);
        }
    }
}

/// A guard for one use of a session, which ends on drop.
#[derive(Debug)]
struct BusyGuard {
    table: Arc<Mutex<SessionTable>>,
    id: SessionId,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        lock_table(&self.table).stop_use(&self.id);
    }
}

/// A stream of messages that keeps its session in use.
struct BusyStream<S> {
    messages: Pin<Box<S>>,
    _guard: BusyGuard,
}

impl<S: Stream> BusyStream<S> {
    fn new(messages: S, guard: BusyGuard) -> Self {
        Self { messages: Box::pin(messages), _guard: guard }
    }
}

impl<S: Stream> Stream for BusyStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.messages.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.messages.size_hint()
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let (id, transport) = self.local.create_session().await?;
        let inserted = lock_table(&self.table).insert(&id);
        let (ends, error) = match inserted {
            Ok(ends) => (ends, None),
            // The library has created the session already, so the new one is closed again.
            Err(error) => (Some(Arc::clone(&id)), Some(error)),
        };
        if let Some(ends) = ends {
            let local = Arc::clone(&self.local);
            // Closing waits for the session's worker, which must not delay the new client.
            tokio::spawn(async move {
                if let Err(error) = local.close_session(&ends).await {
                    tracing::debug!(%error, "session close failed");
                }
            });
        }
        match error {
            None => Ok((id, transport)),
            Some(error) => Err(error),
        }
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        // The client has ended its session itself, so its place is free at once.
        lock_table(&self.table).uses.remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.mark_busy(id);
        Ok(BusyStream::new(self.local.create_stream(id, message).await?, guard))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let _guard = self.mark_busy(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.mark_busy(id);
        Ok(BusyStream::new(self.local.create_standalone_stream(id).await?, guard))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.mark_busy(id);
        Ok(BusyStream::new(self.local.resume(id, last_event_id).await?, guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(limit: usize) -> SessionTable {
        SessionTable { limit, uses: HashMap::new(), events: 0 }
    }

    fn id(name: &str) -> SessionId {
        Arc::from(name)
    }

    #[test]
    fn longest_idle_session_is_evicted() {
        let mut table = table(3);
        for name in ["a", "b", "c"] {
            assert_eq!(table.insert(&id(name)).unwrap(), None);
            table.start_use(&id(name));
            table.stop_use(&id(name));
        }
        table.start_use(&id("a"));
        table.stop_use(&id("a"));
        assert_eq!(table.insert(&id("d")).unwrap(), Some(id("b")));
        // This session has no message after `initialize` yet.
        assert_eq!(table.insert(&id("e")).unwrap(), Some(id("d")));
        table.start_use(&id("c"));
        assert_eq!(table.insert(&id("f")).unwrap(), Some(id("e")));
        table.start_use(&id("f"));
        assert_eq!(table.insert(&id("g")).unwrap(), Some(id("a")));
        table.start_use(&id("g"));
        assert!(matches!(table.insert(&id("h")), Err(SessionError::AllBusy)));
        table.stop_use(&id("f"));
        assert_eq!(table.insert(&id("h")).unwrap(), Some(id("f")));
    }

    #[test]
    fn initialize_flood_spares_used_sessions() {
        let mut table = table(512);
        table.insert(&id("client")).unwrap();
        table.start_use(&id("client"));
        table.stop_use(&id("client"));
        for number in 0..5_000 {
            table.insert(&id(&number.to_string())).unwrap();
        }
        assert!(table.uses.contains_key("client") && table.uses.len() == 512);
    }
}
