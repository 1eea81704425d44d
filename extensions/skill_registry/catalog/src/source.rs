//! The text of a skill as it is now, or as it was when it was last good.

use std::io;
use std::sync::Arc;

use skill_format::{Diagnostic, Digest, Frontmatter, Severity, TokenCount};
use skillhost_files::jail::{self, JailError, RelPath};
use skillhost_payload::ErrorKind;

use crate::cache::ValidText;
use crate::disk::stat_file;
use crate::error::RegistryError;
use crate::problem::ProblemDraft;
use crate::reading::{FileBytes, ReadOutcome, ValidSkill, parse_complete, read_bytes};
use crate::signature::FileSignature;
use crate::skill::{Skill, SkillFile};
use crate::store::Store;

/// The text of a skill with its frontmatter.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillSource {
    /// The decoded text of SKILL.md.
    pub text: Arc<str>,
    /// The byte offset of the body in the text.
    pub body_start: usize,
    /// The parsed frontmatter.
    pub frontmatter: Frontmatter,
    /// The findings of the parser.
    pub diagnostics: Vec<Diagnostic>,
    /// The digest of the file's bytes.
    pub digest: Digest,
    /// The cost of the body in tokens.
    pub tokens: TokenCount,
    /// The relation of the text to the file on disk.
    pub state: SourceState,
}

/// The relation of a text to the file on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// The text is the current content of the file.
    Current,
    /// The file is broken or gone; this is the last good text.
    LastGood {
        /// The problem of the file.
        problem: Diagnostic,
    },
}

impl SkillSource {
    /// Returns the body: everything after the closing fence.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.body_start..]
    }
}

/// The bytes of a skill's own file, with what they say.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The decoded text.
    pub decoded: Arc<str>,
    /// The parsed frontmatter.
    pub frontmatter: Frontmatter,
    /// The `stat` result of exactly these bytes; `None` if they differ from the file on disk.
    pub signature: Option<FileSignature>,
}

impl Store {
    /// Reads the bytes of a skill's SKILL.md; if it is invalid, returns the last good text.
    ///
    /// # Errors
    /// Fails as [`Store::read`] does.
    pub fn read_bytes(&self, skill: &Skill) -> Result<SkillBytes, RegistryError> {
        if let Ok(read) = bytes_now(skill)
            && let ReadOutcome::Valid(good) = parse_complete(skill.id().as_str(), &read.bytes)
            && let Some(whole) = good.whole
        {
            return Ok(SkillBytes {
                bytes: read.bytes,
                decoded: whole.good.text,
                frontmatter: good.frontmatter,
                // The signature of a torn read does not belong to these bytes, so it must not enter
                // a cache.
                signature: Some(read.stat.signature).filter(|_| !read.torn),
            });
        }
        let source = self.read(skill)?;
        Ok(SkillBytes {
            bytes: source.text.as_bytes().to_vec(),
            decoded: source.text,
            frontmatter: source.frontmatter,
            signature: None,
        })
    }

    /// Reads a skill's current SKILL.md; if it is invalid or missing, returns the last good text
    /// with the problem.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file is invalid or missing and no good text of it is cached.
    pub fn read(&self, skill: &Skill) -> Result<SkillSource, RegistryError> {
        let problem = match read_now(skill) {
            Ok(good) => {
                let source = source(*good, SourceState::Current);
                let good = ValidText { text: Arc::clone(&source.text), digest: source.digest };
                self.cache.insert(&skill.cache_key(), good);
                return Ok(source);
            }
            Err(problem) => problem,
        };
        let held = self.cache.get(&skill.cache_key());
        let state = SourceState::LastGood { problem: problem.clone() };
        let last = held.and_then(|good| parse_cached(skill, &good, state));
        last.ok_or_else(|| {
            let hint = match &problem.help {
                Some(help) => format!("{help}; the file is {}", skill.location().display()),
                None => format!("repair {}", skill.location().display()),
            };
            let message =
                format!("`{}` cannot be read and no good text is held: {problem}", skill.id);
            RegistryError::new(ErrorKind::Io, message, hint)
        })
    }

