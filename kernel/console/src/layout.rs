//! The frame of every page.

use maud::{DOCTYPE, Markup, html};

use crate::assets::asset_path;
use crate::visible_text::to_line;

/// An entry of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NavEntry {
    Overview,
    Inbox,
    Threads,
    Tasks,
    Skills,
    Proposals,
    Events,
    Schedules,
    Extensions,
    Channels,
    Settings,
}

/// The navigation in its order: entry, path, name.
const NAVIGATION: [(NavEntry, &str, &str); 11] = [
    (NavEntry::Overview, "/", "Overview"),
    (NavEntry::Inbox, "/inbox", "Inbox"),
    (NavEntry::Threads, "/threads", "Threads"),
    (NavEntry::Tasks, "/tasks", "Tasks"),
    (NavEntry::Skills, "/skills", "Skills"),
    (NavEntry::Proposals, "/proposals", "Proposals"),
    (NavEntry::Events, "/events", "Events"),
    (NavEntry::Schedules, "/schedules", "Schedules"),
    (NavEntry::Extensions, "/extensions", "Extensions"),
    (NavEntry::Channels, "/channels", "Channels"),
    (NavEntry::Settings, "/settings", "Settings"),
];

/// The parts of a page of a session.
pub(crate) struct PageFrame<'a> {
    pub(crate) title: &'a str,
    pub(crate) entry: NavEntry,
    /// The number of open questions.
    pub(crate) waiting: usize,
    pub(crate) csrf: &'a str,
    pub(crate) body: &'a Markup,
}

/// Draws a page of a session.
pub(crate) fn draw_page(frame: &PageFrame<'_>) -> Markup {
    let PageFrame { title, entry, waiting, csrf, body } = frame;
    html! {
        (DOCTYPE)
        html lang="en" {
            (draw_head(title, Some(csrf)))
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    (draw_brand())
                    nav aria-label="Pages" {
                        ul {
                            @for (item, path, name) in &NAVIGATION {
                                li {
                                    a href=(path) aria-current=[(item == entry).then_some("page")] {
                                        (name)
                                        @if *item == NavEntry::Inbox {
                                            span #waiting.count data-live="" {
                                                @if *waiting > 0 {
                                                    (waiting)
                                                    span.unseen { " waiting" }
                                                }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                main #main tabindex="-1" { (body) }
            }
        }
    }
}

/// Draws the name of the product, which leads to the overview.
pub(crate) fn draw_brand() -> Markup {
    html! { a.brand href="/" { span.mark aria-hidden="true" {} "skillhost" } }
}

/// Draws a page without navigation: the login, and errors.
pub(crate) fn draw_bare_page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (draw_head(title, None))
            body.bare { main #main { (body) } }
        }
    }
}

fn draw_head(title: &str, csrf: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="description" content="The web console of a skillhost kernel";
            title { (to_line(title)) " · skillhost" }
            link rel="icon" href=(asset_path("icon.svg")) type="image/svg+xml";
            link rel="stylesheet" href=(asset_path("console.css"));
            @if let Some(csrf) = csrf {
                meta name="csrf" content=(csrf);
                script src=(asset_path("console.js")) defer {}
            }
        }
    }
}

/// Draws the hidden field that every form of a session carries.
pub(crate) fn draw_csrf_field(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// Draws a labelled list of facts.
pub(crate) fn draw_facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// Draws the mark of a state; its text is the state itself, so that color is never alone.
pub(crate) fn draw_badge(kind: &str, text: &str) -> Markup {
    html! { span class={ "badge " (badge_class(kind)) } { (to_line(text)) } }
}

/// Returns the class of a state. Only fixed names reach a class.
fn badge_class(kind: &str) -> &'static str {
    match kind {
        "running" => "is-active",
        "waiting" | "open" | "consent" | "uncertain" | "choice" | "build" | "proposal" => {
            "is-waiting"
        }
        "completed" | "ok" | "approve" | "decided" => "is-good",
        "failed" | "error" | "refuse" => "is-bad",
        _ => "is-plain",
    }
}

/// Draws the sentence of a page or a table without rows.
pub(crate) fn draw_empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}
