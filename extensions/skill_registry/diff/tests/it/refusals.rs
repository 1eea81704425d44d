//! Tests with diffs that must be rejected, and their messages. In the tables `|` is a newline.

use skill_diff::{self as diff, DiffError};

const PATH: &str = "SKILL.md";
const TEN: &str = "one|two|three|four|five|six|seven|eight|nine|ten|";

fn check(cases: &[(&str, &str, &str, &str)]) {
    let text = |text: &str| text.replace('|', "\n");
    for (name, base, diff, expected) in cases {
        match diff::apply_diff(&text(base), &text(diff), PATH) {
            Ok(patched) => panic!("{name}: applied: {patched:?}"),
            Err(error) => assert_eq!(error.to_string(), *expected, "{name}"),
        }
    }
}

#[test]
fn unsuitable_diff_is_rejected() {
    check(&[
        ("empty", TEN, "", "the diff is empty"),
        ("blank", TEN, " |\t\r||", "the diff is empty"),
        (
            "prose",
            TEN,
            "I would replace two by 2.|",
            "the diff has no hunk: a hunk is a line `@@ -1,3 +1,3 @@` and lines that begin with a blank, \
             `-` or `+`",
        ),
        (
            "names alone",
            TEN,
            "--- a/SKILL.md|+++ b/SKILL.md|",
            "the diff has no hunk: a hunk is a line `@@ -1,3 +1,3 @@` and lines that begin with a blank, \
             `-` or `+`",
        ),
        (
            "context alone",
            TEN,
            "@@ -1,2 +1,2 @@| one| two|",
            "the diff has only context: no line begins with `-` or `+`",
        ),
        ("the same again", TEN, "@@ -1 +1 @@|-one|+one|", "the diff changes nothing"),
        (
            "another file",
            TEN,
            "--- a/references/x.md|+++ b/references/x.md|@@ -1 +1 @@|-one|+1|",
            "the diff is for another file: `references/x.md`",
        ),
        (
            "another file, as git says without names",
            TEN,
            "diff --git a/my notes.md b/my notes.md|@@ -1 +1 @@|-one|+1|",
            "the diff is for another file: `my notes.md`",
        ),
        (
            "a name like the path",
            TEN,
            "--- a/OLDSKILL.md|+++ b/OLDSKILL.md|@@ -1 +1 @@|-one|+1|",
            "the diff is for another file: `OLDSKILL.md`",
        ),
        (
            "several files",
            TEN,
            "--- a/SKILL.md|+++ b/SKILL.md|@@ -1 +1 @@|-one|+1|--- a/x.md|+++ b/x.md|@@ -1 +1 @@|-x|+y|",
            "the diff is for several files (`SKILL.md`, `x.md`): give one diff for each",
        ),
        (
            "several files, this one not first",
            TEN,
            "diff --git a/x.md b/x.md|--- a/x.md|+++ b/x.md|@@ -1,9 +1,9 @@|-x|+y|\
             diff --git a/SKILL.md b/SKILL.md|--- a/SKILL.md|+++ b/SKILL.md|@@ -1 +1 @@|-one|+1|",
            "the diff is for several files (`x.md`, `SKILL.md`): give one diff for each",
        ),
        (
            "renamed",
            TEN,
            "diff --git a/SKILL.md b/README.md|similarity index 90%|rename from SKILL.md|rename to README.md|",
            "renaming or copying a file is not supported (`a/SKILL.md`, `b/README.md`)",
        ),
        (
            "renamed by its names",
            TEN,
            "--- a/SKILL.md|+++ b/README.md|@@ -1 +1 @@|-one|+1|",
            "renaming or copying a file is not supported (`a/SKILL.md`, `b/README.md`)",
        ),
        (
            "moved in the other form",
            TEN,
            "*** Update File: SKILL.md|*** Move to: x.md|@@|-one|+1|",
            "renaming or copying a file is not supported (`SKILL.md`, `x.md`)",
        ),
        (
            "deleted",
            TEN,
            "--- a/SKILL.md|+++ /dev/null|@@ -1 +0,0 @@|-one|",
            "deleting the file is not supported",
        ),
        (
            "deleted, as git says",
            TEN,
            "diff --git a/SKILL.md b/SKILL.md|deleted file mode 100644|",
            "deleting the file is not supported",
        ),
        (
            "another file deleted",
            TEN,
            "--- a/x.md|+++ /dev/null|@@ -1 +0,0 @@|-one|",
            "the diff is for another file: `x.md`",
        ),
        (
            "created again",
            TEN,
            "--- /dev/null|+++ b/SKILL.md|@@ -0,0 +1 @@|+one|",
            "the diff creates a file that already exists: diff against its text",
        ),
        (
            "binary",
            TEN,
            "diff --git a/SKILL.md b/SKILL.md|Binary files a/SKILL.md and b/SKILL.md differ|",
            "binary diffs are not supported: only text can be changed",
        ),
        (
            "binary, as git sends it",
            TEN,
            "diff --git a/SKILL.md b/SKILL.md|GIT binary patch|literal 12|zcmd|",
            "binary diffs are not supported: only text can be changed",
        ),
        (
            "combined",
            TEN,
            "--- a/SKILL.md|+++ b/SKILL.md|@@@ -1,1 -1,1 +1,1 @@@|- one|++1|",
            "combined diffs (`@@@`) are not supported: diff against one text",
        ),
        (
            "control characters in a name",
            TEN,
            "--- a/\u{1b}[2Jx\u{202e}.md|+++ b/\u{1b}[2Jx\u{202e}.md|@@ -1 +1 @@|-one|+1|",
            "the diff is for another file: `\\u{1b}[2Jx\\u{202e}.md`",
        ),
    ]);
}

