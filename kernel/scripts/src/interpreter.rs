//! Interpreters: programs that run scripts, and the reasons why one is missing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use skillhost_payload::{CallError, ErrorKind};

/// A program that runs scripts, with its arguments and the directories that it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The real file.
    pub program: PathBuf,
    /// The arguments before the script.
    pub arguments: Vec<String>,
    /// The directories that it reads besides those of the system.
    pub reads: Vec<PathBuf>,
    /// The variables that it requires, such as `NODE_PATH`.
    pub environment: BTreeMap<String, String>,
    /// The directories of other interpreters that the script starts by their names.
    pub(crate) companions: Vec<PathBuf>,
    /// The directory of global packages that is linked next to the copy of a skill.
    pub packages: Option<PathBuf>,
    /// The version, where the mapping depends on it.
    pub(crate) version: Option<String>,
    /// Whether it is a shell, which cannot run text with CRLF line ends.
    pub is_shell: bool,
}

/// The reason why no interpreter runs a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterpreterError {
    /// Neither the name of the script nor its first line names an interpreter.
    Unsupported {
        /// The script.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The program is not installed.
    NotFound {
        /// The names that were looked for.
        names: Vec<String>,
        /// The file name extension, or `#!`.
        suffix: String,
    },
    /// The program could not be asked for its directories.
    Query {
        /// The program.
        program: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for InterpreterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { path, reason } => write!(f, "{path} cannot be run: {reason}"),
            Self::NotFound { names, .. } => {
                write!(f, "interpreter `{}` not found", names.join("` or `"))
            }
            Self::Query { program, reason } => {
                write!(f, "{} did not report its directories: {reason}", program.display())
            }
        }
    }
}

impl std::error::Error for InterpreterError {}

impl InterpreterError {
    /// Converts it into the error of a call.
    #[must_use]
    pub fn to_call_error(&self) -> CallError {
        let error = |kind, hint: String| CallError::new(kind, self.to_string()).with_hint(hint);
        match self {
            Self::Unsupported { .. } => error(
                ErrorKind::InvalidArgument,
                "scripts: .py, .sh, .bash, .js, .mjs, .cjs, .ts, .rb, .pl, .ps1, and executable files \
                 whose #! line names such an interpreter"
                    .to_owned(),
            ),
            Self::NotFound { suffix, .. } => error(
                ErrorKind::NotFound,
                match suffix.as_str() {
                    "#!" => "install it, or give the script a name with an extension".to_owned(),
                    suffix => format!(
                        "install it, or set sandbox.interpreters: {{{suffix}: [PROGRAM]}} in \
                         skillhost.yaml"
                    ),
                },
            ),
            Self::Query { .. } => error(
                ErrorKind::Unavailable,
                "set sandbox.interpreters in skillhost.yaml to a program that works".to_owned(),
            ),
        }
    }
}

impl Interpreter {
    pub(crate) fn new(program: PathBuf, reads: Vec<PathBuf>) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            reads,
            environment: BTreeMap::new(),
            companions: Vec::new(),
            packages: None,
            version: None,
            is_shell: false,
        }
    }

    /// Makes another interpreter available to the script, with its packages.
    pub(crate) fn add_companion(&mut self, other: Self) {
        self.companions.extend(other.program.parent().map(PathBuf::from));
        self.reads.extend(other.reads);
        self.environment.extend(other.environment);
        self.packages = self.packages.take().or(other.packages);
    }
}
