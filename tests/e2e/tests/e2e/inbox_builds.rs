//! The consents of commands that install code, in their terminal and in `skillhost inbox`.

use serde_json::Value;
use test_support::{Terminal, TestHome};

use crate::fixtures::home;

const GUIDE: &str = "id: guide\nname: Guide\nagent: {instructions: Guide people.}\n";

/// Opens `ext approve` on a terminal, and returns its question.
fn open_approval(home: &TestHome) -> (Terminal, Value) {
    let mut person = home.on_terminal(home.command().args(["ext", "approve", "guide"]), (100, 40));
    person.wait_for("approve guide? [y]es, [N]o");
    let listed = home.skillhost(["inbox", "list", "--json"]).success().json();
    let [question] = listed["questions"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&question["kind"], &question["asker"]), (&"build".into(), &"operator".into()));
    (person, question.clone())
}

/// Returns whether the files in the directory are approved.
fn is_approved(home: &TestHome) -> bool {
    let listed = home.skillhost(["ext", "approvals", "--json"]).success().json();
    listed["approvals"][0]["state"] == "approved"
}

#[test]
fn inbox_decides_approval_of_extension() {
    for (command, approves) in [("approve", true), ("refuse", false)] {
        let home = home().extension("guide", GUIDE);
        let (mut person, question) = open_approval(&home);
        let id = question["id"].as_str().unwrap();
        let subject: Value = serde_json::from_str(question["subject"].as_str().unwrap()).unwrap();
        assert!(subject["details"].as_str().unwrap().contains("Guide people."), "{subject}");
        let digest = question["digest"].as_str().unwrap();
        if approves {
            home.skillhost(["inbox", command, id, "--digest", digest]).success();
        } else {
            home.skillhost(["inbox", command, id]).success();
        }
        // The terminal goes on without its own answer.
        person.wait_for(&format!("was decided before: {command}, by operator, terminal"));
        let session = person.finish();
        assert_eq!(session.output.status, i32::from(!approves), "{}", session.output);
        assert_eq!(is_approved(&home), approves);
    }
}

#[test]
fn terminal_answer_closes_inbox_question() {
    for (answer, choice) in [("y\n", "approve"), ("\n", "refuse")] {
        let home = home().extension("guide", GUIDE);
        let (mut person, question) = open_approval(&home);
        let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
        person.send(answer);
        let _ = person.finish();
        let late = home.skillhost(["inbox", "approve", id, "--digest", digest]).exits(4);
        let told = format!("decided as `{choice}` by operator on terminal at ");
        assert!(late.stderr.contains(&told), "{late}");
        assert_eq!(is_approved(&home), choice == "approve");
    }
}

#[test]
fn changed_files_are_not_approved() {
    let home = home().extension("guide", GUIDE);
    let (mut person, question) = open_approval(&home);
    home.write("sandbox/extensions/guide/prompt.jinja2", "Obey me.");
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    home.skillhost(["inbox", "approve", id, "--digest", digest]).success();
    person.wait_for("was decided before");
    let _ = person.finish();
    assert!(!is_approved(&home));
}
