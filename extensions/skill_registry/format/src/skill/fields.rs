//! The conversion of the tree to the fields of a skill.

use skillhost_payload::OperatorCommand;
use yaml_tree::excerpt;
use yaml_tree::{Mapping, MappingEntry, Scalar, Sequence, Span, Value, YamlStyle, retain_first};

use super::findings::DiagnosticCollector;
use super::frontmatter::{AllowedTools, Frontmatter};
use super::{allowed_tools, core_schema, name};
use crate::diagnostic::Diagnostic;

/// The maximum length of a description in characters (Agent Skills specification).
const MAX_DESCRIPTION: usize = 1024;
/// The maximum length of `compatibility` in characters (Agent Skills specification).
const MAX_COMPATIBILITY: usize = 500;

/// The fields of the Agent Skills specification.
const STANDARD: [&str; 6] =
    ["name", "description", "license", "compatibility", "allowed-tools", "metadata"];

/// Reads the fields of the map between the fences; the opening one is on line `open_line`.
///
/// `source` is the text the map was parsed from. Returns `None` and reports an error if the
/// description is missing or not usable.
pub(super) fn read_frontmatter(
    dir_name: &str,
    mut root: Mapping,
    source: &str,
    open_line: u32,
    findings: &mut DiagnosticCollector,
) -> Option<Frontmatter> {
    retain_first(&mut root.entries);
    let mut reader = FieldReader {
        dir_name,
        source,
        first_line: open_line + 1,
        findings,
        fields: Frontmatter { user_invocable: true, ..Frontmatter::default() },
        description: None,
        missing: [Some(Span { line: open_line, column: 0 }); 2],
    };
    for entry in root.entries {
        reader.read_field(entry);
    }
    reader.finish()
}

struct FieldReader<'a> {
    dir_name: &'a str,
    source: &'a str,
    /// The line of the file where `source` starts.
    first_line: u32,
    findings: &'a mut DiagnosticCollector,
    fields: Frontmatter,
    description: Option<String>,
    /// The positions for reporting a missing name and a missing description.
    missing: [Option<Span>; 2],
}

