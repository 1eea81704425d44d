//! `skillhost skill review` and the questions of other commands, on a pseudo-terminal.

use test_support::{Left, Terminal, TestHome};

use crate::proposals::{BEADS, digest, home, json, propose, text_of, with};

/// Runs `skillhost skill …` on a terminal.
fn on_terminal(home: &TestHome, columns: u16, args: &[&str]) -> Terminal {
    let mut command = home.command();
    command.env("EDITOR", "sed -i s/THREE/tres/").env("TMPDIR", home.outside());
    home.on_terminal(command.arg("skill").args(args), (columns, 60))
}

/// Requires that the terminal was given back as it was.
#[track_caller]
fn given_back(left: &Left, status: i32) {
    assert_eq!(left.output.status, status, "{}", left.output);
    assert!(left.modes_restored);
    let bytes = String::from_utf8_lossy(&left.bytes);
    for (on, off) in [("\u{1b}[?1049h", "\u{1b}[?1049l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
        let (taken, given) = (bytes.rfind(on).unwrap(), bytes.rfind(off).unwrap());
        assert!(taken < given, "{bytes:?}");
    }
}

fn state(home: &TestHome, id: &str) -> String {
    json(home, &["review", id])["proposals"][0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn proposals_are_walked_through_and_decided() {
    let home = home();
    let first = propose(&home, &with("THREE"), "Three was too small.");
    let second = propose(&home, &with("drei"), "Three in German.");
    let third = propose(&home, &BEADS.replace("five", "FIVE"), "Five was too small.");
    let mut review = on_terminal(&home, 100, &["review"]);
    review.wait_for("proposal 1 of 3");
    review.wait_for("-three\n+THREE\n");
    review.wait_for("Three was too small.");
    review.send("a");
    review.wait_for("? y/N");
    review.send("n");
    review.wait_for("not approved");
    assert_eq!(text_of(&home), BEADS);
    review.send("a");
    review.wait_for("? y/N");
    review.send("y");
    review.wait_for("proposal 2 of 3");
    assert_eq!(text_of(&home), with("THREE"));
    review.send("r");
    review.wait_for("why not? _");
    review.send("\u{1b}[200~English\rplease\u{1b}[201~!x\u{7f}\r");
    review.wait_for("proposal 3 of 3");
    review.send("b");
    review.wait_for("it fits the file as it is now");
    review.send("s");
    let left = review.finish();
    given_back(&left, 0);
    assert!(left.output.stdout.ends_with("2 decided, 1 wait for a decision\n"), "{}", left.output);
    assert_eq!(
        [&first, &second, &third].map(|id| state(&home, id)),
        ["applied", "rejected", "open"]
    );
    let audit = json(&home, &["audit-log"]);
    let entry =
        audit["entries"].as_array().unwrap().iter().find(|e| e["action"] == "proposal.rejected");
    let entry = entry.unwrap();
    assert_eq!(entry["via"], "review");
    assert!(entry["detail"]["reason"].as_str().unwrap().ends_with("please!"), "{entry}");
}

#[test]
fn an_edited_text_has_another_digest() {
    let home = home();
    let id = propose(&home, &with("THREE"), "Three was too small.");
    let before = digest(&home, &id);
    let mut review = on_terminal(&home, 100, &["review", &id]);
    review.wait_for("+THREE");
    review.send("e");
    review.wait_for("+tres");
    review.wait_for("edited; the digest is");
    review.send("e");
    review.wait_for("left as it was");
    review.send("q");
    given_back(&review.finish(), 0);
    let after = digest(&home, &id);
    assert_ne!(before, after);
    assert_eq!(text_of(&home), BEADS);
    let drafts = std::fs::read_dir(home.outside()).unwrap().flatten();
    let drafts: Vec<_> =
        drafts.filter(|e| e.file_name().to_string_lossy().contains("review")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

#[test]
fn a_wide_terminal_has_both_sides() {
    let home = home();
    let _ = propose(&home, &with("THREE"), "Three was too small.");
    let mut review = on_terminal(&home, 120, &["review"]);
    review.wait_for("   7 three");
    review.wait_for(" │    7 THREE");
    review.send("q");
    given_back(&review.finish(), 0);
}

#[test]
fn the_terminal_is_given_back_on_every_way_out() {
    let home = home();
    let _ = propose(&home, &with("THREE"), "Three was too small.");
    let begun = || {
        let mut review = on_terminal(&home, 80, &["review"]);
        review.wait_for("quit");
        review
    };
    let mut review = begun();
    review.send("\u{3}");
    given_back(&review.finish(), 130);
    let review = begun();
    review.signal(rustix::process::Signal::INT);
    given_back(&review.finish(), 130);
    let review = begun();
    review.signal(rustix::process::Signal::TERM);
    given_back(&review.finish(), 143);
    // Nobody decides by pasting.
    let mut review = begun();
    review.send("\u{1b}[200~ayay\u{1b}[201~q");
    given_back(&review.finish(), 0);
    assert_eq!(text_of(&home), BEADS);
}

#[test]
fn hostile_texts_steer_no_terminal() {
    let home = home();
    let nasty = "Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{202e}.";
    let id = propose(&home, &with("three\u{1b}[8m\u{200b}"), nasty);
    let mut review = on_terminal(&home, 120, &["review", &id]);
    review.wait_for("HIDDEN UNICODE");
    review.wait_for("Fine\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\u{9b}2J\\u{202e}.");
    review.send("r");
    review.wait_for("why not? _");
    review.send("no\r");
    let left = review.finish();
    given_back(&left, 0);
    let shown = String::from_utf8(left.bytes).unwrap();
    assert!(!shown.contains(['\u{7}', '\u{9b}', '\u{202e}', '\u{200b}']), "{shown:?}");
    assert!(!shown.contains("\u{1b}[8m") && !shown.contains("\u{1b}[2J"), "{shown:?}");
}

#[test]
fn a_command_on_a_terminal_shows_and_asks() {
    let home = home();
    let id = propose(&home, &with("THREE"), "Three was too small.");
    let mut approve = on_terminal(&home, 100, &["approve", &id]);
    approve.wait_for("+THREE");
    approve.wait_for("[y/N] ");
    approve.send("\r");
    let left = approve.finish();
    assert_eq!((left.output.status, text_of(&home)), (1, BEADS.to_owned()), "{}", left.output);
    let mut approve = on_terminal(&home, 100, &["approve", &id]);
    approve.wait_for("[y/N] ");
    approve.send("y\r");
    approve.wait_for("is written, version 2");
    assert_eq!((approve.finish().output.status, text_of(&home)), (0, with("THREE")));
    let mut rollback = on_terminal(&home, 100, &["rollback", "beads"]);
    rollback.wait_for("-THREE");
    rollback.wait_for("[y/N] ");
    rollback.send("y\r");
    rollback.wait_for("that is version 3");
    assert_eq!((rollback.finish().output.status, text_of(&home)), (0, BEADS.to_owned()));
}

#[test]
fn an_editor_that_fails_changes_nothing_and_a_stale_proposal_is_rebased() {
    let home = home();
    let id = propose(&home, &with("THREE"), "Three was too small.");
    home.write("sandbox/skills/beads/SKILL.md", BEADS.replace("one", "ONE"));
    let mut command = home.command();
    command.env("EDITOR", "false").env("TMPDIR", home.outside());
    let mut review = home.on_terminal(command.args(["skill", "review"]), (100, 60));
    review.wait_for("stale");
    review.wait_for("the file has changed since");
    review.send("a");
    review.wait_for("? y/N");
    review.send("y");
    review.wait_for("is stale and cannot be approved");
    review.send("b");
    review.wait_for("it fits the file as it is now");
    review.send("e");
    review.wait_for("nothing was changed");
    review.send("a");
    review.wait_for("? y/N");
    review.send("y");
    given_back(&review.finish(), 0);
    assert_eq!(state(&home, &id), "applied");
    assert_eq!(text_of(&home), with("THREE").replace("one", "ONE"));
}

#[test]
fn doctor_offers_approval_of_grants() {
    let home = home();
    for id in ["first", "second"] {
        let text = format!(
            "---\nname: {id}\ndescription: Moves. Use when asked.\nallowed-tools: move_path\n---\nDo.\n"
        );
        home.write(format!("sandbox/skills/{id}/SKILL.md"), text);
    }
    let mut doctor = on_terminal(&home, 100, &["doctor"]);
    doctor.wait_for("! with it agents call without a question: move_path");
    doctor.wait_for("Approve the whole skill `first`");
    doctor.send("n\r");
    doctor.wait_for("Approve the whole skill `second`");
    doctor.send("y\r");
    doctor.wait_for("approved the skill `second` as it is");
    assert_eq!(doctor.finish().output.status, 0);
    let waiting = json(&home, &["doctor"])["not_granted"].clone();
    assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting}");
    assert_eq!(waiting[0]["skill_id"], "first");
}
