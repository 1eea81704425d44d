//! The directory of an iteration: one directory per finished run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_evals::{
    BenchmarkFile, BenchmarkRun, ComparisonArm, EarlierIteration, GradingFile, ModelCaseReport,
    ModelRunReport, RateInterval, RunTiming, RunValidity,
};
use skillhost_files::{
    DirectoryLock, TreeFile, rename_synced, sync_tree, write_atomically, write_new_file, write_tree,
};

use crate::error::EvalError;
use crate::planned_run::{PlannedCase, PlannedRun, case_directory};

/// The time to wait for another process that ends.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The earlier iterations that are read.
const MAX_EARLIER: u32 = 50;

/// The names of the directories of runs, by their usability. Tools that aggregate results read those
/// of valid runs alone.
const OUTCOMES: [(RunValidity, &str); 3] = [
    (RunValidity::Valid, "run"),
    (RunValidity::Ungraded, "ungraded"),
    (RunValidity::Invalid, "invalid"),
];

/// The circumstances of an iteration: runs with others are not comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IterationPlan {
    pub(crate) skill: String,
    pub(crate) baseline: String,
    pub(crate) cases: String,
    /// The names of the selected cases.
    pub(crate) selected: Vec<String>,
    pub(crate) catalog: String,
    pub(crate) model: String,
    pub(crate) judge: Option<String>,
    pub(crate) agent: String,
    pub(crate) seed: u64,
    pub(crate) runs: Option<u32>,
    /// Whether the scripts of custom assertions run, which grades runs otherwise.
    #[serde(default)]
    pub(crate) has_scripts: bool,
}

/// The iterations whose finished runs another one with the same plan takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IterationReuse {
    /// The last one if it is not finished; a plan that is run again after its end is a repetition.
    Unfinished,
    /// Any one: the iterations of an optimization differ in their plans.
    Any,
}

/// The directory of an iteration.
pub(crate) struct IterationDirectory {
    path: PathBuf,
    is_resumed: bool,
}

/// A finished run.
pub(crate) struct FinishedRun {
    pub(crate) report: ModelRunReport,
    pub(crate) lines: Vec<Value>,
    pub(crate) outputs: Vec<TreeFile>,
}

impl IterationPlan {
    /// Returns whether the rates of two iterations differ by the version of the skill alone.
    fn is_comparable(&self, other: &Self) -> bool {
        (&self.cases, &self.selected) == (&other.cases, &other.selected)
            && (&self.model, &self.judge, &self.agent) == (&other.model, &other.judge, &other.agent)
    }
}

