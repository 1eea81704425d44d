//! The line about a question that another surface decided.

use skillhost_control::QuestionClosure;
use skillhost_payload::format_second;
use skillhost_terminal::display_safe;

/// Describes the end of a question: the decision, by whom, where and when. The answer of this
/// terminal may have been `rejected` by it.
pub(crate) fn describe_closure(closure: &QuestionClosure, rejected: bool) -> String {
    let QuestionClosure { question, state, choice, reason, by, surface, at_ms } = closure;
    let when = at_ms.and_then(|at| i64::try_from(at).ok()).map(format_second);
    let end = match (choice, by) {
        (Some(choice), Some(by)) => {
            let surface = surface.as_deref().unwrap_or("unknown surface");
            format!("{} by {} ({})", quote(choice), quote(by), quote(surface))
        }
        _ if state == "open" => "its subject has changed, and it is still open".to_owned(),
        _ => match reason {
            Some(reason) => format!("{}: {}", quote(state), quote(reason)),
            None => quote(state),
        },
    };
    let when = when.map(|when| format!(", {when}")).unwrap_or_default();
    let question = quote(question);
    match rejected {
        true => format!("the answer did not count; question {question}: {end}{when}"),
        false => format!("question {question} was decided elsewhere: {end}{when}"),
    }
}

/// Makes a text of another surface printable on one line.
fn quote(text: &str) -> String {
    display_safe(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closure() -> QuestionClosure {
        QuestionClosure {
            question: "01k".into(),
            state: "decided".into(),
            choice: Some("approve".into()),
            reason: None,
            by: Some("operator".into()),
            surface: Some("inbox".into()),
            at_ms: Some(0),
        }
    }

    #[test]
    fn line_names_decider_surface_and_time() {
        assert_eq!(
            describe_closure(&closure(), false),
            "question 01k was decided elsewhere: approve by operator (inbox), 1970-01-01 00:00:00"
        );
        let hostile = QuestionClosure { by: Some("a\u{1b}[2J\nb".into()), ..closure() };
        let line = describe_closure(&hostile, true);
        assert!(
            line.starts_with("the answer did not count; question 01k: approve by a\\u{1b}[2J\\nb")
        );
    }

    #[test]
    fn line_names_open_and_withdrawn_questions() {
        let withdrawn = QuestionClosure {
            state: "withdrawn".into(),
            choice: None,
            reason: Some("the run ended".into()),
            by: None,
            surface: None,
            at_ms: None,
            ..closure()
        };
        assert_eq!(
            describe_closure(&withdrawn, false),
            "question 01k was decided elsewhere: withdrawn: the run ended"
        );
        let open = QuestionClosure { state: "open".into(), ..withdrawn };
        assert_eq!(
            describe_closure(&open, true),
            "the answer did not count; question 01k: its subject has changed, and it is still open"
        );
    }
}
