//! Tab completion at the prompt.

use std::path::{Component, Path, PathBuf};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use skillhost_payload::Workspace;
use skillhost_terminal::sanitize;

use super::command::COMMANDS;

/// The number of paths that one completion offers.
const MAX_PATHS: usize = 200;

/// The directory of the sandbox that belongs to extensions alone.
const PRIVATE_DIRECTORY: &str = "data";

/// The beginning of paths in a workspace, before its label.
const WORKSPACE: &str = "workspace:";

/// A source of ids of threads, with their titles.
pub(super) type ThreadSource = Box<dyn Fn() -> Vec<(String, String)> + Send>;

/// Names that commands take.
#[derive(Default)]
pub(super) struct CompletionNames {
    pub(super) skills: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) tools: Vec<String>,
    pub(super) models: Vec<String>,
    /// The last threads: read on demand, because their journals can be long.
    pub(super) threads: Option<ThreadSource>,
    /// The directory that the paths after `@` are below.
    pub(super) sandbox: PathBuf,
    /// The directories that the paths after `@workspace:` and a label are below.
    pub(super) workspaces: Vec<Workspace>,
}

impl CompletionNames {
    /// Returns the start of the word before the cursor and its completions.
    fn completions(&self, line: &str) -> (usize, Vec<Pair>) {
        let word = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        if let Some(typed) = line[word..].strip_prefix('@') {
            return (word + 1, self.complete_path(typed));
        }
        let Some(rest) = line.strip_prefix('/') else { return (0, Vec::new()) };
        let (names, begin, typed): (Vec<&str>, _, _) = match rest.split_once(' ') {
            None => (COMMANDS.to_vec(), 1, rest),
            Some((command, typed)) => {
                let begin = 1 + command.len() + 1;
                let names = match command {
                    "skill" => &self.skills,
                    "agent" => &self.agents,
                    "approve" => &self.tools,
                    "model" => &self.models,
                    "resume" => return (begin, self.complete_thread(typed)),
                    _ => return (0, Vec::new()),
                };
                (names.iter().map(String::as_str).collect(), begin, typed)
            }
        };
        let offered = names.into_iter().filter(|name| name.starts_with(typed));
        (begin, offered.filter(|name| can_be_typed(name)).map(to_pair).collect())
    }

    fn complete_thread(&self, typed: &str) -> Vec<Pair> {
        let threads = self.threads.as_ref().map(|read| read()).unwrap_or_default();
        let matching = threads.into_iter().filter(|(id, _)| id.starts_with(typed));
        let pair = |(id, title): (String, String)| Pair {
            display: format!("{id}  {}", sanitize(&title)),
            replacement: id,
        };
        matching.map(pair).collect()
    }

    /// Returns the paths that start with a text, as the tools for files take them.
    fn complete_path(&self, typed: &str) -> Vec<Pair> {
        let in_workspace = typed.strip_prefix(WORKSPACE).and_then(|rest| rest.split_once('/'));
        if let Some((label, below)) = in_workspace {
            let Some(found) = self.workspaces.iter().find(|it| it.label == label) else {
                return Vec::new();
            };
            let mut paths = list_paths(&found.path, below);
            for pair in &mut paths {
                pair.replacement.insert_str(0, &format!("{WORKSPACE}{label}/"));
            }
            return paths;
        }
        let labels = self.workspaces.iter().map(|it| format!("{WORKSPACE}{}/", it.label));
        let labels = labels.filter(|path| path.starts_with(typed)).map(|path| to_pair(&path));
        let mut paths = list_paths(&self.sandbox, typed);
        paths.retain(|pair| !is_private(&pair.replacement));
        paths.extend(labels);
        paths
    }
}

/// Returns whether a name has neither control characters nor blanks.
fn can_be_typed(name: &str) -> bool {
    !name.contains(char::is_whitespace) && sanitize(name) == *name
}

fn to_pair(name: &str) -> Pair {
    Pair { display: name.to_owned(), replacement: name.to_owned() }
}

/// Returns `true` if a path in the sandbox is the directory of extensions alone, or below it.
fn is_private(path: &str) -> bool {
    path.split('/').next() == Some(PRIVATE_DIRECTORY)
}

