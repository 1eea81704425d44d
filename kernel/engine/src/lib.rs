//! The task engine: claims the tasks of a home, runs them, and relays their events.
//!
//! Every process of a home may submit tasks; only the one that delivers events claims them.
//! [`TaskEngine`] is the handle. Its loop claims due tasks for free workers, renews leases, ends what
//! is overdue, and relays the outbox into the event journal. The thread of an agent's task is stored
//! as lines of the task, so that a later attempt continues behind them.
//!
//! While the store fails, the engine pauses and tries again; it never replaces the file.

mod agent_submission;
mod agent_task;
mod delivery_task;
mod end_notices;
mod engine;
mod engine_parts;
mod extension_runs;
mod extension_task;
mod failed_task;
mod outbox_relay;
mod running_tasks;
mod subtask;
mod task_channel;
mod task_kinds;
mod task_lease;
mod task_recorder;
mod task_run;
mod task_tools;
mod tool_questions;
mod tool_task;
mod work_loop;

pub use agent_submission::{AgentTaskRequest, AgentTaskSubmitter, TaskStarter, text_of_outcome};
pub use end_notices::EndNotices;
pub use engine::{EngineOptions, TaskEngine, TaskEngineStatus};