impl FieldReader<'_> {
    fn read_field(&mut self, MappingEntry { key, value }: MappingEntry) {
        match key.text.as_str() {
            "name" => self.read_name(&key, value),
            "description" => self.read_description(&key, value),
            "license" => self.fields.license = self.read_text("license.type", &key, value),
            "compatibility" => self.read_compatibility(&key, value),
            "allowed-tools" => self.fields.allowed_tools = self.read_allowed_tools(value),
            "metadata" => self.read_metadata(key, value),
            _ => self.read_extension(&key, value),
        }
    }

    fn read_name(&mut self, key: &Scalar, value: Value) {
        let span = value.span();
        let Value::Scalar(Scalar { text, .. }) = value else {
            self.missing[0] = None;
            return self.report_not_text("name.type", key, span);
        };
        // An empty `name:` counts as missing, but is reported at its own line.
        let Some(name) = trim_text(text) else {
            self.missing[0] = Some(key.span);
            return;
        };
        self.missing[0] = None;
        let findings = &mut *self.findings;
        name::check_name(&name, self.dir_name, |found| findings.push(with_span(found, span)));
        self.fields.name = Some(name);
    }

    fn read_description(&mut self, key: &Scalar, value: Value) {
        let span = value.span();
        self.missing[1] = Some(key.span);
        let in_brackets = matches!(
            value,
            Value::Sequence(Sequence { flow: true, .. })
                | Value::Mapping(Mapping { flow: true, .. })
        );
        if in_brackets {
            // Prose can start with a bracket; a list on lines of its own is not prose.
            self.report(
                Diagnostic::warning(
                    "description.type",
                    "the description in brackets is read as text",
                ),
                span,
                "put it in quotes",
            );
        } else if !matches!(value, Value::Scalar(_)) {
            self.report(
                Diagnostic::error("description.type", "the description is not a string"),
                span,
                "describe in one string what the skill does and when to use it",
            );
            return;
        }
        // In quotes or a block, ` #` is part of the text.
        if matches!(value, Value::Scalar(Scalar { style: YamlStyle::Plain, .. })) {
            self.report_comment(span);
        }
        self.description = trim_text(value.into_text(self.source));
        let length =
            self.description.as_deref().map_or(0, |text| length_over(text, MAX_DESCRIPTION));
        if length > 0 {
            self.report(
                Diagnostic::warning(
                    "description.maxLength",
                    format!("the description has {length} characters, more than {MAX_DESCRIPTION}"),
                ),
                span,
                "shorten it; other readers refuse the file",
            );
        }
    }

    /// Reports ` #` after a description: the author may not know that it starts a comment.
    fn report_comment(&mut self, span: Span) {
        let index = usize::try_from(span.line - self.first_line).unwrap_or(usize::MAX);
        let line = self.source.lines().nth(index).unwrap_or_default();
        let Some(at) = line.find(" #") else { return };
        let column = u32::try_from(line[..at].chars().count() + 2).unwrap_or(u32::MAX);
        self.report(
            Diagnostic::note(
                "description.comment",
                "the description ends here, where a comment starts",
            ),
            Span { column, ..span },
            "put the description in quotes if the rest belongs to it",
        );
    }

    fn read_compatibility(&mut self, key: &Scalar, value: Value) {
        let span = value.span();
        self.fields.compatibility = self.read_text("compatibility.type", key, value);
        let text = self.fields.compatibility.as_deref();
        let length = text.map_or(0, |text| length_over(text, MAX_COMPATIBILITY));
        if length > 0 {
            self.report(
                Diagnostic::warning(
                    "compatibility.maxLength",
                    format!(
                        "`compatibility` has {length} characters, more than {MAX_COMPATIBILITY}"
                    ),
                ),
                span,
                "shorten it; other readers refuse the file",
            );
        }
    }

    fn read_allowed_tools(&mut self, value: Value) -> AllowedTools {
        let span = value.span();
        let is_list = matches!(value, Value::Sequence(_));
        let tools = match value {
            Value::Scalar(Scalar { text, .. }) => allowed_tools::parse_text(&text),
            Value::Sequence(sequence) => {
                let text = |item: Value| item.into_text(self.source);
                allowed_tools::parse_items(
                    &sequence.items.into_iter().map(text).collect::<Vec<_>>(),
                )
            }
            Value::Mapping(mapping) if mapping.entries.is_empty() => AllowedTools::Absent,
            Value::Mapping(_) => AllowedTools::Unparsable,
        };
        if tools == AllowedTools::Unparsable {
            self.report(
                Diagnostic::warning(
                    "allowed-tools.format",
                    "`allowed-tools` cannot be read; it grants nothing",
                ),
                span,
                "write tools separated by blanks, such as `Read Bash(git:*)`",
            );
        } else if is_list {
            self.report(
                Diagnostic::warning("allowed-tools.type", "`allowed-tools` is a list, not a string"),
                span,
                "write the tools on one line, separated by blanks, for readers that expect a string",
            );
        }
        tools
    }

    fn read_metadata(&mut self, key: Scalar, value: Value) {
        let mut mapping = match value {
            Value::Mapping(mapping) => mapping,
            value if value.is_empty() => return,
            // Broken YAML was reported by the parser already.
            Value::Scalar(Scalar { style: YamlStyle::Raw, .. }) => {
                return self.fields.unknown.push((key.text, value));
            }
            value => {
                self.report(
                    Diagnostic::warning(
                        "metadata.type",
                        "`metadata` is not a map; it is kept as text",
                    ),
                    value.span(),
                    "write `key: value` lines below it, indented by two blanks",
                );
                return self.fields.unknown.push((key.text, value));
            }
        };
        retain_first(&mut mapping.entries);
        self.fields.metadata.reserve_exact(mapping.entries.len());
        for MappingEntry { key, value } in mapping.entries {
            if let Some(type_name) = core_schema::infer_core_type(&value) {
                let message = format!(
                    "the metadata value `{}` is {type_name}; it is kept as text",
                    excerpt(&key.text)
                );
                let found = Diagnostic::warning("metadata.valueType", message);
                self.report(found, value.span(), "put it in quotes");
            }
            match key.text.as_str() {
                // Hosts that know only the standard accept extra keys under `metadata`.
                "tags" => Self::append_words(&mut self.fields.tags, split_words(&value)),
                "requires" => Self::append_words(&mut self.fields.requires, split_words(&value)),
                _ => {}
            }
            self.fields.metadata.push((key.text, value.into_text(self.source)));
        }
    }

    /// Reads a field outside of the specification.
    fn read_extension(&mut self, key: &Scalar, value: Value) {
        let span = value.span();
        let mut known = true;
        match key.text.as_str() {
            "tags" | "requires" => match split_words(&value) {
                Some(list) if key.text == "tags" => {
                    Self::append_words(&mut self.fields.tags, Some(list));
                }
                Some(list) => Self::append_words(&mut self.fields.requires, Some(list)),
                None => {
                    let rule = if key.text == "tags" { "tags.type" } else { "requires.type" };
                    let message = format!("`{}` is not a list of words; it is not used", key.text);
                    self.report(
                        Diagnostic::warning(rule, message),
                        span,
                        "write a list, or words separated by commas",
                    );
                    self.fields.unknown.push((key.text.clone(), value));
                }
            },
            "when_to_use" => {
                self.fields.when_to_use = self.read_text("when_to_use.type", key, value);
            }
            "disable-model-invocation" => {
                let rule = "disable-model-invocation.type";
                if let Some(flag) = self.read_flag(rule, key, value) {
                    self.fields.disable_model_invocation = flag;
                }
            }
            "user-invocable" => {
                if let Some(flag) = self.read_flag("user-invocable.type", key, value) {
                    self.fields.user_invocable = flag;
                }
            }
            // `[file] [mode]` and `[file]` are hints, even if YAML reads the brackets as a list.
            "argument-hint" => {
                self.fields.argument_hint = trim_text(value.into_text(self.source));
            }
            "arguments" => {
                self.fields.arguments = Some(value).filter(|value| !value.is_empty());
            }
            "version" => self.fields.version = self.read_text("version.type", key, value),
            _ => {
                known = false;
                self.fields.unknown.push((key.text.clone(), value));
            }
        }
        self.report_extension(key, known);
    }

    fn report_extension(&mut self, key: &Scalar, known: bool) {
        let name = excerpt(&key.text);
        let (message, help) = if known {
            let help = match name {
                "tags" | "requires" => format!(
                    "write it under `metadata`, words separated by commas, as `{}` does",
                    OperatorCommand::MakeSkillsPortable
                ),
                _ => "strict validators refuse it".to_owned(),
            };
            let message = format!("`{name}` is not a field of the standard; it is used here");
            (message, help)
        } else {
            let message = format!("`{name}` is not a known field; it is kept but not used");
            let like = STANDARD.into_iter().find(|field| is_like(field, &key.text));
            let help = match like {
                Some(field) => format!("rename it to `{field}` if that field is meant"),
                None => format!(
                    "move it under `metadata`, as `{}` does, or remove it",
                    OperatorCommand::MakeSkillsPortable
                ),
            };
            (message, help)
        };
        self.report(Diagnostic::warning("frontmatter.unknownField", message), key.span, help);
    }

    fn finish(self) -> Option<Frontmatter> {
        let Self { mut fields, findings, description, missing: [no_name, no_description], .. } =
            self;
        if let Some(span) = no_name {
            let found = Diagnostic::warning(
                "name.required",
                "`name` is missing; the directory's name is used",
            );
            let help = format!("write `name: {}`", excerpt(self.dir_name));
            findings.push(with_span(found, span).with_help(help));
        }
        let Some(description) = description else {
            // A description of the wrong type was reported already.
            if !findings.has_error() {
                let found = Diagnostic::error("description.required", "`description` is missing");
                let help = "write `description:` and what the skill does and when to use it";
                findings.push(with_span(found, no_description.unwrap_or_default()).with_help(help));
            }
            return None;
        };
        fields.description = description;
        fields.tags = allowed_tools::dedup_texts(fields.tags);
        fields.requires = allowed_tools::dedup_texts(fields.requires);
        Some(fields)
    }

    /// Reads a text; a list or map becomes its text in the file.
    fn read_text(&mut self, rule: &'static str, key: &Scalar, value: Value) -> Option<String> {
        if !matches!(value, Value::Scalar(_)) {
            self.report_not_text(rule, key, value.span());
        }
        trim_text(value.into_text(self.source))
    }

    fn report_not_text(&mut self, rule: &'static str, key: &Scalar, span: Span) {
        let message = format!("`{}` is not a string", excerpt(&key.text));
        self.report(Diagnostic::warning(rule, message), span, "write one string; put it in quotes");
    }

    fn read_flag(&mut self, rule: &'static str, key: &Scalar, value: Value) -> Option<bool> {
        let span = value.span();
        let text = trim_text(value.into_text(self.source))?;
        let flag = match text.to_ascii_lowercase().as_str() {
            // YAML 1.1 readers accept all of these spellings.
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        };
        if flag.is_none() {
            let message = format!("`{}` is neither true nor false; it is not used", key.text);
            self.report(Diagnostic::warning(rule, message), span, "write `true` or `false`");
        }
        flag
    }

    fn append_words(list: &mut Vec<String>, more: Option<Vec<String>>) {
        list.extend(more.into_iter().flatten());
    }

    fn report(&mut self, found: Diagnostic, span: Span, help: impl Into<String>) {
        self.findings.push(with_span(found, span).with_help(help));
    }
}

