//! The files that a program consists of: its real file, its interpreter and their directories.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost_policy::SECRET_NAMES;
use tokio::runtime::Builder;

use crate::launch::LaunchSpec;
use crate::limited_run::{ProcessExit, ProcessLimits, run_limited};
use crate::printable::to_printable;

#[cfg(test)]
mod tests;

/// Tools that put placeholders of programs into a directory `shims`, and print the program with
/// `which NAME`.
const SHIM_MANAGERS: [&str; 7] = ["pyenv", "nodenv", "rbenv", "plenv", "goenv", "asdf", "mise"];

/// The variables that a version manager gets, besides those with its root and version.
const MANAGER_VARIABLES: [&str; 3] = ["PATH", "HOME", "XDG_CONFIG_HOME"];

/// The limits of a version manager, which prints one line.
const MANAGER_LIMITS: ProcessLimits =
    ProcessLimits { time: Duration::from_secs(10), memory: None, stdout: 8 * 1024 };

/// The longest message of a version manager, in characters.
const MAX_MESSAGE: usize = 300;

/// Directories that every run can read.
const SYSTEM_DIRECTORIES: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Directories whose packages refer to each other.
const PACKAGE_STORES: [&str; 2] = ["/nix/store", "/gnu/store"];

/// The maximum number of interpreters of interpreters, and of links.
const MAX_DEPTH: usize = 8;

/// The maximum length of the first line of a script, as in Linux.
const MAX_SHEBANG: u64 = 256;

/// A program with what it needs to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFiles {
    /// The file to start. Its directory has no links; the file may be one, because the environments
    /// of Python are found by it.
    pub program: PathBuf,
    /// The paths that the program and its interpreters read, without links, outside of the
    /// directories of the system.
    pub readable: Vec<PathBuf>,
    /// The directories of interpreters that precede `PATH`, so that a first line such as
    /// `#!/usr/bin/env node` finds the program itself and no placeholder.
    pub search_path: Vec<PathBuf>,
    /// The interpreters and link targets that a program of a foreign directory names outside of the
    /// system and of the search path. They are not readable unless the policy of the run allows it.
    pub unlisted: Vec<PathBuf>,
}

/// The places that decide whether a path may widen what a run can read.
struct TrustedPlaces<'a> {
    /// The search path of this process.
    path: &'a OsStr,
    /// Its absolute directories, and those of the system, without links.
    directories: Vec<PathBuf>,
    /// The directories whose content others determine, without links.
    foreign: Vec<PathBuf>,
}

/// Finds a program by its name in the absolute directories of a search path.
#[must_use]
pub fn find_in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    // A relative entry would depend on the working directory.
    let absolute = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(|program| is_executable(program))
}

/// Tests whether a path is a file that may be executed.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the files of a program: through placeholders, links and first lines of scripts.
///
/// `foreign` are the directories whose content is not the operator's: those of an extension, and
/// what a run can write. A program in them can name interpreters of the system and of the search
/// path only; others are [`ProgramFiles::unlisted`].
///
/// A placeholder of a version manager such as pyenv is replaced by the program that it would start,
/// which runs `pyenv which`. Only directories of the search path that are not foreign have
/// placeholders. Blocks.
///
/// # Errors
/// The error of the system if the program does not exist, or a placeholder stands for none.
pub fn resolve_program(
    program: &Path,
    path: &OsStr,
    foreign: &[PathBuf],
) -> io::Result<ProgramFiles> {
    let places = TrustedPlaces::new(path, foreign);
    let mut files = ProgramFiles {
        program: PathBuf::new(),
        readable: Vec::new(),
        search_path: Vec::new(),
        unlisted: Vec::new(),
    };
    files.program = files.add_program(program, &places, 0)?;
    files.readable.sort();
    files.readable.dedup();
    // Of nested directories the outer one suffices.
    let all = files.readable.clone();
    files.readable.retain(|path| !all.iter().any(|other| path != other && path.starts_with(other)));
    Ok(files)
}

impl<'a> TrustedPlaces<'a> {
    fn new(path: &'a OsStr, foreign: &[PathBuf]) -> Self {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let absolute = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        let system = SYSTEM_DIRECTORIES.iter().map(PathBuf::from);
        let directories = system.chain(absolute.map(|directory| real(&directory))).collect();
        Self { path, directories, foreign: foreign.iter().map(|path| real(path)).collect() }
    }

