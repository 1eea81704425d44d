//! A bounded list of diagnostics: a hostile file must not produce thousands of them.

use crate::diagnostic::{Diagnostic, Severity};

/// The maximum number of warnings and notes for one file; errors are always reported.
const LIMIT: usize = 100;

pub(super) struct DiagnosticCollector {
    list: Vec<Diagnostic>,
    omitted: usize,
}

impl DiagnosticCollector {
    pub(super) fn new(found: Vec<Diagnostic>) -> Self {
        let mut findings = Self { list: found, omitted: 0 };
        if findings.list.len() > LIMIT {
            // Errors must survive the cut, so the list is pushed again one by one.
            let found = std::mem::take(&mut findings.list);
            found.into_iter().for_each(|diagnostic| findings.push(diagnostic));
        }
        findings
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error || self.list.len() < LIMIT {
            self.list.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    pub(super) fn has_error(&self) -> bool {
        self.list.iter().any(|found| found.severity == Severity::Error)
    }

    /// Returns the diagnostics in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        // The sort is stable: diagnostics of one position stay in the order of the rules.
        self.list.sort_by_key(|found| (found.line, found.column));
        if self.omitted > 0 {
            let message = format!("{} more findings are left out", self.omitted);
            self.list.push(Diagnostic::note("file.moreFindings", message));
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_cut_but_errors_remain() {
        let warning = |line| Diagnostic::warning("a.b", "odd").with_position(line, 1);
        let mut findings = DiagnosticCollector::new((1..=150).map(warning).collect());
        findings.push(warning(151));
        findings.push(Diagnostic::error("a.c", "bad").with_position(2, 5));
        let list = findings.finish();
        assert_eq!(list.len(), LIMIT + 2);
        assert_eq!(list[2].rule, "a.c");
        assert_eq!(
            list[LIMIT + 1].to_string(),
            "note[file.moreFindings]: 51 more findings are left out"
        );
    }
}
