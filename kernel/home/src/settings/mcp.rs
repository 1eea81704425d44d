//! The settings of the MCP server's clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_payload::CatalogScope;

/// Visible skills and permissions of clients of the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpSettings {
    /// The skills that clients see.
    pub catalog: McpCatalog,
    /// Permission to review proposals through the client's user.
    pub review: McpReviewMode,
    /// Permission to approve calls through the client's user.
    pub consent: McpReviewMode,
}

/// The skills that clients of the MCP server see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected `all`, `none` or a mapping with `include` and `exclude`")]
pub enum McpCatalog {
    /// All of them, or none.
    Word(McpCatalogKeyword),
    /// Those that match `include` and do not match `exclude`.
    Globs(McpCatalogGlobs),
}

/// All skills or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpCatalogKeyword {
    /// Every skill.
    All,
    /// No skill.
    None,
}

/// Globs over the ids of skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpCatalogGlobs {
    /// The visible skills; by default all, with `[]` none.
    #[serde(default = "match_all")]
    pub include: Vec<String>,
    /// The skills that are excluded although they match `include`.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// A person who decides through the MCP server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpReviewMode {
    /// The operator alone.
    #[default]
    Off,
    /// The user of the client as well, who receives a question. The reply is only as trustworthy as the
    /// client.
    Elicitation,
}

fn match_all() -> Vec<String> {
    vec!["*".to_owned()]
}

impl Default for McpCatalog {
    fn default() -> Self {
        Self::Word(McpCatalogKeyword::All)
    }
}

impl McpCatalog {
    /// Returns the scope of every call of a client.
    #[must_use]
    pub fn scope(&self) -> CatalogScope {
        match self {
            Self::Word(McpCatalogKeyword::All) => CatalogScope::All,
            Self::Word(McpCatalogKeyword::None) => CatalogScope::None,
            // An empty `include` means all in a scope, and none in the settings.
            Self::Globs(globs) if globs.include.is_empty() => CatalogScope::None,
            Self::Globs(globs) => CatalogScope::Globs {
                include: globs.include.clone(),
                exclude: globs.exclude.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<McpSettings, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    fn globs(include: &[&str], exclude: &[&str]) -> CatalogScope {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        CatalogScope::Globs { include: owned(include), exclude: owned(exclude) }
    }

    #[test]
    fn catalog_sets_scope_of_calls() {
        let scope = |text| read(text).unwrap().catalog.scope();
        assert_eq!(scope("{}"), CatalogScope::All);
        assert_eq!(scope("catalog: all"), CatalogScope::All);
        assert_eq!(scope("catalog: none"), CatalogScope::None);
        assert_eq!(scope("catalog: {exclude: [x-*]}"), globs(&["*"], &["x-*"]));
        assert_eq!(scope("catalog: {include: [a]}"), globs(&["a"], &[]));
        assert_eq!(scope("catalog: {include: []}"), CatalogScope::None);
    }

    #[test]
    fn decisions_are_off_by_default() {
        assert_eq!(read("{}").unwrap().review, McpReviewMode::Off);
        assert_eq!(read("review: off").unwrap().review, McpReviewMode::Off);
        assert_eq!(read("review: elicitation").unwrap().review, McpReviewMode::Elicitation);
        let consent = read("consent: elicitation").unwrap();
        assert_eq!(
            (consent.consent, consent.review),
            (McpReviewMode::Elicitation, McpReviewMode::Off)
        );
    }

    #[test]
    fn invalid_entries_are_rejected() {
        for text in ["catalog: some", "catalog: {inclued: []}", "review: on", "port: 1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
