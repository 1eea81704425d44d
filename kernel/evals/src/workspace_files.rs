//! The workspace of a run: its files before and after.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use skill_testing::MAX_INPUT_BYTES;
use skillhost_files::jail::{self, RelPath};
use skillhost_files::{TreeFile, read_complete_tree, sha256_hex};

use crate::error::EvalError;

/// The limit on a file that a case puts into the workspace, in bytes: a larger one is not covered by the
/// digest of the cases.
const MAX_INPUT: u64 = MAX_INPUT_BYTES as u64;

/// The longest text of a file that a judge reads, in bytes.
const MAX_JUDGED: usize = 64 << 10;

/// The workspace of a run.
pub(crate) struct RunWorkspace {
    path: PathBuf,
    before: BTreeMap<String, String>,
}

/// The files of a workspace after a run.
#[derive(Default)]
pub(crate) struct ChangedFiles {
    pub(crate) all: Vec<TreeFile>,
    pub(crate) created: Vec<String>,
    pub(crate) modified: Vec<String>,
}

impl RunWorkspace {
    /// Creates a workspace with the files that a case names, below the directory of its skill. Blocks.
    pub(crate) fn create(
        path: PathBuf,
        skill: &Path,
        inputs: &[String],
    ) -> Result<Self, EvalError> {
        fs::create_dir_all(&path).map_err(EvalError::io(&path))?;
        let opened = jail::open_root(skill).map_err(EvalError::io(skill))?;
        for input in inputs {
            let source = skill.join(input);
            // A case is untrusted: the path stays below the skill, and no link is followed.
            let invalid = |_| EvalError::io(&source)(std::io::ErrorKind::InvalidInput.into());
            let relative = RelPath::new(input).map_err(invalid)?;
            let missing = |_| EvalError::io(&source)(std::io::ErrorKind::NotFound.into());
            let (file, metadata) = jail::open_file(&opened, &relative).map_err(missing)?;
            // Checked before the copy, which is limited as well: the file may grow.
            if metadata.len() > MAX_INPUT {
                return Err(EvalError::io(&source)(std::io::ErrorKind::FileTooLarge.into()));
            }
            // By its name alone: prompts speak of a file, not of the directory of the cases.
            let target = path.join(relative.split().1);
            let mut written = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&target)
                .map_err(EvalError::io(&target))?;
            let mut limited = std::io::Read::take(file, MAX_INPUT);
            std::io::copy(&mut limited, &mut written).map_err(EvalError::io(&target))?;
        }
        let files = read_complete_tree(&path)?;
        let before = files.iter().map(|file| (file.path.clone(), sha256_hex(&file.bytes)));
        Ok(Self { before: before.collect(), path })
    }

    /// Returns its directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the files with those before the run. Blocks.
    pub(crate) fn read_changes(&self) -> Result<ChangedFiles, EvalError> {
        let mut changes =
            ChangedFiles { all: read_complete_tree(&self.path)?, ..Default::default() };
        for file in &changes.all {
            match self.before.get(&file.path) {
                None => changes.created.push(file.path.clone()),
                Some(digest) if *digest != sha256_hex(&file.bytes) => {
                    changes.modified.push(file.path.clone());
                }
                Some(_) => {}
            }
        }
        Ok(changes)
    }
}

impl ChangedFiles {
    /// Returns the texts of new and changed files, for a judge.
    pub(crate) fn texts(&self) -> Vec<(String, String)> {
        let is_changed = |file: &&TreeFile| {
            self.created.contains(&file.path) || self.modified.contains(&file.path)
        };
        let texts = self.all.iter().filter(is_changed).filter_map(|file| {
            // A judge cannot read an image.
            let text = std::str::from_utf8(&file.bytes).ok()?;
            let end = text.floor_char_boundary(MAX_JUDGED);
            Some((file.path.clone(), text[..end].to_owned()))
        });
        texts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_compared_by_content() {
        let skill = tempfile::tempdir().unwrap();
        fs::create_dir_all(skill.path().join("evals/files")).unwrap();
        fs::write(skill.path().join("evals/files/a.txt"), "a").unwrap();
        fs::write(skill.path().join("evals/files/b.txt"), "b").unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let inputs = ["evals/files/a.txt".to_owned(), "evals/files/b.txt".to_owned()];
        let workspace = RunWorkspace::create(path.clone(), skill.path(), &inputs).unwrap();
        fs::write(path.join("a.txt"), "changed").unwrap();
        // The same bytes once more are no change.
        fs::write(path.join("b.txt"), "b").unwrap();
        fs::create_dir(path.join("out")).unwrap();
        fs::write(path.join("out/c.txt"), "c").unwrap();
        let changes = workspace.read_changes().unwrap();
        assert_eq!(changes.created, ["out/c.txt"]);
        assert_eq!(changes.modified, ["a.txt"]);
        let texts = changes.texts();
        assert_eq!(texts[0], ("a.txt".to_owned(), "changed".to_owned()));
        assert_eq!(texts.len(), 2);
    }

    #[test]
    fn inputs_stay_below_skill() {
        let skill = tempfile::tempdir().unwrap();
        fs::write(skill.path().join("own"), "").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", skill.path().join("link")).unwrap();
        for input in ["../x", "/etc/hostname", "link", "missing"] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("work");
            let made = RunWorkspace::create(path.clone(), skill.path(), &[input.to_owned()]);
            assert!(matches!(made, Err(EvalError::Io { .. })), "{input}");
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "{input}");
        }
    }
}
