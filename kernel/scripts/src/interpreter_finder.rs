//! The mapping of scripts to interpreters.
//!
//! The name of a script decides, or the `#!` line of an executable without a known name. An
//! interpreter is resolved once to its real file: a version manager's shim would start a shell that
//! reads the user's settings. It is asked itself for its directories, and the answer is kept until
//! its file changes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::interpreter::{Interpreter, InterpreterError};
use crate::interpreter_query::{query_node, query_perl, query_python, query_ruby};

/// The length limit of a `#!` line, in bytes.
const MAX_SHEBANG: usize = 256;

/// The directories that every run may read; an interpreter there needs no further permission.
const SYSTEM_DIRS: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// The interpreters that are known, by the name of their program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum InterpreterFamily {
    Python,
    Shell,
    Node,
    Deno,
    Bun,
    Ruby,
    Perl,
    PowerShell,
    Other,
}

/// Finds interpreters in the directories of a `PATH`, with the settings of the operator.
#[derive(Debug, Clone)]
pub struct InterpreterFinder {
    overrides: BTreeMap<String, Vec<String>>,
    search_path: Vec<PathBuf>,
}

impl InterpreterFinder {
    /// Creates a finder. `overrides` are the `sandbox.interpreters` of the settings.
    #[must_use]
    pub fn new(overrides: BTreeMap<String, Vec<String>>, search_path: Vec<PathBuf>) -> Self {
        Self { overrides, search_path }
    }

    /// Creates a finder for the `PATH` of this process.
    #[must_use]
    pub fn from_environment(overrides: BTreeMap<String, Vec<String>>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::new(overrides, std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect())
    }

    /// Finds the interpreter of a script. May start programs and wait for them.
    ///
    /// # Errors
    /// [`InterpreterError`]
    pub fn find(
        &self,
        path: &str,
        content: &[u8],
        executable: bool,
    ) -> Result<Interpreter, InterpreterError> {
        let suffix = path.rsplit('/').next().and_then(|name| name.rfind('.').map(|at| &name[at..]));
        if let Some((suffix, command)) = suffix.and_then(|s| self.overrides.get_key_value(s))
            && let Some((program, arguments)) = command.split_first()
        {
            let names = vec![program.clone()];
            return self.resolve(&names, suffix, |_| arguments.to_vec());
        }
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let names = match suffix {
            Some(".py") => list(&["python3"]),
            Some(".sh" | ".bash") => list(&["bash"]),
            Some(".js" | ".mjs" | ".cjs") => list(&["node"]),
            Some(".ts") => return self.find_typescript(),
            Some(".rb") => list(&["ruby"]),
            Some(".pl") => list(&["perl"]),
            Some(".ps1") => list(&["pwsh"]),
            _ => {
                let name = parse_shebang(path, content, executable)?;
                return self.resolve(&[name], "#!", InterpreterFamily::default_arguments);
            }
        };
        self.resolve(&names, suffix.unwrap_or_default(), InterpreterFamily::default_arguments)
    }

    fn find_typescript(&self) -> Result<Interpreter, InterpreterError> {
        let (suffix, names) = (".ts", ["node".to_owned()]);
        let node = self.resolve(&names, suffix, InterpreterFamily::default_arguments)?;
        let version = node.version.as_deref().unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        match version {
            (22, 6..18) | (23, 0..6) => {
                let mut node = node;
                node.arguments.push("--experimental-strip-types".to_owned());
                Ok(node)
            }
            newer if newer >= (22, 18) => Ok(node),
            _ => Err(InterpreterError::NotFound {
                names: vec!["node 22.6 or later".to_owned()],
                suffix: suffix.to_owned(),
            }),
        }
    }

    fn resolve(
        &self,
        names: &[String],
        suffix: &str,
        arguments: impl Fn(InterpreterFamily) -> Vec<String>,
    ) -> Result<Interpreter, InterpreterError> {
        let found = names.iter().find_map(|name| Some((name, self.locate(name)?)));
        let Some((name, file)) = found else {
            let (names, suffix) = (names.to_vec(), suffix.to_owned());
            return Err(InterpreterError::NotFound { names, suffix });
        };
        let family = InterpreterFamily::of_program(name);
        let mut interpreter = resolve_cached(&file, family)?;
        interpreter.arguments = arguments(family);
        Ok(interpreter)
    }

