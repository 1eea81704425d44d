//! Tests with diffs as models write them, and their results. In the tables `|` is a newline.

use skill_diff::{self as diff, FuzzNote};

const PATH: &str = "references/guide.md";
const TEN: &str = "one|two|three|four|five|six|seven|eight|nine|ten|";

/// A diff that applies: name, base, diff, new text, notes.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

fn notes(fuzz: &[FuzzNote]) -> String {
    let notes = fuzz.iter().map(|note| format!("{}@{}:{:?}", note.hunk, note.line, note.kind));
    notes.collect::<Vec<_>>().join(" ")
}

fn check(cases: &[Case]) {
    let text = |text: &str| text.replace('|', "\n");
    for (name, base, diff, expected, expected_notes) in cases {
        let patched = diff::apply_diff(&text(base), &text(diff), PATH)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            (patched.text.as_str(), notes(&patched.fuzz).as_str()),
            (text(expected).as_str(), *expected_notes),
            "{name}"
        );
    }
}

#[test]
fn names_and_headers_are_tolerated() {
    check(&[
        (
            "as git writes it",
            TEN,
            "diff --git a/references/guide.md b/references/guide.md|index 12ab34..56cd78 100644|\
             --- a/references/guide.md|+++ b/references/guide.md|@@ -1,4 +1,4 @@| one|-two|+2| three|\
             \x20four|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "",
        ),
        (
            "names without a side, and with times",
            TEN,
            "--- references/guide.md\t2026-11-22 02:47:55|+++ references/guide.md\t2026-11-22|\
             @@ -9,2 +9,2 @@ some heading| nine|-ten|+10|",
            "one|two|three|four|five|six|seven|eight|nine|10|",
            "",
        ),
        (
            "an absolute name",
            TEN,
            "--- /home/me/skills/beads/references/guide.md|+++ /home/me/skills/beads/references/guide.md|\
             @@ -1,2 +1 @@|-one| two|",
            "two|three|four|five|six|seven|eight|nine|ten|",
            "0@0:FileName",
        ),
        (
            "the last component alone",
            TEN,
            "--- guide.md|+++ guide.md|@@ -1,2 +1 @@|-one| two|",
            "two|three|four|five|six|seven|eight|nine|ten|",
            "0@0:FileName",
        ),
        (
            "words for any file",
            TEN,
            "--- original|+++ modified|@@ -1,2 +1 @@|-one| two|",
            "two|three|four|five|six|seven|eight|nine|ten|",
            "0@0:FileName",
        ),
        (
            "no names at all",
            TEN,
            "@@ -1,2 +1 @@|-one| two|",
            "two|three|four|five|six|seven|eight|nine|ten|",
            "",
        ),
        (
            "one name alone",
            TEN,
            "+++ b/references/guide.md|@@ -1,2 +1 @@|-one| two|",
            "two|three|four|five|six|seven|eight|nine|ten|",
            "",
        ),
        (
            "a header of dots",
            TEN,
            "--- a/references/guide.md|+++ b/references/guide.md|@@ ... @@| five|-six|+6|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:NoNumbers",
        ),
        (
            "a header without anything, at the end of the diff no newline",
            TEN,
            "@@| five|-six|+6",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:NoNumbers",
        ),
        (
            "a header with a heading only",
            TEN,
            "@@ ## Usage @@| five|+5.5| six|",
            "one|two|three|four|five|5.5|six|seven|eight|nine|ten|",
            "1@5:NoNumbers",
        ),
        (
            "names and no header",
            TEN,
            "--- a/references/guide.md|+++ b/references/guide.md| five|-six|+6|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:NoNumbers",
        ),
        (
            "nothing but lines",
            TEN,
            "-six|+6|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@6:NoNumbers",
        ),
        (
            "marks of another form",
            TEN,
            "*** Begin Patch|*** Update File: references/guide.md|@@ five|-six|+6| seven|*** End Patch|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "0@0:Fences 1@6:NoNumbers",
        ),
        (
            "counts too small",
            TEN,
            "@@ -5,1 +5,1 @@| five|-six|+6|+6.5| seven|",
            "one|two|three|four|five|6|6.5|seven|eight|nine|ten|",
            "1@5:Counts",
        ),
        (
            "counts too large, before another hunk",
            TEN,
            "@@ -1,40 +1,40 @@|-one|+1| two|@@ -9,20 +9,20 @@| nine|-ten|+10|",
            "1|two|three|four|five|six|seven|eight|nine|10|",
            "1@1:Counts 2@9:Counts",
        ),
        (
            "counts too large, before the same names again",
            TEN,
            "--- a/references/guide.md|+++ b/references/guide.md|@@ -1,9 +1,9 @@|-one|+1|\
             --- a/references/guide.md|+++ b/references/guide.md|@@ -10 +10 @@|-ten|+10|",
            "1|two|three|four|five|six|seven|eight|nine|10|",
            "1@1:Counts",
        ),
        (
            "a mail from git",
            TEN,
            "From 12ab34 Mon Sep 17 00:00:00 2001|Subject: [PATCH] Count||---| references/guide.md | 2 +-|\
             |diff --git a/references/guide.md b/references/guide.md|index 12ab34..56cd78 100644|\
             --- a/references/guide.md|+++ b/references/guide.md|@@ -10 +10 @@|-ten|+10|-- |2.43.0||",
            "one|two|three|four|five|six|seven|eight|nine|10|",
            "0@0:Prose",
        ),
        (
            "a mode is not changed",
            TEN,
            "diff --git a/references/guide.md b/references/guide.md|old mode 100644|new mode 100755|\
             --- a/references/guide.md|+++ b/references/guide.md|@@ -10 +10 @@|-ten|+10|",
            "one|two|three|four|five|six|seven|eight|nine|10|",
            "",
        ),
    ]);
}

