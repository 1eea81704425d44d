//! The settings of the registry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use skill_catalog::{SkillRoot, SkillState, StoreOptions, TrustLevel};

use crate::reviewing::ReviewConfig;

/// The `config` of the skill registry's manifest, with the overrides of `skillhost.yaml`.
///
/// The extension and the offline commands read the same settings through this one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistryConfig {
    /// The roots in order; relative paths are relative to the home.
    pub roots: Vec<SkillRoot>,
    /// Milliseconds between two polls; 0 turns polling off.
    pub poll_interval_ms: u64,
    /// The catalog's budget in characters where the model's context window is not known.
    pub l1_budget_chars: usize,
    /// Up to this many visible skills the catalog lists all of them.
    pub l1_full_limit: usize,
    /// Glob patterns of directories that are not searched.
    pub ignore: Vec<String>,
    /// The states of skills, by id or by glob over ids. An id goes before globs; of several globs
    /// the strictest counts.
    pub skills: BTreeMap<String, SkillState>,
    /// The mode of semantic search.
    pub search_embeddings: SearchEmbeddings,
    /// The settings of the review of proposals.
    pub review: ReviewConfig,
}

/// The use of an embedding model in searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchEmbeddings {
    /// Uses the extension `embedding` if it is loaded.
    Auto,
    /// None: words alone count.
    #[default]
    Off,
}

impl RegistryConfig {
    /// Converts the settings into options for a home.
    ///
    /// `share_dir` is the shared directory of an installed copy; its `skills` become the last root,
    /// labeled `shipped`, unless settings use that label themselves.
    #[must_use]
    pub fn options(&self, home: &Path, share_dir: Option<&Path>) -> StoreOptions {
        let mut roots: Vec<SkillRoot> = self.roots.clone();
        for root in &mut roots {
            root.path = home.join(&root.path);
        }
        if let Some(share) = share_dir
            && roots.iter().all(|root| root.label != "shipped")
        {
            roots.push(SkillRoot {
                label: "shipped".to_owned(),
                path: share.join("skills"),
                trust: TrustLevel::Operator,
            });
        }
        StoreOptions {
            roots,
            ignore: self.ignore.clone(),
            l1_budget_chars: self.l1_budget_chars,
            l1_full_limit: self.l1_full_limit,
            skills: self.skills.clone(),
            ..StoreOptions::default()
        }
    }

    /// Returns the state that the settings give to a skill, before the limits of its SKILL.md.
    #[must_use]
    pub fn state_of(&self, id: &str) -> SkillState {
        SkillState::from_settings(&self.skills, id)
    }

    /// Returns the catalog's budget in characters for a model.
    ///
    /// If the context window (in tokens) is known, the catalog may take 2 % of it, at four
    /// characters per token.
    #[must_use]
    pub fn budget_chars(&self, context_window: Option<u32>) -> usize {
        // 2 % of the window times four characters is eight hundredths of it.
        context_window.map_or(self.l1_budget_chars, |tokens| tokens as usize * 8 / 100)
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            roots: vec![SkillRoot {
                label: "sandbox".to_owned(),
                path: PathBuf::from("sandbox/skills"),
                trust: TrustLevel::Operator,
            }],
            poll_interval_ms: 5_000,
            l1_budget_chars: StoreOptions::DEFAULT_BUDGET_CHARS,
            l1_full_limit: StoreOptions::DEFAULT_FULL_LIMIT,
            ignore: Vec::new(),
            skills: BTreeMap::new(),
            search_embeddings: SearchEmbeddings::default(),
            review: ReviewConfig::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_strictly() {
        let read = |json| serde_json::from_str::<RegistryConfig>(json);
        assert_eq!(read("{}").unwrap(), RegistryConfig::default());
        let config = read(r#"{"roots":[{"label":"team","path":"skills"}],"poll_interval_ms":0}"#);
        let expected = RegistryConfig {
            roots: vec![SkillRoot {
                label: "team".into(),
                path: "skills".into(),
                trust: TrustLevel::Untrusted,
            }],
            poll_interval_ms: 0,
            ..RegistryConfig::default()
        };
        assert_eq!(config.unwrap(), expected);
        let error = read(r#"{"poll_interval":5}"#).unwrap_err().to_string();
        assert!(error.starts_with("unknown field `poll_interval`"), "{error}");
    }

    #[test]
    fn roots_resolve_shipped_last() {
        let mut config = RegistryConfig::default();
        config.roots.push(SkillRoot {
            label: "abs".into(),
            path: "/srv/skills".into(),
            trust: TrustLevel::Untrusted,
        });
        let paths = |share: Option<&str>| -> Vec<(String, PathBuf)> {
            let options = config.options(Path::new("/home/x"), share.map(Path::new));
            options.roots.into_iter().map(|root| (root.label, root.path)).collect()
        };
        let own = vec![
            ("sandbox".to_owned(), PathBuf::from("/home/x/sandbox/skills")),
            ("abs".to_owned(), PathBuf::from("/srv/skills")),
        ];
        assert_eq!(paths(None), own);
        let mut shared = own;
        shared.push(("shipped".to_owned(), PathBuf::from("/usr/share/skillhost/skills")));
        assert_eq!(paths(Some("/usr/share/skillhost")), shared);
    }

    #[test]
    fn context_window_sets_budget() {
        let config = RegistryConfig { l1_budget_chars: 5_000, ..RegistryConfig::default() };
        assert_eq!(config.budget_chars(None), 5_000);
        assert_eq!(config.budget_chars(Some(200_000)), 16_000);
        assert_eq!(config.budget_chars(Some(u32::MAX)), 343_597_383);
    }
}
