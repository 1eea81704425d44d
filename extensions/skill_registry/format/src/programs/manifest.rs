//! The text of a `tool.json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use yaml_tree::Span;

use super::{TOOL_JSON_LIMIT, excerpt};
use crate::diagnostic::Diagnostic;
use crate::json_error::JsonParseError;

/// The kind of tools that a `tool.json` declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolKind {
    /// The programs of a skill.
    #[default]
    Skill,
    /// A LangChain tool per file.
    Langchain,
}

/// A file that a `tool.json` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeclaredProgram {
    /// The key; `None` for the name of the file.
    pub(super) key: Option<String>,
    /// The path as written.
    pub(super) path: String,
    /// The position of the path.
    pub(super) at: Span,
}

/// A valid `tool.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolManifest {
    /// The kind.
    pub kind: ToolKind,
    /// The name, for people: a tool is called by the id of its skill.
    pub name: Option<String>,
    /// The version, for people.
    pub version: Option<String>,
    /// The description of the tools.
    pub description: Option<String>,
    /// The tags.
    pub tags: Vec<String>,
    /// The capabilities that the tools need, for people.
    pub capabilities: Vec<String>,
    /// The costs of a call, for people.
    pub cost_hints: Option<Value>,
    /// The JSON Schema of the arguments.
    pub input_schema: Option<Value>,
    /// The JSON Schema of the results.
    pub output_schema: Option<Value>,
    /// Whether the tools are offered.
    pub enabled: bool,
    pub(super) entry_point: Option<DeclaredProgram>,
    pub(super) programs: Vec<DeclaredProgram>,
}

/// The result of reading a `tool.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedToolManifest {
    /// The declarations, or `None` if they cannot be used.
    pub manifest: Option<ToolManifest>,
    /// The findings, by position.
    pub findings: Vec<Diagnostic>,
}

/// The fields of an object in their order, with their texts.
struct ObjectFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectFields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(FieldsVisitor).map(Self)
    }
}

/// A reader of one text.
struct ManifestReader<'a> {
    text: &'a str,
    findings: Vec<Diagnostic>,
    failed: bool,
}

impl ParsedToolManifest {
    /// Reads the text of a `tool.json` of a skill.
    #[must_use]
    pub fn parse(text: &str, skill_id: &str) -> Self {
        let mut reader = ManifestReader { text, findings: Vec::new(), failed: false };
        let manifest = reader.read(skill_id).filter(|_| !reader.failed);
        let mut findings = reader.findings;
        findings.sort_by_key(|found| (found.line, found.column));
        Self { manifest, findings }
    }

    /// Returns whether a text declares a skill, valid or not.
    #[must_use]
    pub fn declares_skill(text: &str) -> bool {
        let Ok(ObjectFields(fields)) = serde_json::from_str(text) else { return false };
        let kind = fields.iter().find(|(name, _)| name == "kind");
        kind.is_some_and(|(_, raw)| {
            serde_json::from_str::<String>(raw.get()).is_ok_and(|kind| kind == "skill")
        })
    }
}

impl<'a> ManifestReader<'a> {
    fn read(&mut self, skill_id: &str) -> Option<ToolManifest> {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(self.text);
        // Checked before parsing, whose cost grows with the text.
        if text.len() > TOOL_JSON_LIMIT {
            self.fail(None, format!("it has more than {TOOL_JSON_LIMIT} bytes"), "shorten it");
            return None;
        }
        let ObjectFields(fields) = match serde_json::from_str(text) {
            Ok(fields) => fields,
            Err(error) => {
                let JsonParseError { span, reason } = JsonParseError::new(text, &error);
                let help = "write one JSON object, without comments and trailing commas";
                self.fail_at(span, format!("it is not valid JSON: {reason}"), help);
                return None;
            }
        };
        let mut manifest = ToolManifest { enabled: true, ..ToolManifest::default() };
        let mut seen: Vec<&str> = Vec::new();
        let mut has_kind = false;
        for (name, raw) in &fields {
            // Parsers disagree about which of two fields counts.
            if seen.contains(&&**name) {
                self.fail(Some(raw), format!("`{}` is repeated", excerpt(name)), "remove one");
                continue;
            }
            seen.push(name);
            match &**name {
                "kind" => {
                    has_kind = true;
                    self.read_kind(raw, &mut manifest);
                }
                "name" => {
                    manifest.name = self.text_of(raw, name);
                    self.check_name(raw, manifest.name.as_deref(), skill_id);
                }
                "version" => manifest.version = self.text_of(raw, name),
                "description" => manifest.description = self.text_of(raw, name),
                "tags" => manifest.tags = self.texts_of(raw, name),
                "capabilities" => manifest.capabilities = self.texts_of(raw, name),
                "costHints" => manifest.cost_hints = self.object_of(raw, name),
                "inputSchema" => manifest.input_schema = self.object_of(raw, name),
                "outputSchema" => manifest.output_schema = self.object_of(raw, name),
                "enabled" => match serde_json::from_str(raw.get()) {
                    Ok(enabled) => manifest.enabled = enabled,
                    Err(_) => self.fail_type(raw, name, "`true` or `false`"),
                },
                "entryPoint" => {
                    let at = self.position(raw);
                    let path = self.text_of(raw, name);
                    manifest.entry_point = path.map(|path| DeclaredProgram { key: None, path, at });
                }
                "programs" => self.read_programs(raw, &mut manifest),
                other => self.warn(
                    raw,
                    format!("the field `{}` is not known and has no effect", excerpt(other)),
                    "the fields are kind, name, version, description, tags, capabilities, \
                     costHints, entryPoint, programs, inputSchema, outputSchema, enabled",
                ),
            }
        }
        if !has_kind {
            self.fail(None, "`kind` is missing".to_owned(), "write `\"kind\": \"skill\"`");
        }
        if !manifest.enabled {
            let raw = fields.iter().find(|(name, _)| name == "enabled").map(|(_, raw)| *raw);
            let at = raw.map_or(Span::default(), |raw| self.position(raw));
            let found = Diagnostic::note("programs.ignored", "the programs are not enabled");
            self.findings.push(found.with_position(at.line, at.column));
        }
        Some(manifest)
    }