    /// Returns a skill's text as the snapshot knows it if it is cached, else as [`Store::read`]
    /// does. The order of the cache, which serves readers, does not change.
    pub fn read_cached(&self, skill: &Skill) -> Option<SkillSource> {
        let held = self.cache.peek(&skill.cache_key());
        let (known, held) = match held {
            Some(good) if skill.digest() == Some(good.digest) => (Some(good), None),
            held => (None, held),
        };
        let known = known.and_then(|good| parse_cached(skill, &good, SourceState::Current));
        known.or_else(|| match read_now(skill) {
            Ok(good) => Some(source(*good, SourceState::Current)),
            Err(problem) => parse_cached(skill, &held?, SourceState::LastGood { problem }),
        })
    }
}

/// Parses a text that is held.
fn parse_cached(skill: &Skill, good: &ValidText, state: SourceState) -> Option<SkillSource> {
    let ReadOutcome::Valid(read) = parse_complete(skill.id.as_str(), good.text.as_bytes()) else {
        return None;
    };
    // The file's bytes may have been encoded otherwise than the text held of them.
    Some(SkillSource { digest: good.digest, ..source(*read, state) })
}

fn source(good: ValidSkill, state: SourceState) -> SkillSource {
    let whole = good.whole.expect("a text that was read whole has its digest");
    SkillSource {
        text: whole.good.text,
        body_start: whole.body_start,
        frontmatter: good.frontmatter,
        diagnostics: good.diagnostics,
        digest: whole.known.digest,
        tokens: whole.known.tokens,
        state,
    }
}

/// Reads and parses the file, or returns its problem.
fn read_now(skill: &Skill) -> Result<Box<ValidSkill>, Diagnostic> {
    match parse_complete(skill.id.as_str(), &bytes_now(skill)?.bytes) {
        ReadOutcome::Valid(good) => Ok(good),
        ReadOutcome::Invalid(diagnostics) => Err(most_severe(diagnostics)),
    }
}

/// Reads the current bytes of the file, or returns the reason why they cannot be read.
pub(crate) fn bytes_now(skill: &Skill) -> Result<FileBytes, Diagnostic> {
    let dir = skill.open_directory().map_err(|error| describe(&error, "its directory"))?;
    let other = SkillFile::BOTH.into_iter().find(|file| *file != skill.file);
    let mut opened = Err(JailError::NotFound);
    for file in [Some(skill.file), other].into_iter().flatten() {
        let path = RelPath::new(file.name()).expect("the name of a skill's file is a path");
        opened = jail::open_file(&dir, &path);
        if !matches!(opened, Err(JailError::NotFound)) {
            break;
        }
    }
    let (file, _) = opened.map_err(|error| describe(&error, skill.file.name()))?;
    let mut file = file.into_std();
    let failed = |error: io::Error| describe(&JailError::Io(error), skill.file.name());
    let stat = stat_file(&file).map_err(failed)?;
    read_bytes(&mut file, stat).map_err(failed)?.map_err(Diagnostic::from)
}

/// Picks the finding because of which the file is not used.
fn most_severe(diagnostics: Vec<Diagnostic>) -> Diagnostic {
    let found = diagnostics.into_iter().find(|found| found.severity == Severity::Error);
    found.unwrap_or_else(|| {
        ProblemDraft::error("file.unusable", "it is not a skill".to_owned(), "").into()
    })
}

fn describe(error: &JailError, what: &str) -> Diagnostic {
    let finding = match error {
        JailError::NotFound => {
            ProblemDraft::error("file.missing", format!("{what} is gone"), "restore it")
        }
        JailError::Link => ProblemDraft::error(
            "file.symlink",
            format!("{what} is a symbolic link"),
            "replace it with its target",
        ),
        JailError::Directory | JailError::NotRegular => ProblemDraft::error(
            "file.notRegular",
            format!("{what} is not a regular file"),
            "replace it with a regular file",
        ),
        JailError::Io(error) => ProblemDraft::error(
            "file.unreadable",
            format!("{what} cannot be read: {error}"),
            "give the process permission to read it",
        ),
    };
    finding.into()
}
