//! The sessions of clients that begin with `initialize`, and which one ends when there are too many.
//!
//! A new session is refused only while every other one is in use. Otherwise the one that has been
//! idle longest ends, those first whose client has said nothing since `initialize`; a client whose
//! session ended is answered 404 and begins another, as the protocol has it.

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

/// Sessions at the same time.
const MAX_SESSIONS: usize = 512;

/// An error of the sessions of a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// Every session is in use.
    #[error("too many sessions are in use")]
    AllBusy,
    /// The library's.
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

    /// Tells whether one more session can begin.
    pub(super) fn has_room(&self) -> bool {
        let table = lock(&self.table);
        table.uses.len() < table.limit || table.longest_idle(None).is_some()
    }

    /// Counts a session as in use until the guard is dropped.
    fn enter(&self, id: &SessionId) -> BusyGuard {
        lock(&self.table).begin_use(id);
        BusyGuard { table: Arc::clone(&self.table), id: Arc::clone(id) }
    }
}

fn lock(table: &Mutex<SessionTable>) -> MutexGuard<'_, SessionTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the sessions are used.
#[derive(Debug)]
struct SessionTable {
    limit: usize,
    uses: HashMap<SessionId, SessionUse>,
    /// Counts what happened, so that what is longest ago is found without a clock.
    events: u64,
}

#[derive(Debug, Default)]
struct SessionUse {
    /// The last use, as a count of events.
    last: u64,
    /// The client has said something after `initialize`.
    is_confirmed: bool,
    /// Requests and streams that are open.
    open: usize,
}

impl SessionTable {
    fn count(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Adds a session; returns the one that has to end for it.
    ///
    /// # Errors
    /// [`SessionError::AllBusy`] if none can.
    fn insert(&mut self, id: &SessionId) -> Result<Option<SessionId>, SessionError> {
        let ends = match self.uses.len() < self.limit {
            true => None,
            false => Some(self.longest_idle(Some(id)).ok_or(SessionError::AllBusy)?),
        };
        if let Some(ends) = &ends {
            self.uses.remove(ends);
        }
        let last = self.count();
        self.uses.insert(Arc::clone(id), SessionUse { last, ..SessionUse::default() });
        Ok(ends)
    }

    fn longest_idle(&self, except: Option<&SessionId>) -> Option<SessionId> {
        let idle = self.uses.iter().filter(|(id, used)| used.open == 0 && Some(*id) != except);
        let longest = idle.min_by_key(|(_, used)| (used.is_confirmed, used.last));
        longest.map(|(id, _)| Arc::clone(id))
    }

    fn begin_use(&mut self, id: &SessionId) {
        let last = self.count();
        if let Some(used) = self.uses.get_mut(id) {
            (used.last, used.is_confirmed) = (last, true);
            used.open += 1;
        }
    }

    fn end_use(&mut self, id: &SessionId) {
        let last = self.count();
        if let Some(used) = self.uses.get_mut(id) {
            used.last = last;
            used.open = used.open.saturating_sub(1);
        }
    }
}

/// A use of a session, until dropped.
#[derive(Debug)]
struct BusyGuard {
    table: Arc<Mutex<SessionTable>>,
    id: SessionId,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        lock(&self.table).end_use(&self.id);
    }
}

/// A stream of messages during which a session counts as in use.
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
        let inserted = lock(&self.table).insert(&id);
        let (ends, error) = match inserted {
            Ok(ends) => (ends, None),
            Err(error) => (Some(Arc::clone(&id)), Some(error)),
        };
        if let Some(ends) = ends {
            let local = Arc::clone(&self.local);
            // Its worker may take its time; the new client does not wait for it.
            tokio::spawn(async move {
                if let Err(error) = local.close_session(&ends).await {
                    tracing::debug!(%error, "a session did not end in order");
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
        lock(&self.table).uses.remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.enter(id);
        Ok(BusyStream::new(self.local.create_stream(id, message).await?, guard))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let _guard = self.enter(id);
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.enter(id);
        Ok(BusyStream::new(self.local.create_standalone_stream(id).await?, guard))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let guard = self.enter(id);
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
    fn longest_idle_session_gives_way() {
        let mut table = table(3);
        for name in ["a", "b", "c"] {
            assert_eq!(table.insert(&id(name)).unwrap(), None);
            table.begin_use(&id(name));
            table.end_use(&id(name));
        }
        table.begin_use(&id("a"));
        table.end_use(&id("a"));
        assert_eq!(table.insert(&id("d")).unwrap(), Some(id("b")));
        // Nothing was said in it yet.
        assert_eq!(table.insert(&id("e")).unwrap(), Some(id("d")));
        table.begin_use(&id("c"));
        assert_eq!(table.insert(&id("f")).unwrap(), Some(id("e")));
        table.begin_use(&id("f"));
        assert_eq!(table.insert(&id("g")).unwrap(), Some(id("a")));
        table.begin_use(&id("g"));
        assert!(matches!(table.insert(&id("h")), Err(SessionError::AllBusy)));
        table.end_use(&id("f"));
        assert_eq!(table.insert(&id("h")).unwrap(), Some(id("f")));
    }

    #[test]
    fn initialize_flood_spares_used_sessions() {
        let mut table = table(512);
        table.insert(&id("client")).unwrap();
        table.begin_use(&id("client"));
        table.end_use(&id("client"));
        for number in 0..5_000 {
            table.insert(&id(&number.to_string())).unwrap();
        }
        assert!(table.uses.contains_key("client") && table.uses.len() == 512);
    }
}
