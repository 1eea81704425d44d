//! The explanation of a block.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;
use skill_catalog::{SkillState, Snapshot, TrustLevel, UnmatchedPattern};
use skill_format::{RenderReport, sanitize_line};

use super::{BlockRequest, CatalogBlocks, FirstBlock, MatchFn};
use crate::search::{RankedSkill, RankedSkills};
use crate::tools::ToolAnswer;

/// The limit on the matches in the text; the value has all of them.
const NAMED: usize = 10;

/// The reason why a skill has no line in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
enum OmissionReason {
    /// Its state is `off`.
    Off,
    /// It is offered to users only.
    UserOnly,
    /// The agent's catalog does not have it.
    Scope,
    /// The agent lacks a tool that it requires.
    Ineligible,
    /// The budget is exhausted, or the prompt does not match it.
    Budget,
}

impl OmissionReason {
    fn describe(self) -> &'static str {
        match self {
            Self::Off => "off in the settings",
            Self::UserOnly => "for users only",
            Self::Scope => "outside the agent's catalog",
            Self::Ineligible => "not eligible",
            Self::Budget => "not picked: the budget is used up",
        }
    }
}

/// A skill and its position in the block.
#[derive(Debug, Serialize)]
struct ExplainedSkill<'s> {
    skill_id: &'s str,
    state: SkillState,
    trust: TrustLevel,
    bound: bool,
    /// `true` if the agent sees it.
    visible: bool,
    /// `true` if it has a line.
    in_block: bool,
    absent: Option<OmissionReason>,
    /// The missing requirement.
    #[serde(skip_serializing_if = "Option::is_none")]
    ineligible: Option<&'s str>,
    /// The rank among the matches, from 1.
    rank: Option<usize>,
    score: Option<f64>,
    matched: &'s [&'static str],
}

/// Explains the block of an agent's first turn with a prompt: the skills that the agent sees, the
/// reasons for the others, the cuts of the block, and the score of each skill.
#[must_use]
pub fn explain_catalog(
    blocks: &CatalogBlocks,
    snapshot: &Snapshot,
    turn: &BlockRequest<'_>,
    search: MatchFn<'_>,
) -> ToolAnswer {
    let view = snapshot.view(turn.scope);
    let block = blocks.first_block(snapshot, turn, search);
    let FirstBlock { report, ids, lists_all, found, .. } = &block;
    let ranks: HashMap<&str, (usize, &RankedSkill)> = found
        .hits
        .iter()
        .enumerate()
        .map(|(at, found)| (found.skill.id().as_str(), (at + 1, found)))
        .collect();
    let skills: Vec<ExplainedSkill<'_>> = snapshot
        .skills()
        .iter()
        .map(|skill| {
            let id = skill.id().as_str();
            let (state, visible) = (snapshot.state(skill), view.is_listed(snapshot, skill));
            let in_block = ids.iter().any(|listed| listed == id);
            let rank = ranks.get(id);
            // A skill outside of the catalog is missing for that reason first.
            let is_in_scope = view.contains(snapshot, skill);
            let ineligible = view.hidden_reason(skill).filter(|_| is_in_scope);
            ExplainedSkill {
                skill_id: id,
                state,
                trust: skill.trust(),
                bound: view.is_bound(snapshot, skill),
                visible,
                in_block,
                // The first reason that applies is the one to remove first.
                // The most specific reason first: a skill that is off is not visible either.
                absent: match state {
                    _ if in_block => None,
                    SkillState::Off => Some(OmissionReason::Off),
                    SkillState::UserOnly => Some(OmissionReason::UserOnly),
                    _ if ineligible.is_some() => Some(OmissionReason::Ineligible),
                    _ if !visible => Some(OmissionReason::Scope),
                    _ => Some(OmissionReason::Budget),
                },
                ineligible,
                rank: rank.map(|(rank, _)| *rank),
                score: rank.map(|(_, found)| found.score),
                matched: rank.map_or(&[], |(_, found)| &found.fields),
            }
        })
        .collect();
    let (globs, settings) = (view.unmatched(snapshot), snapshot.unmatched_settings());
    let structured = json!({
        "generation": snapshot.generation(),
        "agent": turn.agent_id,
        "visible": view.listed().len(),
        "full_limit": blocks.full_limit,
        "lists_all": lists_all,
        "block": report,
        "order": ids,
        "ranked_by": found.by.as_str(),
        "skills": skills,
        "unmatched_globs": globs,
        "unmatched_settings": settings,
    });
    let text = render_explanation(&skills, *report, *lists_all, found, &globs, &settings);
    ToolAnswer { text, structured, read: None }
}

fn render_explanation(
    skills: &[ExplainedSkill<'_>],
    report: Option<RenderReport>,
    lists_all: bool,
    found: &RankedSkills,
    globs: &[UnmatchedPattern],
    settings: &[UnmatchedPattern],
) -> String {
    let visible = skills.iter().filter(|skill| skill.visible).count();
    let mut text = format!("{visible} of {} skills visible", skills.len());
    match report {
        None => text.push_str("; no block\n"),
        Some(report) => {
            let how = if lists_all { "all of them are listed" } else { "picked for the prompt" };
            text.push_str(&format!(
                "; {how}\nblock: {} of {} characters, {} skills: {} with a shortened description, \
                 {} without, {} left out\n",
                report.chars,
                report.budget,
                report.listed,
                report.shortened,
                report.without_description,
                report.omitted
            ));
        }
    }
    if !found.hits.is_empty() {
        let caution = found.by.quality_warning().map(|it| format!(" ({it})")).unwrap_or_default();
        text.push_str(&format!("\nbest matches{caution}:\n"));
    }
    let is_in = |id: &str| skills.iter().any(|skill| skill.skill_id == id && skill.in_block);
    for (at, found) in found.hits.iter().take(NAMED).enumerate() {
        let id = found.skill.id().as_str();
        let place = if is_in(id) { "in the block" } else { "not in the block" };
        text.push_str(&format!(
            "{:>3}. {} {:.3} ({}; {place})\n",
            at + 1,
            sanitize_line(id),
            found.score,
            found.fields.join(", ")
        ));
    }
    for skill in skills {
        if let Some(reason) = skill.ineligible {
            text.push_str(&format!("\nnot eligible: {}: {reason}", sanitize_line(skill.skill_id)));
        }
    }
    for absent in [
        OmissionReason::Off,
        OmissionReason::UserOnly,
        OmissionReason::Scope,
        OmissionReason::Budget,
    ] {
        let of: Vec<&ExplainedSkill<'_>> =
            skills.iter().filter(|skill| skill.absent == Some(absent)).collect();
        if of.is_empty() {
            continue;
        }
        let named: Vec<String> =
            of.iter().take(NAMED).map(|skill| sanitize_line(skill.skill_id)).collect();
        let more = match of.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!("\n{} {}: {}{more}", of.len(), absent.describe(), named.join(", ")));
    }
    for skill in
        skills.iter().filter(|skill| skill.in_block && skill.trust == TrustLevel::Untrusted)
    {
        let id = sanitize_line(skill.skill_id);
        text.push_str(&format!("\nuntrusted: {id} is listed with its origin and grants nothing"));
    }
    for (what, unmatched) in [("catalog", globs), ("skills in the settings", settings)] {
        for pattern in unmatched {
            let shown = sanitize_line(&pattern.pattern);
            text.push_str(&format!("\nno effect: `{shown}` of {what}: {}", pattern.reason));
        }
    }
    text.truncate(text.trim_end().len());
    text
}
