//! Reads typed records from the tree, which has no types, and notes what does not fit.

use skill_format::tree::{Mapping, Scalar, YamlStyle};
use skill_format::{Span, Value};

use super::ExtendedFinding;

/// The ids of the rules that one type's findings belong to.
pub(super) struct SectionRules {
    /// The canonical key.
    pub(super) name: &'static str,
    /// A list, map, text or boolean was wanted.
    pub(super) kind: &'static str,
    /// A field is missing.
    pub(super) required: &'static str,
    /// A text is not one of those that are allowed.
    pub(super) value: &'static str,
    /// A field is not used.
    pub(super) unknown: &'static str,
}

/// A map with the fields of a type.
pub(super) struct FieldRecord<'v> {
    /// What messages call it, such as `security.capabilities[2]`.
    pub(super) name: String,
    span: Span,
    fields: Vec<(&'static str, &'v Value)>,
}

/// Where what is noticed in a value is reported.
#[derive(Clone, Copy)]
pub(super) enum FindingAnchor {
    /// Where it stands.
    Own,
    /// At one place.
    At(Span),
    /// Where it stands in a block of text whose first line that is not blank starts there, after so
    /// many blank ones.
    Block(Span, u32),
}

/// Reads values and notes what is wrong with them.
pub(super) struct RecordReader<'a> {
    pub(super) rules: &'static SectionRules,
    pub(super) pin: FindingAnchor,
    noticed: &'a mut Vec<ExtendedFinding>,
}

/// Tells whether a key is a camelCase name in its own, kebab-case or snake_case spelling.
pub(super) fn is_spelling(name: &str, key: &str) -> bool {
    if key == name {
        return true;
    }
    let parts = |separator: char| {
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
    key == parts('-') || key == parts('_') || pascal()
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(
        rules: &'static SectionRules,
        pin: FindingAnchor,
        noticed: &'a mut Vec<ExtendedFinding>,
    ) -> Self {
        Self { rules, pin, noticed }
    }

    pub(super) fn report(
        &mut self,
        rule: &'static str,
        at: Span,
        message: String,
        help: impl Into<String>,
    ) {
        let at = match self.pin {
            FindingAnchor::Own => at,
            FindingAnchor::At(span) => span,
            FindingAnchor::Block(start, blank) => Span {
                line: (start.line + at.line).saturating_sub(1 + blank),
                column: start.column + at.column.saturating_sub(1),
            },
        };
        self.noticed.push(ExtendedFinding { rule, at, message, help: help.into(), strict: false });
    }

    fn wrong_type(&mut self, name: &str, value: &Value, wanted: &str) {
        let message = format!("`{name}` is {}, not {wanted}", shape(value));
        self.report(self.rules.kind, value.span(), message, format!("write {wanted}"));
    }

    /// Reads a map; of a repeated key the first counts.
    pub(super) fn record<'v>(
        &mut self,
        name: String,
        value: &'v Value,
        known: &[&'static str],
    ) -> Option<FieldRecord<'v>> {
        let Value::Mapping(Mapping { entries, span, .. }) = value else {
            self.wrong_type(&name, value, "a map");
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
    pub(super) fn list<'v>(
        &mut self,
        record: &FieldRecord<'v>,
        field: &'static str,
        required: bool,
    ) -> &'v [Value] {
        match record.non_blank(field) {
            Some(Value::Sequence(list)) => &list.items,
            Some(value) => {
                self.wrong_type(&format!("{}.{field}", record.name), value, "a list");
                &[]
            }
            None => {
                if required {
                    self.missing(record, field);
                }
                &[]
            }
        }
    }

    /// Reads a text that has to be there; blank is the same as absent.
    pub(super) fn required_text(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
    ) -> Option<String> {
        if record.non_blank(field).is_none() {
            self.missing(record, field);
        }
        self.text(record, field)
    }

    /// Reads a text; blank is the same as absent.
    pub(super) fn text(&mut self, record: &FieldRecord<'_>, field: &'static str) -> Option<String> {
        let value = record.non_blank(field)?;
        self.plain_text(&format!("{}.{field}", record.name), value)
    }

    /// Reads a value that is to be a text.
    pub(super) fn plain_text(&mut self, name: &str, value: &Value) -> Option<String> {
        let Value::Scalar(scalar) = value else {
            self.wrong_type(name, value, "a text");
            return None;
        };
        if let Some(other) = typed(scalar) {
            let message = format!("`{name}` is {other}, not a text");
            self.report(self.rules.kind, scalar.span, message, "put it in quotes");
            if let Some(noticed) = self.noticed.last_mut() {
                noticed.strict = true;
            }
        }
        Some(scalar.text.trim().to_owned())
    }

    /// Reads a boolean.
    pub(super) fn boolean(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
    ) -> Option<bool> {
        let value = record.non_blank(field)?;
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
        } else if !matches!(value, Value::Scalar(Scalar { style: YamlStyle::Plain, .. })) {
            let message = format!("`{name}` is a text, not true or false");
            self.report(self.rules.kind, value.span(), message, "remove the quotes");
        }
        flag
    }

    /// Reads a boolean that has to be there.
    pub(super) fn required_boolean(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
    ) -> Option<bool> {
        if record.non_blank(field).is_none() {
            self.missing(record, field);
        }
        self.boolean(record, field)
    }

    /// Reads one of several words that has to be there.
    pub(super) fn required_keyword<T: Copy>(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Option<T> {
        if record.non_blank(field).is_none() {
            self.missing(record, field);
        }
        self.keyword(record, field, words)
    }

    /// Reads one of several words.
    pub(super) fn keyword<T: Copy>(
        &mut self,
        record: &FieldRecord<'_>,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(record, field)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let list: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            let message = format!("`{}.{field}` cannot be `{}`", record.name, excerpt(&text));
            let help = format!("write one of {}", list.join(", "));
            self.report(self.rules.value, record.field_span(field), message, help);
        }
        found.map(|(_, value)| *value)
    }

    fn missing(&mut self, record: &FieldRecord<'_>, field: &str) {
        let message = format!("`{}` has no `{field}`", record.name);
        self.report(self.rules.required, record.span, message, format!("add `{field}`"));
    }
}

impl<'v> FieldRecord<'v> {
    fn get(&self, field: &str) -> Option<&'v Value> {
        self.fields.iter().find(|(name, _)| *name == field).map(|(_, value)| *value)
    }

    /// A field that is there and not blank.
    fn non_blank(&self, field: &str) -> Option<&'v Value> {
        self.get(field).filter(|value| value.as_str().is_none_or(|text| !text.trim().is_empty()))
    }

    /// Where a field's value is, else where the record is.
    pub(super) fn field_span(&self, field: &str) -> Span {
        self.get(field).map_or(self.span, Value::span)
    }
}

fn shape(value: &Value) -> &'static str {
    match value {
        Value::Scalar(scalar) if scalar.text.trim().is_empty() => "empty",
        Value::Scalar(_) => "a text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a map",
    }
}

/// Names the type YAML's core schema gives a scalar that is no text there.
fn typed(scalar: &Scalar) -> Option<&'static str> {
    if scalar.style != YamlStyle::Plain {
        return None;
    }
    match scalar.text.as_str() {
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Some("true or false"),
        "~" | "null" | "Null" | "NULL" => Some("empty"),
        text => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let number =
                digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok();
            number.then_some("a number")
        }
    }
}

/// The start of a text that a message quotes.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}
