//! Typed access to a YAML tree that reports every error instead of stopping at the first.
//!
//! A reader that fails adds its error to the [`ErrorReport`] and returns [`ErrorReported`], which
//! only the report can create. So all fields of a mapping are read first and combined afterwards,
//! and no failure lacks a reason.

use yaml_tree::{Mapping, MappingEntry, Scalar, Span, Value};

use crate::parse::fields;
use crate::rules::{self, TextRule};
use crate::yaml::{to_json, yaml_type};
use crate::{ExtensionId, Located, ManifestError, ManifestErrorKind};

/// The errors found so far.
#[derive(Debug, Default)]
pub(crate) struct ErrorReport(Vec<ManifestError>);

/// A proof that an error is in the report.
// The private field keeps other modules from creating one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorReported(());

/// A value, or a proof that the report has the reason for its absence.
pub(crate) type ReadResult<T> = Result<T, ErrorReported>;

impl ErrorReport {
    /// Creates a report from errors found earlier.
    pub(crate) fn new(errors: Vec<ManifestError>) -> Self {
        Self(errors)
    }

    /// Adds an error.
    pub(crate) fn add(&mut self, kind: ManifestErrorKind, span: Span) -> ErrorReported {
        let Span { line, column } = span;
        self.0.push(ManifestError { kind, line, column });
        ErrorReported(())
    }

    /// Returns the errors in the order in which they were found.
    pub(crate) fn into_errors(self) -> Vec<ManifestError> {
        self.0
    }
}

/// A reader of one value, with its path in the manifest.
#[derive(Debug)]
pub(crate) struct NodeReader<'n> {
    pub(crate) node: &'n Value,
    pub(crate) path: String,
}

impl<'n> NodeReader<'n> {
    /// Creates a reader of the outermost value.
    pub(crate) fn root(node: &'n Value) -> Self {
        Self { node, path: String::new() }
    }

    /// Reports an error at this value.
    pub(crate) fn error(&self, kind: ManifestErrorKind, report: &mut ErrorReport) -> ErrorReported {
        report.add(kind, self.node.span())
    }

    /// Reports that the value has another type than expected.
    pub(crate) fn wrong_type(
        &self,
        expected: &'static str,
        report: &mut ErrorReport,
    ) -> ErrorReported {
        let field = self.path.clone();
        let found = yaml_type(self.node);
        self.error(ManifestErrorKind::WrongType { field, expected, found }, report)
    }

    /// Reports that the value is not one of those allowed.
    pub(crate) fn invalid(
        &self,
        value: &str,
        expected: &'static str,
        report: &mut ErrorReport,
    ) -> ErrorReported {
        let (field, value) = (self.path.clone(), value.to_owned());
        self.error(ManifestErrorKind::Invalid { field, value, expected }, report)
    }

    /// Attaches the position of this value to a result.
    pub(crate) fn locate<T>(&self, value: T) -> Located<T> {
        let Span { line, column } = self.node.span();
        Located { value, line, column }
    }

    /// Returns whether the value is text.
    pub(crate) fn is_text(&self) -> bool {
        yaml_type(self.node) == crate::YamlType::Text
    }

    /// Returns whether the value is a list.
    pub(crate) fn is_list(&self) -> bool {
        yaml_type(self.node) == crate::YamlType::List
    }

    /// Reads any text.
    pub(crate) fn text(&self, report: &mut ErrorReport) -> ReadResult<String> {
        self.text_as("text", report).map(str::to_owned)
    }

    /// Reads text that satisfies a rule.
    pub(crate) fn text_matching(
        &self,
        rule: &TextRule,
        report: &mut ErrorReport,
    ) -> ReadResult<String> {
        let text = self.text_as("text", report)?;
        self.check_rule(text, rule, report)
    }

    /// Reads a scalar that satisfies a rule, verbatim: `1.10` is not the number 1.1.
    pub(crate) fn verbatim_matching(
        &self,
        rule: &TextRule,
        report: &mut ErrorReport,
    ) -> ReadResult<String> {
        match self.node {
            Value::Scalar(scalar) => self.check_rule(&scalar.text, rule, report),
            _ => Err(self.wrong_type("text", report)),
        }
    }

