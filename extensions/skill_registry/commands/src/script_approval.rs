//! The state of the approval of a skill's scripts and programs.

use serde_json::{Value, json};
use skill_catalog::{Audience, Snapshot, Store};
use skill_service::skill_tree;
use skillhost_home::{GrantStatus, Home, ScriptGrants};
use skillhost_payload::SkillTree;
use skillhost_policy::PolicyUse;
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{GrantTerms, describe_changes, has_code, printable_line};
use skillhost_terminal::{CliContext, CliError};

use super::operator_policy::{operator_policy, refusal};
use super::programs;

/// The approval of a skill's code as it counts for runs now, for `skill show`.
pub(super) struct ScriptApproval {
    digest: String,
    scripts: String,
    /// `None` for a skill without programs.
    programs: Option<String>,
}

impl ScriptApproval {
    /// Compares the files, the policies and the isolation of a skill with the grant of the home; `None`
    /// for a skill without code and for one whose files cannot be read.
    pub(super) fn read(
        session: &CliContext,
        (store, snapshot): (&Store, &Snapshot),
        id: &str,
    ) -> Option<Self> {
        let tree = skill_tree(store, snapshot, Audience::Operator, Some(id)).ok()?;
        let home = session.home().ok();
        let operator = operator_policy(home.as_ref()).unwrap_or_default();
        has_code(&tree, &operator).then_some(())?;
        let skill = snapshot.get(id);
        let has_programs =
            skill.is_some_and(|skill| !programs::find_programs(skill).programs.is_empty());
        let (scripts, programs) = match home.map(|home| compare(&home, &tree)) {
            None => (describe(&GrantStatus::Missing), describe(&GrantStatus::Missing)),
            Some(Ok([scripts, programs])) => (describe(&scripts), describe(&programs)),
            // Without isolation, for example, no approval has an effect.
            Some(Err(error)) => {
                let text = format!("not in force: {}", error.message());
                (text.clone(), text)
            }
        };
        Some(Self { digest: tree.digest, scripts, programs: has_programs.then_some(programs) })
    }

    pub(super) fn to_json(&self) -> Value {
        let mut object = json!({ "state": self.scripts, "digest": self.digest });
        if let Some(programs) = &self.programs {
            object["program_state"] = json!(programs);
        }
        object
    }

    /// Returns labels and texts; the texts are not sanitized.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("scripts", self.scripts.clone())];
        lines.extend(self.programs.clone().map(|programs| ("programs", programs)));
        lines.push(("files digest", self.digest.clone()));
        lines
    }
}

/// Returns the state of scripts and that of programs.
fn compare(home: &Home, tree: &SkillTree) -> Result<[GrantStatus; 2], CliError> {
    let grants = ScriptGrants::load(home)?;
    if grants.find(&tree.skill_id, &tree.root).is_none() {
        // Most skills; nothing has to be determined for them.
        return Ok([GrantStatus::Missing, GrantStatus::Missing]);
    }
    let operator = operator_policy(Some(home))?;
    let terms = GrantTerms::determine(&operator, &SandboxLauncher::default(), tree);
    let terms = terms.map_err(refusal)?;
    let status = |policy_use, terms: &skillhost_scripts::UseTerms| {
        grants.status(tree, policy_use, &terms.to_granted())
    };
    Ok([status(PolicyUse::Script, &terms.scripts), status(PolicyUse::Handler, &terms.handlers)])
}

fn describe(status: &GrantStatus) -> String {
    match status {
        GrantStatus::Granted => "approved".to_owned(),
        GrantStatus::Missing => "not approved".to_owned(),
        GrantStatus::Outdated => {
            "not approved: the approval is of an earlier version, which did not separate scripts from \
             programs"
                .to_owned()
        }
        GrantStatus::FilesChanged(paths) => {
            format!("files changed: {}", printable_line(&paths.join(", ")))
        }
        GrantStatus::PolicyChanged(changes) => {
            format!("policy changed: {}", describe_changes(changes))
        }
        GrantStatus::LevelLowered(level) => format!("isolation weaker than {}", level.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_policy::{IsolationLevel, PolicyChange};

    #[test]
    fn each_state_has_its_text() {
        let change = PolicyChange {
            key: "seconds".into(),
            before: Some("30".into()),
            after: Some("20".into()),
        };
        for (status, text) in [
            (GrantStatus::Granted, "approved"),
            (GrantStatus::Missing, "not approved"),
            (GrantStatus::FilesChanged(vec!["a\nb".into()]), "files changed: a\\u{a}b"),
            (GrantStatus::PolicyChanged(vec![change]), "policy changed: seconds 30 → 20"),
            (
                GrantStatus::LevelLowered(IsolationLevel::Namespaces),
                "isolation weaker than namespaces",
            ),
        ] {
            assert_eq!(describe(&status), text);
        }
        assert!(describe(&GrantStatus::Outdated).starts_with("not approved: "));
    }
}
