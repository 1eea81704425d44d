//! A skill: its text, files and findings.

use axum::extract::Path;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use skill_format::{Severity, SkillInput};
use skill_rules::{CheckOptions, CheckReport, CheckScope, check_skill};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::{path_with, path_with_query};
use crate::layout::{NavEntry, draw_badge, draw_empty, draw_facts};
use crate::markdown_view::draw_markdown;
use crate::pages::skill_versions::draw_versions;
use crate::pages::skills::parse_structured;
use crate::visible_text::{draw_error_text, draw_text, format_count};
use crate::visit::{Visit, run_blocking};

/// The file with the instructions of a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// The number of pages of a file that are read, of 64 KiB each.
const MAX_PAGES: usize = 16;

/// The structured result of `read_skill`.
#[derive(Deserialize)]
struct SkillFacts {
    digest: String,
    tokens: u64,
    source: String,
    trust: String,
    #[serde(default)]
    requires: Vec<String>,
    #[serde(default)]
    resources: Vec<SkillResource>,
    #[serde(default)]
    more_resources: usize,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct SkillResource {
    path: String,
    kind: String,
    size: u64,
}

/// A page of a file, the structured result of `read_skill_resource`.
#[derive(Deserialize)]
struct SkillFileText {
    encoding: String,
    content: String,
    next_offset: Option<u64>,
}

/// A file of a skill.
pub(crate) enum SkillFile {
    Text(String),
    Binary,
    /// The file is longer than a page of the console shows.
    TooLong,
}

/// Reads a file of a skill.
pub(crate) async fn read_file(
    visit: &Visit,
    skill: &str,
    path: &str,
) -> Result<SkillFile, ConsoleError> {
    let (mut text, mut offset) = (String::new(), 0);
    // A file may grow while it is read, so the pages are counted.
    for _ in 0..MAX_PAGES {
        let arguments = json!({ "skill_id": skill, "path": path, "offset": offset });
        let output = visit.call_tool("read_skill_resource", &arguments).await?;
        let page: SkillFileText = parse_structured(&output)?;
        // The registry decides what is text, as for agents.
        if page.encoding != "utf-8" {
            return Ok(SkillFile::Binary);
        }
        text.push_str(&page.content);
        match page.next_offset {
            Some(next) => offset = next,
            None => return Ok(SkillFile::Text(text)),
        }
    }
    Ok(SkillFile::TooLong)
}

pub(crate) async fn show_skill(visit: Visit, Path(id): Path<String>) -> PageResult {
    let output = visit.call_tool("read_skill", &json!({ "skill_id": id })).await;
    // The hint of the tool names another tool, for agents.
    let output = output
        .map_err(|error| error.with_hint_if_not_found("look for it in the list of skills"))?;
    let facts: SkillFacts = parse_structured(&output)?;
    let path = visit.query.filled("file").unwrap_or(SKILL_FILE).to_owned();
    let file = read_file(&visit, &id, &path).await?;
    let findings = match &file {
        // The rules are about the whole skill, whose text is this file.
        SkillFile::Text(text) if path == SKILL_FILE => Some(check_text(&id, text).await?),
        _ => None,
    };
    // Its error is drawn in its section: the text is of use without the ledger.
    let versions = visit.kernel().list_skill_versions(&id).await;
    let here = path_with("/skills/", &id);
    let edit = path_with_query(&format!("{here}/edit"), &[("file", &path)]);
    let body = html! {
        p.crumbs { a href="/skills" { "Skills" } }
        h1 { (draw_text(&id)) }
        (draw_facts(&[
            ("Source", draw_text(&facts.source)),
            ("Trust", draw_text(&facts.trust)),
            ("Size", html! { "about " (format_count(facts.tokens, "token")) }),
            ("Requires", html! {
                @if facts.requires.is_empty() { "no other skill" }
                @for skill in &facts.requires { a href=(path_with("/skills/", skill)) { (draw_text(skill)) } " " }
            }),
            ("Digest", html! { code.digest { (facts.digest) } }),
        ]))
        @for note in &facts.notes { p.warning { (draw_text(note)) } }
        @if let Some(report) = &findings { (draw_findings(report)) }
        section {
            h2 { "Files" }
            ul.files {
                li { (draw_file_link(&here, SKILL_FILE, &path)) }
                @for resource in &facts.resources {
                    li {
                        (draw_file_link(&here, &resource.path, &path))
                        " " span.hint { (draw_text(&resource.kind)) ", " (format_count(resource.size, "byte")) }
                    }
                }
            }
            @if facts.more_resources > 0 { p.hint { "and " (facts.more_resources) " more" } }
        }
        section {
            h2 { (draw_text(&path)) }
            @match &file {
                SkillFile::Binary => p { "This file is not a text." },
                SkillFile::TooLong => p { "This file is too long for the console." },
                SkillFile::Text(text) => {
                    p { a.button href=(edit) { "Propose a change" } }
                    // Drawn for reading; the exact text is below, as that is what agents get.
                    @if path.ends_with(".md") {
                        div.document {
                        @let (header, instructions) = split_frontmatter(text);
                        @if !header.is_empty() { pre.code tabindex="0" { (draw_text(header)) } }
                        (draw_markdown(instructions))
                        }
                        details { summary { "As text" } pre.code tabindex="0" { (draw_text(text)) } }
                    } @else {
                        pre.code tabindex="0" { (draw_text(text)) }
                    }
                }
            }
        }
        (draw_versions(&here, &versions))
    };
    Ok(visit.page(NavEntry::Skills, &id, &body).await)
}

fn draw_file_link(here: &str, path: &str, shown: &str) -> Markup {
    let target = path_with_query(here, &[("file", path)]);
    html! { a href=(target) aria-current=[(path == shown).then_some("true")] { (draw_text(path)) } }
}

/// Splits a text after its frontmatter, for display only.
fn split_frontmatter(text: &str) -> (&str, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return ("", text) };
    match rest.find("\n---\n") {
        Some(end) => (&rest[..end], &rest[end + 5..]),
        None => ("", text),
    }
}

/// Checks the text of a skill, as `skill lint` does with the default rules.
async fn check_text(id: &str, text: &str) -> Result<CheckReport, ConsoleError> {
    let directory = id.rsplit(['/', ':']).next().unwrap_or(id).to_owned();
    let bytes = text.as_bytes().to_vec();
    run_blocking(move || {
        let file_name = Some(SKILL_FILE);
        let input = SkillInput { dir_name: &directory, file_name, bytes: &bytes, files: None };
        check_skill(&input, CheckOptions { scope: CheckScope::Lint, ..CheckOptions::default() })
    })
    .await
}

fn draw_findings(report: &CheckReport) -> Markup {
    html! {
        section {
            h2 { "Findings" }
            @if report.findings.is_empty() { (draw_empty("The checks have found no problem.")) }
            @else {
                ul.problems {
                    @for finding in &report.findings {
                        @let diagnostic = &finding.diagnostic;
                        li {
                            @match diagnostic.severity {
                                Severity::Error => (draw_badge("error", "error")),
                                _ => (draw_badge("waiting", "warning")),
                            }
                            " " code { (diagnostic.rule) } " " (draw_error_text(&diagnostic.message))
                        }
                    }
                }
            }
        }
    }
}