impl IterationDirectory {
    /// Opens an iteration that has the same plan and that `reuse` admits, else a new one. The lock is
    /// held as long as this process writes results. Blocks.
    pub(crate) fn open(
        results: &Path,
        plan: &IterationPlan,
        reuse: IterationReuse,
    ) -> Result<(Self, DirectoryLock), EvalError> {
        fs::create_dir_all(results).map_err(EvalError::io(results))?;
        let lock = DirectoryLock::acquire(results, LOCK_WAIT)?;
        let last = last_iteration(results)?;
        let first = match reuse {
            IterationReuse::Unfinished => last,
            IterationReuse::Any => last.map(|_| 1),
        };
        for number in first.unwrap_or(1)..=last.unwrap_or_default() {
            let path = results.join(format!("iteration-{number}"));
            // A plan of another version of the program is another plan.
            let stored: Option<IterationPlan> = read_json(&path.join("plan.json")).ok();
            let is_open = || !path.join("benchmark.json").exists();
            if stored.as_ref() == Some(plan) && (reuse == IterationReuse::Any || is_open()) {
                return Ok((Self { path, is_resumed: true }, lock));
            }
        }
        let path = results.join(format!("iteration-{}", last.unwrap_or_default() + 1));
        fs::create_dir(&path).map_err(EvalError::io(&path))?;
        let iteration = Self { path, is_resumed: false };
        iteration.write_json("plan.json", plan)?;
        Ok((iteration, lock))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the results of earlier finished iterations whose rates are comparable with this one, the
    /// oldest first. Those of other versions of the program are left out. Blocks.
    pub(crate) fn read_earlier(&self, plan: &IterationPlan) -> Vec<EarlierIteration> {
        let Some(results) = self.path.parent() else { return Vec::new() };
        let number =
            |path: &Path| path.file_name()?.to_str()?.strip_prefix("iteration-")?.parse().ok();
        let own: u32 = number(&self.path).unwrap_or_default();
        let first = own.saturating_sub(MAX_EARLIER);
        let read = |iteration: u32| {
            let path = results.join(format!("iteration-{iteration}"));
            let stored: IterationPlan = read_json(&path.join("plan.json")).ok()?;
            let benchmark: BenchmarkFile = read_json(&path.join("benchmark.json")).ok()?;
            let is_tested = |run: &&BenchmarkRun| run.configuration == ComparisonArm::WithSkill;
            let runs = || benchmark.runs.iter().filter(is_tested);
            let count = |found: usize| u32::try_from(found).unwrap_or(u32::MAX);
            let passed = runs().filter(|run| run.result.failed == 0).count();
            let passed = RateInterval::from_counts(count(passed), count(runs().count()))?;
            plan.is_comparable(&stored).then(|| EarlierIteration {
                iteration,
                timestamp: benchmark.metadata.timestamp.clone(),
                skill: stored.skill.clone(),
                passed,
            })
        };
        (first..own).filter_map(read).collect()
    }

    /// Returns whether an earlier process started it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Reads a run if it is finished. Blocks.
    pub(crate) fn load_run(
        &self,
        case: &PlannedCase,
        run: PlannedRun,
    ) -> Result<Option<ModelRunReport>, EvalError> {
        let place = self.path.join(case.directory()).join(run.arm.as_str());
        for (_, name) in OUTCOMES {
            let directory = place.join(format!("{name}-{}", run.number));
            if directory.is_dir() {
                let grading: GradingFile = read_json(&directory.join("grading.json"))?;
                let timing: RunTiming = read_json(&directory.join("timing.json"))?;
                return Ok(Some(ModelRunReport { number: run.number, grading, timing }));
            }
        }
        Ok(None)
    }

    /// Stores a run: complete and synchronized, or not at all. Blocks.
    pub(crate) fn store_run(
        &self,
        case: &PlannedCase,
        arm: ComparisonArm,
        finished: &FinishedRun,
    ) -> Result<(), EvalError> {
        let top = self.path.join(case.directory());
        let place = top.join(arm.as_str());
        fs::create_dir_all(&place).map_err(EvalError::io(&place))?;
        let metadata = serde_json::json!({"eval_id": case.name, "prompt": case.text});
        let file = top.join("eval_metadata.json");
        // The same for all runs of the case.
        if !file.exists() {
            write_atomically(&file, metadata.to_string().as_bytes())
                .map_err(EvalError::io(&file))?;
        }
        let FinishedRun { report, lines, outputs } = finished;
        let partial = place.join(format!(".partial-{}", report.number));
        // Left by a process that was killed.
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(EvalError::io(&partial)(error));
            }
            _ => {}
        }
        write_tree(outputs, &partial.join("outputs"))?;
        let mut transcript = String::new();
        for line in lines {
            transcript.push_str(&line.to_string());
            transcript.push('\n');
        }
        let text = |name: &str, text: String| {
            let path = partial.join(name);
            write_new_file(&path, text.as_bytes(), None).map_err(EvalError::io(&path))
        };
        text("transcript.jsonl", transcript)?;
        text("timing.json", to_json(&report.timing)?)?;
        text("grading.json", to_json(&report.grading)?)?;
        sync_tree(&partial).map_err(EvalError::io(&partial))?;
        let outcome = report.grading.skillhost.outcome;
        let name = OUTCOMES.iter().find(|(of, _)| *of == outcome).map_or("invalid", |it| it.1);
        let path = place.join(format!("{name}-{}", report.number));
        rename_synced(&partial, &path).map_err(EvalError::io(&path))
    }

    /// Writes the file that marks the iteration as finished. Blocks.
    pub(crate) fn store_benchmark(&self, benchmark: &BenchmarkFile) -> Result<(), EvalError> {
        self.write_json("benchmark.json", benchmark)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), EvalError> {
        let path = self.path.join(name);
        write_atomically(&path, to_json(value)?.as_bytes()).map_err(EvalError::io(&path))
    }
}

fn to_json(value: &impl Serialize) -> Result<String, EvalError> {
    let text = serde_json::to_string_pretty(value);
    text.map_err(|error| EvalError::io(Path::new("results"))(error.into()))
}

pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, EvalError> {
    let bytes = fs::read(path).map_err(EvalError::io(path))?;
    serde_json::from_slice(&bytes).map_err(|error| EvalError::io(path)(error.into()))
}

/// Reads the last text of the model in a valid run of a case; `None` if it cannot be read. Blocks.
pub(crate) fn read_last_answer(
    iteration: &Path,
    case: &ModelCaseReport,
    number: u32,
) -> Option<String> {
    let place = iteration.join(case_directory(case.kind, &case.case)).join(case.arm.as_str());
    let lines = fs::read_to_string(place.join(format!("run-{number}/transcript.jsonl"))).ok()?;
    let texts = lines.lines().rev().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["role"] == "assistant").then(|| line["text"].as_str().map(str::to_owned))?
    });
    texts.into_iter().find(|text| !text.is_empty())
}

/// Returns the highest number of an iteration.
fn last_iteration(results: &Path) -> Result<Option<u32>, EvalError> {
    find_last(results, "iteration-")
}

