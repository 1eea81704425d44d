//! Tests of scripts of skills: run by the operator, and by agents with and without approval.

use std::fs;
use std::path::Path;

use mock_model::{MockModel, Step, Wire};
use test_support::{Output, TestHome, can_isolate, program};

use crate::agents_scene::{agents_home, agents_home_on};

const SKILL: &str = "---\nname: demo\ndescription: Demos. Use for demos.\n\
                     allowed-tools: read_skill skills.run_script\n---\nRun scripts/a.sh.\n";
const LOAD: &str = r#"{"skill_id": "demo"}"#;
const RUN: &str = r#"{"path": "scripts/a.sh", "args": ["x"]}"#;

fn demo_home(mock: &MockModel) -> TestHome {
    add_demo(agents_home(mock))
}

fn add_demo(home: TestHome) -> TestHome {
    home.skill("demo", SKILL)
        .file("sandbox/skills/demo/scripts/a.sh", "echo \"ran $1\"; echo made > made.txt\n")
}

/// Returns the digest of the skill's files, and approves its scripts.
fn approve_demo(home: &TestHome) -> String {
    let shown = home.skillhost(["skill", "show", "demo", "--json"]).success().json();
    let digest = shown["scripts"]["digest"].as_str().unwrap();
    assert!(digest.starts_with("sha256:"), "{digest}");
    home.skillhost(["skill", "approve-scripts", "demo", "--yes", "--digest", digest]).success();
    digest.to_owned()
}

fn can_run() -> bool {
    can_isolate() && program("bash").is_some()
}

#[test]
fn operator_runs_script_with_its_exit_code() {
    if !can_run() {
        return;
    }
    let home = demo_home(&MockModel::new());
    home.write("sandbox/skills/demo/scripts/b.sh", "cat made.txt; echo no >&2; exit 7\n");
    let run = |path: &str| home.skillhost(["skill", "run", "demo", path, "y"]);
    assert_eq!(run("scripts/a.sh").success().stdout, "ran y\n");
    assert!(home.path("sandbox/work/operator/made.txt").exists());
    let failed = run("scripts/b.sh").exits(7);
    assert_eq!(failed.stdout, "made\n");
    assert!(failed.stderr.contains("no"), "{}", failed.stderr);
    run("scripts/missing.sh").exits(3);
    let explained = home.skillhost(["skill", "run", "demo", "scripts/a.sh", "--explain"]);
    let explained = explained.success().stdout;
    assert!(explained.contains("seconds 30 (default)"), "{explained}");
    home.skillhost(["skill", "run", "demo", "scripts/a.sh", "--env", "LD_PRELOAD=x"]).exits(2);
    home.skillhost(["skill", "run", "demo", "scripts/a.sh", "--workdir", "nowhere"]).exits(3);
}

#[test]
fn unapproved_script_is_not_run() {
    if !can_run() {
        return;
    }
    let mock = MockModel::with([
        Step::calls("skills.run_script", RUN),
        Step::calls("read_skill", LOAD),
        Step::calls("skills.run_script", RUN),
        Step::text("Denied."),
    ]);
    let home = demo_home(&mock);
    home.skillhost(["ask", "--agent", "worker", "Run it"]).success();
    let requests = mock.requests();
    let unloaded = requests[1].last_text();
    assert!(unloaded.contains("denied: load a skill first"), "{unloaded}");
    // `allowed-tools` names the tool, and nobody is asked.
    let denied = requests[3].last_text();
    assert!(denied.contains("was not approved"), "{denied}");
    assert!(!home.path("sandbox/work").exists() || !has_made_file(&home));
}

fn has_made_file(home: &TestHome) -> bool {
    let threads = fs::read_dir(home.path("sandbox/work")).unwrap();
    threads.flatten().any(|thread| thread.path().join("made.txt").exists())
}

#[test]
fn approved_scripts_run_until_they_change() {
    if !can_run() {
        return;
    }
    let ask = || {
        vec![
            Step::calls("read_skill", LOAD),
            Step::calls("skills.run_script", RUN),
            Step::text("Done."),
        ]
    };
    let mock = MockModel::with(ask().into_iter().chain(ask()).chain(ask()));
    let home = demo_home(&mock);
    let unasked = home.skillhost(["skill", "approve-scripts", "demo"]).exits(2);
    let digest = approve_demo(&home);
    let command = format!("skillhost skill approve-scripts demo --yes --digest {digest}");
    assert!(unasked.stderr.contains(&command), "{unasked}");
    home.write("sandbox/skills/plain/SKILL.md", "---\nname: plain\ndescription: Text.\n---\n");
    let plain = home.skillhost(["skill", "approve-scripts", "plain"]).exits(3);
    assert!(plain.stderr.contains("`plain` has no scripts or programs"), "{plain}");
    let approve = ["skill", "approve-scripts", "demo", "--yes", "--digest", &digest];
    let shown = home.skillhost(["skill", "show", "demo"]).success().stdout;
    assert!(shown.contains("\nscripts      approved\n"), "{shown}");
    assert!(shown.contains(&format!("\nfiles digest {digest}\n")), "{shown}");
    home.skillhost(["ask", "--agent", "worker", "Run it"]).success();
    let ran = mock.requests()[2].last_text();
    assert!(ran.contains("exit code 0") && ran.contains("ran x"), "{ran}");
    assert!(has_made_file(&home));
    // One byte of any file ends the approval.
    home.write("sandbox/skills/demo/scripts/a.sh", "echo changed\n");
    home.skillhost(["ask", "--agent", "worker", "Run it"]).success();
    let denied = mock.requests()[5].last_text();
    assert!(denied.contains("was not approved") && !denied.contains("ran x"), "{denied}");
    home.skillhost(approve).exits(4);
    let shown = home.skillhost(["skill", "show", "demo"]).success().stdout;
    assert!(shown.contains("\nscripts      files changed: scripts/a.sh\n"), "{shown}");
    home.skillhost(["skill", "approve-scripts", "demo", "--revoke"]).success();
    home.skillhost(["ask", "--agent", "worker", "--approve", "skills.run_script", "Run it"])
        .success();
    let ran = mock.requests()[8].last_text();
    assert!(ran.contains("changed"), "{ran}");
}

