//! A skill as a page in the colours of its role, made for a width.

use anstyle::Style;
use skill_format::TokenCount;
use skill_rules::role::Role;
use termimad::crossterm::style::Color;
use termimad::minimad::{Alignment, Text};
use termimad::{CompoundStyle, FmtText, LineStyle, ListItemsIndentationMode, MadSkin, StyledChar};

use super::markdown::{Document, INDENTED};
use crate::commands::skill::triads;
use crate::output::DIM;

/// Whether a page has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    /// None, and no escape codes at all.
    Plain,
    /// The colour of the skill's role.
    Role,
}

/// How far code is indented.
const CODE_INDENT: usize = 4;

fn skin(theme: Theme, role: Role) -> MadSkin {
    let mut skin = MadSkin::no_style();
    if theme == Theme::Role {
        let colour = colour(role);
        skin = MadSkin::default();
        skin.set_headers_fg(colour);
        skin.bullet = StyledChar::from_fg_char(colour, '\u{2022}');
        skin.quote_mark = StyledChar::from_fg_char(colour, '\u{258c}');
        // The terminal's own background: nobody knows whether it is dark.
        skin.code_block = LineStyle::default();
        skin.inline_code = CompoundStyle::with_fg(colour);
    }
    skin.code_block.left_margin = CODE_INDENT;
    skin.headers[0].align = Alignment::Left;
    for (level, margin) in INDENTED {
        let style = LineStyle { left_margin: margin, ..LineStyle::default() };
        skin.headers[usize::from(level) - 1] = style;
    }
    skin.list_items_indentation_mode = ListItemsIndentationMode::Block;
    skin
}

fn colour(role: Role) -> Color {
    match triads::style(role).get_fg_color() {
        Some(anstyle::Color::Rgb(anstyle::RgbColor(r, g, b))) => Color::Rgb { r, g, b },
        _ => Color::AnsiValue(triads::nearest(role)),
    }
}

/// What is shown of a skill. Every text has been sanitised.
pub(super) struct Page<'a> {
    pub(super) name: &'a str,
    pub(super) role: Role,
    pub(super) tokens: TokenCount,
    pub(super) description: &'a str,
    pub(super) body: &'a str,
}

impl Page<'_> {
    /// Renders the page, no line wider than `width` columns.
    pub(super) fn render(&self, theme: Theme, width: usize) -> String {
        let (role, colour) = (self.role.as_str(), self.role.colour());
        let facts = format!("\u{25cf} {role} {colour}, approx. {} tokens", self.tokens);
        let style = triads::style(self.role);
        let mut out = String::new();
        for (text, style) in
            [(self.name, style.bold()), (&facts, style), (self.description.trim(), DIM)]
        {
            let style = if theme == Theme::Plain { Style::new() } else { style };
            let text = text.replace(['\n', '\t'], " ");
            let skin = MadSkin::no_style();
            let wrapped = FmtText::raw_str(&skin, &text, Some(width)).to_string();
            for line in wrapped.lines() {
                out.push_str(&format!("{style}{}{style:#}\n", line.trim_end()));
            }
        }
        let rule = "\u{2500}".repeat(width);
        let style = if theme == Theme::Plain { Style::new() } else { style };
        out.push_str(&format!("{style}{rule}{style:#}\n"));
        let skin = skin(theme, self.role);
        let document = Document::parse(self.body, theme == Theme::Plain);
        let text: Text<'_> = document.text();
        for line in FmtText::from_text(&skin, text, Some(width)).to_string().lines() {
            out.push_str(line.trim_end_matches(' '));
            out.push('\n');
        }
        out
    }
}
