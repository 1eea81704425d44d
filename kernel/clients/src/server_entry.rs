//! The program and the arguments with which a client starts the server.

use std::path::Path;

use skillhost_terminal::{CliError, exit};

/// The name under which clients know the server.
pub(crate) const SERVER_NAME: &str = "skillhost";

/// The command line of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerEntry {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// Whether the entry names its transport.
    pub(crate) has_transport: bool,
}

impl ServerEntry {
    /// Creates the entry of this program. It names the home, because a client starts the server in a
    /// directory of its own choice.
    pub(crate) fn new(home: Option<&Path>, has_transport: bool) -> Result<Self, CliError> {
        let program = to_plain_text(&std::env::current_exe()?)?;
        let arguments = match home {
            None => vec!["mcp".to_owned()],
            Some(home) => vec!["--home".to_owned(), to_plain_text(home)?, "mcp".to_owned()],
        };
        Ok(Self { program, arguments, has_transport })
    }

    /// Returns the program and its arguments.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.program).chain(&self.arguments).map(String::as_str)
    }
}

fn to_plain_text(path: &Path) -> Result<String, CliError> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        let message = format!("{} is not UTF-8 or has control characters", path.display());
        CliError::new(exit::FINDINGS, message)
            .with_hint("clients can only start what their settings can name")
    })
}

/// Quotes a word for a POSIX shell, if it needs quotes.
pub(crate) fn quote_for_shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
