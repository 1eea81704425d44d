//! Policies as records of approvals keep them, and their differences.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::composition::ComposedPolicy;
use crate::isolation::IsolationLevel;

/// The policy of one use of a skill's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedPolicy {
    /// The digest of the policy, with its prefix.
    pub digest: String,
    /// The statements that the digest covers, so that a later change can be named.
    pub statements: Vec<String>,
    /// The isolation level that a run reaches; a grant does not cover a lower one.
    pub level: IsolationLevel,
}

/// A difference between the policy of a grant and that of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// The key, such as `seconds` or `allowedDomains`.
    pub key: String,
    /// The value that is gone.
    pub before: Option<String>,
    /// The value that is new.
    pub after: Option<String>,
}

impl GrantedPolicy {
    /// Returns what a grant has to name of a policy and the level that a run under it reaches.
    #[must_use]
    pub fn new(policy: &ComposedPolicy, level: IsolationLevel) -> Self {
        Self { digest: policy.digest(), statements: policy.statements(), level }
    }

    /// Returns the differences of a later policy.
    #[must_use]
    pub fn changes_to(&self, now: &Self) -> Vec<PolicyChange> {
        let parse = |statements: &[String]| -> BTreeSet<(String, String)> {
            let pairs = statements.iter().filter_map(|statement| statement.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let (before, after) = (parse(&self.statements), parse(&now.statements));
        let mut gone: Vec<_> = before.difference(&after).cloned().collect();
        let mut changes = Vec::new();
        for (key, value) in after.difference(&before) {
            // The new value of a limit replaces the old one; entries of lists come and go alone.
            let is_limit = |list: &BTreeSet<(String, String)>| {
                list.iter().filter(|(other, _)| other == key).count() == 1
            };
            let replaced = gone.iter().position(|(other, _)| other == key);
            let replaced = replaced.filter(|_| is_limit(&before) && is_limit(&after));
            changes.push(PolicyChange {
                key: key.clone(),
                before: replaced.map(|at| gone.remove(at).1),
                after: Some(value.clone()),
            });
        }
        let removed = gone.into_iter().map(|(key, value)| PolicyChange {
            key,
            before: Some(value),
            after: None,
        });
        changes.extend(removed);
        changes
    }
}

impl fmt::Display for PolicyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{key} {before} → {after}"),
            (None, Some(after)) => write!(f, "{key} {after} added"),
            (Some(before), None) => write!(f, "{key} {before} removed"),
            (None, None) => f.write_str(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(statements: &[&str]) -> GrantedPolicy {
        GrantedPolicy {
            digest: statements.join("\n"),
            statements: statements.iter().map(|it| (*it).to_owned()).collect(),
            level: IsolationLevel::Landlock,
        }
    }

    #[test]
    fn changed_list_entries_are_named_alone() {
        let before = policy(&["allowRead=/a", "allowRead=/b", "files=1", "seconds=30"]);
        let after = policy(&["allowRead=/b", "allowRead=/c=d", "files=1", "seconds=20"]);
        let changes: Vec<_> = before.changes_to(&after).iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["allowRead /c=d added", "seconds 30 → 20", "allowRead /a removed"]);
    }
}
