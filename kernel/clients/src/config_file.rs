//! The configuration file of a client: read within a limit, replaced as a whole, with a backup.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use skillhost_files::{LinkPolicy, read_limited, replace_file, with_suffix, write_new_file};
use skillhost_terminal::{CliError, exit};

use crate::client::ConfigScope;
use crate::config_text::{ConfigEdit, ConfigFormat, ConfigTextError};
use crate::server_entry::ServerEntry;

/// The maximum size of a configuration in bytes; clients also keep their history in such files.
const MAX_CONFIG_BYTES: u64 = 32 << 20;

/// The suffix of the backups, followed by a number from the second one on.
const BACKUP_SUFFIX: &str = ".before-skillhost";

/// A configuration file with its present content.
pub(crate) struct ConfigFile {
    /// The file as the client names it.
    pub(crate) path: PathBuf,
    /// The file itself, behind links of the user.
    target: PathBuf,
    /// `None` if the file does not exist.
    text: Option<String>,
    scope: ConfigScope,
}

impl ConfigFile {
    /// Reads a configuration file, which need not exist.
    ///
    /// The links of a user's own file are followed; in a project they are refused, because others may
    /// have made them.
    ///
    /// # Errors
    /// The file cannot be read, is too large or not UTF-8, or is a link in a project.
    pub(crate) fn read(path: &Path, scope: ConfigScope) -> Result<Self, CliError> {
        let target = match scope {
            ConfigScope::User => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            ConfigScope::Project => path.to_owned(),
        };
        let directory = target.parent().unwrap_or(Path::new("."));
        if scope == ConfigScope::Project {
            for entry in [directory, &target] {
                refuse_link(entry)?;
            }
        }
        let text = match read_limited(&target, MAX_CONFIG_BYTES, LinkPolicy::Refuse) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|_| {
                CliError::new(exit::FINDINGS, format!("{} is not UTF-8", path.display()))
                    .with_hint("correct it; nothing was changed")
            })?),
            // A link to nothing would be replaced by a file.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => None,
            Err(error) => return Err(CliError::io(path, &error)),
        };
        Ok(Self { path: path.to_owned(), target, text, scope })
    }

    /// Returns the effect of an entry.
    ///
    /// # Errors
    /// The file is not valid, or cannot be edited without a change of anything else.
    pub(crate) fn edit(
        &self,
        format: ConfigFormat,
        entry: &ServerEntry,
    ) -> Result<ConfigEdit, CliError> {
        let text = self.text.as_deref().unwrap_or_default();
        format.edit(text, entry).map_err(|error| {
            let code = match error {
                ConfigTextError::OtherTransport => exit::CONFLICT,
                _ => exit::FINDINGS,
            };
            CliError::new(code, format!("{} {error}", self.path.display()))
                .with_hint("correct it; nothing was changed")
        })
    }

    /// Writes a new text over the one that was read, and returns the backup of the old one.
    ///
    /// # Errors
    /// The file has changed since it was read, or the system failed; the file is then as it was.
    pub(crate) fn write(&self, new: &str) -> Result<Option<PathBuf>, CliError> {
        let Some(old) = &self.text else {
            let directory = self.target.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(directory).map_err(|error| CliError::io(directory, &error))?;
            // The user's own files may get keys later.
            let mode = if self.scope == ConfigScope::User { 0o600 } else { 0o666 };
            write_new_file(&self.target, new.as_bytes(), Some(mode))
                .map_err(|error| CliError::io(&self.path, &error))?;
            return Ok(None);
        };
        let backup = self.write_backup(old).map_err(|error| CliError::io(&self.path, &error))?;
        replace_file(&self.target, old.as_bytes(), new.as_bytes()).map_err(|error| {
            CliError::new(exit::CONFLICT, error.to_string())
                .with_hint("close the client, and run the command again")
        })?;
        Ok(Some(backup))
    }

    /// Writes the old bytes next to the file, readable only by the user.
    fn write_backup(&self, old: &str) -> io::Result<PathBuf> {
        let mut number = 1;
        loop {
            let suffix = match number {
                1 => BACKUP_SUFFIX.to_owned(),
                number => format!("{BACKUP_SUFFIX}-{number}"),
            };
            let backup = with_suffix(&self.target, &suffix);
            match write_new_file(&backup, old.as_bytes(), Some(0o600)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                written => return written.map(|()| backup),
            }
        }
    }
}

fn refuse_link(path: &Path) -> Result<(), CliError> {
    match path.is_symlink() {
        true => Err(CliError::new(exit::IO, format!("{} is a symbolic link", path.display()))
            .with_hint("replace it with what it leads to, or use --scope user")),
        false => Ok(()),
    }
}
