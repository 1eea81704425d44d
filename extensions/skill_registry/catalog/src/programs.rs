//! The programs of a skill's directory. Files are listed and read; no code runs.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::Dir;
use skill_format::{Diagnostic, DiscoveredPrograms, ParsedToolManifest, ProgramFiles, TOOL_JSON};
use skillhost_files::jail::{self, RelPath};

use crate::skill_yaml::{SkillYamlError, read_tool_json};

/// The limit on the listed entries of a skill's directory.
const MAX_ENTRIES: usize = 5_000;

/// The limit on the bytes of a source text that is searched for the form of a program.
const MAX_SOURCE: u64 = 512 << 10;

/// A `tool.json` and the programs of its directory.
#[derive(Debug, Default)]
pub struct SkillProgramFiles {
    /// The text of `tool.json`; `None` if it is missing or cannot be read.
    pub tool_json: Option<String>,
    /// The programs and the findings.
    pub found: DiscoveredPrograms,
}

impl SkillProgramFiles {
    /// Finds the programs in a skill's directory. No link is followed below it.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed.
    pub fn find(dir: &Path, skill_id: &str) -> io::Result<Self> {
        let path = directory_path(dir);
        let entries = fs::read_dir(path)?.map(|entry| {
            let entry = entry?;
            Ok((entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_file())))
        });
        // Most skills have no program, and their directories need not be opened.
        let dir = SkillDirectory::Closed { path, opened: OnceCell::new() };
        Ok(Self::find_among(&DirectoryFiles::list(dir, entries)?, skill_id))
    }

    /// Finds the programs in an open directory. No link is followed below it.
    ///
    /// # Errors
    /// Fails if the directory cannot be listed.
    pub fn find_in(dir: &Dir, skill_id: &str) -> io::Result<Self> {
        let entries = dir.entries()?.map(|entry| {
            let entry = entry?;
            Ok((entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_file())))
        });
        let files = DirectoryFiles::list(SkillDirectory::Open(dir), entries)?;
        Ok(Self::find_among(&files, skill_id))
    }

    fn find_among(files: &DirectoryFiles<'_>, skill_id: &str) -> Self {
        match files.read_manifest() {
            Ok(tool_json) => {
                let found = DiscoveredPrograms::find(tool_json.as_deref(), skill_id, files);
                Self { tool_json, found }
            }
            Err(error) => {
                let found = DiscoveredPrograms {
                    findings: vec![unreadable_manifest(&error)],
                    ..DiscoveredPrograms::default()
                };
                Self { tool_json: None, found }
            }
        }
    }
}

/// Returns whether the `tool.json` of a directory without a SKILL.md declares a skill.
pub(crate) fn declares_skill(dir: &Path) -> bool {
    open_directory(dir)
        .ok()
        .and_then(|dir| read_tool_json(&dir).ok().flatten())
        .is_some_and(|text| ParsedToolManifest::declares_skill(&text))
}

fn open_directory(dir: &Path) -> io::Result<Dir> {
    jail::open_root(directory_path(dir))
}

fn directory_path(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

/// The message about a directory whose `tool.json` declares a skill without a SKILL.md.
pub(crate) const NO_SKILL_MD: &str = "tool.json declares a skill, but there is no SKILL.md";

/// The hint for [`NO_SKILL_MD`].
pub(crate) const ADD_SKILL_MD: &str =
    "write a SKILL.md with `name`, `description` and instructions next to it";

/// A skill's directory, which is opened when a file is read.
enum SkillDirectory<'d> {
    Open(&'d Dir),
    Closed { path: &'d Path, opened: OnceCell<Dir> },
}

impl SkillDirectory<'_> {
    fn get(&self) -> io::Result<&Dir> {
        match self {
            Self::Open(dir) => Ok(dir),
            Self::Closed { path, opened } => match opened.get() {
                Some(dir) => Ok(dir),
                None => {
                    let dir = jail::open_root(path)?;
                    Ok(opened.get_or_init(|| dir))
                }
            },
        }
    }
}

/// The files of a directory.
struct DirectoryFiles<'d> {
    dir: SkillDirectory<'d>,
    names: Vec<String>,
    /// `false` if the listing is complete and has no `tool.json` of any kind.
    can_have_manifest: bool,
}

impl<'d> DirectoryFiles<'d> {
    /// Lists the entries: the name, and whether it is a regular file.
    fn list(
        dir: SkillDirectory<'d>,
        entries: impl Iterator<Item = io::Result<(OsString, bool)>>,
    ) -> io::Result<Self> {
        let (mut names, mut count, mut can_have_manifest) = (Vec::new(), 0, false);
        // A directory with more entries exceeds the limits of a skill with programs.
        for entry in entries.take(MAX_ENTRIES) {
            let (name, is_file) = entry?;
            count += 1;
            // Some file systems do not distinguish case.
            can_have_manifest |= name.eq_ignore_ascii_case(TOOL_JSON);
            // A name that is not UTF-8 cannot be the key of a tool.
            if let (true, Ok(name)) = (is_file, name.into_string()) {
                names.push(name);
            }
        }
        // The order of the disk varies, and the first program may be the default one.
        names.sort_unstable();
        Ok(Self { dir, names, can_have_manifest: can_have_manifest || count == MAX_ENTRIES })
    }

