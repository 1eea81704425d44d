//! The store against real directories.

#![cfg(unix)]

// `cfg(test)` tells clippy that the helpers beside the tests are tests, too.
#[cfg(test)]
mod collisions;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod hostile_files;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod links;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod polling;
#[cfg(test)]
mod roots;
#[cfg(test)]
mod scan;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tools;
