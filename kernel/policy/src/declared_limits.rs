//! The limits that code declares for itself, applied after all permissions are composed.

use std::path::PathBuf;

use crate::composition::{ComposedPolicy, PolicySource};

/// The limits that a skill declares for its code. They only take permissions away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// It may use the network that the policy allows.
    pub uses_network: bool,
    /// It may execute programs besides its interpreter.
    pub executes_programs: bool,
    /// It may write the paths that the policy allows.
    pub writes_files: bool,
    /// The directories that it may reach at most; `None` for those that the policy allows.
    pub directories: Option<Vec<PathBuf>>,
}

impl ComposedPolicy {
    /// Takes away the permissions beyond declared limits. The paths that a run requires are added
    /// after it.
    pub fn apply_limits(&mut self, limits: &DeclaredLimits) {
        let policy = &mut self.policy;
        if !limits.uses_network {
            policy.network.allowed_domains.clear();
            policy.network.allow_unix_sockets.clear();
            policy.network.allow_local_binding = false;
        }
        policy.deny_execution |= !limits.executes_programs;
        let files = &mut policy.filesystem;
        if let Some(directories) = &limits.directories {
            let is_inside = |path: &PathBuf| directories.iter().any(|it| path.starts_with(it));
            // Of a larger permission, the directories inside of it remain.
            for list in [&mut files.allow_read, &mut files.allow_write] {
                let inner: Vec<_> = directories
                    .iter()
                    .filter(|it| list.iter().any(|outer| it.starts_with(outer)))
                    .cloned()
                    .collect();
                list.retain(is_inside);
                for path in inner {
                    if !list.contains(&path) {
                        list.push(path);
                    }
                }
            }
        }
        if !limits.writes_files {
            // A writable path was readable, too.
            let written = std::mem::take(&mut files.allow_write);
            let missing = written.into_iter().filter(|path| !files.allow_read.contains(path));
            let missing: Vec<_> = missing.collect();
            files.allow_read.extend(missing);
        }
        self.record_new(PolicySource::Skill);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layer::parse_policy_json;
    use crate::operator_policy::{OperatorPolicy, PolicyRequest};
    use crate::policy_use::PolicyUse;

    /// Composes the policy of a script to which the operator permits much.
    fn compose() -> ComposedPolicy {
        let text = r#"{"filesystem": {"allowRead": ["/srv"], "allowWrite": [".", "/out"]},
            "network": {"allowedDomains": ["a.org"], "allowUnixSockets": ["/run/a"]}}"#;
        let layer = parse_policy_json(text).unwrap().layer;
        let work = Path::new("/home/work");
        let request = PolicyRequest {
            policy_use: PolicyUse::Script,
            id: None,
            base: PolicyUse::Script.default_policy(work),
            approved_layer: None,
            operator_layer: Some(&layer),
            layers: &[],
            work,
            aliases: &[],
        };
        OperatorPolicy::default().compose(request).unwrap()
    }

    fn limits() -> DeclaredLimits {
        DeclaredLimits {
            uses_network: true,
            executes_programs: true,
            writes_files: true,
            directories: None,
        }
    }

    fn files(policy: &ComposedPolicy) -> (Vec<&str>, Vec<&str>) {
        let files = &policy.policy.filesystem;
        let list = |paths: &'_ [PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        let leak = |list: Vec<String>| list.into_iter().map(|it| &*it.leak()).collect();
        (leak(list(&files.allow_read)), leak(list(&files.allow_write)))
    }

    #[test]
    fn absent_limits_change_nothing() {
        let mut policy = compose();
        policy.apply_limits(&limits());
        assert_eq!(policy.statements(), compose().statements());
    }

    #[test]
    fn each_limit_takes_its_permissions() {
        let mut policy = compose();
        policy.apply_limits(&DeclaredLimits { uses_network: false, ..limits() });
        let network = &policy.policy.network;
        assert!(network.allowed_domains.is_empty() && network.allow_unix_sockets.is_empty());
        assert!(!network.allow_local_binding);
        let mut policy = compose();
        policy.apply_limits(&DeclaredLimits { executes_programs: false, ..limits() });
        assert!(policy.policy.deny_execution);
        let row = policy.explain().into_iter().find(|row| row.key == "denyExecution").unwrap();
        assert_eq!((&*row.value, &*row.source), ("true", "skill"));
        let mut policy = compose();
        policy.apply_limits(&DeclaredLimits { writes_files: false, ..limits() });
        assert_eq!(files(&policy), (vec!["/srv", "/home/work", "/out"], vec![]));
        let mut policy = compose();
        policy.apply_limits(&DeclaredLimits { directories: Some(vec![]), ..limits() });
        assert_eq!(files(&policy), (vec![], vec![]));
        let work = Some(vec![PathBuf::from("/home/work")]);
        let mut policy = compose();
        policy.apply_limits(&DeclaredLimits { directories: work, ..limits() });
        assert_eq!(files(&policy), (vec![], vec!["/home/work"]));
    }

    #[test]
    fn inner_directory_of_permission_remains() {
        let mut policy = compose();
        let inner = Some(vec![PathBuf::from("/srv/in"), PathBuf::from("/elsewhere")]);
        policy.apply_limits(&DeclaredLimits { directories: inner, ..limits() });
        assert_eq!(files(&policy), (vec!["/srv/in"], vec![]));
    }
}
