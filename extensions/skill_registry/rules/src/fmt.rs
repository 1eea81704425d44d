//! Brings the frontmatter of a SKILL.md into its canonical form.
//!
//! The canonical form:
//! - The file starts with `---`; there is nothing after the dashes of a fence, no byte order mark,
//!   and every line of the frontmatter ends with `\n`. The body stays as it is, byte for byte.
//! - `name`, `description`, `license`, `compatibility`, `allowed-tools`, `metadata`, then the other
//!   fields in the order they had. What is below them keeps its order.
//! - Maps and lists are indented by two blanks, lists also below their key.
//! - A text has no quotes where every reader understands it without. A text that some reader would
//!   take for a number, a date, true, false or nothing keeps or lacks its quotes as it did: its
//!   type does not change. Quotes are double, or single where that saves escapes.
//! - A block (`|`, `>`) stays the block it is. A text over several lines without being a block
//!   becomes one, `>-`, with the line breaks of its author. No line is broken or joined otherwise.
//! - What stands in brackets or braces stays as it is.
//! - Comments stay with the field below them, or behind their value; a group of comments at the top
//!   that a blank line follows stays at the top. Several blank lines become one.
//! - A field that is not valid YAML is written as the text that loading takes it for.

mod draft;
mod portable;
mod print;
mod source;
mod text;

use skill_format::tree::{Mapping, MappingEntry, Scalar, YamlStyle, parse_frontmatter};
use skill_format::{Severity, Value, find_fences};

use draft::{DraftChildren, build_draft};
use source::{CommentToken, FrontmatterSource, SourceLayout, StandaloneLine, collect_comments};

/// The fields of the Agent Skills specification in their order.
const STANDARD: [&str; 6] =
    ["name", "description", "license", "compatibility", "allowed-tools", "metadata"];

/// What other readers make something else of than ours: it is not for a formatter to decide.
const AMBIGUOUS: [&str; 6] = [
    "frontmatter.alias",
    "frontmatter.anchor",
    "frontmatter.tag",
    "frontmatter.duplicateKey",
    "frontmatter.complexKey",
    "frontmatter.multipleDocuments",
];

/// YAML looks only 1,024 characters far for the colon behind a key.
const KEY_LIMIT: usize = 1_000;

/// How to format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FmtOptions {
    /// Whether to move the fields that are not in the specification under `metadata`.
    pub portable: bool,
}

/// A formatted SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormattedSkill {
    /// The whole text.
    pub text: String,
    /// Whether it differs from the text that was given.
    pub changed: bool,
    /// The fields that [`FmtOptions::portable`] left where they are, because they decide who may
    /// use the skill and would not be obeyed elsewhere.
    pub left: Vec<String>,
}

/// Says why a file is left alone, and at which line; 0 is the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FmtError {
    /// The line, counted from 1.
    pub line: u32,
    /// What cannot be formatted.
    pub reason: FmtErrorKind,
}

/// What cannot be formatted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FmtErrorKind {
    /// There is no frontmatter, or it is no map.
    #[error("{found}")]
    NoFields {
        /// What was found instead.
        found: String,
    },
    /// Readers do not agree about it.
    #[error("{found}, and other readers may understand it otherwise")]
    Ambiguous {
        /// What was found.
        found: String,
    },
    /// The tree does not hold all of the text.
    #[error("this belongs to no field or is over a limit, and would be lost")]
    Gap,
    /// A carriage return without a line feed, or a NUL.
    #[error("there is a {name} here, which YAML does not allow or takes for the end of a line")]
    Control {
        /// The name of the character.
        name: &'static str,
    },
    /// A key is too long to stand before a colon.
    #[error("a key has more than {KEY_LIMIT} characters")]
    LongKey,
    /// There is no place to move fields to.
    #[error("`metadata` is not a map, so nothing can be moved there")]
    MetadataNotMap,
    /// A field cannot be moved because its place is taken.
    #[error("`metadata` has `{key}` already, with another value")]
    Taken {
        /// The field.
        key: String,
    },
    /// The result would not say the same.
    #[error("the canonical form would not say exactly the same")]
    Inexact,
}

