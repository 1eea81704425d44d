//! The token counts of the parts of one skill.

use std::collections::HashMap;
use std::ops::AddAssign;

use serde::Serialize;
use skill_catalog::{FoundProblem, FoundSkill, ResourceContent, SkillFiles};
use skill_format::{
    Diagnostic, Digest, EntryKind, ResourceKind, ResourceLine, Severity, SkillInstructions,
    TokenCount,
};

use super::clients::SkillListing;

/// The number of resources that `read_skill` lists; further ones are only counted.
const MAX_LISTED: usize = 100;

/// The cost of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TextCost {
    pub(super) chars: u64,
    /// The estimate in tokens, as hot paths compute it.
    pub(super) estimate: u32,
    /// The count in tokens of o200k_base; `None` if only estimates were requested.
    pub(super) o200k: Option<u32>,
}

impl AddAssign for TextCost {
    fn add_assign(&mut self, other: Self) {
        self.chars += other.chars;
        self.estimate = self.estimate.saturating_add(other.estimate);
        // A sum without exact counts stays `None`.
        if let Some(tokens) = other.o200k {
            self.o200k = Some(self.o200k.unwrap_or_default().saturating_add(tokens));
        }
    }
}

/// A counter of tokens that caches the counts of equal texts.
pub(super) struct TokenCounter {
    exact: bool,
    known: HashMap<Digest, u32>,
}

impl TokenCounter {
    pub(super) fn new(exact: bool) -> Self {
        Self { exact, known: HashMap::new() }
    }

    pub(super) fn count(&mut self, text: &str) -> TextCost {
        let chars = text.chars().count();
        let o200k = self.exact.then(|| {
            let digest = Digest::compute(text.as_bytes());
            *self.known.entry(digest).or_insert_with(|| skill_tokens::count_o200k(text))
        });
        TextCost { chars: chars as u64, estimate: TokenCount::from_chars(chars).get(), o200k }
    }
}

/// The cost of one skill.
#[derive(Debug, Serialize)]
pub(super) struct SkillCost {
    pub(super) skill_id: String,
    /// The skill's directory.
    pub(super) path: String,
    /// Whether models are not offered the skill; it then costs no tokens until a user loads it.
    pub(super) user_only: bool,
    /// Its line in the catalog.
    pub(super) catalog_line: Option<TextCost>,
    /// Its element of `<available_skills>`, with the path as found.
    pub(super) available_skills: Option<TextCost>,
    /// The result of `read_skill`.
    pub(super) instructions: TextCost,
    /// The file without its frontmatter.
    pub(super) body: TextCost,
    pub(super) resources: Vec<ResourceCost>,
}

/// The cost of a file next to SKILL.md.
#[derive(Debug, Serialize)]
pub(super) struct ResourceCost {
    pub(super) path: String,
    pub(super) size: u64,
    /// `text`, or the reason for a missing count: `binary`, or `too_large` to be served.
    pub(super) content: &'static str,
    #[serde(flatten)]
    pub(super) count: Option<TextCost>,
}

/// Measures a skill; also returns its unreadable files. Fails with a diagnostic if the skill cannot
/// be loaded.
pub(super) fn measure_skill(
    skill: &FoundSkill,
    files: &SkillFiles,
    counter: &mut TokenCounter,
) -> Result<(SkillCost, SkillListing, Vec<FoundProblem>), Diagnostic> {
    let text = skill_format::parse_skill(&skill.dir_name, &files.bytes)
        .map_err(|rejected| first_error(rejected.diagnostics))?;
    let body = text.body().to_owned();
    let frontmatter = text.parsed.frontmatter;
    let frontmatter = frontmatter.ok_or_else(|| first_error(text.parsed.diagnostics))?;
    let listing = SkillListing::new(skill, &frontmatter);
    let mut unreadable = Vec::new();
    let resources = resources(skill, files, counter, &mut unreadable);
    let lines: Vec<ResourceLine<'_>> = resources
        .iter()
        .map(|it| ResourceLine {
            path: &it.path,
            kind: ResourceKind::from_path(&it.path),
            size: it.size,
        })
        .collect();
    let listed_count = lines.len().min(MAX_LISTED);
    let instructions = skill_format::render_instructions(&SkillInstructions {
        id: &listing.id,
        digest: &Digest::compute(&files.bytes),
        tokens: TokenCount::estimate(&body),
        body: &body,
        resources: &lines[..listed_count],
        more_resources: lines.len() - listed_count,
        requires: &frontmatter.requires,
    });
    let offered = !listing.user_only;
    let cost = SkillCost {
        skill_id: listing.id.clone(),
        path: skill.dir.display().to_string(),
        user_only: listing.user_only,
        catalog_line: offered.then(|| counter.count(&catalog_line(&listing))),
        available_skills: offered.then(|| counter.count(&element(&listing))),
        instructions: counter.count(&instructions),
        body: counter.count(&body),
        resources,
    };
    Ok((cost, listing, unreadable))
}

/// Returns the first error among the diagnostics; a skill that cannot be loaded has one.
fn first_error(diagnostics: Vec<Diagnostic>) -> Diagnostic {
    diagnostics
        .into_iter()
        .find(|found| found.severity == Severity::Error)
        .unwrap_or_else(|| Diagnostic::error("file.unreadable", "it cannot be read as a skill"))
}

/// Measures the files next to SKILL.md that `read_skill` lists.
fn resources(
    skill: &FoundSkill,
    files: &SkillFiles,
    counter: &mut TokenCounter,
    unreadable: &mut Vec<FoundProblem>,
) -> Vec<ResourceCost> {
    let own = ["SKILL.md", "skill.md", &*files.file_name];
    let others = files
        .files
        .iter()
        .flatten()
        .filter(|file| file.kind == EntryKind::File && !own.contains(&&*file.path));
    let mut resources = Vec::new();
    for file in others {
        let (content, count) = match skill.read_resource(&file.path) {
            Ok(ResourceContent::Text(text)) => ("text", Some(counter.count(&text))),
            Ok(ResourceContent::Binary) => ("binary", None),
            Ok(ResourceContent::TooLarge) => ("too_large", None),
            Err(problem) => {
                unreadable.push(problem);
                continue;
            }
        };
        resources.push(ResourceCost { path: file.path.clone(), size: file.size, content, count });
    }
    resources
}

/// Renders the skill's line of the catalog without a budget.
fn catalog_line(listing: &SkillListing) -> String {
    let catalog = skill_format::render_catalog(&[listing.catalog_item()], usize::MAX);
    let text = catalog.map(|catalog| catalog.text).unwrap_or_default();
    // The lines of the frame begin otherwise.
    text.lines()
        .find(|line| line.starts_with('•'))
        .map(|line| format!("{line}\n"))
        .unwrap_or_default()
}

/// Renders the skill's element of `<available_skills>`.
fn element(listing: &SkillListing) -> String {
    let block = skill_format::render_available_skills(&[listing.prompt_skill()]);
    let inner = block.strip_prefix("<available_skills>\n").unwrap_or(&block);
    inner.strip_suffix("</available_skills>").unwrap_or(inner).to_owned()
}

#[cfg(test)]
mod tests;
