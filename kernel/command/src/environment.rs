//! The environment of commands.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The variables that a command gets, where they are set. Keys of models and other secrets of the
/// kernel's environment are not among them.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
];

/// Returns the environment of a command; `variable` reads one of this process.
pub(crate) fn command_environment(
    variable: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> =
        INHERITED.iter().filter_map(|name| Some(((*name).into(), variable(name)?))).collect();
    // The output is read by a model.
    environment.insert("TERM".into(), "dumb".into());
    environment.insert("NO_COLOR".into(), "1".into());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_inherited() {
        let all = |name: &str| Some(OsString::from(format!("value of {name}")));
        let environment = command_environment(all);
        assert_eq!(environment.len(), INHERITED.len() + 2);
        for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "SKILLHOST_HOME"] {
            assert!(!environment.contains_key(&OsString::from(name)), "{name}");
        }
        assert_eq!(environment[&OsString::from("TERM")], "dumb");
    }
}
