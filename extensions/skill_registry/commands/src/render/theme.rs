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
mod tests {
    use super::*;

    fn page(body: &str, width: usize) -> String {
        let page = SkillPage {
            name: "demo",
            role: SkillRole::Verifier,
            tokens: TokenCount::from_chars(0),
            description: "Shows.",
            body,
        };
        let text = page.render(ColorTheme::Plain, width);
        let rule = format!("\n{}\n", "\u{2500}".repeat(width));
        text.split_once(&rule).unwrap().1.to_owned()
    }

    #[test]
    fn character_reference_is_sanitized() {
        assert_eq!(page("&#27;[31m &#x9b; &#x202e;", 40), "\\u{1b}[31m \\u{9b} \\u{202e}\n");
        assert_eq!(page("a\u{1b}[2Jb `&#27;`", 40), "a\\u{1b}[2Jb &#27;\n");
    }

    #[test]
    fn unpaired_markers_stay_literal() {
        assert_eq!(
            page("2 * 3 * 4, *.md and *.rs, snake_case_name", 60),
            "2 * 3 * 4, *.md and *.rs, snake_case_name\n"
        );
    }

    #[test]
    fn lists_keep_nested_blocks() {
        let body = "\
1. Install it:

   ```sh
   rm *.tmp
   ```

   Then wait for it, which takes as long as it takes.
2. Next
    - deep
        - deeper
          and wrapped

            - deepest
";
        assert_eq!(
            page(body, 30),
            "\
1. Install it:
      rm *.tmp
  Then wait for it, which
  takes as long as it takes.
2. Next
  \u{2022} deep
    \u{2022} deeper and wrapped
      \u{2022} deepest
"
        );
    }

    /// A deterministic generator of pseudorandom numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % end
        }
    }

    #[test]
    fn random_markdown_keeps_layout() {
        const PIECES: [&str; 32] = [
            "# ",
            "- ",
            "1. ",
            "999999999. ",
            "> ",
            "```\n",
            "~~~\n",
            "    ",
            "\t",
            "\n",
            "\n\n",
            "|",
            "|--|:-:|\n",
            "| a | b |\n",
            "*",
            "**",
            "_",
            "~~",
            "`",
            "[",
            "](x)",
            "![",
            "<b>",
            "<!--",
            "&#27;",
            "&amp;",
            "word ",
            "averyveryveryveryverylongword",
            "\u{65e5}\u{672c}",
            "---\n",
            "\\",
            "- [x] ",
        ];
        let mut numbers = Numbers(1);
        for _ in 0..2_000 {
            let count = numbers.below(40);
            let body: String = (0..count).map(|_| PIECES[numbers.below(PIECES.len())]).collect();
            let width = 30 + numbers.below(40);
            let page = page(&body, width);
            assert!(!page.contains('\u{1b}'), "{body:?}");
            for line in page.lines() {
                let columns: usize = line.chars().map(|c| if c > '\u{3000}' { 2 } else { 1 }).sum();
                assert!(columns <= width, "{width}: {line:?} of {body:?}");
            }
        }
    }
}
