//! Private homes and the built programs, for tests that use the real programs.
//!
//! ```no_run
//! use test_support::TestHome;
//!
//! let home = TestHome::new()
//!     .manifest("echo", "id: echo\nname: Echo\nentrypoint: echo\n")
//!     .skill("greet", "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n")
//!     .trusted();
//! assert_eq!(home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success().stdout, "hi\n");
//! ```
//!
//! Tests are isolated from the machine: every variable but `PATH` is cleared, the XDG directories
//! and `HOME` are next to the home, and all of it is removed when the [`TestHome`] is dropped. A
//! failed setup panics with a hint: only tests use this crate.

mod binaries;
mod directories;
mod git_repository;
mod home;
mod interpreter;
mod isolation;
mod launcher;
mod paths;
mod postgres_server;
mod process;
mod small_disk;
mod terminal;
mod waiting;

pub use binaries::{binary, example_library, example_program, library, profile_dir, program};
pub use directories::copy_directory;
pub use git_repository::{GitRepository, ObjectHash, hex};
pub use home::TestHome;
pub use interpreter::find_interpreter;
pub use isolation::{can_isolate, can_isolate_at};
pub use paths::legal_paths;
pub use postgres_server::PostgresServer;
pub use process::{Background, Output, to_exit_code};
pub use small_disk::SmallDisk;
pub use terminal::{Left, Terminal};
pub use waiting::{STUCK_AFTER, poll_until, wait_until};
