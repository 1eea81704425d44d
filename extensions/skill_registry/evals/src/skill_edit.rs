//! Edits of a SKILL.md that a model suggests: the reading of its reply, and the new text.
//!
//! A reply is untrusted. It is one JSON object within limits and changes one part of the file:
//! the field `description`, or at most three passages of the body.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use skill_format::find_fences;
use skill_format::tree::parse_frontmatter;
use yaml_tree::{Mapping, Value};

use crate::model_reply::read_json_reply;

/// The longest reply, in bytes.
const MAX_REPLY: usize = 64 << 10;

/// The most passages that an edit replaces.
const MAX_HUNKS: usize = 3;

/// The longest passage that is searched or inserted, in characters.
const MAX_PASSAGE: usize = 8_000;

/// The longest description, in characters (agentskills specification).
const MAX_DESCRIPTION: usize = 1_024;

const DESCRIPTION: &str = "description";

/// The byte order mark, which is not a part of the text.
const BOM: char = '\u{feff}';

/// The part of a SKILL.md that an optimization changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizedPart {
    /// The field `description`.
    Description,
    /// The text after the frontmatter.
    Body,
}

/// An edit of a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedEdit {
    /// The complete new text of the file.
    pub text: String,
    /// The edit as the model wrote it.
    pub change: Json,
}

/// The reason why a reply is not an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillEditError {
    /// The reply has more than 64 KiB.
    TooLong,
    /// The reply is not the required JSON object.
    NotJson,
    /// The description is empty, too long or has several lines.
    Description,
    /// The number of passages is not 1 to 3.
    HunkCount(usize),
    /// A passage is empty, too long or not changed.
    Passage,
    /// A passage is not in the body.
    NotFound(String),
    /// A passage is in the body more than once.
    Ambiguous(String),
    /// Two passages overlap.
    Overlap,
    /// The field cannot be replaced without changing other fields.
    Frontmatter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptionReply {
    description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyReply {
    edits: Vec<PassageEdit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassageEdit {
    find: String,
    replace: String,
}

impl OptimizedPart {
    /// Returns its name in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Description => DESCRIPTION,
            Self::Body => "body",
        }
    }
}

impl fmt::Display for SkillEditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the reply has more than 64 KiB"),
            Self::NotJson => f.write_str("the reply is not the required JSON object"),
            Self::Description => {
                write!(f, "the description is not one line of 1 to {MAX_DESCRIPTION} characters")
            }
            Self::HunkCount(count) => {
                write!(f, "the reply has {count} edits, 1 to {MAX_HUNKS} are possible")
            }
            Self::Passage => {
                write!(f, "a passage is empty, unchanged or longer than {MAX_PASSAGE} characters")
            }
            Self::NotFound(passage) => write!(f, "the body does not have the passage {passage:?}"),
            Self::Ambiguous(passage) => {
                write!(f, "the body has the passage {passage:?} more than once")
            }
            Self::Overlap => f.write_str("two passages overlap"),
            Self::Frontmatter => {
                f.write_str("the frontmatter has no description that can be replaced alone")
            }
        }
    }
}

/// Reads the reply of a model and applies its edit to the text of a SKILL.md.
///
/// # Errors
/// The reply is not an edit of this part of this text.
pub fn read_skill_edit(
    part: OptimizedPart,
    reply: &str,
    text: &str,
) -> Result<SuggestedEdit, SkillEditError> {
    if reply.len() > MAX_REPLY {
        return Err(SkillEditError::TooLong);
    }
    match part {
        OptimizedPart::Description => {
            let reply: DescriptionReply = read_json_reply(reply).ok_or(SkillEditError::NotJson)?;
            let description = reply.description.trim();
            let count = description.chars().count();
            if count == 0 || count > MAX_DESCRIPTION || description.chars().any(char::is_control) {
                return Err(SkillEditError::Description);
            }
            let text = replace_description(text, description).ok_or(SkillEditError::Frontmatter)?;
            Ok(SuggestedEdit { text, change: json!({ DESCRIPTION: description }) })
        }
        OptimizedPart::Body => {
            let reply: BodyReply = read_json_reply(reply).ok_or(SkillEditError::NotJson)?;
            let text = replace_passages(text, &reply.edits)?;
            let edits: Vec<Json> = reply
                .edits
                .iter()
                .map(|edit| json!({"find": edit.find, "replace": edit.replace}))
                .collect();
            Ok(SuggestedEdit { text, change: json!({ "edits": edits }) })
        }
    }
}

/// Returns the description and the body of a SKILL.md; `None` without a description.
#[must_use]
pub fn split_skill_text(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    let fences = find_fences(text)?;
    let fields = parse_fields(&text[fences.yaml])?;
    let description = fields.get(DESCRIPTION)?.as_str()?.to_owned();
    Some((description, &text[fences.body_start..]))
}

fn parse_fields(yaml: &str) -> Option<Mapping> {
    match parse_frontmatter(yaml, 1).root {
        Value::Mapping(fields) => Some(fields),
        _ => None,
    }
}

