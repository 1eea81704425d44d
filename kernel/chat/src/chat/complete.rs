//! Tab completion at the prompt.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use skillhost_terminal::sanitize;

use super::command::COMMANDS;

/// Names that commands take.
#[derive(Debug, Default)]
pub(super) struct CompletionNames {
    pub(super) skills: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) tools: Vec<String>,
}

impl CompletionNames {
    /// Returns the start of the word before the cursor and its completions.
    fn completions(&self, line: &str) -> (usize, Vec<String>) {
        let Some(rest) = line.strip_prefix('/') else { return (0, Vec::new()) };
        let (names, begin, typed): (Vec<&str>, _, _) = match rest.split_once(' ') {
            None => (COMMANDS.to_vec(), 1, rest),
            Some((command, typed)) => {
                let names = match command {
                    "skill" => &self.skills,
                    "agent" => &self.agents,
                    "approve" => &self.tools,
                    _ => return (0, Vec::new()),
                };
                let names = names.iter().map(String::as_str).collect();
                (names, 1 + command.len() + 1, typed)
            }
        };
        // A name with control characters or spaces cannot be typed.
        let fit = |name: &&str| !name.contains(char::is_whitespace) && sanitize(name) == **name;
        let offered = names.into_iter().filter(|name| name.starts_with(typed)).filter(fit);
        (begin, offered.map(str::to_owned).collect())
    }
}

impl Completer for CompletionNames {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.completions(&line[..position]))
    }
}

impl Helper for CompletionNames {}
impl Highlighter for CompletionNames {}
impl Validator for CompletionNames {}

impl Hinter for CompletionNames {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_arguments_are_completed() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let names = CompletionNames {
            skills: words(&["code-review", "code-\u{1b}[2J", "two words", "writing"]),
            agents: words(&["builder_agent", "worker"]),
            tools: words(&["delete_file"]),
        };
        for (line, expected) in [
            ("/sk", (1, words(&["skill", "skills"]))),
            ("/q", (1, words(&["quit"]))),
            ("/x", (1, Vec::new())),
            ("/skill ", (7, words(&["code-review", "writing"]))),
            ("/skill code", (7, words(&["code-review"]))),
            ("/skill code-review ex", (7, Vec::new())),
            ("/agent w", (7, words(&["worker"]))),
            ("/approve d", (9, words(&["delete_file"]))),
            ("/reset x", (0, Vec::new())),
            ("hello /sk", (0, Vec::new())),
            ("", (0, Vec::new())),
        ] {
            assert_eq!(names.completions(line), expected, "{line:?}");
        }
    }
}
