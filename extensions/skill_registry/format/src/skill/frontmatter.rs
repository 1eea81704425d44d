//! The fields of a frontmatter.

use yaml_tree::Value;

/// The tools in a skill's `allowed-tools` field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedTools {
    /// The field is absent or empty: the skill neither grants nor restricts tools.
    #[default]
    Absent,
    /// The tools in the order written, with patterns such as `Bash(git:*)`.
    List(Vec<String>),
    /// The field is present but not valid: it grants no tool, and as a restriction it allows none.
    Unparsable,
}

/// The metadata of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontmatter {
    /// The `name` as written; the directory's name is the id.
    pub name: Option<String>,
    /// The purpose of the skill and its triggers; never blank.
    pub description: String,
    /// The license.
    pub license: Option<String>,
    /// The requirements of the skill.
    pub compatibility: Option<String>,
    /// The tools in `allowed-tools`.
    pub allowed_tools: AllowedTools,
    /// The `metadata` map in order, values as written in the file.
    pub metadata: Vec<(String, String)>,
    /// Tags, from the top level or from `metadata`.
    pub tags: Vec<String>,
    /// Ids of skills to load first, from the top level or from `metadata`.
    pub requires: Vec<String>,
    /// Further triggers of the skill; searched together with the description.
    pub when_to_use: Option<String>,
    /// `true` if the skill is for users only and not offered to models.
    pub disable_model_invocation: bool,
    /// `true` if users get a slash command or a prompt for it, which is the default.
    pub user_invocable: bool,
    /// A hint about the arguments of its slash command.
    pub argument_hint: Option<String>,
    /// The `arguments` as written; hosts do not agree on their shape.
    pub arguments: Option<Value>,
    /// The `version` at the top level as written.
    pub version: Option<String>,
    /// Every other field, as written.
    pub unknown: Vec<(String, Value)>,
}