#[test]
fn fences_and_prose_are_dropped() {
    check(&[
        (
            "a fence and prose",
            TEN,
            "Here is the change:||```diff|--- a/references/guide.md|+++ b/references/guide.md|\
             @@ -1,2 +1,2 @@| one|-two|+2|```||It does this:|- counts|+ more|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "0@0:Prose 0@0:Fences",
        ),
        (
            "prose without a fence after a hunk that is complete",
            TEN,
            "@@ -1,2 +1,2 @@| one|-two|+2||This is shorter:|- by far|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "0@0:Prose",
        ),
        (
            "a fence of tildes that is never closed",
            TEN,
            "~~~~|@@ -1,2 +1,2 @@| one|-two|+2|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "0@0:Fences",
        ),
        (
            "a fence with lines only",
            TEN,
            "Replace it:|```diff|-two|+2|```|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "0@0:Prose 0@0:Fences 1@2:NoNumbers",
        ),
        (
            "a hunk in each of two fences",
            TEN,
            "First:|```diff|@@ -1 +1 @@|-one|+1|```|Then:|```diff|@@ -10 +10 @@|-ten|+10|```|",
            "1|two|three|four|five|six|seven|eight|nine|10|",
            "0@0:Prose 0@0:Fences",
        ),
        (
            "a fence in the text, within a fence",
            "run|```|ls|```|end|",
            "````diff|@@ -1,5 +1,5 @@| run| ```|-ls|+ls -l| ```| end|````|",
            "run|```|ls -l|```|end|",
            "0@0:Fences",
        ),
        (
            "a fence in the text, within one of the same length",
            "run|```|ls|```|end|",
            "```diff|@@ -1,5 +1,5 @@| run| ```|-ls|-```|+ls -l|+```| end|```|",
            "run|```|ls -l|```|end|",
            "0@0:Fences",
        ),
        (
            "blank lines around everything",
            TEN,
            "|||@@ -1,2 +1,2 @@| one|-two|+2||||",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "",
        ),
    ]);
}

