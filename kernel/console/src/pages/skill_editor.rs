//! The editor of a skill's files: what it saves is a proposal, never the file.

use axum::extract::Path;
use axum::http::StatusCode;
use maud::html;
use serde_json::json;
use skillhost_payload::OperatorCommand;

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::NavEntry;
use crate::pages::skill::{SKILL_FILE, SkillFile, read_file};
use crate::pages::skills::submit_proposal;
use crate::visible_text::draw_text;
use crate::visit::Visit;

/// The line ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Unix,
    Windows,
}

pub(crate) async fn show_editor(visit: Visit, Path(id): Path<String>) -> PageResult {
    let path = visit.query.filled("file").unwrap_or(SKILL_FILE).to_owned();
    let text = read_editable(&visit, &id, &path).await?.0;
    let here = path_with("/skills/", &id);
    let body = html! {
        p.crumbs { a href="/skills" { "Skills" } " / " a href=(here) { (draw_text(&id)) } }
        h1 { "Change " (draw_text(&path)) }
        p.lead { "Saving makes a proposal. The file changes when the proposal is approved." }
        form.editor method="post" action={ (here) "/edit" } {
            (visit.csrf_field())
            input type="hidden" name="file" value=(path);
            label for="content" { "Text" }
            // A browser drops the first line break.
            textarea.code #content name="content" rows="24" spellcheck="false" { "\n" (text) }
            label for="justification" { "Reason for the change" }
            textarea #justification name="justification" rows="3" required {}
            div.buttons {
                button.primary type="submit" { "Save as a proposal" }
                a.button href=(here) { "Cancel" }
            }
        }
    };
    Ok(visit.page(NavEntry::Skills, "Change a skill", &body).await)
}

/// Reads a text that survives a form of a browser.
async fn read_editable(
    visit: &Visit,
    id: &str,
    path: &str,
) -> Result<(String, LineEnds), ConsoleError> {
    let refused = |message: &str| {
        let call = OperatorCommand::CallTool { name: Some("propose_skill_update") };
        let hint = format!("propose a diff instead: {call}");
        ConsoleError::new(StatusCode::UNPROCESSABLE_ENTITY, message, hint)
    };
    let text = match read_file(visit, id, path).await? {
        SkillFile::Text(text) => text,
        SkillFile::Binary => return Err(refused("the file is not a text")),
        SkillFile::TooLong => return Err(refused("the file is too long for the editor")),
    };
    match find_line_ends(&text) {
        Some(ends) => Ok((text, ends)),
        None => Err(refused("the file has characters that a form of a browser changes")),
    }
}

/// Returns the line ends of a text; `None` for one that a browser would change: mixed line ends, a
/// single carriage return, or NUL.
fn find_line_ends(text: &str) -> Option<LineEnds> {
    let (windows, returns) = (text.matches("\r\n").count(), text.matches('\r').count());
    let lines = text.matches('\n').count();
    // Forms normalize line ends and drop NUL, which would change lines that the user did not edit.
    if text.contains('\0') || windows != returns {
        return None;
    }
    match windows {
        0 => Some(LineEnds::Unix),
        count if count == lines => Some(LineEnds::Windows),
        _ => None,
    }
}

/// Records a proposal in the name of the operator.
pub(crate) async fn propose_change(visit: Visit, Path(id): Path<String>) -> PageResult {
    let path = visit.form.filled("file").unwrap_or(SKILL_FILE).to_owned();
    // Read again: the file may have changed since the form was drawn.
    let (old, ends) = read_editable(&visit, &id, &path).await?;
    let content = visit.form.text("content");
    let content = match ends {
        LineEnds::Unix => content,
        LineEnds::Windows => content.replace('\n', "\r\n"),
    };
    // The ledger would record a proposal without an effect.
    if content == old {
        let message = "the text has no change";
        return Err(ConsoleError::new(StatusCode::BAD_REQUEST, message, "go back and change it"));
    }
    let arguments = json!({
        "skill_id": id,
        "path": path,
        "new_content": content,
        "justification": visit.form.text("justification"),
    });
    submit_proposal(&visit, &arguments).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_forms_change_are_refused() {
        assert_eq!(find_line_ends("a\nb\n"), Some(LineEnds::Unix));
        assert_eq!(find_line_ends("a\r\nb\r\n"), Some(LineEnds::Windows));
        for text in ["a\r\nb\n", "a\rb", "a\r\r\n", "a\0"] {
            assert_eq!(find_line_ends(text), None, "{text:?}");
        }
    }
}
