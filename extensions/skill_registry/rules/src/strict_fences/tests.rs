//! Tests of `strict_fences`.

use super::*;

type Split = fn(&str) -> Result<FrontmatterFences, MissingFence>;

fn parts(split: Split, text: &str) -> Result<(&str, &str), MissingFence> {
    split(text).map(|fences| (&text[fences.yaml], &text[fences.body_start..]))
}

#[test]
fn skillscraft_fences_match_regex() {
    let cases = [
        ("---\na: b\n---\nbody", Ok(("a: b\n", "body"))),
        ("---\r\na: b\r\n---\r\nbody", Ok(("a: b\r\n", "body"))),
        ("---\na: b\n---", Ok(("a: b\n", ""))),
        ("---\na: b\n--- body", Ok(("a: b\n", " body"))),
        ("---\na: b---\n---\nbody\n---\n", Ok(("a: b---\n", "body\n---\n"))),
        ("---\n---\nbody", Ok(("", "body"))),
        ("---\n\n---\nbody", Ok(("\n", "body"))),
        ("--- \na: b\n---\n", Err(MissingFence::Opening)),
        ("----\na: b\n----\n", Err(MissingFence::Opening)),
        ("\n---\na: b\n---\n", Err(MissingFence::Opening)),
        ("", Err(MissingFence::Opening)),
        ("---\na: b\n ---\n", Err(MissingFence::Closing)),
        ("---\na: b\n", Err(MissingFence::Closing)),
    ];
    for (text, expected) in cases {
        assert_eq!(parts(find_skillscraft_fences, text), expected, "{text:?}");
    }
}

#[test]
fn seed_strict_fences_allow_blanks() {
    let cases = [
        ("---\na: b\n---\nbody", Ok(("a: b\n", "body"))),
        ("----\na: b\n-----\nbody", Ok(("a: b\n", "body"))),
        ("--- \r\na: b\r\n  ---\t\r\nbody", Ok(("a: b\r\n", "body"))),
        ("---\n---", Ok(("", ""))),
        ("---\na: b---\n--- x\n---\nbody", Ok(("a: b---\n--- x\n", "body"))),
        ("\n---\na: b\n---\n", Err(MissingFence::Opening)),
        (" ---\na: b\n---\n", Err(MissingFence::Opening)),
        ("--\na: b\n--\n", Err(MissingFence::Opening)),
        ("---\na: b\n--\n", Err(MissingFence::Closing)),
    ];
    for (text, expected) in cases {
        assert_eq!(parts(find_seed_strict_fences, text), expected, "{text:?}");
    }
}

#[test]
fn oversized_head_is_not_read() {
    let text = format!("---\ndescription: {}\n---\n", "x".repeat(FRONTMATTER_LIMIT));
    for profile in [Profile::Skillscraft, Profile::SeedStrict] {
        let head = read_strict_head("x", &text, false, profile).unwrap();
        let found: Vec<_> = head.parsed.diagnostics.iter().map(|found| found.rule).collect();
        assert_eq!((found, head.parsed.frontmatter), (vec!["frontmatter.maxSize"], None));
    }
}
