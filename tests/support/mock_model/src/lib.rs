//! A server that plays models: five wires, scripted answers, faults, a log of requests.
//!
//! ```no_run
//! use mock_model::{MockModel, Step, Wire};
//!
//! let mock = MockModel::with([
//!     Step::busy(Some(1)),
//!     Step::text("I look.").call("read_skill", r#"{"skill_id":"greet"}"#),
//!     Step::text("Good morning."),
//! ]);
//! let settings = mock.settings(Wire::Openai); // for skillhost.yaml
//! // … run something that asks `mock/test-model` …
//! let asked = mock.requests();
//! assert_eq!(asked[2].messages().last().unwrap().role, "tool");
//! ```
//!
//! Every request takes the next step, whatever its wire: the path tells which wire it is, and the
//! body whether the answer is to come in pieces. Where no step is left the answer is a status 500
//! that says so. The server listens on a free port of 127.0.0.1 and ends when the [`MockModel`] is
//! dropped. Whatever cannot be set up panics: this crate is used by tests alone.

mod asked;
mod server;
mod step;
mod wire;

pub use asked::{Asked, Said};
pub use server::MockModel;
pub use step::Step;
pub use wire::Wire;
