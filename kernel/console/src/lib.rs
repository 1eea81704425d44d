//! The web console: pages and a chat for the operator, served by a running kernel.
//!
//! Every page is read and every form is sent without JavaScript; the one script of the console
//! follows replies and reads regions again. All texts of models, peers, skills and tools are
//! untrusted: `maud` escapes them, no markup is assembled by hand, and the content security policy
//! admits no script but the console's own.
//!
//! - `login_table`: one-time tokens and sessions, in memory.
//! - `request_guard`: the checks before any page: host, origin, session and CSRF token.
//! - `server`: the listener and the routes.
//! - `layout`, `visible_text`, `markdown_view`, `subject_view`, `diff_view`: how texts are drawn.
//! - `pages`: one module per page.

mod assets;
mod console_state;
mod diff_view;
mod error;
mod form_fields;
mod layout;
mod login_table;
mod markdown_view;
mod pages;
mod request_guard;
mod server;
mod subject_view;
mod thread_events;
mod visible_text;
mod visit;

pub use server::WebConsole;
