//! The text of advice about the use of skills.

use skill_testing::{MIN_OFFER_DAYS, MIN_OFFERS, MIN_READS, UsageAdvice, UsageReport};

/// Returns the lines of a report: the advice, and the skills about which there is too little data.
pub(super) fn describe_report(report: &UsageReport) -> Vec<String> {
    let mut lines: Vec<String> = report.advice.iter().map(describe_advice).collect();
    let UsageReport { too_little_use, without_cases, .. } = report;
    if !too_little_use.is_empty() {
        lines.push(format!(
            "too little data: fewer than {MIN_READS} reads, and fewer than {MIN_OFFERS} offers or \
             offers on fewer than {MIN_OFFER_DAYS} days: {}; run `skillhost skill stats` later",
            too_little_use.join(", ")
        ));
    }
    if !without_cases.is_empty() {
        lines.push(format!(
            "no cases: {} of the skills have no queries that show whether another skill takes them \
             ({}); add `evals/triggers.json`, then run `skillhost skill test`",
            without_cases.len(),
            without_cases.join(", ")
        ));
    }
    lines
}

fn describe_advice(advice: &UsageAdvice) -> String {
    match advice {
        UsageAdvice::Unused { skill_id, offered, days } => format!(
            "unused: `{skill_id}` was offered in {offered} turns on {days} days and never read; run \
             `skillhost skill test {skill_id}`, or `skillhost skill disable {skill_id}`"
        ),
        UsageAdvice::Overused { skill_id, reads, bounced } => format!(
            "overused: `{skill_id}` was read {reads} times, and {bounced} times another skill was \
             read within three calls without a use of this one; narrow its description, then run \
             `skillhost skill test {skill_id}`"
        ),
        UsageAdvice::Shadowed { skill_id, by, cases, positives } => format!(
            "shadowed: `{by}` takes {} of {positives} queries of `{skill_id}` ({}); run \
             `skillhost skill test {skill_id} {by}`",
            cases.len(),
            cases.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_figures_and_command() {
        let skill_id = || "pdf".to_owned();
        let report = UsageReport {
            advice: vec![
                UsageAdvice::Unused { skill_id: skill_id(), offered: 412, days: 31 },
                UsageAdvice::Overused { skill_id: skill_id(), reads: 40, bounced: 25 },
                UsageAdvice::Shadowed {
                    skill_id: skill_id(),
                    by: "forms".to_owned(),
                    cases: vec!["q4".to_owned(), "q7".to_owned()],
                    positives: 8,
                },
            ],
            too_little_use: vec!["a".to_owned(), "b".to_owned()],
            without_cases: Vec::new(),
        };
        let expected = [
            "unused: `pdf` was offered in 412 turns on 31 days and never read; run `skillhost skill \
             test pdf`, or `skillhost skill disable pdf`",
            "overused: `pdf` was read 40 times, and 25 times another skill was read within three \
             calls without a use of this one; narrow its description, then run `skillhost skill \
             test pdf`",
            "shadowed: `forms` takes 2 of 8 queries of `pdf` (q4, q7); run `skillhost skill test pdf \
             forms`",
            "too little data: fewer than 20 reads, and fewer than 200 offers or offers on fewer than \
             14 days: a, b; run `skillhost skill stats` later",
        ];
        assert_eq!(describe_report(&report), expected);
    }
}
