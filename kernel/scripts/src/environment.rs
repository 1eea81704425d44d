//! The environment of a script: a list of variables, and those that the caller may add.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use skillhost_payload::{CallError, ErrorKind};

use crate::interpreter::Interpreter;

/// The limits of the variables of a call.
const MAX_VARIABLES: usize = 64;
const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 32 << 10;

/// The directories of programs that a script may start.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The variables of this process that a script gets.
const INHERITED: [&str; 4] = ["LANG", "LC_ALL", "LC_CTYPE", "TZ"];

/// Names that a call must not set: their values are code, options or paths of code of interpreters,
/// shells, the C library and common tools, so that a call could run code without an approval.
const REFUSED: [&str; 29] = [
    "BROWSER",
    "CDPATH",
    "EDITOR",
    "ENV",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCPATH",
    "MAKEFLAGS",
    "MAKEFILES",
    "NLSPATH",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PSMODULEPATH",
    "SHELL",
    "SHELLOPTS",
    "TAR_OPTIONS",
    "VISUAL",
    "_JAVA_OPTIONS",
];
const REFUSED_STARTS: [&str; 19] = [
    "BASH", "BUNDLE", "BUN_", "CARGO_", "DENO_", "DYLD_", "GCONV_", "GEM_", "GIT_", "JAVA_", "LD_",
    "MALLOC_", "NODE_", "NPM_", "OPENSSL_", "PERL", "PYTHON", "RUBY", "RUSTC",
];

/// The variables that the kernel sets for each run.
const OWN: [&str; 4] = ["TMPDIR", "USER", "LOGNAME", "SKILL_DIR"];

/// The directories of a run that variables name.
pub(crate) struct RunDirectories<'a> {
    /// The read-only copy of the skill.
    pub(crate) skill: &'a Path,
    /// The private home.
    pub(crate) home: &'a Path,
    /// The private directory for temporary files.
    pub(crate) temporary: &'a Path,
}

/// Checks the variables of a call.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] that names every variable which must not be set.
pub(crate) fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), CallError> {
    let refused: Vec<_> = variables.keys().filter(|name| is_refused(name)).cloned().collect();
    if !refused.is_empty() {
        let names = refused.join(", ");
        let message = format!("these variables cannot be set for a script: {names}");
        return Err(CallError::new(ErrorKind::InvalidArgument, message)
            .with_hint("leave them out; pass the values as arguments or under other names"));
    }
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.len() <= MAX_NAME
    };
    let reason = if variables.len() > MAX_VARIABLES {
        format!("more than {MAX_VARIABLES} variables")
    } else if let Some(name) = variables.keys().find(|name| !is_name(name)) {
        let name: String = name.chars().take(MAX_NAME).collect();
        format!("{name:?} is not the name of a variable")
    } else if let Some((name, _)) =
        variables.iter().find(|(_, value)| value.len() > MAX_VALUE || value.contains('\0'))
    {
        format!("the value of {name} has a NUL or more than {MAX_VALUE} bytes")
    } else {
        return Ok(());
    };
    Err(CallError::new(ErrorKind::InvalidArgument, reason)
        .with_hint("names have letters, digits and `_`"))
}

fn is_refused(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    REFUSED.contains(&upper.as_str())
        || OWN.contains(&upper.as_str())
        || REFUSED_STARTS.iter().any(|start| upper.starts_with(start))
        || upper.ends_with("_PROXY")
}

