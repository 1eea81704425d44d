//! The programs of the skills of a store, found again where files change.
//!
//! The scan of a store looks at SKILL.md alone. This index has a stamp of each skill's directory,
//! and of each file of the skills that have or may get programs.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use skill_catalog::{
    Audience, RegistryError, Skill, SkillProgramFiles, SkillState, Snapshot, Store,
};
use skill_format::{Diagnostic, DiscoveredPrograms, ProgramFile, Severity, TOOL_JSON, ToolKind};
use skillhost_files::{PackageTree, package_digest};
use skillhost_payload::{
    ErrorKind, OperatorCommand, SkillProgram, SkillProgramKind, object_schema,
};

use crate::publish::{FileListing, ListedFile};
use crate::tools::find_visible;

/// A second write within this time of the first one may leave an equal stamp.
const RACY: Duration = Duration::from_secs(2);

/// The programs of the skills of a store.
#[derive(Debug)]
pub struct ProgramIndex {
    store: Arc<Store>,
    state: Mutex<IndexState>,
}

#[derive(Debug, Default)]
struct IndexState {
    skills: HashMap<String, IndexedPrograms>,
    /// The number of changes.
    revision: u64,
}

/// The programs of a skill and the stamps of its files.
#[derive(Debug)]
struct IndexedPrograms {
    /// The time of the last change of the directory; `None` if it has to be examined again.
    stamp: Option<SystemTime>,
    /// Its files, if a change of one of them may change the programs.
    files: Option<Vec<ListedFile>>,
    found: DiscoveredPrograms,
    /// The digest of the directory, if it has programs.
    digest: Option<String>,
}

impl IndexedPrograms {
    /// Returns whether the skill is offered as a tool without being named.
    fn is_offered(&self) -> bool {
        let declared = self.found.manifest.as_ref().is_some_and(|manifest| manifest.enabled);
        !self.found.has_errors() && (declared || !self.found.programs.is_empty())
    }
}

impl ProgramIndex {
    /// Creates the index of a store. It is filled by its first use.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, state: Mutex::default() }
    }

    /// Finds changes; returns a number that grows with each of them.
    ///
    /// Costs one `stat` per skill without programs, and one per file of the others.
    pub fn refresh(&self) -> u64 {
        let (snapshot, mut state) = (self.store.snapshot(), self.lock());
        self.refresh_state(&snapshot, &mut state);
        state.revision
    }

    /// Returns the number of changes that were found so far.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    fn refresh_state(&self, snapshot: &Snapshot, state: &mut IndexState) {
        let mut changed = false;
        for skill in snapshot.skills() {
            changed |= self.refresh_skill(state, skill);
        }
        if state.skills.len() > snapshot.skills().len() {
            let present: HashSet<_> = snapshot.skills().iter().map(|it| it.cache_key()).collect();
            let before = state.skills.len();
            state.skills.retain(|key, indexed| present.contains(key) || !indexed.is_offered());
            // A removed skill without programs changes nothing.
            changed |= state.skills.len() != before;
            state.skills.retain(|key, _| present.contains(key));
        }
        state.revision += u64::from(changed);
    }

    /// Examines a skill; returns whether its programs changed.
    fn refresh_skill(&self, state: &mut IndexState, skill: &Skill) -> bool {
        let key = skill.cache_key();
        let known = state.skills.get(&key);
        let stamp = self.read_stamp(&skill.dir());
        if let Some(known) = known
            && known.files.is_none()
            && known.stamp.is_some()
            && known.stamp == stamp
        {
            return false;
        }
        let examined = self.examine(skill, known, stamp);
        let Some(examined) = examined else { return false };
        let before = known.map(|known| (&known.found, &known.digest));
        let changed = match before {
            Some(before) => before != (&examined.found, &examined.digest),
            None => examined.is_offered(),
        };
        state.skills.insert(key, examined);
        changed
    }

    /// Reads the directory of a skill; returns `None` if nothing has changed since the last time.
    fn examine(
        &self,
        skill: &Skill,
        known: Option<&IndexedPrograms>,
        stamp: Option<SystemTime>,
    ) -> Option<IndexedPrograms> {
        let opened = skill.open_directory().ok();
        let listed =
            opened.and_then(|dir| Some((FileListing::list(&dir, skill.file()).ok()?, dir)));
        let Some((listing, dir)) = listed else {
            // The next pass of the store reports the directory.
            return Some(IndexedPrograms {
                stamp: None,
                files: None,
                found: DiscoveredPrograms::default(),
                digest: None,
            });
        };
        let now = self.store.now();
        let settled = !listing.files.iter().any(|file| file.signature.is_racy(now));
        if let Some(files) = known.and_then(|known| known.files.as_ref())
            && settled
            && *files == listing.files
        {
            return None;
        }
        let found = SkillProgramFiles::find_in(&dir, skill.id().as_str());
        let found = found.map(|found| found.found).unwrap_or_default();
        let digest = (!found.has_errors()
            && (found.manifest.is_some() || !found.programs.is_empty()))
        .then(|| PackageTree::read(&dir).ok())
        .flatten()
        .map(|tree| package_digest(&tree.files));
        // A faulty `tool.json` is watched too, because a correction makes programs of it.
        let has_manifest = listing.files.iter().any(|file| file.path == TOOL_JSON);
        let is_watched = has_manifest || !found.programs.is_empty() || !found.left_out.is_empty();
        // Without stamps the files are examined again by the next refresh.
        let files = if settled { listing.files } else { Vec::new() };
        Some(IndexedPrograms { stamp, files: is_watched.then_some(files), found, digest })
    }

    /// Returns the time of the last change of a directory if it can be trusted.
    fn read_stamp(&self, dir: &Path) -> Option<SystemTime> {
        let modified = std::fs::metadata(dir).ok()?.modified().ok()?;
        // A stamp from the future never becomes trusted, so such a skill is examined every time.
        let age = self.store.now().duration_since(modified).ok()?;
        (age > RACY).then_some(modified)
    }

    /// Lists the programs that are offered as tools to an audience, sorted by skill.
    #[must_use]
    pub fn list(&self, audience: Audience<'_>) -> Vec<SkillProgram> {
        let (snapshot, mut state) = (self.store.snapshot(), self.lock());
        self.refresh_state(&snapshot, &mut state);
        let mut programs = Vec::new();
        for skill in snapshot.visible(audience) {
            // Operators see skills that are off, but no caller is offered them.
            if snapshot.state(skill) == SkillState::Off {
                continue;
            }
            let indexed = state.skills.get(&skill.cache_key());
            if let Some(indexed) = indexed.filter(|indexed| indexed.is_offered()) {
                programs.extend(to_programs(skill, indexed));
            }
        }
        programs
    }

    /// Lists the programs of one skill. A skill without programs has one entry without a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a skill that the audience does not see, [`ErrorKind::Denied`] for
    /// one that is off, [`ErrorKind::InvalidArgument`] if its programs cannot be used,
    /// [`ErrorKind::TooLarge`] if its directory has no digest, [`ErrorKind::Io`] if its SKILL.md
    /// cannot be read and no good text is cached.
    pub fn list_skill(
        &self,
        audience: Audience<'_>,
        id: &str,
    ) -> Result<Vec<SkillProgram>, RegistryError> {
        let snapshot = self.store.snapshot();
        let skill = find_visible(&snapshot, id, audience)?;
        if snapshot.state(skill) == SkillState::Off {
            let enable = OperatorCommand::EnableSkill { id: skill.id().as_str() };
            return Err(RegistryError::new(
                ErrorKind::Denied,
                format!("`{id}` is off"),
                format!("run `{enable}` to enable it"),
            ));
        }
        // The files may have changed since the last poll.
        let mut state = self.lock();
        self.refresh_skill(&mut state, skill);
        let Some(indexed) = state.skills.get(&skill.cache_key()) else { return Ok(Vec::new()) };
        if let Some(finding) =
            indexed.found.findings.iter().find(|found| found.severity == Severity::Error)
        {
            return Err(RegistryError::new(
                ErrorKind::InvalidArgument,
                format!("the programs of `{id}` cannot be used: {}", describe_finding(finding)),
                finding.help.clone().unwrap_or_else(|| "correct it, then try again".to_owned()),
            ));
        }
        if !indexed.found.programs.is_empty() && indexed.digest.is_none() {
            return Err(RegistryError::new(
                ErrorKind::TooLarge,
                format!("the files of `{id}` have no digest, so its programs cannot be approved"),
                "a skill with programs has at most 512 files, 16 MiB and 8 nested directories",
            ));
        }
        let mut programs = to_programs(skill, indexed);
        drop(state);
        let source = self.store.read(skill)?;
        programs.iter_mut().for_each(|it| source.body().clone_into(&mut it.instructions));
        Ok(programs)
    }

    fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a finding with its place, for a message.
