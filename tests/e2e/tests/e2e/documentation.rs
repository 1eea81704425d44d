//! Tests of the commands in tutorials, how-to pages and some others, as a reader types them at a
//! terminal.
//!
//! A block `sh` is run by one shell per page; all of its commands succeed. In a block `sh,fails` the
//! last one does not. A block `text` after it has lines of its output, in order, with `…` for any
//! text. A comment `# at "PROMPT" press "KEYS"` answers a question; with `enter` the Enter key
//! follows. Blocks `sh,manual` are not run. A block after a line with only a path, as in `a.yaml`:, is
//! the new contents of that file.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use test_support::{can_isolate, find_interpreter};

use crate::builds::toolchain;
use crate::fixtures::repository_root;
use crate::install::Installation;

/// A step of a page.
#[derive(Debug, PartialEq)]
pub(crate) enum PageStep {
    Commands { script: String, fails: bool },
    Output(Vec<String>),
    File { path: String, lines: Vec<String> },
}

/// Returns the blocks of a page that are run or compared.
pub(crate) fn page_steps(page: &str) -> Vec<PageStep> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            before = if line.is_empty() { before } else { line };
            continue;
        };
        let file = before.strip_prefix('`').and_then(|line| line.strip_suffix("`:"));
        before = "";
        let block: Vec<_> =
            lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
        match language {
            "sh" | "sh,fails" => {
                let script = block.join("\n");
                steps.push(PageStep::Commands { script, fails: language == "sh,fails" });
            }
            "text" => steps.push(PageStep::Output(block)),
            "yaml" | "rust" if file.is_some_and(|path| !path.contains('`')) => {
                let path = file.unwrap_or_default().to_owned();
                steps.push(PageStep::File { path, lines: block });
            }
            "sh,manual" | "yaml" | "json" | "toml" | "rust" => {}
            other => panic!("unknown language of a block: {other:?}"),
        }
    }
    steps
}

/// Returns the questions of a block with the keys that answer them, in order.
fn answers(script: &str) -> Vec<(&str, String)> {
    let mut answers = Vec::new();
    for comment in script.lines().filter_map(|line| line.split_once(" # at \"")).map(|(_, c)| c) {
        // The question, the verb, the keys, and a text before the next question.
        for [question, verb, keys, _] in
            comment.split('"').collect::<Vec<_>>().chunks(4).map(|c| {
                <[&str; 4]>::try_from(c).expect("an answer has a question, a verb and keys")
            })
        {
            let end = match verb.trim() {
                "press" => "",
                "enter" => "\r",
                other => panic!("unknown verb of an answer: {other:?}"),
            };
            answers.push((question, format!("{keys}{end}")));
        }
    }
    answers
}

/// Returns one script of all blocks, which marks the end of each.
pub(crate) fn page_script(steps: &[PageStep]) -> String {
    let mut script = String::from("set -o pipefail\n");
    for (number, step) in steps.iter().enumerate() {
        match step {
            PageStep::Commands { script: block, fails: true } => {
                let _ = write!(script, "{block}\n[ $? -ne 0 ] || exit 90\n");
            }
            PageStep::Commands { script: block, fails: false } => {
                let _ = write!(script, "set -e\n{block}\nset +e\n");
            }
            PageStep::File { path, lines } => {
                let text = lines.join("\n");
                let _ = write!(script, "cat > {path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE\n");
                continue;
            }
            PageStep::Output(_) => continue,
        }
        // The typed text of the marker differs from its output.
        let _ = writeln!(script, "printf 'end-of-%s\\n' {number}");
    }
    script
}

/// Lets a script build an extension quickly: optimizing the SDK takes minutes and changes nothing that
/// a page shows.
pub(crate) fn without_optimization(script: &str, id: &str) -> String {
    let build = format!("skillhost ext build {id} ");
    let change = "sed -i 's/^\\[profile.release\\]$/&\\nopt-level = 0/'";
    let manifest = format!("sandbox/extensions/{id}/Cargo.toml");
    script.replace(&build, &format!("{change} {manifest}\n{build}"))
}

/// Checks that an output has the lines of a page, in order.
#[track_caller]
fn compare_output(path: &str, lines: &[String], shown: &str) {
    let mut rest = shown;
    for part in lines.iter().flat_map(|line| line.split('…')).map(str::trim) {
        let found = rest.split_once(part).map(|(_, after)| after);
        rest = found.unwrap_or_else(|| panic!("{path}: {part:?} is not in the rest of:\n{shown}"));
    }
}

/// Returns whether the commands of a page can run on this machine; prints why not.
fn can_run_page(path: &str) -> bool {
    let needs_programs = path == "handler-skills.md";
    let is_contained = needs_programs || path == "scripts.md";
    !is_contained || (can_isolate() && (!needs_programs || find_interpreter("node").is_some()))
}

