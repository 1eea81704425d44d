//! Formatter that writes the frontmatter of a SKILL.md in its canonical form.
//!
//! The canonical form:
//! - The file starts with `---`, without a byte order mark; fences end after their dashes, and
//!   every line of the frontmatter ends with `\n`. The body stays byte for byte the same.
//! - Fields in the order `name`, `description`, `license`, `compatibility`, `allowed-tools`,
//!   `metadata`, then the others in their original order. Nested values keep their order.
//! - Maps and lists are indented by two blanks, lists also below their key.
//! - A text has quotes only if a reader needs them. A text that some reader would parse as a
//!   number, a date, a boolean or null keeps its quoting, so that its type does not change. Quotes
//!   are double, or single if that saves escapes.
//! - A block (`|`, `>`) stays a block of its kind. Any other text over several lines becomes a
//!   block `>-` with the line breaks of its author. No line is broken or joined otherwise.
//! - Values in brackets or braces stay unchanged.
//! - Comments stay with the field below them, or after their value; a group of comments at the top
//!   before a blank line stays at the top. Several blank lines become one.
//! - A field that is not valid YAML is written as the text that loading recovers from it.

mod draft;
mod portable;
mod print;
mod source;
mod text;

use skill_format::tree::parse_frontmatter;
use skill_format::{Severity, find_fences};
use yaml_tree::{Mapping, MappingEntry, Scalar, Value, YamlStyle};

use draft::{DraftChildren, build_draft};
use source::{CommentToken, FrontmatterSource, SourceLayout, StandaloneLine, collect_comments};

/// The fields of the Agent Skills specification in their order.
const STANDARD: [&str; 6] =
    ["name", "description", "license", "compatibility", "allowed-tools", "metadata"];

/// Findings about YAML that other readers interpret differently, which a formatter must not decide.
const AMBIGUOUS: [&str; 6] = [
    "frontmatter.alias",
    "frontmatter.anchor",
    "frontmatter.tag",
    "frontmatter.duplicateKey",
    "frontmatter.complexKey",
    "frontmatter.multipleDocuments",
];

/// The maximum length of a key, in characters: YAML searches the colon within 1,024 characters.
const MAX_KEY_CHARS: usize = 1_000;

/// Options of the formatter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FmtOptions {
    /// Whether to move fields outside the specification under `metadata`.
    pub portable: bool,
}

/// A formatted SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormattedSkill {
    /// The text of the file.
    pub text: String,
    /// Whether it differs from the input.
    pub changed: bool,
    /// The fields that [`FmtOptions::portable`] did not move, because they restrict the use of the
    /// skill and have no effect under `metadata`.
    pub left: Vec<String>,
}

/// An error that leaves the file unformatted, with its line; 0 is the file itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FmtError {
    /// The line, counted from 1.
    pub line: u32,
    /// The kind of error.
    pub reason: FmtErrorKind,
}

/// The reason for a formatting error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FmtErrorKind {
    /// There is no frontmatter, or it is not a map.
    #[error("{found}")]
    NoFields {
        /// The finding of loading.
        found: String,
    },
    /// The text has several interpretations.
    #[error("{found}, and other readers may interpret it differently")]
    Ambiguous {
        /// The finding of loading.
        found: String,
    },
    /// The tree does not hold all of the text.
    #[error("text without a field or over a limit would be lost")]
    Gap,
    /// A carriage return without a line feed, or a NUL.
    #[error("{name} is not valid here: YAML rejects it or reads it as a line end")]
    Control {
        /// The name of the character.
        name: &'static str,
    },
    /// A key is too long for a plain `key: value` line.
    #[error("key has more than {MAX_KEY_CHARS} characters")]
    LongKey,
    /// Fields cannot be moved, because `metadata` is not a map.
    #[error("`metadata` is not a map; fields cannot be moved there")]
    MetadataNotMap,
    /// A field cannot be moved, because `metadata` has another value for it.
    #[error("`{key}` already exists in `metadata` with another value")]
    Taken {
        /// The field.
        key: String,
    },
    /// The result would not be equivalent.
    #[error("the canonical form would not be equivalent")]
    Inexact,
}

