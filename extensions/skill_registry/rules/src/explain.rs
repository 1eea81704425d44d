//! Parser for the documentation of rules, used for pages and for the tests of the examples.

mod page;

use std::borrow::Cow;

use skill_format::{EntryKind, FileEntry, SkillInput};
use thiserror::Error;

use crate::profile::Profile;
use crate::rule::Rule;

pub use page::{render_all_pages, render_page};

/// The documentation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDocumentation {
    /// The section on the subject of the rule, as Markdown.
    pub what: &'static str,
    /// The section on its reason, as Markdown.
    pub why: &'static str,
    /// Examples with findings of the rule.
    pub bad: RuleExamples,
    /// Examples without findings of the rule.
    pub good: RuleExamples,
}

/// A section of examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleExamples {
    /// The profile of the check: `spec` unless an example names another one.
    pub profile: Profile,
    /// The skills, in the order of their first file. Several skills form one catalog only for rules
    /// over several skills.
    pub skills: Vec<ExampleSkill>,
    /// The reason for a missing example; empty if there is one.
    pub excuse: String,
}

/// A skill in the documentation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleSkill {
    /// The name of its directory.
    pub dir_name: String,
    /// Its files, in the order of the documentation.
    pub files: Vec<ExampleFile>,
}

/// A file of such a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleFile {
    /// The path relative to the skill's directory.
    pub path: String,
    /// The content; empty for a link.
    pub bytes: Vec<u8>,
    /// The target, if it is a symbolic link.
    pub link: Option<String>,
    /// The permission bits.
    pub mode: u32,
}

/// An error in the documentation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentationError {
    /// A section is missing, empty or out of order.
    #[error("section `{0}` is missing, empty or out of order")]
    Section(&'static str),
    /// A section has neither an example nor a sentence with the reason.
    #[error("section `{0}` requires an example or a reason")]
    NoExample(&'static str),
    /// The info string of an example is not valid.
    #[error("info string `{0}` requires a language, a path and known keys")]
    Info(String),
    /// A block of an example is not closed.
    #[error("example `{0}` is not closed")]
    Unclosed(String),
}

const HEADINGS: [&str; 4] = ["What it does", "Why is this bad?", "Bad", "Good"];

/// Parses the documentation of a rule.
///
/// Sections are `## What it does`, `## Why is this bad?`, `## Bad` and `## Good`, in this order. An
/// example is a block with the info string `<lang> <dir>/<path> [key=value…]`; its keys are
/// `profile`, `encoding` (`latin-1`, `utf-16le` or `utf-8-bom`), `link` (the target of a symbolic
/// link) and `mode` (octal). In a block, `{{text*n}}` is the text n times, and
/// `{{U+200B*n}}` that character n times.
///
/// # Errors
/// Returns an error if a section is missing or an example cannot be parsed.
pub fn parse_documentation(rule: &Rule) -> Result<RuleDocumentation, DocumentationError> {
    let mut rest = rule.docs;
    let mut sections = [""; 4];
    for (index, heading) in HEADINGS.into_iter().enumerate() {
        let missing = DocumentationError::Section(heading);
        // Documentation in code starts with a line break, that in files does not.
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        rest = rest.strip_prefix(&format!("## {heading}\n")).ok_or(missing)?;
        let end = match HEADINGS.get(index + 1) {
            Some(next) => {
                rest.find(&format!("\n\n## {next}\n")).ok_or(DocumentationError::Section(next))?
            }
            None => rest.len(),
        };
        sections[index] = rest[..end].trim();
        if sections[index].is_empty() {
            return Err(DocumentationError::Section(heading));
        }
        // One line break is left, because a heading is matched with the one before it.
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    let [what, why, bad, good] = sections;
    Ok(RuleDocumentation {
        what,
        why,
        bad: parse_examples("Bad", bad)?,
        good: parse_examples("Good", good)?,
    })
}

fn parse_examples(
    heading: &'static str,
    section: &str,
) -> Result<RuleExamples, DocumentationError> {
    let mut examples = RuleExamples::default();
    for part in split_blocks(section)? {
        match part {
            MarkdownPart::Text(text) => examples.excuse.push_str(text),
            MarkdownPart::Block(block) => examples.add_block(&block)?,
        }
    }
    if !examples.skills.is_empty() {
        // Text between the examples is explanation, not an excuse.
        examples.excuse.clear();
    } else if examples.excuse.trim().is_empty() {
        return Err(DocumentationError::NoExample(heading));
    }
    Ok(examples)
}

/// A part of a Markdown section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkdownPart<'a> {
    Text(&'a str),
    Block(FencedBlock<'a>),
}

/// A fenced block of Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FencedBlock<'a> {
    fence: &'a str,
    info: &'a str,
    content: &'a str,
}

/// Splits Markdown into fenced blocks and the lines between them.
fn split_blocks(section: &str) -> Result<Vec<MarkdownPart<'_>>, DocumentationError> {
    let mut parts = Vec::new();
    let mut rest = section;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = &rest[..line_end];
        if !line.starts_with("```") {
            parts.push(MarkdownPart::Text(line));
            rest = &rest[line_end..];
            continue;
        }
        let info = line.trim_start_matches('`');
        let fence = &line[..line.len() - info.len()];
        let info = info.trim();
        let mut at = line_end;
        let closing = rest[line_end..].split_inclusive('\n').find_map(|line| {
            let start = at;
            at += line.len();
            // Only a fence of the same length closes: examples contain shorter ones.
            (line.trim_end() == fence).then_some(start)
        });
        let close = closing.ok_or_else(|| DocumentationError::Unclosed(info.to_owned()))?;
        parts.push(MarkdownPart::Block(FencedBlock {
            fence,
            info,
            content: &rest[line_end..close],
        }));
        rest = &rest[at..];
    }
    Ok(parts)
}

