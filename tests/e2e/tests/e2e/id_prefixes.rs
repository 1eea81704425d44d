//! Tests of shortened ids, and of their completion in a shell.

use test_support::{Output, TestHome};

use crate::fixtures::{home, skill_md};
use crate::proposals::{beads_home, beads_with, propose_text};

fn filled_home() -> TestHome {
    home()
        .skill("code", &skill_md("Writes code.", "Write."))
        .skill("code-review", &skill_md("Reviews code.\u{7}", "Review."))
        .manifest("plain", "id: plain\nname: Plain agent\nagent: {instructions: Hi.}\n")
        .manifest("planner", "id: planner\nname: Planner\nagent: {instructions: Hi.}\n")
        .extension("weather", "id: weather\nname: Weather\nagent: {instructions: Hi.}\n")
}

#[test]
fn unique_prefix_stands_for_id() {
    let home = filled_home();
    for (args, start) in [
        (&["skill", "show", "gr"][..], "greet\n"),
        (&["skill", "show", "code"], "code\n"),
        (&["skill", "show", "code-"], "code-review\n"),
        (&["skill", "read", "gr"], "Skill loaded: greet "),
        (&["agent", "show", "plai"], "plain  Plain agent\n"),
        (&["skill", "rules", "name.form"], "# name.format\n"),
        (&["tool", "show", "read_skill_"], "read_skill_resource  skill_registry\n"),
        (&["tool", "list", "--agent", "plai"], "TOOL"),
    ] {
        let output = home.skillhost(args);
        assert!(output.stdout.starts_with(start), "{args:?}: {output}");
    }
    let waiting = home.skillhost(["ext", "approve", "wea", "--print", "--json"]).success().json();
    assert_eq!(waiting["id"], "weather");
    let history = home.skillhost(["skill", "history", "gr", "--json"]).success().json();
    assert_eq!(history["skill_id"], "greet");
}

#[test]
fn ambiguous_prefix_is_usage_error() {
    let home = filled_home();
    for args in
        [&["skill", "show", "co"][..], &["skill", "history", "co"], &["skill", "read", "co"]]
    {
        let output = home.skillhost(args).exits(2);
        let expected = "error: `co` is the beginning of several skills\n\
                        hint: give more of: code, code-review\n";
        assert_eq!((&*output.stdout, &*output.stderr), ("", expected), "{args:?}");
    }
    let output = home.skillhost(["agent", "show", "pla"]).exits(2);
    assert!(output.stderr.contains("give more of: plain, planner\n"), "{output}");
    // Nothing is called or changed by a guess.
    home.skillhost(["tool", "call", "ech"]).exits(3);
    home.skillhost(["skill", "disable", "gr"]).exits(3);
    assert_eq!(home.skillhost(["skill", "disable", "greet"]).success().stdout, "greet: on → off\n");
    home.skillhost(["skill", "show", "zzz"]).exits(3);
}