impl FmtErrorKind {
    fn at_line(self, line: u32) -> FmtError {
        FmtError { line, reason: self }
    }
}

/// Formats the decoded text of a SKILL.md.
///
/// Guarantees for the result: the tree of its frontmatter has the same content as before (except
/// for the order of the top level and the fields that [`FmtOptions::portable`] moves) and is valid
/// YAML, the YAML type of every value is the same, no comment is lost, the body is the same, and
/// formatting it again has no effect.
///
/// # Errors
/// Returns [`FmtError`] if the result would break one of these guarantees.
pub fn format_skill(text: &str, options: FmtOptions) -> Result<FormattedSkill, FmtError> {
    let Some(fences) = find_fences(text) else { return Err(missing_fences_error(text)) };
    let first_line = fences.open_line + 1;
    // All offsets below count bytes of this copy with LF line ends.
    let yaml = text[fences.yaml.clone()].replace("\r\n", "\n");
    check_control_characters(&yaml, first_line)?;
    let mut root = parse_lossless(&yaml, first_line)?;
    // The parser gives CRLF and LF the same meaning, but not where it reads broken YAML as text.
    let with_crlf = parse_frontmatter(&text[fences.yaml.clone()], first_line).root;
    if !matches!(&with_crlf, Value::Mapping(before) if before.same_content(&root)) {
        return Err(FmtErrorKind::Inexact.at_line(0));
    }
    let source = FrontmatterSource::new(&yaml, first_line);
    let layout = SourceLayout::new(&source, &root);
    let found = collect_comments(&source, &layout);
    let mut fields = build_draft(&source, &layout, &found, &root, options.portable);
    let header = take_header(&mut fields);
    let left = match options.portable {
        true => portable::make_portable(&mut fields, &mut root, &yaml)?,
        false => Vec::new(),
    };
    // Both sorts are stable and use the same key, so that draft and tree stay parallel.
    fields.nodes.sort_by_key(|node| field_rank(node.key.as_ref()));
    root.entries.sort_by_key(|entry| field_rank(Some(&entry.key)));
    // The header goes above the field that is first now.
    if let Some(first) = fields.nodes.first_mut() {
        first.leading.splice(0..0, header);
    } else {
        fields.tail.splice(0..0, header);
    }
    let printed = print::print_draft(fields);
    let body = &text[fences.body_start..];
    let result = format!("---\n{printed}---\n{body}");
    // The output is parsed and compared, because a wrong result would destroy user data.
    if is_equivalent(&result, body, &root, &found) {
        Ok(FormattedSkill { changed: result != text, text: result, left })
    } else {
        Err(FmtErrorKind::Inexact.at_line(0))
    }
}

fn missing_fences_error(text: &str) -> FmtError {
    let parsed = skill_format::parse_skill("", text.as_bytes()).map(|skill| skill.parsed);
    let parsed = parsed.unwrap_or_else(|rejected| *rejected);
    let found = parsed.diagnostics.into_iter().find(|found| found.severity == Severity::Error);
    match found {
        Some(found) => FmtErrorKind::NoFields { found: found.message }.at_line(found.line),
        None => FmtErrorKind::Inexact.at_line(0),
    }
}

fn check_control_characters(yaml: &str, first_line: u32) -> Result<(), FmtError> {
    let Some(at) = yaml.find(['\r', '\0']) else { return Ok(()) };
    let before = yaml[..at].matches('\n').count();
    let name = if yaml[at..].starts_with('\0') { "NUL" } else { "carriage return" };
    let line = first_line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX));
    Err(FmtErrorKind::Control { name }.at_line(line))
}

