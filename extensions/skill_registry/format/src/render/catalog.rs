//! The catalog: one line per skill for every prompt, the first of the three levels of a skill.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use super::line::{cut_at_word, sanitize_text, shorten_text};

pub(super) const HEADER: &str = "<available_skills>\n[Available Skills]\n";
/// The end of the element, and the rule that holds for every skill in it.
pub(super) const FOOTER: &str = "\nUse read_skill(skill_id) to load full instructions.\n\
    </available_skills>\n\
    You MUST load a skill, with skills.load or read_skill, before you use its instructions, files or \
    scripts.";

/// The minimum length of a shortened description in characters; a shorter one is dropped.
const MIN_DESCRIPTION: usize = 24;

/// One skill of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogItem<'a> {
    /// The skill's id.
    pub id: &'a str,
    /// The skill's description, complete or shortened by
    /// [`shorten_description`](super::shorten_description).
    pub description: &'a str,
}

/// A report of the cuts in a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RenderReport {
    /// The number of skills with a line.
    pub listed: usize,
    /// The number of listed skills whose short description was shortened further to fit the budget.
    pub shortened: usize,
    /// The number of listed skills whose description was dropped to fit the budget.
    pub without_description: usize,
    /// The number of skills without a line.
    pub omitted: usize,
    /// The length of the text in characters.
    pub chars: usize,
    /// The allowed length of the text in characters.
    pub budget: usize,
}

/// The rendered catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedCatalog {
    /// The block for the prompt, without a line end at its end.
    pub text: String,
    /// The cuts.
    pub report: RenderReport,
}

/// Renders the catalog in at most `budget_chars` characters; `None` if there are no items.
///
/// The items must be sorted by id. Over budget, all descriptions are first shortened to the same
/// length, then dropped from the last skill backwards, then skills are omitted from the last one
/// backwards, and a line `(n more: list_skills(query))` counts them. Header, count and footer are
/// always present; the text exceeds the budget only if they do not fit.
#[must_use]
pub fn render_catalog(items: &[CatalogItem<'_>], budget_chars: usize) -> Option<RenderedCatalog> {
    if items.is_empty() {
        return None;
    }
    debug_assert!(items.is_sorted_by(|a, b| a.id <= b.id), "catalog items are sorted by id");
    let entries: Vec<CatalogEntry<'_>> = items.iter().map(CatalogEntry::new).collect();
    let plan = CutPlan::compute(&entries, budget_chars);
    let mut text = String::with_capacity(plan.capacity(&entries));
    let mut report = RenderReport { budget: budget_chars, ..RenderReport::default() };
    text.push_str(HEADER);
    for (index, entry) in entries[..plan.listed].iter().enumerate() {
        report.listed += 1;
        let limit = if index < plan.described { plan.limit } else { 0 };
        match entry.write(limit, &mut text) {
            DescriptionCut::Complete => {}
            DescriptionCut::Shortened => report.shortened += 1,
            DescriptionCut::Dropped => report.without_description += 1,
        }
    }
    report.omitted = entries.len() - plan.listed;
    if report.omitted > 0 {
        let _ = writeln!(text, "{}", omitted_line(report.omitted));
    }
    text.push_str(FOOTER);
    report.chars = text.chars().count();
    Some(RenderedCatalog { text, report })
}

pub(super) fn omitted_line(omitted: usize) -> String {
    format!("({omitted} more: list_skills(query))")
}

/// Returns the id of a line of a catalog, or `None` if the line has no description or belongs to no
/// skill.
#[must_use]
pub fn described_id(line: &str) -> Option<&str> {
    let (id, rest) = split_line(line)?;
    rest.starts_with(" — ").then_some(id)
}

/// Returns the id of the skill that a line of a block lists, with or without a description.
#[must_use]
pub fn listed_id(line: &str) -> Option<&str> {
    split_line(line).map(|(id, _)| id)
}

fn split_line(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("• `")?.split_once('`')
}

/// The parts of one line.
pub(super) struct CatalogEntry<'a> {
    id: Cow<'a, str>,
    description: Cow<'a, str>,
    id_chars: usize,
    pub(super) description_chars: usize,
}

impl<'a> CatalogEntry<'a> {
    pub(super) fn new(item: &CatalogItem<'a>) -> Self {
        let id = sanitize_text(item.id);
        let description = shorten_text(item.description);
        let (id_chars, description_chars) = (id.chars().count(), description.chars().count());
        Self { id, description, id_chars, description_chars }
    }

    /// Returns the length of the line with this many characters of the description, line end included.
    pub(super) fn chars(&self, description: usize) -> usize {
        let separator = if description > 0 { " — ".chars().count() } else { 0 };
        "• ``\n".chars().count() + self.id_chars + separator + description
    }

