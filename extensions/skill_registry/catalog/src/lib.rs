//! Finds skills on disk, watches them for changes and reads their texts.
//!
//! ```
//! use std::sync::Arc;
//! use skill_catalog::{Store, StoreError, StoreOptions, SystemClock};
//!
//! # fn main() -> Result<(), StoreError> {
//! let store = Store::open(StoreOptions::default(), Arc::new(SystemClock))?;
//! let snapshot = store.snapshot(); // every reader sees one consistent state
//! assert!(snapshot.skills().is_empty());
//! let report = store.poll(); // by stat alone, unless something changed
//! assert_eq!((report.changed, report.opened), (false, 0));
//! # Ok(())
//! # }
//! ```
//!
//! The modules:
//! - `walk` finds the directories that are skills, `reading` reads them, `resolve` decides which of
//!   several an id names, and [`Store`] publishes the result as a [`Snapshot`].
//! - [`Store::poll`] compares stamps (`signature`) and runs the same walk again where they moved.
//! - Every name from outside goes through the jail of `skillhost-files`: an id is looked up, a path
//!   is checked as text and then opened component by component, without following links.
//!
//! Nothing here writes to a skill.

mod advice;
mod cache;
mod clock;
mod collect;
mod created;
mod disk;
mod entry;
mod error;
mod event;
mod generation;
mod ignore;
mod options;
mod problem;
mod programs;
mod reading;
mod resolve;
mod roots;
mod scope;
mod signature;
mod skill;
mod skill_yaml;
mod snapshot;
mod source;
mod state;
mod store;
mod tree;
mod walk;

pub use advice::{Advice, NextStep};
pub use clock::{Clock, ManualClock, SystemClock};
pub use collect::{
    FoundItem, FoundProblem, FoundSkill, ProblemKind, ResourceContent, SkillFiles, find_skills,
};
pub use created::{AgentAuthor, CreatedSkill, CreatedSkills};
pub use error::{RegistryError, StoreError};
pub use event::SkillEvent;
pub use generation::GenerationFile;
pub use options::{ScanLimits, SkillRoot, StoreOptions, TrustLevel};
pub use problem::{PartialReason, PartialScan, ScanProblem};
pub use programs::SkillProgramFiles;
pub use reading::is_valid_skill;
pub use resolve::ShadowedSkill;
pub use scope::{AgentScope, Audience, CatalogScope, HiddenSkill};
pub use signature::FileSignature;
pub use skill::{Skill, SkillFile};
pub use skill_yaml::{SkillYamlError, read_skill_yaml, read_skill_yaml_in};
pub use snapshot::{CatalogView, SharedCatalog, Snapshot, suggest_similar};
pub use source::{SkillBytes, SkillSource, SourceState};
pub use state::{SkillState, UnmatchedPattern};
pub use store::{BrokenSkill, LastGoodText, PollReport, Store};
pub use tree::FileTree;
