//! The words of command lines, as far as tests compare them.

/// The longest command line that is divided, in bytes.
const MAX_COMMAND: usize = 64 << 10;

/// Divides a command line into its simple commands, each a list of words.
///
/// Quotes and backslashes are read as a shell reads them; `;`, `&`, `|` and line breaks separate
/// commands. Nothing is expanded.
pub(crate) fn split_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars().take(MAX_COMMAND);
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                // A backslash before a line break joins the lines.
                if let Some(next) = chars.next().filter(|next| *next != '\n') {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                // An empty word is a word if it is quoted.
                word.get_or_insert_default();
            }
            (None, ';' | '&' | '|' | '\n') => {
                push_word(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => push_word(&mut commands, &mut word),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    push_word(&mut commands, &mut word);
    commands.retain(|words| !words.is_empty());
    commands
}

fn push_word(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(last), Some(word)) = (commands.last_mut(), word.take()) {
        last.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_divided_like_in_shell() {
        let split = |line: &str| split_commands(line);
        assert_eq!(split("git status"), [["git", "status"]]);
        assert_eq!(split(r#"a 'b c' "d \"e" f\ g """#), [["a", "b c", "d \"e", "f g", ""]]);
        assert_eq!(
            split("cd x && make -j2 | tee 'a|b'; ls\n"),
            [vec!["cd", "x"], vec!["make", "-j2"], vec!["tee", "a|b"], vec!["ls"]]
        );
        assert_eq!(split("a \\\n b"), [["a", "b"]]);
        assert_eq!(split(" ; \n"), [[""; 0]; 0]);
        assert_eq!(split("'open"), [["open"]]);
    }
}
