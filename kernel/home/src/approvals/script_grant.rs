//! Grants of skills' scripts: the operator's decision that the scripts of one tree may be run
//! without a question each time, under one policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skillhost_payload::SkillTree;
use skillhost_policy::IsolationLevel;

use super::decision_log::{Decision, DecisionLines, VERSION};
use super::error::ApprovalsError;
use super::record::{ApprovalAction, ApprovalSurface, Approver};
use crate::home::Home;
use crate::timestamp::now_ms;

/// The file of the grants in the kernel's data directory.
const FILE: &str = "script-approvals.jsonl";

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
    /// The digests of the policies: that of scripts and that of handler programs.
    pub policies: Vec<String>,
    /// The isolation level that a run reached at that time; a lower one is not covered.
    pub level: IsolationLevel,
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
    /// Files changed since the grant; holds their paths.
    FilesChanged(Vec<String>),
    /// The policy is another one.
    PolicyChanged,
    /// The isolation is weaker than at the time of the grant.
    LevelLowered(IsolationLevel),
}

/// The grants of a home, oldest first.
#[derive(Debug, Clone)]
pub struct ScriptGrants(DecisionLines<ScriptGrant>);

impl Decision for ScriptGrant {
    fn version(&self) -> u32 {
        self.version
    }
}

impl ScriptGrant {
    /// Creates a grant for exactly these files, these policies and at least this level.
    #[must_use]
    pub fn new(
        tree: &SkillTree,
        policies: &[String],
        level: IsolationLevel,
        approver: &Approver,
    ) -> Self {
        Self {
            version: VERSION,
            skill_id: tree.skill_id.clone(),
            root: tree.root.clone(),
            action: ApprovalAction::Approve,
            digest: tree.digest.clone(),
            policies: policies.to_vec(),
            level,
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
            action: ApprovalAction::Revoke,
            approved_by: approver.by.clone(),
            surface: approver.surface,
            at_ms: now_ms(),
            ..self.clone()
        }
    }

    /// Compares the grant with a run.
    #[must_use]
    pub fn status(&self, tree: &SkillTree, policy: &str, level: IsolationLevel) -> GrantStatus {
        if self.action != ApprovalAction::Approve {
            GrantStatus::Missing
        } else if self.digest != tree.digest {
            GrantStatus::FilesChanged(self.changed_files(tree))
        } else if !self.policies.iter().any(|granted| granted == policy) {
            GrantStatus::PolicyChanged
        } else if level < self.level {
            GrantStatus::LevelLowered(self.level)
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
    /// Reads the grants of a home. A missing file has none.
    ///
    /// # Errors
    /// [`ApprovalsError`]; then no script is granted.
    pub fn load(home: &Home) -> Result<Self, ApprovalsError> {
        Ok(Self(DecisionLines::load(&home.data_dir("kernel").join(FILE))?))
    }

    /// Returns the last decision about a skill, if it is a grant.
    #[must_use]
    pub fn find(&self, skill_id: &str, root: &Path) -> Option<&ScriptGrant> {
        latest(&self.0.records, skill_id, root)
            .filter(|grant| grant.action == ApprovalAction::Approve)
    }

    /// Compares the grant of a skill with a run.
    #[must_use]
    pub fn status(&self, tree: &SkillTree, policy: &str, level: IsolationLevel) -> GrantStatus {
        let grant = self.find(&tree.skill_id, &tree.root);
        grant.map_or(GrantStatus::Missing, |grant| grant.status(tree, policy, level))
    }

    /// Appends a decision; it is on disk when this returns. One that is in force already is not
    /// appended again.
    ///
    /// # Errors
    /// [`ApprovalsError`]; the file then is unchanged.
    pub fn append(home: &Home, grant: &ScriptGrant) -> Result<(), ApprovalsError> {
        DecisionLines::append(&home.data_dir("kernel"), FILE, grant, |records| {
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
        }
    }

    #[test]
    fn grant_covers_files_policy_and_level() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sandbox")).unwrap();
        let home = Home::open(dir.path(), HomeSource::Argument).unwrap();
        let status = |tree: &SkillTree, policy: &str, level| {
            ScriptGrants::load(&home).unwrap().status(tree, policy, level)
        };
        let (approved, namespaces) = (tree("1", "aa"), IsolationLevel::Namespaces);
        assert_eq!(status(&approved, "p", namespaces), GrantStatus::Missing);
        let operator = Approver::operator(ApprovalSurface::CommandLine);
        let grant = ScriptGrant::new(&approved, &["p".into()], IsolationLevel::Landlock, &operator);
        for _ in 0..2 {
            ScriptGrants::append(&home, &grant).unwrap();
        }
        assert_eq!(ScriptGrants::load(&home).unwrap().0.records.len(), 1);
        assert_eq!(status(&approved, "p", namespaces), GrantStatus::Granted);
        assert_eq!(status(&approved, "q", namespaces), GrantStatus::PolicyChanged);
        assert_eq!(
            status(&approved, "p", IsolationLevel::None),
            GrantStatus::LevelLowered(IsolationLevel::Landlock)
        );
        let changed = tree("2", "bb");
        assert_eq!(
            status(&changed, "p", namespaces),
            GrantStatus::FilesChanged(vec!["scripts/a.py".into()])
        );
        let elsewhere = SkillTree { root: "/other/pdf".into(), ..tree("1", "aa") };
        assert_eq!(status(&elsewhere, "p", namespaces), GrantStatus::Missing);
        ScriptGrants::append(&home, &grant.revoked(&operator)).unwrap();
        assert_eq!(status(&approved, "p", namespaces), GrantStatus::Missing);
        std::fs::write(home.data_dir("kernel").join(FILE), "{}\n").unwrap();
        assert!(matches!(ScriptGrants::load(&home), Err(ApprovalsError::Damaged { .. })));
    }
}
