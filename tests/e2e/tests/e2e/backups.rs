//! Tests of `skillhost backup`, `restore` and `service`.

use std::fs;

use mock_model::{MockModel, Step};

use crate::agents_scene::agents_home;
use crate::fixtures::{home, start_kernel, untrusted_home};

#[test]
fn backup_of_running_home_restores_threads() {
    let mock = MockModel::with([Step::text("Noted."), Step::text("You said: blue.")]);
    let home = agents_home(&mock).file(".env", "SECRET=hunter2\n");
    let kernel = start_kernel(&home);
    home.skillhost(["ask", "--agent", "worker", "My color is blue"]).success();
    let written = home.skillhost(["backup", "../saved.tar.gz"]).success();
    assert!(written.stdout.starts_with("[OUTSIDE]/saved.tar.gz: "), "{written}");
    assert!(written.stderr.contains(".env is not included"), "{written}");
    let again = home.skillhost(["backup", "../saved.tar.gz"]).exits(4);
    assert!(again.stderr.contains("already exists"), "{again}");
    drop(home.skillhost(["backup", "../saved.tar.gz", "--force", "--json"]).success());

    // Not over a home with files, and not below a running kernel.
    let refused = home.skillhost(["restore", "../saved.tar.gz"]).exits(4);
    assert!(refused.stderr.contains("a kernel runs for [HOME]"), "{refused}");
    kernel.interrupt().success();
    let refused = home.skillhost(["restore", "../saved.tar.gz"]).exits(4);
    assert!(refused.stderr.contains("--replace"), "{refused}");

    let restored = home.skillhost(["restore", "../saved.tar.gz", "../copy"]).success().stdout;
    assert!(restored.contains("restored to [OUTSIDE]/copy\n"), "{restored}");
    assert!(restored.contains("skillhost trust [OUTSIDE]/copy"), "{restored}");
    let copy = home.outside().join("copy");
    assert!(!copy.join(".env").exists());
    let in_copy = |args: &[&str]| {
        let mut command = home.command();
        home.start(command.current_dir(&copy).args(args)).finish()
    };
    // The copy is not trusted; then it works, with its threads and events.
    in_copy(&["thread", "list"]).exits(5);
    in_copy(&["trust"]).success();
    let threads = in_copy(&["thread", "list", "--json"]).success().json();
    let thread = threads["threads"][0]["id"].as_str().unwrap().to_owned();
    let events = in_copy(&["event", "tail"]).success().stdout;
    assert!(events.contains("user.message"), "{events}");
    let reply = in_copy(&["ask", "--thread", &thread, "Which color?"]).success().stdout;
    assert_eq!(reply, "You said: blue.\n");
    let messages = mock.requests().last().unwrap().messages();
    assert!(messages.iter().any(|message| message.text.contains("blue")), "{messages:?}");
}

#[test]
fn damaged_backup_changes_nothing() {
    let home = home();
    home.skillhost(["backup", "../saved.tar.gz"]).success();
    home.skillhost(["restore", "../saved.tar.gz", "--check"]).success();
    let file = home.outside().join("saved.tar.gz");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    home.write("sandbox/skills/greet/SKILL.md", "mine\n");
    for arguments in [
        ["restore", "../saved.tar.gz", "--check"].as_slice(),
        &["restore", "../saved.tar.gz", "--replace"],
        &["restore", "../saved.tar.gz", "../copy"],
    ] {
        let refused = home.skillhost(arguments).exits(1);
        assert!(refused.stderr.contains("backup is damaged"), "{refused}");
        assert!(refused.stderr.contains("no file was changed"), "{refused}");
    }
    assert_eq!(fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap(), "mine\n");
    assert!(!home.outside().join("copy").exists());
    // The home is still trusted.
    home.skillhost(["ext", "list"]).success();
    fs::write(&file, "no archive").unwrap();
    home.skillhost(["restore", "../saved.tar.gz", "../copy"]).exits(1);
    home.skillhost(["restore", "../none.tar.gz", "../copy"]).exits(3);
}

#[test]
fn replaced_home_requires_new_trust() {
    let home = home();
    home.skillhost(["backup", "../saved.tar.gz"]).success();
    home.write("sandbox/skills/greet/SKILL.md", "changed\n");
    let restored = home.skillhost(["restore", "../saved.tar.gz", "--replace"]).success().stdout;
    assert!(
        restored.contains("the replaced files are in [HOME]/replaced-by-backup-"),
        "{restored}"
    );
    home.skillhost(["ext", "list"]).exits(5);
    home.skillhost(["restore", "../saved.tar.gz", "--replace", "--trust"]).success();
    home.skillhost(["ext", "list"]).success();
    let text = fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    assert!(text.contains("Say hello to them."), "{text}");
    // The default home is trusted because of its location, so it needs the person's word.
    let default = home.outside().join("data/skillhost");
    let default = default.to_str().unwrap();
    let refused = home.skillhost(["restore", "../saved.tar.gz", default]).exits(5);
    assert!(refused.stderr.contains("--trust"), "{refused}");
    home.skillhost(["restore", "../saved.tar.gz", default, "--trust"]).success();
}

#[test]
fn service_definition_names_home() {
    let home = home();
    let unit = home.skillhost(["service", "install", "--print", "systemd"]).success();
    let start = unit.stdout.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.ends_with(r#"/skillhost" "--home" "[HOME]" "run" "--supervised""#), "{start}");
    assert!(unit.stdout.contains("Environment=\"XDG_STATE_HOME=[OUTSIDE]/state\"\n"), "{unit}");
    assert!(unit.stderr.contains("systemctl --user enable --now skillhost"), "{unit}");
    let list = home.skillhost(["service", "install", "--print", "launchd"]).success().stdout;
    assert!(list.contains("<string>[HOME]</string>"), "{list}");
    let usual = home.skillhost(["service", "install", "--print", "--json"]).success().json();
    let expected = if cfg!(target_os = "macos") { "launchd" } else { "systemd" };
    assert_eq!(usual["format"], expected);
    home.skillhost(["service", "install"]).exits(2);
    home.skillhost(["service", "install", "--print", "cron"]).exits(2);
    untrusted_home().skillhost(["service", "install", "--print"]).exits(5);
}