#[test]
fn short_name_runs_script_on_each_wire() {
    if !can_run() {
        return;
    }
    for wire in Wire::ALL {
        let mock = MockModel::with([
            Step::calls("read_skill", LOAD),
            Step::calls("run_script", RUN),
            Step::calls("skills_run_script", RUN),
            Step::text("Done."),
        ]);
        let home = add_demo(agents_home_on(&mock, wire));
        approve_demo(&home);
        home.skillhost(["ask", "--agent", "worker", "Run it"]).success();
        let requests = mock.requests();
        for request in &requests[2..] {
            let ran = request.last_text();
            assert!(ran.contains("ran x"), "{wire:?}: {ran}");
        }
        // Only the complete name is offered.
        let offered = requests[0].tools();
        assert_eq!(offered.iter().filter(|tool| tool.ends_with("run_script")).count(), 1);
    }
}

/// Runs a script of the skills in a home from another directory, with its own temporary directory.
fn run_from(home: &TestHome, directory: &Path, path: &str) -> Output {
    let mut command = home.command();
    command.current_dir(directory).env("TMPDIR", home.outside().join("tmp"));
    command.args(["skill", "run", "--root"]).arg(home.path("sandbox/skills"));
    command.args(["demo", path, "x"]);
    home.start(&mut command).finish()
}

fn list_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn run_outside_of_home_leaves_results_only() {
    if !can_run() {
        return;
    }
    let home = demo_home(&MockModel::new());
    home.write("sandbox/skills/demo/scripts/quiet.sh", "echo quiet\n");
    let temporary = home.outside().join("tmp");
    // As a killed process leaves it.
    fs::create_dir_all(temporary.join("skillhost-run-abandoned/home")).unwrap();
    assert_eq!(run_from(&home, home.outside(), "scripts/quiet.sh").success().stdout, "quiet\n");
    run_from(&home, home.outside(), "scripts/missing.sh").exits(3);
    assert_eq!(list_names(&temporary), [""; 0]);
    let ran = run_from(&home, home.outside(), "scripts/a.sh").success();
    let work = list_names(&temporary);
    assert!(work.len() == 1 && work[0].starts_with("skillhost-work-"), "{work:?}");
    let made = format!("note: wrote [OUTSIDE]/tmp/{}/made.txt (5 bytes)", work[0]);
    assert!(ran.stderr.contains(&made), "{ran}");
    assert!(temporary.join(&work[0]).join("made.txt").exists());
}

#[test]
fn untrusted_home_runs_skills_of_named_roots() {
    if !can_run() {
        return;
    }
    // Settings that would give the script the whole file system.
    let settings = "sandbox: {scripts: {filesystem: {allowWrite: [/]}}}\n";
    let home = add_demo(TestHome::new()).settings(settings);
    fs::create_dir(home.outside().join("tmp")).unwrap();
    let refused = home.skillhost(["skill", "run", "demo", "scripts/a.sh"]).exits(5);
    assert!(refused.stderr.contains("not trusted"), "{refused}");
    let ran = run_from(&home, &home.root(), "scripts/a.sh").success();
    assert_eq!(ran.stdout, "ran x\n");
    assert!(ran.stderr.contains("note: [HOME] is not trusted: its settings are not used"), "{ran}");
    assert!(!home.path("sandbox/work").exists());
    let script = format!("echo out > '{}' || exit 9\n", home.path("out").display());
    home.write("sandbox/skills/demo/scripts/b.sh", script);
    run_from(&home, &home.root(), "scripts/b.sh").exits(9);
}

#[test]
fn policy_of_unknown_skill_is_noted() {
    let mock = MockModel::new();
    let home = demo_home(&mock);
    let sandbox =
        "sandbox: {skills: {demo: {limits: {seconds: 9}}, gone: {limits: {seconds: 9}}}}\n";
    home.write("skillhost.yaml", mock.settings(Wire::Openai) + sandbox);
    let shown = home.skillhost(["ext", "doctor"]).stdout;
    let note = "note skillhost.yaml: sandbox.skills.gone: no such skill";
    assert!(shown.contains(note) && !shown.contains("sandbox.skills.demo"), "{shown}");
}
