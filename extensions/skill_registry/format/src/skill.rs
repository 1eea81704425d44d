//! The loading rules (profile `lenient`) that turn bytes into a skill's frontmatter and body.
//!
//! Every readable field is loaded and every irregularity is reported; only a file without a usable
//! description is rejected.

mod allowed_tools;
mod core_schema;
mod fields;
mod findings;
mod frontmatter;
mod name;

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;
use crate::split::{FenceSearch, FrontmatterFences, InputEnd, scan_fences};
use crate::text::{DecodedText, UTF8_BOM, decode_file, is_utf16};
use crate::tree;
pub use core_schema::infer_core_type;
use findings::DiagnosticCollector;
pub use frontmatter::{AllowedTools, Frontmatter};
pub use name::is_valid_name;
use yaml_tree::Value;

/// The outcome of parsing a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedSkill {
    /// The frontmatter; `None` if the skill must be skipped, in which case a diagnostic is an error.
    pub frontmatter: Option<Frontmatter>,
    /// The byte offset of the body in the decoded text.
    pub body_start: usize,
    /// The diagnostics in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// A parsed SKILL.md with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillText<'a> {
    /// The frontmatter, the body offset and the diagnostics.
    pub parsed: ParsedSkill,
    /// The decoded text of the complete file.
    pub text: Cow<'a, str>,
}

impl SkillText<'_> {
    /// Returns the body: everything after the closing fence.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.parsed.body_start..]
    }
}

/// Parses the frontmatter and applies the loading rules.
///
/// `dir_name` is the name of the skill's directory. The bytes may end right after the closing
/// fence: in a UTF-8 file no byte after it is read.
#[must_use]
pub fn parse_head(dir_name: &str, bytes: &[u8]) -> ParsedSkill {
    // UTF-16 is decoded as a complete file, because fences are searched as UTF-8 bytes.
    if is_utf16(bytes) {
        return match parse_skill(dir_name, bytes) {
            Ok(skill) => skill.parsed,
            Err(rejected) => *rejected,
        };
    }
    let mark = if bytes.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    let found = scan_fences(&bytes[mark..], InputEnd::File);
    let end = if let FenceSearch::Both(fences) = &found { fences.body_start } else { 0 };
    // Only the head is decoded, so that invalid bytes in the body do not hide the frontmatter.
    match (decode_file(&bytes[..mark + end]), found) {
        (Ok(head), FenceSearch::Both(fences)) => {
            apply_rules(dir_name, &head.text, &fences, head.diagnostics)
        }
        (Ok(head), found) => without_frontmatter(&found, head.diagnostics),
        (Err(error), _) => rejected_skill(error),
    }
}

/// Parses a complete file and applies the loading rules.
///
/// `dir_name` is the name of the skill's directory.
///
/// # Errors
/// Returns the diagnostics of bytes that cannot be decoded. A file that is text but not a skill is
/// a [`SkillText`] without frontmatter, so that its text can still be displayed.
pub fn parse_skill<'a>(dir_name: &str, bytes: &'a [u8]) -> Result<SkillText<'a>, Box<ParsedSkill>> {
    let DecodedText { text, diagnostics } =
        decode_file(bytes).map_err(|error| Box::new(rejected_skill(error)))?;
    let parsed = match scan_fences(text.as_bytes(), InputEnd::File) {
        FenceSearch::Both(fences) => apply_rules(dir_name, &text, &fences, diagnostics),
        found => without_frontmatter(&found, diagnostics),
    };
    Ok(SkillText { parsed, text })
}

/// Applies the loading rules to the text between fences that the caller has found.
///
/// `dir_name` is the name of the skill's directory, `text` the decoded text of the complete file.
/// For validators whose fences differ from those of [`find_fences`](crate::find_fences).
///
/// # Panics
/// Panics if the fences are not character boundaries of the text.
#[must_use]
pub fn parse_with_fences(dir_name: &str, text: &str, fences: &FrontmatterFences) -> ParsedSkill {
    apply_rules(dir_name, text, fences, Vec::new())
}

fn rejected_skill(error: Diagnostic) -> ParsedSkill {
    ParsedSkill { frontmatter: None, body_start: 0, diagnostics: vec![error] }
}

fn without_frontmatter(found: &FenceSearch, mut diagnostics: Vec<Diagnostic>) -> ParsedSkill {
    found.report(&mut diagnostics);
    ParsedSkill { frontmatter: None, body_start: 0, diagnostics }
}

fn apply_rules(
    dir_name: &str,
    text: &str,
    fences: &FrontmatterFences,
    mut diagnostics: Vec<Diagnostic>,
) -> ParsedSkill {
    fences.report(&mut diagnostics);
    let yaml = &text[fences.yaml.clone()];
    let tree = tree::parse_frontmatter(yaml, fences.open_line + 1);
    diagnostics.extend(tree.diagnostics);
    let mut findings = DiagnosticCollector::new(diagnostics);
    let frontmatter = match tree.root {
        Value::Mapping(root) => {
            fields::read_frontmatter(dir_name, root, yaml, fences.open_line, &mut findings)
        }
        other => {
            // Text that is not YAML was reported by the parser already.
            if !findings.has_error() {
                let place = other.span();
                findings.push(
                    Diagnostic::error(
                        "frontmatter.type",
                        "the frontmatter is not a list of `key: value` lines",
                    )
                    .with_position(place.line, place.column)
                    .with_help("write one `key: value` per line, with `name` and `description`"),
                );
            }
            None
        }
    };
    ParsedSkill { frontmatter, body_start: fences.body_start, diagnostics: findings.finish() }
}
