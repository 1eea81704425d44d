//! The frontmatter fences of stricter validators.

use skill_format::{
    Diagnostic, FRONTMATTER_LIMIT, FrontmatterFences, ParsedSkill, parse_with_fences,
};

use crate::profile::Profile;

/// Findings of loading that are fatal for these validators: invalid or disallowed YAML.
pub(crate) const YAML_FAULTS: [&str; 7] = [
    "frontmatter.alias",
    "frontmatter.anchor",
    "frontmatter.complexKey",
    "frontmatter.duplicateKey",
    "frontmatter.multipleDocuments",
    "frontmatter.recovered",
    "frontmatter.tag",
];

/// A head that was parsed with the fences of a profile.
#[derive(Debug)]
pub(crate) struct StrictHead {
    pub(crate) parsed: ParsedSkill,
    pub(crate) fences: Option<FrontmatterFences>,
}

/// Parses the head of a decoded file as the validator of the profile splits it. Returns `None` if
/// the profile has no fences of its own.
///
/// `marked` is `true` if a byte order mark was dropped.
pub(crate) fn read_strict_head(
    dir_name: &str,
    text: &str,
    marked: bool,
    profile: Profile,
) -> Option<StrictHead> {
    let find: fn(&str) -> Result<FrontmatterFences, MissingFence> = match profile {
        Profile::Skillscraft => find_skillscraft_fences,
        Profile::SeedStrict => find_seed_strict_fences,
        _ => return None,
    };
    // To these validators the mark is text before the opening fence.
    let found = if marked { Err(MissingFence::Mark) } else { find(text) };
    Some(match found {
        // The limit of loading holds here as well, before the YAML parser sees the text.
        Ok(fences) if fences.body_start > FRONTMATTER_LIMIT => missing_head(MissingFence::TooLarge),
        Ok(fences) => {
            StrictHead { parsed: parse_with_fences(dir_name, text, &fences), fences: Some(fences) }
        }
        Err(missing) => missing_head(missing),
    })
}

/// The reason for a missing frontmatter.
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

/// Splits a file by `/^---\r?\n([\s\S]*?)\r?\n---\r?\n?([\s\S]*)$/` (SkillsCraft specification
/// reference).
///
/// One case differs: two adjacent fences are an empty frontmatter, because findings about missing
/// fields help more than one about a missing frontmatter.
fn find_skillscraft_fences(text: &str) -> Result<FrontmatterFences, MissingFence> {
    let after =
        |at: usize, end: &str| text[at..].strip_prefix(end).map(|rest| text.len() - rest.len());
    let after_line_end = |at: usize| after(at, "\r\n").or_else(|| after(at, "\n"));
    let open = after(0, "---").and_then(after_line_end).ok_or(MissingFence::Opening)?;
    // Adjacent fences have no line break before the closing one.
    let close = if text[open..].starts_with("---") {
        open
    } else {
        open + text[open..].find("\n---").ok_or(MissingFence::Closing)? + 1
    };
    let fence_end = close + "---".len();
    let body_start = after_line_end(fence_end).unwrap_or(fence_end);
    Ok(FrontmatterFences::new(open..close, body_start, 1))
}

/// Splits a file at lines of three or more dashes, with blanks allowed around the closing fence and
/// after the opening one.
///
/// The formal specification only has "delimited by `---`", and its fixtures have all of these.
fn find_seed_strict_fences(text: &str) -> Result<FrontmatterFences, MissingFence> {
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
mod tests;
