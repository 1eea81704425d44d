//! Programs of skills, which run in isolated processes and answer calls like tools.
//!
//! [`ProgramRuntime`] prepares and makes calls: from the private copy and the grant to the result.
//! [`ProgramSupervisor`] has one process per thread and program. Each module has one concern:
//! `protocol` parses lines, `program_channel` matches requests and answers in both directions,
//! `call_scope` serves what a program requests during a call, `agent_tools` its calls of tools, `program_child` is the isolated process,
//! `program_log` its output, `running_program` its life, `program_supervisor` starts it again after a
//! crash, `output` converts results, and `runner` has the part that runs inside, one per language.

mod agent_tools;
mod call_scope;
mod error;
mod file_stamp;
mod known_grants;
mod output;
mod program_channel;
mod program_child;
mod program_log;
mod program_runtime;
mod program_supervisor;
mod protocol;
mod runner;
mod running_program;
mod settings_stamp;

pub use call_scope::{ProgramSkill, ProgramToolCall, ResourceKind, SkillResource, ToolInvoker};
pub use error::ProgramError;
pub use program_child::ProgramSpec;
pub use program_runtime::{ProgramPlan, ProgramRuntime};
pub use program_supervisor::{
    ProgramCall, ProgramKey, ProgramReport, ProgramSupervisor, SpecSource,
};
pub use protocol::ProtocolViolation;
pub use runner::ProgramLanguage;
pub use running_program::{ProgramForm, ProgramMetadata, ProgramResult, SupervisionLimits};
