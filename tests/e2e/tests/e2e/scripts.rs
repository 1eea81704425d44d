//! Tests of scripts of skills: run by the operator, and by agents with and without approval.

use std::fs;

use mock_model::{MockModel, Step};
use test_support::{TestHome, can_isolate, program};

use crate::agents_scene::agents_home;

const SKILL: &str = "---\nname: demo\ndescription: Demos. Use for demos.\n\
                     allowed-tools: read_skill skills.run_script\n---\nRun scripts/a.sh.\n";
const LOAD: &str = r#"{"skill_id": "demo"}"#;
const RUN: &str = r#"{"path": "scripts/a.sh", "args": ["x"]}"#;

fn demo_home(mock: &MockModel) -> TestHome {
    agents_home(mock)
        .skill("demo", SKILL)
        .file("sandbox/skills/demo/scripts/a.sh", "echo \"ran $1\"; echo made > made.txt\n")
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
    let shown = home.skillhost(["skill", "show", "demo", "--json"]).success().json();
    let digest =
        shown["scripts"]["digest"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    home.skillhost(["skill", "approve-scripts", "demo"]).exits(2);
    let approve = ["skill", "approve-scripts", "demo", "--yes", "--digest", &digest];
    home.skillhost(approve).success();
    let shown = home.skillhost(["skill", "show", "demo"]).success().stdout;
    assert!(shown.contains("approved, digest of all files"), "{shown}");
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
    home.skillhost(["skill", "approve-scripts", "demo", "--revoke"]).success();
    home.skillhost(["ask", "--agent", "worker", "--approve", "skills.run_script", "Run it"])
        .success();
    let ran = mock.requests()[8].last_text();
    assert!(ran.contains("changed"), "{ran}");
}
