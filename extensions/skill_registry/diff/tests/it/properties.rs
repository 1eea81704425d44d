//! Properties of every diff.

use std::collections::BTreeMap;

use proptest::prelude::*;
use skill_diff::{self as diff, PatchResult};

const PATH: &str = "SKILL.md";

/// Returns texts of few lines that look like diffs, fences and each other.
fn text(lines: &'static [&'static str]) -> impl Strategy<Value = String> {
    let line = (prop::sample::select(lines), prop::sample::select(&["\n", "\n", "\n", "\r\n"][..]));
    (prop::collection::vec(line, 0..14), any::<bool>()).prop_map(|(lines, newline)| {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if !newline {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

const NASTY: &[&str] = &[
    "a",
    "b",
    "c",
    "",
    " ",
    "\t",
    "-- a/x",
    "++ b/y",
    "--",
    "-",
    "+",
    "@@ -1 +1 @@",
    "@@",
    "```",
    " ```",
    "\\ No newline at end of file",
    "diff --git a/x b/y",
    "*** End Patch",
    "d\re",
    "\r",
    "naïve 技能",
];

const PLAIN: &[&str] = &["a", "b", "c", "d", "e", "f", "", "g"];

/// Counts the lines of a text, ignoring their endings.
fn lines<'t>(lines: impl Iterator<Item = &'t str>) -> BTreeMap<&'t str, i64> {
    let mut counts = BTreeMap::new();
    lines.for_each(|line| *counts.entry(line.trim_end_matches('\r')).or_default() += 1);
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn canonical_diff_applies_without_fuzz(base in text(NASTY), new in text(NASTY)) {
        prop_assume!(base != new);
        let expected = PatchResult { text: new.clone(), fuzz: Vec::new() };
        prop_assert_eq!(diff::apply_diff(&base, &diff::unified_diff(&base, &new, PATH), PATH), Ok(expected));
    }

    #[test]
    fn patch_library_agrees(base in text(PLAIN), new in text(PLAIN)) {
        let (base, new) = (base.replace('\r', ""), new.replace('\r', ""));
        prop_assume!(base != new);
        let canonical = diff::unified_diff(&base, &new, PATH);
        let parsed = flickzeug::Diff::from_str(&canonical).unwrap();
        prop_assert_eq!(flickzeug::apply(&base, &parsed).unwrap().0, new);
    }

    #[test]
    fn diff_without_numbers_applies_alike(base in text(PLAIN), new in text(PLAIN)) {
        prop_assume!(base != new);
        let canonical = diff::unified_diff(&base, &new, PATH);
        let strip = |line: &'static str| move |text: &str| match text.starts_with("@@") {
            true => format!("{line}\n"),
            false => text.to_owned(),
        };
        for header in ["@@", "@@ ... @@", "@@ -7,1 +7,1 @@"] {
            let stripped: String = canonical.split_inclusive('\n').map(strip(header)).collect();
            let fenced = format!("So:\n\n````diff\n{stripped}````\n\nWhy:\n- better\n");
            for diff in [&stripped, &fenced] {
                // A wrong number may be right for another of several places.
                if let Ok(patched) = diff::apply_diff(&base, diff, PATH) && !header.contains('7') {
                    prop_assert_eq!(&patched.text, &new);
                }
            }
        }
    }

    #[test]
    fn shifted_diff_changes_same_lines(
        base in text(PLAIN), new in text(PLAIN), at in 0..14_usize, gone in 0..3_usize, more in text(PLAIN),
    ) {
        let mut other: Vec<&str> = base.split_inclusive('\n').collect();
        let from = at.min(other.len());
        other.drain(from..(from + gone).min(other.len()));
        other.insert(from, &more);
        let other = other.concat();
        let canonical = diff::unified_diff(&base, &new, PATH);
        if let Ok(patched) = diff::apply_diff(&other, &canonical, PATH) {
            let mut expected = lines(other.lines());
            for line in canonical.lines().skip(2) {
                let change = match line.as_bytes().first() {
                    Some(b'-') => -1,
                    Some(b'+') => 1,
                    _ => continue,
                };
                *expected.entry(line[1..].trim_end_matches('\r')).or_default() += change;
            }
            expected.retain(|_, count| *count != 0);
            prop_assert_eq!(lines(patched.text.lines()), expected);
        }
    }

    #[test]
    fn odd_diffs_never_panic(
        base in text(NASTY),
        diff in prop::collection::vec(
            prop::sample::select(&[
                "@@", "@@ -1,2 +1,2 @@", "@@ -0,0 +1 @@", "@@ -99999999999999999999 +1 @@", "@@@ -1 @@@",
                "@@ -18446744073709551615,18446744073709551615 +1,18446744073709551615 @@", "--- a/SKILL.md",
                "+++ b/SKILL.md", "--- /dev/null", "+++ /dev/null", "diff --git ", "diff --git \"a\\", "```diff",
                "```", "~~~", "\\ No newline at end of file", " a", "-a", "+b", "", " ", "-", "+", "-- ", "prose",
                "*** Add File: SKILL.md", "*** End Patch", "-\r", "new file mode 1", "\u{fe0f}é",
            ][..]),
            0..16,
        ),
        crlf in any::<bool>(),
    ) {
        let diff = diff.join(if crlf { "\r\n" } else { "\n" });
        let _ = diff::apply_diff(&base, &diff, PATH).map_err(|error| error.to_string());
    }

    #[test]
    fn arbitrary_texts_never_panic(base in ".{0,40}", diff in "(?s).{0,80}", third in "(?s).{0,40}") {
        let _ = diff::apply_diff(&base, &diff, PATH).map_err(|error| error.to_string());
        let _ = diff::merge_texts(&base, &diff, &third);
        let (old, new) = diff::diff_words(&base, &diff);
        for (segments, line) in [(old, base), (new, diff)] {
            prop_assert!(segments.windows(2).all(|two| two[0].changed != two[1].changed));
            prop_assert_eq!(segments.into_iter().map(|segment| segment.text).collect::<String>(), line);
        }
    }

    #[test]
    fn merge_is_symmetric(base in text(PLAIN), ours in text(PLAIN), theirs in text(PLAIN)) {
        prop_assert_eq!(diff::merge_texts(&base, &ours, &base), Ok(ours.clone()));
        prop_assert_eq!(diff::merge_texts(&base, &base, &theirs), Ok(theirs.clone()));
        prop_assert_eq!(diff::merge_texts(&base, &ours, &ours), Ok(ours.clone()));
        match (diff::merge_texts(&base, &ours, &theirs), diff::merge_texts(&base, &theirs, &ours)) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (Err(one), Err(other)) => {
                let pairs: Vec<_> = one.into_iter().map(|one| (one.base, one.ours, one.theirs)).collect();
                let swapped: Vec<_> =
                    other.into_iter().map(|one| (one.base, one.theirs, one.ours)).collect();
                prop_assert_eq!(pairs, swapped);
            }
            (one, other) => prop_assert!(false, "{:?} {:?}", one, other),
        }
    }
}
