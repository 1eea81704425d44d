//! Scripts of skills, planned and run in isolation.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]
#![expect(clippy::print_stdout, reason = "a skipped test tells its reason")]

mod declared;
mod declared_scripts;
mod fixture;
mod grants;
mod injected;
mod limits;
mod refusals;
mod results;

use test_support as _;
