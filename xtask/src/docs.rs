//! `cargo xtask docs`: the documentation as a book. `cargo xtask screenshots`: its pictures.

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

/// Draws the pictures in `docs/images` from the output of the built program, and every page of the web
/// console. The tests `screenshot` of `tests/e2e` draw them; without this command, they compare those in
/// `docs/images`.
pub(crate) fn cmd_screenshots() -> Result<()> {
    let build = ["build", "--locked", "--workspace", "--lib", "--bins", "--examples"];
    run_command(&mut cargo_command(build))?;
    // The features of the build above: those of a single package would compile dozens of crates again.
    let test = ["test", "--workspace", "--locked", "--quiet", "--test", "e2e", "screenshot"];
    let mut draw = cargo_command(test);
    run_command(draw.env("UPDATE_DOCS", "1"))?;
    println!("{}", root().join("docs/images").display());
    // Absent where no Chromium is installed.
    let console = target().join("screenshots/console");
    if console.is_dir() {
        println!("{}", console.display());
    }
    Ok(())
}
