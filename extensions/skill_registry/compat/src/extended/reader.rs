//! Reader of typed records from the untyped tree, with findings for values that do not fit.

use yaml_tree::{Mapping, Scalar, Span, Value, YamlStyle};

use super::finding::ExtendedFinding;

/// The ids of the rules for the findings of one type.
pub struct SectionRules {
    /// The canonical key.
    pub name: &'static str,
    /// The rule for a value of the wrong type.
    pub kind: &'static str,
    /// The rule for a missing field.
    pub required: &'static str,
    /// The rule for a text that is not allowed.
    pub value: &'static str,
    /// The rule for an unknown field.
    pub unknown: &'static str,
}

/// A map with the fields of a type.
pub struct FieldRecord<'v> {
    /// The name in messages, such as `security.capabilities[2]`.
    pub name: String,
    span: Span,
    fields: Vec<(&'static str, &'v Value)>,
}

/// The position at which findings in a value are reported.
#[derive(Clone, Copy)]
pub enum FindingAnchor {
    /// The position of the value.
    Own,
    /// A fixed position.
    At(Span),
    /// The position inside a block of text: the start of its first line that is not blank, and the
    /// number of blank lines before it.
    Block(Span, u32),
}

/// A reader of values that collects findings.
pub struct RecordReader<'a> {
    /// The rules of its findings.
    pub rules: &'static SectionRules,
    /// The position of its findings.
    pub anchor: FindingAnchor,
    noticed: &'a mut Vec<ExtendedFinding>,
}

/// Returns `true` if a key is a camelCase name in its camelCase, PascalCase, kebab-case or
/// snake_case spelling.
pub(super) fn is_spelling(name: &str, key: &str) -> bool {
    if key == name {
        return true;
    }
    let split_case = |separator: char| {
        let mut spelt = String::with_capacity(name.len() + 4);
        for (index, c) in name.chars().enumerate() {
            if c.is_ascii_uppercase() && index > 0 {
                spelt.push(separator);
            }
            spelt.push(c.to_ascii_lowercase());
        }
        spelt
    };
    let pascal = || {
        let (first, rest) = name.split_at(1);
        key.strip_prefix(&first.to_ascii_uppercase()) == Some(rest)
    };
    key == split_case('-') || key == split_case('_') || pascal()
}

impl<'a> RecordReader<'a> {
    /// Creates a reader that adds its findings to a list.
    #[must_use]
    pub fn new(
        rules: &'static SectionRules,
        anchor: FindingAnchor,
        noticed: &'a mut Vec<ExtendedFinding>,
    ) -> Self {
        Self { rules, anchor, noticed }
    }

    /// Adds a finding at a position of the tree.
    pub fn report(
        &mut self,
        rule: &'static str,
        at: Span,
        message: String,
        help: impl Into<String>,
    ) {
        let at = match self.anchor {
            FindingAnchor::Own => at,
            FindingAnchor::At(span) => span,
            FindingAnchor::Block(start, blank) => Span {
                line: (start.line + at.line).saturating_sub(1 + blank),
                column: start.column + at.column.saturating_sub(1),
            },
        };
        self.noticed.push(ExtendedFinding { rule, at, message, help: help.into(), strict: false });
    }

    fn report_type(&mut self, name: &str, value: &Value, wanted: &str) {
        let message = format!("`{name}` is {}, not {wanted}", value_kind(value));
        self.report(self.rules.kind, value.span(), message, format!("write {wanted}"));
    }