/// Returns the highest number of the entries with a prefix.
pub(crate) fn find_last(results: &Path, prefix: &str) -> Result<Option<u32>, EvalError> {
    // Not the first free number: a removed iteration must not be reused by an older plan.
    let mut last = None;
    for entry in fs::read_dir(results).map_err(EvalError::io(results))? {
        let name = entry.map_err(EvalError::io(results))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
        last = last.max(number);
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use skill_evals::{AssertionResult, CaseSplit, ExecutionMetrics, ModelCaseKind, RunProvenance};

    use super::*;

    const ARM: ComparisonArm = ComparisonArm::WithSkill;

    fn plan(seed: u64) -> IterationPlan {
        IterationPlan {
            skill: "sha256:a".to_owned(),
            baseline: "without".to_owned(),
            cases: "sha256:b".to_owned(),
            selected: vec!["1".to_owned()],
            catalog: "sha256:c".to_owned(),
            model: "p/m".to_owned(),
            judge: None,
            agent: "clerk".to_owned(),
            seed,
            runs: Some(3),
            has_scripts: false,
        }
    }

    fn finished(number: u32, outcome: RunValidity) -> FinishedRun {
        let provenance = RunProvenance {
            skill: None,
            cases: String::new(),
            catalog: String::new(),
            model: "p/m".to_owned(),
            judge: None,
            seed: 7,
            outcome,
            reason: None,
        };
        let results = vec![AssertionResult::checked("x", true, "y")];
        let grading = GradingFile::new(results, ExecutionMetrics::default(), provenance);
        let report = ModelRunReport { number, grading, timing: RunTiming::new(10, 20, None) };
        let file = TreeFile { path: "a/b.txt".into(), bytes: b"x".to_vec(), executable: false };
        FinishedRun {
            report,
            lines: vec![serde_json::json!({"role": "user"})],
            outputs: vec![file],
        }
    }

    #[test]
    fn runs_are_stored_as_whole() {
        let results = tempfile::tempdir().unwrap();
        let (iteration, _lock) =
            IterationDirectory::open(results.path(), &plan(7), IterationReuse::Unfinished).unwrap();
        let case = PlannedCase {
            name: "greet/ada".to_owned(),
            text: "Greet Ada".to_owned(),
            kind: ModelCaseKind::Output,
            split: CaseSplit::Train,
            agent: None,
            output: None,
        };
        let run = |number| PlannedRun { case: 0, arm: ARM, number };
        assert_eq!(iteration.load_run(&case, run(1)).unwrap(), None);
        // A directory that a killed process left is not a run.
        let place = iteration.path().join(case.directory()).join("with_skill");
        fs::create_dir_all(place.join(".partial-1/outputs/other")).unwrap();
        assert_eq!(iteration.load_run(&case, run(1)).unwrap(), None);
        let valid = finished(1, RunValidity::Valid);
        iteration.store_run(&case, ARM, &valid).unwrap();
        assert_eq!(iteration.load_run(&case, run(1)).unwrap(), Some(valid.report));
        assert!(place.join("run-1/outputs/a/b.txt").is_file());
        assert!(!place.join("run-1/outputs/other").exists());
        assert!(!place.join(".partial-1").exists());
        iteration.store_run(&case, ARM, &finished(2, RunValidity::Invalid)).unwrap();
        assert!(place.join("invalid-2/grading.json").is_file());
        assert!(iteration.load_run(&case, run(2)).unwrap().is_some());
    }

    #[test]
    fn unfinished_iteration_with_same_plan_resumes() {
        let results = tempfile::tempdir().unwrap();
        let try_open = |seed, reuse| IterationDirectory::open(results.path(), &plan(seed), reuse);
        let open = |seed| try_open(seed, IterationReuse::Unfinished).unwrap();
        let reopen = |seed| try_open(seed, IterationReuse::Any).unwrap();
        let name = |(iteration, _): &(IterationDirectory, DirectoryLock)| {
            let name = iteration.path().file_name().unwrap().to_str().unwrap().to_owned();
            (name, iteration.is_resumed())
        };
        assert_eq!(name(&open(7)), ("iteration-1".to_owned(), false));
        assert_eq!(name(&open(7)), ("iteration-1".to_owned(), true));
        assert_eq!(name(&open(8)), ("iteration-2".to_owned(), false));
        // The first one is no longer the last.
        assert_eq!(name(&open(7)), ("iteration-3".to_owned(), false));
        fs::write(results.path().join("iteration-3/benchmark.json"), "{}").unwrap();
        assert_eq!(name(&open(7)), ("iteration-4".to_owned(), false));
        assert_eq!(name(&reopen(8)), ("iteration-2".to_owned(), true));
        fs::write(results.path().join("iteration-2/benchmark.json"), "{}").unwrap();
        assert_eq!(name(&reopen(8)), ("iteration-2".to_owned(), true));
        assert_eq!(name(&reopen(9)), ("iteration-5".to_owned(), false));
        let held = open(7);
        assert!(matches!(try_open(7, IterationReuse::Unfinished), Err(EvalError::Lock(_))));
        drop(held);
    }
}