#[test]
fn mismatched_hunk_is_rejected() {
    check(&[
        (
            "a deleted line that is not there",
            TEN,
            "@@ -4,3 +4,3 @@| four|-FIVE|+5| six|",
            "hunk 1 does not apply: at line 5 the diff has `FIVE`, the file has `five`",
        ),
        (
            "the first of several lines that differ",
            TEN,
            "@@ -1,6 +1,6 @@| one| two| 3| 4|-five|+5| six|",
            "hunk 1 does not apply: at line 3 the diff has `3`, the file has `three`",
        ),
        (
            "three outer lines of context that differ",
            TEN,
            "@@ -2,5 +2,5 @@| 2| 3| 4|-five|+5| six|",
            "hunk 1 does not apply: at line 2 the diff has `2`, the file has `two`",
        ),
        (
            "an inner line of context that differs",
            TEN,
            "@@ -2,6 +2,6 @@| two|-three|+3| vier|-five|+5| six|",
            "hunk 1 does not apply: at line 4 the diff has `vier`, the file has `four`",
        ),
        (
            "the second hunk",
            TEN,
            "@@ -1 +1 @@|-one|+1|@@ -8,2 +8,2 @@| eight|-neun|+9| ten|",
            "hunk 2 does not apply: at line 9 the diff has `neun`, the file has `nine`",
        ),
        (
            "beyond the end",
            TEN,
            "@@ -9,3 +9,2 @@| nine| ten|-eleven|",
            "hunk 1 does not apply: at line 11 the diff has `eleven`, but the file ends before it",
        ),
        (
            "at another place than it says",
            TEN,
            "@@ -70,4 +70,4 @@| three| four|-FIVE|+5| six|",
            "hunk 1 does not apply: at line 5 the diff has `FIVE`, the file has `five`",
        ),
        (
            "no line of it",
            TEN,
            "@@ -4,3 +4,3 @@||-fünf|+5| sechs|",
            "hunk 1 does not apply: the file has none of its lines, such as `fünf`",
        ),
        (
            "an empty base",
            "",
            "@@ -1 +1 @@|-one|+1|",
            "hunk 1 does not apply: the file has none of its lines, such as `one`",
        ),
        (
            "blanks for a tab",
            "a:|\tb|c|",
            "@@ -1,3 +1,3 @@| a:|-    b|+    B| c|",
            "hunk 1 does not apply: at line 2 the diff has `    b`, the file has `\\tb` (only blanks \
             differ)",
        ),
        (
            "blanks at the end of a line",
            "a|b  |c|",
            "@@ -1,3 +1,3 @@| a|-b|+B| c|",
            "hunk 1 does not apply: at line 2 the diff has `b`, the file has `b  ` (only blanks differ)",
        ),
        (
            "an empty line that is not there",
            TEN,
            "@@ -1,4 +1,4 @@| one| two| |-three|+3|",
            "hunk 1 does not apply: at line 3 the diff has an empty line, the file has `three`",
        ),
        (
            "other cases of letters",
            TEN,
            "@@ -1,2 +1,2 @@| One|-Two|+2|",
            "hunk 1 does not apply: the file has none of its lines, such as `One`",
        ),
        (
            "another form of the same letter",
            "caf\u{e9}|au lait|",
            "@@ -1,2 +1,2 @@|-cafe\u{301}|+the| au lait|",
            "hunk 1 does not apply: at line 1 the diff has `cafe\\u{301}`, the file has `caf\u{e9}`",
        ),
        (
            "two places equally near",
            "a|x|a|",
            "@@ -2 +2 @@|-a|+A|",
            "hunk 1 fits at line 1 and at line 3: give more lines of context or the right line number",
        ),
        (
            "two places and no number",
            "x|a|y|b|c|x|a|",
            "@@ ... @@| x|-a|+A|",
            "hunk 1 fits at line 1 and at line 6: give more lines of context or the right line number",
        ),
        (
            "two places with less context",
            "x|a|y|x|a|z|",
            "@@ -9,3 +9,3 @@| x|-a|+A| w|",
            "hunk 1 fits at line 1 and at line 4: give more lines of context or the right line number",
        ),
        (
            "no context",
            TEN,
            "@@ -5,0 +6 @@|+5.5|",
            "hunk 1 has only added lines: give lines of context around them",
        ),
        (
            "out of order",
            TEN,
            "@@ -8,2 +8,2 @@| eight|-nine|+9|@@ -2,2 +2,2 @@| two|-three|+3|",
            "hunk 2 fits only at line 2, before the end of the changes of hunk 1: give every \
             change once, in the order of the file",
        ),
        (
            "hunks that delete the same line",
            TEN,
            "@@ -1,3 +1,3 @@| one|-two|+2| three|@@ -2,2 +2,2 @@|-two|+zwei| three|",
            "hunk 2 fits only at line 2, before the end of the changes of hunk 1: give every \
             change once, in the order of the file",
        ),
        (
            "the same insertion twice",
            TEN,
            "@@ -1,2 +1,3 @@| one|+1.5| two|@@ -1,2 +1,3 @@| one|+1.5| two|",
            "hunk 2 fits only at line 1, before the end of the changes of hunk 1: give every \
             change once, in the order of the file",
        ),
        (
            "reversed",
            TEN,
            "@@ -4,3 +4,3 @@| four|-5|+five| six|",
            "hunk 1 does not apply, and its result is already at line 4: the diff was applied before, \
             or is reversed",
        ),
        (
            "an insertion that was made before",
            TEN,
            "@@ -4,2 +4,3 @@| four|+five| six|",
            "hunk 1 does not apply, and its result is already at line 4: the diff was applied before, \
             or is reversed",
        ),
        (
            "one line that was replaced before",
            "3.12|",
            "@@ -1 +1 @@|-3.1|+3.12|",
            "hunk 1 does not apply, and its result is already at line 1: the diff was applied before, \
             or is reversed",
        ),
        (
            "a deletion that was made before",
            "one|two|four|",
            "@@ -1,4 +1,3 @@| one| two|-three| four|",
            "hunk 1 does not apply, and its result is already at line 1: the diff was applied before, \
             or is reversed",
        ),
        (
            "context that lost its first character",
            TEN,
            "@@ -1,4 +1,4 @@|one|-two|+2|three|",
            "line 2 of the diff starts with neither a blank, `-` nor `+`, and changes follow it: `one`",
        ),
        (
            "a fence that lost its first character",
            "a|```|b|c|",
            "```diff|@@ -1,9 +1,9 @@|-a|+A|```|-b|+B| c|```|",
            "line 5 of the diff starts with neither a blank, `-` nor `+`, and changes follow it: \"```\"",
        ),
    ]);
}

