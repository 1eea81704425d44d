//! The search for directories with a SKILL.md.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::found::{FoundItem, FoundProblem, ProblemKind, to_found_item};
use crate::disk::{FileKind, RootDir};
use crate::programs::{ADD_SKILL_MD, NO_SKILL_MD, declares_skill};

/// The limit on the listed directories.
const MAX_DIRECTORIES: usize = 500_000;

/// The limit on the searched depth.
const MAX_DEPTH: usize = 32;

/// The spellings that are looked for first; others are found by listing.
const SPELLINGS: [&str; 2] = ["SKILL.md", "skill.md"];

type VisitFn<'e, B> = &'e mut dyn FnMut(FoundItem) -> ControlFlow<B>;

/// A directory that waits to be looked at.
struct PendingPath {
    rel: String,
    depth: usize,
}

/// Hands on the skill that a directory is, or those below it.
pub(super) fn visit_skills<B>(path: &Path, each: VisitFn<'_, B>) -> ControlFlow<B> {
    let root = match RootDir::open(path) {
        Ok(root) => root,
        Err(error) => return each(FoundItem::Problem(FoundProblem::io(path, &error))),
    };
    let mut walk = SkillWalker { path, root, stack: Vec::new(), listed: 0, found: 0 };
    walk.stack.push(PendingPath { rel: String::new(), depth: 0 });
    while let Some(next) = walk.stack.pop() {
        walk.visit(&next, each)?;
    }
    if walk.found == 0 {
        return each(FoundItem::Problem(FoundProblem {
            path: path.to_owned(),
            kind: ProblemKind::NoSkill,
            rule: "structure.missingSkillMd",
            message: "SKILL.md not found in it or below it".to_owned(),
            help: "name a skill's directory, its SKILL.md, or a directory of skills",
        }));
    }
    ControlFlow::Continue(())
}

/// Passes the skill of a named SKILL.md to the callback.
pub(super) fn visit_single<B>(dir: &Path, file: &Path, each: VisitFn<'_, B>) -> ControlFlow<B> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let found =
        match (directory_name(dir), RootDir::open(dir).and_then(|root| root.open_file(name))) {
            (Ok(dir_name), Ok(open)) => to_found_item(dir.to_owned(), &dir_name, name, open),
            (Err(problem), _) => FoundItem::Problem(problem),
            (_, Err(error)) => FoundItem::Problem(open_problem(file, &error)),
        };
    each(found)
}

struct SkillWalker<'a> {
    path: &'a Path,
    root: RootDir,
    stack: Vec<PendingPath>,
    listed: usize,
    /// The number of skills and of problems with files that should be skills.
    found: usize,
}