    /// Tests whether others determine the content of a path without links.
    fn is_foreign(&self, path: &Path) -> bool {
        self.foreign.iter().any(|directory| path.starts_with(directory))
    }

    /// Tests whether a path without links is of the system or in the search path.
    fn is_listed(&self, path: &Path) -> bool {
        let mut all = self.directories.iter().map(PathBuf::as_path);
        let mut stores = PACKAGE_STORES.iter().map(Path::new);
        all.any(|directory| path.starts_with(directory))
            || stores.any(|directory| path.starts_with(directory))
    }

    /// Tests whether a program is a placeholder that the operator has in the search path.
    fn is_placeholder(&self, program: &Path) -> bool {
        let Some(directory) = program.parent() else { return false };
        directory.file_name() == Some(OsStr::new("shims"))
            && self.directories.iter().any(|listed| listed == directory)
            && !self.is_foreign(program)
    }
}

impl ProgramFiles {
    /// Returns the search path of the run: the directories of interpreters, then another path.
    #[must_use]
    pub fn join_path(&self, path: &OsStr) -> OsString {
        let all = self.search_path.iter().cloned().chain(std::env::split_paths(path));
        // A directory with a colon in its name cannot be part of a search path.
        std::env::join_paths(all).unwrap_or_else(|_| path.to_owned())
    }

    /// Adds the files of a program and of its interpreters; returns the file to start.
    fn add_program(
        &mut self,
        program: &Path,
        places: &TrustedPlaces<'_>,
        depth: usize,
    ) -> io::Result<PathBuf> {
        let mut start = pin_directory(program)?;
        if places.is_placeholder(&start) {
            start = pin_directory(&find_behind_placeholder(&start, places)?)?;
        }
        // What the operator has installed may consist of any files.
        let is_foreign = places.is_foreign(&start);
        let may_use =
            |path: &Path| !is_foreign || places.is_foreign(path) || places.is_listed(path);
        let mut link = start.clone();
        for _ in 0..MAX_DEPTH {
            self.add_file(&link);
            let Ok(target) = fs::read_link(&link) else { break };
            link = pin_directory(&link.parent().unwrap_or(Path::new("/")).join(target))?;
            if !may_use(&link) {
                self.unlisted.push(link);
                return Ok(start);
            }
        }
        let real = fs::canonicalize(&start)?;
        if !may_use(&real) {
            self.unlisted.push(real);
            return Ok(start);
        }
        self.add_file(&real);
        if depth > 0 {
            self.search_path.extend(start.parent().map(Path::to_owned));
        }
        if depth < MAX_DEPTH
            && let Some(interpreter) = read_interpreter(&real, places.path)
        {
            let named = pin_directory(&interpreter).map_err(|error| {
                let names = format!("{} names {}", real.display(), interpreter.display());
                io::Error::new(error.kind(), format!("{names}: {error}"))
            })?;
            match may_use(&named) {
                true => self.add_program(&named, places, depth + 1).map(drop)?,
                false => self.unlisted.push(named),
            }
        }
        Ok(start)
    }

    /// Adds what a file needs: its prefix, its package directory or only itself.
    fn add_file(&mut self, file: &Path) {
        if !SYSTEM_DIRECTORIES.iter().any(|directory| file.starts_with(directory)) {
            self.readable.push(find_prefix(file).unwrap_or_else(|| file.to_owned()));
        }
    }
}

/// Returns the directory with the libraries of a program, if there is one.
fn find_prefix(file: &Path) -> Option<PathBuf> {
    if let Some(store) = PACKAGE_STORES.iter().find(|store| file.starts_with(store)) {
        return Some(store.into());
    }
    let above = |name: &str| {
        let mut all: Vec<_> = file.ancestors().skip(1).collect();
        all.reverse();
        all.into_iter().find(|path| path.file_name() == Some(OsStr::new(name)))
    };
    // The packages of Homebrew use each other.
    if let Some(prefix) = above("Cellar").and_then(Path::parent) {
        return Some(prefix.to_owned());
    }
    if let Some(modules) = above("node_modules") {
        return Some(modules.to_owned());
    }
    let directory = file.parent()?;
    let prefix = directory.parent()?;
    let has_libraries = ["lib", "lib64", "pyvenv.cfg"].iter().any(|name| {
        let path = prefix.join(name);
        path.symlink_metadata().is_ok()
    });
    let is_prefix = directory.file_name() == Some(OsStr::new("bin")) && has_libraries;
    (is_prefix && !is_shared_directory(prefix)).then(|| prefix.to_owned())
}

