//! The cases of a skill.

use serde::Serialize;
use skill_compat::extended::{AssertionType, TestAssertion};
use yaml_tree::Span;

/// A query with the skills that it is expected to lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerCase {
    /// The name within the file: `q` and the number of the case, counted from 1.
    pub name: String,
    /// The query, as a user writes it.
    pub query: String,
    /// Whether the skill of the file is expected.
    pub should_trigger: bool,
    /// Another skill that is expected above the skill of the file.
    pub expected_skill: Option<String>,
    /// Skills that must not be offered.
    pub forbidden: Vec<String>,
    /// The agent whose view is tested; `None` for the one of the command.
    pub agent: Option<String>,
    /// The side of the split, if the file fixes it.
    pub split: Option<CaseSplit>,
    /// The position in the file.
    pub at: Span,
}

/// The two sides of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseSplit {
    /// May be shown to the authors of changes.
    Train,
    /// Judges changes and is never shown to their authors.
    HeldOut,
}

/// A prompt with the expected result of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputCase {
    /// The id, unique in the file.
    pub id: String,
    /// The prompt.
    pub prompt: String,
    /// The expected result, in words.
    pub expected_output: Option<String>,
    /// Files below the skill's directory that the workspace of the turn starts with.
    pub files: Vec<String>,
    /// The conditions to check afterwards.
    pub assertions: Vec<CaseAssertion>,
    /// The position in the file.
    pub at: Span,
}

/// A condition to check after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseAssertion {
    /// A sentence for a judge (agentskills guide).
    Sentence(String),
    /// A condition of the SkillsCraft specification.
    Typed(TestAssertion),
}

impl CaseSplit {
    /// Returns its name in files and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::HeldOut => "held-out",
        }
    }
}

impl CaseAssertion {
    /// Returns the path of the script that checks the condition, if a script does.
    #[must_use]
    pub fn script(&self) -> Option<&str> {
        match self {
            Self::Typed(TestAssertion { kind: AssertionType::Custom, value, .. }) => {
                value.strip_prefix("script:").map(str::trim)
            }
            Self::Typed(_) | Self::Sentence(_) => None,
        }
    }

    /// Returns a description for reports.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Sentence(text) => text.clone(),
            Self::Typed(TestAssertion { description: Some(text), .. }) => text.clone(),
            Self::Typed(typed) => format!("{}: {}", typed.kind.as_str(), typed.value),
        }
    }
}
