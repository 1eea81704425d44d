//! Tests of `skillhost skill proposal review` and of the prompts of other commands, on a pseudo-terminal.

use std::fmt::Write as _;

use test_support::{Left, Terminal, TestHome};

use crate::proposals::{
    BEADS, beads_home, beads_text, beads_with, proposal_digest, propose_text, skill_json,
};

/// Runs `skillhost skill …` on a terminal.
fn on_terminal(home: &TestHome, columns: u16, args: &[&str]) -> Terminal {
    let mut command = home.command();
    command.env("EDITOR", "sed -i s/THREE/tres/").env("TMPDIR", home.outside());
    home.on_terminal(command.arg("skill").args(args), (columns, 60))
}

/// Requires the exit status and restored terminal modes.
#[track_caller]
fn assert_restored(session: &Left, status: i32) {
    assert_eq!(session.output.status, status, "{}", session.output);
    assert!(session.modes_restored);
    let bytes = String::from_utf8_lossy(&session.bytes);
    for (on, off) in [("\u{1b}[?1049h", "\u{1b}[?1049l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
        let (entered, left) = (bytes.rfind(on).unwrap(), bytes.rfind(off).unwrap());
        assert!(entered < left, "{bytes:?}");
    }
}

fn proposal_state(home: &TestHome, id: &str) -> String {
    skill_json(home, &["review", id])["proposals"][0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn review_decides_each_proposal() {
    let home = beads_home();
    let first = propose_text(&home, &beads_with("THREE"), "Three was too small.");
    let second = propose_text(&home, &beads_with("drei"), "Three in German.");
    let third = propose_text(&home, &BEADS.replace("five", "FIVE"), "Five was too small.");
    let mut review = on_terminal(&home, 100, &["review"]);
    review.wait_for("proposal 1 of 3");
    review.wait_for("-three\n+THREE\n");
    review.wait_for("Three was too small.");
    review.send("a");
    review.wait_for("? y/N");
    review.send("n");
    review.wait_for("not approved");
    assert_eq!(beads_text(&home), BEADS);
    review.send("a");
    review.wait_for("? y/N");
    review.send("y");
    review.wait_for("proposal 2 of 3");
    assert_eq!(beads_text(&home), beads_with("THREE"));
    review.send("r");
    review.wait_for("why not? _");
    review.send("\u{1b}[200~English\rplease\u{1b}[201~!x\u{7f}\r");
    review.wait_for("proposal 3 of 3");
    review.send("b");
    review.wait_for("it fits the file as it is now");
    review.send("s");
    let session = review.finish();
    assert_restored(&session, 0);
    assert!(
        session.output.stdout.ends_with("2 decided, 1 wait for a decision\n"),
        "{}",
        session.output
    );
    assert_eq!(
        [&first, &second, &third].map(|id| proposal_state(&home, id)),
        ["applied", "rejected", "open"]
    );
    let audit = skill_json(&home, &["audit-log"]);
    let entry =
        audit["entries"].as_array().unwrap().iter().find(|e| e["action"] == "proposal.rejected");
    let entry = entry.unwrap();
    assert_eq!(entry["via"], "review");
    assert!(entry["detail"]["reason"].as_str().unwrap().ends_with("please!"), "{entry}");
}

#[test]
fn edited_text_changes_digest() {
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Three was too small.");
    let before = proposal_digest(&home, &id);
    let mut review = on_terminal(&home, 100, &["review", &id]);
    review.wait_for("+THREE");
    review.send("e");
    review.wait_for("+tres");
    review.wait_for("edited; the digest is");
    review.send("e");
    review.wait_for("left as it was");
    review.send("q");
    assert_restored(&review.finish(), 0);
    let after = proposal_digest(&home, &id);
    assert_ne!(before, after);
    assert_eq!(beads_text(&home), BEADS);
    let drafts = std::fs::read_dir(home.outside()).unwrap().flatten();
    let drafts: Vec<_> =
        drafts.filter(|e| e.file_name().to_string_lossy().contains("review")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

#[test]
fn wide_terminal_shows_side_by_side() {
    let home = beads_home();
    let _ = propose_text(&home, &beads_with("THREE"), "Three was too small.");
    let mut review = on_terminal(&home, 120, &["review"]);
    review.wait_for("   7 three");
    review.wait_for(" │    7 THREE");
    review.send("q");
    assert_restored(&review.finish(), 0);
}

#[test]
fn terminal_is_restored_on_every_exit() {
    let home = beads_home();
    let _ = propose_text(&home, &beads_with("THREE"), "Three was too small.");
    let start_review = || {
        let mut review = on_terminal(&home, 80, &["review"]);
        review.wait_for("quit");
        review
    };
    let mut review = start_review();
    review.send("\u{3}");
    assert_restored(&review.finish(), 130);
    let review = start_review();
    review.signal(rustix::process::Signal::INT);
    assert_restored(&review.finish(), 130);
    let review = start_review();
    review.signal(rustix::process::Signal::TERM);
    assert_restored(&review.finish(), 143);
    // Pasted keys must not decide a proposal.
    let mut review = start_review();
    review.send("\u{1b}[200~ayay\u{1b}[201~q");
    assert_restored(&review.finish(), 0);
    assert_eq!(beads_text(&home), BEADS);
}

#[test]
fn hostile_text_is_escaped() {
    let home = beads_home();
    let nasty = "Fine\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{202e}.";
    let id = propose_text(&home, &beads_with("three\u{1b}[8m\u{200b}"), nasty);
    let mut review = on_terminal(&home, 120, &["review", &id]);
    review.wait_for("HIDDEN UNICODE");
    review.wait_for("Fine\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\u{9b}2J\\u{202e}.");
    review.send("r");
    review.wait_for("why not? _");
    review.send("no\r");
    let session = review.finish();
    assert_restored(&session, 0);
    let output = String::from_utf8(session.bytes).unwrap();
    assert!(!output.contains(['\u{7}', '\u{9b}', '\u{202e}', '\u{200b}']), "{output:?}");
    assert!(!output.contains("\u{1b}[8m") && !output.contains("\u{1b}[2J"), "{output:?}");
}

#[test]
fn terminal_command_shows_and_prompts() {
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Three was too small.");
    let mut approve = on_terminal(&home, 100, &["approve", &id]);
    approve.wait_for("+THREE");
    approve.wait_for("[y/N] ");
    approve.send("\r");
    let session = approve.finish();
    assert_eq!(
        (session.output.status, beads_text(&home)),
        (1, BEADS.to_owned()),
        "{}",
        session.output
    );
    let mut approve = on_terminal(&home, 100, &["approve", &id]);
    approve.wait_for("[y/N] ");
    approve.send("y\r");
    approve.wait_for("is written, version 2");
    assert_eq!((approve.finish().output.status, beads_text(&home)), (0, beads_with("THREE")));
    let mut rollback = on_terminal(&home, 100, &["rollback", "beads"]);
    rollback.wait_for("-THREE");
    rollback.wait_for("[y/N] ");
    rollback.send("y\r");
    rollback.wait_for("that is version 3");
    assert_eq!((rollback.finish().output.status, beads_text(&home)), (0, BEADS.to_owned()));
}

#[test]
fn failed_editor_changes_no_proposal() {
    let home = beads_home();
    let id = propose_text(&home, &beads_with("THREE"), "Three was too small.");
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
    assert_restored(&review.finish(), 0);
    assert_eq!(proposal_state(&home, &id), "applied");
    assert_eq!(beads_text(&home), beads_with("THREE").replace("one", "ONE"));
}

#[test]
fn doctor_offers_approval_of_grants() {
    let home = beads_home();
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
    let not_granted = skill_json(&home, &["doctor"])["not_granted"].clone();
    assert_eq!(not_granted.as_array().unwrap().len(), 1, "{not_granted}");
    assert_eq!(not_granted[0]["skill_id"], "first");
}

#[test]
fn proposal_review_fits_terminal() {
    let home = beads_home();
    let id = propose_text(
        &home,
        &beads_with("THREE"),
        "Three was too small to be seen from the other end of the room, as several people said.",
    );
    let mut text = String::new();
    for width in [60, 80, 120, 200] {
        for (color, label) in [("never", ""), ("always", ", with colors")] {
            let mut command = home.command();
            command.args(["--color", color, "skill", "proposal", "review", &id]);
            let mut review = home.on_terminal(&mut command, (width, 40));
            review.wait_for("Three was too small");
            review.wait_for("quit");
            review.send("q");
            let left = review.finish();
            assert_eq!(left.output.status, 0, "{}", left.output);
            let shown = String::from_utf8(left.bytes).unwrap();
            let frame = shown.split("\u{1b}[1;1H").nth(1).unwrap_or_default();
            // What follows has paths of this test.
            let (frame, _) = frame.split_once("── Base").unwrap();
            let mut lines = Vec::new();
            for row in frame.split("\u{1b}[2K") {
                let row = row.rsplit_once("\u{1b}[").map_or(row, |(text, _)| text);
                lines.push(row.replace('\u{1b}', "\\e").trim_end().to_owned());
            }
            let has_color = lines.iter().any(|line| line.contains("\\e["));
            assert_eq!(has_color, color == "always", "{lines:?}");
            if color == "never" || width == 80 {
                let shown = lines.join("\n");
                let _ = writeln!(text, "== {width} columns{label}\n{}", shown.trim_end());
            }
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("[0-9A-HJKMNP-TV-Z]{26}", "[ID]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[TIME]");
    settings.add_filter(r"lines 1 to \d+ of \d+", "[LINES]");
    settings.bind(|| insta::assert_snapshot!(text, @"
    == 60 columns

    proposal 1 of 1 · [LINES]
    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest
    441316294f468dc0eedce819171490609e19f38daef1a4631a66a782f468
    d5e6

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
     ---
     one
     two
    -three
    +THREE
     four
     five

    ── Justification (by the author)
    │ Three was too small to be seen from the other end of the
    room, as several people said.

    ── Evidence (by the author)
    none

    ── Checks
    no rule finds more or less than before
    tokens 22 → 22 (+0)
    == 80 columns

    proposal 1 of 1 · [LINES]
    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest     441316294f468dc0eedce819171490609e19f38daef1a4631a66a782f468d5e6

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
     ---
     one
     two
    -three
    +THREE
     four
     five

    ── Justification (by the author)
    │ Three was too small to be seen from the other end of the room, as several
    people said.

    ── Evidence (by the author)
    none

    ── Checks
    no rule finds more or less than before
    tokens 22 → 22 (+0)
    == 80 columns, with colors

    \\e[36mproposal 1 of 1 · [LINES]\\e[0m
    \\e[1mbeads  SKILL.md\\e[0m
    \\e[2mproposal   \\e[0m[ID] (number 1)
    \\e[2mstate      \\e[0mopen
    \\e[2mproposed   \\e[0m[TIME] by agent `gardener`
    \\e[2mdigest     \\e[0m441316294f468dc0eedce819171490609e19f38daef1a4631a66a782f468d5e6

    \\e[1m── Diff  +1 -1\\e[0m
    \\e[36m@@ -4,6 +4,6 @@\\e[0m
     ---
     one
     two
    \\e[31m-three\\e[0m
    \\e[32m+THREE\\e[0m
     four
     five

    \\e[1m── Justification (by the author)\\e[0m
    \\e[2m│ \\e[0mThree was too small to be seen from the other end of the room, as several
    people said.

    \\e[1m── Evidence (by the author)\\e[0m
    \\e[2mnone\\e[0m

    \\e[1m── Checks\\e[0m
    no rule finds more or less than before
    tokens 22 → 22 (+0)
    == 120 columns

    proposal 1 of 1 · [LINES]
    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest     441316294f468dc0eedce819171490609e19f38daef1a4631a66a782f468d5e6

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
       4 ---                                                   │    4 ---
       5 one                                                   │    5 one
       6 two                                                   │    6 two
       7 three                                                 │    7 THREE
       8 four                                                  │    8 four
       9 five                                                  │    9 five

    ── Justification (by the author)
    │ Three was too small to be seen from the other end of the room, as several people said.

    ── Evidence (by the author)
    none

    ── Checks
    no rule finds more or less than before
    tokens 22 → 22 (+0)
    == 200 columns

    proposal 1 of 1 · [LINES]
    beads  SKILL.md
    proposal   [ID] (number 1)
    state      open
    proposed   [TIME] by agent `gardener`
    digest     441316294f468dc0eedce819171490609e19f38daef1a4631a66a782f468d5e6

    ── Diff  +1 -1
    @@ -4,6 +4,6 @@
       4 ---                                                                                           │    4 ---
       5 one                                                                                           │    5 one
       6 two                                                                                           │    6 two
       7 three                                                                                         │    7 THREE
       8 four                                                                                          │    8 four
       9 five                                                                                          │    9 five

    ── Justification (by the author)
    │ Three was too small to be seen from the other end of the room, as several people said.

    ── Evidence (by the author)
    none

    ── Checks
    no rule finds more or less than before
    tokens 22 → 22 (+0)
    "));
}
