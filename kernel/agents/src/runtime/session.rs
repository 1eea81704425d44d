//! The active runs, by the session id of their tool calls.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use skillhost_budget::RunBudget;
use skillhost_core::ContextBlock;
use skillhost_manifest::{CapabilityMode, ExtensionId};
use skillhost_payload::{CallContext, Workspace};
use tokio::sync::Notify;

use super::RunControl;
use super::lineage::DelegationChain;
use super::permissions::ToolPermissions;
use super::reporter::RunReporter;
use super::session_skills::SessionSkills;
use super::skill_capabilities::SkillCapabilities;
use crate::run_observer::SpanPlace;

/// Every active run, and the approvals that last longer than one run.
#[derive(Default)]
pub struct RunSessions {
    running: Mutex<HashMap<String, Arc<RunSession>>>,
    /// Notified whenever a run has ended.
    ended: Notify,
    /// Another agent has read other texts, so it needs its own approval.
    approvals: Mutex<BTreeSet<ApprovalKey>>,
}

/// One run, with the data that its tool calls need.
pub(crate) struct RunSession {
    /// The session id of its calls: the thread's id.
    pub(crate) id: String,
    /// The id of the root thread; differs from `id` in a delegated run.
    pub(crate) root_thread_id: String,
    pub(crate) run_id: String,
    /// The place of the run in its trace, where telemetry is exported.
    pub(crate) span: Option<SpanPlace>,
    pub(crate) agent: ExtensionId,
    /// True if the run continues in the next kernel process.
    pub(crate) durable: bool,
    /// The correlation id of its calls and events.
    pub(crate) correlation_id: Option<String>,
    pub(crate) reporter: RunReporter,
    pub(crate) permissions: ArcSwap<ToolPermissions>,
    pub(crate) skills: SessionSkills,
    pub(crate) capability_mode: CapabilityMode,
    pub(crate) capabilities: ArcSwap<SkillCapabilities>,
    /// The undeclared capabilities that were reported: skill, tool and capability.
    pub(crate) reported: Mutex<BTreeSet<(String, String, String)>>,
    /// The model is offered a tool that opens files by their path.
    pub(crate) reads_files: AtomicBool,
    pub(crate) budget: Arc<RunBudget>,
    /// The task that the run works on, directly or through the runs above it.
    pub(crate) control: Option<Arc<dyn RunControl>>,
    pub(crate) delegation_chain: DelegationChain,
    /// The delegations and programs that led to the run, as in the context of its calls.
    pub(crate) call_chain: Vec<String>,
    /// The directories of the user that its calls may reach.
    pub(crate) workspaces: Vec<Workspace>,
    /// The kernel's block about the channel that the reply goes to.
    pub(crate) channel_block: Option<ContextBlock>,
    /// Serializes approvals and secret prompts of one root thread.
    pub(crate) approval_lock: Arc<tokio::sync::Mutex<()>>,
    /// The keys of the calls that their tools have parked.
    pub(crate) parked: Mutex<BTreeSet<String>>,
    /// The number of the last tool call.
    pub(crate) last_call: AtomicU64,
}

impl RunSession {
    /// Returns the number of the next tool call.
    pub(crate) fn next_call_number(&self) -> u64 {
        self.last_call.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Marks a call as parked.
    pub(crate) fn park_call(&self, key: &str) {
        lock_unpoisoned(&self.parked).insert(key.to_owned());
    }

    /// Returns whether an undeclared capability has not been reported before in this run.
    pub(crate) fn is_first_report(&self, skill: &str, tool: &str, need: &str) -> bool {
        let key = (skill.to_owned(), tool.to_owned(), need.to_owned());
        lock_unpoisoned(&self.reported).insert(key)
    }

    /// Returns whether a call is marked as parked.
    pub(crate) fn is_parked(&self, context: &CallContext) -> bool {
        let key = context.idempotency_key.as_ref();
        key.is_some_and(|key| lock_unpoisoned(&self.parked).contains(key))
    }
}

/// A guard that keeps a session registered until it is dropped.
pub(crate) struct SessionGuard {
    sessions: Arc<RunSessions>,
    pub(crate) session: Arc<RunSession>,
}

impl RunSessions {
    /// Registers a run for its tool calls.
    pub(crate) fn register(self: &Arc<Self>, session: RunSession) -> SessionGuard {
        let session = Arc::new(session);
        lock_unpoisoned(&self.running).insert(session.id.clone(), Arc::clone(&session));
        SessionGuard { sessions: Arc::clone(self), session }
    }

    pub(crate) fn find(&self, session_id: &str) -> Option<Arc<RunSession>> {
        lock_unpoisoned(&self.running).get(session_id).cloned()
    }

    /// Returns the number of active runs.
    #[must_use]
    pub fn count(&self) -> usize {
        lock_unpoisoned(&self.running).len()
    }

    /// Waits until every run that continues after a restart has stopped.
    pub fn wait_for_durable_runs(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.wait_until_none(|session| session.durable).await;
        })
    }

    /// Waits until no run is active.
    pub fn wait_until_idle(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.wait_until_none(|_| true).await;
        })
    }

    async fn wait_until_none(&self, is_counted: impl Fn(&RunSession) -> bool) {
        loop {
            // Subscribed before the check, so that a run ending in between is not missed.
            let ended = self.ended.notified();
            if !lock_unpoisoned(&self.running).values().any(|session| is_counted(session)) {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn has_approval(
        &self,
        session: &RunSession,
        tool: &str,
        scope: Option<&str>,
    ) -> bool {
        lock_unpoisoned(&self.approvals).contains(&approval_key(session, tool, scope))
    }

    /// Removes the approvals of a root thread when its client leaves.
    pub fn clear_approvals(&self, root_thread_id: &str) {
        lock_unpoisoned(&self.approvals).retain(|(root, ..)| root != root_thread_id);
    }

    pub(crate) fn record_approval(&self, session: &RunSession, tool: &str, scope: Option<&str>) {
        lock_unpoisoned(&self.approvals).insert(approval_key(session, tool, scope));
    }
}

/// Root thread, agent, tool and the part of its uses.
type ApprovalKey = (String, ExtensionId, String, Option<String>);

fn approval_key(session: &RunSession, tool: &str, scope: Option<&str>) -> ApprovalKey {
    let scope = scope.map(str::to_owned);
    (session.root_thread_id.clone(), session.agent.clone(), tool.to_owned(), scope)
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        lock_unpoisoned(&self.sessions.running).remove(&self.session.id);
        self.sessions.ended.notify_waiters();
    }
}

/// Locks a mutex; entries stay consistent even if another thread panicked.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