/// Replaces the lines of the description. `None` if anything else in the frontmatter would change.
fn replace_description(text: &str, description: &str) -> Option<String> {
    let start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let fences = find_fences(&text[start..])?;
    let range = start + fences.yaml.start..start + fences.yaml.end;
    let yaml = &text[range.clone()];
    let fields = parse_fields(yaml).filter(|fields| !fields.flow)?;
    let at = fields.entries.iter().position(|entry| entry.key.text == DESCRIPTION)?;
    let line_of = |index: usize| {
        let entry = fields.entries.get(index)?;
        // Lines of the tree count from 1.
        Some(entry.key.span.line as usize - 1)
    };
    let lines: Vec<&str> = yaml.split_inclusive('\n').collect();
    let first = line_of(at)?;
    let mut end = line_of(at + 1).unwrap_or(lines.len());
    // Comments in front of the next field belong to it.
    let is_between = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    while end > first + 1 && lines.get(end - 1).is_some_and(is_between) {
        end -= 1;
    }
    let newline = if lines.get(first)?.ends_with("\r\n") { "\r\n" } else { "\n" };
    let value = if is_plain_scalar(description) {
        description.to_owned()
    } else {
        // A JSON string is a YAML scalar in double quotes.
        serde_json::to_string(description).ok()?
    };
    let before: String = lines[..first].concat();
    let after: String = lines[end..].concat();
    let new_yaml = format!("{before}{DESCRIPTION}: {value}{newline}{after}");
    // The other fields decide about tools and names, so they are compared after the edit.
    let same_rest = |new: &Mapping| {
        fields.entries.len() == new.entries.len()
            && fields.entries.iter().zip(&new.entries).enumerate().all(|(index, (old, new))| {
                let is_new = index == at && new.value.as_str() == Some(description);
                old.key.text == new.key.text && (is_new || old.value.same_content(&new.value))
            })
    };
    let new = parse_fields(&new_yaml)?;
    let is_replaced = new.get(DESCRIPTION).and_then(Value::as_str) == Some(description);
    (is_replaced && same_rest(&new))
        .then(|| format!("{}{new_yaml}{}", &text[..range.start], &text[range.end..]))
}

/// Returns whether a text is certainly the same text in YAML without quotes.
fn is_plain_scalar(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.contains(' ')
        && !text.ends_with(':')
        && ![": ", " #"].iter().any(|mark| text.contains(mark))
}

/// Replaces passages of the body, each of which occurs exactly once.
fn replace_passages(text: &str, edits: &[PassageEdit]) -> Result<String, SkillEditError> {
    if edits.is_empty() || edits.len() > MAX_HUNKS {
        return Err(SkillEditError::HunkCount(edits.len()));
    }
    let mark = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let start = mark + find_fences(&text[mark..]).map_or(0, |fences| fences.body_start);
    let body = &text[start..];
    // Models write LF; a file that has CRLF keeps it.
    let to_lines = |passage: &str| match body.contains("\r\n") && !passage.contains('\r') {
        true => passage.replace('\n', "\r\n"),
        false => passage.to_owned(),
    };
    let mut hunks: Vec<(usize, usize, String)> = Vec::new();
    for edit in edits {
        let is_long = |passage: &str| passage.chars().count() > MAX_PASSAGE;
        let (find, replace) = (to_lines(&edit.find), to_lines(&edit.replace));
        if find.trim().is_empty() || find == replace || is_long(&find) || is_long(&replace) {
            return Err(SkillEditError::Passage);
        }
        let mut found = body.match_indices(find.as_str()).map(|(at, _)| at);
        match (found.next(), found.next()) {
            (None, _) => return Err(SkillEditError::NotFound(excerpt(&edit.find))),
            (Some(_), Some(_)) => return Err(SkillEditError::Ambiguous(excerpt(&edit.find))),
            (Some(at), None) => hunks.push((at, at + find.len(), replace)),
        }
    }
    hunks.sort_by_key(|(at, ..)| *at);
    if hunks.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return Err(SkillEditError::Overlap);
    }
    let (mut new, mut from) = (text[..start].to_owned(), 0);
    for (at, end, replace) in hunks {
        new.push_str(&body[from..at]);
        new.push_str(&replace);
        from = end;
    }
    new.push_str(&body[from..]);
    Ok(new)
}

