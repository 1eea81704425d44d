//! Explicit approval by the user.

use std::io::{self, IsTerminal as _, Write as _};

use skill_format::Digest;
use skillhost_terminal::{CliContext, CliError, display_safe, exit};

/// The minimum number of digits that identify a digest.
const MIN_DIGITS: usize = 12;

/// The approval options of the command line.
pub(super) struct ApprovalFlags<'a> {
    pub(super) yes: bool,
    pub(super) digest: Option<&'a str>,
    /// The command to repeat without a terminal, up to `--yes`.
    pub(super) command: String,
    /// The command that prints the digest.
    pub(super) look: String,
}

impl ApprovalFlags<'_> {
    /// Returns once the user has approved the content with this digest. On a terminal the user is
    /// prompted; elsewhere the command line must name the digest.
    pub(super) fn require(
        &self,
        session: &CliContext,
        digest: Digest,
        question: &str,
        show: impl FnOnce() -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        if let Some(named) = self.digest {
            self.compare(named, digest)?;
            if self.yes {
                return Ok(());
            }
        }
        if !is_interactive(session) {
            let message = "approval without a terminal requires the digest";
            return Err(CliError::usage(message).with_hint(format!(
                "look at it with `{}`, then: {} --yes --digest SHA",
                display_safe(&self.look),
                display_safe(&self.command)
            )));
        }
        show()?;
        if ask(question)? {
            return Ok(());
        }
        Err(CliError::new(exit::FINDINGS, "not approved; no changes made"))
    }

    fn compare(&self, named: &str, digest: Digest) -> Result<(), CliError> {
        let named = named.to_ascii_lowercase();
        let hexadecimal = named.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hexadecimal || !(MIN_DIGITS..=64).contains(&named.len()) {
            let message =
                format!("a digest is {MIN_DIGITS} to 64 hexadecimal digits, not `{named}`");
            return Err(CliError::usage(message)
                .with_hint(format!("`{}` prints the digest", display_safe(&self.look))));
        }
        let full = digest.to_string();
        if full.starts_with(&named) {
            return Ok(());
        }
        Err(CliError::new(exit::CONFLICT, format!("the digest is {full}, not {named}")).with_hint(
            format!("look at it again with `{}`: it is not what you saw", display_safe(&self.look)),
        ))
    }
}

/// Returns whether a user can be prompted.
pub(super) fn is_interactive(session: &CliContext) -> bool {
    !session.output.json && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Prompts for an approval; any reply other than yes refuses.
fn ask(question: &str) -> Result<bool, CliError> {
    let mut stdout = anstream::stdout();
    write!(stdout, "{} [y/N] ", display_safe(question))?;
    stdout.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
