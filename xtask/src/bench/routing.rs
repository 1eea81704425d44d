//! Tests of skills without a model: the queries of many skills in one catalog.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::table::{BenchRow, median, row};
use crate::install::BuildProfile;
use crate::process::{CommandUsage, usage_of};
use crate::workspace::{Result, create_once};

/// The number of runs whose output is compared.
const COMPARED_RUNS: usize = 10;

/// Measures `skill test` on generated skills, two queries each, and compares the bytes of its output
/// over several runs.
pub(super) fn measure_skill_tests(
    work: &Path,
    skills: &Path,
    runs: usize,
    rows: &mut Vec<BenchRow>,
) -> Result<()> {
    let tested = copy_with_queries(work, skills)?;
    let program = BuildProfile::Dist.directory().join("skillhost").display().to_string();
    let tested = tested.display().to_string();
    let command = [program, "skill".into(), "test".into(), tested, "--json".into()];
    let usages: Vec<CommandUsage> = (0..runs).map(|_| usage_of(&command)).collect::<Result<_>>()?;
    let wall = median(usages.iter().map(|usage| usage.wall_ms)) / 1e3;
    let cpu = median(usages.iter().map(|usage| usage.cpu_ms)) / 1e3;
    let peak = median(usages.iter().map(|usage| usage.peak_kib as f64)) / 1024.0;
    let what = "`skill test`, 1,000 skills, 2,000 queries";
    let value = format!("{wall:.2} s ({cpu:.2} s CPU, {peak:.1} MiB)");
    rows.push(row(what, value, "≤ 5 s", wall <= 5.0));

    let outputs = (0..COMPARED_RUNS).map(|_| {
        let output = Command::new(&command[0]).args(&command[1..]).output()?;
        // A query that fails is a result, too.
        match output.status.code() {
            Some(0 | 1) => Ok(output.stdout),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    });
    let mut outputs: Vec<Vec<u8>> = outputs.collect::<Result<_>>()?;
    outputs.sort();
    outputs.dedup();
    let value = outputs.len().to_string();
    let what = format!("  different outputs of {COMPARED_RUNS} runs");
    rows.push(row(&what, value, "1", outputs.len() == 1));
    Ok(())
}

/// Copies skills, and adds a query for each of them and one for the next skill.
fn copy_with_queries(work: &Path, skills: &Path) -> Result<PathBuf> {
    create_once(&work.join("tested-skills"), |new| {
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(skills)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        for (name, next) in names.iter().zip(names.iter().cycle().skip(1)) {
            let evals = new.join(name).join("evals");
            fs::create_dir_all(&evals)?;
            fs::copy(skills.join(name).join("SKILL.md"), new.join(name).join("SKILL.md"))?;
            let queries = json!([
                {"query": name.replace('-', " "), "should_trigger": true},
                {"query": next.replace('-', " "), "should_trigger": false},
            ]);
            fs::write(evals.join("triggers.json"), queries.to_string())?;
        }
        Ok(())
    })
}
