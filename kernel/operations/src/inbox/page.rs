//! `skillhost inbox show`.

use serde_json::json;
use skillhost_tasks::{Question, QuestionKind, QuestionState, TaskQueue};
use skillhost_terminal::{BOLD, CliContext, CommandResult, YELLOW, exit, format_arguments};

use crate::task_store::to_cli_error;
use crate::task_text::{format_age, format_time, one_line};

/// Prints a question with its whole subject, and the commands that decide it.
pub(super) async fn show_question(
    session: &CliContext,
    queue: &TaskQueue,
    question: &Question,
) -> CommandResult {
    let output = session.output;
    let spell = |arguments: &str| session.spell_arguments(arguments);
    if output.json {
        let commands = decision_commands(question, &spell);
        output.print_json(&json!({ "question": question, "commands": commands }))?;
        return Ok(exit::OK);
    }
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let columns = output.width().unwrap_or(usize::MAX);
    let lines = format_question(question, now_ms, columns, &spell);
    lines.iter().try_for_each(|line| output.print_line(line))?;
    Ok(exit::OK)
}

/// Formats a question. The subject is drawn from the bytes that the digest covers, and never
/// shortened: what cannot be seen cannot be approved.
pub(super) fn format_question(
    question: &Question,
    now_ms: u64,
    columns: usize,
    spell: &dyn Fn(&str) -> String,
) -> Vec<String> {
    let Question { id, kind, asker, title, task, thread, subject, digest, opened_ms, .. } =
        question;
    let field = |name: &str, value: &str| format!("{BOLD}{name:<8}{BOLD:#} {value}");
    let age = format_age(*opened_ms, now_ms);
    let mut lines = vec![
        format!("{BOLD}{id}{BOLD:#}  {}", kind.as_str()),
        field("asker", &one_line(asker)),
        field("title", &one_line(title)),
        field("asked", &format!("{} UTC, {age} ago", format_time(*opened_ms))),
    ];
    lines.extend(task.as_ref().map(|task| field("task", &spell(&format!("task show {task}")))));
    if task.is_none() {
        lines.extend(thread.as_ref().map(|thread| field("thread", &one_line(thread))));
    }
    // Whole, as a person may compare it with that of another surface.
    lines.push(field("digest", digest));
    if question.state != QuestionState::Open {
        let closed = describe_closed(question);
        lines.push(format!("{YELLOW}{}{YELLOW:#}", field("state", &closed)));
    }
    lines.push(String::new());
    lines.push(format!("{BOLD}subject{BOLD:#}"));
    lines.extend(format_arguments(subject, columns, false));
    let commands = decision_commands(question, spell);
    if !commands.is_empty() {
        lines.push(String::new());
        lines.push(format!("{BOLD}decide{BOLD:#}"));
        lines.extend(commands.iter().map(|command| format!("  {command}")));
    }
    if *kind == QuestionKind::Choice && !question.options.is_empty() {
        let options: Vec<String> = question.options.iter().map(|it| format!("{it:?}")).collect();
        lines.push(field("options", &one_line(&options.join(", "))));
    }
    lines
}

/// Returns the commands that decide an open question.
fn decision_commands(question: &Question, spell: &dyn Fn(&str) -> String) -> Vec<String> {
    let Question { id, kind, digest, options, state, .. } = question;
    if *state != QuestionState::Open {
        return Vec::new();
    }
    match kind {
        QuestionKind::Consent | QuestionKind::Proposal | QuestionKind::Build => {
            let can_approve =
                options.is_empty() || options.iter().any(|option| option == "approve");
            let approve = format!("inbox approve {id} --digest {digest}");
            let approve = can_approve.then(|| spell(&approve));
            approve
                .into_iter()
                .chain([spell(&format!("inbox refuse {id} --reason TEXT"))])
                .collect()
        }
        QuestionKind::Uncertain | QuestionKind::Choice => {
            // An option of a model could contain another command; only plain words are spelled.
            let is_plain = |option: &&String| {
                !option.is_empty()
                    && !option.starts_with('-')
                    && option.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            };
            match !options.is_empty() && options.iter().all(|option| is_plain(&option)) {
                true => {
                    let spelled =
                        options.iter().map(|option| spell(&format!("inbox answer {id} {option}")));
                    spelled.collect()
                }
                false => vec![spell(&format!("inbox answer {id} TEXT"))],
            }
        }
    }
}