/// The parsed info string of an example.
struct InfoString<'a> {
    language: &'a str,
    dir_name: &'a str,
    path: &'a str,
    profile: Option<Profile>,
    encoding: Option<&'a str>,
    link: Option<&'a str>,
    mode: u32,
}

impl<'a> InfoString<'a> {
    fn read(info: &'a str) -> Option<Self> {
        let mut words = info.split_whitespace();
        let (language, path) = (words.next()?, words.next()?);
        let (dir_name, path) = path.split_once('/')?;
        let (profile, encoding, link, mode) = (None, None, None, 0o644);
        let mut info = InfoString { language, dir_name, path, profile, encoding, link, mode };
        for word in words {
            match word.split_once('=')? {
                ("profile", name) => {
                    let profile = Profile::ALL.into_iter().find(|it| it.as_str() == name)?;
                    info.profile = Some(profile);
                }
                ("encoding", name @ ("latin-1" | "utf-16le" | "utf-8-bom")) => {
                    info.encoding = Some(name);
                }
                ("link", target) => info.link = Some(target),
                ("mode", bits) => info.mode = u32::from_str_radix(bits, 8).ok()?,
                _ => return None,
            }
        }
        Some(info)
    }
}

impl RuleExamples {
    fn add_block(&mut self, block: &FencedBlock<'_>) -> Result<(), DocumentationError> {
        let invalid_info = || DocumentationError::Info(block.info.to_owned());
        let info = InfoString::read(block.info).ok_or_else(invalid_info)?;
        // The last profile counts for the section, as only one is ever given.
        if let Some(profile) = info.profile {
            self.profile = profile;
        }
        let text = expand_placeholders(block.content);
        let bytes = match info.link {
            Some(_) => Vec::new(),
            None => encode_text(&text, info.encoding).ok_or_else(invalid_info)?,
        };
        let file = ExampleFile {
            path: info.path.to_owned(),
            bytes,
            link: info.link.map(str::to_owned),
            mode: info.mode,
        };
        match self.skills.iter_mut().find(|skill| skill.dir_name == info.dir_name) {
            Some(skill) => skill.files.push(file),
            None => self
                .skills
                .push(ExampleSkill { dir_name: info.dir_name.to_owned(), files: vec![file] }),
        }
        Ok(())
    }
}

/// Expands placeholders `{{text*n}}`.
fn expand_placeholders(content: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = content;
    while let Some((text, times, range)) = find_placeholder(rest) {
        out.push_str(&rest[..range.start]);
        match parse_code_point(text) {
            Some(c) => out.extend(std::iter::repeat_n(c, times)),
            None => out.push_str(&text.repeat(times)),
        }
        rest = &rest[range.end..];
    }
    if out.is_empty() && rest.len() == content.len() {
        return Cow::Borrowed(content);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Parses a code point such as `U+200B`, the notation of invisible characters.
fn parse_code_point(text: &str) -> Option<char> {
    u32::from_str_radix(text.strip_prefix("U+")?, 16).ok().and_then(char::from_u32)
}

/// Finds the first placeholder `{{text*n}}`; double braces without a number are text.
fn find_placeholder(content: &str) -> Option<(&str, usize, std::ops::Range<usize>)> {
    let mut from = 0;
    loop {
        let start = from + content[from..].find("{{")?;
        let inner = start + "{{".len();
        let end = inner + content[inner..].find("}}")?;
        if let Some((text, times)) = content[inner..end].rsplit_once('*')
            && let Ok(times) = times.parse()
        {
            return Some((text, times, start..end + "}}".len()));
        }
        from = inner;
    }
}

fn encode_text(text: &str, encoding: Option<&str>) -> Option<Vec<u8>> {
    match encoding {
        Some("latin-1") => text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect(),
        Some("utf-16le") => Some(
            [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect(),
        ),
        Some("utf-8-bom") => Some(format!("\u{FEFF}{text}").into_bytes()),
        _ => Some(text.as_bytes().to_vec()),
    }
}

impl ExampleSkill {
    /// Returns the files and their directories, sorted by path, as a directory scan would.
    #[must_use]
    pub fn entries(&self) -> Vec<FileEntry> {
        let mut entries: Vec<FileEntry> = Vec::new();
        for file in &self.files {
            for (at, _) in file.path.match_indices('/') {
                let path = file.path[..at].to_owned();
                entries.push(FileEntry { path, size: 0, mode: 0o755, kind: EntryKind::Directory });
            }
            let kind = match &file.link {
                Some(target) => EntryKind::Symlink { escapes: leads_outside(&file.path, target) },
                None => EntryKind::File,
            };
            let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
            entries.push(FileEntry { path: file.path.clone(), size, mode: file.mode, kind });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        // Each file adds its directories, so that shared ones are listed several times.
        entries.dedup_by(|a, b| a.path == b.path);
        entries
    }

    /// Returns the input of the rules, with `entries` as the list of files.
    #[must_use]
    pub fn input<'a>(&'a self, entries: &'a [FileEntry]) -> SkillInput<'a> {
        // Any case, because an example may show a misspelled name.
        let is_skill_md = |file: &&ExampleFile| file.path.eq_ignore_ascii_case("SKILL.md");
        let file = self.files.iter().find(is_skill_md);
        SkillInput {
            dir_name: &self.dir_name,
            file_name: file.map(|file| file.path.as_str()),
            bytes: file.map_or(&[], |file| &file.bytes),
            files: Some(entries),
        }
    }
}

/// Returns `true` if a link leads out of the skill's directory.
fn leads_outside(path: &str, target: &str) -> bool {
    let mut depth = path.matches('/').count();
    if target.starts_with('/') {
        return true;
    }
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests;
