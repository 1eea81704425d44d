//! Tests of workspaces: the user's directories that agents reach.

use std::fs;
use std::os::unix::fs::symlink;

use mock_model::{MockModel, Step};
use serde_json::json;
use test_support::{GitRepository, TestHome, can_isolate};

use crate::agents_scene::agents_home;

/// Creates a home with agents and, next to it, the directory `project`.
fn project_home(mock: &MockModel) -> TestHome {
    let home = agents_home(mock);
    let source = home.outside().join("project/src");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("lib.rs"), "fn answer() {}\n").unwrap();
    home
}

fn settings_with_project(home: &TestHome, access: &str) {
    let settings = fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    let path = home.outside().join("project");
    home.write(
        "skillhost.yaml",
        format!(
            "{settings}\nworkspaces:\n  - {{label: project, path: {}, access: {access}}}\n",
            path.display()
        ),
    );
}

#[test]
fn settings_workspace_reaches_tools_and_prompt() {
    let mock = MockModel::with([
        Step::calls("search_text", r#"{"pattern": "answer", "path": "workspace:project"}"#),
        Step::calls("read_file", r#"{"path": "workspace:project/src/lib.rs"}"#),
        Step::calls("write_file", r#"{"path": "workspace:project/new.md", "content": "x"}"#),
        Step::text("Found."),
    ]);
    let home = project_home(&mock);
    settings_with_project(&home, "read");
    home.skillhost(["ask", "--agent", "worker", "--approve", "write_file", "Where?"]).success();
    let requests = mock.requests();
    let system = requests[0].system();
    assert!(system.contains("- workspace:project (read)\n"), "{system}");
    // The machine's paths are not for the model.
    assert!(!system.contains(&home.outside().display().to_string()), "{system}");
    assert!(requests[1].last_text().contains("  1: fn answer() {}"), "{}", requests[1].last_text());
    assert!(requests[2].last_text().starts_with("fn answer() {}"), "{}", requests[2].last_text());
    let refused = requests[3].last_text();
    assert!(refused.contains("denied: workspace `project` is read-only"), "{refused}");
    assert!(!home.outside().join("project/new.md").exists());
    // The operator's own calls reach it as well.
    let found = home.skillhost(["tool", "call", "find_files", r#"{"path":"workspace:project"}"#]);
    assert_eq!(found.success().stdout, "workspace:project/src/lib.rs\n[1 file]\n");
    let rows = home.skillhost(["config", "--json"]).success().stdout;
    assert!(rows.contains("workspaces"), "{rows}");
}

#[test]
fn workspace_write_is_shown_and_approved() {
    let write = |name: &str| {
        let path = format!("workspace:project/{name}");
        Step::calls("write_file", &json!({"path": path, "content": "new\n"}).to_string())
    };
    let mock = MockModel::with([
        write("src/a.rs"),
        write("src/b.rs"),
        write(".envrc"),
        Step::text("Done."),
    ]);
    let home = project_home(&mock);
    let project = home.outside().join("project");
    let mut command = home.command();
    command.args(["chat", "--agent", "worker", "--access", "write", "--workspace"]).arg(&project);
    let mut chat = home.on_terminal(&mut command, (100, 40));
    chat.wait_for("> ");
    chat.send("Write\r");
    chat.wait_for("changes files in workspace:project:");
    chat.wait_for("create workspace:project/src/a.rs");
    chat.wait_for("+new");
    chat.wait_for("[s] yes and until the end of this session");
    chat.wait_for("[N]o");
    chat.send("s\r");
    // An approval for the session does not cover hidden files, which may decide what runs.
    chat.wait_for("create workspace:project/.envrc");
    chat.wait_for("allow it? [y]es, [e]dit");
    chat.wait_for("[N]o");
    chat.send("n\r");
    chat.wait_for("Done.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let _ = chat.finish();
    assert_eq!(fs::read_to_string(project.join("src/a.rs")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(project.join("src/b.rs")).unwrap(), "new\n");
    assert!(!project.join(".envrc").exists());
}

#[test]
fn running_kernel_gives_workspace_per_message() {
    let mock = MockModel::with([
        Step::calls("read_file", r#"{"path": "workspace:p/src/lib.rs"}"#),
        Step::text("Read."),
        Step::calls("read_file", r#"{"path": "workspace:p/src/lib.rs"}"#),
        Step::text("Not there."),
        Step::calls("read_file", r#"{"path": "workspace:kept/src/lib.rs"}"#),
        Step::text("Read."),
    ]);
    let home = project_home(&mock);
    let project = home.outside().join("project").display().to_string();
    let run = home.spawn(["run", "--workspace", &format!("kept={project}")]);
    run.line_with("running; Ctrl-C ends it");
    let named = format!("p={project}");
    home.skillhost(["ask", "--agent", "worker", "--workspace", &named, "Read it"]).success();
    home.skillhost(["ask", "--agent", "worker", "Read it"]).success();
    home.skillhost(["ask", "--agent", "worker", "Read it"]).success();
    let requests = mock.requests();
    assert!(requests[1].last_text().starts_with("fn answer() {}"), "{}", requests[1].last_text());
    let missing = requests[3].last_text();
    assert!(missing.contains("workspace `p` not found"), "{missing}");
    assert!(missing.contains("the workspaces are workspace:kept"), "{missing}");
    assert!(requests[5].last_text().starts_with("fn answer() {}"), "{}", requests[5].last_text());
    run.interrupt().success();
}

#[test]
fn home_and_its_parents_are_refused() {
    let mock = MockModel::new();
    let home = project_home(&mock);
    symlink(home.root(), home.outside().join("alias")).unwrap();
    let ask = |dir: &str| home.skillhost(["ask", "--agent", "worker", "--workspace", dir, "Hi"]);
    insta::assert_snapshot!(ask("/"), @"
    exit 2
    --- stderr
    error: workspace /: this is the root of the file system
    hint: name the directory of one project
    ");
    insta::assert_snapshot!(ask("."), @"
    exit 2
    --- stderr
    error: workspace [HOME]: this is the home itself
    hint: agents could change their own settings and approvals; name a directory outside of the home, or create the home elsewhere
    ");
    insta::assert_snapshot!(ask(".."), @"
    exit 2
    --- stderr
    error: workspace [OUTSIDE]: the home [HOME] lies in it
    hint: agents could change their own settings and approvals; name a directory outside of the home, or create the home elsewhere
    ");
    insta::assert_snapshot!(ask("../alias"), @"
    exit 2
    --- stderr
    error: workspace [HOME]: this is the home itself
    hint: agents could change their own settings and approvals; name a directory outside of the home, or create the home elsewhere
    ");
    insta::assert_snapshot!(ask("sandbox/skills"), @"
    exit 2
    --- stderr
    error: workspace [HOME]/sandbox/skills: it belongs to the home's sandbox/
    hint: agents reach sandbox/ without a workspace; name another directory
    ");
    insta::assert_snapshot!(ask("../none"), @"
    exit 3
    --- stderr
    error: workspace [HOME]/../none: No such file or directory (os error 2)
    hint: check that the directory exists and may be read
    ");
    insta::assert_snapshot!(ask("A=../project"), @r#"
    exit 2
    --- stderr
    error: workspace label "A" is not valid
    hint: a label has 1 to 64 lowercase letters, digits, `_` and `-`, such as project
    "#);
    // A command line that is refused leaves no thread behind.
    assert_eq!(home.skillhost(["thread", "list"]).success().stdout, "");
    assert!(mock.requests().is_empty());
}

#[test]
fn link_and_missing_workspace_are_stated() {
    let mock = MockModel::with([Step::text("Yes."), Step::text("Yes.")]);
    let home = project_home(&mock);
    symlink(home.outside().join("project"), home.outside().join("link")).unwrap();
    let asked =
        home.skillhost(["ask", "--agent", "worker", "--workspace", "../link", "Hi"]).success();
    let stated = "note: workspace `project` is [OUTSIDE]/project, which [HOME]/../link leads to\n";
    assert!(asked.stderr.contains(stated), "{asked}");
    settings_with_project(&home, "read");
    fs::remove_dir_all(home.outside().join("project")).unwrap();
    let asked = home.skillhost(["ask", "--agent", "worker", "Hi"]).success();
    assert!(asked.stderr.contains("workspace `project` is not available"), "{asked}");
    assert!(!mock.requests()[1].system().contains("workspace:"));
}

#[test]
fn working_directory_is_offered_on_terminal_only() {
    let mock = MockModel::with([Step::text("Nothing."), Step::text("Read."), Step::text("No.")]);
    let home = project_home(&mock);
    let project = home.outside().join("project");
    let ask = || {
        let mut command = home.command();
        command.current_dir(&project).arg("--home").arg(home.root());
        command.args(["ask", "--agent", "worker", "Hi"]);
        command
    };
    home.start(&mut ask()).finish().success();
    for answer in ["r\r", "\r"] {
        let mut terminal = home.on_terminal(&mut ask(), (100, 40));
        terminal.wait_for("May the agent see the files in");
        terminal.send(answer);
        terminal.wait_for("resume the thread with");
        let _ = terminal.finish();
    }
    let named: Vec<bool> = mock
        .requests()
        .iter()
        .map(|request| request.system().contains("workspace:project (read)"))
        .collect();
    assert_eq!(named, [false, true, false]);
}

/// The shipped skill and the tools of agents are enough to review a branch of a real repository.
#[test]
fn branch_of_repository_is_reviewed() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "code-review"}"#),
        Step::calls("git_diff", r#"{"path": "workspace:project"}"#),
        Step::calls("read_file", r#"{"path": "workspace:project/src/store.rs"}"#)
            .call("search_text", r#"{"pattern": "save\\(", "path": "workspace:project"}"#),
        Step::text("Verdict: request changes"),
    ]);
    let home = project_home(&mock);
    for file in ["SKILL.md", "references/rust.md"] {
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sandbox/skills/code-review/");
        let text = fs::read_to_string(format!("{shipped}{file}")).unwrap();
        home.write(format!("sandbox/skills/code-review/{file}"), text);
    }
    let old = [
        ("src/main.rs", "fn main() {\n    save(1);\n}\n"),
        ("src/store.rs", "fn save(n: u8) {\n    rename(n);\n}\n"),
    ];
    let new = [old[0], ("src/store.rs", "fn save(n: u8) {\n    truncate(n);\n    write(n);\n}\n")];
    let mut repository = GitRepository::create(home.outside().join("project"));
    let first = repository.commit("main", &[], &old, "Start");
    repository.commit("save-faster", &[first], &new, "Save without a copy");
    repository.check_out("save-faster");
    repository.restore(&new);
    let project = home.outside().join("project").display().to_string();
    let task = "Review the changes on my branch";
    let asked =
        home.skillhost(["ask", "--agent", "worker", "--workspace", &project, task]).success();
    assert_eq!(asked.stdout, "Verdict: request changes\n");
    let requests = mock.requests();
    let skill = requests[1].last_text();
    assert!(skill.contains("what goes wrong if this is merged as it is?"), "{skill}");
    let diff = requests[2].last_text();
    for part in [
        "Changes on the branch since it left main at ",
        "(on branch save-faster):\n",
        " Ada: Save without a copy\n",
        " M workspace:project/src/store.rs  +2 -1\n",
        "-    rename(n);\n+    truncate(n);\n+    write(n);\n",
    ] {
        assert!(diff.contains(part), "{part}\n{diff}");
    }
    let messages = requests[3].messages();
    let results: Vec<&str> = messages.iter().rev().take(2).map(|it| it.text.as_str()).collect();
    assert!(results[1].starts_with("fn save(n: u8) {"), "{}", results[1]);
    assert!(
        results[0].contains("workspace:project/src/main.rs\n  2:     save(1);"),
        "{}",
        results[0]
    );
    // Nothing was asked, and nothing was written.
    assert_eq!(fs::read_to_string(home.outside().join("project/src/store.rs")).unwrap(), new[1].1);
}

#[test]
fn command_requires_approval_of_exact_line() {
    let run = |command: &str| {
        let arguments = json!({"command": command, "directory": "workspace:project"});
        Step::calls("run_command", &arguments.to_string())
    };
    let mock = MockModel::with([
        run("cat src/lib.rs; echo \"key=[$OPENAI_API_KEY]\""),
        Step::text("Refused."),
        run("ls src"),
        run("ls src"),
        run("ls"),
        Step::text("Done."),
    ]);
    let home = project_home(&mock);
    let contained = can_isolate();
    if !contained {
        let settings = fs::read_to_string(home.path("skillhost.yaml")).unwrap();
        home.write("skillhost.yaml", format!("{settings}\nsandbox: off\n"));
    }
    let project = home.outside().join("project");
    // Without a person, nothing runs.
    let named = project.display().to_string();
    let arguments =
        ["ask", "--agent", "worker", "--access", "write", "--workspace", &named, "Run it"];
    home.skillhost(arguments).success();
    let refused = mock.requests()[1].last_text();
    assert!(refused.contains("call of `run_command` was not approved"), "{refused}");
    let mut command = home.command();
    command.args(["chat", "--agent", "worker", "--access", "write", "--workspace"]).arg(&project);
    let mut chat = home.on_terminal(&mut command, (140, 40));
    chat.wait_for("> ");
    chat.send("Run\r");
    chat.wait_for(match contained {
        true => "contained (isolation level ",
        false => "not contained (sandbox: off), for at most 120 s:",
    });
    chat.wait_for("$ ls src");
    chat.wait_for("in ");
    if contained {
        chat.wait_for("no network");
    }
    chat.wait_for("[s] yes and until the end of this session");
    chat.wait_for("[N]o");
    chat.send("s\r");
    // The same line does not ask again, another one does.
    chat.wait_for("$ ls");
    chat.wait_for("[N]o");
    chat.send("n\r");
    chat.wait_for("Done.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let _ = chat.finish();
    let requests = mock.requests();
    for answer in [requests[3].last_text(), requests[4].last_text()] {
        assert!(answer.starts_with("exit code 0 after "), "{answer}");
        let level = if contained { "contained at isolation level " } else { "not contained" };
        assert!(answer.contains(level), "{answer}");
        assert!(answer.ends_with("--- stdout\nlib.rs\n"), "{answer}");
    }
    assert!(requests[5].last_text().contains("was not approved"), "{}", requests[5].last_text());
}
