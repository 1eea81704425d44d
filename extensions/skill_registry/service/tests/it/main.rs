//! The store against real directories.
//!
//! On Linux alone: elsewhere file systems fold the case of names, refuse names that are not UTF-8 or
//! cannot exchange two of them, and the tests need all of that.

#![cfg(target_os = "linux")]

// `cfg(test)` makes clippy treat the test helpers as tests, too.
#[cfg(test)]
mod activate;
#[cfg(test)]
mod collect;
mod collisions;
#[cfg(test)]
mod crash_worker;
#[cfg(test)]
mod damaged_texts;
#[cfg(test)]
mod declarations;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod first_versions;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod hostile_files;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod ledger_crash;
#[cfg(test)]
mod ledger_database;
#[cfg(test)]
#[cfg(debug_assertions)]
mod ledger_faults;
#[cfg(test)]
mod ledger_processes;
#[cfg(test)]
mod ledger_races;
#[cfg(test)]
mod ledger_skills;
#[cfg(test)]
mod ledger_states;
#[cfg(test)]
mod ledger_sync;
#[cfg(test)]
#[cfg(debug_assertions)]
mod ledger_workflows;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod links;
#[cfg(test)]
mod origins;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod polling;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod publish_strict;
#[cfg(test)]
mod random;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod reviewing;
#[cfg(test)]
mod roots;
#[cfg(test)]
mod scan;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod scope;
#[cfg(test)]
mod search;
#[cfg(test)]
mod search_meaning;
#[cfg(test)]
mod session;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod usage_crash;