#[test]
fn hunks_apply_at_shifted_positions() {
    check(&[
        (
            "a place below",
            TEN,
            "@@ -3,3 +3,3 @@| five|-six|+6| seven|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:Offset(2)",
        ),
        (
            "a place above",
            TEN,
            "@@ -300,3 +300,3 @@| five|-six|+6| seven|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:Offset(-295)",
        ),
        (
            "the hunks after it moved as far",
            TEN,
            "@@ -1,2 +1,2 @@| three|-four|+4|@@ -7 +7 @@|-nine|+9|",
            "one|two|three|4|five|six|seven|eight|9|ten|",
            "1@3:Offset(2)",
        ),
        (
            "the nearest of two positions",
            "a|x|b|a|x|b|c|d|a|x|b|",
            "@@ -3,3 +3,3 @@| a|-x|+y| b|",
            "a|x|b|a|y|b|c|d|a|x|b|",
            "1@4:Offset(1)",
        ),
        ("the place it says, among many", "x|x|x|x|x|x|", "@@ -4 +4 @@|-x|+y|", "x|x|x|y|x|x|", ""),
        (
            "a place within lines that repeat",
            "a|a|a|b|",
            "@@| a| a|-b|+B|",
            "a|a|a|B|",
            "1@2:NoNumbers",
        ),
        (
            "the place after the hunk before",
            "x|a|x|b|",
            "@@|-a|+A|@@|-x|+y|",
            "x|A|y|b|",
            "1@2:NoNumbers 2@3:NoNumbers",
        ),
        (
            "hunks whose context overlaps",
            TEN,
            "@@ -1,5 +1,5 @@| one|-two|+2| three| four| five|@@ -3,4 +3,4 @@| three| four|-five|+5| six|",
            "one|2|three|four|5|six|seven|eight|nine|ten|",
            "2@3:Overlap",
        ),
        (
            "an outer line of context that changed",
            TEN,
            "@@ -4,5 +4,5 @@| vier| five|-six|+6| seven| eight|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:Context { ignored: 1 }",
        ),
        (
            "an outer line on either side, at another place",
            TEN,
            "@@ -2,5 +2,5 @@| vier| five|-six|+6| seven| acht|",
            "one|two|three|four|five|6|seven|eight|nine|ten|",
            "1@5:Offset(2) 1@5:Context { ignored: 2 }",
        ),
        (
            "context beyond the end",
            TEN,
            "@@ -8,5 +8,6 @@| eight| nine| ten|+eleven|||",
            "one|two|three|four|five|six|seven|eight|nine|ten|eleven|",
            "1@8:Blanks { lines: 2 } 1@8:Context { ignored: 2 }",
        ),
        (
            "context before the beginning",
            TEN,
            "@@ -1,3 +1,3 @@| title| one|-two|+2|",
            "one|2|three|four|five|six|seven|eight|nine|ten|",
            "1@1:Offset(-1) 1@1:Context { ignored: 1 }",
        ),
        (
            "empty lines of context that lost their blank",
            "a||b||c|",
            "@@ -1,5 +1,5 @@| a||-b|+B|| c|",
            "a||B||c|",
            "1@1:Blanks { lines: 2 }",
        ),
        (
            "an empty last line of context that lost its blank",
            "a|b||c|",
            "@@ -1,3 +1,3 @@| a|-b|+B||",
            "a|B||c|",
            "1@1:Blanks { lines: 1 }",
        ),
    ]);
}

