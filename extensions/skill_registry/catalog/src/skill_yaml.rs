//! The `skill.yaml` and the `tool.json` of a skill's directory.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use skill_format::{SKILL_YAML, SKILL_YAML_LIMIT, TOOL_JSON, TOOL_JSON_LIMIT};
use skillhost_files::jail::{self, JailError, RelPath};

const _: () = assert!(TOOL_JSON_LIMIT == SKILL_YAML_LIMIT, "the errors name one limit for both");

/// The reason why an existing `skill.yaml` or `tool.json` was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillYamlError {
    /// A link, a directory or another entry that is not a regular file.
    #[error("it is not a regular file")]
    NotRegular,
    /// More than [`SKILL_YAML_LIMIT`] bytes.
    #[error("it has more than {SKILL_YAML_LIMIT} bytes")]
    TooLarge,
    /// A text that is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the `skill.yaml` of a skill's directory; returns `None` if there is no such file.
///
/// No link is followed below the directory, and special files do not block the read.
///
/// # Errors
/// Fails if the file exists and cannot be read or is not allowed.
pub fn read_skill_yaml(dir: &Path) -> Result<Option<String>, SkillYamlError> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    read_skill_yaml_in(&Dir::open_ambient_dir(dir, ambient_authority())?)
}

/// Reads the `skill.yaml` in an open directory; returns `None` if there is no such file.
///
/// # Errors
/// Fails as [`read_skill_yaml`] does.
pub fn read_skill_yaml_in(dir: &Dir) -> Result<Option<String>, SkillYamlError> {
    read_small_text(dir, SKILL_YAML)
}

/// Reads the `tool.json` in an open directory; returns `None` if there is no such file.
///
/// # Errors
/// Fails as [`read_skill_yaml`] does.
pub(crate) fn read_tool_json(dir: &Dir) -> Result<Option<String>, SkillYamlError> {
    read_small_text(dir, TOOL_JSON)
}

fn read_small_text(dir: &Dir, name: &str) -> Result<Option<String>, SkillYamlError> {
    let Ok(path) = RelPath::new(name) else { return Ok(None) };
    let file = match jail::open_file(dir, &path) {
        Ok((file, _)) => file,
        Err(JailError::NotFound) => return Ok(None),
        Err(JailError::Link | JailError::Directory | JailError::NotRegular) => {
            return Err(SkillYamlError::NotRegular);
        }
        Err(JailError::Io(error)) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(SKILL_YAML_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > SKILL_YAML_LIMIT {
        return Err(SkillYamlError::TooLarge);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| SkillYamlError::NotUtf8)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_small_regular_file_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("skill");
        let file = dir.join(SKILL_YAML);
        fs::create_dir(&dir).unwrap();
        let read = || read_skill_yaml(&dir).map_err(|error| error.to_string());
        assert_eq!(read(), Ok(None));
        fs::write(&file, "tools: x").unwrap();
        assert_eq!(read(), Ok(Some("tools: x".to_owned())));
        fs::write(&file, "x".repeat(SKILL_YAML_LIMIT)).unwrap();
        assert_eq!(read().map(|text| text.map(|text| text.len())), Ok(Some(SKILL_YAML_LIMIT)));
        fs::write(&file, "x".repeat(SKILL_YAML_LIMIT + 1)).unwrap();
        assert_eq!(read(), Err("it has more than 65536 bytes".to_owned()));
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(read(), Err("it is not UTF-8".to_owned()));
        fs::remove_file(&file).unwrap();
        fs::write(temp.path().join("secret"), "tools: y").unwrap();
        symlink("../secret", &file).unwrap();
        assert_eq!(read(), Err("it is not a regular file".to_owned()));
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(read(), Err("it is not a regular file".to_owned()));
        let gone = read_skill_yaml(&temp.path().join("gone"));
        assert!(
            matches!(gone, Err(SkillYamlError::Io(it)) if it.kind() == io::ErrorKind::NotFound)
        );
    }
}
