//! Profiles: whose rules a skill is measured by, and how serious each of them is there.

use serde::Serialize;
use skill_format::Severity;

/// Says whose rules count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// What loading does: everything that can be understood is.
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
    /// What Anthropic's products accept.
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

    /// Returns the name as it is written on a command line.
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

    /// Tells whether its validator finds the fences otherwise than loading does, and refuses YAML
    /// that loading mends.
    pub(crate) fn has_own_fences(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict)
    }

    /// Tells whether plain scalars have the types of YAML's core schema where a text is asked for.
    pub(crate) fn uses_core_schema(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict | Self::Anthropic)
    }

    /// Tells whether names are ASCII and compared as they stand in the file.
    pub(crate) fn requires_ascii_names(self) -> bool {
        matches!(self, Self::Skillscraft | Self::SeedStrict | Self::Anthropic)
    }

    /// Tells whether a file of that name is taken for the SKILL.md.
    pub(crate) fn has_skill_md(self, file_name: Option<&str>) -> bool {
        match (self, file_name) {
            (_, None) => false,
            (_, Some("SKILL.md" | "skill.md")) => true,
            // "SKILL.md exists (case-insensitive)", says its checklist.
            (Self::SeedStrict, Some(_)) => true,
            (_, Some(_)) => false,
        }
    }
}

/// How serious a finding of a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    /// The rule says nothing.
    Off,
    /// Worth knowing.
    Note,
    /// Advice.
    Warning,
    /// The skill is not valid.
    Error,
}

impl RuleLevel {
    /// Returns the name as it is written in documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Returns the severity of findings; nothing if the rule is off.
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
    /// The same level everywhere; change single ones with `Levels { spec: …, ..Levels::all(…) }`.
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
