//! `cargo xtask docs`: the documentation as a book.

use std::path::Path;

use crate::process::{cargo_command, run_command};
use crate::workspace::{Result, root, target};

/// Checks the links of the documentation and builds it.
pub(crate) fn cmd_docs() -> Result<()> {
    let output = target().join("book");
    run_command(&mut cargo_command(["test", "--locked", "-p", "tidy", "links"]))?;
    build_book(&output)?;
    println!("{}", output.join("index.html").display());
    Ok(())
}

/// Builds the documentation with mdBook, whose crate is a workspace of its own.
pub(crate) fn build_book(output: &Path) -> Result<()> {
    let mut build = cargo_command(["run", "--locked", "--quiet", "--manifest-path"]);
    build.arg(root().join("tools/book/Cargo.toml"));
    build.arg("--target-dir").arg(target().join("book-builder"));
    run_command(build.arg("--").arg(root()).arg(output))
}
