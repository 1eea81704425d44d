//! The recorded versions of a skill: the list, the difference to the current one, and proposals that
//! restore a file.

use axum::extract::Path;
use axum::http::StatusCode;
use maud::{Markup, html};
use serde_json::json;
use skill_diff::unified_diff;
use skillhost_payload::{CallError, OperatorCommand, SkillVersionFile, SkillVersionSummary};

use crate::diff_view::draw_diff;
use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_empty, draw_facts};
use crate::pages::skills::submit_proposal;
use crate::visible_text::{draw_text, draw_time, format_count, shorten};
use crate::visit::Visit;

/// The number of the newest versions that are listed.
const MAX_VERSIONS: usize = 50;
/// The number of characters of a digest in a list.
const SHORT_DIGEST: usize = 19;
/// The number of characters of a reason in a list.
const MAX_REASON_CHARS: usize = 200;

/// A file that differs between an earlier version and the current one.
struct FileDifference<'a> {
    path: &'a str,
    /// A word for people.
    change: &'static str,
    /// The diff from the current text to the earlier one; `None` if one of them is no text.
    diff: Option<String>,
    /// A proposal can restore the file: both versions have it as a text.
    can_propose: bool,
}

/// Draws the versions of a skill, the newest first.
pub(crate) fn draw_versions(
    here: &str,
    versions: &Result<Vec<SkillVersionSummary>, CallError>,
) -> Markup {
    html! {
        section {
            h2 #versions { "Versions" }
            @match versions {
                Err(error) => p.warning { "The versions cannot be read: " (draw_text(&error.message)) },
                Ok(versions) if versions.is_empty() => {
                    (draw_empty("No version is recorded yet. The first change records one."))
                }
                Ok(versions) => (draw_table(here, versions)),
            }
        }
    }
}

fn draw_table(here: &str, versions: &[SkillVersionSummary]) -> Markup {
    // The ledger lists the oldest first.
    let newest = versions.last().map(|version| version.number);
    html! {
        table.rows {
            thead { tr { th scope="col" { "Version" } th scope="col" { "Recorded" } th scope="col" { "By" } th scope="col" { "Reason" } th scope="col" { "Digest" } } }
            tbody {
                @for version in versions.iter().rev().take(MAX_VERSIONS) {
                    tr {
                        td data-label="Version" {
                            @if Some(version.number) == newest {
                                div { (version.number) " " (draw_badge("ok", "current")) }
                            } @else {
                                a href={ (here) "/versions/" (version.number) } {
                                    (version.number) ", compare"
                                }
                            }
                        }
                        td data-label="Recorded" { (draw_time(version.recorded_ms)) }
                        td data-label="By" { (draw_author(version)) }
                        td data-label="Reason" {
                            (draw_text(&shorten(version.reason.as_deref().unwrap_or("–"), MAX_REASON_CHARS)))
                        }
                        td data-label="Digest" { code.digest { (shorten(&version.digest, SHORT_DIGEST)) } }
                    }
                }
            }
        }
        @if versions.len() > MAX_VERSIONS {
            p.hint { "Earlier versions: " code { (OperatorCommand::ShowSkillHistory.to_string()) } }
        }
    }
}

fn draw_author(version: &SkillVersionSummary) -> Markup {
    html! {
        div {
            @if version.author.is_empty() { "an edit of the files" } @else { (draw_text(&version.author)) }
            @if let Some(by) = &version.approved_by { ", approved by " (draw_text(by)) }
        }
    }
}

/// Finds a version and the newest one.
async fn find_versions(
    visit: &Visit,
    id: &str,
    number: &str,
) -> Result<(SkillVersionSummary, SkillVersionSummary), ConsoleError> {
    // Listed again for each page: an edit of the files records another version.
    let mut versions = visit.kernel().list_skill_versions(id).await?;
    // Parsed here, as any other text is a page that does not exist.
    let number: Option<u64> = number.parse().ok();
    let found = versions.iter().find(|version| Some(version.number) == number).cloned();
    let found = found.zip(versions.pop());
    found.ok_or_else(|| ConsoleError::not_found("this version"))
}

