//! Grants of skills' code: the operator's decision that the scripts and handler programs of one tree
//! may be run without a question each time, each use under its own policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skillhost_payload::SkillTree;
use skillhost_policy::{GrantedPolicy, IsolationLevel, PolicyChange, PolicyUse};

use super::decision_log::{Decision, DecisionLines};
use super::error::{ApprovalsError, SCRIPT_GRANTS};
use super::record::{ApprovalAction, ApprovalSurface, Approver};
use crate::home::Home;
use crate::timestamp::now_ms;

/// The version of the records. Those of version 1 did not separate scripts from handler programs, so
/// they cover neither.
const VERSION: u32 = 2;

/// The changed files that a reason names.
const MAX_NAMED: usize = 5;

/// One decision about the scripts of a skill. The last one of a skill and root is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptGrant {
    /// The version of this format.
    pub version: u32,
    /// The id of the skill.
    pub skill_id: String,
    /// The directory of the skill.
    pub root: PathBuf,
    /// The decision.
    pub action: ApprovalAction,
    /// The digest of the tree, with its prefix.
    pub digest: String,
    /// The policy of scripts. A record of version 1 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_policy: Option<GrantedPolicy>,
    /// The policy of handler programs. A record of version 1 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_policy: Option<GrantedPolicy>,
    /// The files of the tree, so that a later change can be named.
    pub files: Vec<GrantedFile>,
    /// The name of the approver.
    pub approved_by: String,
    /// The interface of the decision.
    pub surface: ApprovalSurface,
    /// The time of the decision, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A file of a granted tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedFile {
    /// The path within the skill.
    pub path: String,
    /// The SHA-256 of its content, hexadecimal.
    pub sha256: String,
    /// The file is executable.
    #[serde(default)]
    pub executable: bool,
}

/// The relation of a run to the grant of its skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantStatus {
    /// The grant covers the run.
    Granted,
    /// No grant is in force.
    Missing,
    /// The grant is a record of an earlier version, which did not separate the uses.
    Outdated,
    /// Files changed since the grant; holds their paths.
    FilesChanged(Vec<String>),
    /// The policy is another one; holds the differences.
    PolicyChanged(Vec<PolicyChange>),
    /// The isolation is weaker than at the time of the grant.
    LevelLowered(IsolationLevel),
}

/// The grants of a home, oldest first.
#[derive(Debug, Clone)]
pub struct ScriptGrants(DecisionLines<ScriptGrant>);

impl Decision for ScriptGrant {
    const NEWEST: u32 = VERSION;

    fn version(&self) -> u32 {
        self.version
    }
}

impl ScriptGrant {
    /// Creates a grant for exactly these files: scripts under one policy and handler programs under
    /// another, each at least at its level.
    #[must_use]
    pub fn new(
        tree: &SkillTree,
        script_policy: GrantedPolicy,
        handler_policy: GrantedPolicy,
        approver: &Approver,
    ) -> Self {
        Self {
            version: VERSION,
            skill_id: tree.skill_id.clone(),
            root: tree.root.clone(),
            action: ApprovalAction::Approve,
            digest: tree.digest.clone(),
            script_policy: Some(script_policy),
            handler_policy: Some(handler_policy),
            files: tree.files.iter().map(GrantedFile::of_tree_file).collect(),
            approved_by: approver.by.clone(),
            surface: approver.surface,
            at_ms: now_ms(),
        }
    }

    /// Returns the record that revokes this grant.
    #[must_use]
    pub fn revoked(&self, approver: &Approver) -> Self {
        Self {
            version: VERSION,
            action: ApprovalAction::Revoke,
            approved_by: approver.by.clone(),
            surface: approver.surface,
            at_ms: now_ms(),
            ..self.clone()
        }
    }

    /// Returns the policy of a use that was granted.
    #[must_use]
    pub fn policy(&self, policy_use: PolicyUse) -> Option<&GrantedPolicy> {
        match policy_use {
            PolicyUse::Script => self.script_policy.as_ref(),
            PolicyUse::Handler => self.handler_policy.as_ref(),
            // No code of a skill.
            PolicyUse::Process | PolicyUse::Build | PolicyUse::Command => None,
        }
    }

    /// Compares the grant with a run. A use is covered under its own policy only.
    #[must_use]
    pub fn status(
        &self,
        tree: &SkillTree,
        policy_use: PolicyUse,
        now: &GrantedPolicy,
    ) -> GrantStatus {
        if self.action != ApprovalAction::Approve {
            return GrantStatus::Missing;
        }
        let Some(granted) = self.policy(policy_use) else { return GrantStatus::Outdated };
        if self.digest != tree.digest {
            GrantStatus::FilesChanged(self.changed_files(tree))
        } else if granted.digest != now.digest {
            GrantStatus::PolicyChanged(granted.changes_to(now))
        } else if now.level < granted.level {
            GrantStatus::LevelLowered(granted.level)
        } else {
            GrantStatus::Granted
        }
    }

