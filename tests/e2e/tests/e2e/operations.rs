//! Tests of `skillhost status`, `stop` and `logs`.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::{Background, TestHome};

use crate::fixtures::{agent_manifest, home, skill_md, start_kernel, untrusted_home};

/// Runs `skillhost status --json` and returns its object.
fn status(home: &TestHome, code: i32) -> Value {
    home.skillhost(["status", "--json"]).exits(code).json()
}

/// Starts a supervised kernel whose restarts have no delay.
fn start_supervised(home: &TestHome) -> Background {
    let mut command = home.command();
    command.env("SKILLHOST_SUPERVISOR__DELAY_MS", "1");
    let kernel = home.start(command.args(["run", "--supervised"]));
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

#[test]
fn status_describes_running_kernel() {
    let home = home()
        .manifest("worker", &agent_manifest("worker", "  instructions: Work.\n"))
        .manifest("broken", "id: broken\nname: [\n")
        .extension("new", "id: new\nname: New\nagent:\n  instructions: Wait.\n");
    let kernel = start_kernel(&home);
    let found = status(&home, 0);
    assert_eq!(found["state"], "running");
    assert_eq!(found["pid"], kernel.id());
    assert_eq!(found["kernel"]["pid"], kernel.id());
    assert_eq!(found["kernel"]["supervised"], false);
    assert_eq!(found["kernel"]["model"], "script/demo");
    assert_eq!(found["kernel"]["agents"], json!([{ "id": "worker" }]));
    assert_eq!(found["kernel"]["extensions"][0], json!({ "id": "echo", "version": "0.1.0" }));
    assert_eq!(found["waiting"]["extensions"], json!(["new"]));
    let text = home.skillhost(["status"]).success();
    for part in [
        &format!("kernel      running, process {}, for ", kernel.id()),
        "home        [HOME]\n",
        "model       script/demo\n",
        "extensions  echo 0.1.0, skill_registry 0.1.0\n",
        "            rejected broken, new; see: skillhost ext doctor\n",
        "agents      worker\n",
        "runs        0 active\n",
        "waiting     approval of the extension `new`: skillhost ext approve new\n",
        "log         [HOME]/sandbox/data/kernel/logs/kernel.log\n",
    ] {
        assert!(text.stdout.contains(part), "{part:?} in {text}");
    }
    kernel.interrupt().success();
    assert_eq!(status(&home, 3)["state"], "not_running");
}

#[test]
fn status_without_kernel_boots_none() {
    let home = home();
    let text = home.skillhost(["status"]).exits(3);
    insta::assert_snapshot!(text, @"
    exit 3
    --- stdout
    kernel      not running; start it: skillhost run
    home        [HOME]
    model       script/demo
    manifests   echo, skill_registry
    waiting     nothing
    log         [HOME]/sandbox/data/kernel/logs/kernel.log
    ");
    home.write("skillhost.yaml", "models: [\n");
    let invalid = home.skillhost(["status"]).exits(3);
    assert!(invalid.stdout.contains("changes     settings: [HOME]/skillhost.yaml:1:"), "{invalid}");
    let elsewhere = home.outside().join("user");
    let mut command = home.command();
    command.current_dir(&elsewhere).arg("status");
    let nowhere = home.start(&mut command).finish().exits(3);
    assert!(nowhere.stderr.contains("skillhost init DIR"), "{nowhere}");
}

#[test]
fn untrusted_status_opens_no_data() {
    let home = untrusted_home();
    home.write("sandbox/data/kernel/events.db", "not a database");
    let text = home.skillhost(["status"]).exits(3);
    assert!(text.stdout.contains("home        [HOME] (not trusted)\n"), "{text}");
    assert!(text.stdout.contains("waiting     nothing\n"), "{text}");
    assert_eq!(fs::read_dir(home.path("sandbox/data/kernel")).unwrap().count(), 1);
    for command in ["stop", "logs"] {
        let refused = home.skillhost([command]).exits(5);
        assert!(refused.stderr.contains("skillhost trust"), "{refused}");
    }
}

#[test]
fn stop_waits_for_the_end() {
    let home = home();
    let kernel = start_kernel(&home);
    let stopped = home.skillhost(["stop"]).success();
    let expected = format!("stopped the kernel of [HOME], process {}\n", kernel.id());
    assert_eq!(stopped.stdout, expected);
    // The lock is free, so the next kernel starts at once.
    let next = start_kernel(&home);
    kernel.finish().success();
    let stopped = home.skillhost(["stop", "--json"]).success().json();
    assert_eq!(stopped, json!({ "schema_version": 1, "stopped": true, "pid": next.id() }));
    next.finish().success();
    let nothing = home.skillhost(["stop"]).exits(3);
    assert_eq!(
        nothing.stderr,
        "error: no kernel runs for [HOME]\nhint: start one: skillhost run\n"
    );
}

#[test]
fn stop_ends_supervisor_too() {
    let home = home();
    let supervisor = start_supervised(&home);
    let found = status(&home, 0);
    assert_eq!(found["supervisor"], supervisor.id());
    assert_eq!(found["kernel"]["supervised"], true);
    home.skillhost(["stop"]).success();
    let ended = supervisor.finish().success();
    assert!(!ended.stdout.contains("it is restarted"), "{ended}");
    assert_eq!(status(&home, 3)["supervisor"], Value::Null);
}

#[test]
fn log_survives_crash_of_kernel() {
    let home = home();
    let supervisor = start_supervised(&home);
    let pid = i32::try_from(status(&home, 0)["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    supervisor.line_with("was killed by signal 9");
    supervisor.line_with("running; Ctrl-C ends it");
    home.skillhost(["stop"]).success();
    supervisor.finish().success();
    let text = home.skillhost(["logs"]).success().stdout;
    let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    let started = lines.iter().filter(|line| line.contains("kernel started")).count();
    assert_eq!(started, 2, "{text}");
    assert!(lines.contains(&"ERROR supervisor the kernel was killed by signal 9"), "{text}");
    assert!(text.contains("kernel shuts down restart=false"), "{text}");
    let errors = home.skillhost(["logs", "--level", "error"]).success().stdout;
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let last = home.skillhost(["logs", "-n", "1", "--json"]).success().json();
    assert_eq!(last["fields"]["message"], "kernel shuts down");
    assert_eq!(last["level"], "INFO");
}

#[test]
fn followed_log_prints_new_lines() {
    let home = home();
    let follower = home.spawn(["logs", "--follow", "--level", "info"]);
    let kernel = start_kernel(&home);
    follower.line_with("kernel started");
    home.write("sandbox/skills/brew/SKILL.md", skill_md("Brews.", "Boil."));
    kernel.interrupt().success();
    follower.line_with("kernel shuts down");
    follower.interrupt().success();
}

#[test]
fn foreign_log_lines_are_sanitized() {
    let home = home();
    home.write(
        "sandbox/data/kernel/logs/kernel.log",
        "\u{1b}[2J no event\n{\"timestamp\":\"t\",\"level\":\"WARN\",\"fields\":{\"message\":\"a\\u001b[31mb\"}}\n",
    );
    let text = home.skillhost(["logs"]).success().stdout;
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("WARN"), "{text}");
}
