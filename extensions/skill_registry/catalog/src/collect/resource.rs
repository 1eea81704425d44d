//! Reads the other files of a skill's directory.

use std::io::Read as _;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skillhost_files::jail::{self, JailError, RelPath};

use super::found::{FoundProblem, FoundSkill, ProblemKind};

/// The largest file that is read; as in `read_skill_resource`.
const MAX_FILE: u64 = 16 << 20;

/// The content of a file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceContent {
    /// Text in UTF-8 without NUL.
    Text(String),
    /// Something else.
    Binary,
    /// More than 16 MiB, the limit for every client.
    TooLarge,
}

impl FoundSkill {
    /// Reads a file of the skill's directory by its path relative to it; no link is followed.
    ///
    /// # Errors
    /// Fails if the path is not a regular file or the system denies the read.
    pub fn read_resource(&self, path: &str) -> Result<ResourceContent, FoundProblem> {
        let shown = self.dir.join(path);
        let unusable = |message: String, help| FoundProblem {
            path: shown.clone(),
            kind: ProblemKind::Unreadable,
            rule: "file.unreadable",
            message,
            help,
        };
        let path = RelPath::new(path).map_err(|error| unusable(error.to_string(), "rename it"))?;
        let dir = Dir::open_ambient_dir(&self.dir, ambient_authority())
            .map_err(|error| FoundProblem::io(&self.dir, &error))?;
        let (file, metadata) = jail::open_file(&dir, &path).map_err(|error| match error {
            JailError::Io(error) => FoundProblem::io(&shown, &error),
            JailError::NotFound => FoundProblem::io(&shown, &std::io::ErrorKind::NotFound.into()),
            JailError::Link | JailError::Directory | JailError::NotRegular => {
                unusable("it is not a regular file".to_owned(), "replace it with a regular file")
            }
        })?;
        if metadata.len() > MAX_FILE {
            return Ok(ResourceContent::TooLarge);
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| FoundProblem::io(&shown, &error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Ok(ResourceContent::TooLarge);
        }
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        Ok(text.map_or(ResourceContent::Binary, ResourceContent::Text))
    }
}
