//! Tests of the examples, and of the help with them.

use std::path::Path;

use super::*;

/// Calls `each` with the path below the program of every visible command without subcommands.
fn visit_leaves(command: &Command, path: &str, each: &mut dyn FnMut(&str, &Command)) {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut found = false;
    for below in below.filter(|below| below.get_name() != "help") {
        found = true;
        visit_leaves(below, format!("{path} {}", below.get_name()).trim(), each);
    }
    if !found {
        each(path, command);
    }
}

/// Splits a command line into those of this program: a pipe has several programs, and a
/// redirection is an argument of the shell.
fn program_words(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_end_matches(" &");
    let line = match line.strip_prefix("source <(") {
        Some(inner) => inner.trim_end_matches(')'),
        None => line,
    };
    let split = |part: &str| {
        let words = shlex::split(part).unwrap_or_default();
        words.into_iter().take_while(|word| !matches!(&**word, ">" | "<")).collect()
    };
    let parts = line.split(" | ").map(split);
    parts.filter(|words: &Vec<String>| words.first().is_some_and(|it| it == "skillhost")).collect()
}

#[test]
fn every_example_is_accepted() {
    let (mut findings, mut count) = (Vec::new(), 0);
    for (path, examples) in command_examples() {
        let mut lines = examples.lines().filter(|line| !line.is_empty());
        if !lines.next().is_some_and(|line| line.starts_with("# ")) {
            findings.push(format!("[{path}] does not start with a comment"));
        }
        for line in lines.filter(|line| !line.starts_with('#')) {
            let programs = program_words(line);
            if programs.is_empty() {
                findings.push(format!("[{path}] {line}: not a command of this program"));
            }
            for words in programs {
                count += 1;
                let names: Vec<&str> = path.split(' ').collect();
                if let Err(error) = Cli::command().try_get_matches_from(&words) {
                    findings.push(format!("[{path}] {line}: {error}"));
                }
                let name = names[names.len() - 1];
                let is_named =
                    words.iter().any(|word| word == name || (name == "extension" && word == "ext"));
                if !is_named {
                    findings.push(format!("[{path}] {line}: of another command"));
                }
            }
        }
    }
    assert!(count > 80, "only {count} examples were found");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn commands_with_arguments_have_examples() {
    let examples = command_examples();
    let mut missing = Vec::new();
    let mut command = Cli::command();
    command.build();
    visit_leaves(&command, "", &mut |path, command| {
        let own = |argument: &clap::Arg| {
            !argument.is_hide_set() && !argument.is_global_set() && argument.get_id() != "help"
        };
        if command.get_arguments().any(own) && !examples.contains_key(path) {
            missing.push(path.to_owned());
        }
    });
    let file = "kernel/cli/src/cli/examples.txt";
    assert!(missing.is_empty(), "commands without a section in {file}: {missing:?}");
    for path in examples.keys() {
        let mut names = path.split(' ');
        let found = names.try_fold(&command, |at, name| at.find_subcommand(name));
        assert!(found.is_some(), "{file} has a section for `{path}`, which is no command");
    }
}

#[test]
fn skill_commands_have_one_task() {
    let command = Cli::command();
    let skill = command.find_subcommand("skill").unwrap();
    let mut names: Vec<&str> = skill
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(Command::get_name)
        .collect();
    let mut grouped: Vec<&str> =
        SKILL_TASKS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    names.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(grouped, names, "SKILL_TASKS in {}", file!());
}

#[test]
fn help_has_examples_and_tasks() {
    let mut command = help_command();
    command.build();
    let skill = command.find_subcommand_mut("skill").unwrap();
    let text = skill.render_help().to_string();
    for part in ["Find and read:\n  list ", "<COMMAND>\n\n", "\n  lint ", "\nGlobal options:"] {
        assert!(text.contains(part), "{part:?} of:\n{text}");
    }
    assert!(!text.contains("Commands:") && !text.contains(OTHER_TASKS), "{text}");
    let lint = skill.find_subcommand_mut("lint").unwrap().render_help().to_string();
    let (_, end) = lint.split_once("\nExamples:\n  # ").unwrap();
    assert!(end.contains("\n\nExit codes: "), "{lint}");
}

/// Renders the help of a command and its subcommands as Markdown.
fn render_command_help(command: &mut Command, path: &str, text: &mut String) {
    let name = format!("{path} {}", command.get_name()).trim_start().to_owned();
    let shown =
        if name == "skillhost skill" { group_by_task(command.clone()) } else { command.clone() };
    let help = shown.bin_name(&name).term_width(98).render_help().to_string();
    // Global options apply to every command and are listed once, at the top.
    let visible_help = if path.is_empty() {
        &*help
    } else {
        help.split("\nGlobal options:").next().unwrap_or(&help)
    };
    let level = "#".repeat(2 + name.split(' ').count().saturating_sub(2).min(1));
    let help: Vec<_> = visible_help.lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = write!(text, "\n{level} `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    let below: Vec<_> = command.get_subcommands().cloned().collect();
    let is_shown = |command: &Command| command.get_name() != "help" && !command.is_hide_set();
    for mut command in below.into_iter().filter(is_shown) {
        render_command_help(&mut command, &name, text);
    }
}

#[test]
fn reference_matches_help() {
    let mut command = documented_command();
    command.build();
    let mut text = "# Command line\n\nGenerated from the program's help; \
        `UPDATE_DOCS=1 cargo test -p skillhost` renews it.\n"
        .to_owned();
    render_command_help(&mut command, "", &mut text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/cli.md is old; UPDATE_DOCS=1 cargo test -p skillhost renews it");
}