fn run_page(path: &str) {
    if !can_run_page(path) {
        return;
    }
    let page = fs::read_to_string(repository_root().join("docs").join(path)).unwrap();
    let steps = page_steps(&page);
    let installed = Installation::new();
    let directory = installed.outside().join("reader");
    fs::create_dir(&directory).unwrap();
    let script = installed.outside().join("page.sh");
    fs::write(&script, without_optimization(&page_script(&steps), "tea_time")).unwrap();

    let mut command = installed.command("bash".as_ref());
    let programs = format!(
        "{}:{}",
        installed.prefix().join("bin").display(),
        std::env::var("PATH").expect("a PATH")
    );
    let rustup = toolchain().into_iter().filter(|(name, _)| name.starts_with("RUSTUP"));
    command
        .arg(&script)
        .current_dir(&directory)
        .envs(rustup)
        .env("PATH", programs)
        // There is no network, and no crate but those of the installation.
        .env("CARGO_HOME", installed.outside().join("cargo"))
        .env("CARGO_NET_OFFLINE", "true");
    let mut terminal = installed.on_terminal(&mut command, (120, 50));
    for (number, step) in steps.iter().enumerate() {
        let PageStep::Commands { script, .. } = step else { continue };
        for (question, keys) in answers(script) {
            terminal.wait_for(question);
            terminal.send(&keys);
        }
        let shown = terminal.read_until(&format!("end-of-{number}"));
        if let Some(PageStep::Output(lines)) = steps.get(number + 1) {
            compare_output(path, lines, &shown);
        }
    }
    let left = terminal.finish();
    assert_eq!(left.output.status, 0, "{path}:\n{}", left.output.stdout);
}

/// The pages with commands outside of the directories of tutorials and how-to pages.
const REFERENCE_PAGES: [&str; 4] =
    ["first-extension.md", "handler-skills.md", "scripts.md", "session-tools.md"];

/// Defines one test per page, and the list of the pages.
macro_rules! pages {
    ($($name:ident: $path:literal,)+) => {
        $(
            #[test]
            fn $name() {
                run_page($path);
            }
        )+

        #[test]
        fn every_page_is_run() {
            let mut listed = vec![$($path.to_owned()),+];
            let mut present = pages_of("tutorials");
            present.extend(pages_of("howto"));
            present.extend(REFERENCE_PAGES.map(str::to_owned));
            listed.sort();
            present.sort();
            assert_eq!(listed, present);
            // The questions that new users have, and a tutorial for each kind of user.
            assert_eq!((pages_of("howto").len(), pages_of("tutorials").len()), (20, 5));
        }
    };
}

fn pages_of(folder: &str) -> Vec<String> {
    let directory: PathBuf = repository_root().join("docs").join(folder);
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| format!("{folder}/{}", name.to_str().unwrap())).collect()
}

pages! {
    tutorial_of_extension_authors_works: "first-extension.md",
    handler_skills_page_works: "handler-skills.md",
    scripts_page_works: "scripts.md",
    session_tools_page_works: "session-tools.md",
    tutorial_of_agent_authors_works: "tutorials/agent-author.md",
    tutorial_of_agent_users_works: "tutorials/agent-user.md",
    tutorial_of_operators_works: "tutorials/operator.md",
    tutorial_of_other_agents_works: "tutorials/other-agents.md",
    tutorial_of_skill_authors_works: "tutorials/skill-author.md",
    agent_page_works: "howto/agent.md",
    background_task_page_works: "howto/background-task.md",
    backup_page_works: "howto/backup.md",
    channel_extension_page_works: "howto/channel-extension.md",
    ci_page_works: "howto/ci.md",
    extension_task_page_works: "howto/extension-task.md",
    homes_page_works: "howto/homes.md",
    mcp_server_page_works: "howto/mcp-server.md",
    ollama_page_works: "howto/ollama.md",
    pre_commit_page_works: "howto/pre-commit.md",
    proposals_page_works: "howto/proposals.md",
    roots_page_works: "howto/roots.md",
    sandbox_page_works: "howto/sandbox.md",
    secrets_page_works: "howto/secrets.md",
    service_page_works: "howto/service.md",
    skill_not_chosen_page_works: "howto/skill-not-chosen.md",
    skill_script_page_works: "howto/skill-script.md",
    uninstall_page_works: "howto/uninstall.md",
    upgrade_page_works: "howto/upgrade.md",
    workspaces_page_works: "howto/workspaces.md",
}

#[test]
fn steps_of_page_are_found() {
    let page = "`a/b.yaml`:\n\n```yaml\nc: 1\n```\n\nThe `d`:\n\n```yaml\ne: 1\n```\n\nText.\n\n```sh\nls  # at \"y/N\" press \"y\"\n```\n\n```text\na…b\n```\n\n```sh,manual\nrm\n```\n";
    let steps = page_steps(page);
    let script = "ls  # at \"y/N\" press \"y\"".to_owned();
    assert_eq!(answers(&script), [("y/N", "y".to_owned())]);
    assert_eq!(
        steps,
        [
            PageStep::File { path: "a/b.yaml".to_owned(), lines: vec!["c: 1".to_owned()] },
            PageStep::Commands { script, fails: false },
            PageStep::Output(vec!["a…b".to_owned()])
        ]
    );
}
