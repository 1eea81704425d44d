//! `skillhost skill stats`.

mod advice;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::json;
use skill_catalog::Audience;
use skill_ledger::{SkillStats, SkillUsage, UsageCounts, unknown_skill_for, utc_day};
use skill_test_command::open_harness;
use skill_testing::{RoutingSetup, advise_usage, load_installed_cases, test_all_routing};
use skillhost_payload::format_minute;
use skillhost_terminal::{CliContext, CliError, CommandResult, TableColumn, exit};

use super::home_skills;
use super::review_context::ReviewContext;
use super::test::open_test_home;
use super::wording::registry_error;
use crate::arguments::StatsArgs;

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The number of days that advice looks at.
const ADVICE_DAYS: u32 = 90;

/// The reads of a skill by all callers, and the offers to agents.
#[derive(Serialize)]
struct SkillRow {
    #[serde(flatten)]
    stats: SkillStats,
    offered: u64,
    surfaced: u64,
    scripts: u64,
    bounced: u64,
}

pub(super) fn cmd_skill_stats(session: &CliContext, args: &StatsArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    if args.advice {
        return print_advice(session, &context, args);
    }
    if let Some(skill) = &args.skill {
        return print_agents(session, &context, &resolve_skill(&context, skill)?, args.days);
    }
    // Whole days, as the counts of offers are.
    let since_ms = args.days.map(|days| utc_day(days_ago(days)) * DAY_MS);
    let reads = context.with_ledger(|ledger, _| ledger.stats(since_ms))?;
    let usage = context.with_ledger(|ledger, _| ledger.skill_usage(since_ms.map(utc_day)))?;
    let skills = merge(reads, usage);
    if session.output.json {
        session.output.print_json(&json!({ "since_ms": since_ms, "skills": skills }))?;
        return Ok(exit::OK);
    }
    if skills.is_empty() {
        session.output.print_note("no skill was offered or read");
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = skills
        .iter()
        .map(|SkillRow { stats, offered, surfaced, scripts, bounced }| {
            let last = stats.last_ms;
            vec![
                stats.skill_id.clone(),
                offered.to_string(),
                surfaced.to_string(),
                stats.reads.to_string(),
                stats.resource_reads.to_string(),
                scripts.to_string(),
                bounced.to_string(),
                stats.agents.to_string(),
                stats.sessions.to_string(),
                stats.tokens.to_string(),
                if last == 0 { "-".to_owned() } else { format_minute(last) },
            ]
        })
        .collect();
    let columns = [
        TableColumn::fixed("skill"),
        TableColumn::fixed("offered"),
        TableColumn::fixed("surfaced").with_rank(6),
        TableColumn::fixed("reads"),
        TableColumn::fixed("files").with_rank(4),
        TableColumn::fixed("scripts").with_rank(8),
        TableColumn::fixed("bounced").with_rank(5),
        TableColumn::fixed("agents").with_rank(3),
        TableColumn::fixed("sessions").with_rank(2),
        TableColumn::fixed("tokens").with_rank(7),
        TableColumn::fixed("last read (UTC)").with_rank(1),
    ];
    session.output.print_table(&columns, &rows)?;
    Ok(exit::OK)
}

/// Joins the statistics by skill: the most read skills first, then the most offered ones.
fn merge(reads: Vec<SkillStats>, usage: Vec<SkillUsage>) -> Vec<SkillRow> {
    let mut rows: BTreeMap<String, SkillRow> = BTreeMap::new();
    let row = |stats| SkillRow { stats, offered: 0, surfaced: 0, scripts: 0, bounced: 0 };
    rows.extend(reads.into_iter().map(|stats| (stats.skill_id.clone(), row(stats))));
    for SkillUsage { skill_id, counts, .. } in usage {
        let entry = rows.entry(skill_id.clone());
        let entry = entry.or_insert_with(|| row(SkillStats { skill_id, ..SkillStats::default() }));
        (entry.offered, entry.surfaced) = (counts.offered, counts.surfaced);
        (entry.scripts, entry.bounced) = (counts.scripts, counts.bounced);
    }
    let mut rows: Vec<SkillRow> = rows.into_values().collect();
    // Stable: ids decide last.
    rows.sort_by_key(|row| std::cmp::Reverse((row.stats.reads, row.offered)));
    rows
}

fn print_agents(
    session: &CliContext,
    context: &ReviewContext,
    skill_id: &str,
    days: Option<u32>,
) -> CommandResult {
    let since_day = days.map(|days| utc_day(days_ago(days)));
    let days = context.with_ledger(|ledger, _| ledger.usage_days(skill_id, since_day))?;
    if session.output.json {
        session
            .output
            .print_json(&json!({ "skill_id": skill_id, "since_day": since_day, "days": days }))?;
        return Ok(exit::OK);
    }
    let mut agents: BTreeMap<&str, UsageCounts> = BTreeMap::new();
    for day in &days {
        agents.entry(&day.agent_id).or_default().add(&day.counts);
    }
    if agents.is_empty() {
        session.output.print_note(format!("`{skill_id}` was neither offered nor read"));
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = agents
        .into_iter()
        .map(|(agent, counts)| {
            let UsageCounts { offered, surfaced, reads, resource_reads, scripts, bounced } = counts;
            let counts = [offered, surfaced, reads, resource_reads, scripts, bounced];
            let agent = if agent.is_empty() { "-" } else { agent };
            [agent.to_owned()].into_iter().chain(counts.map(|count| count.to_string())).collect()
        })
        .collect();
    let columns = ["agent", "offered", "surfaced", "reads", "files", "scripts", "bounced"]
        .map(TableColumn::fixed);
    session.output.print_table(&columns, &rows)?;
    Ok(exit::OK)
}

fn print_advice(session: &CliContext, context: &ReviewContext, args: &StatsArgs) -> CommandResult {
    let only = args.skill.as_ref().map(|skill| resolve_skill(context, skill)).transpose()?;
    let days = args.days.unwrap_or(ADVICE_DAYS);
    let since_day = utc_day(days_ago(days));
    let usage = context.with_ledger(|ledger, _| ledger.skill_usage(Some(since_day)))?;
    let home = open_test_home(session)?;
    let setup = RoutingSetup { options: home.options, ..RoutingSetup::default() };
    let harness = open_harness(setup)?;
    let cases = load_installed_cases(&harness, home.data.as_deref());
    let reports = test_all_routing(&harness, &cases.iter().collect::<Vec<_>>(), &home.views);
    let mut report = advise_usage(&usage, &harness, &reports);
    if let Some(only) = &only {
        report.retain_skill(only);
    }
    if session.output.json {
        session.output.print_json(&json!({ "days": days, "report": report }))?;
        return Ok(exit::OK);
    }
    if report.advice.is_empty() {
        session.output.print_note(format!("no advice from the last {days} days"));
    }
    for line in advice::describe_report(&report) {
        session.output.print_line(line)?;
    }
    Ok(exit::OK)
}

/// Returns the id of a skill, which may be removed if it was used.
fn resolve_skill(context: &ReviewContext, given: &str) -> Result<String, CliError> {
    let used = context.with_ledger(|ledger, _| ledger.usage_days(given, None))?;
    if !used.is_empty() {
        return Ok(given.to_owned());
    }
    let snapshot = context.snapshot();
    let id = home_skills::resolve_skill(&snapshot, given)?;
    match snapshot.get(&id) {
        Some(_) => Ok(id),
        None => Err(registry_error(unknown_skill_for(Audience::Operator, &snapshot, &id))),
    }
}

fn days_ago(days: u32) -> i64 {
    let ago = Duration::from_secs(u64::from(days) * 86_400);
    let since =
        SystemTime::now().checked_sub(ago).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
