//! Reads the cases of a skill.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use skill_catalog::{SkillFile, read_skill_yaml_in};
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec, TestScenario, excerpt};
use skill_evals::{
    CaseAssertion, CaseFinding, CaseSplit, MAX_CASE_FILE, OutputCase, SuiteSettings, TriggerCase,
    cases_of_scenarios, parse_evals, parse_suite, parse_triggers, split_of,
};
use skill_format::{EVALS_DIRECTORY, FILE_LIMIT, Frontmatter, SKILL_YAML};
use skillhost_files::jail::{self, JailError, RelPath};

/// The files of queries, relative to the skill's directory. The names of cases in the first one
/// have no prefix.
const TRIGGER_FILES: [&str; 3] = ["triggers.json", "eval_queries.json", "trigger_eval.json"];

const EVAL_FILE: &str = "evals.json";
const SUITE_FILE: &str = "suite.yaml";

/// The files named by prompts that a digest covers.
const MAX_INPUTS: usize = 1_000;
/// The limit on a file that a prompt names, in bytes; the digest covers of a larger one only that it is
/// larger.
pub const MAX_INPUT_BYTES: usize = 16 << 20;

/// The cases of a skill.
#[derive(Clone, Debug, Default)]
pub struct SkillCases {
    /// The skill's id.
    pub skill_id: String,
    /// The queries.
    pub triggers: Vec<LoadedCase<TriggerCase>>,
    /// The prompts.
    pub outputs: Vec<LoadedCase<OutputCase>>,
    /// The settings of `suite.yaml`.
    pub settings: SuiteSettings,
    /// The files that were read, with their findings.
    pub files: Vec<CaseFile>,
    /// The digest of the files that the prompts name: inputs, and scripts that check results. Empty
    /// without such files.
    pub inputs: String,
}

/// A case with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedCase<T> {
    /// The case.
    pub case: T,
    /// The name, unique among the cases of the skill.
    pub name: String,
    /// The file, relative to the directory that it was read from.
    pub file: Arc<str>,
    /// The side of the split.
    pub split: CaseSplit,
    /// `true` if only operators can read the file: the home has it, not the skill.
    pub is_private: bool,
}

/// A file of cases that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseFile {
    /// The path below the skill's directory; below the directory of held-out cases for those.
    pub path: Arc<str>,
    /// Whether it is below the directory of held-out cases.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_private: bool,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// The findings.
    pub findings: Vec<CaseFinding>,
}

/// Reads the cases in a skill's directory: those below `evals/`, and the test scenarios of its
/// SKILL.md and `skill.yaml`.
///
/// A file that cannot be read is reported as a finding of the file; no link is followed. `seed`
/// divides the cases without a fixed side into train and held-out.
#[must_use]
pub fn load_cases(directory: &Dir, skill_id: &str, seed: u64) -> SkillCases {
    let mut loader = CaseLoader::new(directory, skill_id, seed, false);
    loader.load_directory(EVALS_DIRECTORY);
    loader.load_scenarios();
    loader.cases
}

/// Adds the cases that a home holds out for a skill: files of the same forms in `directory`.
///
/// Afterwards, every case that readers of the skill can see is a train case.
pub fn load_held_out(cases: &mut SkillCases, directory: &Dir) {
    let mut loader = CaseLoader::new(directory, &cases.skill_id, 0, true);
    loader.load_directory("");
    let SkillCases { triggers, outputs, files, .. } = loader.cases;
    // Per kind, as a home may hold out queries and no prompts.
    if !triggers.is_empty() {
        cases.triggers.iter_mut().for_each(|case| case.split = CaseSplit::Train);
    }
    if !outputs.is_empty() {
        cases.outputs.iter_mut().for_each(|case| case.split = CaseSplit::Train);
    }
    cases.triggers.extend(triggers);
    cases.outputs.extend(outputs);
    cases.files.extend(files);
}

/// Reads the cases in a skill's directory, and those that its home holds out, as one set.
///
/// A name that two cases have is a finding, as they would share their results.
#[must_use]
pub fn load_all_cases(
    directory: &Dir,
    skill_id: &str,
    seed: u64,
    held_out: Option<&Dir>,
) -> SkillCases {
    let mut cases = load_cases(directory, skill_id, seed);
    if let Some(held_out) = held_out {
        load_held_out(&mut cases, held_out);
    }
    cases.report_repeated_names();
    cases.inputs = digest_inputs(directory, &cases.outputs);
    cases
}

/// Returns the digest of the files that prompts name, with their paths; empty without such files.
fn digest_inputs(directory: &Dir, outputs: &[LoadedCase<OutputCase>]) -> String {
    let scripts = |case: &OutputCase| {
        let scripts = case.assertions.iter().filter_map(CaseAssertion::script);
        scripts.map(str::to_owned).collect::<Vec<_>>()
    };
    let paths: BTreeSet<String> = outputs
        .iter()
        .flat_map(|loaded| loaded.case.files.iter().cloned().chain(scripts(&loaded.case)))
        .collect();
    let mut hasher = Sha256::new();
    for path in paths.iter().take(MAX_INPUTS) {
        hasher.update(path.as_bytes());
        hasher.update([0]);
        // A file that cannot be read is another input than any that can.
        let bytes = read_limited_bytes(directory, path, MAX_INPUT_BYTES);
        hasher.update(bytes.map_or([0; 32], |bytes| Sha256::digest(bytes).into()));
    }
    if paths.is_empty() { String::new() } else { skillhost_files::to_hex(&hasher.finalize()) }
}

