//! Says why a block is as it is.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::json;
use skill_format::{RenderReport, sanitize_line};

use crate::options::Trust;
use crate::search::{Ranked, RankedSkill};
use crate::snapshot::Snapshot;
use crate::state::{SkillState, Unmatched};
use crate::tools::Answer;

use super::{Blocks, Picked, Search, Turn};

/// How many matches the text names; the value has all of them.
const NAMED: usize = 10;

/// Why a skill has no line in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
enum Absent {
    /// The settings say `off`.
    Off,
    /// It is for users only.
    UserOnly,
    /// The agent's catalog does not have it.
    Scope,
    /// There is no room for it, or nothing in the prompt asks for it.
    Budget,
}

impl Absent {
    fn told(self) -> &'static str {
        match self {
            Self::Off => "off in the settings",
            Self::UserOnly => "for users only",
            Self::Scope => "outside the agent's catalog",
            Self::Budget => "not picked: the budget is used up",
        }
    }
}

/// A skill and its place in the block.
#[derive(Debug, Serialize)]
struct Explained<'s> {
    skill_id: &'s str,
    state: SkillState,
    trust: Trust,
    bound: bool,
    /// Whether the agent is shown it at all.
    visible: bool,
    /// Whether it has a line.
    in_block: bool,
    absent: Option<Absent>,
    /// Its place among the matches, from 1.
    rank: Option<usize>,
    score: Option<f64>,
    matched: &'s [&'static str],
}

/// Explains the block that an agent's first turn with a prompt gets: which skills the agent sees
/// and why not, what the block cut, and how well each skill fits.
#[must_use]
pub fn explain_catalog(
    blocks: &Blocks,
    snapshot: &Snapshot,
    turn: &Turn<'_>,
    search: Search<'_>,
) -> Answer {
    let view = snapshot.view(turn.scope);
    let picked = Picked::new(snapshot, view, &[], search);
    let full = view.catalog(snapshot, turn.budget_chars);
    let full = full.filter(|catalog| blocks.lists_all(view, catalog));
    let lists_all = full.is_some();
    let (report, ids): (Option<RenderReport>, Vec<String>) = match full {
        Some(catalog) => {
            let listed = view.skills(snapshot).take(catalog.report.listed);
            (Some(catalog.report), listed.map(|skill| skill.id().to_string()).collect())
        }
        None => picked
            .render(snapshot, view, None, turn.budget_chars)
            .map_or_else(Default::default, |made| {
                (Some(made.catalog.report), made.shown.ids().map(str::to_owned).collect())
            }),
    };
    let ranks: HashMap<&str, (usize, &RankedSkill)> = picked
        .found
        .hits
        .iter()
        .enumerate()
        .map(|(at, found)| (found.skill.id().as_str(), (at + 1, found)))
        .collect();
    let skills: Vec<Explained<'_>> = snapshot
        .skills()
        .iter()
        .map(|skill| {
            let id = skill.id().as_str();
            let (state, visible) = (snapshot.state(skill), view.lists(snapshot, skill));
            let in_block = ids.iter().any(|listed| listed == id);
            let rank = ranks.get(id);
            Explained {
                skill_id: id,
                state,
                trust: skill.trust(),
                bound: view.binds(snapshot, skill),
                visible,
                in_block,
                absent: match state {
                    _ if in_block => None,
                    SkillState::Off => Some(Absent::Off),
                    SkillState::UserOnly => Some(Absent::UserOnly),
                    _ if !visible => Some(Absent::Scope),
                    _ => Some(Absent::Budget),
                },
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
        "ranked_by": picked.found.by.as_str(),
        "skills": skills,
        "unmatched_globs": globs,
        "unmatched_settings": settings,
    });
    let text = told(&skills, report, lists_all, &picked.found, &globs, &settings);
    Answer { text, structured, read: None }
}

fn told(
    skills: &[Explained<'_>],
    report: Option<RenderReport>,
    lists_all: bool,
    found: &Ranked,
    globs: &[Unmatched],
    settings: &[Unmatched],
) -> String {
    let visible = skills.iter().filter(|skill| skill.visible).count();
    let mut text = format!("{visible} of {} skills visible", skills.len());
    match report {
        None => text.push_str("; there is no block\n"),
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
        let caution = found.by.caution().map(|it| format!(" ({it})")).unwrap_or_default();
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
    for absent in [Absent::Off, Absent::UserOnly, Absent::Scope, Absent::Budget] {
        let of: Vec<&Explained<'_>> =
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
        text.push_str(&format!("\n{} {}: {}{more}", of.len(), absent.told(), named.join(", ")));
    }
    for skill in skills.iter().filter(|skill| skill.in_block && skill.trust == Trust::Untrusted) {
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