impl FmtErrorKind {
    fn at(self, line: u32) -> FmtError {
        FmtError { line, reason: self }
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoFields { .. } => "see: skillhost skill validate",
            Self::Ambiguous { .. } => "write it in plain YAML, or put the text in quotes",
            Self::Gap => "write one `key: value` per line, nested less deeply",
            Self::Control { .. } => "remove it",
            Self::LongKey => "shorten the key",
            Self::MetadataNotMap => "write `key: value` lines below `metadata`",
            Self::Taken { .. } => "remove one of the two",
            Self::Inexact => "please report the file; it is left as it is",
        }
    }
}

/// Formats the decoded text of a SKILL.md.
///
/// What holds of the result: the tree of its frontmatter has the same content as before (apart from
/// the order of the top level, and from what [`FmtOptions::portable`] moves) and is valid YAML, no
/// type that YAML gives a value has changed, no comment is lost, the body is the same, and
/// formatting it again changes nothing.
///
/// # Errors
/// Fails if that cannot be had.
pub fn format_skill(text: &str, options: FmtOptions) -> Result<FormattedSkill, FmtError> {
    let Some(fences) = find_fences(text) else { return Err(without_fences(text)) };
    let first_line = fences.open_line + 1;
    let yaml = text[fences.yaml.clone()].replace("\r\n", "\n");
    refuse_controls(&yaml, first_line)?;
    let mut root = parse_lossless(&yaml, first_line)?;
    // The parser gives CRLF and LF the same meaning, but not where it reads broken YAML as text.
    let with_crlf = parse_frontmatter(&text[fences.yaml.clone()], first_line).root;
    if !matches!(&with_crlf, Value::Mapping(before) if before.same_content(&root)) {
        return Err(FmtErrorKind::Inexact.at(0));
    }
    let source = FrontmatterSource::new(&yaml, first_line);
    let layout = SourceLayout::new(&source, &root);
    let found = collect_comments(&source, &layout);
    let mut fields = build_draft(&source, &layout, &found, &root, options.portable);
    let header = header(&mut fields);
    let left = match options.portable {
        true => portable::make_portable(&mut fields, &mut root, &yaml)?,
        false => Vec::new(),
    };
    fields.nodes.sort_by_key(|node| rank(node.key.as_ref()));
    root.entries.sort_by_key(|entry| rank(Some(&entry.key)));
    if let Some(first) = fields.nodes.first_mut() {
        first.leading.splice(0..0, header);
    } else {
        fields.tail.splice(0..0, header);
    }
    let printed = print::print_draft(fields);
    let body = &text[fences.body_start..];
    let result = format!("---\n{printed}---\n{body}");
    if is_equivalent(&result, body, &root, &found) {
        Ok(FormattedSkill { changed: result != text, text: result, left })
    } else {
        Err(FmtErrorKind::Inexact.at(0))
    }
}

fn without_fences(text: &str) -> FmtError {
    let parsed = skill_format::parse_skill("", text.as_bytes()).map(|skill| skill.parsed);
    let parsed = parsed.unwrap_or_else(|refused| *refused);
    let found = parsed.diagnostics.into_iter().find(|found| found.severity == Severity::Error);
    match found {
        Some(found) => FmtErrorKind::NoFields { found: found.message }.at(found.line),
        None => FmtErrorKind::Inexact.at(0),
    }
}

fn refuse_controls(yaml: &str, first_line: u32) -> Result<(), FmtError> {
    let Some(at) = yaml.find(['\r', '\0']) else { return Ok(()) };
    let before = yaml[..at].matches('\n').count();
    let name = if yaml[at..].starts_with('\0') { "NUL" } else { "carriage return" };
    let line = first_line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
    Err(FmtErrorKind::Control { name }.at(line))
}

