//! The runs that are under way, as the dispatcher of tools finds them: by the session of a call.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use skillhost_manifest::ExtensionId;
use tokio::sync::Notify;

use super::budget::RunBudget;
use super::lineage::DelegationChain;
use super::permissions::ToolPermissions;
use super::reporter::RunReporter;

/// Every run that is under way, and the consents that outlast one.
#[derive(Default)]
pub(crate) struct RunSessions {
    running: Mutex<HashMap<String, Arc<RunSession>>>,
    /// Told whenever a run has ended.
    ended: Notify,
    /// Conversation, agent and tool: another agent has read other things, so it is asked for anew.
    consents: Mutex<BTreeSet<(String, ExtensionId, String)>>,
}

/// One run, as its tool calls need it.
pub(crate) struct RunSession {
    /// The id that its calls carry: the thread's.
    pub(crate) id: String,
    /// The id of the conversation that it serves; its own, unless another run began it.
    pub(crate) conversation: String,
    pub(crate) run_id: String,
    pub(crate) agent: ExtensionId,
    /// It goes on in the next process where this one ends.
    pub(crate) durable: bool,
    /// What its calls and events belong to.
    pub(crate) correlation_id: Option<String>,
    pub(crate) reporter: RunReporter,
    pub(crate) permissions: ArcSwap<ToolPermissions>,
    pub(crate) budget: Arc<RunBudget>,
    pub(crate) delegation_chain: DelegationChain,
    /// One question at a time reaches the person at the other end.
    pub(crate) asking: Arc<tokio::sync::Mutex<()>>,
}

/// A session that calls can be made in as long as this lives.
pub(crate) struct SessionGuard {
    sessions: Arc<RunSessions>,
    pub(crate) session: Arc<RunSession>,
}

impl RunSessions {
    /// Lets calls find a run.
    pub(crate) fn register(self: &Arc<Self>, session: RunSession) -> SessionGuard {
        let session = Arc::new(session);
        lock(&self.running).insert(session.id.clone(), Arc::clone(&session));
        SessionGuard { sessions: Arc::clone(self), session }
    }

    pub(crate) fn find(&self, session_id: &str) -> Option<Arc<RunSession>> {
        lock(&self.running).get(session_id).cloned()
    }

    /// Waits until no run is under way that goes on after a restart.
    pub(crate) async fn wait_for_durable_runs(&self) {
        self.wait_until_none(|session| session.durable).await;
    }

    /// Waits until no run is under way.
    pub(crate) async fn wait_until_idle(&self) {
        self.wait_until_none(|_| true).await;
    }

    async fn wait_until_none(&self, counts: impl Fn(&RunSession) -> bool) {
        loop {
            // Before it looks: what ends meanwhile is heard of.
            let ended = self.ended.notified();
            if !lock(&self.running).values().any(|session| counts(session)) {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn has_approval(&self, session: &RunSession, tool: &str) -> bool {
        lock(&self.consents).contains(&approval_key(session, tool))
    }

    /// Forgets what was agreed to in a conversation: whoever agreed has gone.
    pub(crate) fn clear_approvals(&self, conversation: &str) {
        lock(&self.consents).retain(|(of, _, _)| of != conversation);
    }

    pub(crate) fn record_approval(&self, session: &RunSession, tool: &str) {
        lock(&self.consents).insert(approval_key(session, tool));
    }
}

fn approval_key(session: &RunSession, tool: &str) -> (String, ExtensionId, String) {
    (session.conversation.clone(), session.agent.clone(), tool.to_owned())
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        lock(&self.sessions.running).remove(&self.session.id);
        self.sessions.ended.notify_waiters();
    }
}

/// A panic elsewhere leaves whole entries behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
