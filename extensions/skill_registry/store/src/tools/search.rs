//! `list_skills` with a query.

use std::sync::Arc;

use serde_json::json;
use skill_format::sanitize_line;
use skill_search::{EmbeddingSimilarity, Ranker};

use crate::scope::Audience;
use crate::search::{RankedSkills, SkillQuery, SkillSearchResult, SkillSearcher};
use crate::skill::Skill;
use crate::snapshot::Snapshot;
use crate::store::Store;

use super::list::{SkillLine, has_query, list_skills};
use super::{ListSkillsArgs, ToolAnswer};

/// How many skills are answered unless the caller says otherwise.
const DEFAULT_LIMIT: usize = 10;

/// So much of a filter is quoted to whoever wrote it, in characters.
const QUOTED: usize = 60;

/// What a search needs beside its arguments.
#[derive(Clone, Copy)]
pub struct SearchContext<'a> {
    /// Where texts are read.
    pub store: &'a Store,
    /// What is searched; the answer is of this state alone.
    pub snapshot: &'a Arc<Snapshot>,
    /// Who searches.
    pub searcher: &'a SkillSearcher,
    /// What makes a skill fit.
    pub ranker: &'a Ranker,
    /// How near the skills are to the query, where an embedding model is at hand.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

/// Lists the skills an audience is shown that fit a query, the best first; without a query, as
/// [`list_skills`] does.
///
/// Phrases (`"…"`) and beginnings of words (`word*`) in the query are insisted on.
#[must_use]
pub fn search_skills(
    search: &SearchContext<'_>,
    audience: Audience<'_>,
    args: &ListSkillsArgs,
) -> ToolAnswer {
    let SearchContext { store, snapshot, searcher, ranker, semantics } = *search;
    let Some(query) = args.query.as_deref().filter(|_| has_query(args)) else {
        return list_skills(snapshot, audience, args);
    };
    let ask = SkillQuery {
        query,
        limit: args.limit.unwrap_or(DEFAULT_LIMIT),
        tags: args.tags.as_deref().unwrap_or_default(),
        admits: &|skill: &Skill| snapshot.is_shown(audience, skill),
        ranker,
        semantics,
    };
    answer(snapshot, audience, &searcher.search_filtered(store, snapshot, &ask))
}

fn answer(snapshot: &Snapshot, audience: Audience<'_>, found: &SkillSearchResult) -> ToolAnswer {
    let RankedSkills { hits, matched, by } = &found.ranked;
    let total = snapshot.visible(audience).count();
    let mut text = heading(*matched, total);
    text.push('\n');
    if !found.unmet.is_empty() {
        let quoted =
            |filter: &String| -> String { sanitize_line(filter).chars().take(QUOTED).collect() };
        let unmet: Vec<String> = found.unmet.iter().map(quoted).collect();
        text.push_str(&format!("(no skill has {}: searched without it)\n", unmet.join(" and ")));
    }
    let mut listed = Vec::new();
    for hit in hits {
        let line = SkillLine::from_skill(snapshot, &hit.skill);
        let fields = hit.fields.join(", ");
        let found_in = if fields.is_empty() { String::new() } else { format!(" in {fields}") };
        line.write(&mut text, &format!("; score {:.2}{found_in}", hit.score));
        let mut value = line.value();
        value["score"] = json!(hit.score);
        value["matched"] = json!(hit.fields);
        listed.push(value);
    }
    let omitted = matched - listed.len();
    if omitted > 0 {
        text.push_str(&format!("({omitted} more: say more of the task or raise the limit)\n"));
    }
    let caution = by.quality_warning();
    if let Some(caution) = caution {
        text.push_str(&format!("({caution})\n"));
    }
    let mut structured = json!({
        "generation": snapshot.generation(),
        "total": total,
        "matched": matched,
        "omitted": omitted,
        "ranked_by": by.as_str(),
        "unmet": found.unmet,
        "skills": listed,
    });
    if let Some(caution) = caution {
        structured["caution"] = json!(caution);
    }
    if let Some(partial) = snapshot.partial() {
        structured["partial"] = json!(partial);
        text.push_str("(skills may be missing: a directory could not be searched)\n");
    }
    text.truncate(text.trim_end().len());
    ToolAnswer { text, structured, read: None }
}

fn heading(matched: usize, total: usize) -> String {
    match (matched, total) {
        (_, 0) => "There are no skills.".to_owned(),
        (0, _) => format!("None of the {total} skills matches."),
        (1, _) => format!("1 of {total} skills matches"),
        _ => format!("{matched} of {total} skills match, the best first"),
    }
}
