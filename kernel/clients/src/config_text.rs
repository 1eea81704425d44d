//! The texts of configuration files, and the change of one entry in them.
//!
//! Everything else in a file stays as it is, to the byte.

mod config_edit;
mod json_text;
#[cfg(test)]
mod tests;
mod toml_text;

use crate::server_entry::ServerEntry;

pub(crate) use config_edit::{ConfigEdit, ConfigTextError};

/// The syntax of a configuration file, and the place of servers in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigFormat {
    /// JSON with an object of servers.
    Json {
        /// The key of the object.
        table: &'static str,
        /// Whether the client accepts comments.
        comments: bool,
        /// Whether the client accepts a comma after the last item.
        trailing_commas: bool,
    },
    /// TOML with a table `mcp_servers`.
    Toml,
}

impl ConfigFormat {
    /// Formats a configuration that only has the entry.
    pub(crate) fn format_entry(self, entry: &ServerEntry) -> String {
        match self {
            Self::Json { table, .. } => json_text::format_entry(table, entry),
            Self::Toml => toml_text::format_entry(entry),
        }
    }

    /// Adds the entry to a configuration, or updates the command of the one with its name.
    ///
    /// # Errors
    /// The text is not valid, or the entry cannot be changed without a change of anything else.
    pub(crate) fn edit(
        self,
        text: &str,
        entry: &ServerEntry,
    ) -> Result<ConfigEdit, ConfigTextError> {
        match self {
            Self::Json { table, comments, trailing_commas } => {
                let options = json_text::parse_options(comments, trailing_commas);
                json_text::edit(text, &options, table, entry)
            }
            Self::Toml => toml_text::edit(text, entry),
        }
    }
}
