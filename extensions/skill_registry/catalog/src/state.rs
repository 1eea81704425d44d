//! The states that an operator's settings give to single skills.

use std::collections::BTreeMap;
use std::fmt;

use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Serialize};

/// The audiences that a skill is offered to.
///
/// A later state is stricter. A skill whose SKILL.md sets `disable-model-invocation` is at least
/// [`UserOnly`](SkillState::UserOnly), in spite of the settings.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum SkillState {
    /// Models and users have it.
    #[default]
    On,
    /// The same, but the catalog of a prompt has its id alone.
    NameOnly,
    /// Hidden from models, except for an agent whose manifest binds it.
    UserOnly,
    /// Readable only for an operator at the command line; cannot be bound.
    Off,
}

impl SkillState {
    /// Returns the name in the settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::NameOnly => "name-only",
            Self::UserOnly => "user-only",
            Self::Off => "off",
        }
    }

    /// Returns the state that settings give to an id: an id goes before globs; of several globs the
    /// strictest counts.
    #[must_use]
    pub fn from_settings(settings: &BTreeMap<String, Self>, id: &str) -> Self {
        SkillStates::new(settings).state_for(id).map_or(Self::On, |(state, _)| state)
    }
}

/// A pattern in the settings that matches no skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnmatchedPattern {
    /// The id or glob.
    pub pattern: String,
    /// The reason why it has no effect.
    pub reason: String,
}

impl fmt::Display for UnmatchedPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` has no effect: {}", self.pattern, self.reason)
    }
}

/// The compiled states of the settings.
#[derive(Debug, Default)]
pub(crate) struct SkillStates {
    /// Sorted by pattern.
    settings: Vec<StateSetting>,
}

#[derive(Debug)]
struct StateSetting {
    pattern: String,
    /// The pattern as a glob, in addition to its meaning as an id.
    glob: Result<Option<GlobMatcher>, globset::Error>,
    state: SkillState,
}

impl StateSetting {
    fn matches(&self, id: &str) -> bool {
        matches!(&self.glob, Ok(Some(glob)) if glob.is_match(id))
    }
}

impl SkillStates {
    /// Compiles the settings; an invalid glob is retained for the report.
    pub(crate) fn new(settings: &BTreeMap<String, SkillState>) -> Self {
        let compile = |pattern: &str| match pattern.contains(['*', '?', '[', ']', '{', '}']) {
            true => Glob::new(pattern).map(|glob| Some(glob.compile_matcher())),
            false => Ok(None),
        };
        let settings = settings.iter().map(|(pattern, state)| StateSetting {
            pattern: pattern.clone(),
            glob: compile(pattern),
            state: *state,
        });
        Self { settings: settings.collect() }
    }

    /// Returns the state of an id and the setting that defines it. An id goes before globs; of
    /// several globs the strictest counts.
    pub(crate) fn state_for(&self, id: &str) -> Option<(SkillState, &str)> {
        let exact = self.settings.binary_search_by(|setting| setting.pattern.as_str().cmp(id));
        let found = match exact {
            Ok(at) => Some(&self.settings[at]),
            Err(_) => self
                .settings
                .iter()
                .filter(|setting| setting.matches(id))
                .max_by_key(|setting| setting.state),
        };
        found.map(|setting| (setting.state, &*setting.pattern))
    }

    /// Returns the settings that match no skill.
    pub(crate) fn unmatched<'s>(
        &self,
        ids: &(impl Iterator<Item = &'s str> + Clone),
    ) -> Vec<UnmatchedPattern> {
        let unmatched = self
            .settings
            .iter()
            .filter(|setting| !ids.clone().any(|id| setting.pattern == id || setting.matches(id)));
        let reports = unmatched.map(|setting| match &setting.glob {
            Ok(None) => no_match(&setting.pattern, "skill not found"),
            Ok(Some(_)) => no_match(&setting.pattern, "it matches no skill"),
            Err(error) => invalid_glob(&setting.pattern, error),
        });
        reports.collect()
    }
}

/// Creates the report of a pattern without an effect.
pub(crate) fn no_match(pattern: &str, reason: &str) -> UnmatchedPattern {
    UnmatchedPattern { pattern: pattern.to_owned(), reason: reason.to_owned() }
}

/// Creates the report of an invalid glob.
pub(crate) fn invalid_glob(pattern: &str, error: &globset::Error) -> UnmatchedPattern {
    UnmatchedPattern {
        pattern: pattern.to_owned(),
        reason: format!("it is not a valid glob: {}", error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_precedes_strictest_glob() {
        let settings = serde_json::json!({
            "pdf": "on", "pdf-*": "user-only", "*-old": "off", "deploy": "name-only", "a[": "off",
            "b[1]": "off",
        });
        let states = SkillStates::new(&serde_json::from_value(settings).unwrap());
        let cases = [
            ("pdf", Some((SkillState::On, "pdf"))),
            ("pdf-forms", Some((SkillState::UserOnly, "pdf-*"))),
            ("pdf-old", Some((SkillState::Off, "*-old"))),
            ("deploy", Some((SkillState::NameOnly, "deploy"))),
            ("b[1]", Some((SkillState::Off, "b[1]"))),
            ("b1", Some((SkillState::Off, "b[1]"))),
            ("else", None),
        ];
        for (id, expected) in cases {
            assert_eq!(states.state_for(id), expected, "{id}");
        }
        let unmatched = states.unmatched(&["pdf-forms", "deploy"].into_iter());
        let expected = [
            no_match("*-old", "it matches no skill"),
            no_match("a[", "it is not a valid glob: unclosed character class; missing ']'"),
            no_match("b[1]", "it matches no skill"),
            no_match("pdf", "skill not found"),
        ];
        assert_eq!(unmatched, expected);
    }

    #[test]
    fn states_have_one_name() {
        let states = [SkillState::On, SkillState::NameOnly, SkillState::UserOnly, SkillState::Off];
        assert!(states.is_sorted());
        for state in states {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