    /// Returns the paths of files that are new, changed or removed; at most five.
    fn changed_files(&self, tree: &SkillTree) -> Vec<String> {
        let now: Vec<_> = tree.files.iter().map(GrantedFile::of_tree_file).collect();
        let changed = now.iter().filter(|file| !self.files.contains(file));
        let is_there = |path: &str| now.iter().any(|file| file.path == path);
        let removed = self.files.iter().filter(|file| !is_there(&file.path));
        changed.chain(removed).map(|file| file.path.clone()).take(MAX_NAMED).collect()
    }
}

impl GrantedFile {
    fn of_tree_file(file: &skillhost_payload::SkillTreeFile) -> Self {
        let (path, sha256) = (file.path.clone(), file.sha256.clone());
        Self { path, sha256, executable: file.executable }
    }
}

impl ScriptGrants {
    /// The name of the file with the grants in the kernel's data directory.
    pub const FILE_NAME: &str = SCRIPT_GRANTS;
    /// Reads the grants of a home. A missing file has none.
    ///
    /// # Errors
    /// [`ApprovalsError`]; then no script is granted.
    pub fn load(home: &Home) -> Result<Self, ApprovalsError> {
        Ok(Self(DecisionLines::load(&home.data_dir("kernel").join(SCRIPT_GRANTS))?))
    }

    /// Returns the last decision about a skill, if it is a grant.
    #[must_use]
    pub fn find(&self, skill_id: &str, root: &Path) -> Option<&ScriptGrant> {
        latest(&self.0.records, skill_id, root)
            .filter(|grant| grant.action == ApprovalAction::Approve)
    }

    /// Returns whether a grant, in force or not, was for these files of a skill of this id, in any
    /// root. Without one, no run of them is granted.
    #[must_use]
    pub fn were_for(&self, skill_id: &str, digest: &str) -> bool {
        self.0.records.iter().any(|grant| {
            grant.skill_id == skill_id
                && grant.digest == digest
                && grant.action == ApprovalAction::Approve
        })
    }

    /// Compares the grant of a skill with a run.
    #[must_use]
    pub fn status(
        &self,
        tree: &SkillTree,
        policy_use: PolicyUse,
        now: &GrantedPolicy,
    ) -> GrantStatus {
        let grant = self.find(&tree.skill_id, &tree.root);
        grant.map_or(GrantStatus::Missing, |grant| grant.status(tree, policy_use, now))
    }

    /// Appends a decision; it is on disk when this returns. One that is in force already is not
    /// appended again.
    ///
    /// # Errors
    /// [`ApprovalsError`]; the file then is unchanged.
    pub fn append(home: &Home, grant: &ScriptGrant) -> Result<(), ApprovalsError> {
        DecisionLines::append(&home.data_dir("kernel"), SCRIPT_GRANTS, grant, |records| {
            let same =
                |last: &ScriptGrant| *last == ScriptGrant { at_ms: last.at_ms, ..grant.clone() };
            latest(records, &grant.skill_id, &grant.root).is_some_and(same)
        })
    }
}

fn latest<'a>(records: &'a [ScriptGrant], skill_id: &str, root: &Path) -> Option<&'a ScriptGrant> {
    records.iter().rev().find(|grant| grant.skill_id == skill_id && grant.root == root)
}

#[cfg(test)]
mod tests {
    use skillhost_payload::SkillTreeFile;

    use super::*;
    use crate::home::HomeSource;

    fn tree(digest: &str, script: &str) -> SkillTree {
        let file = |path: &str, sha256: &str| SkillTreeFile {
            path: path.into(),
            bytes: 1,
            sha256: sha256.into(),
            executable: false,
        };
        SkillTree {
            skill_id: "pdf".into(),
            name: "pdf".into(),
            description: "Fills forms.".into(),
            source: "skills".into(),
            root: "/skills/pdf".into(),
            is_operator_root: true,
            digest: digest.into(),
            files: vec![file("SKILL.md", "00"), file("scripts/a.py", script)],
            allowed_tools: None,
            sandbox: None,
            security: None,
        }
    }

    fn policy(statements: &[&str], level: IsolationLevel) -> GrantedPolicy {
        let statements: Vec<_> = statements.iter().map(|it| (*it).to_owned()).collect();
        GrantedPolicy { digest: statements.join("\n"), statements, level }
    }

    fn create_home(dir: &Path) -> Home {
        std::fs::create_dir(dir.join("sandbox")).unwrap();
        Home::open(dir, HomeSource::Argument).unwrap()
    }

