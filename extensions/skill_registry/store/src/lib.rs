//! Finds, watches and serves skills on disk.

mod cache;
mod clock;
mod disk;
mod entry;
mod error;
mod event;
mod generation;
mod ignore;
mod jail;
mod options;
mod problem;
mod reading;
mod resolve;
mod roots;
mod signature;
mod skill;
mod snapshot;
mod source;
mod store;
mod tools;
mod tree;
mod walk;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{ErrorKind, RegistryError, StoreError};
pub use event::SkillEvent;
pub use generation::GenerationFile;
pub use jail::{RelPath, RelPathError};
pub use options::{RegistryConfig, Root, ScanLimits, StoreOptions, Trust};
pub use problem::{Partial, PartialReason, Problem};
pub use resolve::Shadowed;
pub use skill::Skill;
pub use snapshot::{Audience, SharedCatalog, Snapshot};
pub use source::{SkillSource, SourceState};
pub use store::{PollReport, Store};
pub use tools::{
    Answer, Content, ListArgs, ReadArgs, ResourceArgs, list_skills, matching, read_skill,
    read_skill_resource, skill_content,
};
