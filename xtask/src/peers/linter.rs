//! The CPU time of `skill lint` against another linter, on the same skills.

use std::path::Path;

use crate::peers::result_row::CheckVerdict;
use crate::process::{CommandUsage, usage_of};
use crate::workspace::Result;

/// The measured pairs of runs, after one that fills the caches.
const RUNS: usize = 9;

/// The CPU time that `skill lint` may take, as a part of that of the other linter.
const LIMIT: f64 = 1.0 / 20.0;

/// Compares the CPU time of complete runs over a directory of skills.
///
/// The other linter checks every kind of file that it knows there, ours checks skills.
pub(super) fn compare_lint(
    program: &Path,
    other: &std::result::Result<std::path::PathBuf, String>,
    skills: &Path,
    optimized: bool,
) -> CheckVerdict {
    let other = match other {
        Ok(other) => other,
        Err(reason) => return CheckVerdict::Skipped(reason.clone()),
    };
    if !optimized {
        let reason = "--program names no optimized build, such as target/dist/skillhost";
        return CheckVerdict::Skipped(reason.to_owned());
    }
    match measure(program, other, skills) {
        Err(error) => CheckVerdict::Failed(error.to_string()),
        Ok((ours, theirs)) => {
            let note = format!(
                "1/{:.0} of the CPU time ({:.1} ms : {:.0} ms; peak {} MiB : {} MiB)",
                theirs.cpu_ms / ours.cpu_ms,
                ours.cpu_ms,
                theirs.cpu_ms,
                ours.peak_kib / 1024,
                theirs.peak_kib / 1024,
            );
            if ours.cpu_ms <= theirs.cpu_ms * LIMIT {
                CheckVerdict::Passed(note)
            } else {
                CheckVerdict::Failed(format!("{note}; the goal is 1/20"))
            }
        }
    }
}

/// Returns the medians of runs that alternate, so that both see the same load.
fn measure(program: &Path, other: &Path, skills: &Path) -> Result<(CommandUsage, CommandUsage)> {
    let text = |path: &Path| path.display().to_string();
    let ours = [text(program), "skill".into(), "lint".into(), text(skills)];
    let theirs = [text(other), text(skills)];
    let mut pairs = Vec::new();
    for _ in 0..=RUNS {
        pairs.push((usage_of(&ours)?, usage_of(&theirs)?));
    }
    pairs.remove(0);
    let (ours, theirs) = pairs.into_iter().unzip();
    Ok((to_median(ours), to_median(theirs)))
}

fn to_median(mut runs: Vec<CommandUsage>) -> CommandUsage {
    runs.sort_by(|a, b| a.cpu_ms.total_cmp(&b.cpu_ms));
    runs[runs.len() / 2]
}
