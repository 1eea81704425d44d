//! A home that an earlier version of the program has written.
//!
//! The fixture is text: databases are dumps, `{{HOME}}` is the path of the home. Never edit it: it is
//! what is on people's disks.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::repository_root;

/// The thread in which the worker read a skill.
const THREAD: &str = "01m839se4vfgjb5tt2svzqm47z";

/// The directories of the fixture and their places in a home.
const PLACES: &[(&str, &str)] = &[
    ("manifests", "manifests"),
    ("extensions", "sandbox/extensions"),
    ("skills", "sandbox/skills"),
    ("kernel", "sandbox/data/kernel"),
    ("skill_registry", "sandbox/data/skill_registry"),
];

/// The databases of the fixture and their names in a home.
const DATABASES: &[(&str, &str)] =
    &[("events.sql", "events.db"), ("registry.sql", "registry.sqlite3")];

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

/// Returns a trusted home with everything that the earlier program left in it.
fn earlier_home() -> TestHome {
    let fixture = repository_root().join("tests/fixtures/earlier-home");
    let mut home = TestHome::new();
    for name in ["skillhost.yaml", "work.yaml"] {
        home = home.file(name, fs::read(fixture.join(name)).unwrap());
    }
    for (folder, place) in PLACES {
        let folder = fixture.join(folder);
        for file in files_below(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            let text = text.replace("{{HOME}}", home.root().to_str().unwrap());
            let path = Path::new(place).join(file.strip_prefix(&folder).unwrap());
            let database = DATABASES.iter().find(|(dump, _)| path.ends_with(dump));
            match database {
                Some((_, name)) => {
                    let path = home.path(path.with_file_name(name));
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    Connection::open(path).unwrap().execute_batch(&text).unwrap();
                }
                None => home.write(path, text),
            }
        }
    }
    home.trusted()
}

fn json_lines(output: &Output) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns some fields of every entry of a list.
fn fields(list: &Value, names: &[&str]) -> Vec<Value> {
    let entries = list.as_array().unwrap();
    entries.iter().map(|entry| names.iter().map(|name| entry[name].clone()).collect()).collect()
}

#[test]
fn earlier_proposals_are_decided() {
    let home = earlier_home();
    let proposals = || {
        let listed = home.skillhost(["skill", "proposals", "--all", "--json"]).success().json();
        fields(&listed["proposals"], &["seq", "skill_id", "state", "justification_line"])
    };
    let earlier = [
        json!([1, "greet", "applied", "People like their names."]),
        json!([2, "tea", "open", "It was too hot."]),
        json!([3, "greet", "rejected", "It is quieter."]),
    ];
    assert_eq!(proposals(), earlier);

    let shown = home.skillhost(["skill", "review", "2", "--json"]).success().json();
    let shown = &shown["proposals"][0];
    assert_eq!(shown["base"], json!({"drift": "unchanged"}));
    assert_eq!(shown["file_state"], "as_written");
    let digest = shown["new_digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", "2", "--yes", "--digest", digest]).success();
    assert_eq!(proposals()[1], json!([2, "tea", "applied", "It was too hot."]));
    let text = fs::read_to_string(home.path("sandbox/skills/tea/SKILL.md")).unwrap();
    assert!(text.ends_with("---\nBoil water. Wait a minute.\n"), "{text}");

    let versions = |skill: &str| {
        let told = home.skillhost(["skill", "history", skill, "--json"]).success().json();
        told["versions"].as_array().unwrap().len()
    };
    assert_eq!(["greet", "tea", "walk"].map(versions), [2, 2, 2]);
    let back = ["skill", "rollback", "greet", "1", "--yes", "--digest"];
    let first = home.skillhost(["skill", "history", "greet", "--json"]).success().json();
    let first = first["versions"][0]["tree"].as_str().unwrap();
    home.skillhost(back.into_iter().chain([first])).success();
    let text = fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    assert!(text.ends_with("---\nSay hello to them.\n"), "{text}");
}

