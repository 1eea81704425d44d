//! The directory of an optimization: its plan, the replies with candidates, and its iterations.
//!
//! An interrupted optimization is made again from the start, but each reply and each run that its
//! directory has is taken from there, so that it is paid once.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skill_evals::OPTIMIZATION_FILE;
use skillhost_files::{DirectoryLock, write_atomically};

use crate::error::EvalError;
use crate::results::{LOCK_WAIT, find_last, read_json};

/// The prefix of the names of these directories.
const PREFIX: &str = "optimization-";

/// The name of the file with the plan.
const PLAN: &str = "plan.json";

/// The circumstances of an optimization: replies and runs with others are not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OptimizationPlan {
    pub(crate) part: String,
    pub(crate) skill: String,
    pub(crate) cases: String,
    pub(crate) catalog: String,
    pub(crate) model: String,
    pub(crate) judge: Option<String>,
    pub(crate) agent: String,
    pub(crate) seed: u64,
    pub(crate) runs: Option<u32>,
}

/// A request for a candidate and its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredReflection {
    pub(crate) system: String,
    pub(crate) message: String,
    pub(crate) reply: String,
}

/// The directory of an optimization.
#[derive(Clone, Debug)]
pub(crate) struct OptimizationDirectory {
    path: PathBuf,
    is_resumed: bool,
}

impl OptimizationDirectory {
    /// Opens the last directory if its optimization has no end, or ended by its budget, and has the
    /// same plan; else a new one. The lock is held as long as this process writes results. Blocks.
    pub(crate) fn open(
        results: &Path,
        plan: &OptimizationPlan,
    ) -> Result<(Self, DirectoryLock), EvalError> {
        fs::create_dir_all(results).map_err(EvalError::io(results))?;
        let lock = DirectoryLock::acquire(results, LOCK_WAIT)?;
        let last = find_last(results, PREFIX)?;
        if let Some(last) = last {
            let path = results.join(format!("{PREFIX}{last}"));
            // A plan of another version of the program is another plan.
            let stored: Option<OptimizationPlan> = read_json(&path.join(PLAN)).ok();
            if stored.as_ref() == Some(plan) && !has_ended(&path) {
                return Ok((Self { path, is_resumed: true }, lock));
            }
        }
        let path = results.join(format!("{PREFIX}{}", last.unwrap_or_default() + 1));
        fs::create_dir(&path).map_err(EvalError::io(&path))?;
        let directory = Self { path, is_resumed: false };
        directory.write(PLAN, &json!(plan))?;
        Ok((directory, lock))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether an earlier process began it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Reads the reply to a request of a round; `None` if there is none to exactly this request. Blocks.
    pub(crate) fn find_reply(&self, round: usize, system: &str, message: &str) -> Option<String> {
        let stored: StoredReflection = read_json(&self.path.join(reflection_file(round))).ok()?;
        (stored.system == system && stored.message == message).then_some(stored.reply)
    }

    /// Writes the request of a round and its reply. Blocks.
    pub(crate) fn store_reply(
        &self,
        round: usize,
        reflection: &StoredReflection,
    ) -> Result<(), EvalError> {
        self.write(&reflection_file(round), &json!(reflection))
    }

    fn write(&self, name: &str, value: &Value) -> Result<(), EvalError> {
        let path = self.path.join(name);
        write_atomically(&path, value.to_string().as_bytes()).map_err(EvalError::io(&path))
    }
}

fn reflection_file(round: usize) -> String {
    format!("candidate-{round}.json")
}

/// Returns whether an optimization has a result that a larger budget does not change.
fn has_ended(directory: &Path) -> bool {
    let report: Option<Value> = read_json(&directory.join(OPTIMIZATION_FILE)).ok();
    report.is_some_and(|report| report["end"]["outcome"] != "budget")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> OptimizationPlan {
        OptimizationPlan {
            part: "body".to_owned(),
            skill: "sha256:a".to_owned(),
            cases: "sha256:b".to_owned(),
            catalog: "sha256:c".to_owned(),
            model: "p/m".to_owned(),
            judge: None,
            agent: "clerk".to_owned(),
            seed,
            runs: None,
        }
    }

    #[test]
    fn optimization_without_result_resumes() {
        let results = tempfile::tempdir().unwrap();
        let open = |seed| OptimizationDirectory::open(results.path(), &plan(seed)).unwrap().0;
        let name = |directory: &OptimizationDirectory| {
            let name = directory.path().file_name().unwrap().to_str().unwrap().to_owned();
            (name, directory.is_resumed())
        };
        assert_eq!(name(&open(7)), ("optimization-1".to_owned(), false));
        assert_eq!(name(&open(7)), ("optimization-1".to_owned(), true));
        let end = |outcome: &str| {
            let report = json!({"end": {"outcome": outcome}}).to_string();
            fs::write(results.path().join("optimization-1/optimization.json"), report).unwrap();
        };
        end("budget");
        assert_eq!(name(&open(7)), ("optimization-1".to_owned(), true));
        end("no_improvement");
        assert_eq!(name(&open(7)), ("optimization-2".to_owned(), false));
        assert_eq!(name(&open(8)), ("optimization-3".to_owned(), false));
        let held = OptimizationDirectory::open(results.path(), &plan(8)).unwrap();
        let second = OptimizationDirectory::open(results.path(), &plan(8));
        assert!(matches!(second, Err(EvalError::Lock(_))));
        drop(held);
    }

    #[test]
    fn reply_belongs_to_its_request() {
        let results = tempfile::tempdir().unwrap();
        let (directory, _lock) = OptimizationDirectory::open(results.path(), &plan(7)).unwrap();
        assert_eq!(directory.find_reply(1, "s", "m"), None);
        let text = |text: &str| text.to_owned();
        let stored = StoredReflection { system: text("s"), message: text("m"), reply: text("r") };
        directory.store_reply(1, &stored).unwrap();
        assert_eq!(directory.find_reply(1, "s", "m"), Some(text("r")));
        for (round, system, message) in [(2, "s", "m"), (1, "other", "m"), (1, "s", "other")] {
            assert_eq!(directory.find_reply(round, system, message), None);
        }
    }
}
