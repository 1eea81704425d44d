//! Skills: the list and the search.

use axum::http::StatusCode;
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};
use skillhost_payload::OperatorCommand;

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_empty};
use crate::visible_text::{draw_text, format_count, to_line};
use crate::visit::{Visit, redirect_to};

/// The number of listed skills.
const MAX_SKILLS: usize = 100;

/// The structured result of `list_skills`.
#[derive(Deserialize)]
struct SkillList {
    total: u64,
    omitted: u64,
    skills: Vec<SkillRow>,
}

/// A skill in the list. Its texts are untrusted.
#[derive(Deserialize)]
struct SkillRow {
    skill_id: String,
    description: String,
    #[serde(default)]
    tags: Vec<String>,
    tokens: u64,
    source: String,
    trust: String,
    #[serde(default)]
    skill_state: Option<String>,
    #[serde(default)]
    unapproved: Option<Value>,
}

pub(crate) async fn list_skills(visit: Visit) -> PageResult {
    let query = visit.query.get("q").trim();
    let mut arguments = json!({ "limit": MAX_SKILLS });
    if !query.is_empty() {
        arguments["query"] = json!(query);
    }
    let output = visit.call_tool("list_skills", &arguments).await?;
    let list: SkillList = parse_structured(&output)?;
    let body = html! {
        h1 { "Skills" }
        form.filters method="get" action="/skills" role="search" {
            div {
                label for="q" { "Search" }
                input #q type="search" name="q" value=(to_line(query)) autocomplete="off";
            }
            button type="submit" { "Search" }
        }
        div #skills data-live="" {
            p.hint { (list.skills.len()) " of " (format_count(list.total, "skill"))
                @if !query.is_empty() { ", the best first" } }
            @if list.skills.is_empty() { (draw_empty("No skill matches.")) }
            ul.cards {
                @for skill in &list.skills {
                    li {
                        a href=(path_with("/skills/", &skill.skill_id)) {
                            span.title { (draw_text(&skill.skill_id)) }
                        }
                        p { (draw_text(&skill.description)) }
                        p.meta {
                            span { "about " (format_count(skill.tokens, "token")) }
                            span { (draw_text(&skill.source)) }
                            @if skill.trust == "untrusted" { (draw_badge("waiting", "untrusted")) }
                            @if skill.unapproved.is_some() { (draw_badge("waiting", "not approved")) }
                            @if let Some(state) = &skill.skill_state { (draw_badge("plain", state)) }
                            @for tag in &skill.tags { span.tag { (draw_text(tag)) } }
                        }
                    }
                }
            }
            @if list.omitted > 0 { p.hint { (list.omitted) " more: narrow the search." } }
        }
    };
    Ok(visit.page(NavEntry::Skills, "Skills", &body).await)
}

/// Reads the structured result of a tool of the registry.
pub(crate) fn parse_structured<T: for<'a> Deserialize<'a>>(
    output: &skillhost_payload::ToolOutput,
) -> Result<T, ConsoleError> {
    let failed = |message: String| {
        let hint = format!("see: {}", OperatorCommand::CheckExtensions);
        ConsoleError::new(StatusCode::BAD_GATEWAY, message, hint)
    };
    // An error of a tool is a text, with no structured value.
    if output.is_error {
        return Err(failed(output.text.clone()));
    }
    let structured = output.structured.as_ref().map(|value| value.get()).unwrap_or("null");
    serde_json::from_str(structured)
        .map_err(|error| failed(format!("the registry's answer is not valid: {error}")))
}

/// Proposes a change of a skill with the arguments of `propose_skill_update`.
pub(crate) async fn submit_proposal(visit: &Visit, arguments: &Value) -> PageResult {
    let output = visit.call_tool("propose_skill_update", arguments).await?;
    let made: Value = parse_structured(&output)?;
    let proposal = made.get("proposal").and_then(Value::as_str);
    tracing::info!(proposal, "proposal made in the console");
    // The inbox of the next page shall have the proposal.
    visit.kernel().refresh_proposals().await?;
    Ok(redirect_to("/proposals"))
}
