//! A pass over the roots, which finds the directories and the skills among them.
//!
//! The first pass reads every SKILL.md up to its closing fence. Later ones get the result of the
//! previous pass and read only the changes.

use std::collections::{HashSet, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;

use crate::disk::{DirectoryListing, FileKind, RootDir};
use crate::entry::{ScanEntry, ScannedDirectory, find_directory};
use crate::problem::{PartialReason, ProblemDraft, ScanProblem};
use crate::programs::{ADD_SKILL_MD, NO_SKILL_MD, declares_skill};
use crate::roots::{LinkResolution, nested_roots, resolve_link};
use crate::signature::FileSignature;

mod kept_entries;
mod pass;
mod probe;

pub(crate) use pass::{ScanContext, ScanMode, ScanResult};

use pass::RootScanner;
use probe::CandidateDirectory;

/// Runs a pass.
pub(crate) fn scan_roots(setting: ScanContext<'_>) -> ScanResult {
    let mut walk = RootScanner {
        setting,
        walked: ScanResult::default(),
        buffer: Vec::new(),
        path: String::new(),
        inner_roots: Vec::new(),
        directories: 0,
        skills: 0,
        exhausted: false,
    };
    for index in 0..setting.roots.len() {
        walk.scan_root(index);
    }
    walk.walked.containers.sort_by(|a, b| a.key().cmp(&b.key()));
    // A move is only visible once every root was scanned, because the skill may now be in another
    // one.
    walk.forget_renamed();
    walk.walked.containers.shrink_to_fit();
    walk.walked
}

/// A directory that waits to be listed.
struct PendingDirectory {
    rel: Arc<str>,
    depth: usize,
}

impl RootScanner<'_> {
    fn scan_root(&mut self, index: usize) {
        let opened = &self.setting.roots[index];
        let dir = match &opened.dir {
            Ok(dir) => dir,
            Err(error) => return self.record_missing_root(index, error),
        };
        // A SKILL.md in the root itself would make the root a skill, without a directory name as
        // its id.
        self.warn_of_skill_in_root(index, dir);
        self.inner_roots = nested_roots(self.setting.roots, index);
        let start = self.walked.containers.len();
        let mut too_deep: (usize, Option<String>) = (0, None);
        let mut queue = VecDeque::from([PendingDirectory { rel: "".into(), depth: 0 }]);
        let mut unvisited: HashSet<Arc<str>> = HashSet::new();
        // Breadth first: where a limit cuts, it cuts the deepest.
        while let Some(next) = queue.pop_front() {
            // The rest of the queue is recorded, so that its earlier entries are carried over.
            if self.reaches_directory_limit() {
                unvisited.insert(next.rel);
                continue;
            }
            self.directories += 1;
            self.walked.stats += 1;
            let listed = dir.stat(&next.rel).and_then(|stat| Ok((stat, dir.list(&next.rel)?)));
            match listed {
                Ok((stat, listing)) => {
                    let below = self.add_listing(index, dir, &next, stat.signature, &listing);
                    let deeper = next.depth + 1 < self.setting.limits.depth;
                    if deeper {
                        queue.extend(
                            below
                                .into_iter()
                                .map(|rel| PendingDirectory { rel, depth: next.depth + 1 }),
                        );
                    } else if let Some(first) = below.first() {
                        too_deep.0 += below.len();
                        too_deep.1.get_or_insert_with(|| first.to_string());
                    }
                }
                // The directory was removed during the pass: the next listing of its parent reports
                // it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => self.record_unreadable(index, next.rel, &error),
            }
        }
        if let (count, Some(first)) = too_deep {
            self.warn_about_depth(index, count, &first);
        }
        self.carry_over(index, start, &unvisited);
    }

    /// Adds a listed directory; returns the subdirectories that are not skills.
    fn add_listing(
        &mut self,
        index: usize,
        dir: &RootDir,
        pending: &PendingDirectory,
        signature: FileSignature,
        listing: &DirectoryListing,
    ) -> Vec<Arc<str>> {
        // The cast is safe: opening the store rejects more roots than a `u16` can count.
        let before = find_directory(self.setting.previous, index as u16, &pending.rel);
        let mut below = Vec::new();
        let mut found = ScannedDirectory {
            root: index as u16,
            rel: Arc::clone(&pending.rel),
            signature,
            unsettled: signature.is_racy(self.setting.now),
            complete: true,
            entries: Vec::new(),
        };
        self.warn_of_tool_manifest(index, &pending.rel, listing);
        let mut rel = String::new();
        for (name, kind) in listing.iter() {
            rel.clear();
            if !pending.rel.is_empty() {
                rel.extend([&pending.rel, "/"]);
            }
            rel.push_str(name);
            // An inner root is scanned by itself; listing it here would serve its skills twice.
            if self.setting.ignore.matches(name, &rel) || self.inner_roots.contains(&rel) {
                continue;
            }
            if self.reaches_skill_limit() {
                // An incomplete directory must not count as evidence of an absence.
                found.complete = false;
                break;
            }
            // Some file systems do not report the type of an entry in a listing.
            let kind = match kind {
                FileKind::Unknown => dir.stat(&rel).map_or(kind, |stat| stat.kind),
                _ => kind,
            };
            let previous = before.and_then(|container| container.find(name));
            let mut candidate = CandidateDirectory {
                index,
                parent: &found.rel,
                name,
                rel: &rel,
                link: None,
                previous,
            };
            let entry = match kind {
                FileKind::Directory => self.probe(&candidate),
                FileKind::Symlink => self.follow_link(&mut candidate),
                _ => continue,
            };
            match entry {
                Some(entry) => {
                    self.skills += 1;
                    found.entries.push(entry);
                }
                // Only real directories are descended: a link could lead to a cycle or to another
                // root.
                None if kind == FileKind::Directory => below.push(Arc::from(&*rel)),
                None => {}
            }
        }
        self.report_not_utf8(index, &pending.rel, listing);
        // After the listing is known, because absence is decided against it.
        if let Some(before) = before {
            kept_entries::keep_missing(&mut found, before, self.setting.cache);
        }
        found.entries.shrink_to_fit();
        self.walked.containers.push(found);
        below
    }

    /// Reports a directory that only its `tool.json` declares to be a skill.
    fn warn_of_tool_manifest(&mut self, index: usize, rel: &str, listing: &DirectoryListing) {
        if !listing.tool_manifest {
            return;
        }
        let path = self.setting.roots[index].root.path.join(rel);
        if declares_skill(&path) {
            let finding = ProblemDraft::error(
                "structure.missingSkillMd",
                NO_SKILL_MD.to_owned(),
                ADD_SKILL_MD,
            );
            self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
        }
    }

    /// Returns whether no more directories are listed; records the limit when it is reached.
    fn reaches_directory_limit(&mut self) -> bool {
        let limit = self.setting.limits.directories;
        if !self.exhausted && self.directories >= limit {
            self.exhausted = true;
            self.walked.partial.push(PartialReason::DirectoryLimit { limit });
        }
        self.exhausted
    }

    /// Returns whether no more skills are added; records the limit when it is reached.
    fn reaches_skill_limit(&mut self) -> bool {
        let limit = self.setting.limits.skills;
        let is_reached = self.skills >= limit;
        if is_reached && !self.exhausted {
            self.exhausted = true;
            self.walked.partial.push(PartialReason::SkillLimit { limit });
        }
        is_reached
    }

    /// Follows a link to a skill's directory.
    fn follow_link(&mut self, candidate: &mut CandidateDirectory<'_>) -> Option<ScanEntry> {
        let finding = match resolve_link(self.setting.roots, candidate.index, candidate.rel) {
            LinkResolution::Inside(target) => {
                let shown = target.root.path.join(&*target.rel);
                candidate.link = Some(Box::new(target));
                let entry = self.probe(candidate);
                if entry.is_some() {
                    return entry;
                }
                let message = format!("it links to {}, which has no SKILL.md", shown.display());
                ProblemDraft::note("link.noSkill", message, "link to the skill's directory itself")
            }
            LinkResolution::NotDirectory => return None,
            LinkResolution::Outside(target) => ProblemDraft::error(
                "link.outside",
                format!("it links out of the roots, to {}", target.display()),
                "copy the skill, or make the directory it lies in a root",
            ),
            LinkResolution::Dangling(error) => ProblemDraft::warning(
                "link.dangling",
                format!("the link cannot be followed: {error}"),
                "remove the link or restore its target",
            ),
        };
        let path = self.setting.roots[candidate.index].root.path.join(candidate.rel);
        self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
        None
    }

    /// Records a directory that cannot be read; its earlier entries stay.
    fn record_unreadable(&mut self, index: usize, rel: Arc<str>, error: &std::io::Error) {
        let opened = &self.setting.roots[index];
        let path = opened.root.path.join(&*rel);
        let finding = ProblemDraft::error(
            "scan.unreadable",
            format!("the directory cannot be searched: {error}"),
            "give the process permission to read it, or ignore it in the settings",
        );
        self.walked.problems.push(ScanProblem::for_path(path.clone(), None, true, finding));
        self.walked.partial.push(PartialReason::Unreadable { path, message: error.to_string() });
        let before = find_directory(self.setting.previous, index as u16, &rel);
        let kept = match before {
            Some(before) => self.copy_unvisited(index, before),
            None => self.copy_unvisited(index, &ScannedDirectory::empty(index as u16, rel)),
        };
        self.walked.containers.push(ScannedDirectory {
            // A refused permission shows in the stamp when it is granted; other failures may pass.
            unsettled: error.kind() != ErrorKind::PermissionDenied,
            ..kept
        });
    }

    /// Reports directories whose name cannot be an id: ids and paths are stored as UTF-8.
    fn report_not_utf8(&mut self, index: usize, parent: &str, listing: &DirectoryListing) {
        for name in &listing.not_utf8 {
            let path = self.setting.roots[index].root.path.join(parent).join(name);
            let message = "the directory's name is not UTF-8".to_owned();
            let finding = ProblemDraft::error("id.encoding", message, "rename the directory");
            self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
        }
    }

    fn warn_of_skill_in_root(&mut self, index: usize, dir: &RootDir) {
        let opened = &self.setting.roots[index];
        self.walked.stats += 1;
        if dir.stat("SKILL.md").is_ok() {
            let finding = ProblemDraft::warning(
                "root.skillFile",
                "a SKILL.md directly in a root has no directory to be named after".to_owned(),
                "move it into a directory of its own, or make the directory above the root",
            );
            let path = opened.root.path.join("SKILL.md");
            self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
        }
    }

    fn warn_about_depth(&mut self, index: usize, count: usize, first: &str) {
        let depth = self.setting.limits.depth;
        let finding = ProblemDraft::note(
            "scan.depth",
            format!("{count} directories that lie {depth} levels deep were not searched further"),
            "make a directory nearer to the skills a root",
        );
        let path = self.setting.roots[index].root.path.join(first);
        self.walked.problems.push(ScanProblem::for_path(path, None, true, finding));
    }
}