fn excerpt(passage: &str) -> String {
    passage.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "---\nname: greet\ndescription: >-\n  Greets people.\n  Use at a door.\n\
        # the owners\nlicense: MIT\nallowed-tools: [Read]\n---\n# Greet\n\nSay hello.\n\nSay bye.\n";

    fn describe(description: &str) -> Result<String, SkillEditError> {
        let reply = json!({"description": description}).to_string();
        read_skill_edit(OptimizedPart::Description, &reply, TEXT).map(|edit| edit.text)
    }

    fn edit(reply: &Json) -> Result<String, SkillEditError> {
        read_skill_edit(OptimizedPart::Body, &reply.to_string(), TEXT).map(|edit| edit.text)
    }

    #[test]
    fn only_description_changes() {
        let plain = TEXT.replace(">-\n  Greets people.\n  Use at a door.", "Greets all guests.");
        assert_eq!(describe(" Greets all guests. "), Ok(plain));
        let quoted = describe("Greets: \"guests\" # all").unwrap();
        assert!(quoted.contains("\ndescription: \"Greets: \\\"guests\\\" # all\"\n# the owners"));
        assert_eq!(split_skill_text(&quoted).unwrap().0, "Greets: \"guests\" # all");
        for bad in ["", " ", "a\nb", "a\u{1b}[31mb", &"x".repeat(1_025)] {
            assert_eq!(describe(bad), Err(SkillEditError::Description), "{bad:?}");
        }
    }

    #[test]
    fn field_of_unusual_form_is_kept() {
        let reply = r#"{"description": "Greets all."}"#;
        for text in [
            "---\n{name: greet, description: x}\n---\nbody\n",
            "---\nname: greet\n---\nbody\n",
            "body alone\n",
            "---\ndescription: x\ndescription: y\n---\nbody\n",
        ] {
            let read = read_skill_edit(OptimizedPart::Description, reply, text);
            // Both of two equal fields cannot have the new text.
            let is_first = text.matches("description").count() == 2
                && read.as_ref().is_ok_and(|edit| edit.text.contains("description: y"));
            assert!(read == Err(SkillEditError::Frontmatter) || is_first, "{text}: {read:?}");
        }
        let marked = "\u{feff}---\r\nname: greet\r\ndescription: x\r\n---\r\nbody\r\n";
        let edit = read_skill_edit(OptimizedPart::Description, reply, marked).unwrap();
        assert_eq!(edit.text, marked.replace(": x", ": Greets all."));
    }

    #[test]
    fn passages_are_replaced_exactly() {
        let one = json!({"edits": [{"find": "Say hello.", "replace": "Say hello and welcome."}]});
        assert_eq!(edit(&one), Ok(TEXT.replace("Say hello.", "Say hello and welcome.")));
        let two = json!({"edits": [{"find": "bye", "replace": "goodbye"},
            {"find": "# Greet\n", "replace": ""}]});
        assert_eq!(edit(&two), Ok(TEXT.replace("bye", "goodbye").replace("# Greet\n", "")));
        let hunk = |find: &str, replace: &str| json!({"find": find, "replace": replace});
        let error = |hunks: &[Json]| edit(&json!({"edits": hunks})).unwrap_err();
        assert_eq!(error(&[]), SkillEditError::HunkCount(0));
        let four: Vec<Json> = (0..4).map(|_| hunk("bye", "x")).collect();
        assert_eq!(error(&four), SkillEditError::HunkCount(4));
        // The frontmatter is not a part of the body.
        assert_eq!(error(&[hunk("MIT", "x")]), SkillEditError::NotFound("MIT".to_owned()));
        assert_eq!(error(&[hunk("Say", "x")]), SkillEditError::Ambiguous("Say".to_owned()));
        assert_eq!(error(&[hunk("bye", "bye")]), SkillEditError::Passage);
        assert_eq!(error(&[hunk(" \n", "x")]), SkillEditError::Passage);
        assert_eq!(error(&[hunk("bye", &"x".repeat(8_001))]), SkillEditError::Passage);
        assert_eq!(error(&[hunk("Say bye", "x"), hunk("bye.", "y")]), SkillEditError::Overlap);
    }

    #[test]
    fn prose_is_not_an_edit() {
        for reply in [
            "Use a clearer description.",
            "",
            "{}",
            r#"{"description": 7}"#,
            r#"{"description": "a b", "name": "other"}"#,
            r#"{"description": "a b"} I hope this helps."#,
            r#"{"edits": []}"#,
        ] {
            let read = read_skill_edit(OptimizedPart::Description, reply, TEXT);
            assert_eq!(read, Err(SkillEditError::NotJson), "{reply}");
        }
        let fenced = "```json\n{\"description\": \"Greets all.\"}\n```";
        assert!(read_skill_edit(OptimizedPart::Description, fenced, TEXT).is_ok());
        let long = format!("{{\"description\": \"{}\"}}", "x".repeat(MAX_REPLY));
        let read = read_skill_edit(OptimizedPart::Description, &long, TEXT);
        assert_eq!(read, Err(SkillEditError::TooLong));
    }

    proptest! {
        #[test]
        fn any_reply_is_edit_or_error(reply in ".{0,200}", text in "(---\n)?.{0,80}\n(---\n)?.{0,80}") {
            for part in [OptimizedPart::Description, OptimizedPart::Body] {
                let _ = read_skill_edit(part, &reply, &text);
            }
        }

        #[test]
        fn any_description_is_read_back(description in "[^\\x00-\\x1f\\x7f-\\u{9f}]{1,60}") {
            if let Ok(text) = describe(&description) {
                let (read, body) = split_skill_text(&text).unwrap();
                prop_assert_eq!(read, description.trim());
                prop_assert!(text.contains("allowed-tools: [Read]") && body.starts_with("# Greet"));
            }
        }
    }
}
