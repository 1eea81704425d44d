//! Looks for directories with a SKILL.md.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::{Found, FoundProblem, ProblemKind, opened};
use crate::disk::{FileKind, RootDir};

/// How many directories are listed.
const MAX_DIRECTORIES: usize = 500_000;

/// How deep a folder is searched.
const MAX_DEPTH: usize = 32;

/// The spellings that are looked for first; others are found by listing.
const SPELLINGS: [&str; 2] = ["SKILL.md", "skill.md"];

type Each<'e, B> = &'e mut dyn FnMut(Found) -> ControlFlow<B>;

/// A directory that waits to be looked at.
struct Pending {
    rel: String,
    depth: usize,
}

/// Hands on the skill that a directory is, or those below it.
pub(super) fn walk<B>(path: &Path, each: Each<'_, B>) -> ControlFlow<B> {
    let root = match RootDir::open(path) {
        Ok(root) => root,
        Err(error) => return each(Found::Problem(FoundProblem::io(path, &error))),
    };
    let mut walk = Walk { path, root, stack: Vec::new(), listed: 0, found: 0 };
    walk.stack.push(Pending { rel: String::new(), depth: 0 });
    while let Some(next) = walk.stack.pop() {
        walk.visit(&next, each)?;
    }
    if walk.found == 0 {
        return each(Found::Problem(FoundProblem {
            path: path.to_owned(),
            kind: ProblemKind::NoSkill,
            rule: "structure.missingSkillMd",
            message: "there is no SKILL.md in it or below it".to_owned(),
            help: "name a skill's directory, its SKILL.md, or a folder of skills",
        }));
    }
    ControlFlow::Continue(())
}

/// Hands on the skill whose SKILL.md is named.
pub(super) fn single<B>(dir: &Path, file: &Path, each: Each<'_, B>) -> ControlFlow<B> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let found = match (own_name(dir), RootDir::open(dir).and_then(|root| root.open_file(name))) {
        (Ok(dir_name), Ok(open)) => opened(dir.to_owned(), &dir_name, name, open),
        (Err(problem), _) => Found::Problem(problem),
        (_, Err(error)) => Found::Problem(unopened(file, &error)),
    };
    each(found)
}

struct Walk<'a> {
    path: &'a Path,
    root: RootDir,
    stack: Vec<Pending>,
    listed: usize,
    /// Skills, and whatever else was said about files that should be some.
    found: usize,
}

impl Walk<'_> {
    fn visit<B>(&mut self, at: &Pending, each: Each<'_, B>) -> ControlFlow<B> {
        let mut rel = at.rel.clone();
        if !rel.is_empty() {
            rel.push('/');
        }
        let length = rel.len();
        for spelling in SPELLINGS {
            rel.truncate(length);
            rel.push_str(spelling);
            match self.root.open_file(&rel) {
                Ok(file) => return self.hand_on(&at.rel, spelling, file, each),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    self.found += 1;
                    let path = self.shown(&at.rel).join(spelling);
                    return each(Found::Problem(unopened(&path, &error)));
                }
            }
        }
        self.search(at, each)
    }

    fn hand_on<B>(
        &mut self,
        rel: &str,
        file_name: &str,
        file: std::fs::File,
        each: Each<'_, B>,
    ) -> ControlFlow<B> {
        self.found += 1;
        let dir = self.shown(rel);
        if let Some(name) = rel.rsplit('/').next().filter(|name| !name.is_empty()) {
            return each(opened(dir, name, file_name, file));
        }
        match own_name(self.path) {
            Ok(name) => each(opened(dir, &name, file_name, file)),
            Err(problem) => each(Found::Problem(problem)),
        }
    }

    /// Lists a directory that has no SKILL.md in a usual spelling.
    fn search<B>(&mut self, at: &Pending, each: Each<'_, B>) -> ControlFlow<B> {
        if self.listed >= MAX_DIRECTORIES {
            self.stack.clear();
            return each(self.limit(&at.rel, &format!("{MAX_DIRECTORIES} directories")));
        }
        self.listed += 1;
        let listing = match self.root.list(&at.rel) {
            Ok(listing) => listing,
            Err(error) => {
                self.found += 1;
                return each(Found::Problem(FoundProblem::io(&self.shown(&at.rel), &error)));
            }
        };
        if let Some(spelling) = &listing.skill_file {
            let rel = join(&at.rel, spelling);
            return match self.root.open_file(&rel) {
                Ok(file) => self.hand_on(&at.rel, spelling, file, each),
                Err(error) => {
                    self.found += 1;
                    each(Found::Problem(unopened(&self.shown(&rel), &error)))
                }
            };
        }
        for name in &listing.not_utf8 {
            let path = self.shown(&at.rel).join(name);
            if SPELLINGS.iter().any(|spelling| path.join(spelling).is_file()) {
                self.found += 1;
                each(Found::Problem(not_utf8(path)))?;
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
                _ => self.stack.push(Pending { rel, depth: at.depth + 1 }),
            }
        }
        // The first of them comes next.
        self.stack[start..].reverse();
        ControlFlow::Continue(())
    }

    /// Says of a linked directory that it was not entered, unless it is met under its own name.
    fn link<B>(&self, rel: &str, each: Each<'_, B>) -> ControlFlow<B> {
        let path = self.shown(rel);
        let Ok(target) = std::fs::canonicalize(&path) else { return ControlFlow::Continue(()) };
        let inside = std::fs::canonicalize(self.path).is_ok_and(|root| target.starts_with(root));
        if inside || !target.is_dir() {
            return ControlFlow::Continue(());
        }
        each(Found::Problem(FoundProblem {
            path,
            kind: ProblemKind::Link,
            rule: "file.symlink",
            message: "it is a symbolic link that leads elsewhere, which is not followed".to_owned(),
            help: "name it to have it looked at",
        }))
    }

    fn limit(&self, rel: &str, what: &str) -> Found {
        Found::Problem(FoundProblem {
            path: self.shown(rel),
            kind: ProblemKind::Limit,
            rule: "scan.limit",
            message: format!("at most {what} are searched; what is here and beyond was not"),
            help: "name the folders inside one by one",
        })
    }

    /// The path as people are shown it.
    fn shown(&self, rel: &str) -> PathBuf {
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

/// The name of a directory, also of `.` and the like.
fn own_name(dir: &Path) -> Result<String, FoundProblem> {
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

/// Why a SKILL.md could not be opened: a link says so by an error of its own.
fn unopened(path: &Path, error: &std::io::Error) -> FoundProblem {
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
