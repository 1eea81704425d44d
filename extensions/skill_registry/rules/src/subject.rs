//! What rules look at.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

use skill_format::tree::{Mapping, MappingEntry};
use skill_format::{
    Diagnostic, Frontmatter, FrontmatterFences, ParsedSkill, Severity, Span, Value, decode_file,
    find_fences, infer_core_type, tree,
};

use crate::body::MarkdownBody;
use crate::body::local_links::{LocalLink, find_local_links};
use crate::extended::{self, ParsedExtendedSpec};
use crate::input::{FileEntry, SkillInput};
use crate::profile::Profile;
use crate::strict;

/// A skill under examination. What is expensive is made when a rule first asks for it.
#[derive(Debug)]
pub struct SkillDocument<'a> {
    input: &'a SkillInput<'a>,
    profile: Profile,
    text: Cow<'a, str>,
    parsed: ParsedSkill,
    fences: OnceCell<Option<FrontmatterFences>>,
    tree: OnceCell<Option<Mapping>>,
    markdown: OnceCell<MarkdownBody>,
    local_links: OnceCell<Vec<LocalLink>>,
    line_starts: OnceCell<Vec<usize>>,
    extended: OnceCell<Option<ParsedExtendedSpec>>,
    /// The offset last asked for and its column: places are mostly asked for in order, and then
    /// the characters of a long line are counted once.
    last_place: Cell<(usize, u32)>,
}

/// How much of a skill there is to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseState {
    /// There is no SKILL.md.
    Absent,
    /// The file cannot be read, or there are no fields to be found in it.
    Broken,
    /// The fields can be read, and there is a body.
    Complete,
}

impl<'a> SkillDocument<'a> {
    /// Takes a skill to look at with the eyes of a profile.
    #[must_use]
    pub fn new(input: &'a SkillInput<'a>, profile: Profile) -> Self {
        let (text, parsed, fences) = if profile.has_own_fences() {
            Self::read_strictly(input, profile)
        } else {
            match skill_format::parse_skill(input.dir_name, input.bytes) {
                Ok(skill) => (skill.text, skill.parsed, OnceCell::new()),
                Err(refused) => (Cow::Borrowed(""), *refused, OnceCell::from(None)),
            }
        };
        Self {
            input,
            profile,
            text,
            parsed,
            fences,
            tree: OnceCell::new(),
            markdown: OnceCell::new(),
            local_links: OnceCell::new(),
            line_starts: OnceCell::new(),
            extended: OnceCell::new(),
            last_place: Cell::new((0, 1)),
        }
    }

    fn read_strictly(
        input: &SkillInput<'a>,
        profile: Profile,
    ) -> (Cow<'a, str>, ParsedSkill, OnceCell<Option<FrontmatterFences>>) {
        let decoded = match decode_file(input.bytes) {
            Ok(decoded) => decoded,
            Err(refusal) => {
                let diagnostics = vec![refusal];
                let parsed = ParsedSkill { frontmatter: None, body_start: 0, diagnostics };
                return (Cow::Borrowed(""), parsed, OnceCell::from(None));
            }
        };
        let mut diagnostics = decoded.diagnostics;
        let marked = diagnostics.iter().any(|found| found.rule == "file.bom");
        let Some(head) = strict::read_strict_head(input.dir_name, &decoded.text, marked, profile)
        else {
            let parsed = ParsedSkill { frontmatter: None, body_start: 0, diagnostics };
            return (decoded.text, parsed, OnceCell::new());
        };
        diagnostics.extend(head.parsed.diagnostics);
        (decoded.text, ParsedSkill { diagnostics, ..head.parsed }, OnceCell::from(head.fences))
    }

