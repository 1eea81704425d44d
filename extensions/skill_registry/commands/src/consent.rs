//! Explicit approval by the user.

use std::io::{self, IsTerminal as _, Write as _};

use skill_format::Digest;
use skillhost_terminal::{CliContext, CliError, display_safe, exit};

/// The minimum number of digits that identify a digest.
const MIN_DIGITS: usize = 12;

/// The prefix with which digests are printed; on the command line it is optional.
const PREFIX: &str = "sha256:";

/// The approval options of the command line.
pub(super) struct ApprovalFlags<'a> {
    pub(super) yes: bool,
    pub(super) digest: Option<&'a str>,
    /// The command that approves without a terminal, up to `--yes`.
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
                "look at it with `{}`, then: {} --yes --digest {PREFIX}{digest}",
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
        let Some(digits) = parse_digits(named) else {
            let message = format!(
                "a digest is {MIN_DIGITS} to 64 hexadecimal digits, not `{}`",
                display_safe(named)
            );
            return Err(CliError::usage(message)
                .with_hint(format!("`{}` prints the digest", display_safe(&self.look))));
        };
        let full = digest.to_string();
        if full.starts_with(&digits) {
            return Ok(());
        }
        let message = format!("the digest is {PREFIX}{full}, not {PREFIX}{digits}");
        Err(CliError::new(exit::CONFLICT, message).with_hint(format!(
            "look at it again with `{}`: it is not what you saw",
            display_safe(&self.look)
        )))
    }
}

/// Returns the digits of a digest, whose prefix may be missing; `None` for anything else.
fn parse_digits(named: &str) -> Option<String> {
    let named = named.to_ascii_lowercase();
    let digits = named.strip_prefix(PREFIX).unwrap_or(&named);
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hexadecimal && (MIN_DIGITS..=64).contains(&digits.len())).then(|| digits.to_owned())
}

/// Returns the start of a digest as questions show it.
pub(super) fn short_digest(digest: Digest) -> String {
    format!("{PREFIX}{}", digest.short())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_digest_is_accepted() {
        let digest = Digest::compute(b"abc");
        let full = digest.to_string();
        let flags = ApprovalFlags {
            yes: true,
            digest: None,
            command: "skillhost skill approve a".into(),
            look: "skillhost skill show a".into(),
        };
        for named in [
            full.clone(),
            format!("sha256:{full}"),
            short_digest(digest),
            full[..12].to_owned(),
            format!("SHA256:{}", full.to_uppercase()),
        ] {
            assert!(flags.compare(&named, digest).is_ok(), "{named}");
        }
        for named in ["", "sha256:", "sha256:ba7816bf8f0", "sha1:ba7816bf8f01", "sha256:sha256:"] {
            assert_eq!(flags.compare(named, digest).unwrap_err().code(), exit::USAGE, "{named}");
        }
        let other = flags.compare("sha256:000000000000", digest).unwrap_err();
        assert_eq!(other.code(), exit::CONFLICT);
        assert!(other.message().contains(&format!("is sha256:{full}, not sha256:0000")));
    }
}
