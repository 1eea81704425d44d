//! `cargo xtask deny`: licences and sources, offline.

use std::process::Stdio;

use crate::Result;
use crate::process::{cargo, run};

/// Runs cargo-deny where it is installed, and says so where it is not.
pub(crate) fn deny() -> Result<()> {
    let mut probe = cargo(["deny", "--version"]);
    let installed = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("SKIPPED: cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    run(&mut cargo(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}
