//! A batch of the skills that the paths of a command line select.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use skill_catalog::{FoundItem, FoundProblem, FoundSkill, ProblemKind, SkillFiles, find_skills};
use skillhost_terminal::{CliContext, CliError, exit};

use crate::arguments::SkillPaths;

/// An item of a batch.
pub(super) enum BatchItem<'a> {
    /// A skill and its files.
    Skill(&'a FoundSkill, SkillFiles),
    /// A path that could not be read.
    Problem(&'a FoundProblem),
}

/// The totals of a batch.
#[derive(Debug, Default)]
pub(super) struct BatchSummary {
    /// The number of skills passed to the callback.
    pub(super) skills: usize,
    /// The highest-ranking exit code of the problems; 0 if there were only links or none.
    pub(super) code: u8,
}

/// A choice among the skills of a batch, before they are read.
pub(super) trait BatchFilter {
    /// Prepares for the skills of a path of the command line.
    ///
    /// # Errors
    /// Fails if the path cannot be part of the batch.
    fn enter(&self, path: &Path) -> Result<(), CliError>;

    /// Returns whether to list the files of a skill, or `None` to leave the skill out.
    fn choose(&self, skill: &FoundSkill) -> Option<bool>;
}

/// The choice of every skill; the flag is whether to list its files.
struct AllSkills(bool);

impl BatchFilter for AllSkills {
    fn enter(&self, _path: &Path) -> Result<(), CliError> {
        Ok(())
    }

    fn choose(&self, _skill: &FoundSkill) -> Option<bool> {
        Some(self.0)
    }
}

/// Calls `each` for every skill and every problem, in the order of the paths.
///
/// # Errors
/// As [`for_each_chosen`].
pub(super) fn for_each(
    session: &CliContext,
    paths: &SkillPaths,
    with_files: bool,
    each: impl FnMut(BatchItem<'_>) -> Result<(), CliError>,
) -> Result<BatchSummary, CliError> {
    for_each_chosen(session, paths, &AllSkills(with_files), each)
}

/// Calls `each` for every skill that a filter chooses and every problem, in the order of the paths.
///
/// A skill selected by several paths is passed on once. An unreadable skill never stops the others.
///
/// # Errors
/// Fails if the list of paths cannot be read, and with any error of `filter` and `each`.
pub(super) fn for_each_chosen(
    session: &CliContext,
    paths: &SkillPaths,
    filter: &impl BatchFilter,
    mut each: impl FnMut(BatchItem<'_>) -> Result<(), CliError>,
) -> Result<BatchSummary, CliError> {
    let mut batch = BatchSummary::default();
    let list = listed(session, paths)?;
    let several = list.len() > 1;
    let mut seen: HashSet<PathBuf> = HashSet::new();
    for path in &list {
        filter.enter(path)?;
        let mut take = |found: FoundItem| {
            let result = match found {
                FoundItem::Skill(skill) if several && !seen.insert(skill.dir.clone()) => Ok(()),
                FoundItem::Skill(mut skill) => match filter.choose(&skill) {
                    None => Ok(()),
                    Some(with_files) => match skill.read(with_files) {
                        Ok(files) => {
                            batch.skills += 1;
                            each(BatchItem::Skill(&skill, files))
                        }
                        Err(problem) => batch.problem(&problem, &mut each),
                    },
                },
                FoundItem::Problem(problem) => batch.problem(&problem, &mut each),
            };
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        };
        if let ControlFlow::Break(error) = find_skills(path, &mut take) {
            return Err(error);
        }
    }
    Ok(batch)
}

impl BatchSummary {
    fn problem(
        &mut self,
        problem: &FoundProblem,
        each: &mut impl FnMut(BatchItem<'_>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        self.code = worst_exit_code(self.code, exit_code_for(problem.kind));
        each(BatchItem::Problem(problem))
    }
}

/// Returns the exit code for a kind of problem.
pub(super) fn exit_code_for(kind: ProblemKind) -> u8 {
    match kind {
        ProblemKind::Link => exit::OK,
        ProblemKind::NoSkill | ProblemKind::Unusable => exit::FINDINGS,
        ProblemKind::NotFound => exit::NOT_FOUND,
        ProblemKind::Unreadable | ProblemKind::Limit => exit::IO,
    }
}

/// Returns the more specific exit code: unreadable before not found before findings.
pub(super) fn worst_exit_code(a: u8, b: u8) -> u8 {
    a.max(b)
}

/// Returns the first path of the command line, or the working directory.
pub(super) fn first_path(paths: &SkillPaths) -> &Path {
    paths.paths.first().map_or(Path::new("."), PathBuf::as_path)
}

/// Returns the paths of the command line, then those of the list.
fn listed(session: &CliContext, paths: &SkillPaths) -> Result<Vec<PathBuf>, CliError> {
    let mut list = paths.paths.clone();
    if let Some(from) = &paths.files_from {
        let mut bytes = Vec::new();
        if from == Path::new("-") {
            io::stdin().lock().read_to_end(&mut bytes)?;
        } else {
            let path = session.environment.current_dir.join(from);
            bytes = std::fs::read(path).map_err(|error| CliError::io(from, &error))?;
        }
        let lines = bytes.split(|&byte| byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        list.extend(lines.filter(|line| !line.trim_ascii().is_empty()).map(path_of));
    } else if list.is_empty() {
        list.push(PathBuf::from("."));
    }
    Ok(list)
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    OsString::from_vec(bytes.to_vec()).into()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    OsString::from(String::from_utf8_lossy(bytes).into_owned()).into()
}
