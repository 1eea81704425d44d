//! The check of the assertions that need neither a judge nor a program.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::{Regex, RegexBuilder};
use skill_compat::extended::{AssertionType, TestAssertion, excerpt};
use unicode_normalization::UnicodeNormalization as _;

use crate::case::CaseAssertion;
use crate::command_words::split_commands;
use crate::grading::AssertionResult;

/// The limits on the size of a compiled expression and on the text that it searches, in bytes. The time
/// of a search grows with their product, so a large expression searches less.
const SEARCH_LIMITS: [(usize, usize); 3] =
    [(64 << 10, 1 << 20), (256 << 10, 32 << 10), (1 << 20, 4 << 10)];

/// The observations of a run that assertions are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunObservations {
    /// The final answer.
    pub answer: String,
    /// The new files of the workspace, relative to it.
    pub created: Vec<String>,
    /// The files whose SHA-256 has changed.
    pub modified: Vec<String>,
    /// The commands that were run, each a list of words. `None` if the agent has no tool that runs
    /// commands.
    pub commands: Option<Vec<Vec<String>>>,
}

/// The way in which an assertion is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssertionCheck {
    /// It was checked.
    Done(AssertionResult),
    /// The sentence is for a judge.
    Judge(String),
    /// The file of the skill is run.
    Script(String),
}

/// Checks an assertion, or states how it is checked.
#[must_use]
pub fn check_assertion(assertion: &CaseAssertion, seen: &RunObservations) -> AssertionCheck {
    let text = assertion.text();
    let typed = match assertion {
        CaseAssertion::Sentence(sentence) => return AssertionCheck::Judge(sentence.clone()),
        CaseAssertion::Typed(typed) => typed,
    };
    let TestAssertion { kind, value, .. } = typed;
    AssertionCheck::Done(match kind {
        AssertionType::Contains => {
            let holds = has_literal(&seen.answer, value);
            let evidence = if holds { value.as_str() } else { "the answer does not contain it" };
            AssertionResult::checked(text, holds, evidence)
        }
        AssertionType::NotContains => {
            let holds = !has_literal(&seen.answer, value);
            let evidence = if holds { "the answer does not contain it" } else { value.as_str() };
            AssertionResult::checked(text, holds, evidence)
        }
        AssertionType::MatchesRegex => match search(&seen.answer, value) {
            Ok(found) => AssertionResult::checked(text, true, excerpt(&found)),
            Err(reason) => AssertionResult::checked(text, false, reason),
        },
        AssertionType::FileCreated => check_files(text, value, &seen.created, "created"),
        AssertionType::FileModified => check_files(text, value, &seen.modified, "modified"),
        AssertionType::CommandExecuted => check_commands(text, value, seen.commands.as_deref()),
        AssertionType::Custom => {
            return match value.strip_prefix("script:") {
                Some(path) => AssertionCheck::Script(path.trim().to_owned()),
                None => AssertionCheck::Judge(value.clone()),
            };
        }
    })
}

/// Returns whether a text has a literal; both in the same normal form, so that an `é` of one
/// character equals one of two.
fn has_literal(text: &str, literal: &str) -> bool {
    let (text, literal): (String, String) = (text.nfc().collect(), literal.nfc().collect());
    text.contains(&literal)
}

/// Returns the first match of an expression, such as `W-?9` or `/w-?9/i`.
///
/// # Errors
/// The reason why there is none.
fn search(text: &str, value: &str) -> Result<String, String> {
    for (size, searched) in SEARCH_LIMITS {
        match compile_expression(value, size) {
            Ok(expression) => {
                let end = text.floor_char_boundary(searched);
                let found = expression.find(&text[..end]).map(|found| found.as_str().to_owned());
                return found.ok_or_else(|| match end == text.len() {
                    true => "no match in the answer".to_owned(),
                    false => format!("no match in the first {end} bytes of the answer"),
                });
            }
            Err(ExpressionError::TooLarge) => {}
            Err(ExpressionError::NotValid(reason)) => return Err(reason),
        }
    }
    Err("the expression needs more than 1 MiB".to_owned())
}

/// Returns why an expression is not valid; `None` for a valid one of any size.
pub(crate) fn find_expression_error(value: &str) -> Option<String> {
    let (size, _) = *SEARCH_LIMITS.last()?;
    match compile_expression(value, size) {
        Err(ExpressionError::NotValid(reason)) => Some(reason),
        Ok(_) | Err(ExpressionError::TooLarge) => None,
    }
}

/// The longest glob, in bytes.
const MAX_GLOB: usize = 4 << 10;

/// The reason why an expression cannot be used.
enum ExpressionError {
    TooLarge,
    NotValid(String),
}

