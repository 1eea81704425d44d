//! `skillhost skill prune`.

use serde_json::json;
use skill_ledger::RetentionRule;
use skillhost_terminal::{CliContext, CommandResult, exit};

use super::review_context::ReviewContext;
use crate::arguments::PruneArgs;

pub(super) fn prune(session: &CliContext, args: &PruneArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let standard = RetentionRule::default();
    let rule = RetentionRule {
        newest: args.keep.unwrap_or(standard.newest),
        // An explicit `--keep` overrides the default limits.
        newest_in_days: match args.keep {
            Some(_) if args.days.is_none() => 0,
            _ => standard.newest_in_days,
        },
        days: args.days.unwrap_or(standard.days),
        daily_days: match (args.keep, args.days) {
            (None, None) => standard.daily_days,
            _ => 0,
        },
        ..standard
    };
    let report = context.with_ledger(|ledger, _| ledger.prune(&rule, args.dry_run))?;
    if session.output.json {
        session.output.print_json(&json!({
            "dry_run": args.dry_run, "rule": rule, "removed": report,
        }))?;
        return Ok(exit::OK);
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    session.output.print_line(format!(
        "{verb} {} of {}, {} ({} KiB) and {}",
        counted(report.versions, "version"),
        counted(report.skills, "skill"),
        counted(report.texts, "text"),
        report.bytes.div_ceil(1_024),
        counted(report.readings, "reading"),
    ))?;
    if !args.dry_run {
        let kib = |bytes: u64| bytes.div_ceil(1_024);
        let (before, after) = (kib(report.file_before), kib(report.file_after));
        session.output.print_line(format!("the database had {before} KiB and has {after} KiB"))?;
    }
    Ok(exit::OK)
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
