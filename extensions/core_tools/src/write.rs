//! `write_file`.

use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::{ErrorKind, ExtError, json};

use crate::change::{Change, Edit, look};
use crate::jail::Sandbox;
use crate::path::SandboxPath;
use crate::{Done, Plan, text};

/// Stands for the digest of a file that is not there.
const ABSENT: &str = "none";

/// The arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
pub struct WriteArgs {
    path: String,
    content: String,
    /// The sha256 of the text that is replaced, or `none`.
    #[serde(default)]
    expected_digest: Option<String>,
}

/// Plans to write a whole text file.
///
/// # Errors
/// Those of the jail; [`ErrorKind::Denied`] for what is kept, [`ErrorKind::Conflict`] if the file is
/// not the expected one.
pub fn write_file(sandbox: &Sandbox, args: &WriteArgs) -> Result<Plan, ExtError> {
    let path = SandboxPath::new(&args.path)?;
    let base = look(sandbox, &path)?.map(|now| now.digest);
    let now = base.as_deref().unwrap_or(ABSENT);
    if let Some(expected) = args.expected_digest.as_deref().filter(|expected| *expected != now) {
        let message = match (expected, now) {
            (ABSENT, _) => format!("`{path}` is there already"),
            (_, ABSENT) => format!("there is no `{path}`"),
            _ => format!("`{path}` has the digest {now}, not the expected one"),
        };
        return Err(ExtError::new(ErrorKind::Conflict, message)
            .with_hint("read_file shows the text and its digest as they are now"));
    }
    let (digest, size) = (text::digest(args.content.as_bytes()), args.content.len());
    let verb = if base.is_none() { "Created" } else { "Replaced" };
    let lines = args.content.lines().count();
    let done = Done {
        text: format!("{verb} `{path}`: {lines} lines, {size} bytes; sha256 {digest}."),
        structured: json!({
            "path": path.as_str(), "created": base.is_none(), "digest": digest, "size": size,
        }),
    };
    let mut change = Change::default();
    change.add(Edit { path, base, new: args.content.clone() })?;
    Plan::edits(sandbox, change, done)
}
