//! Rule profiles and the level of each rule in them.

use serde::Serialize;
use skill_format::Severity;

/// A rule profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The behavior of loading, which recovers as much as possible.
    Lenient,
    /// The text of the Agent Skills specification.
    #[default]
    Spec,
    /// The verdicts and messages of the reference validator skills-ref 0.1.1, quirks included.
    Reference,
    /// The validation table of SkillsCraft.
    Skillscraft,
    /// The checklist of the formal specification.
    SeedStrict,
    /// The requirements of Anthropic's products.
    Anthropic,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] = [
        Self::Lenient,
        Self::Spec,
        Self::Reference,
        Self::Skillscraft,
        Self::SeedStrict,
        Self::Anthropic,
    ];

    /// Returns the name used on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::Spec => "spec",
            Self::Reference => "reference",
            Self::Skillscraft => "skillscraft",
            Self::SeedStrict => "seed-strict",
            Self::Anthropic => "anthropic",
        }
    }

    /// Returns the source of its levels, for documentation.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Lenient => "loading: as little as possible is an error",
            Self::Spec => "the text of the Agent Skills specification; the default",
            Self::Reference => "the reference validator, skills-ref 0.1.1, with its messages",
            Self::Skillscraft => "the validation table of the SkillsCraft specification reference",
            Self::SeedStrict => {
                "the checklist of the formal specification (*Skills: Formal Specification and \
                 Implementation Guide*)"
            }
            Self::Anthropic => "the requirements of Anthropic's products",
        }
    }

    /// Returns `true` if its validator splits the file differently from loading and rejects YAML
    /// that loading repairs.
    pub(crate) fn has_own_fences(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict)
    }

    /// Returns `true` if plain scalars have the types of YAML's core schema where a text is
    /// required.
    pub(crate) fn uses_core_schema(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict | Self::Anthropic)
    }

    /// Returns `true` if names must be ASCII and are compared without normalization.
    pub(crate) fn requires_ascii_names(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict | Self::Anthropic)
    }

    /// Returns `true` if a file of that name counts as the SKILL.md.
    pub(crate) fn has_skill_md(self, file_name: Option<&str>) -> bool {
        match (self, file_name) {
            (_, None) => false,
            (_, Some("SKILL.md" | "skill.md")) => true,
            // Its checklist has "SKILL.md exists (case-insensitive)".
            (Self::SeedStrict, Some(_)) => true,
            (_, Some(_)) => false,
        }
    }
}

/// The level of a rule in one profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    /// The rule is disabled.
    Off,
    /// Information.
    Note,
    /// Advice.
    Warning,
    /// The skill is not valid.
    Error,
}

impl RuleLevel {
    /// Returns the name used in documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Returns the severity of findings, or `None` if the rule is off.
    #[must_use]
    pub fn severity(self) -> Option<Severity> {
        match self {
            Self::Off => None,
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
        }
    }
}

/// The level of a rule in every profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProfileLevels {
    /// In [`Profile::Lenient`].
    pub lenient: RuleLevel,
    /// In [`Profile::Spec`].
    pub spec: RuleLevel,
    /// In [`Profile::Reference`].
    pub reference: RuleLevel,
    /// In [`Profile::Skillscraft`].
    pub skillscraft: RuleLevel,
    /// In [`Profile::SeedStrict`].
    pub seed_strict: RuleLevel,
    /// In [`Profile::Anthropic`].
    pub anthropic: RuleLevel,
}

impl ProfileLevels {
    /// Returns the same level for every profile.
    ///
    /// Single levels are overridden with `ProfileLevels { spec: …, ..ProfileLevels::uniform(…) }`.
    #[must_use]
    pub const fn uniform(level: RuleLevel) -> Self {
        Self {
            lenient: level,
            spec: level,
            reference: level,
            skillscraft: level,
            seed_strict: level,
            anthropic: level,
        }
    }

    /// Returns the level in a profile.
    #[must_use]
    pub fn level_for(&self, profile: Profile) -> RuleLevel {
        match profile {
            Profile::Lenient => self.lenient,
            Profile::Spec => self.spec,
            Profile::Reference => self.reference,
            Profile::Skillscraft => self.skillscraft,
            Profile::SeedStrict => self.seed_strict,
            Profile::Anthropic => self.anthropic,
        }
    }
}
