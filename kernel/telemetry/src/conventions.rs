//! The names of OpenTelemetry's semantic conventions for generative AI, by version.
//!
//! Source: <https://github.com/open-telemetry/semantic-conventions-genai>. The conventions are in
//! development, so each version that is supported keeps its own table.

use skillhost_home::GenAiConventions;

/// The names of one version of the conventions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConventionNames {
    /// The attribute with the kind of operation.
    pub(crate) operation: &'static str,
    /// The operation of a call of a tool.
    pub(crate) execute_tool: &'static str,
    /// The operation of a run of an agent.
    pub(crate) invoke_agent: &'static str,
    /// The attribute with the name of a tool.
    pub(crate) tool: &'static str,
    /// The attribute with the name of an agent.
    pub(crate) agent: &'static str,
    /// The attribute with the id of a conversation, here a thread.
    pub(crate) conversation: &'static str,
    /// The attribute with the name of a skill.
    pub(crate) skill: &'static str,
    /// The attribute with the description of a skill.
    pub(crate) skill_description: &'static str,
    /// The attribute with the address of a skill.
    pub(crate) skill_source: &'static str,
    /// The attribute with the relative path of a file of a skill.
    pub(crate) skill_resource: &'static str,
    /// The attribute with the name of a program that was run.
    pub(crate) executable: &'static str,
    /// The attribute with the exit code of that program.
    pub(crate) exit_code: &'static str,
}

/// The attribute with the kind of an error, which is stable.
pub(crate) const ERROR_TYPE: &str = "error.type";

/// The word of the variable `OTEL_SEMCONV_STABILITY_OPT_IN` that selects the conventions in
/// development.
const LATEST_EXPERIMENTAL: &str = "gen_ai_latest_experimental";

/// The conventions in development, as of November 2026.
const DEVELOPMENT_2026_11: ConventionNames = ConventionNames {
    operation: "gen_ai.operation.name",
    execute_tool: "execute_tool",
    invoke_agent: "invoke_agent",
    tool: "gen_ai.tool.name",
    agent: "gen_ai.agent.name",
    conversation: "gen_ai.conversation.id",
    skill: "gen_ai.skill.name",
    skill_description: "gen_ai.skill.description",
    skill_source: "gen_ai.skill.source.uri",
    skill_resource: "gen_ai.skill.resource.name",
    executable: "process.executable.name",
    exit_code: "process.exit.code",
};

impl ConventionNames {
    /// Returns the names that the settings select; where they state none, the value of
    /// `OTEL_SEMCONV_STABILITY_OPT_IN`. `None` for no names.
    pub(crate) fn select(
        settings: Option<GenAiConventions>,
        opt_in: &str,
    ) -> Option<&'static Self> {
        match settings {
            Some(GenAiConventions::Off) => None,
            Some(GenAiConventions::Development202611) => Some(&DEVELOPMENT_2026_11),
            None => opt_in
                .split(',')
                .any(|word| word.trim() == LATEST_EXPERIMENTAL)
                .then_some(&DEVELOPMENT_2026_11),
        }
    }

    /// Returns the names of all attributes.
    #[cfg(test)]
    fn attributes(&self) -> [&'static str; 10] {
        [
            self.operation,
            self.tool,
            self.agent,
            self.conversation,
            self.skill,
            self.skill_description,
            self.skill_source,
            self.skill_resource,
            self.executable,
            self.exit_code,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names as they were published.
    const PINNED: &str = include_str!("../conventions/development-2026-11.txt");

    fn is_pinned(kind: &str, name: &str) -> bool {
        PINNED.lines().any(|line| {
            let mut words = line.split(' ');
            words.next() == Some(kind) && words.next() == Some(name)
        })
    }

    #[test]
    fn names_are_those_of_pinned_conventions() {
        let names = &DEVELOPMENT_2026_11;
        for name in names.attributes().into_iter().chain([ERROR_TYPE]) {
            assert!(is_pinned("attribute", name), "{name} is not in the conventions");
        }
        for operation in [names.execute_tool, names.invoke_agent] {
            assert!(is_pinned("operation", operation), "{operation} is not in the conventions");
        }
        assert!(!is_pinned("attribute", "gen_ai.skill.id"));
    }

    #[test]
    fn every_skill_attribute_of_conventions_is_used() {
        let used = DEVELOPMENT_2026_11.attributes();
        let pinned = PINNED.lines().filter_map(|line| line.strip_prefix("attribute "));
        let pinned = pinned.filter_map(|line| line.split(' ').next());
        let skill: Vec<_> = pinned.filter(|name| name.starts_with("gen_ai.skill.")).collect();
        assert_eq!(skill.len(), 4);
        assert!(skill.iter().all(|name| used.contains(name)), "{skill:?}");
    }

    #[test]
    fn settings_win_over_opt_in() {
        let select = ConventionNames::select;
        let new = Some(&DEVELOPMENT_2026_11);
        assert_eq!(select(None, ""), None);
        assert_eq!(select(None, "http, gen_ai_latest_experimental"), new);
        assert_eq!(select(None, "gen_ai"), None);
        assert_eq!(select(Some(GenAiConventions::Off), LATEST_EXPERIMENTAL), None);
        assert_eq!(select(Some(GenAiConventions::Development202611), ""), new);
    }
}
