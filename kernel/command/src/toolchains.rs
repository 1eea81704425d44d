//! The programs of developers that a command may read, besides those of the system.
//!
//! Only directories with programs and their libraries: never a home directory as a whole, and no
//! file that is known to hold a password or token.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directories whose programs every run can read.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// The names of directories with programs below an installation.
const PROGRAM_DIRECTORIES: [&str; 3] = ["bin", "sbin", "shims"];

/// The names of directories that an installation has in addition to its programs.
const INSTALLATION_MARKS: [&str; 4] = ["lib", "libexec", "versions", "toolchains"];

/// Directories of the user with more than an installation: only the listed parts are readable.
const PARTS: [(&str, &[&str]); 3] = [
    // Without `credentials.toml`.
    (".cargo", &["bin", "registry", "git", "config.toml", "env"]),
    // Without `share`, which has key rings.
    (".local", &["bin", "lib"]),
    ("go", &["bin", "pkg"]),
];

/// Variables and directories of installations, the latter relative to the user's home.
const INSTALLATIONS: [(&str, &str); 4] = [
    ("RUSTUP_HOME", ".rustup"),
    ("PYENV_ROOT", ".pyenv"),
    ("NVM_DIR", ".nvm"),
    ("JAVA_HOME", ".sdkman/candidates/java"),
];

/// The readable toolchains, and the `PATH` in which links are resolved.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Toolchains {
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) search_path: OsString,
}

/// Finds the toolchains that exist; `variable` reads one of this process. Blocks.
pub(crate) fn find_toolchains(
    user_home: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Toolchains {
    let mut found = Toolchains::default();
    let mut search = Vec::new();
    let path = variable("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path).filter(|directory| directory.is_absolute()) {
        // A policy has no paths with links, and a program finds no link outside of it.
        let Ok(directory) = directory.canonicalize() else { continue };
        if search.contains(&directory) || !directory.is_dir() {
            continue;
        }
        if !is_system(&directory) && !user_home.starts_with(&directory) {
            found.add(installation_of(&directory, user_home));
        }
        search.push(directory);
    }
    for (name, below) in INSTALLATIONS {
        let place = variable(name).map_or_else(|| user_home.join(below), PathBuf::from);
        // A variable must not open what contains everything.
        if let Ok(place) = place.canonicalize()
            && place.is_absolute()
            && !user_home.starts_with(&place)
            && !is_system(&place)
        {
            found.add(place);
        }
    }
    for (directory, parts) in PARTS {
        let variable = match directory {
            ".cargo" => variable("CARGO_HOME"),
            "go" => variable("GOPATH"),
            _ => None,
        };
        let place = variable.map_or_else(|| user_home.join(directory), PathBuf::from);
        for part in parts.iter().map(|part| place.join(part)) {
            if let Ok(part) = part.canonicalize() {
                found.add(part);
            }
        }
    }
    found.search_path = std::env::join_paths(search).unwrap_or_default();
    found
}

impl Toolchains {
    fn add(&mut self, path: PathBuf) {
        if !self.readable.iter().any(|known| path.starts_with(known)) {
            self.readable.retain(|known| !known.starts_with(&path));
            self.readable.push(path);
        }
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Returns the installation of a directory with programs, or the directory alone.
fn installation_of(programs: &Path, user_home: &Path) -> PathBuf {
    let whole = programs.parent().filter(|whole| {
        let is_program_directory =
            programs.file_name().is_some_and(|name| PROGRAM_DIRECTORIES.iter().any(|p| name == *p));
        let is_partial = PARTS.iter().any(|(name, _)| whole.ends_with(name));
        is_program_directory
            && !is_partial
            && !user_home.starts_with(whole)
            && INSTALLATION_MARKS.iter().any(|mark| whole.join(mark).is_dir())
    });
    whole.unwrap_or(programs).to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn installations_are_readable_and_secrets_are_not() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().canonicalize().unwrap().join("user");
        for directory in [
            "bin",
            ".cargo/bin",
            ".cargo/registry",
            ".local/bin",
            ".local/share/keyrings",
            "tools/node/bin",
            "tools/node/lib",
            "scripts/bin",
            ".rustup/toolchains",
        ] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        fs::write(home.join(".cargo/credentials.toml"), "").unwrap();
        std::os::unix::fs::symlink("tools/node", home.join("node")).unwrap();
        let path = ["bin", ".cargo/bin", ".local/bin", "node/bin", "scripts/bin", ""]
            .map(|name| home.join(name));
        let path = std::env::join_paths(
            path.iter().map(PathBuf::as_path).chain([Path::new("/usr/bin"), Path::new("relative")]),
        );
        let path = path.unwrap();
        let found = find_toolchains(&home, |name| (name == "PATH").then(|| path.clone()));
        let mut readable: Vec<_> =
            found.readable.iter().map(|path| path.strip_prefix(&home).unwrap()).collect();
        readable.sort();
        let expected = [
            ".cargo/bin",
            ".cargo/registry",
            ".local/bin",
            ".rustup",
            "bin",
            "scripts/bin",
            "tools/node",
        ];
        assert_eq!(readable, expected.map(Path::new));
        let search: Vec<_> = std::env::split_paths(&found.search_path).collect();
        assert_eq!(search[3], home.join("tools/node/bin"), "the link is resolved");
        assert!(search.contains(&home), "it is searched, but not readable");
    }

    #[test]
    fn variables_open_no_home_directory() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().canonicalize().unwrap();
        for value in [home.as_path(), Path::new("/"), home.parent().unwrap()] {
            let found = find_toolchains(&home, |_| Some(value.into()));
            assert!(!found.readable.iter().any(|path| home.starts_with(path)), "{found:?}");
        }
    }
}
