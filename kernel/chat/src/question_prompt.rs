//! The prompts for a call that may have happened, and for the question of an agent.

use skillhost_conversation::{PersonQuestion, PersonReply, UncertainCall, UncertainDecision};
use skillhost_terminal::{BOLD, Output, display_safe, summarize_arguments};

use crate::approval_prompt::prompt_line;

/// Prompts for a decision until there is a clear one. A closed terminal, as a dropped future, decides
/// that the call is not made again.
pub(crate) async fn prompt_uncertain_call(
    output: Output,
    call: &UncertainCall,
) -> UncertainDecision {
    loop {
        let Ok(Some(line)) = prompt_line(output, format_uncertain_call(call)).await else {
            return UncertainDecision::Stop;
        };
        if let Some(decision) = parse_decision(&line) {
            return decision;
        }
    }
}

/// Prompts for the answer to a question. An empty line refuses.
pub(crate) async fn prompt_question(output: Output, question: &PersonQuestion) -> PersonReply {
    loop {
        let refuse = |reason: String| PersonReply::Refused { reason };
        match prompt_line(output, format_question(question)).await {
            Ok(Some(line)) => {
                if let Some(reply) = parse_answer(&line, &question.options) {
                    return reply;
                }
            }
            Ok(None) => return refuse("the terminal was closed".to_owned()),
            Err(error) => return refuse(format!("the user could not be asked: {error}")),
        }
    }
}

fn format_uncertain_call(call: &UncertainCall) -> String {
    let UncertainCall { agent_id, tool, extension, arguments, attempts, .. } = call;
    let cause = match attempts {
        0 => "the agent repeats a call that was interrupted and may have happened",
        _ => "the kernel ended during this call, which may have happened",
    };
    let mut lines = vec![format!(
        "{BOLD}{} calls {} of {}{BOLD:#}",
        display_safe(agent_id),
        display_safe(tool),
        display_safe(extension)
    )];
    lines.extend(summarize_arguments(arguments).lines().map(quote_line));
    lines.push(format!("  {cause}"));
    lines.push("[h] it happened, [a] make it again, [s] stop: do not make it again".to_owned());
    lines.join("\n")
}

fn format_question(question: &PersonQuestion) -> String {
    let PersonQuestion { agent_id, question, options, .. } = question;
    let mut lines = vec![format!("{BOLD}{} asks{BOLD:#}", display_safe(agent_id))];
    lines.extend(question.lines().map(quote_line));
    let numbered = options.iter().enumerate();
    lines.extend(numbered.map(|(at, option)| format!("  {}. {}", at + 1, display_safe(option))));
    let help = match options.as_slice() {
        [] => "type the answer. An empty line refuses",
        _ => "type the number of an answer. An empty line refuses",
    };
    lines.push(help.to_owned());
    lines.join("\n")
}

fn quote_line(line: &str) -> String {
    format!("  | {}", display_safe(line))
}

/// Parses a decision; `None` for any other input.
fn parse_decision(line: &str) -> Option<UncertainDecision> {
    match line.trim().to_ascii_lowercase().as_str() {
        "h" | "happened" => Some(UncertainDecision::Happened),
        "a" | "again" => Some(UncertainDecision::Again),
        "s" | "stop" => Some(UncertainDecision::Stop),
        _ => None,
    }
}

/// Parses an answer: one of the options, by its number or its text, or any text without options.
fn parse_answer(line: &str, options: &[String]) -> Option<PersonReply> {
    let line = line.trim();
    if line.is_empty() {
        return Some(PersonReply::Refused { reason: "the user gave no answer".to_owned() });
    }
    if options.is_empty() {
        return Some(PersonReply::Answer(line.to_owned()));
    }
    let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = number.and_then(|at| options.get(at));
    let found = by_number.or_else(|| options.iter().find(|option| *option == line));
    found.map(|option| PersonReply::Answer(option.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn only_clear_input_decides() {
        for (line, expected) in [
            ("h\n", Some(UncertainDecision::Happened)),
            (" AGAIN ", Some(UncertainDecision::Again)),
            ("s", Some(UncertainDecision::Stop)),
            ("", None),
            ("y", None),
            ("\u{fffd}", None),
        ] {
            assert_eq!(parse_decision(line), expected, "{line:?}");
        }
    }

    #[test]
    fn answer_is_option_or_text() {
        let answer = |text: &str| Some(PersonReply::Answer(text.to_owned()));
        let options = ["red".to_owned(), "2".to_owned()];
        assert_eq!(parse_answer("1\n", &options), answer("red"));
        assert_eq!(parse_answer("2", &options), answer("2"));
        assert_eq!(parse_answer("red", &options), answer("red"));
        for line in ["0", "3", "blue"] {
            assert_eq!(parse_answer(line, &options), None, "{line}");
        }
        assert_eq!(parse_answer(" any text \n", &[]), answer("any text"));
        let refused = PersonReply::Refused { reason: "the user gave no answer".to_owned() };
        assert_eq!(parse_answer("\n", &options), Some(refused));
    }

    #[test]
    fn prompts_are_complete_and_sanitized() {
        let mut call = UncertainCall {
            agent_id: "worker".into(),
            tool: "order".into(),
            extension: "shop".into(),
            arguments: r#"{"text":"\u001b[2J"}"#.into(),
            call_key: "k".into(),
            attempts: 1,
            extension_sha256: None,
            can_park: false,
        };
        let shown = strip(&format_uncertain_call(&call));
        assert!(shown.starts_with("worker calls order of shop\n  | "), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(shown.contains("the kernel ended during this call"), "{shown}");
        call.attempts = 0;
        assert!(format_uncertain_call(&call).contains("the agent repeats a call"));
        let question = PersonQuestion {
            agent_id: "worker".into(),
            call_key: None,
            question: "Which\u{1b}[2J\none?".into(),
            options: vec!["red".into(), "blue".into()],
            can_park: false,
        };
        assert_eq!(
            strip(&format_question(&question)),
            "worker asks\n  | Which\\u{1b}[2J\n  | one?\n  1. red\n  2. blue\n\
             type the number of an answer. An empty line refuses"
        );
    }
}
