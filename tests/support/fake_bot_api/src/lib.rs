//! A server that plays Telegram's Bot API: scripted updates, faults, a log of calls.
//!
//! ```no_run
//! use fake_bot_api::{ApiFault, FakeBotApi};
//!
//! let api = FakeBotApi::new("123456:a-token");
//! api.push_message(1001, 7, "Hello");
//! api.fail_next("sendMessage", ApiFault::Throttle(3));
//! // … run a bot with the base URL `api.url()` …
//! let sent = api.wait_for_calls("sendMessage", 1);
//! assert_eq!(sent[0].body["text"], "Good morning.");
//! ```
//!
//! An update stays with the server until a later offset confirms it, as with the real one. A poll
//! without updates is held until one arrives or its timeout has passed; a second poll ends the first.
//! The server listens on a free port of 127.0.0.1 and ends when the [`FakeBotApi`] is dropped. A failed
//! setup panics: only tests use this crate.

mod api_state;
mod server;

pub use api_state::{ApiFault, BotCall, USERNAME};
pub use server::FakeBotApi;