/// Tests whether a directory has more than the files of a program, so that it is not a prefix.
fn is_shared_directory(directory: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|home| fs::canonicalize(home).ok());
    let own = home.is_some_and(|home| {
        home.starts_with(directory)
            || [".local", ".cargo"].iter().any(|name| directory == home.join(name))
    });
    // A home of another user, or a project, has more than a program.
    let mut private = SECRET_NAMES.iter().chain([&".env", &".git"]);
    own || directory.components().count() < 3
        || private.any(|name| directory.join(name).symlink_metadata().is_ok())
}

/// Returns the path with the links of its directory resolved, but not one of the file itself.
fn pin_directory(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::NotFound)?;
    let directory = file.parent().ok_or(io::ErrorKind::NotFound)?;
    let pinned = fs::canonicalize(directory)?.join(name);
    // Checked here, because the error of a later start names no cause.
    fs::metadata(&pinned).map(|_| pinned)
}

/// Returns the program that a placeholder of the search path starts.
fn find_behind_placeholder(placeholder: &Path, places: &TrustedPlaces<'_>) -> io::Result<PathBuf> {
    let name = placeholder.file_name().unwrap_or_default();
    let root = placeholder.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mut reasons = Vec::new();
    for manager in SHIM_MANAGERS {
        let own = ["bin", "libexec"].map(|directory| root.join(directory).join(manager));
        let own = own.into_iter().find(|program| is_executable(program));
        let belongs = root
            .components()
            .any(|part| part.as_os_str().to_string_lossy().trim_start_matches('.') == manager);
        let found = own.or_else(|| belongs.then(|| find_in_path(manager, places.path)).flatten());
        let Some(program) = found else { continue };
        let real = fs::canonicalize(&program)?;
        if places.is_foreign(&program) || places.is_foreign(&real) {
            reasons.push(format!("{manager}: it is not the operator's"));
            continue;
        }
        let exit = match ask_manager(manager, &program, root, name) {
            Ok(exit) => exit,
            Err(error) => {
                reasons.push(format!("{manager}: {error}"));
                continue;
            }
        };
        let line = exit.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let resolved = Path::new(OsStr::from_bytes(line));
        // A manager without programs of its own finds its placeholder in the search path.
        let is_real = is_executable(resolved)
            && pin_directory(resolved).is_ok_and(|pinned| !places.is_placeholder(&pinned));
        if exit.status.success() && resolved.is_absolute() && is_real {
            return Ok(resolved.to_owned());
        }
        reasons.push(format!("{manager}: {}", to_printable(&exit.stderr, MAX_MESSAGE)));
    }
    let reason = match reasons.is_empty() {
        true => "its version manager was not found".to_owned(),
        false => reasons.join("; "),
    };
    let message = format!("{} is a placeholder of no program: {reason}", placeholder.display());
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

/// Runs `which NAME` of a version manager, which gets no other variables than it needs.
fn ask_manager(
    manager: &str,
    program: &Path,
    root: &Path,
    name: &OsStr,
) -> Result<ProcessExit, io::Error> {
    let upper = manager.to_ascii_uppercase();
    let version = format!("{upper}_VERSION");
    let inherited = MANAGER_VARIABLES.into_iter().chain([version.as_str()]);
    let mut environment: BTreeMap<OsString, OsString> =
        inherited.filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
    // Otherwise it looks in the home directory of this process, which may be another one.
    let variable = match manager {
        "asdf" | "mise" => format!("{upper}_DATA_DIR"),
        _ => format!("{upper}_ROOT"),
    };
    environment.insert(variable.into(), root.into());
    let launch = LaunchSpec {
        program: program.to_owned(),
        arguments: vec!["which".into(), name.to_owned()],
        environment,
        folder: "/".into(),
    };
    // Some callers are on a thread of a runtime, which must not start another one.
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run_limited(&launch, MANAGER_LIMITS)).map_err(io::Error::other)
    };
    std::thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|_| Err(io::Error::other("its thread has failed")))
}

/// Returns the interpreter in the first line of a script, if the file is one.
fn read_interpreter(file: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(MAX_SHEBANG).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let interpreter = Path::new(words.next()?);
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter.to_owned()).filter(|path| path.is_absolute());
    }
    // `env` may set variables first: `env -S A=b node --flag`.
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    find_in_path(name, path)
}
