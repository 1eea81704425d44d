//! The programs of a skill: the files that its `tool.json` or its directory declares as tools. Their
//! discovery is a function of texts and names; it runs no code.

mod manifest;
mod source_form;

use std::collections::BTreeMap;

use yaml_tree::Span;

use crate::diagnostic::Diagnostic;

pub use manifest::{ParsedToolManifest, ToolKind, ToolManifest};

/// The name of the file that declares the tools of a directory.
pub const TOOL_JSON: &str = "tool.json";

/// The maximum size of a `tool.json`, in bytes.
pub const TOOL_JSON_LIMIT: usize = 64 << 10;

/// The maximum number of programs of a skill.
const PROGRAM_LIMIT: usize = 32;

/// The maximum length of a key, in bytes. A tool name has at most 64 characters.
const MAX_KEY: usize = 48;

/// The extensions of programs, in the order in which an entry without one is completed.
const EXTENSIONS: [&str; 4] = [".js", ".mjs", ".cjs", ".py"];

/// The keys of the default program, in the order in which they are tried.
const DEFAULT_KEYS: [&str; 2] = ["index", "handler"];

/// The files of a skill as far as discovery looks at them.
pub trait ProgramFiles {
    /// Returns the names of the regular files at the top level, sorted.
    fn top_level(&self) -> &[String];

    /// Returns whether a path is a regular file of the skill.
    fn is_file(&self, path: &str) -> bool;

    /// Returns the text of a file, or `None` if it cannot be read or is too large.
    fn read_text(&self, path: &str) -> Option<String>;
}

/// A program of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// The name of the program in its skill.
    pub key: String,
    /// The path of its file in the skill's directory.
    pub path: String,
    /// The tool of this program is called like the skill.
    pub is_default: bool,
}

/// The programs of a skill, and the reasons why other files are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscoveredPrograms {
    /// The `tool.json`, if there is a valid one.
    pub manifest: Option<ToolManifest>,
    /// The programs; none if one of the findings is an error.
    pub programs: Vec<ProgramFile>,
    /// The findings about `tool.json` and the files that it names.
    pub findings: Vec<Diagnostic>,
    /// Files at the top level that are written in a language of programs and are none, with the
    /// reason.
    pub left_out: Vec<(String, &'static str)>,
}

impl DiscoveredPrograms {
    /// Finds the programs of a skill with a `tool.json`, if there is one.
    #[must_use]
    pub fn find(tool_json: Option<&str>, skill_id: &str, files: &dyn ProgramFiles) -> Self {
        let mut found = Self::default();
        if let Some(text) = tool_json {
            let parsed = ParsedToolManifest::parse(text, skill_id);
            found.findings = parsed.findings;
            found.manifest = parsed.manifest;
            if found.manifest.is_none() {
                return found;
            }
        }
        // Taken out, because the methods below change the rest.
        let manifest = found.manifest.take();
        match &manifest {
            Some(manifest) if !manifest.enabled => {}
            Some(manifest) if !manifest.programs.is_empty() => {
                for program in &manifest.programs {
                    found.add_declared(&program.path, program.key.as_deref(), program.at, files);
                }
            }
            Some(ToolManifest { entry_point: Some(entry), .. }) => {
                found.add_declared(&entry.path, None, entry.at, files);
            }
            _ => found.add_top_level(manifest.is_some(), files),
        }
        let kind = manifest.as_ref().map_or(ToolKind::Skill, |manifest| manifest.kind);
        found.manifest = manifest;
        found.choose_default(kind);
        if found.has_errors() {
            // A part of a skill's tools could be mistaken for all of them.
            found.programs.clear();
        }
        found
    }