    /// Returns the executable file of a name, or of an absolute path.
    fn locate(&self, name: &str) -> Option<PathBuf> {
        let is_program = |path: &Path| {
            fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
        };
        if name.contains('/') {
            let path = PathBuf::from(name);
            return (path.is_absolute() && is_program(&path)).then_some(path);
        }
        self.search_path.iter().map(|dir| dir.join(name)).find(|path| is_program(path))
    }
}

impl InterpreterFamily {
    fn of_program(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "python" => Self::Python,
            "bash" | "sh" | "dash" | "zsh" | "ksh" => Self::Shell,
            "node" | "nodejs" => Self::Node,
            "deno" => Self::Deno,
            "bun" => Self::Bun,
            "ruby" => Self::Ruby,
            "perl" => Self::Perl,
            "pwsh" => Self::PowerShell,
            _ => Self::Other,
        }
    }

    fn default_arguments(self) -> Vec<String> {
        let arguments: &[&str] = match self {
            // Not `-I`: scripts import the modules of their own directory.
            Self::Python => &["-B"],
            Self::Shell => &["--noprofile", "--norc"],
            Self::PowerShell => &["-NoProfile", "-File"],
            Self::Deno | Self::Bun => &["run"],
            Self::Node | Self::Ruby | Self::Perl | Self::Other => &[],
        };
        arguments.iter().map(|argument| (*argument).to_owned()).collect()
    }

    fn resolve(self, file: &Path) -> Result<Interpreter, InterpreterError> {
        let mut interpreter = match self {
            Self::Python => query_python(file)?,
            Self::Node => query_node(file)?,
            Self::Ruby => query_ruby(file)?,
            Self::Perl => query_perl(file)?,
            Self::Shell | Self::Deno | Self::Bun | Self::PowerShell | Self::Other => {
                let program = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
                let reads = program.parent().map(Path::to_owned).into_iter().collect();
                Interpreter::new(program, reads)
            }
        };
        interpreter.is_shell = self == Self::Shell;
        interpreter.reads = useful_directories(&interpreter.reads);
        Ok(interpreter)
    }
}

/// Returns the directories that exist, without those of the system, those in others and those that
/// would open the user's home.
fn useful_directories(all: &[PathBuf]) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").and_then(|home| fs::canonicalize(home).ok());
    let mut kept: Vec<PathBuf> = Vec::new();
    let mut found: Vec<PathBuf> = all.iter().filter_map(|dir| fs::canonicalize(dir).ok()).collect();
    found.sort();
    for dir in found {
        let is_system = SYSTEM_DIRS.iter().any(|system| dir.starts_with(system));
        let is_wide = dir.parent().is_none() || home.as_ref().is_some_and(|h| h.starts_with(&dir));
        if !is_system && !is_wide && !kept.iter().any(|outer| dir.starts_with(outer)) {
            kept.push(dir);
        }
    }
    kept
}

/// The identity of a program's file: another installation changes it.
type FileIdentity = (PathBuf, u64, u64, Option<SystemTime>, InterpreterFamily);

fn resolve_cached(file: &Path, family: InterpreterFamily) -> Result<Interpreter, InterpreterError> {
    static KNOWN: Mutex<Option<HashMap<FileIdentity, Interpreter>>> = Mutex::new(None);
    let meta = fs::metadata(file).ok();
    let key =
        meta.map(|meta| (file.to_owned(), meta.dev(), meta.ino(), meta.modified().ok(), family));
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = key.as_ref().and_then(|key| known().as_ref()?.get(key).cloned())
        // A version manager's shim stays while the version behind it goes.
        && found.program.exists()
    {
        return Ok(found);
    }
    let made = family.resolve(file)?;
    if let Some(key) = key {
        known().get_or_insert_default().insert(key, made.clone());
    }
    Ok(made)
}