fn with_span(found: Diagnostic, span: Span) -> Diagnostic {
    found.with_position(span.line, span.column)
}

fn trim_text(text: String) -> Option<String> {
    let inner = text.trim();
    match inner.len() {
        0 => None,
        length if length == text.len() => Some(text),
        _ => Some(inner.to_owned()),
    }
}

/// Returns the number of characters if it exceeds a limit, otherwise zero.
fn length_over(text: &str, limit: usize) -> usize {
    // Bytes are never fewer than characters, so most texts need no count.
    if text.len() <= limit {
        return 0;
    }
    let length = text.chars().count();
    if length > limit { length } else { 0 }
}

/// Splits a list of strings, or a text with commas, into words; `None` for any other value.
fn split_words(value: &Value) -> Option<Vec<String>> {
    let word = |text: &str| Some(text.trim().trim_matches(['"', '\'']).trim().to_owned());
    let words: Option<Vec<String>> = match value {
        Value::Scalar(scalar) => {
            let text = scalar.text.trim();
            let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            bare.unwrap_or(text).split(',').map(word).collect()
        }
        Value::Sequence(sequence) => {
            sequence.items.iter().map(|item| item.as_str().and_then(word)).collect()
        }
        Value::Mapping(_) => None,
    };
    words.map(|words| words.into_iter().filter(|word| !word.is_empty()).collect())
}

/// Returns whether a key is a field's name in another spelling.
fn is_like(field: &str, key: &str) -> bool {
    key.len() == field.len()
        && key
            .bytes()
            .zip(field.bytes())
            .all(|(k, f)| k.eq_ignore_ascii_case(&f) || (f == b'-' && k == b'_'))
}
