//! What the active skills say about tools.

use std::collections::BTreeSet;

use skillhost_manifest::AllowedToolsMode;

/// What one active skill says. Names are compared with tools' names as they stand: what is more
/// than a name, such as `Bash(git:*)`, is no tool of ours and so neither grants nor allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillToolPolicy {
    /// The tools it names; absent where it says nothing.
    pub(crate) allowed_tools: Option<Vec<String>>,
    /// What it names needs no further consent.
    pub(crate) grants: bool,
}

/// What all of them together mean for an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolPermissions {
    granted: BTreeSet<String>,
    /// The only tools that may be called; absent: all.
    allowed: Option<BTreeSet<String>>,
}

impl ToolPermissions {
    pub(crate) fn from_policies(mode: AllowedToolsMode, statements: &[SkillToolPolicy]) -> Self {
        let named = |statement: &SkillToolPolicy| -> BTreeSet<String> {
            statement.allowed_tools.iter().flatten().cloned().collect()
        };
        let granting = statements.iter().filter(|statement| statement.grants);
        let stated = statements.iter().filter(|statement| statement.allowed_tools.is_some());
        Self {
            granted: granting.flat_map(named).collect(),
            allowed: match mode {
                AllowedToolsMode::Grant => None,
                AllowedToolsMode::Restrict => stated.map(named).reduce(|a, b| &a & &b),
            },
        }
    }

    /// Whether a tool needs no further consent.
    pub(crate) fn is_granted(&self, tool: &str) -> bool {
        self.granted.contains(tool)
    }

    /// Whether a tool may be called at all.
    pub(crate) fn is_allowed(&self, tool: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(tool))
    }

    /// The only tools that may be called, where there is such a list.
    pub(crate) fn allowed_tools(&self) -> Option<&BTreeSet<String>> {
        self.allowed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(tools: &[&str], grants: bool) -> SkillToolPolicy {
        let tools = tools.iter().map(ToString::to_string).collect();
        SkillToolPolicy { allowed_tools: Some(tools), grants }
    }

    #[test]
    fn restricting_skills_allow_what_all_of_them_name() {
        let silent = SkillToolPolicy { allowed_tools: None, grants: true };
        let skills = [says(&["a", "b"], true), silent.clone(), says(&["b", "c"], false)];
        let permissions = ToolPermissions::from_policies(AllowedToolsMode::Restrict, &skills);
        let allowed: Vec<_> = ["a", "b", "c", "d"].map(|t| permissions.is_allowed(t)).into();
        assert_eq!(allowed, [false, true, false, false]);
        assert!(
            ToolPermissions::from_policies(AllowedToolsMode::Restrict, &[silent]).is_allowed("a")
        );
        assert!(
            !ToolPermissions::from_policies(AllowedToolsMode::Restrict, &[says(&[], true)])
                .is_allowed("a")
        );
    }

    #[test]
    fn only_skills_that_may_grant_do_and_a_pattern_is_no_tool() {
        let skills = [says(&["a", "Bash(git:*)", "*"], true), says(&["b"], false)];
        let permissions = ToolPermissions::from_policies(AllowedToolsMode::Grant, &skills);
        let granted = ["a", "b", "Bash", "c"].map(|tool| permissions.is_granted(tool));
        assert_eq!(granted, [true, false, false, false]);
        assert!(permissions.is_allowed("z"));
    }
}
