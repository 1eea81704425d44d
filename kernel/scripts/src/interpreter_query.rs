//! Questions to interpreters about their own directories.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use skillhost_sandbox::{LaunchSpec, ProcessLimits, run_limited, to_printable};
use tokio::runtime::Builder;

use crate::interpreter::{Interpreter, InterpreterError};

/// The time limit of a question.
const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer, in bytes.
const MAX_ANSWER: usize = 256 * 1024;

/// The longest message of an interpreter that fails, in characters.
const MAX_MESSAGE: usize = 300;

/// The variables that an interpreter gets: version managers find their versions by them.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "USER", "PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "ASDF_DIR", "ASDF_DATA_DIR"];

const PYTHON: &str = "import json, os, site, sys
reads = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
sites = (site.getsitepackages() if hasattr(site, 'getsitepackages') else []) + [user] * bool(user)
venv = sys.prefix != sys.base_prefix
print(json.dumps({'program': os.path.realpath(sys.executable), 'reads': reads + sites,
                  'user_base': site.getuserbase() if user else None,
                  'sites': [s for s in sites if s.startswith(sys.prefix)] if venv else []}))";

const NODE: &str =
    "const p = require('path'); const prefix = p.dirname(p.dirname(process.execPath));
console.log(JSON.stringify({program: process.execPath, reads: [prefix],
  packages: p.join(prefix, 'lib', 'node_modules'), version: process.versions.node}))";

const RUBY: &str = "require 'json'; require 'rbconfig'
puts({program: RbConfig.ruby, reads: [RbConfig::CONFIG['prefix']] + Gem.path}.to_json)";

const PERL: &str = "use Config; my @r = grep { m{^/} && !m{[\"\\\\]} } ($Config{prefix}, @INC);
print '{\"program\":\"', $Config{perlpath}, '\",\"reads\":[', join(',', map { qq(\"$_\") } @r), ']}'";

/// The answer of an interpreter.
#[derive(Debug, Deserialize)]
struct InterpreterAnswer {
    program: PathBuf,
    reads: Vec<PathBuf>,
    #[serde(default)]
    user_base: Option<String>,
    #[serde(default)]
    sites: Vec<String>,
    #[serde(default)]
    packages: Option<PathBuf>,
    #[serde(default)]
    version: Option<String>,
}

pub(crate) fn query_python(file: &Path) -> Result<Interpreter, InterpreterError> {
    let answer = query(file, &["-c", PYTHON])?;
    let mut interpreter = to_interpreter(&answer);
    // The home of a run is private, so the packages of the user are named.
    if let Some(base) = answer.user_base {
        interpreter.environment.insert("PYTHONUSERBASE".to_owned(), base);
    }
    // The real file does not know that it was started in a virtual environment.
    if !answer.sites.is_empty() {
        interpreter.environment.insert("PYTHONPATH".to_owned(), answer.sites.join(":"));
    }
    Ok(interpreter)
}

pub(crate) fn query_node(file: &Path) -> Result<Interpreter, InterpreterError> {
    let answer = query(file, &["-e", NODE])?;
    let mut interpreter = to_interpreter(&answer);
    if let Some(packages) = answer.packages.filter(|packages| packages.is_dir()) {
        let text = packages.display().to_string();
        interpreter.environment.insert("NODE_PATH".to_owned(), text);
        interpreter.packages = Some(packages);
    }
    interpreter.version = answer.version;
    Ok(interpreter)
}

pub(crate) fn query_ruby(file: &Path) -> Result<Interpreter, InterpreterError> {
    Ok(to_interpreter(&query(file, &["-e", RUBY])?))
}

pub(crate) fn query_perl(file: &Path) -> Result<Interpreter, InterpreterError> {
    Ok(to_interpreter(&query(file, &["-e", PERL])?))
}

fn to_interpreter(answer: &InterpreterAnswer) -> Interpreter {
    let program = fs::canonicalize(&answer.program).unwrap_or_else(|_| answer.program.clone());
    let mut reads = answer.reads.clone();
    reads.extend(program.parent().map(Path::to_owned));
    Interpreter::new(program, reads)
}

/// Starts a program of the operator, outside of the sandbox: its directories are the policy.
fn query(file: &Path, arguments: &[&str]) -> Result<InterpreterAnswer, InterpreterError> {
    let failed = |reason: String| InterpreterError::Query { program: file.to_owned(), reason };
    let variables =
        INHERITED.iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
    let launch = LaunchSpec {
        program: file.to_owned(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: variables.collect(),
        folder: "/".into(),
    };
    let limits = ProcessLimits { time: QUERY_TIMEOUT, memory: None, stdout: MAX_ANSWER };
    // Callers are on threads that may block, with or without a runtime of their own.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let exit = runtime.block_on(run_limited(&launch, limits));
    let exit = exit.map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&exit.stdout).map_err(|error| {
        let said = to_printable(&exit.stderr, MAX_MESSAGE);
        failed(if said.is_empty() { error.to_string() } else { said })
    })
}
