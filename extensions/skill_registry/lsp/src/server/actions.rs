//! Code actions: the fixes of findings, all fixes at once, and suppressions.

use serde_json::{Value, json};
use skill_rules::TextEdit;

use super::{OpenDocument, to_diagnostic};
use crate::analysis::LocatedFinding;
use crate::position::LineTable;
use crate::protocol::CodeActionParams;

/// The kind of the action that applies all fixes; editors run it on request or when they save.
pub(super) const FIX_ALL: &str = "source.fixAll.skillhost";

const QUICK_FIX: &str = "quickfix";

/// Returns the actions for a range of a document.
pub(super) fn list_actions(document: &OpenDocument, params: &CodeActionParams) -> Value {
    let Some(analysis) = &document.analysis else { return json!([]) };
    let uri = &params.text_document.uri;
    let lines = LineTable::new(&document.text);
    let wanted = |kind: &str| {
        let is_prefix = |only: &String| {
            kind.strip_prefix(only.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        params.context.only.as_ref().is_none_or(|only| only.iter().any(is_prefix))
    };
    let (start, end) = (lines.offset(params.range.start), lines.offset(params.range.end));
    let mut actions = Vec::new();
    if wanted(QUICK_FIX) {
        let here = |found: &&LocatedFinding| found.range.start <= end && start <= found.range.end;
        for found in analysis.findings.iter().filter(here) {
            let diagnostic = to_diagnostic(&lines, found);
            if !found.edits.is_empty() {
                let edits = found.edits.iter().map(|edit| to_text_edit(&lines, edit));
                actions.push(json!({
                    "title": format!("Fix: {}", found.diagnostic.message),
                    "kind": QUICK_FIX,
                    "isPreferred": true,
                    "diagnostics": [diagnostic.clone()],
                    "edit": { "changes": { uri: edits.collect::<Value>() } },
                }));
            }
            if let Some(at) = analysis.head_start.filter(|_| found.is_suppressible) {
                let rule = found.diagnostic.rule;
                let comment = TextEdit {
                    range: at..at,
                    replacement: format!("# skillhost: allow({rule})\n"),
                };
                actions.push(json!({
                    "title": format!("Suppress `{rule}` in this file"),
                    "kind": QUICK_FIX,
                    "diagnostics": [diagnostic],
                    "edit": { "changes": { uri: [to_text_edit(&lines, &comment)] } },
                }));
            }
        }
    }
    if let Some(fixed) = analysis.fix_all.as_ref().filter(|_| wanted(FIX_ALL)) {
        let all = TextEdit { range: 0..document.text.len(), replacement: fixed.clone() };
        actions.push(json!({
            "title": "Apply all automatic fixes",
            "kind": FIX_ALL,
            "edit": { "changes": { uri: [to_text_edit(&lines, &all)] } },
        }));
    }
    Value::Array(actions)
}

fn to_text_edit(lines: &LineTable<'_>, edit: &TextEdit) -> Value {
    json!({ "range": lines.range(&edit.range), "newText": edit.replacement })
}
