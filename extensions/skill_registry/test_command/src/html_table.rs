//! Parts of tables of the web page.

use maud::{Markup, html};

/// Renders the head of a table.
pub(crate) fn render_head(labels: &[&str]) -> Markup {
    html! {
        thead { tr { @for label in labels { th scope="col" { (label) } } } }
    }
}
