//! The fences as stricter validators find them.

use skill_format::{
    Diagnostic, FRONTMATTER_LIMIT, FrontmatterFences, ParsedSkill, parse_with_fences,
};

use crate::profile::Profile;

/// What loading reports and a YAML parser refuses, or may not be used for by these validators.
pub(crate) const YAML_FAULTS: [&str; 7] = [
    "frontmatter.alias",
    "frontmatter.anchor",
    "frontmatter.complexKey",
    "frontmatter.duplicateKey",
    "frontmatter.multipleDocuments",
    "frontmatter.recovered",
    "frontmatter.tag",
];

/// A head that was read by the fences of a profile.
#[derive(Debug)]
pub(crate) struct StrictHead {
    pub(crate) parsed: ParsedSkill,
    pub(crate) fences: Option<FrontmatterFences>,
}

/// Reads the head of a decoded file as the validator of the profile splits it; nothing if the
/// profile has no fences of its own.
///
/// `marked` says whether a byte order mark was dropped.
pub(crate) fn read_strict_head(
    dir_name: &str,
    text: &str,
    marked: bool,
    profile: Profile,
) -> Option<StrictHead> {
    let find: fn(&str) -> Result<FrontmatterFences, MissingFence> = match profile {
        Profile::Skillscraft => skillscraft,
        Profile::SeedStrict => seed_strict,
        _ => return None,
    };
    let found = if marked { Err(MissingFence::Mark) } else { find(text) };
    Some(match found {
        Ok(fences) if fences.body_start > FRONTMATTER_LIMIT => missing_head(MissingFence::TooLarge),
        Ok(fences) => {
            StrictHead { parsed: parse_with_fences(dir_name, text, &fences), fences: Some(fences) }
        }
        Err(missing) => missing_head(missing),
    })
}

/// Why there is no frontmatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingFence {
    Mark,
    Opening,
    Closing,
    TooLarge,
}

fn missing_head(missing: MissingFence) -> StrictHead {
    let found = match missing {
        MissingFence::Mark => Diagnostic::error(
            "frontmatter.missing",
            "the file starts with a byte order mark, not with `---`",
        )
        .with_help("save it as UTF-8 without a byte order mark"),
        MissingFence::Opening => {
            Diagnostic::error("frontmatter.missing", "the file does not start with a line `---`")
                .with_help("start the file with a line that is exactly `---`")
        }
        MissingFence::Closing => {
            Diagnostic::error("frontmatter.unclosed", "the frontmatter has no closing line `---`")
                .with_help("add a line that is exactly `---` after the last field")
        }
        MissingFence::TooLarge => Diagnostic::error(
            "frontmatter.maxSize",
            format!("no closing line `---` within {FRONTMATTER_LIMIT} bytes"),
        )
        .with_help("close the frontmatter with a line `---`, or shorten it"),
    };
    let parsed = ParsedSkill {
        frontmatter: None,
        body_start: 0,
        diagnostics: vec![found.with_position(1, 1)],
    };
    StrictHead { parsed, fences: None }
}

/// Splits by `/^---\r?\n([\s\S]*?)\r?\n---\r?\n?([\s\S]*)$/` (SkillsCraft specification reference).
///
/// One thing differs: nothing at all between the fences is an empty frontmatter, as the fields
/// that are missing say more than a frontmatter that is.
fn skillscraft(text: &str) -> Result<FrontmatterFences, MissingFence> {
    let after =
        |at: usize, end: &str| text[at..].strip_prefix(end).map(|rest| text.len() - rest.len());
    let after_line_end = |at: usize| after(at, "\r\n").or_else(|| after(at, "\n"));
    let open = after(0, "---").and_then(after_line_end).ok_or(MissingFence::Opening)?;
    let close = if text[open..].starts_with("---") {
        open
    } else {
        open + text[open..].find("\n---").ok_or(MissingFence::Closing)? + 1
    };
    let fence_end = close + "---".len();
    let body_start = after_line_end(fence_end).unwrap_or(fence_end);
    Ok(FrontmatterFences::new(open..close, body_start, 1))
}

/// Splits at lines of three or more dashes, blanks around the closing one and after the opening
/// one allowed: the formal specification only says "delimited by `---`", and its fixtures have all
/// of these.
fn seed_strict(text: &str) -> Result<FrontmatterFences, MissingFence> {
    let is_fence = |line: &str| line.len() >= 3 && line.bytes().all(|byte| byte == b'-');
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().ok_or(MissingFence::Opening)?;
    if !is_fence(first.trim_end()) {
        return Err(MissingFence::Opening);
    }
    let mut at = first.len();
    for line in lines {
        if is_fence(line.trim()) {
            return Ok(FrontmatterFences::new(first.len()..at, at + line.len(), 1));
        }
        at += line.len();
    }
    Err(MissingFence::Closing)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Split = fn(&str) -> Result<FrontmatterFences, MissingFence>;

    fn parts(split: Split, text: &str) -> Result<(&str, &str), MissingFence> {
        split(text).map(|fences| (&text[fences.yaml], &text[fences.body_start..]))
    }

    #[test]
    fn skillscraft_splits_by_its_expression() {
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
            assert_eq!(parts(skillscraft, text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_formal_specification_allows_blanks_and_more_dashes() {
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
            assert_eq!(parts(seed_strict, text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_head_over_the_limit_is_not_read() {
        let text = format!("---\ndescription: {}\n---\n", "x".repeat(FRONTMATTER_LIMIT));
        for profile in [Profile::Skillscraft, Profile::SeedStrict] {
            let head = read_strict_head("x", &text, false, profile).unwrap();
            let found: Vec<_> = head.parsed.diagnostics.iter().map(|found| found.rule).collect();
            assert_eq!((found, head.parsed.frontmatter), (vec!["frontmatter.maxSize"], None));
        }
    }
}
