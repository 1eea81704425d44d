//! The audience of a call: an operator, or a model within the scope of its agent.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::skill::Skill;
use crate::state::{UnmatchedPattern, invalid_glob, no_match};

/// The audience of a result; a model gets no sign of a skill outside its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audience<'a> {
    /// A model without a known agent.
    Model,
    /// A model within the scope of its agent, or of the protocol it comes through.
    Agent(AgentScope<'a>),
    /// A person who operates the registry.
    Operator,
}

impl<'a> Audience<'a> {
    /// Returns the scope of a model, or `None` for an operator.
    #[must_use]
    pub fn scope(self) -> Option<AgentScope<'a>> {
        match self {
            Self::Model => Some(AgentScope::default()),
            Self::Agent(scope) => Some(scope),
            Self::Operator => None,
        }
    }
}

/// The skills section of an agent's manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentScope<'a> {
    /// The skills that the agent sees.
    pub catalog: CatalogScope<'a>,
    /// The skills that are bound into its instructions. It may read them and their files in any
    /// case, unless they are off: it has been given them already.
    pub bound: &'a [String],
    /// The skills that it is not offered, even if they are in its catalog.
    pub hidden: &'a [HiddenSkill],
}

/// A skill that an agent is not offered, because a requirement is not met.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HiddenSkill {
    /// The id.
    pub id: Box<str>,
    /// The label of its root.
    pub source: Box<str>,
    /// The reason, for people and models.
    pub reason: Box<str>,
}

impl HiddenSkill {
    /// Returns whether it is this skill.
    #[must_use]
    pub fn is_skill(&self, skill: &Skill) -> bool {
        *self.id == *skill.id().as_str() && *self.source == *skill.source()
    }
}

/// The selection of skills that an agent sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CatalogScope<'a> {
    /// Every skill that models are offered.
    #[default]
    All,
    /// The bound ones of them.
    Declared,
    /// None.
    None,
    /// Those of them whose id matches a glob of `include` and no glob of `exclude`.
    Globs {
        /// Globs over ids; none of them, no skill.
        include: &'a [String],
        /// Globs over ids.
        exclude: &'a [String],
    },
}

/// A compiled scope that outlives its call.
#[derive(Debug)]
pub(crate) struct OwnedScope {
    pub(crate) bound: Box<[String]>,
    pub(crate) hidden: Box<[HiddenSkill]>,
    catalog: OwnedCatalog,
}

#[derive(Debug)]
enum OwnedCatalog {
    All,
    Declared,
    None,
    Globs { include: IdGlobs, exclude: IdGlobs },
}

impl OwnedScope {
    pub(crate) fn new(scope: AgentScope<'_>) -> Self {
        let catalog = match scope.catalog {
            CatalogScope::All => OwnedCatalog::All,
            CatalogScope::Declared => OwnedCatalog::Declared,
            CatalogScope::None => OwnedCatalog::None,
            CatalogScope::Globs { include, exclude } => OwnedCatalog::Globs {
                include: IdGlobs::new(include),
                exclude: IdGlobs::new(exclude),
            },
        };
        Self { bound: scope.bound.into(), hidden: scope.hidden.into(), catalog }
    }

    /// Returns whether it was compiled from this scope.
    pub(crate) fn matches_scope(&self, scope: AgentScope<'_>) -> bool {
        let same = match (&self.catalog, scope.catalog) {
            (OwnedCatalog::All, CatalogScope::All)
            | (OwnedCatalog::Declared, CatalogScope::Declared)
            | (OwnedCatalog::None, CatalogScope::None) => true,
            (
                OwnedCatalog::Globs { include, exclude },
                CatalogScope::Globs { include: other_include, exclude: other_exclude },
            ) => *include.patterns == *other_include && *exclude.patterns == *other_exclude,
            _ => false,
        };
        same && *self.bound == *scope.bound && *self.hidden == *scope.hidden
    }

    /// Returns whether the scope includes an id; `is_bound` decides about a declared one.
    pub(crate) fn includes(&self, id: &str, is_bound: impl FnOnce() -> bool) -> bool {
        match &self.catalog {
            OwnedCatalog::All => true,
            OwnedCatalog::Declared => is_bound(),
            OwnedCatalog::None => false,
            // An invalid glob must not reveal the skills that it was written to hide.
            OwnedCatalog::Globs { include, exclude } => {
                exclude.broken.is_empty() && include.set.is_match(id) && !exclude.set.is_match(id)
            }
        }
    }

    /// Returns the globs that match no id, and the invalid ones.
    pub(crate) fn unmatched<'s>(
        &self,
        ids: impl Iterator<Item = &'s str> + Clone,
    ) -> Vec<UnmatchedPattern> {
        let OwnedCatalog::Globs { include, exclude } = &self.catalog else { return Vec::new() };
        include.unmatched(ids.clone()).chain(exclude.unmatched(ids)).collect()
    }
}

/// A set of globs over ids.
#[derive(Debug)]
struct IdGlobs {
    patterns: Box<[String]>,
    /// The valid globs.
    compiled: Vec<Glob>,
    set: GlobSet,
    broken: Vec<UnmatchedPattern>,
}

impl IdGlobs {
    fn new(patterns: &[String]) -> Self {
        let (mut compiled, mut broken_ones) = (Vec::new(), Vec::new());
        for pattern in patterns {
            match Glob::new(pattern) {
                Ok(glob) => compiled.push(glob),
                Err(error) => broken_ones.push(invalid_glob(pattern, &error)),
            }
        }
        let set = compiled.iter().cloned().fold(GlobSetBuilder::new(), |mut set, glob| {
            set.add(glob);
            set
        });
        let set = set.build().unwrap_or_else(|error| {
            // Each glob is valid, but together they exceed a limit: none is used and all are
            // reported.
            broken_ones.push(invalid_glob(&patterns.join(", "), &error));
            GlobSet::empty()
        });
        Self { patterns: patterns.into(), compiled, set, broken: broken_ones }
    }

    fn unmatched<'g, 's: 'g>(
        &'g self,
        ids: impl Iterator<Item = &'s str> + Clone + 'g,
    ) -> impl Iterator<Item = UnmatchedPattern> + 'g {
        let unmatched = self.compiled.iter().filter(move |glob| {
            let matcher = glob.compile_matcher();
            !ids.clone().any(|id| matcher.is_match(id))
        });
        let unmatched = unmatched.map(|glob| no_match(glob.glob(), "it matches no skill"));
        unmatched.chain(self.broken.iter().cloned())
    }
}
