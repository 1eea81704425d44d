//! A server that plays models: five wires, scripted replies, faults, a log of requests.
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
//! // … run a program that calls `mock/test-model` …
//! let asked = mock.requests();
//! assert_eq!(asked[2].messages().last().unwrap().role, "tool");
//! ```
//!
//! Every request takes the next step, on any wire: the path selects the wire, and the body selects
//! a streamed reply. Without a remaining step the reply is status 500 with a message. The server
//! listens on a free port of 127.0.0.1 and ends when the [`MockModel`] is dropped. A failed setup
//! panics: only tests use this crate.

mod mock_request;
mod server;
mod step;
mod wire;

pub use mock_request::{MockRequest, Said};
pub use server::MockModel;
pub use step::Step;
pub use wire::Wire;
