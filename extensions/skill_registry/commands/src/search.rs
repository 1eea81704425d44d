//! `skillhost skill search`: the skills that match a task, without a kernel.

use std::fmt::Write as _;

use serde_json::json;
use skill_catalog::{Audience, Skill, TrustLevel};
use skill_search::{Ranker, RankingExplanation};
use skill_service::{
    ListSkillsArgs, SearchContext, SkillQuery, SkillSearchResult, SkillSearcher, search_skills,
};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, Output, display_safe, exit,
};

use super::home_skills;
use crate::arguments::SearchArgs;

/// The width of the id column; a longer id moves the rest of its line.
const ID_WIDTH: usize = 32;

pub(super) fn cmd_skill_search(session: &CliContext, args: &SearchArgs) -> CommandResult {
    let output = session.output;
    let query = args.query.join(" ");
    if query.trim().is_empty() {
        return Err(CliError::usage("the query is empty")
            .with_hint("say what the skill is for; `skillhost skill list` prints all of them"));
    }
    let store = home_skills::open_store(session, &args.roots)?;
    let snapshot = store.snapshot();
    let searcher = SkillSearcher::new();
    // No background task exists here, and the results must match those of an agent with a warm
    // index.
    searcher.build_index(&store, &snapshot);
    let ranker = Ranker::from(args.ranker);
    let ask = SkillQuery {
        query: &query,
        limit: args.limit,
        tags: &args.tag,
        admits: &|_: &Skill| true,
        ranker: &ranker,
        semantics: None,
    };
    if output.json {
        let list = ListSkillsArgs {
            query: Some(query.clone()),
            limit: Some(args.limit),
            tags: Some(args.tag.clone()),
        };
        let search = SearchContext {
            store: &store,
            snapshot: &snapshot,
            searcher: &searcher,
            ranker: &ranker,
            semantics: None,
        };
        let mut object = search_skills(&search, Audience::Operator, &list).structured;
        object["ranker"] = json!(ranker.name());
        if args.explain {
            object["explanation"] = json!(searcher.explain(&store, &snapshot, &ask));
        }
        output.print_json(&object)?;
        return Ok(exit::OK);
    }
    let found = searcher.search_filtered(&store, &snapshot, &ask);
    for filter in &found.unmet {
        output.print_note(format!("no skill has {filter}: searched without it"));
    }
    print(output, &found)?;
    if args.explain
        && let Some(explanation) = searcher.explain(&store, &snapshot, &ask)
    {
        explain(output, &explanation)?;
    }
    let (total, matched) = (snapshot.skills().len(), found.ranked.matched);
    if matched == 0 && total > 0 {
        output.print_note(format!("none of {total} skills matches"));
    }
    if matched > found.ranked.hits.len() {
        let more = matched - found.ranked.hits.len();
        output.print_note(format!("{more} more; --limit shows them"));
    }
    home_skills::print_problems(output, &snapshot);
    Ok(exit::OK)
}

fn print(output: Output, found: &SkillSearchResult) -> Result<(), CliError> {
    let hits = &found.ranked.hits;
    let width = hits.iter().map(|hit| hit.skill.id().as_str().chars().count()).max();
    let width = width.unwrap_or_default().min(ID_WIDTH);
    for hit in hits {
        let id = display_safe(hit.skill.id().as_str());
        let gap = " ".repeat(width.saturating_sub(id.chars().count()));
        let description = skill_format::shorten_description(hit.skill.description());
        let mut line = format!("{BOLD}{id}{BOLD:#}{gap}  {:>6.2}  {description}", hit.score);
        let mut notes = hit.fields.clone();
        if hit.skill.trust() == TrustLevel::Untrusted {
            notes.push("untrusted");
        }
        if !notes.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(line, " {DIM}[{}]{DIM:#}", notes.join(", "));
        }
        output.print_line(line)?;
    }
    Ok(())
}

/// Prints the parts of the scores.
fn explain(output: Output, explanation: &RankingExplanation) -> Result<(), CliError> {
    output.print_line("")?;
    output.print_line(format!(
        "{BOLD}ranker {}{BOLD:#}, {} candidates",
        explanation.ranker, explanation.candidates
    ))?;
    let rows: Vec<Vec<String>> = explanation
        .terms
        .iter()
        .map(|term| {
            let (count, skills) = (term.count.to_string(), term.skills.to_string());
            vec![term.term.clone(), count, skills, format!("{:.4}", term.weight)]
        })
        .collect();
    output.print_table(&["term", "in query", "in skills", "weight"], &rows)?;
    for hit in &explanation.hits {
        output.print_line("")?;
        output.print_line(format!("{BOLD}{}{BOLD:#}  {:.4}", display_safe(&hit.id), hit.score))?;
        let matched: Vec<String> = hit
            .matched
            .iter()
            .map(|term| format!("{} ({})", term.term, term.fields.names().join(", ")))
            .collect();
        if !matched.is_empty() {
            output.print_line(format!("{DIM}{}{DIM:#}", display_safe(&matched.join("; "))))?;
        }
        // A zero contribution explains no score.
        let contributing = hit.contributions.iter().filter(|part| part.value != 0.0);
        let rows: Vec<Vec<String>> = contributing
            .map(|part| {
                let number = |value: f64| format!("{value:.4}");
                vec![
                    part.feature.clone(),
                    number(part.value),
                    number(part.weight),
                    number(part.contribution),
                ]
            })
            .collect();
        output.print_table(&["feature", "value", "weight", "contribution"], &rows)?;
    }
    Ok(())
}
