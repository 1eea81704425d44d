//! Stores proposals of agents, decisions of people and the versions of skills, and changes skills
//! under human review.
//!
//! [`Ledger`] is the database of a data directory; `sqlite` is the only module with SQL.
//! [`LedgerSync`] keeps a running registry and the ledger in step.
//!
//! Of the registry, only the ledger writes to a skill, and only a version that a person approved or
//! rolled back to. All other writes go to the data directory.

mod activation_log;
mod baseline;
mod bounce_tracker;
mod changes;
mod created_skills;
mod examine;
mod files;
mod grant;
mod last_good;
mod ledger;
mod observe;
mod offer_log;
mod open;
mod proposals;
mod read;
mod read_only;
mod records;
mod retention;
mod rollback;
mod search_rows;
mod session;
mod sqlite;
mod sync;
mod text_recovery;

pub use activation_log::ActivationLog;
pub use files::skill_directory::unknown_skill_for;
pub use files::tree::current_digests;
pub use grant::ToolGrant;
pub use ledger::Ledger;
pub use offer_log::OfferLog;
pub use records::acceptance::{AcceptanceEvidence, ProposalCheck, ProposedChange};
pub use records::activation::{ActivationKind, SkillAccess, SkillActivation, SkillStats};
pub use records::catalog_row::{CatalogHit, CatalogRow, CatalogTerm};
pub use records::error::{LedgerError, LedgerErrorKind};
pub use records::event::{LedgerEvent, ProposalEvent, VersionEvent};
pub use records::model_evidence::{EvidenceFigures, ModelCheckMode, ModelEvidence};
pub use records::note::LedgerNote;
pub use records::proposal::{
    ApplyOutcome, ChangeTrial, HumanActor, LintDelta, LintFinding, Proposal, ProposalDecision,
    ProposalDrift, ProposalFileState, ProposalFilter, ProposalState, ProposalSummary,
    ProposeOutcome, ProposeRequest, RebaseOutcome, Recommendation, ReviewAdvice, ReviewFlag,
};
pub use records::retention::{PruneReport, RetentionRule};
pub use records::usage::{SkillUsage, UsageCounts, UsageDay, utc_day};
pub use records::version::{
    ApprovalStatus, AuditEntry, AuditFilter, SkillVersion, VersionAuthor, VersionFile, VersionTree,
};
pub use sync::{LedgerOutcome, LedgerSync};
