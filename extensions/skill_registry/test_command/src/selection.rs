//! The skills that a command line names.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use skill_catalog::{
    FoundItem, FoundProblem, FoundSkill, ProblemKind, find_skills, suggest_similar,
};
use skill_format::SkillId;
use skill_testing::{
    CandidateSkill, CaseFile, RoutingHarness, SkillCases, held_out_directory, load_all_cases,
    open_held_out,
};
use skillhost_files::jail;
use skillhost_terminal::{CliContext, CliError, exit, resolve_id};

use crate::arguments::TestArgs;

/// The skills to test.
#[derive(Default)]
pub(crate) struct TestTargets {
    ids: Vec<String>,
    candidates: Vec<(CandidateSkill, PathBuf)>,
}

/// A skill with its cases.
#[derive(Debug)]
pub(crate) struct TestedSkill {
    /// The directory of the skill.
    pub(crate) directory: PathBuf,
    /// The directory of the cases that the home holds out.
    pub(crate) held_out: PathBuf,
    /// The cases.
    pub(crate) cases: SkillCases,
}

impl TestedSkill {
    /// Returns the path of a file of cases.
    pub(crate) fn file_path(&self, file: &CaseFile) -> PathBuf {
        let directory = if file.is_private { &self.held_out } else { &self.directory };
        directory.join(&*file.path)
    }
}

/// Finds the skills that a command line names: paths are read, ids are looked up later.
///
/// # Errors
/// A path cannot be read or has no skill.
pub(crate) fn find_targets(session: &CliContext, args: &TestArgs) -> Result<TestTargets, CliError> {
    let mut targets = TestTargets::default();
    for target in &args.targets {
        if is_path(target) {
            let path = session.environment.current_dir.join(target);
            targets.add_path(&path, Path::new(target))?;
        } else {
            targets.ids.push(target.clone());
        }
    }
    // Outside of a home, the skills are those of the working directory.
    if args.targets.is_empty() && !session.has_home() {
        targets.add_path(&session.environment.current_dir, Path::new("."))?;
    }
    Ok(targets)
}

/// Returns whether an argument is a path: ids have neither separators nor dots.
fn is_path(target: &str) -> bool {
    target.contains(['/', '.', '\\'])
}

impl TestTargets {
    /// Creates the targets of one installed skill.
    pub(crate) fn from_id(id: &str) -> Self {
        Self { ids: vec![id.to_owned()], candidates: Vec::new() }
    }

    fn add_path(&mut self, path: &Path, shown: &Path) -> Result<(), CliError> {
        let before = self.candidates.len();
        let found = find_skills(path, &mut |found| match found {
            FoundItem::Skill(skill) => match self.add_skill(skill) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            FoundItem::Problem(problem) => ControlFlow::Break(to_cli_error(&problem)),
        });
        if let ControlFlow::Break(error) = found {
            return Err(error);
        }
        if self.candidates.len() == before {
            let message = format!("{}: no skill found", shown.display());
            return Err(CliError::new(exit::NOT_FOUND, message)
                .with_hint("a skill is a directory with a SKILL.md"));
        }
        Ok(())
    }

    fn add_skill(&mut self, mut skill: FoundSkill) -> Result<(), CliError> {
        let files = skill.read(false).map_err(|problem| to_cli_error(&problem))?;
        let id = SkillId::new(&skill.dir_name).map_err(|error| {
            CliError::usage(format!("{}: {error}", skill.dir.display()))
                .with_hint("rename the directory")
        })?;
        // Two arguments can name the same skill.
        if self.candidates.iter().all(|(_, directory)| *directory != skill.dir) {
            self.candidates.push((CandidateSkill { id, bytes: files.bytes }, skill.dir));
        }
        Ok(())
    }

    /// Returns the skills that replace installed ones.
    pub(crate) fn candidates(&self) -> Vec<CandidateSkill> {
        self.candidates.iter().map(|(candidate, _)| candidate.clone()).collect()
    }

    /// Loads the cases of the skills, sorted by id. `data` is the directory with held-out cases.
    ///
    /// # Errors
    /// An id does not exist, or a directory cannot be opened.
    pub(crate) fn load(
        &self,
        harness: &RoutingHarness,
        data: Option<&Path>,
        seed: u64,
    ) -> Result<Vec<TestedSkill>, CliError> {
        let snapshot = harness.snapshot();
        let mut skills = Vec::new();
        let mut add = |id: &str, directory: PathBuf, opened: cap_std::fs::Dir| {
            let private = data.and_then(|data| open_held_out(data, id));
            let cases = load_all_cases(&opened, id, seed, private.as_ref());
            let held_out = data.map(|data| held_out_directory(data, id)).unwrap_or_default();
            skills.push(TestedSkill { directory, held_out, cases });
        };
        for (candidate, directory) in &self.candidates {
            let opened = jail::open_root(directory);
            let opened = opened.map_err(|error| CliError::io(directory, &error))?;
            add(candidate.id.as_str(), directory.clone(), opened);
        }
        let has_targets = !self.candidates.is_empty() || !self.ids.is_empty();
        let installed = || snapshot.skills().iter().filter(|skill| !harness.is_distractor(skill));
        // Skills that are given by path are tested alone.
        let ids: Vec<String> = match has_targets {
            true => {
                let ids = || installed().map(|skill| skill.id().as_str());
                let resolve = |given: &String| match snapshot.get(given) {
                    Some(_) => Ok(given.clone()),
                    None => resolve_id("skills", given, ids()),
                };
                self.ids.iter().map(resolve).collect::<Result<_, _>>()?
            }
            false => installed().map(|skill| skill.id().to_string()).collect(),
        };
        for id in ids {
            let skill = snapshot.get(&id).filter(|skill| !harness.is_distractor(skill));
            let skill = skill.ok_or_else(|| {
                let similar = suggest_similar(&id, installed().map(|skill| skill.id().as_str()));
                let hint = match similar.first() {
                    Some(similar) => format!("did you mean `{similar}`?"),
                    None => "see: skillhost skill list".to_owned(),
                };
                CliError::new(exit::NOT_FOUND, format!("skill `{id}` not found")).with_hint(hint)
            })?;
            let opened = skill.open_directory().map_err(|error| {
                CliError::new(exit::IO, format!("{}: {error:?}", skill.dir().display()))
            })?;
            add(skill.id().as_str(), skill.dir(), opened);
        }
        skills.sort_by(|a, b| a.cases.skill_id.cmp(&b.cases.skill_id));
        if !has_targets {
            // A home has skills of others, which need no cases.
            skills.retain(|skill| !skill.cases.is_empty() || !skill.cases.files.is_empty());
        }
        Ok(skills)
    }
}

fn to_cli_error(problem: &FoundProblem) -> CliError {
    let code = match problem.kind {
        ProblemKind::NotFound | ProblemKind::NoSkill => exit::NOT_FOUND,
        _ => exit::IO,
    };
    CliError::new(code, format!("{}: {}", problem.path.display(), problem.message))
        .with_hint(problem.help)
}
