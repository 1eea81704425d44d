//! The file tools against a real directory.
//!
//! On Linux alone: elsewhere file systems refuse names that are not UTF-8 and the tests need them.

#![cfg(target_os = "linux")]

// `cfg(test)` makes clippy treat the test helpers as tests, too.
#[cfg(test)]
mod effects;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod git;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod search;
#[cfg(test)]
mod skills;
#[cfg(test)]
mod work;
#[cfg(test)]
mod workspaces;
