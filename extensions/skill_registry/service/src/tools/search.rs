//! `list_skills` with a query: a ranking of the skills.

use std::sync::Arc;

use serde_json::json;
use skill_catalog::{Audience, Skill, Snapshot, Store};
use skill_format::sanitize_line;
use skill_search::{EmbeddingSimilarity, Ranker};

use super::list::{SkillLine, has_query, list_skills};
use super::{ListSkillsArgs, ToolAnswer};
use crate::search::{RankedSkills, SkillQuery, SkillSearchResult, SkillSearcher};

/// The maximum number of results if the caller sets no limit.
const DEFAULT_LIMIT: usize = 10;

/// The maximum length of a quoted filter, in characters.
const MAX_QUOTED: usize = 60;

/// The context of a search, in addition to its arguments.
#[derive(Clone, Copy)]
pub struct SearchContext<'a> {
    /// The store that provides the texts.
    pub store: &'a Store,
    /// The searched snapshot; the results refer to this state alone.
    pub snapshot: &'a Arc<Snapshot>,
    /// The searcher.
    pub searcher: &'a SkillSearcher,
    /// The ranking.
    pub ranker: &'a Ranker,
    /// The similarity of the skills to the query, if an embedding model is available.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

/// Lists the visible skills that fit a query, the best first; without a query, behaves like
/// [`list_skills`].
///
/// Phrases (`"…"`) and prefixes (`word*`) in the query are required, unless no skill has them.
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
    let query = SkillQuery {
        query,
        limit: args.limit.unwrap_or(DEFAULT_LIMIT),
        tags: args.tags.as_deref().unwrap_or_default(),
        admits: &|skill: &Skill| snapshot.is_shown(audience, skill),
        ranker,
        semantics,
    };
    to_tool_answer(snapshot, audience, &searcher.search_filtered(store, snapshot, &query))
}

fn to_tool_answer(
    snapshot: &Snapshot,
    audience: Audience<'_>,
    found: &SkillSearchResult,
) -> ToolAnswer {
    let RankedSkills { hits, matched, by } = &found.ranked;
    let total = snapshot.visible(audience).count();
    let mut text = heading(*matched, total);
    text.push('\n');
    if !found.unmet.is_empty() {
        // The query comes from a model and may be long or have control characters.
        let quoted = |filter: &String| -> String {
            sanitize_line(filter).chars().take(MAX_QUOTED).collect()
        };
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
        text.push_str(&format!(
            "({omitted} more: describe the task in more detail or raise the limit)\n"
        ));
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
        (_, 0) => "No skills found.".to_owned(),
        (0, _) => format!("None of the {total} skills matches."),
        (1, _) => format!("1 of {total} skills matches"),
        _ => format!("{matched} of {total} skills match, the best first"),
    }
}
