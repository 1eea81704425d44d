//! The arguments of the commands.

mod export;
mod paths;
mod policy;
mod proposals;
mod scripts;
mod skill;

pub use export::ExportArgs;
pub(crate) use paths::{SkillPaths, SkillRoots};
pub(crate) use policy::{PolicyArgs, PolicyFileArgs};
pub(crate) use proposals::{
    ApproveArgs, AuditLogArgs, AuditStart, DiffArgs, HistoryArgs, LedgerCommand, ProposalCommand,
    ProposalsArgs, PruneArgs, RebaseArgs, RejectArgs, ReviewArgs, RollbackArgs, StatsArgs,
};
pub(crate) use scripts::{ApproveScriptsArgs, RunScriptArgs};
pub use skill::SkillCommand;
pub(crate) use skill::{
    CallArgs, CostArgs, DisableArgs, DoctorArgs, EnableArgs, ExplainArgs, FmtArgs, GraphArgs,
    LintArgs, NewArgs, PromptFormat, ReferenceArgs, RenderArgs, ReportFormat, RolesArgs, RulesArgs,
    SearchArgs, ToPromptArgs, ValidateArgs,
};
