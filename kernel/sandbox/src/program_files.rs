//! The files that a program consists of: its real file, its interpreter and their directories.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tools that put placeholders of programs into a directory `shims`, and print the program with
/// `which NAME`.
const SHIM_MANAGERS: [&str; 7] = ["pyenv", "nodenv", "rbenv", "plenv", "goenv", "asdf", "mise"];

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
/// Placeholders of version managers such as pyenv are replaced by the program that they would
/// start, which runs `pyenv which`. Blocks.
///
/// # Errors
/// The error of the system if the program does not exist, or a placeholder stands for none.
pub fn resolve_program(program: &Path, path: &OsStr) -> io::Result<ProgramFiles> {
    let mut files =
        ProgramFiles { program: PathBuf::new(), readable: Vec::new(), search_path: Vec::new() };
    files.program = files.add_program(program, path, 0)?;
    files.readable.sort();
    files.readable.dedup();
    // Of nested directories the outer one suffices.
    let all = files.readable.clone();
    files.readable.retain(|path| !all.iter().any(|other| path != other && path.starts_with(other)));
    Ok(files)
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
    fn add_program(&mut self, program: &Path, path: &OsStr, depth: usize) -> io::Result<PathBuf> {
        let program = match is_placeholder(program) {
            true => find_behind_placeholder(program, path)?,
            false => program.to_owned(),
        };
        let start = pin_directory(&program)?;
        let mut link = start.clone();
        for _ in 0..MAX_DEPTH {
            self.add_file(&link);
            let Ok(target) = fs::read_link(&link) else { break };
            link = pin_directory(&link.parent().unwrap_or(Path::new("/")).join(target))?;
        }
        let real = fs::canonicalize(&start)?;
        self.add_file(&real);
        if depth > 0 {
            self.search_path.extend(start.parent().map(Path::to_owned));
        }
        if depth < MAX_DEPTH
            && let Some(interpreter) = read_interpreter(&real, path)
        {
            self.add_program(&interpreter, path, depth + 1)?;
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
        directory == home || [".local", ".cargo"].iter().any(|name| directory == home.join(name))
    });
    own || directory.components().count() < 3
}

/// Returns the path with the links of its directory resolved, but not one of the file itself.
fn pin_directory(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::NotFound)?;
    let directory = file.parent().ok_or(io::ErrorKind::NotFound)?;
    let pinned = fs::canonicalize(directory)?.join(name);
    // Checked here, because the error of a later start names no cause.
    fs::metadata(&pinned).map(|_| pinned)
}

fn is_placeholder(program: &Path) -> bool {
    let directory = program.parent().and_then(Path::file_name);
    directory == Some(OsStr::new("shims"))
}

/// Returns the program that a placeholder starts.
fn find_behind_placeholder(placeholder: &Path, path: &OsStr) -> io::Result<PathBuf> {
    let name = placeholder.file_name().unwrap_or_default();
    let root = placeholder.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mut reasons = Vec::new();
    for manager in SHIM_MANAGERS {
        let own = ["bin", "libexec"].map(|directory| root.join(directory).join(manager));
        let own = own.into_iter().find(|program| is_executable(program));
        let belongs = root
            .components()
            .any(|part| part.as_os_str().to_string_lossy().trim_start_matches('.') == manager);
        let found = own.or_else(|| belongs.then(|| find_in_path(manager, path)).flatten());
        let Some(program) = found else { continue };
        let mut command = Command::new(&program);
        // Otherwise it looks in the home directory of this process, which may be another one.
        let variable = match manager {
            "asdf" | "mise" => format!("{}_DATA_DIR", manager.to_ascii_uppercase()),
            _ => format!("{}_ROOT", manager.to_ascii_uppercase()),
        };
        command.env(variable, root);
        let output =
            command.arg("which").arg(name).current_dir("/").stdin(Stdio::null()).output()?;
        let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let resolved = Path::new(OsStr::from_bytes(line));
        // A manager without programs of its own finds its placeholder in the search path.
        let is_real = is_executable(resolved) && !is_placeholder(resolved);
        if output.status.success() && resolved.is_absolute() && is_real {
            return Ok(resolved.to_owned());
        }
        reasons.push(format!("{manager}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let reason = match reasons.is_empty() {
        true => "its version manager was not found".to_owned(),
        false => reasons.join("; "),
    };
    let message = format!("{} is a placeholder of no program: {reason}", placeholder.display());
    Err(io::Error::new(io::ErrorKind::NotFound, message))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write_program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn links_and_first_lines_are_followed() {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let (python, venv) = (base.join("py/3.12/bin/python3.12"), base.join("venv"));
        write_program(&python, "binary");
        fs::create_dir(base.join("py/3.12/lib")).unwrap();
        fs::create_dir_all(venv.join("bin")).unwrap();
        fs::write(venv.join("pyvenv.cfg"), "").unwrap();
        symlink(&python, venv.join("bin/python")).unwrap();
        symlink("python", venv.join("bin/python3")).unwrap();
        write_program(&base.join("tools/server"), "#!/usr/bin/env python3\n");
        symlink(base.join("tools"), base.join("current")).unwrap();
        let path = std::env::join_paths([venv.join("bin")]).unwrap();
        let files = resolve_program(&base.join("current/server"), &path).unwrap();
        assert_eq!(files.program, base.join("tools/server"));
        assert_eq!(files.readable, [base.join("py/3.12"), base.join("tools/server"), venv.clone()]);
        assert_eq!(files.search_path, [venv.join("bin")]);
        assert!(files.join_path(OsStr::new("/usr/bin")).to_string_lossy().ends_with(":/usr/bin"));
        let direct = resolve_program(&venv.join("bin/python3"), &path).unwrap();
        assert_eq!(direct.program, venv.join("bin/python3"), "the link names the environment");
        assert!(resolve_program(&base.join("missing"), &path).is_err());
    }

    #[test]
    fn placeholder_is_replaced_by_its_program() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap().join(".pyenv");
        let real = root.join("versions/3/bin/python3");
        write_program(&real, "binary");
        fs::create_dir(root.join("versions/3/lib")).unwrap();
        write_program(&root.join("shims/python3"), "#!/bin/sh\nexit 9\n");
        let script =
            format!("#!/bin/sh\n[ \"$1 $2\" = 'which python3' ] && echo {}\n", real.display());
        write_program(&root.join("bin/pyenv"), &script);
        let files = resolve_program(&root.join("shims/python3"), OsStr::new("/usr/bin")).unwrap();
        assert_eq!((files.program, files.readable), (real, vec![root.join("versions/3")]));
        write_program(&root.join("shims/other"), "");
        let error = resolve_program(&root.join("shims/other"), OsStr::new("/usr/bin")).unwrap_err();
        assert!(error.to_string().contains("placeholder of no program: pyenv:"), "{error}");
    }

    #[test]
    fn shared_directories_are_no_prefix() {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        write_program(&base.join("project/bin/tool"), "binary");
        let files = resolve_program(&base.join("project/bin/tool"), OsStr::new("")).unwrap();
        assert_eq!(files.readable, [base.join("project/bin/tool")]);
        let script = base.join("lib/node_modules/@a/b/dist/index.js");
        write_program(&script, "text");
        let files = resolve_program(&script, OsStr::new("")).unwrap();
        assert_eq!(files.readable, [base.join("lib/node_modules")]);
        assert_eq!(
            find_prefix(Path::new("/nix/store/x-python/bin/python3")),
            Some("/nix/store".into())
        );
    }
}