impl SkillCases {
    /// Adds a finding for each case that has the name of another one of its kind.
    fn report_repeated_names(&mut self) {
        let triggers =
            self.triggers.iter().map(|it| (&it.name, &it.file, it.is_private, it.case.at));
        let outputs = self.outputs.iter().map(|it| (&it.name, &it.file, it.is_private, it.case.at));
        let mut found = Vec::new();
        for (kind, cases) in
            [("query", triggers.collect::<Vec<_>>()), ("prompt", outputs.collect())]
        {
            let mut seen = HashSet::new();
            for (name, file, is_private, at) in cases {
                if !seen.insert(name) {
                    let message = format!("another {kind} has the name `{}` too", excerpt(name));
                    let help = "give each case an id of its own";
                    let finding = CaseFinding::error(at, message, help);
                    found.push((Arc::clone(file), is_private, finding));
                }
            }
        }
        for (path, is_private, finding) in found {
            let file = self
                .files
                .iter_mut()
                .find(|file| file.path == path && file.is_private == is_private);
            match file {
                Some(file) if !file.findings.contains(&finding) => file.findings.push(finding),
                Some(_) => {}
                // The scenarios of a SKILL.md are in no file of cases.
                None => self.files.push(CaseFile {
                    path,
                    is_private,
                    digest: String::new(),
                    findings: vec![finding],
                }),
            }
        }
    }

    /// Returns whether the skill has neither queries nor prompts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.triggers.is_empty() && self.outputs.is_empty()
    }

    /// Returns the digest of all files, which changes with any case: SHA-256 of their paths and
    /// digests.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for file in &self.files {
            hasher.update(file.path.as_bytes());
            hasher.update([0]);
            hasher.update(file.digest.as_bytes());
        }
        hasher.update(self.inputs.as_bytes());
        skillhost_files::to_hex(&hasher.finalize())
    }

    /// Returns the findings because of which a file is not used completely.
    pub fn errors(&self) -> impl Iterator<Item = (&CaseFile, &CaseFinding)> {
        let all = self.files.iter().flat_map(|file| file.findings.iter().map(move |it| (file, it)));
        all.filter(|(_, finding)| !finding.is_warning)
    }
}

struct CaseLoader<'a> {
    directory: &'a Dir,
    seed: u64,
    is_private: bool,
    cases: SkillCases,
}

impl<'a> CaseLoader<'a> {
    fn new(directory: &'a Dir, skill_id: &str, seed: u64, is_private: bool) -> Self {
        let cases = SkillCases { skill_id: skill_id.to_owned(), ..SkillCases::default() };
        Self { directory, seed, is_private, cases }
    }

    /// Reads the files of cases below a directory.
    fn load_directory(&mut self, directory: &str) {
        let join = |name: &str| match directory {
            "" => name.to_owned(),
            directory => format!("{directory}/{name}"),
        };
        for (number, name) in TRIGGER_FILES.iter().enumerate() {
            let path = join(name);
            let Some(text) = self.read_text(&path) else { continue };
            let parsed = parse_triggers(&text);
            let file = self.add_file(&path, &text, parsed.findings);
            let stem = name.trim_end_matches(".json");
            let prefix = if number == 0 { String::new() } else { format!("{stem}/") };
            self.add_triggers(parsed.cases, &file, &prefix);
        }
        let path = join(EVAL_FILE);
        if let Some(text) = self.read_text(&path) {
            let parsed = parse_evals(&text, &self.cases.skill_id);
            let file = self.add_file(&path, &text, parsed.findings);
            self.add_outputs(parsed.cases, &file);
        }
        let path = join(SUITE_FILE);
        // The settings of a run are those of the skill.
        if !self.is_private
            && let Some(text) = self.read_text(&path)
        {
            let parsed = parse_suite(&text);
            self.add_file(&path, &text, parsed.findings);
            self.cases.settings = parsed.settings;
        }
    }

    /// Reads the test scenarios of SKILL.md and `skill.yaml`, of which the first one counts.
    fn load_scenarios(&mut self) {
        let frontmatter = read_frontmatter(self.directory, &self.cases.skill_id);
        let spec = frontmatter.map(|read| ExtendedSpec::from_frontmatter(&read));
        if let Some(scenarios) = spec.and_then(|spec| spec.tests) {
            let file: Arc<str> = SkillFile::Upper.name().into();
            return self.add_scenarios(&scenarios, &file);
        }
        // `lint` reports an unreadable file and wrong declarations.
        let Ok(Some(text)) = read_skill_yaml_in(self.directory) else { return };
        let parsed = ParsedExtendedSpec::parse_skill_yaml(&text, &self.cases.skill_id);
        if let Some(scenarios) = parsed.extended.tests {
            let file = self.add_file(SKILL_YAML, &text, Vec::new());
            self.add_scenarios(&scenarios, &file);
        }
    }

