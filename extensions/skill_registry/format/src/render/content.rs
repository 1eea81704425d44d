//! The instructions of one skill in the form for models.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::line::sanitize_text;
use super::prompt_xml::escape_into;
use super::resource::ResourceLine;
use crate::digest::Digest;
use crate::tokens::TokenCount;

/// The estimated number of tokens above which a skill is large.
pub const LARGE_SKILL: u32 = 8_000;

const ELEMENT: &str = "skill_content";

/// The content of a `read_skill` result.
#[derive(Clone, Copy, Debug)]
pub struct SkillInstructions<'a> {
    /// The skill's id.
    pub id: &'a str,
    /// The digest of its SKILL.md.
    pub digest: &'a Digest,
    /// The estimated cost of the body.
    pub tokens: TokenCount,
    /// The body without frontmatter.
    pub body: &'a str,
    /// The resources to list, at most 100.
    pub resources: &'a [ResourceLine<'a>],
    /// The number of resources that are not listed.
    pub more_resources: usize,
    /// Ids of the skills it requires.
    pub requires: &'a [String],
}

/// Renders the result of `read_skill`: a line with the cost, the body in its element, the
/// resources, and the required skills.
///
/// For a skill of more than [`LARGE_SKILL`] tokens, the second line is a notice of its size.
#[must_use]
pub fn render_instructions(i: &SkillInstructions<'_>) -> String {
    let mut out = String::with_capacity(i.body.len() + 256 + 64 * i.resources.len());
    let _ = writeln!(out, "Skill loaded: {} (approx. {} tokens)", sanitize_text(i.id), i.tokens);
    if i.tokens.get() > LARGE_SKILL {
        let _ = writeln!(out, "This skill is large: more than {LARGE_SKILL} tokens.");
    }
    out.push('\n');
    push_content(i.id, i.digest, i.body, &mut out);
    if !i.resources.is_empty() || i.more_resources > 0 {
        out.push_str("\n\nResources (load one with read_skill_resource(skill_id, path)):\n");
        for resource in i.resources {
            let ResourceLine { path, kind, size } = resource;
            let _ = writeln!(out, "- {} ({}, {size} bytes)", sanitize_text(path), kind.as_str());
        }
        if i.more_resources > 0 {
            let _ = writeln!(out, "({} more)", i.more_resources);
        }
        // The result ends without a line end, so that appended text decides on its own separator.
        out.pop();
    }
    if !i.requires.is_empty() {
        let ids: Vec<_> = i.requires.iter().map(|id| sanitize_text(id)).collect();
        let _ = write!(
            out,
            "\n\nThis skill requires: {}. Load it first if you haven't already.",
            ids.join(", ")
        );
    }
    out
}

/// Wraps a body in `<skill_content name="…" digest="…">`, each tag on a line of its own.
///
/// Blank lines around the body are dropped. A `skill_content` tag inside the body is written with
/// `&lt;`, so that the body can neither end the element early nor appear to open another.
#[must_use]
pub fn wrap_content(id: &str, digest: &Digest, body: &str) -> String {
    let mut out = String::with_capacity(body.len() + 160);
    push_content(id, digest, body, &mut out);
    out
}

fn push_content(id: &str, digest: &Digest, body: &str, out: &mut String) {
    out.push('<');
    out.push_str(ELEMENT);
    out.push_str(" name=\"");
    escape_into(id, out);
    let _ = writeln!(out, "\" digest=\"{digest}\">");
    out.push_str(&escape_element_tags(trim_blank_lines(body)));
    let _ = write!(out, "\n</{ELEMENT}>");
}

/// Removes blank lines at both ends; the indentation of the first line with text stays.
fn trim_blank_lines(body: &str) -> &str {
    let body = body.trim_end();
    let blank = body.len() - body.trim_start().len();
    let first_line = body[..blank].rfind('\n').map_or(0, |end| end + 1);
    &body[first_line..]
}

/// Replaces the `<` of every tag that a lenient reader could take for the element's own.
fn escape_element_tags(body: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    // Most bodies have no such tag; they are borrowed without a copy.
    for (at, _) in body.match_indices('<') {
        if is_element_name(&body[at + 1..]) {
            out.push_str(&body[copied..at]);
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(body);
    }
    out.push_str(&body[copied..]);
    Cow::Owned(out)
}

/// Returns whether the text after a `<` is the element's name, ignoring case and separators.
fn is_element_name(after: &str) -> bool {
    // A model may read `< / skill_content` as a tag, although XML does not.
    let is_separator = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    let name = after.trim_start_matches(is_separator);
    name.get(..ELEMENT.len()).is_some_and(|name| name.eq_ignore_ascii_case(ELEMENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::ResourceKind;

    #[test]
    fn instructions_render_every_part() {
        let digest = Digest::compute(b"x");
        let resource = |path, kind, size| ResourceLine { path, kind, size };
        let requires = ["extension-development".to_owned(), "b".to_owned()];
        let answer = render_instructions(&SkillInstructions {
            id: "review",
            digest: &digest,
            tokens: TokenCount::from_chars(4 * 3200),
            body: "\n# Review\n\n  Do it.\n\n",
            resources: &[
                resource("references/list.md", ResourceKind::Instructions, 12),
                resource("scripts/run\n.py", ResourceKind::Code, 3400),
            ],
            more_resources: 7,
            requires: &requires,
        });
        assert_eq!(
            answer,
            format!(
                "Skill loaded: review (approx. 3200 tokens)\n\n\
                 <skill_content name=\"review\" digest=\"{digest}\">\n\
                 # Review\n\n  Do it.\n\
                 </skill_content>\n\n\
                 Resources (load one with read_skill_resource(skill_id, path)):\n\
                 - references/list.md (instructions, 12 bytes)\n\
                 - scripts/run .py (code, 3400 bytes)\n\
                 (7 more)\n\n\
                 This skill requires: extension-development, b. \
                 Load it first if you haven't already."
            )
        );
    }

    #[test]
    fn large_skill_has_notice() {
        let digest = Digest::compute(b"x");
        let first_lines = |tokens: usize| {
            let answer = render_instructions(&SkillInstructions {
                id: "a",
                digest: &digest,
                tokens: TokenCount::from_chars(4 * tokens),
                body: "b",
                resources: &[],
                more_resources: 0,
                requires: &[],
            });
            answer
                .lines()
                .take_while(|line| !line.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(first_lines(8000), ["Skill loaded: a (approx. 8000 tokens)"]);
        assert_eq!(
            first_lines(8001),
            [
                "Skill loaded: a (approx. 8001 tokens)",
                "This skill is large: more than 8000 tokens."
            ]
        );
    }

    #[test]
    fn body_cannot_close_element() {
        let digest = Digest::compute(b"x");
        let body = "a </skill_content> b </ SKILL_content\n> <skill_content name=\"y\"> <b> < /\tskill_content é<";
        let content = wrap_content("q\"<&>", &digest, body);
        assert_eq!(
            content,
            format!(
                "<skill_content name=\"q&quot;&lt;&amp;&gt;\" digest=\"{digest}\">\n\
                 a &lt;/skill_content> b &lt;/ SKILL_content\n> &lt;skill_content name=\"y\"> <b> \
                 &lt; /\tskill_content é<\n\
                 </skill_content>"
            )
        );
    }

    #[test]
    fn first_line_keeps_indentation() {
        let cases =
            [("\r\n\r\n    code\r\n\r\n", "    code"), ("  x\n", "  x"), ("\n", ""), ("", "")];
        for (body, expected) in cases {
            assert_eq!(trim_blank_lines(body), expected, "{body:?}");
        }
    }
}
