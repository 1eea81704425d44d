//! `skillhost skill …` about proposals and versions, as clap reads it.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// List what agents propose
    Proposals(ProposalsArgs),
    /// Look at proposals; on a terminal, decide about them one after the other
    Review(ReviewArgs),
    /// Approve a proposal, which is applied at once, or a skill that an agent created
    Approve(ApproveArgs),
    /// Turn a proposal down
    Reject(RejectArgs),
    /// Make a proposal fit a file that has changed since
    Rebase(RebaseArgs),
    /// List the versions of a skill
    History(HistoryArgs),
    /// Print what differs between two versions of a skill
    Diff(DiffArgs),
    /// Make a skill what it was in an earlier version
    Rollback(RollbackArgs),
    /// Remove old versions and readings and give their space back
    Prune(PruneArgs),
    /// Print who did what to proposals and skills
    AuditLog(AuditLogArgs),
    /// Print how much skills are used
    Stats(StatsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProposalsArgs {
    /// Also those that are decided
    #[arg(long)]
    pub(crate) all: bool,
    /// Only those of a skill
    #[arg(long, value_name = "ID")]
    pub(crate) skill: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys: a approve, r reject, e edit the new text in $EDITOR, b rebase, s skip, q quit; arrows, page keys
and the space bar scroll. Without a terminal, or with --json, everything is printed instead.")]
pub(crate) struct ReviewArgs {
    /// Only this one: its id, the start of it (six characters or more) or its number
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it shows what is approved and asks. Elsewhere it takes --yes and the digest of the text
that was looked at, which `skillhost skill review ID` prints.
Exit codes: 1 the answer was no, 2 without an explicit yes, 3 an unknown id, 4 another text, a file
that has changed since or a decided proposal, 5 something that cannot be read or written.")]
pub(crate) struct ApproveArgs {
    /// The proposal, or the skill
    pub(crate) id: String,
    /// The digest of what is approved, or its first twelve digits or more
    #[arg(long, value_name = "SHA")]
    pub(crate) digest: Option<String>,
    /// Do not ask; goes with --digest
    #[arg(long)]
    pub(crate) yes: bool,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RejectArgs {
    /// The proposal
    pub(crate) id: String,
    /// Why: whoever proposed it can learn from it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct RebaseArgs {
    /// The proposal
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The skill
    pub(crate) skill: String,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The skill
    pub(crate) skill: String,
    /// The older version [default: the one before the last]
    #[arg(value_name = "A")]
    pub(crate) from: Option<u64>,
    /// The newer version [default: the skill as it is now]
    #[arg(value_name = "B")]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it shows what changes and asks. Elsewhere it takes --yes and the digest of the version
to go back to, which `skillhost skill history SKILL` prints. Going back is itself a version.")]
pub(crate) struct RollbackArgs {
    /// The skill
    pub(crate) skill: String,
    /// The version to go back to [default: the one before the last]
    pub(crate) version: Option<u64>,
    /// The digest of that version, or its first twelve digits or more
    #[arg(long, value_name = "SHA")]
    pub(crate) digest: Option<String>,
    /// Do not ask; goes with --digest
    #[arg(long)]
    pub(crate) yes: bool,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Kept in any case: the first version of each skill, versions that a person approved, and what open
proposals need. Without options the rule is the one that `run` applies by itself: the newest 20
versions, 100 of the last 30 days, the last one of each of the last 90 days; the texts of decided
proposals for 30 days; 100,000 readings of the last 365 days.")]
pub(crate) struct PruneArgs {
    /// Remove nothing, print what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The newest versions of each skill to keep [default: 20]
    #[arg(long, value_name = "VERSIONS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// The days for which up to 100 versions of each skill are kept [default: 30, or 0 with --keep]
    #[arg(long, value_name = "DAYS")]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditLogArgs {
    /// Only what was done to a skill
    #[arg(long, value_name = "ID")]
    pub(crate) skill: Option<String>,
    /// Only what was done to a proposal, by its whole id
    #[arg(long, value_name = "ID")]
    pub(crate) proposal: Option<String>,
    /// Only what came after a line's number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) since: Option<u64>,
    /// At most so many lines, the newest
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Only the last days [default: ever]
    #[arg(long, value_name = "DAYS")]
    pub(crate) days: Option<u32>,
}
