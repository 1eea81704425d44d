//! The next step after an error, in words for models or for users.

use std::fmt;

use serde::{Serialize, Serializer};
use skillhost_payload::OperatorCommand;

/// A step that models take with a tool and users with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// List the skills.
    ListSkills,
    /// Read a skill and the list of its files.
    ReadSkill,
    /// Look at the versions of a skill.
    ShowHistory,
    /// Restore the version of a skill before the last.
    RollBackSkill {
        /// The skill's id.
        id: String,
    },
    /// List all proposals.
    ListProposals,
    /// Review the open proposals.
    ReviewProposals,
    /// Rebase a proposal onto the current file.
    RebaseProposal {
        /// The proposal's id.
        id: String,
    },
    /// Reject a proposal.
    RejectProposal {
        /// The proposal's id.
        id: String,
    },
}

impl NextStep {
    /// Returns the command that takes the step.
    #[must_use]
    pub fn command(&self) -> OperatorCommand<'_> {
        match self {
            Self::ListSkills => OperatorCommand::ListSkills,
            Self::ReadSkill => OperatorCommand::ShowSkill,
            Self::ShowHistory => OperatorCommand::ShowSkillHistory,
            Self::RollBackSkill { id } => OperatorCommand::RollBackSkill { id },
            Self::ListProposals => OperatorCommand::ListProposals,
            Self::ReviewProposals => OperatorCommand::ReviewProposals { id: None },
            Self::RebaseProposal { id } => OperatorCommand::RebaseProposal { id },
            Self::RejectProposal { id } => OperatorCommand::RejectProposal { id },
        }
    }
}

/// A part of an advice.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdvicePart {
    Text(String),
    Step(NextStep),
}

/// An advice for the caller whose request failed: a text in which steps have no words yet.
///
/// [`Display`](fmt::Display) words the steps for models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice(Vec<AdvicePart>);

impl Advice {
    /// Appends a step.
    #[must_use]
    pub fn with_step(mut self, step: NextStep) -> Self {
        self.0.push(AdvicePart::Step(step));
        self
    }

    /// Appends a text.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.0.push(AdvicePart::Text(text.into()));
        self
    }

    /// Appends another advice.
    #[must_use]
    pub fn with_advice(mut self, advice: Self) -> Self {
        self.0.extend(advice.0);
        self
    }

    /// Returns the text with the given words for its steps.
    #[must_use]
    pub fn to_words(&self, words: impl Fn(&NextStep) -> String) -> String {
        let part = |part: &AdvicePart| match part {
            AdvicePart::Text(text) => text.clone(),
            AdvicePart::Step(step) => words(step),
        };
        self.0.iter().map(part).collect()
    }
}

impl From<NextStep> for Advice {
    fn from(step: NextStep) -> Self {
        Self::default().with_step(step)
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self::default().with_text(text)
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_words(to_model_words))
    }
}

impl Serialize for Advice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the words for a model: its tool, or the command to suggest to the operator.
fn to_model_words(step: &NextStep) -> String {
    match step {
        NextStep::ListSkills => "list_skills".to_owned(),
        NextStep::ReadSkill => "read_skill".to_owned(),
        step => format!("`{:#}`", step.command()),
    }
}