/// Parses a frontmatter that can be written again without loss.
fn parse_lossless(yaml: &str, first_line: u32) -> Result<Mapping, FmtError> {
    let tree = parse_frontmatter(yaml, first_line);
    // Errors come first: an ambiguous but broken file is reported as broken.
    let error = tree.diagnostics.iter().find(|found| found.severity == Severity::Error);
    if let Some(found) = error {
        return Err(FmtErrorKind::NoFields { found: found.message.clone() }.at_line(found.line));
    }
    if let Some(found) = tree.diagnostics.iter().find(|found| AMBIGUOUS.contains(&found.rule)) {
        return Err(FmtErrorKind::Ambiguous { found: found.message.clone() }.at_line(found.line));
    }
    if let Some(gap) = tree.gap {
        return Err(FmtErrorKind::Gap.at_line(gap.line));
    }
    let span = tree.root.span();
    let Value::Mapping(root) = tree.root else {
        let found = "the frontmatter is not a list of `key: value` lines".to_owned();
        return Err(FmtErrorKind::NoFields { found }.at_line(span.line));
    };
    let long = |entry: &&MappingEntry| entry.key.text.chars().count() > MAX_KEY_CHARS;
    if let Some(entry) = root.entries.iter().find(long) {
        return Err(FmtErrorKind::LongKey.at_line(entry.key.span.line));
    }
    Ok(root)
}

/// Removes and returns the comments at the top that a blank line separates from the first field.
fn take_header(fields: &mut DraftChildren) -> Vec<StandaloneLine> {
    let Some(first) = fields.nodes.first_mut() else { return Vec::new() };
    let end = first.leading.iter().rposition(|line| *line == StandaloneLine::Blank);
    end.map_or_else(Vec::new, |end| first.leading.drain(..=end).collect())
}

fn field_rank(key: Option<&Scalar>) -> usize {
    let position = |key: &Scalar| STANDARD.iter().position(|field| *field == key.text);
    key.and_then(position).unwrap_or(STANDARD.len())
}

/// Returns `true` if a result has the expected content, types, comments and body.
fn is_equivalent(result: &str, body: &str, root: &Mapping, before: &[CommentToken]) -> bool {
    let Some(fences) = find_fences(result) else { return false };
    let yaml = &result[fences.yaml];
    let tree = parse_frontmatter(yaml, 2);
    let Value::Mapping(after) = &tree.root else { return false };
    let source = FrontmatterSource::new(yaml, 2);
    let comments = |tokens: &[CommentToken]| {
        let mut comments: Vec<_> = tokens.iter().map(|token| &token.line).cloned().collect();
        // Blank lines may be merged, and comments may be moved to another field's line.
        comments.retain(|line| *line != StandaloneLine::Blank);
        comments.sort_unstable();
        comments
    };
    tree.diagnostics.is_empty()
        && tree.gap.is_none()
        && result.get(fences.body_start..) == Some(body)
        && have_same_entries(&root.entries, &after.entries)
        && comments(&collect_comments(&source, &SourceLayout::new(&source, after)))
            == comments(before)
}

fn have_same_entries(before: &[MappingEntry], after: &[MappingEntry]) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|(before, after)| {
            has_same_scalar(&before.key, &after.key) && has_same_value(&before.value, &after.value)
        })
}

fn has_same_value(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Scalar(before), Value::Scalar(after)) => has_same_scalar(before, after),
        (Value::Sequence(before), Value::Sequence(after)) => {
            before.items.len() == after.items.len()
                && before
                    .items
                    .iter()
                    .zip(&after.items)
                    .all(|(before, after)| has_same_value(before, after))
        }
        (Value::Mapping(before), Value::Mapping(after)) => {
            have_same_entries(&before.entries, &after.entries)
        }
        _ => false,
    }
}

/// Returns `true` if two texts are equal, also for a reader that infers types of unquoted texts.
fn has_same_scalar(before: &Scalar, after: &Scalar) -> bool {
    let typed = |scalar: &Scalar| {
        let is_raw_empty = scalar.style == YamlStyle::Raw && scalar.text.is_empty();
        // A recovered empty value is written without quotes, which YAML reads as null.
        (scalar.style == YamlStyle::Plain || is_raw_empty) && text::looks_typed(&scalar.text)
    };
    before.text == after.text && typed(before) == typed(after)
}