    /// Reads a map; of a repeated key, the first one counts.
    pub fn read_record<'v>(
        &mut self,
        name: String,
        value: &'v Value,
        known: &[&'static str],
    ) -> Option<FieldRecord<'v>> {
        let Value::Mapping(Mapping { entries, span, .. }) = value else {
            self.report_type(&name, value, "a map");
            return None;
        };
        let mut record = FieldRecord { name, span: *span, fields: Vec::new() };
        for entry in entries {
            let key = &entry.key.text;
            let field = known.iter().find(|field| is_spelling(field, key));
            let problem = match field {
                Some(&field) if record.get(field).is_none() => {
                    record.fields.push((field, &entry.value));
                    continue;
                }
                Some(_) => format!("`{}` has `{}` once more", record.name, excerpt(key)),
                None => format!("`{}` has no field `{}`", record.name, excerpt(key)),
            };
            let help = format!("its fields are {}", known.join(", "));
            self.report(self.rules.unknown, entry.key.span, problem, help);
        }
        Some(record)
    }

    /// Reads a list field; an absent optional one is empty.
    pub fn read_list<'v>(
        &mut self,
        record: &FieldRecord<'v>,
        field: &'static str,
        required: bool,
    ) -> &'v [Value] {
        match record.value(field) {
            Some(Value::Sequence(list)) => &list.items,
            Some(value) => {
                self.report_type(&format!("{}.{field}", record.name), value, "a list");
                &[]
            }
            None => {
                if required {
                    self.report_missing(record, field);
                }
                &[]
            }
        }
    }

    /// Reads a required text; a blank text counts as missing.
    pub fn required_text(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
    ) -> Option<String> {
        // Reported once here; the read below stays silent about a missing field.
        if record.value(field).is_none() {
            self.report_missing(record, field);
        }
        self.read_text(record, field)
    }

    /// Reads a text; a blank text counts as missing.
    pub fn read_text(&mut self, record: &FieldRecord<'_>, field: &'static str) -> Option<String> {
        let value = record.value(field)?;
        self.read_plain_text(&format!("{}.{field}", record.name), value)
    }

    /// Reads a value that must be a text.
    pub fn read_plain_text(&mut self, name: &str, value: &Value) -> Option<String> {
        let Value::Scalar(scalar) = value else {
            self.report_type(name, value, "a string");
            return None;
        };
        if let Some(other) = core_schema_kind(scalar) {
            let message = format!("`{name}` is {other}, not a string");
            self.report(self.rules.kind, scalar.span, message, "put it in quotes");
            if let Some(noticed) = self.noticed.last_mut() {
                // The tree keeps the text, so that only one profile objects to the missing quotes.
                noticed.strict = true;
            }
        }
        Some(scalar.text.trim().to_owned())
    }

    /// Reads a boolean.
    pub fn read_boolean(&mut self, record: &FieldRecord<'_>, field: &'static str) -> Option<bool> {
        let value = record.value(field)?;
        let text = value.as_str().map(str::trim).unwrap_or_default();
        let flag = match text {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        };
        let name = format!("{}.{field}", record.name);
        if flag.is_none() {
            let message = format!("`{name}` is neither true nor false; it is not used");
            self.report(self.rules.kind, value.span(), message, "write `true` or `false`");
        // The meaning is clear, so the value is used although it is a string.
        } else if !matches!(value, Value::Scalar(Scalar { style: YamlStyle::Plain, .. })) {
            let message = format!("`{name}` is a string, not true or false");
            self.report(self.rules.kind, value.span(), message, "remove the quotes");
        }
        flag
    }

    /// Reads a required boolean.
    pub fn required_boolean(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
    ) -> Option<bool> {
        if record.value(field).is_none() {
            self.report_missing(record, field);
        }
        self.read_boolean(record, field)
    }

    /// Reads a required word out of several.
    pub fn required_keyword<T: Copy>(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Option<T> {
        if record.value(field).is_none() {
            self.report_missing(record, field);
        }
        self.read_keyword(record, field, words)
    }

    /// Reads a word out of several.
    pub fn read_keyword<T: Copy>(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.read_text(record, field)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let list: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            let message = format!("`{}.{field}` cannot be `{}`", record.name, excerpt(&text));
            let help = format!("write one of {}", list.join(", "));
            self.report(self.rules.value, record.field_span(field), message, help);
        }
        found.map(|(_, value)| *value)
    }

    fn report_missing(&mut self, record: &FieldRecord<'_>, field: &str) {
        let message = format!("`{}` has no `{field}`", record.name);
        self.report(self.rules.required, record.span, message, format!("add `{field}`"));
    }
}

impl<'v> FieldRecord<'v> {
    fn get(&self, field: &str) -> Option<&'v Value> {
        self.fields.iter().find(|(name, _)| *name == field).map(|(_, value)| *value)
    }

    /// Returns the value of a field that is present and not blank.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<&'v Value> {
        self.get(field).filter(|value| value.as_str().is_none_or(|text| !text.trim().is_empty()))
    }

    /// Returns the position of a field's value, or of the record if the field is missing.
    #[must_use]
    pub fn field_span(&self, field: &str) -> Span {
        self.get(field).map_or(self.span, Value::span)
    }
}

fn value_kind(value: &Value) -> &'static str {
    match value {
        Value::Scalar(scalar) if scalar.text.trim().is_empty() => "empty",
        Value::Scalar(_) => "a string",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a map",
    }
}

/// Returns the name of the type of a scalar in YAML's core schema, or `None` for a string.
fn core_schema_kind(scalar: &Scalar) -> Option<&'static str> {
    if scalar.style != YamlStyle::Plain {
        return None;
    }
    match scalar.text.as_str() {
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Some("true or false"),
        "~" | "null" | "Null" | "NULL" => Some("empty"),
        text => {
            // `parse` would also accept words such as `inf` and `nan`, which are strings in YAML.
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let number =
                digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok();
            number.then_some("a number")
        }
    }
}

/// Returns the start of a text for use in a message.
pub fn excerpt(text: &str) -> String {
    // The text is untrusted and may be long.
    text.chars().take(60).collect()
}