/// Returns the name of the interpreter that the first line of an executable names.
fn parse_shebang(path: &str, content: &[u8], executable: bool) -> Result<String, InterpreterError> {
    let unsupported = |reason| InterpreterError::Unsupported { path: path.to_owned(), reason };
    let Some(line) = content.strip_prefix(b"#!") else {
        return Err(unsupported("its name has no known extension and it has no #! line"));
    };
    if !executable {
        return Err(unsupported("its name has no known extension and it is not executable"));
    }
    let line = &line[..line.len().min(MAX_SHEBANG)];
    let end = line.iter().position(|byte| *byte == b'\n');
    let line = end.map(|end| &line[..end]).ok_or_else(|| unsupported("its #! line has no end"))?;
    let line = std::str::from_utf8(line).map_err(|_| unsupported("its #! line is not UTF-8"))?;
    // An editor of another system may have left a carriage return; the program's name has none.
    let mut words = line.trim_end_matches('\r').split_ascii_whitespace();
    let mut program = words.next().unwrap_or_default();
    if program.rsplit('/').next() == Some("env") {
        program =
            words.find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or_default();
    }
    let name = program.rsplit('/').next().unwrap_or_default();
    match InterpreterFamily::of_program(name) {
        InterpreterFamily::Other => Err(unsupported("its #! line names no known interpreter")),
        // One of the user's other shells may not exist here, and `sh` has no such options.
        InterpreterFamily::Shell => Ok("bash".to_owned()),
        InterpreterFamily::Python => Ok("python3".to_owned()),
        InterpreterFamily::Node => Ok("node".to_owned()),
        _ => Ok(name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use skillhost_payload::ErrorKind;

    use super::*;

    fn finder() -> InterpreterFinder {
        InterpreterFinder::from_environment(BTreeMap::new())
    }

    #[test]
    fn shebangs_name_mapped_interpreters() {
        let parse = |text: &str| parse_shebang("run", text.as_bytes(), true);
        for (text, name) in [
            ("#!/usr/bin/env python3\nx", "python3"),
            ("#!/usr/bin/python\n", "python3"),
            ("#! /usr/bin/env -S python3.11 -u\n", "python3"),
            ("#!/usr/bin/env python3\r\nprint()\r\n", "python3"),
            ("#!/bin/sh -e\n", "bash"),
            ("#!/usr/bin/env A=b node\n", "node"),
            ("#!/usr/local/bin/perl5.36 -w\n", "perl"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(name), "{text:?}");
        }
        for text in ["", "echo", "#!", "#!\n", "#!/usr/bin/env\n", "#!/bin/cat\n", "#!/bin/sh"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(parse_shebang("run", b"#!/bin/sh\n", false).is_err());
        let long = format!("#!/{}sh\n", "x/".repeat(200));
        assert!(parse(&long).is_err());
    }

    #[test]
    fn missing_interpreter_names_setting() {
        let empty = InterpreterFinder::new(BTreeMap::new(), vec!["/nonexistent".into()]);
        let error = empty.find("a.py", b"", false).unwrap_err();
        assert_eq!(error.to_string(), "interpreter `python3` not found");
        let error = error.to_call_error();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.hint.contains("sandbox.interpreters: {.py: [PROGRAM]}"));
        let error = finder().find("a.exe", b"MZ", true).unwrap_err().to_call_error();
        assert!(error.hint.contains(".py, .sh"), "{}", error.message);
    }

    #[test]
    fn settings_override_mapping() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("mine");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let command = vec![program.display().to_string(), "-x".to_owned()];
        let overrides = BTreeMap::from([(".py".to_owned(), command)]);
        let found = InterpreterFinder::new(overrides, Vec::new()).find("a.py", b"", false).unwrap();
        assert_eq!(found.program, fs::canonicalize(&program).unwrap());
        assert_eq!(found.arguments, ["-x"]);
        assert_eq!(found.reads, [fs::canonicalize(dir.path()).unwrap()]);
    }

    #[test]
    fn wide_directories_are_not_readable() {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let all = ["/".into(), "/usr/lib".into(), "/nonexistent".into(), home];
        assert_eq!(useful_directories(&all), Vec::<PathBuf>::new());
    }

    #[test]
    fn python_is_its_real_file() {
        if test_support::find_interpreter("python3").is_none() {
            return;
        }
        let python = finder().find("scripts/a.py", b"", false).unwrap();
        assert_eq!(python.arguments, ["-B"]);
        assert_eq!(fs::canonicalize(&python.program).unwrap(), python.program);
        let head = fs::read(&python.program).unwrap();
        assert!(!head.starts_with(b"#!"), "{} is a shim", python.program.display());
        assert_eq!(finder().find("b.py", b"", false).unwrap(), python);
    }
}