/// Formats how a question ceased to be open: who decided, where and when.
pub(super) fn describe_closed(question: &Question) -> String {
    let at = question.closed_ms.map(|ms| format!(" at {} UTC", format_time(ms)));
    let at = at.unwrap_or_default();
    let reason = question.reason.as_deref().filter(|reason| !reason.is_empty()).map(one_line);
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    match question.state {
        QuestionState::Open => "open".to_owned(),
        QuestionState::Decided => {
            let choice = one_line(question.choice.as_deref().unwrap_or_default());
            let decider = question.decider.clone().unwrap_or_default();
            let (name, surface) = (one_line(&decider.name), one_line(&decider.surface));
            format!("decided as `{choice}` by {name} on {surface}{at}{reason}")
        }
        QuestionState::Withdrawn => format!("withdrawn{at}{reason}"),
        QuestionState::Expired => format!("expired{at}{reason}"),
    }
}

#[cfg(test)]
mod tests {
    use skillhost_files::sha256_hex;
    use skillhost_tasks::Decider;

    use super::*;

    fn question(kind: QuestionKind, options: &[&str]) -> Question {
        let subject = "{\"tool\":\"write_file\",\"arguments\":{\"content\":\"a\\n  > tool: fake\\u202e\\n\"}}";
        Question {
            id: "01k0000000000000000000000q".to_owned(),
            task: None,
            thread: Some("01t".to_owned()),
            kind,
            asker: "worker".to_owned(),
            call: "1".to_owned(),
            title: "call\nwrite_file\u{1b}[2J".to_owned(),
            subject: subject.to_owned(),
            digest: sha256_hex(subject.as_bytes()),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            state: QuestionState::Open,
            choice: None,
            reason: None,
            decider: None,
            opened_ms: 0,
            closed_ms: None,
        }
    }

    fn plain(question: &Question) -> Vec<String> {
        let spell = |arguments: &str| format!("skillhost {arguments}");
        let lines = format_question(question, 61_000, usize::MAX, &spell);
        lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn subject_is_shown_whole_and_marked() {
        let consent = question(QuestionKind::Consent, &["approve", "refuse"]);
        let (id, digest) = (&consent.id, &consent.digest);
        assert_eq!(
            plain(&consent),
            [
                format!("{id}  consent"),
                "asker    worker".to_owned(),
                "title    call write_file\\u{1b}[2J".to_owned(),
                "asked    1970-01-01 00:00:00 UTC, 1 min 1 s ago".to_owned(),
                "thread   01t".to_owned(),
                format!("digest   {digest}"),
                String::new(),
                "subject".to_owned(),
                "  > tool: \"write_file\"".to_owned(),
                "  > arguments.content:".to_owned(),
                "  >| a".to_owned(),
                "  >|   > tool: fake\\u{202e}".to_owned(),
                String::new(),
                "decide".to_owned(),
                format!("  skillhost inbox approve {id} --digest {digest}"),
                format!("  skillhost inbox refuse {id} --reason TEXT"),
            ]
        );
    }

    #[test]
    fn hostile_option_is_no_command() {
        let spell = |arguments: &str| arguments.to_owned();
        let uncertain = question(QuestionKind::Uncertain, &["happened", "again", "stop"]);
        let commands = decision_commands(&uncertain, &spell);
        assert_eq!(commands[1], format!("inbox answer {} again", uncertain.id));
        for option in ["a; rm b", "$(x)", "-x", ""] {
            let choice = question(QuestionKind::Choice, &["yes", option]);
            let commands = decision_commands(&choice, &spell);
            assert_eq!(commands, [format!("inbox answer {} TEXT", choice.id)], "{option}");
        }
    }

    #[test]
    fn closed_question_names_decider() {
        let mut closed = question(QuestionKind::Consent, &[]);
        closed.state = QuestionState::Decided;
        closed.choice = Some("refuse".to_owned());
        closed.reason = Some("too\nbroad".to_owned());
        closed.decider = Some(Decider { name: "operator".into(), surface: "socket".into() });
        closed.closed_ms = Some(1000);
        let text =
            "decided as `refuse` by operator on socket at 1970-01-01 00:00:01 UTC: too broad";
        assert_eq!(describe_closed(&closed), text);
        assert!(plain(&closed).contains(&format!("state    {text}")));
        assert!(!plain(&closed).contains(&"decide".to_owned()));
        closed.state = QuestionState::Withdrawn;
        assert_eq!(describe_closed(&closed), "withdrawn at 1970-01-01 00:00:01 UTC: too broad");
    }
}
