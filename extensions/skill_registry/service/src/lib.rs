//! Answers for skills: the tools of the registry, the block in a prompt, the search, the entries of
//! MCP clients, and the review of proposals.
//!
//! ```
//! use std::sync::Arc;
//! use skill_catalog::{Audience, Store, StoreError, SystemClock};
//! use skill_service::{ListSkillsArgs, RegistryConfig, list_skills};
//!
//! # fn main() -> Result<(), StoreError> {
//! let options = RegistryConfig::default().options("path/to/home".as_ref(), None);
//! let store = Store::open(options, Arc::new(SystemClock))?;
//! let snapshot = store.snapshot(); // every reader sees one consistent state
//! let answer = list_skills(&snapshot, Audience::Operator, &ListSkillsArgs::default());
//! assert_eq!(answer.text, "No skills found.");
//! # Ok(())
//! # }
//! ```
//!
//! - `tools` implements the tools of the registry and the offline commands.
//! - `publish` builds the resources and prompts of MCP clients.
//! - `search` ranks skills, `block` selects those of a prompt, `reviewing` lets an agent review
//!   proposals.
//!
//! Nothing here writes: the ledger of `skill-ledger` changes skills.

mod block;
mod caller;
mod config;
mod declarations;
mod declared_spec;
mod eligibility;
mod events;
mod file_stamp;
mod finder;
mod ineligible;
mod log_messages;
mod program_index;
mod publish;
mod reviewing;
mod search;
mod tools;
mod versions;

pub use block::{BlockRequest, CatalogBlocks, FirstBlock, MatchFn, explain_catalog};
pub use caller::{audience_of, audience_without, author_of};
pub use config::{RegistryConfig, SearchEmbeddings};
pub use declarations::DeclarationIndex;
pub use events::{to_ledger_events, to_skill_events};
pub use finder::SkillFinder;
pub use log_messages::{ChangeLog, LogMessage};
pub use program_index::ProgramIndex;
pub use publish::{
    ManifestFile, PublishedEntries, SkillDetailsBatch, SkillEntry, SkillPublication,
    SkillPublisher, UriTarget, explain_unlisted, locate_uri, published_directory, read_published,
};
pub use reviewing::{
    CheckMode, ProposalReviewer, ReviewAnswer, ReviewChecks, ReviewConfig, ReviewPolicy,
    ReviewTask, RunId, apply_decision, list_review_questions, load_offer,
};
pub use search::{
    EmbeddingBatch, EmbeddingVectors, MissingVectors, RankedSkill, RankedSkills, RankingSource,
    SimilarityScores, SkillQuery, SkillSearchResult, SkillSearcher,
};
pub use tools::{
    ExplainCatalogArgs, LOAD_SKILLS, ListSkillsArgs, LoadMode, LoadSkillsArgs, READ_LOADED,
    ReadLoadedArgs, ReadResourceArgs, ReadSkillArgs, SearchContext, SessionAnswer, ToolAnswer,
    UNLOAD_SKILLS, UnloadSkillsArgs, activate_skill, check_room, list_skills, load_skills,
    matching_skills, propose_skill_update, read_loaded, read_skill, read_skill_resource,
    search_skills, skill_content, skill_tree, tool_specs, unload_skills,
};
pub use versions::{list_skill_versions, read_skill_version};
