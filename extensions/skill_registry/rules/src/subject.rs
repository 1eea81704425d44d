//! What rules look at.

use std::borrow::Cow;
use std::cell::OnceCell;

use skill_format::tree::{Entry, Mapping};
use skill_format::{Frontmatter, Parsed, Span, Value, fences, tree};

use crate::extended::{self, Reading};
use crate::input::{FileEntry, SkillInput};
use crate::profile::Profile;

/// A skill under examination. What is expensive is made when a rule first asks for it.
#[derive(Debug)]
pub struct Subject<'a> {
    input: &'a SkillInput<'a>,
    profile: Profile,
    text: Cow<'a, str>,
    parsed: Parsed,
    tree: OnceCell<Option<Mapping>>,
    extended: OnceCell<Option<Reading>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(input: &'a SkillInput<'a>, profile: Profile) -> Self {
        let (text, parsed) = match skill_format::parse(input.dir_name, input.bytes) {
            Ok(skill) => (skill.text, skill.parsed),
            Err(refused) => (Cow::Borrowed(""), *refused),
        };
        Self { input, profile, text, parsed, tree: OnceCell::new(), extended: OnceCell::new() }
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

    /// Returns what loading makes of the skill.
    #[must_use]
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Returns the frontmatter; nothing if the skill cannot be loaded.
    #[must_use]
    pub fn frontmatter(&self) -> Option<&Frontmatter> {
        self.parsed.frontmatter.as_ref()
    }

    /// Returns everything after the closing fence.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.parsed.body_start..]
    }

    /// Returns the line of the file on which the body starts, counted from 1.
    #[must_use]
    pub fn body_line(&self) -> u32 {
        let before = &self.text.as_bytes()[..self.parsed.body_start];
        let lines = before.iter().filter(|&&byte| byte == b'\n').count();
        u32::try_from(lines + 1).unwrap_or(u32::MAX)
    }

    /// Returns the files of the skill; nothing if they were not listed.
    #[must_use]
    pub fn files(&self) -> Option<&'a [FileEntry]> {
        self.input.files
    }

    /// Returns the frontmatter as a tree with places, duplicates included; nothing if there are no
    /// fences or there is no map between them.
    #[must_use]
    pub fn tree(&self) -> Option<&Mapping> {
        let read = || {
            let fences = fences(&self.text)?;
            match tree::parse(&self.text[fences.yaml], fences.open_line + 1).root {
                Value::Mapping(root) => Some(root),
                _ => None,
            }
        };
        self.tree.get_or_init(read).as_ref()
    }

    /// Returns what the frontmatter declares beyond the standard; nothing if it has no key for that.
    #[must_use]
    pub fn extended(&self) -> Option<&Reading> {
        let read = || {
            let declares = self.frontmatter().is_some_and(extended::may_declare);
            let root = self.tree().filter(|_| declares)?;
            Some(Reading::of_tree(root, self.input.dir_name))
        };
        self.extended.get_or_init(read).as_ref()
    }

    /// Returns a field of the frontmatter with its place; of a duplicate, the first.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Entry> {
        self.tree()?.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Returns where a field's value starts; the opening fence if there is no such field.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Span {
        self.field(name).map_or(Span { line: 1, column: 0 }, |entry| entry.value.span())
    }
}
