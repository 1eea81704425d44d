//! The document that rules check.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

use skill_compat::extended::{self, ParsedExtendedSpec};
use skill_format::{
    Diagnostic, FileEntry, Frontmatter, FrontmatterFences, ParsedSkill, Severity, SkillInput,
    decode_file, find_fences, infer_core_type, tree,
};
use yaml_tree::{Mapping, MappingEntry, Span, Value};

use crate::body::MarkdownBody;
use crate::body::local_links::{LocalLink, find_local_links};
use crate::profile::Profile;
use crate::strict_fences;

/// A parsed skill under check. Expensive views are built on first use.
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
    /// The last offset and its column: lookups mostly come in order, so that the characters of a
    /// long line are counted once.
    last_place: Cell<(usize, u32)>,
}

/// The part of a skill that could be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseState {
    /// There is no SKILL.md.
    Absent,
    /// The file cannot be decoded, or it has no readable fields.
    Broken,
    /// The fields and the body can be read.
    Complete,
}

impl<'a> SkillDocument<'a> {
    /// Parses a skill as a profile reads it.
    #[must_use]
    pub fn new(input: &'a SkillInput<'a>, profile: Profile) -> Self {
        let (text, parsed, fences) = if profile.has_own_fences() {
            Self::parse_strictly(input, profile)
        } else {
            match skill_format::parse_skill(input.dir_name, input.bytes) {
                Ok(skill) => (skill.text, skill.parsed, OnceCell::new()),
                // The fences are set, because a lazy search would run on the empty text.
                Err(rejected) => (Cow::Borrowed(""), *rejected, OnceCell::from(None)),
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

    fn parse_strictly(
        input: &SkillInput<'a>,
        profile: Profile,
    ) -> (Cow<'a, str>, ParsedSkill, OnceCell<Option<FrontmatterFences>>) {
        let decoded = match decode_file(input.bytes) {
            Ok(decoded) => decoded,
            Err(diagnostic) => {
                let diagnostics = vec![diagnostic];
                let parsed = ParsedSkill { frontmatter: None, body_start: 0, diagnostics };
                return (Cow::Borrowed(""), parsed, OnceCell::from(None));
            }
        };
        let mut diagnostics = decoded.diagnostics;
        // `decode_file` drops the mark, but validators with fences of their own object to it.
        let marked = diagnostics.iter().any(|found| found.rule == "file.bom");
        let Some(head) =
            strict_fences::read_strict_head(input.dir_name, &decoded.text, marked, profile)
        else {
            let parsed = ParsedSkill { frontmatter: None, body_start: 0, diagnostics };
            return (decoded.text, parsed, OnceCell::new());
        };
        diagnostics.extend(head.parsed.diagnostics);
        (decoded.text, ParsedSkill { diagnostics, ..head.parsed }, OnceCell::from(head.fences))
    }

    /// Returns the input as it was read.
    #[must_use]
    pub fn input(&self) -> &SkillInput<'a> {
        self.input
    }

    /// Returns the rule profile.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Returns the decoded text of the file; empty if it cannot be decoded.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the result of loading, with the fences of the profile.
    #[must_use]
    pub fn parsed(&self) -> &ParsedSkill {
        &self.parsed
    }

    /// Returns the frontmatter, or `None` if the skill cannot be loaded.
    #[must_use]
    pub fn frontmatter(&self) -> Option<&Frontmatter> {
        self.parsed.frontmatter.as_ref()
    }

    pub(crate) fn parse_state(&self) -> ParseState {
        if !self.profile.has_skill_md(self.input.file_name) {
            return ParseState::Absent;
        }
        let strict = self.profile.has_own_fences();
        let is_fatal = |found: &Diagnostic| {
            let is_rejected = found.severity == Severity::Error
                && (found.rule.starts_with("file.") || found.rule.starts_with("frontmatter."));
            // Loading recovers from these faults; validators with their own fences reject them.
            is_rejected || (strict && strict_fences::YAML_FAULTS.contains(&found.rule))
        };
        let diagnostics = &self.parsed.diagnostics;
        if diagnostics.iter().any(is_fatal) { ParseState::Broken } else { ParseState::Complete }
    }

    /// Returns everything after the closing fence.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.parsed.body_start..]
    }

    /// Returns the line of the file on which the body starts, counted from 1.
    #[must_use]
    pub fn body_line(&self) -> u32 {
        let before = count_newlines(&self.text[..self.parsed.body_start]);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Returns the number of lines of the body, without leading and trailing blank lines.
    #[must_use]
    pub fn body_lines(&self) -> usize {
        let body = self.body().trim();
        if body.is_empty() { 0 } else { count_newlines(body) + 1 }
    }

    /// Returns the Markdown structure of the body.
    pub(crate) fn markdown(&self) -> &MarkdownBody {
        self.markdown.get_or_init(|| MarkdownBody::parse(&self.text, self.parsed.body_start))
    }

    /// Returns the paths that the body names.
    pub(crate) fn local_links(&self) -> &[LocalLink] {
        self.local_links.get_or_init(|| find_local_links(self.markdown(), &self.text))
    }

    /// Returns the line and column of an offset in the text of the file.
    pub(crate) fn span_at(&self, offset: usize) -> Span {
        let starts = self.line_starts.get_or_init(|| {
            let ends = memchr::memchr_iter(b'\n', self.text.as_bytes());
            std::iter::once(0).chain(ends.map(|at| at + 1)).collect()
        });
        let line = starts.partition_point(|start| *start <= offset);
        let start = starts[line - 1];
        let (last, column) = self.last_place.get();
        let (from, column) =
            // The cache helps only on the same line and for a later offset.
            if (start..=offset).contains(&last) { (last, column) } else { (start, 1) };
        let between = self.text.get(from..offset).unwrap_or_default().chars().count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let column = column.saturating_add(number(between));
        self.last_place.set((offset, column));
        Span { line: number(line), column }
    }

    /// Returns the entries of the skill's directory, or `None` if they were not listed.
    #[must_use]
    pub fn files(&self) -> Option<&'a [FileEntry]> {
        self.input.files
    }

    /// Returns the fences of the frontmatter according to the profile.
    #[must_use]
    pub fn fences(&self) -> Option<&FrontmatterFences> {
        self.fences.get_or_init(|| find_fences(&self.text)).as_ref()
    }

    /// Returns the frontmatter as a tree with positions, duplicates included, or `None` if there is
    /// no map between fences.
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

    /// Returns the extended declarations of the frontmatter, or `None` if no key declares any.
    #[must_use]
    pub fn extended(&self) -> Option<&ParsedExtendedSpec> {
        let read = || {
            // Most skills declare none, and a key lookup is cheaper than a second parse.
            self.frontmatter().filter(|it| extended::may_declare(it))?;
            Some(ParsedExtendedSpec::from_mapping(self.tree()?, self.input.dir_name))
        };
        self.extended.get_or_init(read).as_ref()
    }

    /// Returns a field of the frontmatter with its position; of a duplicate, the first.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&MappingEntry> {
        self.tree()?.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Returns the start of a field's value, or the opening fence if the field is missing.
    #[must_use]
    pub fn field_span(&self, name: &str) -> Span {
        self.field(name).map_or(Span { line: 1, column: 0 }, |entry| entry.value.span())
    }

    /// Returns a field whose plain value is not a text in YAML's core schema, with the name of its
    /// type there.
    pub(crate) fn non_text_field(&self, name: &str) -> Option<(&MappingEntry, &'static str)> {
        let entry = self.field(name)?;
        Some((entry, infer_core_type(&entry.value)?))
    }
}

/// Returns the number of line ends in a text.
fn count_newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}