/// Returns the entries below a directory whose paths start with a text. Links are not followed.
fn list_paths(root: &Path, typed: &str) -> Vec<Pair> {
    let (parent, start) = typed.rsplit_once('/').unwrap_or(("", typed));
    let mut directory = root.to_owned();
    for component in Path::new(parent).components() {
        let Component::Normal(name) = component else { return Vec::new() };
        directory.push(name);
        if !std::fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir()) {
            return Vec::new();
        }
    }
    // Names that cannot be read now are not offered.
    let Ok(entries) = std::fs::read_dir(&directory) else { return Vec::new() };
    let mut paths: Vec<Pair> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kind = entry.file_type().ok()?;
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            if !name.starts_with(start) || is_hidden || !can_be_typed(&name) {
                return None;
            }
            let parent = if parent.is_empty() { String::new() } else { format!("{parent}/") };
            let end = if kind.is_dir() { "/" } else { "" };
            Some(Pair {
                display: format!("{name}{end}"),
                replacement: format!("{parent}{name}{end}"),
            })
        })
        .collect();
    paths.sort_by(|a, b| a.replacement.cmp(&b.replacement));
    paths.truncate(MAX_PATHS);
    paths
}

impl Completer for CompletionNames {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
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

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn offered(names: &CompletionNames, line: &str) -> (usize, Vec<String>) {
        let (begin, pairs) = names.completions(line);
        (begin, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn commands_and_arguments_are_completed() {
        let names = CompletionNames {
            skills: words(&["code-review", "code-\u{1b}[2J", "two words", "writing"]),
            agents: words(&["builder_agent", "worker"]),
            tools: words(&["delete_file"]),
            models: words(&["anthropic/a", "openai/b"]),
            threads: Some(Box::new(|| {
                vec![("01ka".into(), "First\u{1b}".into()), ("01kb".into(), "Two".into())]
            })),
            sandbox: PathBuf::from("/nonexistent"),
            workspaces: Vec::new(),
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
            ("/model o", (7, words(&["openai/b"]))),
            ("/resume 01k", (8, words(&["01ka", "01kb"]))),
            ("/reset x", (0, Vec::new())),
            ("hello /sk", (0, Vec::new())),
            ("hello @x", (7, Vec::new())),
            ("", (0, Vec::new())),
        ] {
            assert_eq!(offered(&names, line), expected, "{line:?}");
        }
        let (_, threads) = names.completions("/resume 01ka");
        assert_eq!(threads[0].display, "01ka  First\\u{1b}");
    }

    #[test]
    fn paths_below_sandbox_are_completed() {
        let root = tempfile::tempdir().unwrap();
        let make = |path: &str| std::fs::create_dir_all(root.path().join(path)).unwrap();
        let write = |path: &str| std::fs::write(root.path().join(path), "").unwrap();
        make("notes/deep");
        make("data/kernel");
        for path in ["notes/a.md", "notes/b c.md", ".hidden", "next"] {
            write(path);
        }
        std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
        let names =
            CompletionNames { sandbox: root.path().to_owned(), ..CompletionNames::default() };
        for (line, expected) in [
            ("see @n", (5, words(&["next", "notes/"]))),
            ("@notes/", (1, words(&["notes/a.md", "notes/deep/"]))),
            ("@.h", (1, words(&[".hidden"]))),
            ("@d", (1, Vec::new())),
            ("@link/pass", (1, Vec::new())),
            ("@../", (1, Vec::new())),
            ("@/etc/pass", (1, Vec::new())),
            ("/skill x @ne", (10, words(&["next"]))),
            ("@data/k", (1, Vec::new())),
        ] {
            assert_eq!(offered(&names, line), expected, "{line:?}");
        }
    }

    #[test]
    fn paths_in_workspaces_are_completed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("data")).unwrap();
        std::fs::write(root.path().join("data/a.rs"), "").unwrap();
        let path = root.path().to_owned();
        let access = skillhost_payload::WorkspaceAccess::Read;
        let workspaces = vec![Workspace { label: "api".into(), path, access }];
        let sandbox = PathBuf::from("/nonexistent");
        let names = CompletionNames { sandbox, workspaces, ..CompletionNames::default() };
        for (line, expected) in [
            ("@w", (1, words(&["workspace:api/"]))),
            ("see @workspace:", (5, words(&["workspace:api/"]))),
            ("@workspace:api/", (1, words(&["workspace:api/data/"]))),
            ("@workspace:api/data/a", (1, words(&["workspace:api/data/a.rs"]))),
            ("@workspace:api/../", (1, Vec::new())),
            ("@workspace:web/", (1, Vec::new())),
        ] {
            assert_eq!(offered(&names, line), expected, "{line:?}");
        }
    }
}
