//! A skill as a page in the colors of its role, for one width.

use anstyle::Style;
use skill_compat::role::SkillRole;
use skill_format::TokenCount;
use skillhost_terminal::{DIM, MarkdownLayout};
use termimad::crossterm::style::Color;
use termimad::{FmtText, MadSkin};

use crate::roles;

/// The colors of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColorTheme {
    /// No colors and no escape codes.
    Plain,
    /// The color of the skill's role.
    Role,
}

fn accent(role: SkillRole) -> Color {
    match roles::role_style(role).get_fg_color() {
        Some(anstyle::Color::Rgb(anstyle::RgbColor(r, g, b))) => Color::Rgb { r, g, b },
        _ => Color::AnsiValue(roles::nearest_ansi_color(role)),
    }
}

/// The contents of a skill's page. Every text has been sanitized.
pub(super) struct SkillPage<'a> {
    pub(super) name: &'a str,
    pub(super) role: SkillRole,
    pub(super) tokens: TokenCount,
    pub(super) description: &'a str,
    pub(super) body: &'a str,
}

impl SkillPage<'_> {
    /// Renders the page, no line wider than `width` columns.
    pub(super) fn render(&self, theme: ColorTheme, width: usize) -> String {
        let (role, colour) = (self.role.as_str(), self.role.hex_color());
        let facts = format!("\u{25cf} {role} {colour}, approx. {} tokens", self.tokens);
        let style = roles::role_style(self.role);
        let mut out = String::new();
        for (text, style) in
            [(self.name, style.bold()), (&facts, style), (self.description.trim(), DIM)]
        {
            let style = if theme == ColorTheme::Plain { Style::new() } else { style };
            let text = text.replace(['\n', '\t'], " ");
            let skin = MadSkin::no_style();
            let wrapped = FmtText::raw_str(&skin, &text, Some(width)).to_string();
            for line in wrapped.lines() {
                out.push_str(&format!("{style}{}{style:#}\n", line.trim_end()));
            }
        }
        let rule = "\u{2500}".repeat(width);
        let style = if theme == ColorTheme::Plain { Style::new() } else { style };
        out.push_str(&format!("{style}{rule}{style:#}\n"));
        let accent = (theme == ColorTheme::Role).then(|| accent(self.role));
        out.push_str(&MarkdownLayout { accent, width }.render(self.body));
        out
    }
}

#[cfg(test)]
mod tests;