/// Tests diffs that would take a naive parser or search minutes or hours.
#[test]
fn hostile_diff_is_rejected_quickly() {
    let mib = 1 << 20;
    let error =
        |base: &str, diff: &str| diff::apply_diff(base, diff, PATH).map(|done| done.text.len());
    let too_large = |what| Err(DiffError::TooLarge { what });
    assert_eq!(error("one\n", &"@@".repeat(mib / 2)), Err(DiffError::Combined));
    assert_eq!(error("one\n", &"@@\n".repeat(mib / 3)), Err(DiffError::NoHunks));
    assert_eq!(error("one\n", &"```\n".repeat(mib / 4)), Err(DiffError::NoHunks));
    let names = "--- a\n+++ b\n".repeat(mib / 12);
    let several = DiffError::SeveralFiles { named: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(error("one\n", &names), Err(several));
    assert_eq!(error("one\n", &"\\ No newline\n".repeat(mib / 13)), Err(DiffError::NoHunks));
    let same = "x\n".repeat(mib / 2);
    let search = "the search for the positions of the hunks";
    let not_found = DiffError::Nowhere { hunk: 1, expected: "y".to_owned() };
    assert_eq!(error(&same, &"@@ -9 +9 @@\n-y\n+z\n".repeat(40_000)), Err(not_found));
    assert_eq!(error(&same, &"@@ -1 +1 @@\n-x\n".repeat(40_000)), too_large(search));
    let long = format!("@@ -1,1 +1,1 @@\n{}-y\n", " x\n".repeat(300_000));
    assert!(matches!(
        error(&same, &long),
        Err(DiffError::Mismatch { .. } | DiffError::Reversed { .. })
    ));
    assert_eq!(error("", &" ".repeat(diff::LIMIT + 1)), too_large("the diff"));
    assert_eq!(error(&" ".repeat(diff::LIMIT + 1), "@@\n-a\n"), too_large("the text"));
}
