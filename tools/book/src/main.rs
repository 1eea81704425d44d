//! Builds a book: `skillhost-book ROOT OUTPUT`.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use mdbook_driver::MDBook;
use mdbook_driver::errors::Result;

/// Builds the book whose `book.toml` is in `root`.
fn build_book(root: PathBuf, output: PathBuf) -> Result<()> {
    let mut book = MDBook::load(root)?;
    book.config.build.build_dir = output;
    book.build()
}

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(root), Some(output)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: skillhost-book ROOT OUTPUT");
        return ExitCode::from(2);
    };
    match build_book(root, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("skillhost-book: {error:#}");
            ExitCode::FAILURE
        }
    }
}