    /// Returns whether one of the findings is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|found| found.severity == crate::Severity::Error)
    }

    fn add_error(&mut self, rule: &'static str, at: Span, message: String, help: &str) {
        let found = Diagnostic::error(rule, message).with_position(at.line, at.column);
        self.findings.push(found.with_help(help));
    }

    /// Adds a program that `tool.json` names.
    fn add_declared(&mut self, path: &str, key: Option<&str>, at: Span, files: &dyn ProgramFiles) {
        // Both spellings are common in module paths.
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_inside = !path.is_empty()
            && !path.contains('\\')
            && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_inside {
            let message = format!("`{}` is not a path in the skill's directory", excerpt(path));
            let help = "name a file by its relative path, with `/` between directories";
            return self.add_error("programs.invalid", at, message, help);
        }
        let Some(path) = resolve_entry(path, files) else {
            let message = format!("there is no program `{}` in the skill", excerpt(path));
            let help = "programs are `.js`, `.mjs`, `.cjs` and `.py` files";
            return self.add_error("programs.invalid", at, message, help);
        };
        let key = key.map_or_else(|| stem(&path).to_owned(), str::to_owned);
        self.add(key, path, at);
    }

    /// Adds the programs at the top level of the directory. Without a `tool.json`, a file has to
    /// show a form of a program: many skills have scripts next to their SKILL.md.
    fn add_top_level(&mut self, is_declared: bool, files: &dyn ProgramFiles) {
        for name in files.top_level() {
            if !has_extension(name) {
                continue;
            }
            if name.starts_with(['.', '_']) {
                self.left_out.push((name.clone(), "its name starts with `.` or `_`"));
            } else if name.contains(".test.") || name.contains(".spec.") {
                self.left_out.push((name.clone(), "it is a test"));
            } else if !is_declared {
                match files.read_text(name) {
                    None => self.left_out.push((name.clone(), "it is too large or not text")),
                    Some(text) if !source_form::has_program_form(name, &text) => {
                        let reason = "it exports no handler; `tool.json` can name it";
                        self.left_out.push((name.clone(), reason));
                    }
                    Some(_) => self.add(stem(name).to_owned(), name.clone(), Span::default()),
                }
            } else {
                self.add(stem(name).to_owned(), name.clone(), Span::default());
            }
        }
    }

    fn add(&mut self, key: String, path: String, at: Span) {
        // The key becomes a part of a tool's name, which models' interfaces restrict.
        let is_valid = (1..=MAX_KEY).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_valid {
            let message = format!("the program `{}` has no valid key", excerpt(&path));
            let help = "a key has 1 to 48 letters, digits, `_` or `-`; rename the file, or give it a \
                        key in `programs` of tool.json";
            return self.add_error("programs.invalid", at, message, help);
        }
        if let Some(other) = self.programs.iter().find(|other| other.key == key) {
            let message =
                format!("`{}` and `{path}` are both the program `{key}`", excerpt(&other.path));
            let help = "remove one of the files, or list the programs in `programs` of tool.json";
            return self.add_error("programs.ambiguous", at, message, help);
        }
        // Every program is a tool in each request of an agent.
        if self.programs.len() == PROGRAM_LIMIT {
            let already = self.findings.iter().any(|found| found.message.starts_with("more than"));
            if !already {
                let message = format!("more than {PROGRAM_LIMIT} programs");
                let help = "list the programs in `programs` of tool.json";
                self.add_error("programs.invalid", at, message, help);
            }
            return;
        }
        self.programs.push(ProgramFile { key, path, is_default: false });
    }

    /// Marks the program whose tool is called like the skill.
    fn choose_default(&mut self, kind: ToolKind) {
        let named = DEFAULT_KEYS
            .iter()
            .find_map(|key| self.programs.iter().position(|program| program.key == *key));
        // Several tools of LangChain are equal; those of a skill have a first one.
        let first = || (kind != ToolKind::Langchain || self.programs.len() == 1).then_some(0);
        if let Some(program) = named.or_else(first).and_then(|at| self.programs.get_mut(at)) {
            program.is_default = true;
        }
    }
}

/// The files of a skill by name, for callers that hold them all.
impl ProgramFiles for (Vec<String>, BTreeMap<String, String>) {
    fn top_level(&self) -> &[String] {
        &self.0
    }

    fn is_file(&self, path: &str) -> bool {
        self.1.contains_key(path)
    }

    fn read_text(&self, path: &str) -> Option<String> {
        self.1.get(path).cloned()
    }
}

/// Completes the path of a program: a file, a file without its extension, or a directory with an
/// index.
fn resolve_entry(path: &str, files: &dyn ProgramFiles) -> Option<String> {
    if has_extension(path) && files.is_file(path) {
        return Some(path.to_owned());
    }
    // As module loaders complete a path.
    let completed = EXTENSIONS.iter().map(|extension| format!("{path}{extension}"));
    let indexes = EXTENSIONS.iter().map(|extension| format!("{path}/index{extension}"));
    completed.chain(indexes).find(|candidate| files.is_file(candidate))
}

fn has_extension(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| name.ends_with(extension))
}

/// Returns the name of a file without directories and extension.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Shortens untrusted text for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}
