//! The commands that messages suggest to the operator.
//!
//! Errors cross borders as text, so the libraries that create them word their hints. This is the one
//! place below the command line that spells a command; a test of the command line parses them all.

use std::fmt;
use std::path::Path;

/// A command line of skillhost that a message suggests to the operator.
///
/// [`Display`](fmt::Display) spells it, with `{:#}` without the name of the program. An id may be a
/// placeholder such as `ID`, and a directory `DIR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorCommand<'a> {
    /// List agents.
    ListAgents,
    /// Chat with an agent.
    StartChat,
    /// Resume a thread in a chat.
    ResumeThread {
        /// The thread's id.
        id: &'a str,
    },
    /// List the deliveries that have failed.
    ListDeadLetters,
    /// Print the last events.
    ShowEvents,
    /// Retry a delivery that has failed.
    RetryDelivery {
        /// The delivery's number.
        delivery: i64,
    },
    /// Approve the files of an extension.
    ApproveExtension {
        /// The extension's id.
        id: &'a str,
    },
    /// Build, install and approve an extension.
    BuildExtension {
        /// The extension's id.
        id: &'a str,
    },
    /// Check every extension.
    CheckExtensions,
    /// Create an extension.
    CreateExtension,
    /// List extensions.
    ListExtensions,
    /// Reload or start an extension.
    ReloadExtension {
        /// The extension's id.
        id: &'a str,
    },
    /// Print a question that waits for a decision.
    ShowQuestion {
        /// The question's id.
        id: &'a str,
    },
    /// Submit a task that has ended again.
    RetryTask {
        /// The task's id.
        id: &'a str,
    },
    /// List models.
    ListModels,
    /// Print the state of the kernel.
    ShowStatus,
    /// Stop the running kernel.
    StopKernel,
    /// Print the log of the kernel.
    ShowLogs,
    /// Run the kernel.
    RunKernel,
    /// Run the kernel below a supervisor.
    RunSupervisedKernel,
    /// List schedules.
    ListSchedules,
    /// Print the schema of manifests.
    PrintManifestSchema,
    /// Print the schema of the settings.
    PrintSettingsSchema,
    /// List threads.
    ListThreads,
    /// Call a tool.
    CallTool {
        /// The tool's name; `None` for the command in general.
        name: Option<&'a str>,
    },
    /// List tools.
    ListTools,
    /// Print tools with their schemas.
    PrintToolSchemas,
    /// Create a home.
    CreateHome {
        /// The home's directory.
        dir: &'a Path,
    },
    /// Trust a home.
    TrustHome {
        /// The home's directory; `None` for that of the working directory.
        dir: Option<&'a Path>,
    },
    /// Remove the trust of a home.
    RevokeHomeTrust {
        /// The home's directory.
        dir: &'a Path,
    },
    /// Approve a skill.
    ApproveSkill {
        /// The skill's id.
        id: &'a str,
        /// The digest of the files that were inspected.
        digest: Option<&'a str>,
    },
    /// Approve the scripts of a skill.
    ApproveScripts {
        /// The skill's id.
        id: &'a str,
    },
    /// Enable a skill.
    EnableSkill {
        /// The skill's id.
        id: &'a str,
    },
    /// Format skills.
    FormatSkills,
    /// Format skills and move fields outside of the specification under `metadata`.
    MakeSkillsPortable,
    /// Lint skills.
    LintSkills,
    /// Lint skills and fix findings.
    FixSkills,
    /// Validate skills.
    ValidateSkills,
    /// List the rules for skills.
    ListRules,
    /// Print the page of a rule.
    ShowRule {
        /// The rule's id.
        rule: &'a str,
    },
    /// List skills.
    ListSkills,
    /// Describe a skill.
    ShowSkill,
    /// List the versions of a skill.
    ShowSkillHistory,
    /// Restore the version of a skill before the last.
    RollBackSkill {
        /// The skill's id.
        id: &'a str,
    },
    /// List all proposals.
    ListProposals,
    /// Review a proposal, or all open ones.
    ReviewProposals {
        /// The proposal's id.
        id: Option<&'a str>,
    },
    /// Rebase a proposal onto the current file.
    RebaseProposal {
        /// The proposal's id.
        id: &'a str,
    },
    /// Reject a proposal.
    RejectProposal {
        /// The proposal's id.
        id: &'a str,
    },
}

