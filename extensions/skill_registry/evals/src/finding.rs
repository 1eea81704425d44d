//! Findings in the files of cases, and the reader of their records.

use serde::Serialize;
use skill_compat::extended::{ExtendedFinding, FindingAnchor, RecordReader, SectionRules};
use yaml_tree::{Span, Value};

/// The limit on the size of a file of cases, in bytes.
pub const MAX_CASE_FILE: usize = 4 << 20;

/// The limit on the number of cases in a file.
pub(crate) const MAX_CASES: usize = 20_000;

/// A finding in a file of cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseFinding {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The message: a lower-case fragment without a final period that quotes untrusted text.
    pub message: String,
    /// The hint on how to fix it.
    pub help: String,
    /// `true` if the file is used nevertheless: the finding is about a field of another tool.
    pub is_warning: bool,
}

impl CaseFinding {
    /// Creates a finding at a position, because of which a file is not used completely.
    #[must_use]
    pub fn error(at: Span, message: String, help: impl Into<String>) -> Self {
        let Span { line, column } = at;
        // A finding about the file as a whole is at its start.
        let (line, column) = (line.max(1), column.max(1));
        Self { line, column, message, help: help.into(), is_warning: false }
    }
}

/// Reads a value with a reader of records and returns its findings.
pub(crate) fn collect_findings<T>(
    rules: &'static SectionRules,
    read: impl FnOnce(&mut RecordReader<'_>) -> T,
) -> (T, Vec<CaseFinding>) {
    let mut noticed = Vec::new();
    let value = read(&mut RecordReader::new(rules, FindingAnchor::Own, &mut noticed));
    let findings = noticed.into_iter().filter(|found| !found.strict);
    let to_finding = |found: ExtendedFinding| {
        let is_warning = found.rule == rules.unknown;
        CaseFinding { is_warning, ..CaseFinding::error(found.at, found.message, found.help) }
    };
    (value, findings.map(to_finding).collect())
}

/// Returns the items of a list; `what` names it in the finding about another value.
pub(crate) fn list_items<'v>(
    value: &'v Value,
    what: &str,
) -> Result<&'v [Value], Box<CaseFinding>> {
    let Value::Sequence(list) = value else {
        let message = format!("{what} is not a list");
        return Err(Box::new(CaseFinding::error(value.span(), message, "write a list: [ … ]")));
    };
    if list.items.len() > MAX_CASES {
        let message =
            format!("{what} has {} cases, at most {MAX_CASES} are read", list.items.len());
        return Err(Box::new(CaseFinding::error(list.span, message, "remove some of them")));
    }
    Ok(&list.items)
}