    /// Writes the line with at most `limit` characters of the description and returns the cut.
    pub(super) fn write(&self, limit: usize, text: &mut String) -> DescriptionCut {
        text.push_str("• `");
        text.push_str(&self.id);
        text.push('`');
        if limit > 0 && self.description_chars > 0 {
            text.push_str(" — ");
            text.push_str(&cut_at_word(&self.description, limit));
        }
        text.push('\n');
        match self.description_chars {
            0 => DescriptionCut::Complete,
            _ if limit == 0 => DescriptionCut::Dropped,
            chars if chars > limit => DescriptionCut::Shortened,
            _ => DescriptionCut::Complete,
        }
    }
}

/// The cut of one description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptionCut {
    /// The short description is complete.
    Complete,
    /// The start of the short description is left.
    Shortened,
    /// Only the id is left.
    Dropped,
}

/// The cuts of a catalog.
#[derive(Debug, PartialEq, Eq)]
struct CutPlan {
    /// The number of skills with a line, from the first.
    listed: usize,
    /// The number of those with a description, from the first.
    described: usize,
    /// The maximum number of characters of a description.
    limit: usize,
}

impl CutPlan {
    fn compute(entries: &[CatalogEntry<'_>], budget: usize) -> Self {
        let all = entries.len();
        let frame = HEADER.chars().count() + FOOTER.chars().count();
        let names: usize = frame + entries.iter().map(|entry| entry.chars(0)).sum::<usize>();
        // Not even the ids fit, so no description can.
        if names > budget {
            return Self {
                listed: Self::count_fitting_names(entries, budget, frame),
                described: 0,
                limit: 0,
            };
        }
        let cost = |entry: &CatalogEntry<'_>, limit: usize| {
            entry.chars(entry.description_chars.min(limit)) - entry.chars(0)
        };
        let longest = entries.iter().map(|entry| entry.description_chars).max().unwrap_or(0);
        let fits = |limit: usize| {
            names + entries.iter().map(|entry| cost(entry, limit)).sum::<usize>() <= budget
        };
        if fits(longest) {
            return Self { listed: all, described: all, limit: longest };
        }
        if fits(MIN_DESCRIPTION) {
            // The largest limit that fits lies in this range, and fitting is monotonic.
            let (mut low, mut high) = (MIN_DESCRIPTION, longest);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if fits(middle) { low = middle } else { high = middle }
            }
            return Self { listed: all, described: all, limit: low };
        }
        let mut total = names;
        let within = |entry: &&CatalogEntry<'_>| {
            total += cost(entry, MIN_DESCRIPTION);
            total <= budget
        };
        let described = entries.iter().take_while(within).count();
        Self { listed: all, described, limit: MIN_DESCRIPTION }
    }

    /// Returns the number of names that fit together with the line that counts the others.
    fn count_fitting_names(entries: &[CatalogEntry<'_>], budget: usize, frame: usize) -> usize {
        // The count of all skills has the most digits, so every smaller count fits, too.
        let line = omitted_line(entries.len()).chars().count() + 1;
        let mut total = frame + line;
        let within = |entry: &&CatalogEntry<'_>| {
            total += entry.chars(0);
            total <= budget
        };
        entries.iter().take_while(within).count()
    }

    /// Returns an upper estimate of the bytes of the text, for texts of mostly ASCII.
    fn capacity(&self, entries: &[CatalogEntry<'_>]) -> usize {
        let line = |entry: &CatalogEntry<'_>| {
            entry.id.len() + entry.description.len().min(self.limit) + 16
        };
        128 + entries[..self.listed].iter().map(line).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<CatalogItem<'a>> {
        pairs.iter().map(|&(id, description)| CatalogItem { id, description }).collect()
    }

    #[test]
    fn every_skill_is_listed_within_budget() {
        let skills = items(&[
            ("code-review", "Code review checklist\nand best practices."),
            ("empty", " "),
            ("extension-development", "How to create `extensions`. Use when building <tools>."),
        ]);
        let text = "<available_skills>\n[Available Skills]\n\
            • `code-review` — Code review checklist and best practices.\n\
            • `empty`\n\
            • `extension-development` — How to create 'extensions'. Use when building ‹tools›.\n\
            \n\
            Use read_skill(skill_id) to load full instructions.\n\
            </available_skills>\n\
            You MUST load a skill, with skills.load or read_skill, before you use its \
            instructions, files or scripts.";
        let report =
            RenderReport { listed: 3, chars: 369, budget: 8000, ..RenderReport::default() };
        assert_eq!(
            render_catalog(&skills, 8000),
            Some(RenderedCatalog { text: text.to_owned(), report })
        );
        assert_eq!(render_catalog(&[], 8000), None);
    }

    #[test]
    fn long_descriptions_are_shortened_first() {
        let long = "many words here ".repeat(8);
        let skills = items(&[("a", "Short one."), ("b", &long), ("c", &long)]);
        let Some(RenderedCatalog { text, report }) = render_catalog(&skills, 310) else {
            panic!("no catalog")
        };
        assert_eq!(
            text,
            "<available_skills>\n[Available Skills]\n\
             • `a` — Short one.\n\
             • `b` — many words here many words…\n\
             • `c` — many words here many words…\n\
             \n\
             Use read_skill(skill_id) to load full instructions.\n\
             </available_skills>\n\
             You MUST load a skill, with skills.load or read_skill, before you use its \
             instructions, files or scripts."
        );
        let expected = RenderReport {
            listed: 3,
            shortened: 2,
            chars: 307,
            budget: 310,
            ..RenderReport::default()
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn descriptions_are_dropped_from_end() {
        let long = "many words here ".repeat(8);
        let skills = items(&[("a", &long), ("b", &long), ("c", &long)]);
        let Some(RenderedCatalog { text, report }) = render_catalog(&skills, 295) else {
            panic!("no catalog")
        };
        assert_eq!(
            text,
            "<available_skills>\n[Available Skills]\n\
             • `a` — many words here many…\n\
             • `b` — many words here many…\n\
             • `c`\n\
             \n\
             Use read_skill(skill_id) to load full instructions.\n\
             </available_skills>\n\
             You MUST load a skill, with skills.load or read_skill, before you use its \
             instructions, files or scripts."
        );
        let expected = RenderReport {
            listed: 3,
            shortened: 2,
            without_description: 1,
            omitted: 0,
            chars: 282,
            budget: 295,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn omitted_skills_are_counted() {
        let ids = ["a", "b", "c", "d"].map(|letter| letter.repeat(20));
        let skills = items(&[(&ids[0], "x"), (&ids[1], ""), (&ids[2], "z"), (&ids[3], "")]);
        let Some(RenderedCatalog { text, report }) = render_catalog(&skills, 295) else {
            panic!("no catalog")
        };
        assert_eq!(
            text,
            "<available_skills>\n[Available Skills]\n\
             • `aaaaaaaaaaaaaaaaaaaa`\n\
             • `bbbbbbbbbbbbbbbbbbbb`\n\
             (2 more: list_skills(query))\n\
             \n\
             Use read_skill(skill_id) to load full instructions.\n\
             </available_skills>\n\
             You MUST load a skill, with skills.load or read_skill, before you use its \
             instructions, files or scripts."
        );
        let expected = RenderReport {
            listed: 2,
            shortened: 0,
            without_description: 1,
            omitted: 2,
            chars: 295,
            budget: 295,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn frame_is_rendered_over_budget() {
        let skills = items(&[("a", "x")]);
        let text = "<available_skills>\n[Available Skills]\n\
            (1 more: list_skills(query))\n\
            \n\
            Use read_skill(skill_id) to load full instructions.\n\
            </available_skills>\n\
            You MUST load a skill, with skills.load or read_skill, before you use its \
            instructions, files or scripts.";
        let report = RenderReport { omitted: 1, chars: 245, budget: 10, ..RenderReport::default() };
        assert_eq!(
            render_catalog(&skills, 10),
            Some(RenderedCatalog { text: text.to_owned(), report })
        );
    }

    fn any_skills() -> impl Strategy<Value = Vec<(String, String)>> {
        let description = prop_oneof![
            3 => "([A-Za-z]{1,9}[ .,\n]{1,2}){0,30}",
            1 => any::<String>(),
        ];
        proptest::collection::btree_map("[a-zé<-]{1,20}", description, 1..20)
            .prop_map(|skills| skills.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn report_matches_text_within_budget(
            skills in any_skills(),
            budget in 0_usize..2_000,
        ) {
            let pairs: Vec<_> = skills.iter().map(|(i, d)| (i.as_str(), d.as_str())).collect();
            let Some(RenderedCatalog { text, report }) = render_catalog(&items(&pairs), budget) else {
                return Err(TestCaseError::fail("no catalog"));
            };
            let chars = text.chars().count();
            prop_assert_eq!(report.chars, chars);
            prop_assert!(chars <= budget || report.listed == 0, "{} of {}", chars, budget);
            prop_assert_eq!(report.listed + report.omitted, skills.len());
            let ids: Vec<_> = text
                .lines()
                .filter_map(|line| line.strip_prefix("• `")?.split('`').next())
                .collect();
            let expected: Vec<_> =
                skills[..report.listed].iter().map(|(id, _)| sanitize_text(id)).collect();
            prop_assert_eq!(ids, expected);
            let described = text.lines().filter(|line| line.contains("` — ")).count();
            let with_text =
                skills[..report.listed].iter().filter(|(_, d)| !sanitize_text(d).is_empty()).count();
            prop_assert_eq!(described + report.without_description, with_text);
            prop_assert_eq!(
                text.contains(&omitted_line(report.omitted)), report.omitted > 0
            );
            prop_assert_eq!(text.lines().filter(|line| line.starts_with('•')).count(), report.listed);
        }

        #[test]
        fn larger_budget_lists_more(skills in any_skills(), budget in 0_usize..2_000) {
            let pairs: Vec<_> = skills.iter().map(|(i, d)| (i.as_str(), d.as_str())).collect();
            let skills = items(&pairs);
            let described = |budget| {
                render_catalog(&skills, budget)
                    .map(|c| (c.report.listed, c.report.listed - c.report.without_description))
            };
            prop_assert!(described(budget) <= described(budget + 100));
        }
    }
}