/// Returns the complete environment of a run; `variable` reads one of this process.
pub(crate) fn build_environment(
    interpreter: &Interpreter,
    directories: &RunDirectories<'_>,
    variables: &BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    let mut set = |name: &str, value: OsString| environment.insert(name.into(), value);
    for name in INHERITED {
        if let Some(value) = variable(name).filter(|value| value.to_str().is_some()) {
            set(name, value);
        }
    }
    // Without a locale some interpreters take all text for ASCII.
    if variable("LANG").is_none() && variable("LC_ALL").is_none() {
        set("LANG", "C.UTF-8".into());
    }
    set("PATH", build_search_path(interpreter).into());
    set("HOME", directories.home.into());
    set("TMPDIR", directories.temporary.into());
    set("USER", "sandbox".into());
    set("LOGNAME", "sandbox".into());
    set("SKILL_DIR", directories.skill.into());
    // Repositories in the work directory belong to another user inside of the run.
    set("GIT_CONFIG_COUNT", "1".into());
    set("GIT_CONFIG_KEY_0", "safe.directory".into());
    set("GIT_CONFIG_VALUE_0", "*".into());
    set("TERM", "dumb".into());
    set("NO_COLOR", "1".into());
    for (name, value) in interpreter.environment.iter().chain(variables) {
        set(name, value.into());
    }
    environment
}

/// Puts the directories of the interpreters first, so that a script finds the same ones by their names.
fn build_search_path(interpreter: &Interpreter) -> String {
    let own = interpreter.program.parent().map(PathBuf::from);
    let all = own.iter().chain(&interpreter.companions).filter_map(|directory| directory.to_str());
    let is_other = |text: &&str| !text.contains(':') && !SYSTEM_PATH.split(':').any(|d| d == *text);
    all.filter(is_other).chain([SYSTEM_PATH]).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_variables_are_named() {
        let all = ["LD_PRELOAD", "DYLD_X", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "IFS"];
        let more = [
            "PERL5LIB",
            "PERLLIB",
            "RUBYOPT",
            "GIT_SSH",
            "http_proxy",
            "PATH",
            "HOME",
            "TMPDIR",
            "path",
            "SHELLOPTS",
            "PS4",
            "BASHOPTS",
            "GEM_PATH",
            "NODE_REPL_EXTERNAL_MODULE",
            "OPENSSL_CONF",
            "GCONV_PATH",
            "GLIBC_TUNABLES",
            "PSModulePath",
            "npm_config_prefix",
        ];
        let variables: BTreeMap<String, String> = all
            .iter()
            .chain(&more)
            .chain(&["FINE"])
            .map(|n| ((*n).to_owned(), "x".into()))
            .collect();
        let error = check_variables(&variables).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        for name in all.iter().chain(&more) {
            assert!(error.message.contains(name), "{name}: {}", error.message);
        }
        assert!(!error.message.contains("FINE"), "{}", error.message);
    }

    #[test]
    fn odd_names_and_values_are_rejected() {
        let one = |name: &str, value: &str| {
            check_variables(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        assert_eq!(one("A_1", "any\nvalue"), Ok(()));
        for (name, value) in [("", "x"), ("1A", "x"), ("A=B", "x"), ("A B", "x"), ("A", "\0")] {
            assert!(one(name, value).is_err(), "{name:?} {value:?}");
        }
        assert!(one("A", &"x".repeat(MAX_VALUE + 1)).is_err());
    }

    #[test]
    fn environment_is_a_list() {
        let interpreter = Interpreter::new("/opt/py/bin/python3".into(), Vec::new());
        let directories = RunDirectories {
            skill: "/r/pdf".as_ref(),
            home: "/s/home".as_ref(),
            temporary: "/s/tmp".as_ref(),
        };
        let variables = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        let all = |name: &str| Some(OsString::from(format!("value of {name}")));
        let environment = build_environment(&interpreter, &directories, &variables, all);
        let text = |name: &str| environment[&OsString::from(name)].to_str().unwrap().to_owned();
        assert_eq!((text("HOME"), text("SKILL_DIR")), ("/s/home".into(), "/r/pdf".into()));
        assert!(text("PATH").starts_with("/opt/py/bin:/usr/local/bin"), "{}", text("PATH"));
        assert_eq!((text("A"), text("LANG")), ("b".into(), "value of LANG".into()));
        for name in ["OPENAI_API_KEY", "SSH_AUTH_SOCK", "SKILLHOST_HOME", "PYTHONPATH"] {
            assert!(!environment.contains_key(&OsString::from(name)), "{name}");
        }
    }
}