    /// Reads text, a number or a boolean that satisfies a rule, verbatim.
    pub(crate) fn scalar_matching(
        &self,
        rule: &TextRule,
        report: &mut ErrorReport,
    ) -> ReadResult<String> {
        match yaml_type(self.node) {
            crate::YamlType::Nothing => Err(self.wrong_type("text, a number or a boolean", report)),
            _ => self.verbatim_matching(rule, report),
        }
    }

    /// Reads the id of an extension.
    pub(crate) fn extension_id(&self, report: &mut ErrorReport) -> ReadResult<ExtensionId> {
        let text = self.text_matching(&rules::ID, report)?;
        Ok(ExtensionId::new(&text).expect("the rule is the constructor's"))
    }

    fn check_rule(
        &self,
        text: &str,
        rule: &TextRule,
        report: &mut ErrorReport,
    ) -> ReadResult<String> {
        if (rule.is_valid)(text) {
            Ok(text.to_owned())
        } else {
            Err(self.invalid(text, rule.expected, report))
        }
    }

    fn text_as(&self, expected: &'static str, report: &mut ErrorReport) -> ReadResult<&'n str> {
        match self.node {
            Value::Scalar(scalar) if self.is_text() => Ok(&scalar.text),
            _ => Err(self.wrong_type(expected, report)),
        }
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&self, report: &mut ErrorReport) -> ReadResult<bool> {
        match self.node {
            // The JSON form decides: quoted or unusual spellings are text.
            Value::Scalar(_) => to_json(self.node).as_bool(),
            _ => None,
        }
        .ok_or_else(|| self.wrong_type("`true` or `false`", report))
    }

    /// Reads a number from 1 to the maximum of `T`; `expected` is the range in words.
    pub(crate) fn positive<T>(
        &self,
        expected: &'static str,
        report: &mut ErrorReport,
    ) -> ReadResult<T>
    where
        T: TryFrom<u64>,
    {
        match (self.node, to_json(self.node)) {
            (Value::Scalar(scalar), serde_json::Value::Number(number)) => {
                let positive = number.as_u64().filter(|&n| n > 0);
                let fitting = positive.and_then(|n| T::try_from(n).ok());
                fitting.ok_or_else(|| self.invalid(&scalar.text, expected, report))
            }
            _ => Err(self.wrong_type(expected, report)),
        }
    }

    /// Reads one word of a fixed set; `expected` lists the words.
    pub(crate) fn choice<T: Clone>(
        &self,
        choices: &[(&str, T)],
        expected: &'static str,
        report: &mut ErrorReport,
    ) -> ReadResult<T> {
        let text = self.text_as(expected, report)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        chosen.map(|(_, value)| value.clone()).ok_or_else(|| self.invalid(text, expected, report))
    }

    /// Reads a mapping with arbitrary content.
    pub(crate) fn object(&self, report: &mut ErrorReport) -> ReadResult<serde_json::Value> {
        match self.node {
            mapping @ Value::Mapping(_) => Ok(to_json(mapping)),
            _ => Err(self.wrong_type("a mapping", report)),
        }
    }

    /// Reads a mapping with arbitrary keys; an error in one entry does not stop the others.
    pub(crate) fn entries<T>(
        &self,
        report: &mut ErrorReport,
        mut each: impl FnMut(&'n Scalar, &NodeReader<'n>, &mut ErrorReport) -> ReadResult<T>,
    ) -> ReadResult<Vec<T>> {
        let Value::Mapping(mapping) = self.node else {
            return Err(self.wrong_type("a mapping", report));
        };
        let at = |key: &str, node| NodeReader { node, path: format!("{}.{key}", self.path) };
        let entries = mapping.entries.iter();
        let entries: Vec<ReadResult<T>> = entries
            .map(|entry| each(&entry.key, &at(&entry.key.text, &entry.value), report))
            .collect();
        // Collected in two steps: collecting results directly would stop at the first error.
        entries.into_iter().collect()
    }

    /// Reads a list; an error in one entry does not stop the others.
    pub(crate) fn list<T>(
        &self,
        report: &mut ErrorReport,
        mut each: impl FnMut(&NodeReader<'n>, &mut ErrorReport) -> ReadResult<T>,
    ) -> ReadResult<Vec<T>> {
        let Value::Sequence(sequence) = self.node else {
            return Err(self.wrong_type("a list", report));
        };
        let item = |(index, node)| NodeReader { node, path: format!("{}[{index}]", self.path) };
        let entries: Vec<ReadResult<T>> =
            sequence.items.iter().enumerate().map(|entry| each(&item(entry), report)).collect();
        entries.into_iter().collect()
    }

    /// Opens a mapping with known fields and reports unknown ones. `section` is its path in
    /// [`fields::ALL`].
    pub(crate) fn fields(
        &self,
        section: &'static str,
        expected: &'static str,
        report: &mut ErrorReport,
    ) -> ReadResult<MappingReader<'n>> {
        let Value::Mapping(mapping) = self.node else {
            return Err(self.wrong_type(expected, report));
        };
        let mut misspelled = Vec::new();
        for MappingEntry { key, .. } in &mapping.entries {
            if let Some(kind) = fields::check_field(section, &key.text) {
                let nearest = match kind {
                    ManifestErrorKind::UnknownField { nearest, .. } => nearest,
                    _ => None,
                };
                let reported = report.add(kind, key.span);
                misspelled.extend(nearest.map(|name| (name, reported)));
            }
        }
        Ok(MappingReader { mapping, section, path: self.path.clone(), misspelled })
    }
}

/// A reader of a mapping with known fields.
#[derive(Debug)]
pub(crate) struct MappingReader<'n> {
    mapping: &'n Mapping,
    section: &'static str,
    path: String,
    /// The fields that unknown ones were probably meant to be.
    misspelled: Vec<(&'static str, ErrorReported)>,
}

impl<'n> MappingReader<'n> {
    /// Returns the key of a field, or `None` if the field is absent.
    pub(crate) fn key(&self, name: &str) -> Option<&'n Scalar> {
        self.entry(name).map(|entry| &entry.key)
    }