/// Reads a frontmatter that can be written again without loss.
fn parse_lossless(yaml: &str, first_line: u32) -> Result<Mapping, FmtError> {
    let tree = parse_frontmatter(yaml, first_line);
    let error = tree.diagnostics.iter().find(|found| found.severity == Severity::Error);
    if let Some(found) = error {
        return Err(FmtErrorKind::NoFields { found: found.message.clone() }.at(found.line));
    }
    if let Some(found) = tree.diagnostics.iter().find(|found| AMBIGUOUS.contains(&found.rule)) {
        return Err(FmtErrorKind::Ambiguous { found: found.message.clone() }.at(found.line));
    }
    if let Some(gap) = tree.gap {
        return Err(FmtErrorKind::Gap.at(gap.line));
    }
    let span = tree.root.span();
    let Value::Mapping(root) = tree.root else {
        let found = "the frontmatter is not a list of `key: value` lines".to_owned();
        return Err(FmtErrorKind::NoFields { found }.at(span.line));
    };
    let long = |entry: &&MappingEntry| entry.key.text.chars().count() > KEY_LIMIT;
    if let Some(entry) = root.entries.iter().find(long) {
        return Err(FmtErrorKind::LongKey.at(entry.key.span.line));
    }
    Ok(root)
}

/// Takes the comments at the top that a blank line separates from the first field.
fn header(fields: &mut DraftChildren) -> Vec<StandaloneLine> {
    let Some(first) = fields.nodes.first_mut() else { return Vec::new() };
    let end = first.leading.iter().rposition(|line| *line == StandaloneLine::Blank);
    end.map_or_else(Vec::new, |end| first.leading.drain(..=end).collect())
}

fn rank(key: Option<&Scalar>) -> usize {
    let position = |key: &Scalar| STANDARD.iter().position(|field| *field == key.text);
    key.and_then(position).unwrap_or(STANDARD.len())
}

/// Tells whether a result has the content, the types, the comments and the body it should have.
fn is_equivalent(result: &str, body: &str, root: &Mapping, before: &[CommentToken]) -> bool {
    let Some(fences) = find_fences(result) else { return false };
    let yaml = &result[fences.yaml];
    let tree = parse_frontmatter(yaml, 2);
    let Value::Mapping(after) = &tree.root else { return false };
    let source = FrontmatterSource::new(yaml, 2);
    let comments = |tokens: &[CommentToken]| {
        let mut comments: Vec<_> = tokens.iter().map(|token| &token.line).cloned().collect();
        comments.retain(|line| *line != StandaloneLine::Blank);
        comments.sort_unstable();
        comments
    };
    tree.diagnostics.is_empty()
        && tree.gap.is_none()
        && result.get(fences.body_start..) == Some(body)
        && same_entries(&root.entries, &after.entries)
        && comments(&collect_comments(&source, &SourceLayout::new(&source, after)))
            == comments(before)
}

fn same_entries(before: &[MappingEntry], after: &[MappingEntry]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| {
            same_scalar(&before.key, &after.key) && same(&before.value, &after.value)
        })
}

fn same(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Scalar(before), Value::Scalar(after)) => same_scalar(before, after),
        (Value::Sequence(before), Value::Sequence(after)) => {
            before.items.len() == after.items.len()
                && before.items.iter().zip(&after.items).all(|(before, after)| same(before, after))
        }
        (Value::Mapping(before), Value::Mapping(after)) => {
            same_entries(&before.entries, &after.entries)
        }
        _ => false,
    }
}

/// Tells whether two texts are the same, also to a reader that gives those without quotes a type.
fn same_scalar(before: &Scalar, after: &Scalar) -> bool {
    let typed = |scalar: &Scalar| {
        let raw_nothing = scalar.style == YamlStyle::Raw && scalar.text.is_empty();
        (scalar.style == YamlStyle::Plain || raw_nothing) && text::looks_typed(&scalar.text)
    };
    before.text == after.text && typed(before) == typed(after)
}
