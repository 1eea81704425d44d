//! Models behind the kernel: the wires of their providers, and a scripted one.
//!
//! [`Models`] is what the kernel asks for a model. A model of a provider is spoken to through
//! genai, in `wire`: `request` and `reply` are the conversions, `failure` sorts what goes wrong,
//! `names` keeps the names of tools and calls within what wires allow. A scripted model, in
//! `script`, needs no key and no network; the one that ships is `script/demo`.
//!
//! No key is ever part of a message.

mod keys;
mod models;
mod retry;
mod script;
mod wire;

pub use keys::{KeySource, home_keys, keys_of_environment};
pub use models::{ModelRegistry, ProviderStatus};
pub use retry::RetryTimer;
pub use script::{ModelScript, ScriptError};
