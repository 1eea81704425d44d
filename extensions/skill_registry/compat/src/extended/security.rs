//! Parsing of the security manifest.

use std::collections::BTreeSet;

use serde::Serialize;
use yaml_tree::Value;

use super::reader::{RecordReader, SectionRules};

pub(super) static RULES: SectionRules = SectionRules {
    name: "security",
    kind: "security.type",
    required: "security.required",
    value: "security.value",
    unknown: "security.unknownField",
};

pub(super) const FIELDS: &[&str] =
    &["capabilities", "requiresNetwork", "modifiesFiles", "executesCommands", "fileSystemScope"];

/// The permissions that a skill requests (SkillsCraft specification reference).
///
/// The manifest is a declaration and grants no permission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityManifest {
    /// The capabilities, in the order written. Required.
    pub capabilities: Vec<CapabilityDeclaration>,
    /// Whether it needs the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_network: Option<bool>,
    /// Whether it changes files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modifies_files: Option<bool>,
    /// Whether it runs commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executes_commands: Option<bool>,
    /// The part of the file system that it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system_scope: Option<FileSystemScope>,
}

impl SecurityManifest {
    /// Returns the capabilities that the manifest declares and does not deny elsewhere, sorted.
    ///
    /// Of a manifest that contradicts itself the narrower statement counts: with `modifiesFiles:
    /// false`, `file:write` is not declared. Names are compared literally: a pattern names itself.
    #[must_use]
    pub fn effective_capabilities(&self) -> Vec<String> {
        let is_denied = |capability: &str| {
            let is = |prefix: &str| capability.starts_with(prefix);
            self.modifies_files == Some(false) && is("file:") && capability != "file:read"
                || self.requires_network == Some(false) && is("network:")
                || self.executes_commands == Some(false) && is("shell:")
        };
        let declared = self.capabilities.iter().map(|it| it.capability.as_str());
        let declared: BTreeSet<_> = declared.filter(|capability| !is_denied(capability)).collect();
        declared.into_iter().map(str::to_owned).collect()
    }
}

/// A capability that a skill requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CapabilityDeclaration {
    /// Its name, such as `file:read` or `shell:execute`. Required.
    pub capability: String,
    /// The reason. Required.
    pub reason: String,
    /// Whether the skill works without it; `false` by default.
    pub optional: bool,
}

/// The part of the file system that a skill uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystemScope {
    /// The skill's own directory.
    SkillDirectory,
    /// The workspace of the agent.
    Workspace,
    /// All of the file system.
    System,
}

impl FileSystemScope {
    /// Returns the word used in the manifest.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SkillDirectory => "skill-directory",
            Self::Workspace => "workspace",
            Self::System => "system",
        }
    }
}

pub(super) fn read_security(
    reader: &mut RecordReader<'_>,
    value: &Value,
) -> Option<SecurityManifest> {
    let record = reader.read_record(RULES.name.to_owned(), value, FIELDS)?;
    let mut capabilities = Vec::new();
    for (index, item) in reader.read_list(&record, "capabilities", true).iter().enumerate() {
        let name = format!("{}.capabilities[{index}]", record.name);
        let Some(item) = reader.read_record(name, item, &["capability", "reason", "optional"])
        else {
            continue;
        };
        let capability = reader.required_text(&item, "capability");
        let reason = reader.required_text(&item, "reason").unwrap_or_default();
        let optional = reader.read_boolean(&item, "optional").unwrap_or(false);
        // A missing name has been reported; an entry without one cannot be matched.
        if let Some(capability) = capability {
            capabilities.push(CapabilityDeclaration { capability, reason, optional });
        }
    }
    Some(SecurityManifest {
        capabilities,
        requires_network: reader.read_boolean(&record, "requiresNetwork"),
        modifies_files: reader.read_boolean(&record, "modifiesFiles"),
        executes_commands: reader.read_boolean(&record, "executesCommands"),
        file_system_scope: reader.read_keyword(
            &record,
            "fileSystemScope",
            &[
                ("skill-directory", FileSystemScope::SkillDirectory),
                ("workspace", FileSystemScope::Workspace),
                ("system", FileSystemScope::System),
            ],
        ),
    })
}
