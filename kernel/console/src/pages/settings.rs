//! The settings in force with their sources, and the open sessions of the console.

use maud::{Markup, html};
use serde_json::Value;
use skillhost_home::{SettingProvenance, Settings, now_ms};

use crate::error::PageResult;
use crate::layout::{NavEntry, draw_facts};
use crate::subject_view::draw_value;
use crate::visible_text::{draw_text, draw_time};
use crate::visit::{Visit, run_blocking};

pub(crate) async fn show_settings(visit: Visit) -> PageResult {
    // Read again, as the file may differ from what is in force.
    let home = visit.home().clone();
    let file = home.settings_file();
    let loaded =
        run_blocking(move || Settings::load_home(&home).map(|loaded| loaded.provenance(&[])));
    let loaded = loaded.await?;
    let state = &visit.state;
    let path = file.display().to_string();
    let sessions = state.logins.list_sessions(now_ms());
    let body = html! {
        h1 { "Settings" }
        p.lead { "Change them in the file " code { (draw_text(&path)) } "." }
        section {
            h2 { "Console" }
            (draw_facts(&[
                ("Address", html! { code { (state.origin) } }),
                ("Open sessions", html! { (sessions.len()) }),
            ]))
            ul {
                @for session in &sessions {
                    li {
                        "since " (draw_time(session.opened_ms)) ", until " (draw_time(session.expires_ms))
                        @if session.csrf == visit.session.csrf { " (this one)" }
                    }
                }
            }
            div.buttons {
                form method="post" action="/logout" {
                    (visit.csrf_field())
                    button type="submit" { "Log out" }
                }
                form method="post" action="/logout" {
                    (visit.csrf_field())
                    input type="hidden" name="all" value="1";
                    button.danger type="submit" { "End all sessions" }
                }
            }
        }
        section {
            h2 { "Settings in force" }
            @match &loaded {
                Ok(rows) => (draw_rows(rows, &path)),
                Err(error) => p.warning { "The settings are not valid; the last valid ones are in force: " (draw_text(&error.to_string())) },
            }
        }
    };
    Ok(visit.page(NavEntry::Settings, "Settings", &body).await)
}

fn draw_rows(rows: &[SettingProvenance], path: &str) -> Markup {
    // The page names the whole path above.
    let source = |row: &SettingProvenance| match row.source == path {
        true => "skillhost.yaml".to_owned(),
        false => row.source.to_string(),
    };
    html! {
        table.rows {
            thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "Source" } } }
            tbody {
                @for row in rows {
                    tr {
                        td data-label="Key" { code { (draw_text(&row.key)) } }
                        td data-label="Value" { (draw_setting(&row.value)) }
                        td data-label="Source" { (draw_text(&source(row))) }
                    }
                }
            }
        }
    }
}

fn draw_setting(value: &Value) -> Markup {
    match value {
        Value::Array(_) | Value::Object(_) => draw_value(value, 1),
        Value::String(text) => html! { (draw_text(text)) },
        other => html! { (other) },
    }
}