#[test]
fn line_endings_are_preserved() {
    check(&[
        (
            "a diff with LF for a text with CRLF",
            "one\r|two\r|three\r|",
            "@@ -1,3 +1,4 @@| one|-two|+2|+2.5| three|",
            "one\r|2\r|2.5\r|three\r|",
            "0@0:LineEnds",
        ),
        (
            "a diff with CRLF for a text with LF",
            "one|two|three|",
            "--- a/references/guide.md\r|+++ b/references/guide.md\r|@@ -1,3 +1,3 @@\r| one\r|-two\r|+2\r|\
             \x20three\r|",
            "one|2|three|",
            "0@0:LineEnds",
        ),
        (
            "a diff with CRLF for a text with CRLF",
            "one\r|two\r|three\r|",
            "@@ -1,3 +1,3 @@\r| one\r|-two\r|+2\r| three",
            "one\r|2\r|three\r|",
            "",
        ),
        (
            "line ends are changed where that is the change",
            "one\r|two\r|",
            "@@ -1,2 +1,2 @@|-one\r|-two\r|+one|+two|",
            "one|two|",
            "",
        ),
        (
            "a carriage return within a line is none",
            "one\rstill one|two|",
            "@@ -1,2 +1,2 @@| one\rstill one|-two|+2\r2|",
            "one\rstill one|2\r2|",
            "",
        ),
        (
            "a diff with CRLF for a new file",
            "",
            "--- /dev/null\r|+++ b/references/guide.md\r|@@ -0,0 +1,2 @@\r|+one\r|+two\r|",
            "one|two|",
            "0@0:LineEnds",
        ),
        (
            "no newline at the end, before and after",
            "one|two",
            "@@ -1,2 +1,2 @@| one|-two|\\ No newline at end of file|+2|\\ No newline at end of file|",
            "one|2",
            "",
        ),
        (
            "the newline at the end is added",
            "one|two",
            "@@ -1,2 +1,2 @@| one|-two|\\ No newline at end of file|+two|",
            "one|two|",
            "",
        ),
        (
            "the newline at the end is taken away",
            "one|two|",
            "@@ -1,2 +1,2 @@| one|-two|+two|\\ No newline at end of file|",
            "one|two",
            "",
        ),
        (
            "the mark of the missing newline is missing",
            "one|two",
            "@@ -1,2 +1,3 @@| one| two|+three|",
            "one|two|three",
            "0@0:FinalNewline",
        ),
        (
            "the mark of the missing newline is wrong",
            "one|two|",
            "@@ -1,2 +1,2 @@| one|-two|\\ No newline at end of file|+2|\\ No newline at end of file|",
            "one|2|",
            "0@0:FinalNewline",
        ),
        (
            "the mark of the missing newline in the middle",
            "one|two|three|",
            "@@ -1 +1 @@|-one|+1|\\ No newline at end of file|",
            "1|two|three|",
            "0@0:FinalNewline",
        ),
        (
            "a last line without newline is deleted",
            "one|two",
            "@@ -1,2 +1 @@| one|-two|",
            "one|",
            "0@0:FinalNewline",
        ),
        (
            "a carriage return before the missing newline",
            "one|two\r",
            "@@ -1,2 +1,2 @@| one|-two\r|\\ No newline at end of file|+2\r|\\ No newline at end of file|",
            "one|2\r",
            "",
        ),
        (
            "an empty line is one by its newline",
            "d",
            "@@ -1,2 +1,2 @@|-d|+| b|",
            "|",
            "0@0:FinalNewline 1@1:Context { ignored: 1 }",
        ),
        (
            "changed lines that look like names, before another hunk",
            "-- a/x|1|2|3|4|5|6|7|8|",
            "@@ -1 +1 @@|--- a/x|+++ b/y|@@ -9 +9 @@|-8|+eight|",
            "++ b/y|1|2|3|4|5|6|7|eight|",
            "",
        ),
        (
            "a deleted line that looks like a name, before another hunk",
            "-- a/x|1|2|3|4|5|6|7|8|",
            "@@ -1 +0,0 @@|--- a/x|@@ -9 +8 @@|-8|+eight|",
            "1|2|3|4|5|6|7|eight|",
            "",
        ),
        (
            "other scripts, wide and joined characters",
            "技能|naïve|👩‍👩‍👧 e\u{301}|",
            "@@ -1,3 +1,3 @@| 技能|-naïve|+naïf 🦀| 👩‍👩‍👧 e\u{301}|",
            "技能|naïf 🦀|👩‍👩‍👧 e\u{301}|",
            "",
        ),
        ("tabs stay tabs", "a:|\tb|\tc|", "@@ -1,3 +1,3 @@| a:|-\tb|+\tB| \tc|", "a:|\tB|\tc|", ""),
        (
            "deleted lines that look like names",
            "---|-- a/x|++ b/y|end|",
            "@@ -1,4 +1,3 @@|----|--- a/x|-++ b/y|+---|+++ b/z| end|",
            "---|++ b/z|end|",
            "",
        ),
        (
            "a new file",
            "",
            "diff --git a/references/guide.md b/references/guide.md|new file mode 100644|index 000..12a|\
             --- /dev/null|+++ b/references/guide.md|@@ -0,0 +1,2 @@|+one|+two|",
            "one|two|",
            "",
        ),
        (
            "a new file in the other form",
            "",
            "*** Begin Patch|*** Add File: references/guide.md|+one|+two|*** End Patch|",
            "one|two|",
            "0@0:Fences 1@1:NoNumbers",
        ),
        ("everything is deleted", "one|two|", "@@ -1,2 +0,0 @@|-one|-two|", "", ""),
    ]);
}