fn compile_expression(value: &str, size: usize) -> Result<Regex, ExpressionError> {
    let (pattern, flags) = split_flags(value);
    let mut builder = RegexBuilder::new(pattern);
    // The engine takes linear time, so only the sizes need a limit.
    builder.size_limit(size).dfa_size_limit(size);
    for flag in flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            // Every search is of Unicode text, and for one match.
            'u' | 'g' => &mut builder,
            other => {
                let reason = format!("the expression has an unknown flag `{other}`");
                return Err(ExpressionError::NotValid(reason));
            }
        };
    }
    // An expression that is not valid fails in every run, so that its author sees it.
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => ExpressionError::TooLarge,
        error => {
            let message = error.to_string();
            let line = message.lines().last().unwrap_or_default();
            let line = line.trim_start_matches("error: ");
            ExpressionError::NotValid(format!("the expression is not valid: {line}"))
        }
    })
}

/// Divides `/pattern/flags`; any other text is a pattern without flags.
fn split_flags(value: &str) -> (&str, &str) {
    // The text after the last slash is flags only if it has none but lower-case letters.
    let inside = value.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
    match inside {
        Some((pattern, flags)) if flags.chars().all(|flag| flag.is_ascii_lowercase()) => {
            (pattern, flags)
        }
        _ => (value, ""),
    }
}

fn check_files(text: String, value: &str, paths: &[String], verb: &str) -> AssertionResult {
    let Some(glob) = compile_glob(value.trim_start_matches("./")) else {
        return AssertionResult::checked(text, false, "the glob is not valid");
    };
    match paths.iter().find(|path| glob.is_match(path)) {
        Some(path) => AssertionResult::checked(text, true, path),
        None => AssertionResult::checked(text, false, format!("no such file was {verb}")),
    }
}

fn check_commands(text: String, value: &str, seen: Option<&[Vec<String>]>) -> AssertionResult {
    let Some(seen) = seen else {
        return AssertionResult::skipped(text, "the agent has no tool that runs commands");
    };
    let wanted: Vec<Option<GlobSet>> =
        split_commands(value).iter().flatten().map(|word| compile_glob(word)).collect();
    if wanted.is_empty() || wanted.iter().any(Option::is_none) {
        return AssertionResult::checked(text, false, "the command is not valid");
    }
    let matches = |words: &&Vec<String>| {
        // Each word by itself: a text that only contains the command was not run.
        words.len() >= wanted.len()
            && wanted.iter().zip(*words).all(|(glob, word)| {
                let word = word.trim_start_matches("./");
                glob.as_ref().is_some_and(|glob| glob.is_match(word))
            })
    };
    match seen.iter().find(matches) {
        Some(words) => AssertionResult::checked(text, true, excerpt(&words.join(" "))),
        None => AssertionResult::checked(text, false, "no such command was run"),
    }
}

/// Compiles a glob; `None` if it is not valid or too large.
fn compile_glob(glob: &str) -> Option<GlobSet> {
    if glob.len() > MAX_GLOB {
        return None;
    }
    let glob =
        GlobBuilder::new(glob.trim_start_matches("./")).literal_separator(true).build().ok()?;
    // A set reports an expression that is too deep; a single matcher would panic.
    GlobSetBuilder::new().add(glob).build().ok()
}