    #[test]
    fn grant_covers_files_policy_and_level() {
        let dir = tempfile::tempdir().unwrap();
        let home = create_home(dir.path());
        let status = |tree: &SkillTree, seconds: &str, level| {
            let now = policy(&[seconds], level);
            ScriptGrants::load(&home).unwrap().status(tree, PolicyUse::Script, &now)
        };
        let (approved, namespaces) = (tree("1", "aa"), IsolationLevel::Namespaces);
        assert_eq!(status(&approved, "seconds=30", namespaces), GrantStatus::Missing);
        let operator = Approver::operator(ApprovalSurface::CommandLine);
        let granted = policy(&["seconds=30"], IsolationLevel::Landlock);
        let grant = ScriptGrant::new(&approved, granted.clone(), granted, &operator);
        for _ in 0..2 {
            ScriptGrants::append(&home, &grant).unwrap();
        }
        assert_eq!(ScriptGrants::load(&home).unwrap().0.records.len(), 1);
        assert_eq!(status(&approved, "seconds=30", namespaces), GrantStatus::Granted);
        let GrantStatus::PolicyChanged(changes) = status(&approved, "seconds=20", namespaces)
        else {
            panic!("another policy is covered");
        };
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].to_string(), "seconds 30 → 20");
        assert_eq!(
            status(&approved, "seconds=30", IsolationLevel::None),
            GrantStatus::LevelLowered(IsolationLevel::Landlock)
        );
        let changed = tree("2", "bb");
        assert_eq!(
            status(&changed, "seconds=30", namespaces),
            GrantStatus::FilesChanged(vec!["scripts/a.py".into()])
        );
        let elsewhere = SkillTree { root: "/other/pdf".into(), ..tree("1", "aa") };
        assert_eq!(status(&elsewhere, "seconds=30", namespaces), GrantStatus::Missing);
        ScriptGrants::append(&home, &grant.revoked(&operator)).unwrap();
        assert_eq!(status(&approved, "seconds=30", namespaces), GrantStatus::Missing);
        std::fs::write(home.data_dir("kernel").join(SCRIPT_GRANTS), "{}\n").unwrap();
        let error = ScriptGrants::load(&home).unwrap_err();
        assert!(matches!(error, ApprovalsError::Damaged { .. }), "{error}");
        assert!(error.hint().ends_with("skillhost skill approve-scripts ID"), "{}", error.hint());
    }

    #[test]
    fn policy_and_level_of_one_use_do_not_cover_another() {
        let tree = tree("1", "aa");
        let operator = Approver::operator(ApprovalSurface::CommandLine);
        let closed = policy(&["seconds=30"], IsolationLevel::Namespaces);
        let open = policy(&["allowedDomains=evil.org", "seconds=30"], IsolationLevel::Landlock);
        let grant = ScriptGrant::new(&tree, closed.clone(), open.clone(), &operator);
        let status = |policy_use, now: &GrantedPolicy| grant.status(&tree, policy_use, now);
        assert_eq!(status(PolicyUse::Script, &closed), GrantStatus::Granted);
        assert_eq!(status(PolicyUse::Handler, &open), GrantStatus::Granted);
        for (policy_use, now, change) in [
            (PolicyUse::Script, &open, "allowedDomains evil.org added"),
            (PolicyUse::Handler, &closed, "allowedDomains evil.org removed"),
        ] {
            let GrantStatus::PolicyChanged(changes) = status(policy_use, now) else {
                panic!("{policy_use:?} is covered");
            };
            assert_eq!(changes.iter().map(ToString::to_string).collect::<Vec<_>>(), [change]);
        }
        let lower = GrantedPolicy { level: IsolationLevel::Landlock, ..closed };
        assert_eq!(
            status(PolicyUse::Script, &lower),
            GrantStatus::LevelLowered(IsolationLevel::Namespaces)
        );
    }

    #[test]
    fn record_of_first_version_covers_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let home = create_home(dir.path());
        let line = r#"{"version":1,"skill_id":"pdf","root":"/skills/pdf","action":"approve","digest":"1","policies":["p","q"],"level":"landlock","files":[],"approved_by":"operator","surface":"command_line","at_ms":1}"#;
        std::fs::create_dir_all(home.data_dir("kernel")).unwrap();
        std::fs::write(home.data_dir("kernel").join(SCRIPT_GRANTS), format!("{line}\n")).unwrap();
        let grants = ScriptGrants::load(&home).unwrap();
        let now = GrantedPolicy { digest: "p".into(), ..policy(&[], IsolationLevel::Namespaces) };
        let approved = tree("1", "aa");
        for policy_use in [PolicyUse::Script, PolicyUse::Handler] {
            assert_eq!(grants.status(&approved, policy_use, &now), GrantStatus::Outdated);
        }
        let operator = Approver::operator(ApprovalSurface::CommandLine);
        let revoked = grants.find("pdf", &approved.root).unwrap().revoked(&operator);
        ScriptGrants::append(&home, &revoked).unwrap();
        let grants = ScriptGrants::load(&home).unwrap();
        assert_eq!(grants.status(&approved, PolicyUse::Script, &now), GrantStatus::Missing);
    }
}