    fn add_scenarios(&mut self, scenarios: &[TestScenario], file: &Arc<str>) {
        self.add_outputs(cases_of_scenarios(scenarios), file);
    }

    fn add_triggers(&mut self, cases: Vec<TriggerCase>, file: &Arc<str>, prefix: &str) {
        let (seed, is_private) = (self.seed, self.is_private);
        let private = if is_private { "held-out/" } else { "" };
        self.cases.triggers.extend(cases.into_iter().map(|case| {
            let own =
                case.split.unwrap_or_else(|| split_of(seed, &case.query, case.should_trigger));
            let split = if is_private { CaseSplit::HeldOut } else { own };
            let name = format!("{private}{prefix}{}", case.name);
            LoadedCase { name, file: Arc::clone(file), split, is_private, case }
        }));
    }

    fn add_outputs(&mut self, cases: Vec<OutputCase>, file: &Arc<str>) {
        let (seed, is_private) = (self.seed, self.is_private);
        let private = if is_private { "held-out/" } else { "" };
        self.cases.outputs.extend(cases.into_iter().map(|case| {
            let own = split_of(seed, &case.prompt, true);
            let split = if is_private { CaseSplit::HeldOut } else { own };
            let name = format!("{private}{}", case.id);
            LoadedCase { name, file: Arc::clone(file), split, is_private, case }
        }));
    }

    fn add_file(&mut self, path: &str, text: &str, findings: Vec<CaseFinding>) -> Arc<str> {
        let path: Arc<str> = path.into();
        let digest = skillhost_files::sha256_hex(text.as_bytes());
        let is_private = self.is_private;
        self.cases.files.push(CaseFile { path: Arc::clone(&path), is_private, digest, findings });
        path
    }

    /// Reads a file; `None` if there is none. Another error is a finding of the file.
    fn read_text(&mut self, path: &str) -> Option<String> {
        match read_limited(self.directory, path, MAX_CASE_FILE) {
            Ok(text) => Some(text),
            Err(error) => {
                if let Some((message, help)) = describe(&error) {
                    let (message, help) = (message.to_owned(), help.to_owned());
                    let (line, column) = (1, 1);
                    let found = CaseFinding { line, column, message, help, is_warning: false };
                    self.add_file(path, "", vec![found]);
                }
                None
            }
        }
    }
}

/// Returns the message and the hint of an error; `None` for a missing file.
fn describe(error: &JailError) -> Option<(&'static str, &'static str)> {
    match error {
        JailError::NotFound => None,
        JailError::Link => Some(("it is a symbolic link", "replace it with its target")),
        JailError::Directory | JailError::NotRegular => {
            Some(("it is not a regular file", "replace it with a regular file"))
        }
        JailError::Io(error) => match error.kind() {
            io::ErrorKind::InvalidData => Some(("it is not UTF-8", "save it as UTF-8")),
            io::ErrorKind::FileTooLarge => {
                Some(("it has more than 4 MiB", "divide the cases among several skills"))
            }
            _ => Some(("it cannot be read", "give the process permission to read it")),
        },
    }
}

fn read_limited_bytes(directory: &Dir, path: &str, limit: usize) -> Result<Vec<u8>, JailError> {
    let path = RelPath::new(path).map_err(|_| JailError::NotFound)?;
    let (file, _) = jail::open_file(directory, &path)?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(JailError::Io)?;
    if bytes.len() > limit {
        return Err(JailError::Io(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(bytes)
}

fn read_limited(directory: &Dir, path: &str, limit: usize) -> Result<String, JailError> {
    let bytes = read_limited_bytes(directory, path, limit)?;
    String::from_utf8(bytes).map_err(|_| JailError::Io(io::ErrorKind::InvalidData.into()))
}

fn read_frontmatter(directory: &Dir, skill_id: &str) -> Option<Frontmatter> {
    let read = |file: SkillFile| read_limited(directory, file.name(), FILE_LIMIT).ok();
    let text = SkillFile::BOTH.into_iter().find_map(read)?;
    skill_format::parse_head(skill_id, text.as_bytes()).frontmatter
}

/// Returns the directory of the cases that a home holds out for a skill, below the data of the
/// registry; `None` if there is none.
#[must_use]
pub fn open_held_out(data: &Path, skill_id: &str) -> Option<Dir> {
    jail::open_below(data, &format!("{EVALS_DIRECTORY}/{skill_id}"), false).ok()
}

/// Returns the path of that directory, whether it exists or not.
#[must_use]
pub fn held_out_directory(data: &Path, skill_id: &str) -> PathBuf {
    data.join(EVALS_DIRECTORY).join(skill_id)
}
