//! The arguments of `skillhost skill` about proposals and versions.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// List, review and decide proposals
    #[command(subcommand)]
    Proposal(ProposalCommand),
    /// Approve a skill as it is
    ///
    /// Skills that agents created, and the tools that a skill names in `allowed-tools`, count after a
    /// person approved the skill. A proposal id is accepted as well.
    Approve(ApproveArgs),
    /// The earlier spelling of `skill proposal list`
    #[command(hide = true)]
    Proposals(ProposalsArgs),
    /// The earlier spelling of `skill proposal review`
    #[command(hide = true)]
    Review(ReviewArgs),
    /// The earlier spelling of `skill proposal reject`
    #[command(hide = true)]
    Reject(RejectArgs),
    /// The earlier spelling of `skill proposal rebase`
    #[command(hide = true)]
    Rebase(RebaseArgs),
    /// List the versions of a skill
    History(HistoryArgs),
    /// Print the differences between two versions of a skill
    Diff(DiffArgs),
    /// Restore an earlier version of a skill
    Rollback(RollbackArgs),
    /// Remove old versions and usage records
    Prune(PruneArgs),
    /// Print the audit log of proposals and skills
    AuditLog(AuditLogArgs),
    /// Print usage statistics of skills
    Stats(StatsArgs),
}

#[derive(Debug, Subcommand)]
pub enum ProposalCommand {
    /// List proposals
    #[command(visible_alias = "ls")]
    List(ProposalsArgs),
    /// Show proposals; on a terminal, decide them one by one
    Review(ReviewArgs),
    /// Approve a proposal and apply it at once
    Approve(ApproveArgs),
    /// Reject a proposal
    Reject(RejectArgs),
    /// Rebase a proposal onto the current file
    Rebase(RebaseArgs),
}

#[derive(Debug, Args)]
pub struct ProposalsArgs {
    /// Include decided proposals
    #[arg(long)]
    pub(crate) all: bool,
    /// Only proposals for this skill
    #[arg(long, value_name = "ID")]
    pub(crate) skill: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys: a approve, r reject, e edit the new text in $EDITOR, b rebase, s skip, q quit; arrows, page keys
and the space bar scroll. Without a terminal, or with --json, everything is printed instead.")]
pub struct ReviewArgs {
    /// Proposal: its id, a prefix of at least six characters, or its number
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal the text is shown before the question. Elsewhere --yes and the digest of the inspected
text are required, which `skillhost skill proposal review ID` prints.
Exit codes: 1 not approved, 2 no explicit approval, or the check has objections and --reason is
missing, 3 unknown id, 4 changed text or file, stale evidence, or a decided proposal, 5 I/O or
permission error.")]
pub struct ApproveArgs {
    /// Skill or proposal
    pub(crate) id: String,
    /// Digest of the approved text, or a prefix of at least twelve digits
    #[arg(long, value_name = "SHA")]
    pub(crate) digest: Option<String>,
    /// Approve without a question; requires --digest
    #[arg(long)]
    pub(crate) yes: bool,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct RejectArgs {
    /// Proposal
    pub(crate) id: String,
    /// Reason, which the author of the proposal can read
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub struct RebaseArgs {
    /// Proposal
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Skill
    pub(crate) skill: String,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Skill
    pub(crate) skill: String,
    /// Older version [default: the one before the last]
    #[arg(value_name = "A")]
    pub(crate) from: Option<u64>,
    /// Newer version [default: the current skill]
    #[arg(value_name = "B")]
    pub(crate) to: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal the change is shown before the question. Elsewhere --yes and the digest of the version
to restore are required, which `skillhost skill history SKILL` prints. A rollback is itself a version.")]
pub struct RollbackArgs {
    /// Skill
    pub(crate) skill: String,
    /// Version to restore [default: the one before the last]
    pub(crate) version: Option<u64>,
    /// Digest of that version, or a prefix of at least twelve digits
    #[arg(long, value_name = "SHA")]
    pub(crate) digest: Option<String>,
    /// Approve without a question; requires --digest
    #[arg(long)]
    pub(crate) yes: bool,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Always kept: the first version of each skill, versions that a person approved, and texts that open
proposals need. The default is the retention rule of `run`: the newest 20 versions, 100 versions of
the last 30 days, the last version of each of the last 90 days; the texts of decided proposals for
30 days; 100,000 usage records of the last 365 days.")]
pub struct PruneArgs {
    /// Remove nothing and print the planned removals
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Number of newest versions to keep of each skill [default: 20]
    #[arg(long, value_name = "VERSIONS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
    /// Days for which up to 100 versions of each skill are kept [default: 30, or 0 with --keep]
    #[arg(long, value_name = "DAYS")]
    pub(crate) days: Option<u32>,
}

#[derive(Debug, Args)]
pub struct AuditLogArgs {
    /// Only entries about this skill
    #[arg(long, value_name = "ID")]
    pub(crate) skill: Option<String>,
    /// Only entries about this proposal, by its full id
    #[arg(long, value_name = "ID")]
    pub(crate) proposal: Option<String>,
    /// Only entries after this sequence number
    #[arg(long, value_name = "SEQ", conflicts_with = "since")]
    pub(crate) after: Option<u64>,
    /// Only entries from this time on: a date, or a date and time, UTC unless an offset is given
    #[arg(long, value_name = "TIME", value_parser = parse_audit_start)]
    pub(crate) since: Option<AuditStart>,
    /// Maximum number of entries, newest first
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// The value of `audit-log --since`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AuditStart {
    /// A sequence number; the earlier spelling of `--after`.
    Seq(u64),
    /// Milliseconds since 1970.
    Time(i64),
}

fn parse_audit_start(text: &str) -> Result<AuditStart, String> {
    if let Ok(seq) = text.parse() {
        return Ok(AuditStart::Seq(seq));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(AuditStart::Time(time.as_millisecond()));
    }
    let zoned = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC));
    let zoned =
        zoned.map_err(|_| "expected a date such as 2026-02-28 or an RFC 3339 time".to_owned())?;
    Ok(AuditStart::Time(zoned.timestamp().as_millisecond()))
}

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Skill whose use by each agent is printed
    pub(crate) skill: Option<String>,
    /// Only the last days, from the start of a UTC day [default: all; for advice 90]
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: Option<u32>,
    /// Advice about unused, overused and shadowed skills
    #[arg(long)]
    pub(crate) advice: bool,
}