    fn read_kind(&mut self, raw: &RawValue, manifest: &mut ToolManifest) {
        let Some(kind) = self.text_of(raw, "kind") else { return };
        match &*kind {
            "skill" => manifest.kind = ToolKind::Skill,
            "langchain" => manifest.kind = ToolKind::Langchain,
            "mcp" => self.fail_kind(
                raw,
                "the kind `mcp` is not a skill but a process extension",
                "add the server as an extension: a manifest.yaml with its `command`, in a directory \
                 of sandbox/extensions",
            ),
            "n8n" => self.fail_kind(
                raw,
                "the kind `n8n` is not supported",
                "publish the workflow as an MCP server and add it as an extension",
            ),
            other => {
                let message = format!("the kind `{}` is not known", excerpt(other));
                self.fail(Some(raw), message, "the kinds are skill and langchain");
            }
        }
    }

    fn fail_kind(&mut self, raw: &RawValue, message: &str, help: &str) {
        let at = self.position(raw);
        self.failed = true;
        let found = Diagnostic::error("programs.unsupported", message);
        self.findings.push(found.with_position(at.line, at.column).with_help(help));
    }

    /// Warns of a name that cannot be used to call the tool.
    fn check_name(&mut self, raw: &RawValue, name: Option<&str>, skill_id: &str) {
        let last = name.and_then(|name| name.rsplit('/').next());
        if let Some(name) = name.filter(|_| last != Some(skill_id)) {
            let message = format!("the name `{}` does not name the tool", excerpt(name));
            self.warn(raw, message, "a tool is called by the id of its skill");
        }
    }

    /// Reads a list of paths, or an object of keys and paths.
    fn read_programs(&mut self, raw: &'a RawValue, manifest: &mut ToolManifest) {
        let expected = "a list of files, or an object of keys and files";
        let entries: Vec<(Option<String>, &RawValue)> =
            if let Ok(ObjectFields(fields)) = serde_json::from_str(raw.get()) {
                fields.into_iter().map(|(key, raw)| (Some(key), raw)).collect()
            } else if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
                list.into_iter().map(|raw| (None, raw)).collect()
            } else {
                return self.fail_type(raw, "programs", expected);
            };
        if entries.is_empty() {
            let help = "name a file, or remove the field to offer the files of the directory";
            return self.fail(Some(raw), "`programs` is empty".to_owned(), help);
        }
        for (key, raw) in entries {
            let at = self.position(raw);
            match serde_json::from_str::<String>(raw.get()) {
                Ok(path) => manifest.programs.push(DeclaredProgram { key, path, at }),
                Err(_) => self.fail_type(raw, "programs", expected),
            }
        }
    }

    fn text_of(&mut self, raw: &RawValue, name: &str) -> Option<String> {
        let text = serde_json::from_str::<String>(raw.get());
        if text.is_err() {
            self.fail_type(raw, name, "a text");
        }
        text.ok()
    }

    fn texts_of(&mut self, raw: &RawValue, name: &str) -> Vec<String> {
        serde_json::from_str(raw.get()).unwrap_or_else(|_| {
            self.fail_type(raw, name, "a list of texts");
            Vec::new()
        })
    }

    fn object_of(&mut self, raw: &RawValue, name: &str) -> Option<Value> {
        match serde_json::from_str::<Value>(raw.get()) {
            Ok(value) if value.is_object() => Some(value),
            _ => {
                self.fail_type(raw, name, "an object");
                None
            }
        }
    }

    fn fail_type(&mut self, raw: &RawValue, name: &str, expected: &str) {
        self.fail(Some(raw), format!("`{name}` is not {expected}"), "");
    }

    fn fail(&mut self, raw: Option<&RawValue>, message: String, help: &str) {
        let at = raw.map_or(Span::default(), |raw| self.position(raw));
        self.fail_at(at, message, help);
    }

    fn fail_at(&mut self, at: Span, message: String, help: &str) {
        self.failed = true;
        self.add(Diagnostic::error("programs.invalid", message), at, help);
    }

    fn warn(&mut self, raw: &RawValue, message: String, help: &str) {
        let at = self.position(raw);
        self.add(Diagnostic::warning("programs.ignored", message), at, help);
    }

    fn add(&mut self, found: Diagnostic, at: Span, help: &str) {
        let found = found.with_position(at.line, at.column);
        self.findings.push(if help.is_empty() { found } else { found.with_help(help) });
    }

    /// Returns the position of a value, which is a part of the text.
    fn position(&self, raw: &RawValue) -> Span {
        let offset = raw.get().as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let Some(before) = self.text.get(..offset) else { return Span::default() };
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Span {
            line: number(before.matches('\n').count() + 1),
            column: number(before[start..].chars().count() + 1),
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
