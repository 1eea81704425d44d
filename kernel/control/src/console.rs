//! The web console of a kernel, as its clients receive it.

use serde::{Deserialize, Serialize};

/// The address of a web console, with a token for one login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleAddress {
    /// The address to open; it holds the token.
    pub url: String,
    /// The time until which the token can be used, in milliseconds since 1970.
    pub expires_ms: u64,
}
