//! Edits in the user's editor.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_terminal::{CliError, exit};

/// The editor if the environment does not name one.
const DEFAULT_EDITOR: &str = "vi";

/// Lets the user edit a text; `like` gives the file its extension. Returns `None` if the text is
/// unchanged.
pub(super) fn edit_text(text: &str, like: &str) -> Result<Option<String>, CliError> {
    let file =
        DraftFile::new(text, like).map_err(|error| editor_error("no file to edit", &error))?;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|variable| std::env::var(variable).ok())
        .find(|editor| !editor.trim().is_empty())
        .unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    // By convention the variable holds a command line, such as `code --wait`.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), &editor])
        .arg(&file.0)
        .status()
        .map_err(|error| editor_error(&editor, &error))?;
    if !status.success() {
        let message = format!("{editor} ended with {status}; nothing was changed");
        return Err(CliError::new(exit::IO, message));
    }
    let written =
        fs::read_to_string(&file.0).map_err(|error| editor_error("the edited text", &error))?;
    Ok((written != text).then_some(written))
}

fn editor_error(what: &str, error: &io::Error) -> CliError {
    CliError::new(exit::IO, format!("{what}: {error}"))
}

/// A temporary file of this process; removed on drop.
struct DraftFile(PathBuf);

impl DraftFile {
    fn new(text: &str, like: &str) -> io::Result<Self> {
        let extension = Path::new(like).extension().and_then(|extension| extension.to_str());
        // The extension comes from the proposal and must not add words to a command or a path.
        let extension = extension
            .filter(|extension| extension.bytes().all(|byte| byte.is_ascii_alphanumeric()))
            .unwrap_or("txt");
        let directory = std::env::temp_dir();
        for attempt in 0_u32.. {
            let name = format!("skillhost-review-{}-{attempt}.{extension}", std::process::id());
            let path = directory.join(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let draft = Self(path);
                    file.write_all(text.as_bytes())?;
                    return Ok(draft);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // The user may have removed the file.
        let _ = fs::remove_file(&self.0);
    }
}
