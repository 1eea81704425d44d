//! The searched texts of a skill.

/// The maximum number of searched headings of a body.
const MAX_HEADINGS: usize = 40;

/// The searched texts of a skill.
#[derive(Clone, Debug, Default)]
pub struct Document<'a> {
    /// The unique id of the skill; not searched.
    pub id: &'a str,
    /// The skill's name.
    pub name: &'a str,
    /// The purpose and the triggers of the skill.
    pub description: &'a str,
    /// Further triggers; searched as a part of the description.
    pub when_to_use: &'a str,
    /// The skill's tags.
    pub tags: Vec<&'a str>,
    /// The headings of the body, as returned by [`extract_headings`].
    pub headings: Vec<&'a str>,
    /// The text below the frontmatter, of which the first 12,000 characters are read.
    pub body: &'a str,
}

/// Returns the headings of levels 1 to 3 of a Markdown text, without those in code fences: at most
/// 40, without their marks.
#[must_use]
pub fn extract_headings(body: &str) -> Vec<&str> {
    let mut fence: Option<(char, usize)> = None;
    let mut found = Vec::new();
    for line in body.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let text = line.trim();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let length = mark.map_or(0, |mark| text.chars().take_while(|c| *c == mark).count());
        match (fence, mark) {
            // CommonMark: a closing fence has no text and is at least as long as the opening one.
            (Some((opened, least)), Some(mark))
                if mark == opened && length >= least && text.len() == length =>
            {
                fence = None;
            }
            // CommonMark: four blanks start indented code, in which `#` and fences are text.
            (None, Some(mark)) if indent < 4 && length >= 3 => fence = Some((mark, length)),
            (None, _) if indent < 4 => found.extend(parse_heading(text)),
            _ => {}
        }
        if found.len() == MAX_HEADINGS {
            break;
        }
    }
    found
}

/// Returns the text of an ATX heading of level 1 to 3.
fn parse_heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    if !(1..=3).contains(&(line.len() - text.len())) || !text.starts_with([' ', '\t']) {
        return None;
    }
    let text = text.trim();
    let closed = text.trim_end_matches('#');
    // Closing marks require a blank before them, so that `C#` keeps its sign.
    let text = if closed.is_empty() || closed.ends_with([' ', '\t']) { closed } else { text };
    let text = text.trim();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_in_fences_are_ignored() {
        let body = "# One\ntext\n## Two ##\n### C#\n#### Four\n#Five\n   # Six\n    # code\n\
            ```sh\n# comment\n~~~\n# still\n```\n# Seven\n~~~~\n# no\n~~~\n# no\n~~~~\n#\n## \n# Eight #x\n";
        assert_eq!(extract_headings(body), ["One", "Two", "C#", "Six", "Seven", "Eight #x"]);
    }

    #[test]
    fn headings_stop_after_forty() {
        let body: String = (0..50).map(|number| format!("# h{number}\n")).collect();
        let found = extract_headings(&body);
        assert_eq!((found.len(), found.last()), (40, Some(&"h39")));
    }
}
