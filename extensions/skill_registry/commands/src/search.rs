//! `skillhost skill search`: the skills that match a task, without a kernel.

use std::fmt::Write as _;

use serde_json::json;
use skill_catalog::{Audience, Skill, TrustLevel};
use skill_search::{ExplainedHit, QueryTerm, Ranker, RankingExplanation};
use skill_service::{
    ListSkillsArgs, SearchContext, SkillQuery, SkillSearchResult, SkillSearcher, search_skills,
};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, Output, TableColumn, display_safe, exit,
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
    let store = home_skills::open_readable_store(session, &args.roots)?;
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
        explain(output, &found, &explanation, snapshot.skills().len())?;
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
        output.print_wrapped(&line, width + 10)?;
    }
    Ok(())
}

/// Prints a sentence for each skill, then the parts of the scores.
fn explain(
    output: Output,
    found: &SkillSearchResult,
    explanation: &RankingExplanation,
    skills: usize,
) -> Result<(), CliError> {
    output.print_line("")?;
    for hit in &explanation.hits {
        output.print_wrapped(&display_safe(&explain_hit(hit, &explanation.terms, skills)), 2)?;
    }
    if found.ranked.hits.is_empty() {
        output.print_line("No word of the query occurs in a skill.")?;
    }
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
    output.print_table(
        &[
            TableColumn::fixed("term"),
            TableColumn::fixed("in query"),
            TableColumn::fixed("in skills"),
            TableColumn::fixed("weight"),
        ],
        &rows,
    )?;
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
        output.print_table(
            &[
                TableColumn::fixed("feature"),
                TableColumn::fixed("value"),
                TableColumn::fixed("weight"),
                TableColumn::fixed("contribution"),
            ],
            &rows,
        )?;
    }
    Ok(())
}

/// Returns a sentence that gives the reasons for the rank of a hit among `skills` skills.
fn explain_hit(hit: &ExplainedHit, terms: &[QueryTerm], skills: usize) -> String {
    let words: Vec<String> = hit
        .matched
        .iter()
        .map(|term| format!("\"{}\" in its {}", term.term, join_words(&term.fields.names())))
        .collect();
    if words.is_empty() {
        return format!("{} has no word of the query itself.", hit.id);
    }
    let has = format!("{} has {}", hit.id, words.join(", "));
    let mut matched: Vec<&QueryTerm> =
        terms.iter().filter(|term| hit.matched.iter().any(|it| it.term == term.term)).collect();
    matched.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    match matched.as_slice() {
        [rarest, next, ..] if rarest.weight > next.weight => format!(
            "{has}; \"{}\" counts most, as only {} of {skills} skills have it.",
            rarest.term, rarest.skills
        ),
        _ => format!("{has}."),
    }
}

/// Joins words with commas and an "and".
fn join_words(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
