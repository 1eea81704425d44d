//! What `--fix` makes of a file.

use std::borrow::Cow;

use skill_format::decode;
use skill_rules::{Edit, Options, SkillInput, Subject, check_subject};

/// How often edits may uncover something else to mend.
const ROUNDS: usize = 10;

/// Returns the mended file and how many findings are gone; nothing if there is nothing to mend.
///
/// What could be loaded before can be loaded after. A UTF-16 file is left alone: its edits say
/// nothing about its bytes.
pub(super) fn mended(input: &SkillInput<'_>, options: Options) -> Option<(Vec<u8>, usize)> {
    let Cow::Borrowed(text) = decode(input.bytes).ok()?.text else { return None };
    let mark = &input.bytes[..input.bytes.len() - text.len()];
    let before = edits(input, options);
    let mut pending = before.clone();
    let mut bytes = Cow::Borrowed(input.bytes);
    for _ in 0..ROUNDS {
        if pending.is_empty() {
            break;
        }
        let text = std::str::from_utf8(&bytes[mark.len()..]).ok()?;
        let all: Vec<Edit> = pending.iter().flatten().cloned().collect();
        let next = [mark, apply(text, &all).as_bytes()].concat();
        let now = SkillInput { bytes: &next, ..*input };
        let is_loaded = Subject::new(&now, options.profile).frontmatter().is_some();
        if next == *bytes || !is_loaded {
            break;
        }
        pending = edits(&now, options);
        bytes = Cow::Owned(next);
    }
    let fixed = before.len().saturating_sub(pending.len());
    match bytes {
        Cow::Owned(bytes) => Some((bytes, fixed)),
        Cow::Borrowed(_) => None,
    }
}

/// The edits of every finding that has some.
fn edits(input: &SkillInput<'_>, options: Options) -> Vec<Vec<Edit>> {
    let subject = Subject::new(input, options.profile);
    let found = check_subject(&subject, options.scope).findings;
    found.into_iter().map(|found| found.edits).filter(|edits| !edits.is_empty()).collect()
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| edit.range.start);
    let (mut out, mut at) = (String::new(), 0);
    for edit in edits {
        if edit.range.start >= at {
            out.push_str(&text[at..edit.range.start]);
            out.push_str(&edit.replacement);
            at = edit.range.end;
        }
    }
    out + &text[at..]
}
