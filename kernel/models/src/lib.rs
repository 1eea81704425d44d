//! The models of the kernel: those of providers and scripted ones.
//!
//! The kernel gets its models from [`ModelRegistry`]. The module `wire` sends requests to providers
//! through genai: `request` and `reply` are the conversions, `failure` classifies errors, `names`
//! maps tool names and call ids to the characters that protocols allow. A scripted model, in
//! `script`, requires no key and no network; the bundled one is `script/demo`.
//!
//! No error message contains a key.

mod keys;
mod live_models;
mod models;
mod retry;
mod script;
mod wire;

pub use keys::{KeySource, home_keys, keys_of_environment};
pub use live_models::LiveModels;
pub use models::{ModelRegistry, ProviderStatus};
pub use retry::RetryTimer;
pub use script::{ModelScript, ScriptError};