fn describe_finding(finding: &Diagnostic) -> String {
    let Diagnostic { line, column, message, .. } = finding;
    match (line, column) {
        (0, _) => message.clone(),
        (line, 0) => format!("{TOOL_JSON}:{line}: {message}"),
        (line, column) => format!("{TOOL_JSON}:{line}:{column}: {message}"),
    }
}

fn to_programs(skill: &Skill, indexed: &IndexedPrograms) -> Vec<SkillProgram> {
    let manifest = indexed.found.manifest.as_ref();
    let declared = manifest.and_then(|manifest| manifest.description.clone());
    let description = declared.unwrap_or_else(|| skill.description().to_owned());
    let any_object = || {
        let mut schema = object_schema(&serde_json::json!({}), &[]);
        // The program checks its arguments; without a schema nothing is known of them.
        schema["additionalProperties"] = true.into();
        schema
    };
    let program = |key: &str, entry: Option<&ProgramFile>| SkillProgram {
        tool_name: match entry {
            Some(entry) if !entry.is_default => format!("{}.{key}", skill.id()),
            _ => skill.id().to_string(),
        },
        skill_id: skill.id().to_string(),
        key: key.to_owned(),
        entry: entry.map(|entry| entry.path.clone()),
        kind: match manifest.map(|manifest| manifest.kind) {
            Some(ToolKind::Langchain) => SkillProgramKind::Langchain,
            _ => SkillProgramKind::Skill,
        },
        description: match entry {
            Some(entry) if !entry.is_default => format!("{description} (program `{key}`)"),
            _ => description.clone(),
        },
        input_schema: manifest
            .and_then(|manifest| manifest.input_schema.clone())
            .unwrap_or_else(any_object),
        output_schema: manifest.and_then(|manifest| manifest.output_schema.clone()),
        tree_digest: indexed.digest.clone().unwrap_or_default(),
        instructions: String::new(),
    };
    let programs = &indexed.found.programs;
    match programs.is_empty() {
        true => vec![program("", None)],
        false => programs.iter().map(|entry| program(&entry.key, Some(entry))).collect(),
    }
}

#[cfg(test)]
mod tests;
