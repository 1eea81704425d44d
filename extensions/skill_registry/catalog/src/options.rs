//! The options of a store: the roots, the limits and the states of skills.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::SkillState;

/// The trust in the skills of a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    /// The operator answers for the skills: they may be bound to agents.
    Operator,
    /// Untrusted: the skills are listed with their origin, cannot be bound and grant nothing. The
    /// default of a root without a stated trust.
    #[default]
    Untrusted,
}

/// A directory in which skills are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillRoot {
    /// A short name, unique among the roots; shadowed skills are reachable as `id@label`.
    pub label: String,
    /// The directory; it may appear later.
    pub path: PathBuf,
    /// The trust in its skills.
    #[serde(default)]
    pub trust: TrustLevel,
}

/// The limits of one scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimits {
    /// The maximum number of levels between a root and a skill's directory.
    pub depth: usize,
    /// The maximum number of opened directories, over all roots.
    pub directories: usize,
    /// The maximum number of skills, over all roots.
    pub skills: usize,
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self { depth: 6, directories: 50_000, skills: 20_000 }
    }
}

/// The options of a [`Store`](crate::Store).
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The roots; where an id is found twice, the earlier root wins.
    pub roots: Vec<SkillRoot>,
    /// Glob patterns of directories to skip, relative to their root. A pattern without `/` is
    /// compared with the directory's name.
    pub ignore: Vec<String>,
    /// The maximum memory of the last good texts, in bytes.
    pub cache_bytes: u64,
    /// The catalog's budget in characters where the model's window is not known.
    pub l1_budget_chars: usize,
    /// Up to this many visible skills the catalog lists all of them.
    pub l1_full_limit: usize,
    /// The states of skills, by id or glob.
    pub skills: BTreeMap<String, SkillState>,
    /// The interval between polls that read every file.
    pub full_pass: Duration,
    /// Bounds of a scan.
    pub limits: ScanLimits,
}

impl StoreOptions {
    /// The default of the catalog's budget, in characters.
    pub const DEFAULT_BUDGET_CHARS: usize = 8_000;

    /// The default of the number of visible skills up to which all are listed.
    pub const DEFAULT_FULL_LIMIT: usize = 40;
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            ignore: Vec::new(),
            cache_bytes: 64 << 20,
            l1_budget_chars: Self::DEFAULT_BUDGET_CHARS,
            l1_full_limit: Self::DEFAULT_FULL_LIMIT,
            skills: BTreeMap::new(),
            full_pass: Duration::from_secs(300),
            limits: ScanLimits::default(),
        }
    }
}