    /// Returns the skill as it was read.
    #[must_use]
    pub fn input(&self) -> &SkillInput<'a> {
        self.input
    }

    /// Returns whose rules count.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns the decoded text of the whole file; empty if it cannot be decoded.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what loading makes of the skill, by the fences of the profile.
    #[must_use]
    pub fn parsed(&self) -> &ParsedSkill {
        &self.parsed
    }

    /// Returns the frontmatter; nothing if the skill cannot be loaded.
    #[must_use]
    pub fn frontmatter(&self) -> Option<&Frontmatter> {
        self.parsed.frontmatter.as_ref()
    }

    pub(crate) fn parse_state(&self) -> ParseState {
        if !self.profile.has_skill_md(self.input.file_name) {
            return ParseState::Absent;
        }
        let strict = self.profile.has_own_fences();
        let breaks = |found: &Diagnostic| {
            let refuses = found.severity == Severity::Error
                && (found.rule.starts_with("file.") || found.rule.starts_with("frontmatter."));
            refuses || (strict && strict::YAML_FAULTS.contains(&found.rule))
        };
        let diagnostics = &self.parsed.diagnostics;
        if diagnostics.iter().any(breaks) { ParseState::Broken } else { ParseState::Complete }
    }

    /// Returns everything after the closing fence.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.parsed.body_start..]
    }

    /// Returns the line of the file on which the body starts, counted from 1.
    #[must_use]
    pub fn body_line(&self) -> u32 {
        let before = newlines(&self.text[..self.parsed.body_start]);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Returns how many lines the body has, blank ones before and after the rest not counted.
    #[must_use]
    pub fn body_lines(&self) -> usize {
        let body = self.body().trim();
        if body.is_empty() { 0 } else { newlines(body) + 1 }
    }

    /// Returns what the body consists of.
    pub(crate) fn markdown(&self) -> &MarkdownBody {
        self.markdown.get_or_init(|| MarkdownBody::read(&self.text, self.parsed.body_start))
    }

    /// Returns the paths that the body names.
    pub(crate) fn local_links(&self) -> &[LocalLink] {
        self.local_links.get_or_init(|| find_local_links(self))
    }

    /// Returns where an offset in the text of the file is.
    pub(crate) fn span_at(&self, offset: usize) -> Span {
        let starts = self.line_starts.get_or_init(|| {
            let ends = memchr::memchr_iter(b'\n', self.text.as_bytes());
            std::iter::once(0).chain(ends.map(|at| at + 1)).collect()
        });
        let line = starts.partition_point(|start| *start <= offset);
        let start = starts[line - 1];
        let (last, column) = self.last_place.get();
        let (from, column) =
            if (start..=offset).contains(&last) { (last, column) } else { (start, 1) };
        let between = self.text.get(from..offset).unwrap_or_default().chars().count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let column = column.saturating_add(number(between));
        self.last_place.set((offset, column));
        Span { line: number(line), column }
    }

    /// Returns the files of the skill; nothing if they were not listed.
    #[must_use]
    pub fn files(&self) -> Option<&'a [FileEntry]> {
        self.input.files
    }

    /// Returns the fences, as the profile finds them.
    #[must_use]
    pub fn fences(&self) -> Option<&FrontmatterFences> {
        self.fences.get_or_init(|| find_fences(&self.text)).as_ref()
    }

    /// Returns the frontmatter as a tree with places, duplicates included; nothing if there are no
    /// fences or there is no map between them.
    #[must_use]
    pub fn tree(&self) -> Option<&Mapping> {
        let read = || {
            let fences = self.fences()?;
            match tree::parse_frontmatter(&self.text[fences.yaml.clone()], fences.open_line + 1)
                .root
            {
                Value::Mapping(root) => Some(root),
                _ => None,
            }
        };
        self.tree.get_or_init(read).as_ref()
    }

    /// Returns what the frontmatter declares beyond the standard; nothing if it has no key for that.
    #[must_use]
    pub fn extended(&self) -> Option<&ParsedExtendedSpec> {
        let read = || {
            // Only then is the frontmatter worth reading once more.
            self.frontmatter().filter(|it| extended::may_declare(it))?;
            Some(ParsedExtendedSpec::from_mapping(self.tree()?, self.input.dir_name))
        };
        self.extended.get_or_init(read).as_ref()
    }

    /// Returns a field of the frontmatter with its place; of a duplicate, the first.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&MappingEntry> {
        self.tree()?.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Returns where a field's value starts; the opening fence if there is no such field.
    #[must_use]
    pub fn field_span(&self, name: &str) -> Span {
        self.field(name).map_or(Span { line: 1, column: 0 }, |entry| entry.value.span())
    }

    /// Returns a field whose plain value YAML's core schema does not take for a text, with the
    /// name of the type it has there.
    pub(crate) fn non_text_field(&self, name: &str) -> Option<(&MappingEntry, &'static str)> {
        let entry = self.field(name)?;
        Some((entry, infer_core_type(&entry.value)?))
    }
}

/// Counts line ends.
fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}
