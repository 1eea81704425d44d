//! Interpreters of the system, for tests of programs and scripts.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the real file of an interpreter of the system, such as `node`. Where there is none,
/// prints `skipped: …`, and the calling test returns.
#[must_use]
#[expect(clippy::print_stderr, reason = "part of the report of the calling test")]
pub fn find_interpreter(name: &str) -> Option<PathBuf> {
    let places = ["/usr/bin", "/usr/local/bin", "/bin"].map(|place| Path::new(place).join(name));
    let found = places.iter().find_map(|place| fs::canonicalize(place).ok());
    if found.is_none() {
        eprintln!("skipped: no {name} in /usr/bin, /usr/local/bin or /bin");
    }
    found
}
