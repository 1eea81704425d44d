//! Finds skills on disk, watches them for changes, serves their content, and changes them under
//! human review.
//!
//! ```
//! use std::sync::Arc;
//! use skill_store::{
//!     Audience, ListSkillsArgs, RegistryConfig, Store, StoreError, SystemClock, list_skills,
//! };
//!
//! # fn main() -> Result<(), StoreError> {
//! let options = RegistryConfig::default().options("path/to/home".as_ref(), None);
//! let store = Store::open(options, Arc::new(SystemClock))?;
//! let snapshot = store.snapshot(); // every reader sees one consistent state
//! let answer = list_skills(&snapshot, Audience::Operator, &ListSkillsArgs::default());
//! assert_eq!(answer.text, "No skills found.");
//! let report = store.poll(); // by stat alone, unless something changed
//! assert_eq!((report.changed, report.opened), (false, 0));
//! # Ok(())
//! # }
//! ```
//!
//! The modules:
//! - `walk` finds the directories that are skills, `reading` reads them, `resolve` decides which of
//!   several an id stands for, and [`Store`] publishes the result as a [`Snapshot`].
//! - [`Store::poll`] compares stamps (`signature`) and runs the same walk again where they moved.
//! - Every name from outside goes through `jail`: an id is looked up, a [`RelPath`] is checked as text
//!   and then opened component by component, without following links.
//! - `tools` implements the registry's tools and the offline commands; `publish` builds the resources
//!   and prompts of MCP clients.
//! - [`Ledger`] stores the proposals of agents, the decisions of people and the versions of skills;
//!   `db` is the only module with SQL.
//!
//! Only the ledger writes to a skill, and only a version that a person approved or rolled back to;
//! [`replace_file`] writes for a person's command. All other writes go to the data directory, which
//! also holds the [`GenerationFile`].

mod block;
mod config;
mod db;
mod finder;
mod ledger;
mod news;
mod proposal_file;
mod publish;
mod reviewing;
mod search;
mod tools;

pub use block::{BlockRequest, CatalogBlocks, MatchFn, explain_catalog};
pub use config::{RegistryConfig, SearchEmbeddings};
pub use finder::SkillFinder;
pub use ledger::{
    ActivationKind, ActivationLog, ApplyOutcome, ApprovalStatus, AuditEntry, AuditFilter,
    HumanActor, Ledger, LedgerError, LedgerErrorKind, LedgerEvent, LedgerNote, LedgerOutcome,
    LedgerSync, LintDelta, LintFinding, Proposal, ProposalDecision, ProposalDrift, ProposalEvent,
    ProposalFileState, ProposalFilter, ProposalState, ProposalSummary, ProposeOutcome,
    ProposeRequest, PruneReport, RebaseOutcome, Recommendation, RetentionRule, ReviewAdvice,
    ReviewFlag, SkillAccess, SkillActivation, SkillStats, SkillVersion, ToolGrant, VersionAuthor,
    VersionEvent, VersionFile, VersionTree, format_rfc3339,
};
pub use news::{ChangeLog, LogMessage};
pub use publish::{
    DirectoryChild, FileBody, FileBodyContent, FileContent, FileDetails, FileManifest,
    ManifestFile, PromptArgument, PublishedEntries, PublishedFile, SkillDetails, SkillDetailsBatch,
    SkillEntry, SkillPrompt, SkillPublication, SkillPublisher, SkillSummaries, SkillSummary,
    UriTarget, explain_unlisted, locate_uri, published_directory, read_published, skill_prompt,
    skill_uris, substitute_arguments,
};
pub use reviewing::{
    OfferDecision, ProposalOffer, ProposalReviewer, ReviewAnswer, ReviewConfig, ReviewPolicy,
    ReviewTask, RunId,
};
pub use search::{
    EmbeddingBatch, EmbeddingVectors, MissingVectors, RankedSkill, RankedSkills, RankingSource,
    SimilarityScores, SkillQuery, SkillSearchResult, SkillSearcher,
};
pub use tools::{
    ActivatedSkill, BoundSkillContent, ExplainCatalogArgs, ListSkillsArgs, ReadResourceArgs,
    ReadSkillArgs, SearchContext, ToolAnswer, ToolDescription, activate_skill, list_skills,
    matching_skills, propose_skill_update, propose_with_events, read_skill, read_skill_resource,
    search_skills, skill_content, tool_descriptions,
};
