//! Takes the documentation of rules apart: for pages, and for the tests that run the examples.

mod page;

use std::borrow::Cow;

use thiserror::Error;

use crate::input::{EntryKind, FileEntry, SkillInput};
use crate::profile::Profile;
use crate::rule::Rule;

pub use page::{render_all_pages, render_page};

/// The documentation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDocumentation {
    /// Markdown: what the rule looks at.
    pub what: &'static str,
    /// Markdown: why it does.
    pub why: &'static str,
    /// Skills in which it finds something.
    pub bad: RuleExamples,
    /// Skills in which it finds nothing.
    pub good: RuleExamples,
}

/// One section of examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleExamples {
    /// The profile they are checked in: `spec` unless they name another.
    pub profile: Profile,
    /// The skills, in the order in which they first appear. More than one belong together only for
    /// rules over several skills.
    pub skills: Vec<ExampleSkill>,
    /// Says why there is no example; empty if there is one.
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
    /// What is in it; for a link, nothing.
    pub bytes: Vec<u8>,
    /// Where it leads, if it is a symbolic link.
    pub link: Option<String>,
    /// The permission bits.
    pub mode: u32,
}

/// Says what is wrong with the documentation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentationError {
    /// A section is missing, empty or out of order.
    #[error("there is no section `{0}`")]
    Section(&'static str),
    /// A section has neither an example nor a sentence that says why.
    #[error("the section `{0}` has neither an example nor a reason")]
    NoExample(&'static str),
    /// The line that opens an example cannot be understood.
    #[error("the example `{0}` is not opened by a language, a path and known keys")]
    Info(String),
    /// A block of an example is not closed.
    #[error("the example `{0}` is not closed")]
    Unclosed(String),
}

const HEADINGS: [&str; 4] = ["What it does", "Why is this bad?", "Bad", "Good"];

/// Takes the documentation of a rule apart.
///
/// Sections are `## What it does`, `## Why is this bad?`, `## Bad` and `## Good`, in this order. An
/// example is a block with the info string `<lang> <dir>/<path> [key=value…]`; its keys are
/// `profile`, `encoding` (`latin-1`, `utf-16le` or `utf-8-bom`), `link` (what a symbolic link leads
/// to) and `mode` (octal). In a block, `{{text*n}}` is the text n times, and
/// `{{U+200B*n}}` that character n times.
///
/// # Errors
/// Fails if a section is missing or an example cannot be read.
pub fn parse_documentation(rule: &Rule) -> Result<RuleDocumentation, DocumentationError> {
    let mut rest = rule.docs;
    let mut sections = [""; 4];
    for (index, heading) in HEADINGS.into_iter().enumerate() {
        let missing = DocumentationError::Section(heading);
        rest = rest.strip_prefix(&format!("\n## {heading}\n")).ok_or(missing)?;
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
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    let [what, why, bad, good] = sections;
    Ok(RuleDocumentation { what, why, bad: examples("Bad", bad)?, good: examples("Good", good)? })
}

fn examples(heading: &'static str, section: &str) -> Result<RuleExamples, DocumentationError> {
    let mut examples = RuleExamples::default();
    for part in parts(section)? {
        match part {
            MarkdownPart::Text(text) => examples.excuse.push_str(text),
            MarkdownPart::Block(block) => examples.take(&block)?,
        }
    }
    if !examples.skills.is_empty() {
        examples.excuse.clear();
    } else if examples.excuse.trim().is_empty() {
        return Err(DocumentationError::NoExample(heading));
    }
    Ok(examples)
}

/// A piece of Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkdownPart<'a> {
    Text(&'a str),
    Block(FencedBlock<'a>),
}

/// A fenced block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FencedBlock<'a> {
    fence: &'a str,
    info: &'a str,
    content: &'a str,
}

/// Cuts Markdown into fenced blocks and the lines between them.
fn parts(section: &str) -> Result<Vec<MarkdownPart<'_>>, DocumentationError> {
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

/// What an info string says.
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
    fn take(&mut self, block: &FencedBlock<'_>) -> Result<(), DocumentationError> {
        let unknown = || DocumentationError::Info(block.info.to_owned());
        let info = InfoString::read(block.info).ok_or_else(unknown)?;
        if let Some(profile) = info.profile {
            self.profile = profile;
        }
        let text = expanded(block.content);
        let bytes = match info.link {
            Some(_) => Vec::new(),
            None => encoded(&text, info.encoding).ok_or_else(unknown)?,
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

/// Puts in what `{{text*n}}` stands for.
fn expanded(content: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = content;
    while let Some((text, times, range)) = placeholder(rest) {
        out.push_str(&rest[..range.start]);
        match code_point(text) {
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

/// Reads `U+200B`: a character that cannot be seen.
fn code_point(text: &str) -> Option<char> {
    u32::from_str_radix(text.strip_prefix("U+")?, 16).ok().and_then(char::from_u32)
}

/// Finds the first `{{text*n}}`; double braces without a number are text.
fn placeholder(content: &str) -> Option<(&str, usize, std::ops::Range<usize>)> {
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

fn encoded(text: &str, encoding: Option<&str>) -> Option<Vec<u8>> {
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
    /// Returns the files and the directories that hold them, sorted by path, as reading the disk
    /// would.
    #[must_use]
    pub fn entries(&self) -> Vec<FileEntry> {
        let mut entries: Vec<FileEntry> = Vec::new();
        for file in &self.files {
            for (at, _) in file.path.match_indices('/') {
                let path = file.path[..at].to_owned();
                entries.push(FileEntry { path, size: 0, mode: 0o755, kind: EntryKind::Directory });
            }
            let kind = match &file.link {
                Some(target) => EntryKind::Symlink { escapes: escapes(&file.path, target) },
                None => EntryKind::File,
            };
            let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
            entries.push(FileEntry { path: file.path.clone(), size, mode: file.mode, kind });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        entries
    }

    /// Returns what rules are given, with `entries` as the list of files.
    #[must_use]
    pub fn input<'a>(&'a self, entries: &'a [FileEntry]) -> SkillInput<'a> {
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

/// Tells whether a link leads out of the directory that its path is relative to.
fn escapes(path: &str, target: &str) -> bool {
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
mod tests {
    use super::*;
    use crate::profile::{ProfileLevels, RuleLevel};
    use crate::rule::{RuleCheck, RuleExtent, RuleGroup};

    fn of(docs: &'static str) -> Result<RuleDocumentation, DocumentationError> {
        parse_documentation(&Rule {
            id: "a.b",
            group: RuleGroup::Lint,
            reach: RuleExtent::Head,
            summary: "it is odd",
            levels: ProfileLevels::uniform(RuleLevel::Note),
            fixable: false,
            docs,
            check: RuleCheck::Loading,
        })
    }

    fn file(path: &str, bytes: &[u8]) -> ExampleFile {
        ExampleFile { path: path.to_owned(), bytes: bytes.to_vec(), link: None, mode: 0o644 }
    }

    #[test]
    fn sections_examples_and_keys_are_read() {
        let docs = "\n## What it does\nLooks.\n\n## Why is this bad?\nIt is.\n\n## Bad\n\
            ````markdown x/SKILL.md profile=skillscraft encoding=latin-1\né\n```sh\n## Good\n```\n````\n\n\
            ```sh x/scripts/a.sh mode=755\n{{ab*2}} {{c}}{{U+2D*2}}\n```\n\
            ```text x/b link=../c\n```\n\n## Good\nA file of one gigabyte is no example.\n";
        let link = ExampleFile { link: Some("../c".to_owned()), ..file("b", b"") };
        let script = ExampleFile { mode: 0o755, ..file("scripts/a.sh", b"abab {{c}}--\n") };
        let skill = ExampleSkill {
            dir_name: "x".to_owned(),
            files: vec![file("SKILL.md", b"\xE9\n```sh\n## Good\n```\n"), script, link],
        };
        let expected = RuleDocumentation {
            what: "Looks.",
            why: "It is.",
            bad: RuleExamples {
                profile: Profile::Skillscraft,
                skills: vec![skill.clone()],
                excuse: String::new(),
            },
            good: RuleExamples {
                excuse: "A file of one gigabyte is no example.".to_owned(),
                ..RuleExamples::default()
            },
        };
        assert_eq!(of(docs), Ok(expected));
        let entries = skill.entries();
        let shown: Vec<_> =
            entries.iter().map(|it| (&*it.path, it.size, it.mode, &it.kind)).collect();
        assert_eq!(
            shown,
            [
                ("SKILL.md", 20, 0o644, &EntryKind::File),
                ("b", 0, 0o644, &EntryKind::Symlink { escapes: true }),
                ("scripts", 0, 0o755, &EntryKind::Directory),
                ("scripts/a.sh", 13, 0o755, &EntryKind::File),
            ]
        );
    }

    #[test]
    fn encodings_are_those_that_files_have() {
        assert_eq!(encoded("é", Some("utf-8-bom")).unwrap(), b"\xEF\xBB\xBF\xC3\xA9");
        assert_eq!(encoded("é", Some("utf-16le")).unwrap(), b"\xFF\xFE\xE9\0");
        assert_eq!(encoded("€", Some("latin-1")), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let section = DocumentationError::Section;
        assert_eq!(of("\n## What it does\nx\n"), Err(section("Why is this bad?")));
        assert_eq!(of("## What it does\n"), Err(section("What it does")));
        let with = |bad: &str| {
            let docs = format!(
                "\n## What it does\nx\n\n## Why is this bad?\nx\n\n## Bad\n{bad}\n\n## Good\nx\n"
            );
            of(docs.leak()).map(|_| ())
        };
        assert_eq!(with("x"), Ok(()));
        assert_eq!(with(""), Err(section("Bad")));
        assert_eq!(with("```a\n```"), Err(DocumentationError::Info("a".to_owned())));
        for info in ["a x/y profile=z", "a x/y size=1", "a x", "a x/y encoding=utf-7"] {
            let block = format!("```{info}\n```");
            assert_eq!(with(&block), Err(DocumentationError::Info(info.to_owned())));
        }
        assert_eq!(with("```a x/y\nz"), Err(DocumentationError::Unclosed("a x/y".to_owned())));
    }
}
