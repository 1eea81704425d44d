//! The tool permissions of the active skills.

use std::collections::BTreeSet;

use skillhost_manifest::AllowedToolsMode;

/// The tool policy of one active skill. Names are compared with tool names literally: a pattern
/// such as `Bash(git:*)` matches no tool, so it neither grants nor allows one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillToolPolicy {
    /// The tools it names; `None` without such a list.
    pub(crate) allowed_tools: Option<Vec<String>>,
    /// True if the named tools need no further approval.
    pub(crate) grants: bool,
}

/// The combined policies of the active skills, for one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolPermissions {
    granted: BTreeSet<String>,
    /// The only tools that may be called; `None` allows all.
    allowed: Option<BTreeSet<String>>,
}

impl ToolPermissions {
    pub(crate) fn from_policies(mode: AllowedToolsMode, policies: &[SkillToolPolicy]) -> Self {
        let named = |policy: &SkillToolPolicy| -> BTreeSet<String> {
            policy.allowed_tools.iter().flatten().cloned().collect()
        };
        let granting = policies.iter().filter(|policy| policy.grants);
        let stated = policies.iter().filter(|policy| policy.allowed_tools.is_some());
        Self {
            granted: granting.flat_map(named).collect(),
            allowed: match mode {
                AllowedToolsMode::Grant => None,
                // Every restricting skill must agree, so the lists are intersected.
                AllowedToolsMode::Restrict => stated.map(named).reduce(|a, b| &a & &b),
            },
        }
    }

    /// Returns whether a tool needs no further approval.
    pub(crate) fn is_granted(&self, tool: &str) -> bool {
        self.granted.contains(tool)
    }

    /// Returns whether a tool may be called at all.
    pub(crate) fn is_allowed(&self, tool: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(tool))
    }

    /// Returns the only tools that may be called, or `None` where all may.
    pub(crate) fn allowed_tools(&self) -> Option<&BTreeSet<String>> {
        self.allowed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(tools: &[&str], grants: bool) -> SkillToolPolicy {
        let tools = tools.iter().map(ToString::to_string).collect();
        SkillToolPolicy { allowed_tools: Some(tools), grants }
    }

    #[test]
    fn restrictions_are_intersected() {
        let silent = SkillToolPolicy { allowed_tools: None, grants: true };
        let skills = [policy(&["a", "b"], true), silent.clone(), policy(&["b", "c"], false)];
        let permissions = ToolPermissions::from_policies(AllowedToolsMode::Restrict, &skills);
        let allowed: Vec<_> = ["a", "b", "c", "d"].map(|t| permissions.is_allowed(t)).into();
        assert_eq!(allowed, [false, true, false, false]);
        assert!(
            ToolPermissions::from_policies(AllowedToolsMode::Restrict, &[silent]).is_allowed("a")
        );
        assert!(
            !ToolPermissions::from_policies(AllowedToolsMode::Restrict, &[policy(&[], true)])
                .is_allowed("a")
        );
    }

    #[test]
    fn patterns_and_nongranting_skills_are_ignored() {
        let skills = [policy(&["a", "Bash(git:*)", "*"], true), policy(&["b"], false)];
        let permissions = ToolPermissions::from_policies(AllowedToolsMode::Grant, &skills);
        let granted = ["a", "b", "Bash", "c"].map(|tool| permissions.is_granted(tool));
        assert_eq!(granted, [true, false, false, false]);
        assert!(permissions.is_allowed("z"));
    }
}