    fn entry(&self, name: &str) -> Option<&'n MappingEntry> {
        // The schema is tested against the same list, so a reader cannot use an undocumented field.
        debug_assert!(
            fields::known_fields(self.section).any(|known| known == name),
            "{name} is not listed"
        );
        self.mapping.entries.iter().find(|entry| entry.key.text == name)
    }

    fn get(&self, name: &str) -> Option<NodeReader<'n>> {
        let node = &self.entry(name)?.value;
        Some(NodeReader { node, path: self.path_of(name) })
    }

    /// Reports that one of several fields is missing, unless one is misspelled, which was reported.
    pub(crate) fn report_missing(
        &self,
        names: &[&str],
        kind: ManifestErrorKind,
        report: &mut ErrorReport,
    ) -> ErrorReported {
        let misspelled = self.misspelled.iter().find(|(name, _)| names.contains(name));
        misspelled.map_or_else(|| report.add(kind, self.mapping.span), |(_, reported)| *reported)
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Reads a field that may be absent.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        report: &mut ErrorReport,
        read: impl FnOnce(&NodeReader<'n>, &mut ErrorReport) -> ReadResult<T>,
    ) -> ReadResult<Option<T>> {
        self.get(name).map(|at| read(&at, report)).transpose()
    }

    /// Reads a required field.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        report: &mut ErrorReport,
        read: impl FnOnce(&NodeReader<'n>, &mut ErrorReport) -> ReadResult<T>,
    ) -> ReadResult<T> {
        match self.get(name) {
            Some(at) => read(&at, report),
            None => {
                let kind = ManifestErrorKind::Missing { field: self.path_of(name) };
                Err(self.report_missing(&[name], kind, report))
            }
        }
    }
}
