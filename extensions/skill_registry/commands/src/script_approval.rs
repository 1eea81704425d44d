//! The state of the approval of a skill's scripts.

use serde_json::{Value, json};
use skill_catalog::{Audience, Snapshot, Store};
use skill_format::TOOL_JSON;
use skill_service::skill_tree;
use skillhost_home::ScriptGrants;
use skillhost_payload::SkillTree;
use skillhost_terminal::CliContext;

/// The approval of a skill's scripts, for `skill show`.
pub(super) struct ScriptApproval {
    digest: String,
    state: &'static str,
}

impl ScriptApproval {
    /// Compares the files of a skill with the grant of the home; `None` for a skill without scripts
    /// and for one whose files cannot be read.
    pub(super) fn read(
        session: &CliContext,
        (store, snapshot): (&Store, &Snapshot),
        id: &str,
    ) -> Option<Self> {
        let tree = skill_tree(store, snapshot, Audience::Operator, Some(id)).ok()?;
        has_scripts(&tree).then_some(())?;
        let home = session.home().ok();
        let grants = home.and_then(|home| ScriptGrants::load(&home).ok());
        let grant = grants.as_ref().and_then(|grants| grants.find(&tree.skill_id, &tree.root));
        let state = match grant {
            None => "not approved",
            // Policy and level are compared at each run.
            Some(grant) if grant.digest == tree.digest => "approved",
            Some(_) => "changed since approval",
        };
        Some(Self { digest: tree.digest, state })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "state": self.state, "digest": self.digest })
    }

    pub(super) fn to_line(&self) -> String {
        format!("{}, digest of all files {}", self.state, self.digest)
    }
}

/// Returns whether a skill has files that a grant lets agents run: scripts or programs.
fn has_scripts(tree: &SkillTree) -> bool {
    // A `tool.json` may name files of any directory as programs.
    let is_program = |path: &str| {
        path == TOOL_JSON
            || !path.contains('/')
                && [".js", ".mjs", ".cjs", ".py"].iter().any(|extension| path.ends_with(extension))
    };
    tree.files
        .iter()
        .any(|file| file.executable || file.path.starts_with("scripts/") || is_program(&file.path))
}