pub(crate) async fn show_version(
    visit: Visit,
    Path((id, number)): Path<(String, String)>,
) -> PageResult {
    let (version, newest) = find_versions(&visit, &id, &number).await?;
    let kernel = visit.kernel();
    let now = kernel.read_skill_version(&id, newest.number).await?;
    let then = kernel.read_skill_version(&id, version.number).await?;
    let differences = compare_files(&now, &then);
    let here = path_with("/skills/", &id);
    let restore = format!("{here}/versions/{}/restore", version.number);
    let needs_command = differences.iter().any(|difference| !difference.can_propose);
    let body = html! {
        p.crumbs { a href="/skills" { "Skills" } " / " a href=(here) { (draw_text(&id)) } }
        h1 { "Version " (version.number) " of " (draw_text(&id)) }
        (draw_facts(&[
            ("Recorded", draw_time(version.recorded_ms)),
            ("By", draw_author(&version)),
            ("Reason", draw_text(version.reason.as_deref().unwrap_or("–"))),
            ("Files", html! { (format_count(version.files as u64, "file")) ", " (format_count(version.bytes, "byte")) }),
            ("Digest", html! { code.digest { (version.digest) } }),
        ]))
        @if !version.complete { p.warning { "Not every file of this version is stored." } }
        p.lead {
            "The changes that restoring it would make: removed lines are those of the current version "
            (newest.number) ", added lines those of version " (version.number) "."
        }
        @if differences.is_empty() { (draw_empty("The current files equal this version.")) }
        @for difference in &differences {
            section {
                h2 { (draw_text(difference.path)) }
                p { (draw_badge("plain", difference.change)) }
                @match &difference.diff {
                    Some(diff) if diff.is_empty() => p { "The text is the same; its permission to be executed differs." },
                    Some(diff) => (draw_diff(diff)),
                    None => p { "The content is not shown: it is no text, or too long." },
                }
                @if difference.can_propose {
                    form.after method="post" action=(restore) {
                        (visit.csrf_field())
                        input type="hidden" name="file" value=(difference.path);
                        button.primary type="submit" {
                            "Propose to restore this file" span.unseen { ": " (draw_text(difference.path)) }
                        }
                    }
                }
            }
        }
        @if needs_command {
            p.hint {
                "Files that were added or removed, and those that are no text, are restored in a terminal: "
                code { (OperatorCommand::RollBackSkill { id: &id }.to_string()) " " (version.number) }
            }
        }
    };
    Ok(visit.page(NavEntry::Skills, "Version", &body).await)
}

/// Compares the current files with those of an earlier version, in the order of their paths.
fn compare_files<'a>(
    now: &'a [SkillVersionFile],
    then: &'a [SkillVersionFile],
) -> Vec<FileDifference<'a>> {
    let find = |files: &'a [SkillVersionFile], path: &str| files.iter().find(|it| it.path == path);
    // A file may be in one version only.
    let mut paths: Vec<&str> = now.iter().chain(then).map(|file| &*file.path).collect();
    paths.sort_unstable();
    paths.dedup();
    let to_difference = |path: &'a str| {
        let (now, then) = (find(now, path), find(then, path));
        let text = |file: Option<&'a SkillVersionFile>| match file {
            Some(file) => file.text.as_deref(),
            None => Some(""),
        };
        let change = match (now, then) {
            (Some(now), Some(then)) => {
                let is_same = (&now.digest, now.executable) == (&then.digest, then.executable);
                (!is_same).then_some("changed")?
            }
            (None, _) => "removed since",
            (_, None) => "added since",
        };
        // In the direction of a restore: what the proposal would show.
        let diff = text(now).zip(text(then)).map(|(now, then)| unified_diff(now, then, path));
        // The ledger proposes texts of existing files; a mode has no text.
        let has_text = diff.as_ref().is_some_and(|diff| !diff.is_empty());
        let can_propose = has_text && change == "changed";
        Some(FileDifference { path, change, diff, can_propose })
    };
    paths.into_iter().filter_map(to_difference).collect()
}

/// Proposes the text that a file has in an earlier version.
pub(crate) async fn propose_restore(
    visit: Visit,
    Path((id, number)): Path<(String, String)>,
) -> PageResult {
    let (version, _) = find_versions(&visit, &id, &number).await?;
    let files = visit.kernel().read_skill_version(&id, version.number).await?;
    let path = visit.form.get("file");
    // Only a path of the version itself, so that no other file can be named.
    let file = files.iter().find(|file| file.path == path);
    let file = file.ok_or_else(|| ConsoleError::not_found("this file"))?;
    // The page has no form for such a file, but a request can name it.
    let Some(text) = &file.text else {
        let hint =
            format!("restore it in a terminal: {}", OperatorCommand::RollBackSkill { id: &id });
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(ConsoleError::new(status, "the file is not a text", hint));
    };
    let arguments = json!({
        "skill_id": id,
        "path": path,
        "new_content": text,
        "justification": format!("Restores {path} as it is in version {}.", version.number),
    });
    submit_proposal(&visit, &arguments).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: Option<&str>) -> SkillVersionFile {
        SkillVersionFile {
            path: path.to_owned(),
            executable: false,
            size: 1,
            digest: format!("{text:?}"),
            text: text.map(str::to_owned),
        }
    }

    #[test]
    fn differing_files_are_found() {
        let now = [file("a", Some("1\n")), file("b", Some("2\n")), file("c", Some("3\n"))];
        let then = [file("b", Some("two\n")), file("c", Some("3\n")), file("d", None)];
        let found = compare_files(&now, &then);
        let rows: Vec<_> = found
            .iter()
            .map(|it| (it.path, it.change, it.can_propose, it.diff.is_some()))
            .collect();
        assert_eq!(
            rows,
            [
                ("a", "added since", false, true),
                ("b", "changed", true, true),
                ("d", "removed since", false, false),
            ]
        );
        assert!(found[1].diff.as_ref().unwrap().contains("-2\n+two\n"));
    }
}
