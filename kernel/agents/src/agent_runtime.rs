//! The agent runtime: the agents of a kernel, and all that their runs need.

use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use skillhost_conversation::ModelSource;
use skillhost_core::{ExtensionBuilder, ExtensionHost};
use skillhost_payload::{CallContext, CallOrigin, Workspace};

use crate::run_gate::RunGate;
use crate::run_observer::RunObserver;
use crate::runtime::NoticeSource;
use crate::runtime::session::{RunSession, RunSessions};
use crate::tool_reports::ToolReports;
use crate::tool_stubs::ToolStubs;

/// The agents of a kernel: their turns and runs, and the one way to every tool.
///
/// Cheap to clone.
#[derive(Clone)]
pub struct AgentRuntime {
    shared: Arc<AgentShared>,
}

/// A handle that does not keep the runtime alive.
#[derive(Clone, Default)]
pub struct WeakAgentRuntime {
    shared: Weak<AgentShared>,
}

struct AgentShared {
    extensions: Arc<ExtensionHost>,
    models: Arc<dyn ModelSource>,
    builder: Arc<dyn ExtensionBuilder>,
    gate: Arc<RunGate>,
    /// The workspaces of this kernel's command line.
    workspaces: ArcSwap<Vec<Workspace>>,
    /// The agents that currently run.
    sessions: Arc<RunSessions>,
    /// The source of notices for threads, set while the kernel is assembled.
    notices: OnceLock<Arc<dyn NoticeSource>>,
    /// The tools that providers of skills know.
    tool_reports: ToolReports,
    /// The answers that replace the results of tools, in a test of agents.
    stubs: OnceLock<ToolStubs>,
    /// The observer of runs and calls, where telemetry is exported.
    observer: OnceLock<Arc<dyn RunObserver>>,
    /// Serializes changes of the configuration, including their reloads.
    configuring: tokio::sync::Mutex<()>,
}

impl AgentRuntime {
    /// Creates the runtime of a host's agents.
    pub fn new(
        extensions: Arc<ExtensionHost>,
        models: Arc<dyn ModelSource>,
        builder: Arc<dyn ExtensionBuilder>,
        gate: Arc<RunGate>,
    ) -> Self {
        let shared = AgentShared {
            extensions,
            models,
            builder,
            gate,
            workspaces: ArcSwap::default(),
            sessions: Arc::default(),
            notices: OnceLock::new(),
            tool_reports: ToolReports::default(),
            stubs: OnceLock::new(),
            observer: OnceLock::new(),
            configuring: tokio::sync::Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the extensions of the kernel.
    #[must_use]
    pub fn extensions(&self) -> &Arc<ExtensionHost> {
        &self.shared.extensions
    }

    /// Returns the source of the agents' models.
    #[must_use]
    pub fn model_source(&self) -> &dyn ModelSource {
        &*self.shared.models
    }

    pub(crate) fn builder(&self) -> &Arc<dyn ExtensionBuilder> {
        &self.shared.builder
    }

    /// Sets the workspaces of the command line, besides those of the settings.
    pub fn set_workspaces(&self, workspaces: Vec<Workspace>) {
        self.shared.workspaces.store(Arc::new(workspaces));
    }

    pub(crate) fn own_workspaces(&self) -> Vec<Workspace> {
        self.shared.workspaces.load().to_vec()
    }

    /// Sets the source of notices for threads; the first one counts.
    pub fn set_notice_source(&self, source: Arc<dyn NoticeSource>) {
        let _ = self.shared.notices.set(source);
    }

    pub(crate) fn notice_source(&self) -> Option<Arc<dyn NoticeSource>> {
        self.shared.notices.get().cloned()
    }

    /// Replaces the results of tools that agents call; the first call counts.
    pub fn set_tool_stubs(&self, stubs: ToolStubs) {
        let _ = self.shared.stubs.set(stubs);
    }

    pub(crate) fn tool_stubs(&self) -> Option<&ToolStubs> {
        self.shared.stubs.get()
    }

    /// Sets the observer of runs and calls; the first one counts.
    pub fn set_run_observer(&self, observer: Arc<dyn RunObserver>) {
        let _ = self.shared.observer.set(observer);
    }

    pub(crate) fn run_observer(&self) -> Option<&dyn RunObserver> {
        self.shared.observer.get().map(|observer| &**observer)
    }

    pub(crate) fn run_gate(&self) -> &RunGate {
        &self.shared.gate
    }

    /// Returns the active runs.
    #[must_use]
    pub fn run_sessions(&self) -> &Arc<RunSessions> {
        &self.shared.sessions
    }

    /// Returns the run that a call belongs to. Only agents have runs: the session id of an MCP
    /// client has no meaning here.
    pub(crate) fn session_for(&self, context: &CallContext) -> Option<Arc<RunSession>> {
        match context.origin {
            CallOrigin::Agent => self.run_sessions().find(&context.session_id),
            CallOrigin::Operator | CallOrigin::Mcp => None,
        }
    }

    /// Returns the id of the thread at the root of a run's delegations: for a run of a task that of
    /// the task's thread. `None` outside of a run.
    #[must_use]
    pub fn root_thread(&self, context: &CallContext) -> Option<String> {
        self.session_for(context).map(|session| session.root_thread_id.clone())
    }

    pub(crate) fn tool_reports(&self) -> &ToolReports {
        &self.shared.tool_reports
    }

    pub(crate) fn config_lock(&self) -> &tokio::sync::Mutex<()> {
        &self.shared.configuring
    }

    /// Returns a handle that does not keep the runtime alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakAgentRuntime {
        WeakAgentRuntime { shared: Arc::downgrade(&self.shared) }
    }
}

impl WeakAgentRuntime {
    /// Returns the runtime, or `None` while the kernel shuts down.
    pub fn upgrade(&self) -> Option<AgentRuntime> {
        self.shared.upgrade().map(|shared| AgentRuntime { shared })
    }
}
