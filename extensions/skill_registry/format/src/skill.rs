//! The loading rules (profile `lenient`): from bytes to a skill's frontmatter and body.
//!
//! Whatever can be understood is loaded and what is odd about it is reported; only a file without
//! a usable description is refused.

mod allowed_tools;
mod core_schema;
mod fields;
mod findings;
mod name;

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;
use crate::split::{FenceSearch, FrontmatterFences, InputEnd, scan_fences};
use crate::text::{DecodedText, UTF8_BOM, decode_file, is_utf16};
use crate::tree::{self, Value};
pub use core_schema::infer_core_type;
use findings::DiagnosticCollector;

/// Lists the tools a skill names in `allowed-tools`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedTools {
    /// The field is absent or empty: the skill makes no statement.
    #[default]
    Absent,
    /// The tools in the order written, patterns such as `Bash(git:*)` whole.
    List(Vec<String>),
    /// The field is there but cannot be read: no grants, and nothing allowed where it restricts.
    Unparsable,
}

/// What a skill says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontmatter {
    /// The `name` as written; the directory's name is the id.
    pub name: Option<String>,
    /// What the skill does and when to use it; never blank.
    pub description: String,
    /// The licence.
    pub license: Option<String>,
    /// What the skill needs to work.
    pub compatibility: Option<String>,
    /// The tools it names.
    pub allowed_tools: AllowedTools,
    /// The `metadata` map in order, values as they stand in the file.
    pub metadata: Vec<(String, String)>,
    /// Tags, from the top level or from `metadata`.
    pub tags: Vec<String>,
    /// Ids of skills to load first, from the top level or from `metadata`.
    pub requires: Vec<String>,
    /// More about when to use the skill; joins the description in search.
    pub when_to_use: Option<String>,
    /// Whether the skill is for users only and not offered to models.
    pub disable_model_invocation: bool,
    /// Whether users get a slash command or a prompt for it; true unless the file says otherwise.
    pub user_invocable: bool,
    /// A hint about the arguments of its slash command.
    pub argument_hint: Option<String>,
    /// The `arguments` as written; hosts do not agree on their shape.
    pub arguments: Option<Value>,
    /// The `version` at the top level as written.
    pub version: Option<String>,
    /// Every other field, as written.
    pub unknown: Vec<(String, Value)>,
}

/// The outcome of parsing a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedSkill {
    /// The frontmatter; none if the skill must be skipped, then a diagnostic is an error.
    pub frontmatter: Option<Frontmatter>,
    /// Where the body starts, as a byte offset into the decoded text.
    pub body_start: usize,
    /// What was found, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// A parsed SKILL.md with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillText<'a> {
    /// What was parsed.
    pub parsed: ParsedSkill,
    /// The decoded text of the whole file.
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
/// fence: of a UTF-8 file nothing behind it is looked at.
#[must_use]
pub fn parse_head(dir_name: &str, bytes: &[u8]) -> ParsedSkill {
    if is_utf16(bytes) {
        return match parse_skill(dir_name, bytes) {
            Ok(skill) => skill.parsed,
            Err(refused) => *refused,
        };
    }
    let mark = if bytes.starts_with(UTF8_BOM) { UTF8_BOM.len() } else { 0 };
    let found = scan_fences(&bytes[mark..], InputEnd::File);
    let end = if let FenceSearch::Both(fences) = &found { fences.body_start } else { 0 };
    match (decode_file(&bytes[..mark + end]), found) {
        (Ok(head), FenceSearch::Both(fences)) => {
            load(dir_name, &head.text, &fences, head.diagnostics)
        }
        (Ok(head), found) => without_frontmatter(&found, head.diagnostics),
        (Err(refusal), _) => rejected_skill(refusal),
    }
}

/// Parses a whole file and applies the loading rules.
///
/// `dir_name` is the name of the skill's directory.
///
/// # Errors
/// Fails only if the bytes cannot be decoded. A file that is text but not a skill is a
/// [`SkillText`] without frontmatter, so that its text can still be shown.
pub fn parse_skill<'a>(dir_name: &str, bytes: &'a [u8]) -> Result<SkillText<'a>, Box<ParsedSkill>> {
    let DecodedText { text, diagnostics } =
        decode_file(bytes).map_err(|refusal| Box::new(rejected_skill(refusal)))?;
    let parsed = match scan_fences(text.as_bytes(), InputEnd::File) {
        FenceSearch::Both(fences) => load(dir_name, &text, &fences, diagnostics),
        found => without_frontmatter(&found, diagnostics),
    };
    Ok(SkillText { parsed, text })
}

/// Applies the loading rules to what stands between fences that the caller has found.
///
/// `dir_name` is the name of the skill's directory, `text` the decoded text of the whole file. For
/// validators whose fences are not those of [`fences`](crate::fences).
///
/// # Panics
/// Panics if the fences are not places in the text.
#[must_use]
pub fn parse_with_fences(dir_name: &str, text: &str, fences: &FrontmatterFences) -> ParsedSkill {
    load(dir_name, text, fences, Vec::new())
}

fn rejected_skill(refusal: Diagnostic) -> ParsedSkill {
    ParsedSkill { frontmatter: None, body_start: 0, diagnostics: vec![refusal] }
}

fn without_frontmatter(found: &FenceSearch, mut diagnostics: Vec<Diagnostic>) -> ParsedSkill {
    found.report(&mut diagnostics);
    ParsedSkill { frontmatter: None, body_start: 0, diagnostics }
}

fn load(
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