/// Runs the program as the script of bash does, with the last word to be completed.
fn complete(home: &TestHome, words: &[&str]) -> Output {
    let mut command = home.command();
    command
        .env("SKILLHOST_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "false")
        .args(["--", "skillhost"])
        .args(words);
    home.start(&mut command).finish().success()
}

fn completions(home: &TestHome, words: &[&str]) -> Vec<String> {
    let output = complete(home, words);
    assert_eq!(output.stderr, "", "{words:?}");
    output.stdout.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn ids_are_completed() {
    let home = filled_home();
    assert_eq!(completions(&home, &["skill", "show", "co"]), ["code", "code-review"]);
    assert_eq!(completions(&home, &["skill", "disable", "greet", "code-"]), ["code-review"]);
    assert_eq!(completions(&home, &["agent", "show", "pl"]), ["plain", "planner"]);
    assert_eq!(completions(&home, &["ask", "--agent", "plan"]), ["planner"]);
    assert_eq!(completions(&home, &["ext", "approve", "we"]), ["weather"]);
    assert_eq!(completions(&home, &["skill", "rules", "name.form"]), ["name.format"]);
    assert_eq!(completions(&home, &["chat", "--model", "scr"]), ["script/demo"]);
    let id = home.skillhost(["ask", "--agent", "plain", "--json", "hi"]).success().json();
    let thread = id["thread"].as_str().unwrap().to_owned();
    assert_eq!(completions(&home, &["thread", "show", &thread[..4]]), [thread]);
    let root = home.root().display().to_string();
    assert_eq!(completions(&home, &["--home", &root, "skill", "show", "gr"]), ["greet"]);
}

#[test]
fn proposals_are_completed_without_changes() {
    let home = beads_home();
    propose_text(&home, &beads_with("THREE"), "Better.");
    assert_eq!(completions(&home, &["skill", "proposal", "reject", ""]).first().unwrap(), "1");
}

/// Returns the CPU time that the commands of this test have used so far, in milliseconds.
fn children_cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The fields after the name of the program, which may have blanks.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // In hundredths of a second: user and system time of children that have ended.
    fields[13..15].iter().map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum()
}

/// One test of all, because a process counts the time of its children together.
#[test]
#[cfg(target_os = "linux")]
fn many_threads_cost_little() {
    /// A program without optimization that reads every journal takes seconds.
    const LIMIT_MS: u64 = 1_000;
    let home = filled_home();
    let asked = home.skillhost(["ask", "--agent", "plain", "--json", "hello"]).success().json();
    let newest = asked["thread"].as_str().unwrap().to_owned();
    let directory = home.path("sandbox/data/kernel/threads");
    let journal = directory.join(format!("{newest}.jsonl"));
    for number in 0..10_000 {
        std::fs::hard_link(&journal, directory.join(format!("0000{number:05}.jsonl"))).unwrap();
    }
    let before = children_cpu_ms();
    assert_eq!(
        completions(&home, &["thread", "show", &newest[..5]]),
        std::slice::from_ref(&newest)
    );
    assert_eq!(completions(&home, &["chat", "--thread", "000001"]).len(), 1_000);
    let shown = home.skillhost(["thread", "show", &newest[..8], "--json"]).success().json();
    assert_eq!(shown["id"], newest);
    home.skillhost(["thread", "show", "0000"]).exits(2);
    let deleted = home.skillhost(["thread", "rm", "--yes", &newest[..8]]).success();
    assert_eq!(deleted.stdout, format!("deleted {newest}\n"));
    let used = children_cpu_ms() - before;
    assert!(used < LIMIT_MS, "{used} ms");
    assert!(!journal.exists());
}

#[test]
fn removed_skill_keeps_its_name() {
    let home = filled_home();
    home.skillhost(["skill", "history", "code"]).success();
    std::fs::remove_dir_all(home.path("sandbox/skills/code")).unwrap();
    let history = home.skillhost(["skill", "history", "code", "--json"]).success().json();
    assert_eq!(history["skill_id"], "code");
    let difference = home.skillhost(["skill", "diff", "code", "--json"]);
    assert!(!difference.stdout.contains("code-review"), "{difference}");
    // The beginning of a name that was never recorded still stands for the present skill.
    let history = home.skillhost(["skill", "history", "code-r", "--json"]).success().json();
    assert_eq!(history["skill_id"], "code-review");
}

#[test]
fn deletion_requires_consent() {
    let home = filled_home();
    let ask = || home.skillhost(["ask", "--agent", "plain", "--json", "hello"]).success().json();
    let ids = [ask(), ask()].map(|asked| asked["thread"].as_str().unwrap().to_owned());
    home.skillhost(["thread", "delete", &ids[0]]).exits(2);
    home.skillhost(["thread", "rm", "--yes", &ids[0], "zz"]).exits(3);
    let mut terminal =
        home.on_terminal(home.command().args(["thread", "rm", &ids[0], &ids[0]]), (120, 40));
    terminal.wait_for(&format!("{}  hello", ids[0]));
    terminal.wait_for("delete? [y]es, [N]o");
    terminal.send("n\r");
    assert_eq!(terminal.finish().output.status, 1);
    let left = home.skillhost(["thread", "list", "--json"]).success().json();
    assert_eq!(left["threads"].as_array().unwrap().len(), 2);
    let mut terminal = home.on_terminal(home.command().args(["thread", "rm", &ids[0]]), (120, 40));
    terminal.wait_for("delete?");
    terminal.send("y\r");
    terminal.wait_for(&format!("deleted {}", ids[0]));
    assert_eq!(terminal.finish().output.status, 0);
    let left = home.skillhost(["thread", "list", "--json"]).success().json();
    assert_eq!(left["threads"][0]["id"], ids[1]);
    home.skillhost(["thread", "rm", "--yes", "../../x"]).exits(2);
}

#[test]
fn completion_is_silent_on_errors() {
    let home = home().settings("{broken");
    assert_eq!(completions(&home, &["skill", "show", "zz"]), Vec::<String>::new());
    assert_eq!(completions(&home, &["agent", "show", "zz"]), Vec::<String>::new());
    let mut command = home.command();
    command.env("SKILLHOST_COMPLETE", "no-such-shell").args(["--", "skillhost", ""]);
    let output = home.start(&mut command).finish().success();
    assert_eq!((&*output.stdout, &*output.stderr), ("", ""));
}

#[test]
fn bash_completes_through_script() {
    let bash = std::path::Path::new("/bin/bash");
    if !bash.exists() {
        return;
    }
    let home = filled_home();
    let directory = test_support::binary().parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    let script = "source <(skillhost completions bash)\n\
                  COMP_WORDS=(skillhost skill show code-); COMP_CWORD=3; COMP_TYPE=9\n\
                  _clap_complete_skillhost skillhost code- show\n\
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = home.command_of(bash);
    command
        .args(["--noprofile", "--norc", "-c", script])
        .env("PATH", format!("{directory}:{path}"));
    let output = home.start(&mut command).finish().success();
    assert_eq!(output.stdout.trim_end(), "code-review", "{output}");
}
