//! `cargo xtask deny`: licenses, sources and known vulnerabilities, offline.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::process::{cargo_command, run_command};
use crate::workspace::Result;

/// Runs cargo-deny if it is installed, and reports if it is not. Advisories are checked if their
/// database was fetched.
pub(crate) fn cmd_deny() -> Result<()> {
    let mut probe = cargo_command(["deny", "--version"]);
    let installed = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("SKIPPED: cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    let mut arguments = vec!["deny", "--offline", "check", "bans", "licenses", "sources"];
    match cargo_home().as_deref().is_some_and(has_database) {
        true => arguments.push("advisories"),
        false => println!("SKIPPED advisories: no database (cargo deny fetch db)"),
    }
    run_command(&mut cargo_command(arguments))
}

/// Returns whether cargo-deny has fetched a database of advisories.
fn has_database(cargo_home: &Path) -> bool {
    let databases = std::fs::read_dir(cargo_home.join("advisory-dbs"));
    databases.is_ok_and(|entries| {
        let folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.iter().any(|folder| folder.join("crates").is_dir())
    })
}

/// Returns the directory of cargo's own data.
fn cargo_home() -> Option<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn database_is_found_where_fetched() {
        let temp = std::env::temp_dir().join(format!("xtask-deny-{}", std::process::id()));
        assert!(!has_database(&temp));
        let database = temp.join("advisory-dbs/advisory-db-3157b0e258782691");
        fs::create_dir_all(&database).expect("it can be created");
        assert!(!has_database(&temp), "an interrupted fetch is none");
        fs::create_dir(database.join("crates")).expect("it can be created");
        assert!(has_database(&temp));
        fs::remove_dir_all(temp).expect("it can be removed");
    }

    #[test]
    fn ignored_advisories_have_reasons() {
        let text =
            fs::read_to_string(crate::workspace::root().join("deny.toml")).expect("deny.toml");
        let (_, section) = text.split_once("\n[advisories]\n").expect("a section `advisories`");
        let section = section.split("\n[").next().unwrap_or_default();
        assert!(section.lines().any(|line| line == "yanked = \"deny\""), "{section}");
        let ignored: Vec<_> =
            section.lines().filter(|line| line.contains("id = \"RUSTSEC-")).collect();
        assert_eq!(ignored.len(), 2, "{section}");
        for line in ignored {
            assert!(line.contains("reason = \""), "{line}");
        }
    }
}
