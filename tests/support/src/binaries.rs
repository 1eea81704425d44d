//! The paths of the programs and libraries that tests run.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::path::PathBuf;

/// Returns the directory of the profile under test, such as `target/debug`: two levels above the
/// test program.
#[must_use]
pub fn profile_dir() -> PathBuf {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut folder = program.parent().expect("a program has a parent directory").to_owned();
    // Test programs lie in `deps`, documentation tests and examples elsewhere below the profile.
    while !folder.join("deps").is_dir() {
        assert!(folder.pop(), "{} is not in a Cargo target directory", program.display());
    }
    folder
}

/// Returns the built `skillhost`.
#[must_use]
pub fn binary() -> PathBuf {
    existing(format!("skillhost{EXE_SUFFIX}"))
}

/// Returns the built library of a workspace member by its base name: `echo` is `libecho.so` on
/// Linux.
#[must_use]
pub fn library(name: &str) -> PathBuf {
    existing(library_name(name))
}

/// Returns the built library of an `[[example]]` of the package under test.
#[must_use]
pub fn example_library(name: &str) -> PathBuf {
    existing(format!("examples/{}", library_name(name)))
}

/// Returns the built program of an `[[example]]`.
#[must_use]
pub fn example_program(name: &str) -> PathBuf {
    existing(format!("examples/{name}{EXE_SUFFIX}"))
}

/// Returns a program of the machine, or `None`: tests that need more than Rust and a C compiler
/// report it and skip.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn library_name(name: &str) -> String {
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", name.replace('-', "_"))
}

fn existing(name: String) -> PathBuf {
    // Measurements run programs of another profile, as tests themselves are not optimized.
    let directory =
        std::env::var_os("SKILLHOST_TESTED_PROFILE").map_or_else(profile_dir, Into::into);
    let path = directory.join(name);
    assert!(
        path.is_file(),
        "{} is not built; run `cargo xtask test` (or cargo build --workspace --examples) first",
        path.display()
    );
    path
}
