//! The result of an edit.

/// The effect of an entry on a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigEdit {
    /// The entry is there already.
    Unchanged,
    /// The new text, with an entry more.
    Added(String),
    /// The new text, with the entry of the same name changed.
    Updated(String),
}

/// An error in the text of a configuration, which is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigTextError {
    #[error("is not valid: {0}")]
    Syntax(String),
    #[error("is not valid: `{0}` is not a table")]
    NotTable(String),
    #[error("has `{0}` twice")]
    Repeated(String),
    #[error("has a server of this name that is not started by a command")]
    OtherTransport,
    #[error("defines its servers in a form that cannot be edited in place")]
    NotEditable,
}

/// Keys of servers that are reached over HTTP, in one client or another.
pub(super) const HTTP_KEYS: [&str; 4] = ["url", "httpUrl", "serverUrl", "http_url"];