#[test]
fn earlier_records_are_printed() {
    let home = earlier_home();
    let audit = home.skillhost(["skill", "audit-log", "--json"]).success().json();
    assert_eq!(
        fields(&audit["entries"], &["seq", "action", "by", "skill_id"]),
        [
            json!([1, "versions.first", "", null]),
            json!([2, "proposal.created", "", "greet"]),
            json!([3, "proposal.created", "", "tea"]),
            json!([4, "proposal.created", "", "greet"]),
            json!([5, "proposal.approved", "root", "greet"]),
            json!([6, "version.created", "root", "greet"]),
            json!([7, "proposal.applied", "root", "greet"]),
            json!([8, "proposal.stale", "", "greet"]),
            json!([9, "change.finished", "", "greet"]),
            json!([10, "proposal.rejected", "root", "greet"]),
            json!([11, "version.created", "", "walk"]),
            json!([12, "version.created", "", "walk"]),
        ]
    );
    let stats = home.skillhost(["skill", "stats", "--json"]).success().json();
    assert_eq!(fields(&stats["skills"], &["skill_id", "reads"]), [json!(["greet", 1])]);

    let tail = home.skillhost(["events", "tail", "--json"]).success();
    let events = json_lines(&tail);
    let topics: Vec<_> = events.iter().map(|event| event["topic"].as_str().unwrap()).collect();
    assert_eq!(
        topics,
        [
            "skill.proposal.created",
            "skill.proposal.created",
            "skill.proposal.created",
            "skill.proposal.approved",
            "skill.version.created",
            "skill.proposal.applied",
            "skill.proposal.rejected",
            "skill.added",
            "skill.version.created",
            "event.dead",
            "skill.changed",
            "skill.version.created",
            "schedule.ran",
            "user.message",
            "agent.replied",
        ]
    );
    let dead = json_lines(&home.skillhost(["events", "dead", "--json"]).success());
    let names = ["id", "subscriber", "attempts"];
    let expected = json!([1, "helper:skill.added:notify_user", 4]);
    assert_eq!(fields(&Value::Array(dead), &names), [expected]);
    let schedules = home.skillhost(["schedule", "list", "--json"]).success().json();
    let last = &schedules["schedules"][0]["last"];
    assert_eq!(
        last,
        &json!({"at": "2026-11-23 04:14 UTC", "at_ms": 1_795_407_270_531_u64, "error": null,
                "took_ms": 41})
    );
}

#[test]
fn earlier_threads_and_approvals_hold() {
    let home = earlier_home();
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    assert_eq!(
        fields(&listed["threads"], &["agent", "title", "messages"]),
        [json!(["worker", "Look again.", 2]), json!(["worker", "Please greet me.", 6])]
    );
    let shown = home.skillhost(["threads", "show", THREAD, "--json"]).success().json();
    let roles = fields(&shown["conversation"], &["role", "text"]);
    assert_eq!(roles[0], json!(["user", "Please greet me."]));
    assert_eq!(roles[1], json!(["assistant", "I read the skill."]));
    assert_eq!(shown["conversation"][2]["name"], "read_skill");
    assert_eq!(roles[5], json!(["assistant", "I looked around."]));

    let replied = home.skillhost(["ask", "--thread", THREAD, "Once more?"]).success();
    assert!(replied.stdout.starts_with("I looked around."), "{replied}");
    assert!(!replied.stderr.contains("not approved"), "{replied}");
    let shown = home.skillhost(["threads", "show", THREAD, "--json"]).success().json();
    assert_eq!(shown["conversation"].as_array().unwrap().len(), 8);

    let doctor = home.skillhost(["ext", "doctor", "--json"]).success().json();
    let agents = fields(&doctor["report"]["agents"], &["id"]);
    assert_eq!(agents, [json!(["worker"]), json!(["helper"])]);
}