    fn read_manifest(&self) -> Result<Option<String>, SkillYamlError> {
        match self.can_have_manifest {
            true => read_tool_json(self.dir.get()?),
            false => Ok(None),
        }
    }
}

impl ProgramFiles for DirectoryFiles<'_> {
    fn top_level(&self) -> &[String] {
        &self.names
    }

    fn is_file(&self, path: &str) -> bool {
        let Ok(dir) = self.dir.get() else { return false };
        RelPath::new(path).is_ok_and(|path| jail::open_file(dir, &path).is_ok())
    }

    fn read_text(&self, path: &str) -> Option<String> {
        let (file, _) = jail::open_file(self.dir.get().ok()?, &RelPath::new(path).ok()?).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_SOURCE + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MAX_SOURCE {
            return None;
        }
        String::from_utf8(bytes).ok()
    }
}

fn unreadable_manifest(error: &SkillYamlError) -> Diagnostic {
    let rule = match error {
        SkillYamlError::NotRegular => "file.notRegular",
        SkillYamlError::TooLarge => "file.maxSize",
        SkillYamlError::NotUtf8 => "file.encoding",
        SkillYamlError::Io(_) => "file.unreadable",
    };
    Diagnostic::error(rule, error.to_string())
        .with_help(format!("the skill has no programs until {TOOL_JSON} can be read"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::ops::ControlFlow;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use crate::collect::{FoundItem, find_skills};
    use crate::{SkillRoot, Store, StoreOptions, SystemClock, TrustLevel};

    const HANDLER: &str = "export default async () => ({ result: 1 });\n";

    #[test]
    fn links_and_special_files_are_no_programs() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("quotes");
        fs::create_dir_all(dir.join("lib.js")).unwrap();
        fs::write(dir.join("index.js"), HANDLER).unwrap();
        fs::write(temp.path().join("secret.js"), HANDLER).unwrap();
        symlink("../secret.js", dir.join("secret.js")).unwrap();
        let keys = |found: &SkillProgramFiles| -> Vec<String> {
            found.found.programs.iter().map(|program| program.key.clone()).collect()
        };
        let found = SkillProgramFiles::find(&dir, "quotes").unwrap();
        assert_eq!(keys(&found), ["index"]);
        fs::write(dir.join(TOOL_JSON), r#"{"kind": "skill", "entryPoint": "secret.js"}"#).unwrap();
        let found = SkillProgramFiles::find(&dir, "quotes").unwrap();
        assert!(found.found.findings[0].message.contains("no program `secret.js`"));
        fs::remove_file(dir.join(TOOL_JSON)).unwrap();
        symlink("../tool.json", dir.join(TOOL_JSON)).unwrap();
        let found = SkillProgramFiles::find(&dir, "quotes").unwrap();
        assert_eq!(found.found.findings[0].rule, "file.notRegular");
        assert!(found.found.has_errors() && keys(&found).is_empty());
        assert!(SkillProgramFiles::find(&temp.path().join("gone"), "gone").is_err());
    }

    #[test]
    fn declared_skill_without_skill_md_is_reported() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("quotes");
        fs::create_dir(&dir).unwrap();
        fs::create_dir(temp.path().join("mcp")).unwrap();
        fs::write(dir.join(TOOL_JSON), "{\"kind\": \"skill\"}").unwrap();
        fs::write(temp.path().join("mcp/tool.json"), "{\"kind\": \"mcp\"}").unwrap();
        let (label, path) = ("team".to_owned(), temp.path().to_owned());
        let root = SkillRoot { label, path, trust: TrustLevel::Operator };
        let options = StoreOptions { roots: vec![root], ..StoreOptions::default() };
        let store = Store::open(options, Arc::new(SystemClock)).unwrap();
        let problems: Vec<_> =
            store.snapshot().problems().iter().map(|problem| problem.to_string()).collect();
        let expected = format!("{}: error[structure.missingSkillMd]: {NO_SKILL_MD}", dir.display());
        assert_eq!(problems, [expected]);
        let mut found = Vec::new();
        let _ = find_skills(temp.path(), &mut |item| {
            if let FoundItem::Problem(problem) = item {
                found.push((problem.path, problem.message));
            }
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(found, [(dir, NO_SKILL_MD.to_owned())]);
    }

    #[test]
    fn large_source_is_left_out() {
        let temp = tempfile::tempdir().unwrap();
        let text = format!("{HANDLER}{}", " ".repeat(512 << 10));
        fs::write(temp.path().join("index.js"), text).unwrap();
        let found = SkillProgramFiles::find(temp.path(), "quotes").unwrap().found;
        assert_eq!(found.programs, []);
        assert_eq!(found.left_out[0].0, "index.js");
    }
}