impl fmt::Display for OperatorCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            f.write_str("skillhost ")?;
        }
        match self {
            Self::ListAgents => f.write_str("agent list"),
            Self::StartChat => f.write_str("chat"),
            Self::ResumeThread { id } => write!(f, "chat --thread {id}"),
            Self::ListDeadLetters => f.write_str("event dead-letters"),
            Self::ShowEvents => f.write_str("event tail"),
            Self::RetryDelivery { delivery } => write!(f, "event retry {delivery}"),
            Self::ApproveExtension { id } => write!(f, "ext approve {id}"),
            Self::BuildExtension { id } => write!(f, "ext build {id}"),
            Self::CheckExtensions => f.write_str("ext doctor"),
            Self::CreateExtension => f.write_str("ext new"),
            Self::ListExtensions => f.write_str("ext list"),
            Self::ReloadExtension { id } => write!(f, "ext reload {id}"),
            Self::ShowQuestion { id } => write!(f, "inbox show {id}"),
            Self::RetryTask { id } => write!(f, "task retry {id}"),
            Self::ListModels => f.write_str("model list"),
            Self::ShowStatus => f.write_str("status"),
            Self::StopKernel => f.write_str("stop"),
            Self::ShowLogs => f.write_str("logs"),
            Self::RunKernel => f.write_str("run"),
            Self::RunSupervisedKernel => f.write_str("run --supervised"),
            Self::ListSchedules => f.write_str("schedule list"),
            Self::PrintManifestSchema => f.write_str("schema manifest"),
            Self::PrintSettingsSchema => f.write_str("schema settings"),
            Self::ListThreads => f.write_str("thread list"),
            Self::CallTool { name: None } => f.write_str("tool call"),
            Self::CallTool { name: Some(name) } => write!(f, "tool call {name}"),
            Self::ListTools => f.write_str("tool list"),
            Self::PrintToolSchemas => f.write_str("tool list --json"),
            Self::CreateHome { dir } => write!(f, "init {}", dir.display()),
            Self::TrustHome { dir: None } => f.write_str("trust"),
            Self::TrustHome { dir: Some(dir) } => write!(f, "trust {}", dir.display()),
            Self::RevokeHomeTrust { dir } => write!(f, "trust --remove {}", dir.display()),
            Self::ApproveSkill { id, digest: None } => write!(f, "skill approve {id}"),
            Self::ApproveSkill { id, digest: Some(digest) } => {
                write!(f, "skill approve {id} --digest {digest}")
            }
            Self::ApproveScripts { id } => write!(f, "skill approve-scripts {id}"),
            Self::EnableSkill { id } => write!(f, "skill enable {id}"),
            Self::FormatSkills => f.write_str("skill fmt"),
            Self::MakeSkillsPortable => f.write_str("skill fmt --portable"),
            Self::LintSkills => f.write_str("skill lint"),
            Self::FixSkills => f.write_str("skill lint --fix"),
            Self::ValidateSkills => f.write_str("skill validate"),
            Self::ListRules => f.write_str("skill rules"),
            Self::ShowRule { rule } => write!(f, "skill rules {rule}"),
            Self::ListSkills => f.write_str("skill list"),
            Self::ShowSkill => f.write_str("skill show"),
            Self::ShowSkillHistory => f.write_str("skill history"),
            Self::RollBackSkill { id } => write!(f, "skill rollback {id}"),
            Self::ListProposals => f.write_str("skill proposal list --all"),
            Self::ReviewProposals { id: None } => f.write_str("skill proposal review"),
            Self::ReviewProposals { id: Some(id) } => write!(f, "skill proposal review {id}"),
            Self::RebaseProposal { id } => write!(f, "skill proposal rebase {id}"),
            Self::RejectProposal { id } => write!(f, "skill proposal reject {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternate_form_omits_program() {
        let command = OperatorCommand::ApproveExtension { id: "echo" };
        assert_eq!(command.to_string(), "skillhost ext approve echo");
        assert_eq!(format!("{command:#}"), "ext approve echo");
    }
}
