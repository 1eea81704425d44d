//! The examination of one directory: whether it is a skill, and the content of its SKILL.md.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skill_format::{Diagnostic, SkillId, SkillIdError};

use crate::disk::{FileKind, FileStat, RootDir, stat_file};
use crate::entry::{EntryContent, ScanEntry};
use crate::problem::{PartialReason, ProblemDraft, ScanProblem};
use crate::reading::{
    ReadOutcome, ValidSkill, parse_complete, read_bytes, read_head, reject_by_stat,
};
use crate::signature::FileSignature;
use crate::skill::{LinkTarget, Skill, SkillFile, SkillLocation};

use super::pass::{RootScanner, ScanMode};

/// The directory under examination.
pub(super) struct CandidateDirectory<'s> {
    /// The index of its root.
    pub(super) index: usize,
    /// The path of the directory above, below the root.
    pub(super) parent: &'s Arc<str>,
    pub(super) name: &'s str,
    /// The path below the root.
    pub(super) rel: &'s str,
    /// The target if the directory is a link.
    pub(super) link: Option<Box<LinkTarget>>,
    /// The entry of the previous pass.
    pub(super) previous: Option<&'s ScanEntry>,
}

/// A SKILL.md of the directory under examination.
struct ExaminedFile<'c> {
    candidate: &'c CandidateDirectory<'c>,
    id: &'c SkillId,
    file: SkillFile,
    stat: FileStat,
    /// `true` if the file changed while it was read, so that the next poll reads it again.
    torn: bool,
}

/// The outcome of examining a SKILL.md.
enum ProbeOutcome {
    Read(ReadOutcome),
    Refused(ProblemDraft),
    Failed(io::Error),
}

