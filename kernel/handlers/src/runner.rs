//! The programs that run a program of a skill: one per language, part of this crate.

use std::io;
use std::path::{Path, PathBuf};

use skillhost_files::write_new_file;

/// A language of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramLanguage {
    /// `.js`, `.mjs` and `.cjs`, as ES modules and as CommonJS modules, for Node.js.
    JavaScript,
    /// `.py`, for Python 3.
    Python,
}

impl ProgramLanguage {
    /// Returns the language of a program's file, or `None` for another extension.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        match Path::new(path).extension()?.to_str()? {
            "js" | "mjs" | "cjs" => Some(Self::JavaScript),
            "py" => Some(Self::Python),
            _ => None,
        }
    }

    /// Writes the runner of the language into a new directory, and returns its path. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// The system's error.
    pub fn write_runner(self, directory: &Path) -> io::Result<PathBuf> {
        let (name, text) = match self {
            Self::JavaScript => ("program_runner.mjs", include_str!("runners/program_runner.mjs")),
            Self::Python => ("program_runner.py", include_str!("runners/program_runner.py")),
        };
        let path = directory.join(name);
        write_new_file(&path, text.as_bytes(), Some(0o400))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::ProgramLanguage;

    #[test]
    fn extension_gives_language() {
        for path in ["index.js", "a/b.mjs", "x.cjs"] {
            assert_eq!(ProgramLanguage::from_path(path), Some(ProgramLanguage::JavaScript));
        }
        assert_eq!(ProgramLanguage::from_path("handler.py"), Some(ProgramLanguage::Python));
        for path in ["a.ts", "a.sh", "py", ".py", "a.JS"] {
            assert_eq!(ProgramLanguage::from_path(path), None, "{path}");
        }
    }
}