/// Returns the commands of a tool call, or `None` if it runs none: a script with its arguments, or the
/// text or list `command`.
#[must_use]
pub fn commands_of_call(tool: &str, arguments: &str) -> Option<Vec<Vec<String>>> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let words = |key: &str| -> Vec<String> {
        let items = arguments.get(key).and_then(|value| value.as_array());
        let texts = items.into_iter().flatten().filter_map(|item| item.as_str());
        texts.map(str::to_owned).collect()
    };
    let is_script = tool == "run_script" || tool.ends_with(".run_script");
    let command = arguments.get(if is_script { "path" } else { "command" })?;
    match command.as_str() {
        Some(path) if is_script => {
            let mut all = vec![path.to_owned()];
            all.extend(words("args"));
            Some(vec![all])
        }
        Some(line) => {
            let mut commands = split_commands(line);
            // A program with its arguments apart.
            if let (Some(last), more) = (commands.last_mut(), words("args")) {
                last.extend(more);
            }
            Some(commands)
        }
        None if command.is_array() => Some(vec![words("command")]),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_globs_are_not_valid() {
        let deep = format!("{}a{}", "{".repeat(300), "}".repeat(300));
        for glob in [deep, "a".repeat(5_000), "[".to_owned()] {
            assert_eq!(check(AssertionType::FileCreated, &glob).0, Some(false));
            assert_eq!(check(AssertionType::CommandExecuted, &glob).0, Some(false));
        }
    }

    fn observations() -> RunObservations {
        RunObservations {
            answer: "Caf\u{e9} in March, July.\nW-9 done".to_owned(),
            created: vec!["out/w9.pdf".to_owned()],
            modified: vec!["notes.md".to_owned()],
            commands: Some(vec![
                vec!["python".to_owned(), "scripts/fill.py".to_owned(), "--all".to_owned()],
                vec!["echo".to_owned(), "rm -rf x".to_owned()],
            ]),
        }
    }

    fn typed(kind: AssertionType, value: &str) -> CaseAssertion {
        CaseAssertion::Typed(TestAssertion { kind, value: value.to_owned(), description: None })
    }

    fn check(kind: AssertionType, value: &str) -> (Option<bool>, String) {
        match check_assertion(&typed(kind, value), &observations()) {
            AssertionCheck::Done(result) => (result.passed, result.evidence),
            other => panic!("{other:?}"),
        }
    }

    fn passes(kind: AssertionType, value: &str) -> bool {
        check(kind, value).0.unwrap()
    }

    #[test]
    fn literals_are_compared_in_normal_form() {
        // The accent as a character of its own.
        assert!(passes(AssertionType::Contains, "Cafe\u{301} in"));
        assert!(!passes(AssertionType::NotContains, "Cafe\u{301}"));
        assert!(!passes(AssertionType::Contains, "cafe"));
        assert!(passes(AssertionType::NotContains, "April"));
    }

    #[test]
    fn expressions_are_searched_anywhere() {
        let regex = AssertionType::MatchesRegex;
        assert!(passes(regex, "Mar.h"));
        assert!(!passes(regex, "w-9"));
        assert!(passes(regex, "/w-?9/i"));
        assert!(!passes(regex, "/^w-9/i"));
        assert!(passes(regex, "/^w-9/im"));
        assert_eq!(
            check(regex, "/x/k"),
            (Some(false), "the expression has an unknown flag `k`".into())
        );
        let (passed, reason) = check(regex, "(");
        assert!(passed == Some(false) && reason.contains("not valid"), "{reason}");
    }

    #[test]
    fn exploding_expressions_end_soon() {
        // A search that backtracks would not end within the time limit of a test.
        let seen = RunObservations { answer: "a".repeat(600), ..observations() };
        for value in ["(a+)+b", "(a|a)*b", "(a{1,100}){1,100}b", "(?:a?){2000}a{2000}b"] {
            let AssertionCheck::Done(result) =
                check_assertion(&typed(AssertionType::MatchesRegex, value), &seen)
            else {
                panic!("{value}");
            };
            assert_eq!(result.passed, Some(false), "{value}");
        }
        let long = RunObservations { answer: "a".repeat(2 << 20), ..observations() };
        let AssertionCheck::Done(result) =
            check_assertion(&typed(AssertionType::MatchesRegex, "[b-d]"), &long)
        else {
            panic!("the check needs no judge")
        };
        assert_eq!(result.evidence, "no match in the first 1048576 bytes of the answer");
        let (_, reason) = check(AssertionType::MatchesRegex, "(a{1000}){1000}");
        assert_eq!(reason, "the expression needs more than 1 MiB");
    }

    #[test]
    fn globs_select_files() {
        assert!(passes(AssertionType::FileCreated, "out/*.pdf"));
        assert!(passes(AssertionType::FileCreated, "./**/*.pdf"));
        assert!(!passes(AssertionType::FileCreated, "*.pdf"), "a star ends at a separator");
        assert!(!passes(AssertionType::FileCreated, "notes.md"), "it was modified");
        assert!(passes(AssertionType::FileModified, "notes.md"));
        assert!(!passes(AssertionType::FileModified, "out/*"));
        assert_eq!(check(AssertionType::FileCreated, "[").1, "the glob is not valid");
    }

    #[test]
    fn commands_are_compared_word_by_word() {
        let command = AssertionType::CommandExecuted;
        assert!(passes(command, "python scripts/fill.py"));
        assert!(passes(command, "python* ./scripts/*.py --all"));
        assert!(!passes(command, "scripts/fill.py"));
        assert!(!passes(command, "rm -rf x"), "it is an argument of echo");
        assert!(!passes(command, "python scripts/fill.py --all --more"));
        let without = RunObservations { commands: None, ..observations() };
        let AssertionCheck::Done(result) = check_assertion(&typed(command, "ls"), &without) else {
            panic!("the check needs no judge")
        };
        assert_eq!(result.passed, None);
    }

    #[test]
    fn other_assertions_state_their_check() {
        let sentence = CaseAssertion::Sentence("names three months".to_owned());
        let seen = observations();
        let judge = |text: &str| AssertionCheck::Judge(text.to_owned());
        assert_eq!(check_assertion(&sentence, &seen), judge("names three months"));
        let custom = |value: &str| check_assertion(&typed(AssertionType::Custom, value), &seen);
        assert_eq!(custom("is polite"), judge("is polite"));
        let script = AssertionCheck::Script("tests/months.py".to_owned());
        assert_eq!(custom("script: tests/months.py"), script);
    }

    #[test]
    fn calls_have_commands() {
        let commands = |tool: &str, arguments: &str| commands_of_call(tool, arguments);
        assert_eq!(
            commands("skills.run_script", r#"{"path": "scripts/a.py", "args": ["x y"]}"#),
            Some(vec![vec!["scripts/a.py".to_owned(), "x y".to_owned()]])
        );
        assert_eq!(
            commands("run_command", r#"{"command": "cd a && make"}"#).map(|all| all.len()),
            Some(2)
        );
        assert_eq!(
            commands("exec", r#"{"command": ["ls", "-l"]}"#),
            Some(vec![vec!["ls".to_owned(), "-l".to_owned()]])
        );
        assert_eq!(commands("read_file", r#"{"path": "ls"}"#), None);
        assert_eq!(commands("run_command", "no json"), None);
    }
}
