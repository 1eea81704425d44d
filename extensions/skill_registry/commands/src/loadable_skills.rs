//! The loadable skills of a batch, with their frontmatter.

use skill_catalog::FoundSkill;
use skill_format::{Diagnostic, Frontmatter, Severity, parse_head};
use skillhost_terminal::{CliContext, CliError};

use super::batch::{self, BatchItem, BatchSummary};
use crate::arguments::SkillPaths;

/// Calls `each` for every loadable skill, in the order of the paths. An unloadable one becomes a
/// note.
pub(super) fn for_each(
    session: &CliContext,
    paths: &SkillPaths,
    mut each: impl FnMut(&FoundSkill, Frontmatter) -> Result<(), CliError>,
) -> Result<BatchSummary, CliError> {
    batch::for_each(session, paths, false, |item| {
        let (skill, files) = match item {
            BatchItem::Skill(skill, files) => (skill, files),
            BatchItem::Problem(problem) => {
                let path = problem.path.display();
                session.output.print_note(format!("left out {path}: {}", problem.message));
                return Ok(());
            }
        };
        let parsed = parse_head(&skill.dir_name, &files.bytes);
        if let Some(frontmatter) = parsed.frontmatter {
            return each(skill, frontmatter);
        }
        let error = parsed.diagnostics.iter().find(|found| found.severity == Severity::Error);
        let reason = error.map(Diagnostic::to_string).unwrap_or_default();
        session.output.print_note(format!("left out {}: {reason}", skill.path().display()));
        Ok(())
    })
}