impl RootScanner<'_> {
    /// Looks for a SKILL.md in a directory and reads it if its stamp changed; returns `None` if the
    /// directory has none.
    pub(super) fn probe(&mut self, candidate: &CandidateDirectory<'_>) -> Option<ScanEntry> {
        // The buffer is moved out, because the calls below borrow `self` mutably.
        let mut path = std::mem::take(&mut self.path);
        let entry = self.find_skill_file(candidate, &mut path);
        self.path = path;
        entry
    }

    fn find_skill_file(
        &mut self,
        candidate: &CandidateDirectory<'_>,
        path: &mut String,
    ) -> Option<ScanEntry> {
        let (at, rel) = match &candidate.link {
            Some(link) => (usize::from(link.index), &*link.rel),
            None => (candidate.index, candidate.rel),
        };
        let roots = self.setting.roots;
        let dir = roots[at].dir.as_ref().ok()?;
        let id = SkillId::new(candidate.name);
        for file in SkillFile::BOTH {
            path.clear();
            path.extend([rel, "/", file.name()]);
            let id = match &id {
                Ok(id) => id,
                // Without a SKILL.md the directory is a group, and groups may have any name.
                Err(error) => match self.stat(dir, path) {
                    Ok(stat) => {
                        return Some(self.invalid_name_entry(candidate, file, stat, *error));
                    }
                    Err(_) => continue,
                },
            };
            if let Some(before) = candidate.previous
                && self.setting.mode == ScanMode::Changes
            {
                match self.stat(dir, path) {
                    Ok(stat) if before.is_current(file, candidate, stat.signature) => {
                        return Some(ScanEntry { missing: false, ..before.clone() });
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    // `stat` cannot tell this apart from a file without read permission; opening it
                    // can.
                    Ok(_) | Err(_) => {}
                }
            }
            match dir.open_file(path) {
                Ok(open) => {
                    self.walked.opened += 1;
                    return Some(self.read(candidate, id, file, open));
                }
                // On a case-sensitive file system the second spelling is tried next.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::NotADirectory => return None,
                Err(error) => return self.open_error_entry(candidate, id, file, dir, path, error),
            }
        }
        None
    }

    fn stat(&mut self, dir: &RootDir, path: &str) -> io::Result<FileStat> {
        self.walked.stats += 1;
        dir.stat(path)
    }

    /// Reads an open file: as little as the mode allows.
    fn read(
        &mut self,
        candidate: &CandidateDirectory<'_>,
        id: &SkillId,
        file: SkillFile,
        mut open: File,
    ) -> ScanEntry {
        let mut examined = ExaminedFile { candidate, id, file, stat: unknown(), torn: false };
        match stat_file(&open) {
            Ok(stat) => examined.stat = stat,
            Err(error) => {
                // Nothing is known of the file, so the next poll reads it again.
                examined.torn = true;
                return self.build_entry(&examined, ProbeOutcome::Failed(error));
            }
        }
        let found = if self.setting.mode == ScanMode::Listing {
            match reject_by_stat(&examined.stat) {
                Some(finding) => ProbeOutcome::Refused(finding),
                None => read_head(&mut open, &examined.stat, candidate.name, &mut self.buffer)
                    .map_or_else(ProbeOutcome::Failed, ProbeOutcome::Read),
            }
        } else {
            match read_bytes(&mut open, examined.stat) {
                Ok(Ok(read)) => {
                    (examined.stat, examined.torn) = (read.stat, read.torn);
                    ProbeOutcome::Read(parse_complete(candidate.name, &read.bytes))
                }
                Ok(Err(finding)) => ProbeOutcome::Refused(finding),
                Err(error) => ProbeOutcome::Failed(error),
            }
        };
        self.build_entry(&examined, found)
    }

    /// Explains a file that is there but cannot be opened.
    fn open_error_entry(
        &mut self,
        candidate: &CandidateDirectory<'_>,
        id: &SkillId,
        file: SkillFile,
        dir: &RootDir,
        path: &str,
        error: io::Error,
    ) -> Option<ScanEntry> {
        match self.stat(dir, path) {
            Ok(stat) => {
                let found = reject_by_stat(&stat)
                    .map_or(ProbeOutcome::Failed(error), ProbeOutcome::Refused);
                let examined = ExaminedFile { candidate, id, file, stat, torn: false };
                Some(self.build_entry(&examined, found))
            }
            // The file was removed during the probe.
            Err(gone) if gone.kind() == ErrorKind::NotFound => None,
            // The directory cannot be entered. Without an earlier entry, its listing reports the
            // error.
            Err(_) => {
                candidate.previous?;
                let (path, message) = (self.path_of(candidate, None), error.to_string());
                self.walked.partial.push(PartialReason::Unreadable { path, message });
                let examined = ExaminedFile { candidate, id, file, stat: unknown(), torn: false };
                Some(self.build_entry(&examined, ProbeOutcome::Failed(error)))
            }
        }
    }

    /// Creates an entry from a probe and retains the last good version if there is one.
    fn build_entry(&mut self, examined: &ExaminedFile<'_>, found: ProbeOutcome) -> ScanEntry {
        let ExaminedFile { candidate, id, file, stat, torn } = *examined;
        let (diagnostics, unstable) = match found {
            ProbeOutcome::Read(ReadOutcome::Valid(good)) => {
                return self.build_valid_entry(examined, *good);
            }
            ProbeOutcome::Read(ReadOutcome::Invalid(diagnostics)) => (diagnostics, None),
            ProbeOutcome::Refused(finding) => (vec![finding.into()], None),
            ProbeOutcome::Failed(error) => {
                let finding = ProblemDraft::error(
                    "file.unreadable",
                    format!("it cannot be read: {error}"),
                    "give the process permission to read it",
                );
                (vec![finding.into()], Some(error.kind()))
            }
        };
        let last_good = candidate.previous.filter(|before| {
            // The version that was listed may itself turn out to be invalid: then no good version
            // exists.
            let listed_only = before.skill().is_some_and(|skill| skill.digest().is_none());
            let same_file = before.signature == stat.signature;
            before.broken || unstable.is_some() || !(listed_only && same_file)
        });
        let last_good = last_good.and_then(ScanEntry::skill);
        let path = self.path_of(candidate, Some(file));
        let mut problems = problems(&path, id, last_good.is_none(), diagnostics);
        if let Some(skill) = last_good {
            let finding = ProblemDraft::last_good(skill.digest());
            problems.push(ScanProblem::for_path(path, Some(id.clone()), false, finding));
        }
        ScanEntry {
            broken: last_good.is_some(),
            subject: match last_good {
                Some(skill) => EntryContent::Skill(Arc::clone(skill)),
                None => EntryContent::Refused(candidate.name.into()),
            },
            signature: stat.signature,
            link: candidate.link.clone(),
            problems: problems.into(),
            file,
            racy: stat.signature.is_racy(self.setting.now),
            // A refused permission shows in the stamp when it is granted; other failures may pass.
            dirty: torn || unstable.is_some_and(|kind| kind != ErrorKind::PermissionDenied),
            missing: false,
        }
    }

    /// Creates an entry of a valid file.
    fn build_valid_entry(&mut self, examined: &ExaminedFile<'_>, good: ValidSkill) -> ScanEntry {
        let ExaminedFile { candidate, id, file, stat, torn } = *examined;
        let place = SkillLocation {
            root: Arc::clone(&self.setting.roots[candidate.index].root),
            parent: Arc::clone(candidate.parent),
            link: candidate.link.clone(),
            file,
        };
        let known = good.whole.as_ref().map(|whole| whole.known);
        let size = stat.signature.size;
        let skill = Skill::new(id.clone(), place, good.frontmatter, size, good.estimate, known);
        let before = candidate.previous.and_then(ScanEntry::skill);
        // The same object means the same content: readers and caches compare addresses.
        let unchanged = before.filter(|old| {
            old.is_same_as(&skill)
                // Without an earlier digest only an equal stamp shows that the text is the same.
                && match (old.digest(), skill.digest()) {
                    (Some(old), Some(new)) => old == new,
                    (None, Some(_)) => {
                        candidate.previous.is_some_and(|entry| entry.signature == stat.signature)
                    }
                    _ => false,
                }
        });
        if let Some(whole) = good.whole {
            // An unchanged text must not evict texts that were requested.
            if unchanged.is_some() {
                self.setting.cache.insert_if_room(&skill.cache_key(), whole.good);
            } else {
                self.setting.cache.insert(&skill.cache_key(), whole.good);
            }
        }
        // An unchanged skill stays the same object and keeps the facts of its text.
        let skill = match unchanged {
            Some(old) => {
                if let Some(known) = known {
                    old.set_text_facts(known);
                }
                Arc::clone(old)
            }
            None => Arc::new(skill),
        };
        // Candidates for the new name of a skill that disappeared; the first pass knows no old ones.
        if before.is_none() && self.setting.mode != ScanMode::Listing {
            self.walked.fresh.push((Arc::clone(&skill), stat.signature));
        }
        let problems = if good.diagnostics.is_empty() {
            Vec::new()
        } else {
            problems(&self.path_of(candidate, Some(file)), id, false, good.diagnostics)
        };
        ScanEntry {
            subject: EntryContent::Skill(skill),
            signature: stat.signature,
            link: candidate.link.clone(),
            problems: problems.into(),
            file,
            racy: stat.signature.is_racy(self.setting.now),
            dirty: torn,
            missing: false,
            broken: false,
        }
    }

    /// Creates an entry of a directory whose name is not a valid id; its file is not read.
    fn invalid_name_entry(
        &self,
        candidate: &CandidateDirectory<'_>,
        file: SkillFile,
        stat: FileStat,
        error: SkillIdError,
    ) -> ScanEntry {
        let finding = ProblemDraft::error("id.invalid", error.to_string(), "rename the directory");
        ScanEntry {
            subject: EntryContent::Refused(candidate.name.into()),
            signature: stat.signature,
            link: candidate.link.clone(),
            problems: [ScanProblem::for_path(self.path_of(candidate, None), None, true, finding)]
                .into(),
            file,
            // The content of the directory cannot change the result.
            racy: false,
            dirty: false,
            missing: false,
            broken: false,
        }
    }

    fn path_of(&self, candidate: &CandidateDirectory<'_>, file: Option<SkillFile>) -> PathBuf {
        let mut path = self.setting.roots[candidate.index].root.path.join(candidate.rel);
        path.extend(file.map(SkillFile::name));
        path
    }
}

fn problems(
    path: &Path,
    id: &SkillId,
    skipped: bool,
    diagnostics: Vec<Diagnostic>,
) -> Vec<Arc<ScanProblem>> {
    let problem = |diagnostic| {
        Arc::new(ScanProblem {
            path: path.to_owned(),
            skill: Some(id.clone()),
            skipped,
            diagnostic,
        })
    };
    diagnostics.into_iter().map(problem).collect()
}

impl ScanEntry {
    /// Returns whether the earlier entry of the file is still current.
    fn is_current(
        &self,
        file: SkillFile,
        candidate: &CandidateDirectory<'_>,
        signature: FileSignature,
    ) -> bool {
        self.file == file
            && self.link == candidate.link
            && self.signature == signature
            && !self.racy
            && !self.dirty
    }
}

/// Returns the placeholder for a file that cannot be examined.
fn unknown() -> FileStat {
    FileStat { kind: FileKind::Unknown, signature: FileSignature::default() }
}
