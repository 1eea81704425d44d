//! The security manifest.

use serde::Serialize;
use skill_format::Value;

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

/// Declares what a skill asks to be allowed (SkillsCraft specification reference).
///
/// It is a declaration: nothing is granted by it.
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
    /// How far it reaches into the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system_scope: Option<FileSystemScope>,
}

/// One thing a skill asks to be allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CapabilityDeclaration {
    /// Its name, such as `file:read` or `shell:execute`. Required.
    pub capability: String,
    /// What for. Required.
    pub reason: String,
    /// Whether the skill works without it; false unless it says so.
    pub optional: bool,
}

/// How far a skill reaches into the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystemScope {
    /// Its own directory.
    SkillDirectory,
    /// The workspace it is used in.
    Workspace,
    /// All of it.
    System,
}

impl FileSystemScope {
    /// Returns the word as it is written.
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
    let record = reader.record(RULES.name.to_owned(), value, FIELDS)?;
    let mut capabilities = Vec::new();
    for (index, item) in reader.list(&record, "capabilities", true).iter().enumerate() {
        let name = format!("{}.capabilities[{index}]", record.name);
        let Some(item) = reader.record(name, item, &["capability", "reason", "optional"]) else {
            continue;
        };
        let capability = reader.required_text(&item, "capability");
        let reason = reader.required_text(&item, "reason").unwrap_or_default();
        let optional = reader.boolean(&item, "optional").unwrap_or(false);
        if let Some(capability) = capability {
            capabilities.push(CapabilityDeclaration { capability, reason, optional });
        }
    }
    Some(SecurityManifest {
        capabilities,
        requires_network: reader.boolean(&record, "requiresNetwork"),
        modifies_files: reader.boolean(&record, "modifiesFiles"),
        executes_commands: reader.boolean(&record, "executesCommands"),
        file_system_scope: reader.keyword(
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