impl SkillWalker<'_> {
    fn visit<B>(&mut self, at: &PendingPath, each: VisitFn<'_, B>) -> ControlFlow<B> {
        let mut rel = at.rel.clone();
        if !rel.is_empty() {
            rel.push('/');
        }
        let length = rel.len();
        for spelling in SPELLINGS {
            rel.truncate(length);
            rel.push_str(spelling);
            match self.root.open_file(&rel) {
                Ok(file) => return self.visit_skill(&at.rel, spelling, file, each),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    self.found += 1;
                    let path = self.display_path(&at.rel).join(spelling);
                    return each(FoundItem::Problem(open_problem(&path, &error)));
                }
            }
        }
        self.search(at, each)
    }

    fn visit_skill<B>(
        &mut self,
        rel: &str,
        file_name: &str,
        file: std::fs::File,
        each: VisitFn<'_, B>,
    ) -> ControlFlow<B> {
        self.found += 1;
        let dir = self.display_path(rel);
        if let Some(name) = rel.rsplit('/').next().filter(|name| !name.is_empty()) {
            return each(to_found_item(dir, name, file_name, file));
        }
        match directory_name(self.path) {
            Ok(name) => each(to_found_item(dir, &name, file_name, file)),
            Err(problem) => each(FoundItem::Problem(problem)),
        }
    }

    /// Lists a directory that has no SKILL.md in a usual spelling.
    fn search<B>(&mut self, at: &PendingPath, each: VisitFn<'_, B>) -> ControlFlow<B> {
        if self.listed >= MAX_DIRECTORIES {
            self.stack.clear();
            return each(self.limit(&at.rel, &format!("{MAX_DIRECTORIES} directories")));
        }
        self.listed += 1;
        let listing = match self.root.list(&at.rel) {
            Ok(listing) => listing,
            Err(error) => {
                self.found += 1;
                return each(FoundItem::Problem(FoundProblem::io(
                    &self.display_path(&at.rel),
                    &error,
                )));
            }
        };
        if let Some(spelling) = &listing.skill_file {
            let rel = join(&at.rel, spelling);
            return match self.root.open_file(&rel) {
                Ok(file) => self.visit_skill(&at.rel, spelling, file, each),
                Err(error) => {
                    self.found += 1;
                    each(FoundItem::Problem(open_problem(&self.display_path(&rel), &error)))
                }
            };
        }
        if listing.tool_manifest && declares_skill(&self.display_path(&at.rel)) {
            self.found += 1;
            each(FoundItem::Problem(FoundProblem {
                path: self.display_path(&at.rel),
                kind: ProblemKind::NoSkill,
                rule: "structure.missingSkillMd",
                message: NO_SKILL_MD.to_owned(),
                help: ADD_SKILL_MD,
            }))?;
        }
        for name in &listing.not_utf8 {
            let path = self.display_path(&at.rel).join(name);
            if SPELLINGS.iter().any(|spelling| path.join(spelling).is_file()) {
                self.found += 1;
                each(FoundItem::Problem(not_utf8(path)))?;
            }
        }
        let start = self.stack.len();
        for (name, kind) in listing.iter() {
            let rel = join(&at.rel, name);
            match kind {
                FileKind::Symlink => self.link(&rel, each)?,
                _ if name == ".git" || name == "node_modules" => {}
                _ if at.depth >= MAX_DEPTH => {
                    each(self.limit(&rel, &format!("{MAX_DEPTH} levels")))?;
                }
                _ => self.stack.push(PendingPath { rel, depth: at.depth + 1 }),
            }
        }
        // The first of them comes next.
        self.stack[start..].reverse();
        ControlFlow::Continue(())
    }

    /// Reports a linked directory as not entered, unless it is found under its own name.
    fn link<B>(&self, rel: &str, each: VisitFn<'_, B>) -> ControlFlow<B> {
        let path = self.display_path(rel);
        let Ok(target) = std::fs::canonicalize(&path) else { return ControlFlow::Continue(()) };
        let inside = std::fs::canonicalize(self.path).is_ok_and(|root| target.starts_with(root));
        if inside || !target.is_dir() {
            return ControlFlow::Continue(());
        }
        each(FoundItem::Problem(FoundProblem {
            path,
            kind: ProblemKind::Link,
            rule: "file.symlink",
            message: "it is a symbolic link that leads elsewhere, which is not followed".to_owned(),
            help: "name it to have it looked at",
        }))
    }

    fn limit(&self, rel: &str, what: &str) -> FoundItem {
        FoundItem::Problem(FoundProblem {
            path: self.display_path(rel),
            kind: ProblemKind::Limit,
            rule: "scan.limit",
            message: format!("at most {what} are searched; the entries here and beyond were not"),
            help: "name the directories inside one by one",
        })
    }

    /// Returns the path for messages.
    fn display_path(&self, rel: &str) -> PathBuf {
        match (rel.is_empty(), self.path == Path::new(".")) {
            (true, _) => self.path.to_owned(),
            (false, true) => PathBuf::from(rel),
            (false, false) => self.path.join(rel),
        }
    }
}

fn join(rel: &str, name: &str) -> String {
    if rel.is_empty() { name.to_owned() } else { format!("{rel}/{name}") }
}

/// Returns the name of a directory, also of `.` and the like.
fn directory_name(dir: &Path) -> Result<String, FoundProblem> {
    let named = match dir.file_name() {
        Some(name) => Some(name.to_owned()),
        None => std::fs::canonicalize(dir)
            .map_err(|error| FoundProblem::io(dir, &error))?
            .file_name()
            .map(ToOwned::to_owned),
    };
    match named.map(std::ffi::OsString::into_string) {
        None => Ok(String::new()),
        Some(Ok(name)) => Ok(name),
        Some(Err(_)) => Err(not_utf8(dir.to_owned())),
    }
}

fn not_utf8(path: PathBuf) -> FoundProblem {
    FoundProblem {
        path,
        kind: ProblemKind::Unusable,
        rule: "id.invalid",
        message: "the directory's name is not UTF-8".to_owned(),
        help: "rename the directory",
    }
}

/// Converts an error of opening a SKILL.md; a link has an error of its own.
fn open_problem(path: &Path, error: &std::io::Error) -> FoundProblem {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => FoundProblem {
            path: path.to_owned(),
            kind: ProblemKind::Unusable,
            rule: "file.symlink",
            message: "it is a symbolic link, which is not followed".to_owned(),
            help: "name the file it points to, or put the file itself here",
        },
        _ => FoundProblem::io(path, error),
    }
}
