//! Finds skills on disk, notices what happens to them, serves what they say, and changes them under
//! human review.
//!
//! ```
//! use std::sync::Arc;
//! use skill_store::{
//!     Audience, ListArgs, RegistryConfig, Store, StoreError, SystemClock, list_skills,
//! };
//!
//! # fn main() -> Result<(), StoreError> {
//! let options = RegistryConfig::default().options("path/to/home".as_ref(), None);
//! let store = Store::open(options, Arc::new(SystemClock))?;
//! let snapshot = store.snapshot(); // everybody reads one consistent state
//! let answer = list_skills(&snapshot, Audience::Operator, &ListArgs::default());
//! assert_eq!(answer.text, "There are no skills.");
//! let report = store.poll(); // by stat alone, unless something changed
//! assert_eq!((report.changed, report.opened), (false, 0));
//! # Ok(())
//! # }
//! ```
//!
//! Where to look:
//! - `walk` finds the directories that are skills, `reading` reads them, `resolve` decides which of
//!   several an id stands for, and [`Store`] publishes the result as a [`Snapshot`].
//! - [`Store::poll`] compares stamps (`signature`) and runs the same walk again where they moved.
//! - Everything that is named from outside goes through `jail`: an id is looked up, a [`RelPath`] is
//!   checked as text and then opened component by component, without following links.
//! - `tools` answers the registry's tools and the offline commands alike; `publish` makes what MCP
//!   clients are given beside them.
//!
//! - [`Ledger`] keeps what agents propose, what people decide and the versions of skills; `db` is the
//!   only place with SQL.
//!
//! Only the ledger writes to a skill, and only what a person approved or rolled back to;
//! [`replace_file`] does when a person's command tells it to. Beside that the data directory and the
//! [`GenerationFile`] in it are all that is written.

mod block;
mod cache;
mod clock;
mod collect;
mod created;
mod db;
mod disk;
mod entry;
mod error;
mod event;
#[cfg(feature = "failpoints")]
pub mod fault;
#[cfg(not(feature = "failpoints"))]
mod fault;
mod finder;
mod generation;
mod ignore;
mod jail;
mod ledger;
mod lock;
mod news;
mod options;
mod problem;
mod proposal_file;
mod publish;
mod reading;
mod replace;
mod resolve;
mod reviewing;
mod roots;
mod scope;
mod search;
mod signature;
mod skill;
mod skill_yaml;
mod snapshot;
mod source;
mod state;
mod store;
mod temporary;
mod tools;
mod tree;
mod view;
mod walk;

pub use block::{Blocks, Search, Turn, explain_catalog};
pub use clock::{Clock, ManualClock, SystemClock};
pub use collect::{
    Found, FoundProblem, FoundSkill, ProblemKind, Resource, SkillFiles, find_skills,
};
pub use created::{CreatedSkill, CreatedSkills};
pub use error::{ErrorKind, RegistryError, StoreError};
pub use event::SkillEvent;
pub use finder::Finder;
pub use generation::GenerationFile;
pub use jail::{RelPath, RelPathError};
pub use ledger::{
    Activation, ActivationKind, ActivationLog, Actor, Advice, Applied, AuditEntry, AuditFilter,
    Author, Decision, Drift, FileState, Flag, Kept, Ledger, LedgerError, LedgerErrorKind,
    LedgerEvent, LedgerKeeper, LedgerNote, LintDelta, LintFinding, Offer, Proposal, ProposalEvent,
    ProposalFilter, ProposalState, ProposalSummary, ProposeRequest, Proposed, PruneReport, Rebased,
    Recommendation, RetentionRule, SkillStats, Standing, ToolGrant, Verdict, Version,
    VersionAuthor, VersionEvent, VersionFile, VersionTree, rfc3339,
};
pub use news::{News, NewsLine};
pub use options::{RegistryConfig, Root, ScanLimits, SearchEmbeddings, StoreOptions, Trust};
pub use problem::{Partial, PartialReason, Problem};
pub use publish::{
    Body, BodyContent, Details, DetailsOfMany, DirectoryChild, FileContent, FileDetails, FileEntry,
    Manifest, Place, PromptArgument, Publication, Published, PublishedFile, Publisher, SkillEntry,
    SkillPrompt, Summaries, Summary, explain_unlisted, locate, published_directory, read_published,
    skill_prompt, skill_uris, with_arguments,
};
pub use replace::{ReplaceError, replace_file};
pub use resolve::Shadowed;
pub use reviewing::{ReviewAnswer, ReviewConfig, ReviewPolicy, ReviewTask, Reviewer, RunId};
pub use scope::{Audience, CatalogScope, Scope};
pub use search::{
    Ask, Batch, Missing, Nearness, Ranked, RankedBy, RankedSkill, Searched, Searcher, Vectors,
};
pub use skill::Skill;
pub use skill_yaml::{SkillYamlError, read_skill_yaml};
pub use snapshot::Snapshot;
pub use source::{SkillSource, SourceState};
pub use state::{SkillState, Unmatched};
pub use store::{PollReport, Store};
pub use temporary::{TEMPORARY_PREFIX, is_temporary, sweep_directory, temporary_name};
pub use tools::{
    Activated, Answer, Content, ExplainArgs, ListArgs, Read, ReadArgs, ResourceArgs, SearchIn,
    ToolDescription, activate_skill, list_skills, matching, propose_skill_update, proposed,
    read_skill, read_skill_resource, search_skills, skill_content, tool_descriptions,
};

pub use skill_diff as diff;
pub use skill_search::{CosineScores, EmbeddingSimilarity, Ranker, RankingExplanation};
pub use view::SharedCatalog;

pub use skill_format::{Digest, FILE_LIMIT, SkillId, TokenCount};
