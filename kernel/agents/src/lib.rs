//! The agents of a kernel: their turns and runs, and the one way to every tool.
//!
//! Starting points: [`AgentRuntime`] is the handle; `turn` composes the request of a turn, `runtime`
//! has the runs. The extensions below are those of [`skillhost_core`].

mod agent_files;
mod agent_loading;
mod agent_runtime;
mod agent_tools;
mod exported;
mod instructions;
mod missing_tool;
mod run_gate;
mod run_observer;
mod runtime;
mod templates;
mod tool_reports;
mod tool_stubs;
mod turn;

pub use agent_runtime::{AgentRuntime, WeakAgentRuntime};
pub use run_gate::RunGate;
pub use run_observer::{ObservedCall, ObservedRun, ObservedSpan, RunObserver, SpanEnd, SpanPlace};
pub use runtime::kernel_tools::kernel_tool_table;
pub use runtime::session::RunSessions;
pub use runtime::{
    DelegationState, NoticeSource, RequestEstimate, RunControl, RunError, RunRequest, TaskCall,
    ThreadNotice,
};
pub use skillhost_budget::{BudgetLimits, BudgetUsage, ExhaustedLimit, RunBudget};
pub use templates::{RenderedTemplate, TemplateLoader, render_template};
pub use tool_stubs::ToolStubs;
pub use turn::{ComposedTurn, TurnRequest};
