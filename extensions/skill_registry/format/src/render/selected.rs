//! The catalog of many skills: those that matter for a prompt, and what a session was shown before.
//!
//! A first block takes only a part of the budget. What later prompts of the session bring up is
//! written behind it, so that the text so far stays as it is and a model's cache of it holds.

use std::collections::HashSet;

use super::catalog::{
    CatalogEntry, CatalogItem, DescriptionCut, FOOTER, HEADER, RenderReport, RenderedCatalog,
    omitted_line,
};
use super::line::{SHORT_DESCRIPTION, sanitize};

/// So many of the best matches get their short description whole.
const WHOLE: usize = 8;

/// So many more of them get the beginning of it.
const BEGUN: usize = 16;

/// The characters of such a beginning; also what bound and recent skills get.
const BEGINNING: usize = 64;

/// So many of the best matches of a later prompt are looked for among the lines so far.
const NEWS: usize = 10;

/// So many of those get their short description whole.
const WHOLE_NEWS: usize = 4;

/// Below this many characters, a budget is used up at once: there is no room for news.
const LEAST_SHARED: usize = 2_000;

const NEW: &str = "new:\n";

/// What a block is made of; a skill may stand in several of the lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkillSelection<'a> {
    /// Bound and recently used skills, which come first.
    pub stable: &'a [CatalogItem<'a>],
    /// The matches for the prompt, best first.
    pub matched: &'a [CatalogItem<'a>],
    /// What fills the room that is left, in this order.
    pub others: &'a [CatalogItem<'a>],
    /// How many skills there are to choose from; the others are counted in the last line.
    pub total: usize,
}

/// A rendered choice of skills and what it leaves to a later one of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSelection {
    /// The block for the prompt and what was cut.
    pub catalog: RenderedCatalog,
    /// What the session has been shown.
    pub shown: SessionLines,
}

/// What a session was shown: its lines, byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLines {
    /// Everything between the header and the line that counts the others.
    lines: String,
    chars: usize,
    listed: Vec<(Box<str>, DescriptionCut)>,
}

/// Renders the skills that matter for a prompt in at most `budget_chars` characters; nothing if
/// there are none to choose from.
///
/// Bound and recent skills come first, then the matches, then the others; each once. The best
/// matches have their whole description, those after them its beginning, the rest are ids alone. If
/// not every skill has a line, the block leaves three eighths of a large budget to what the session
/// comes to need later, see [`SessionLines::extend`].
#[must_use]
pub fn render_selection(
    choice: &SkillSelection<'_>,
    budget_chars: usize,
) -> Option<RenderedSelection> {
    if choice.total == 0 {
        return None;
    }
    let shared = (budget_chars * 5 / 8).max(LEAST_SHARED).min(budget_chars);
    let room = |chars: usize| chars.saturating_sub(frame(choice.total));
    let mut block = SelectionBlock { room: room(shared), ..SelectionBlock::default() };
    block.add(choice.stable, |_| BEGINNING, block.room / 2);
    block.add(choice.matched, by_rank(WHOLE, WHOLE + BEGUN), block.room);
    block.expand_descriptions();
    block.add(choice.others, |_| 0, block.room);
    if block.lines.len() >= choice.total {
        // Nothing is left that a later prompt could bring up.
        block.room = room(budget_chars);
        block.expand_descriptions();
    }
    let mut shown = SessionLines::default();
    shown.write(&block.lines);
    Some(shown.selected(choice.total, budget_chars))
}

impl SessionLines {
    /// Returns the ids of the skills that are listed, in the order of their lines.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(id, _)| &**id)
    }

    /// Renders what the session was shown and, behind it, what another prompt brings up: the best
    /// matches that have no line yet behind `new:`, the skills that are gone behind `removed:`.
    ///
    /// The lines so far begin the new text byte for byte. Returns nothing if that does not fit into
    /// the budget: the block is then to be made anew.
    #[must_use]
    pub fn extend(
        &self,
        choice: &SkillSelection<'_>,
        removed: &[&str],
        budget_chars: usize,
    ) -> Option<RenderedSelection> {
        let mut shown = self.clone();
        let gone: HashSet<&str> = removed.iter().copied().collect();
        shown.listed.retain(|(id, _)| !gone.contains(&**id));
        let known = self.ids().collect();
        let mut block = SelectionBlock { room: usize::MAX, known, ..SelectionBlock::default() };
        let best = &choice.matched[..choice.matched.len().min(NEWS)];
        block.add(best, by_rank(WHOLE_NEWS, NEWS), usize::MAX);
        if !block.lines.is_empty() {
            shown.push(NEW);
            shown.write(&block.lines);
        }
        let quoted: Vec<String> = self
            .ids()
            .filter(|id| gone.contains(id))
            .map(|id| format!("`{}`", sanitize(id)))
            .collect();
        if !quoted.is_empty() {
            shown.push(&format!("removed: {}\n", quoted.join(", ")));
        }
        let selected = shown.selected(choice.total, budget_chars);
        (selected.catalog.report.chars <= budget_chars).then_some(selected)
    }

    fn push(&mut self, text: &str) {
        self.lines.push_str(text);
        self.chars += text.chars().count();
    }

    fn write(&mut self, lines: &[SelectionLine<'_>]) {
        let from = self.lines.len();
        for line in lines {
            let cut = line.entry.write(line.limit, &mut self.lines);
            self.listed.push((line.id.into(), cut));
        }
        self.chars += self.lines[from..].chars().count();
    }

    fn selected(self, total: usize, budget: usize) -> RenderedSelection {
        let listed = self.listed.len();
        let omitted = total.saturating_sub(listed);
        let rest = if omitted > 0 { format!("{}\n", omitted_line(omitted)) } else { String::new() };
        let count = |cut| self.listed.iter().filter(|(_, was)| *was == cut).count();
        let report = RenderReport {
            listed,
            shortened: count(DescriptionCut::Shortened),
            without_description: count(DescriptionCut::Dropped),
            omitted,
            chars: [HEADER, &rest, FOOTER].map(|part| part.chars().count()).iter().sum::<usize>()
                + self.chars,
            budget,
        };
        let text = [HEADER, &self.lines, &rest, FOOTER].concat();
        RenderedSelection { catalog: RenderedCatalog { text, report }, shown: self }
    }
}

/// The characters of everything but the lines, where some skill has none.
fn frame(total: usize) -> usize {
    [HEADER, &omitted_line(total), "\n", FOOTER].map(|part| part.chars().count()).iter().sum()
}

/// How much of its description a match gets: all of it, its beginning, nothing.
fn by_rank(whole: usize, begun: usize) -> impl Fn(usize) -> usize {
    move |rank| match rank {
        rank if rank < whole => SHORT_DESCRIPTION,
        rank if rank < begun => BEGINNING,
        _ => 0,
    }
}

/// One line in the making.
struct SelectionLine<'a> {
    id: &'a str,
    entry: CatalogEntry<'a>,
    /// The most characters of its description.
    limit: usize,
}

/// The lines of a block in the making.
#[derive(Default)]
struct SelectionBlock<'a> {
    lines: Vec<SelectionLine<'a>>,
    known: HashSet<&'a str>,
    room: usize,
    used: usize,
    /// What of it are descriptions: ids get at least half of the room.
    described: usize,
}

impl<'a> SelectionBlock<'a> {
    /// Adds a line for each item that has none, while they fit into `room`.
    fn add(&mut self, items: &'a [CatalogItem<'a>], limit: impl Fn(usize) -> usize, room: usize) {
        for (rank, item) in items.iter().enumerate() {
            if self.known.contains(item.id) {
                continue;
            }
            let entry = CatalogEntry::new(item);
            let name = entry.chars(0);
            if self.used + name > room {
                break;
            }
            let mut limit = limit(rank);
            let mut description = entry.chars(entry.description_chars.min(limit)) - name;
            if self.used + name + description > room || self.described + description > self.room / 2
            {
                (limit, description) = (0, 0);
            }
            self.used += name + description;
            self.described += description;
            self.known.insert(item.id);
            self.lines.push(SelectionLine { id: item.id, entry, limit });
        }
    }

    /// Gives whole descriptions to the lines, from the first one on, as far as the room goes.
    fn expand_descriptions(&mut self) {
        for line in &mut self.lines {
            let chars = line.entry.description_chars;
            let more = line.entry.chars(chars) - line.entry.chars(chars.min(line.limit));
            if more > 0 && self.used + more <= self.room {
                self.used += more;
                self.described += more;
                line.limit = chars;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item<'a>(id: &'a str, description: &'a str) -> CatalogItem<'a> {
        CatalogItem { id, description }
    }

    const LONG: &str = "Reviews a change of code with a checklist of what goes wrong most often, \
        from names to error paths. Use when a change is ready.";

    #[test]
    fn what_matters_most_comes_first_and_says_most() {
        let ids: Vec<String> = (0..300).map(|n| format!("skill-number-{n:03}")).collect();
        let all: Vec<_> = ids.iter().map(|id| item(id, LONG)).collect();
        let choice = SkillSelection {
            stable: &[item("bound", LONG), all[7]],
            matched: &all[..60],
            others: &all,
            total: 301,
        };
        let RenderedSelection { catalog: RenderedCatalog { text, report }, shown } =
            render_selection(&choice, 4_000).expect("a block");
        let lines: Vec<&str> = text.lines().collect();
        let begun = "— Reviews a change of code with a checklist of what goes wrong…";
        assert_eq!(lines[1], format!("• `bound` {begun}"));
        assert_eq!(lines[2], format!("• `skill-number-007` {begun}"));
        assert_eq!(lines[3], format!("• `skill-number-000` — {LONG}"));
        assert_eq!(lines[9], format!("• `skill-number-006` — {LONG}"));
        assert_eq!(lines[10], format!("• `skill-number-008` {begun}"));
        assert_eq!(lines[12], "• `skill-number-010`");
        assert_eq!(lines[lines.len() - 3], "(243 more: list_skills(query))");
        assert_eq!(shown.ids().take(3).collect::<Vec<_>>(), ["bound", &*ids[7], &*ids[0]]);
        let expected = RenderReport {
            listed: 58,
            shortened: 4,
            without_description: 47,
            omitted: 243,
            chars: 2_475,
            budget: 4_000,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn where_all_skills_have_a_line_descriptions_take_the_whole_budget() {
        let ids: Vec<String> = (0..41).map(|n| format!("s{n:02}")).collect();
        let all: Vec<_> = ids.iter().map(|id| item(id, LONG)).collect();
        let choice = SkillSelection { matched: &all[40..], others: &all, total: 41, stable: &[] };
        let RenderedSelection { catalog: RenderedCatalog { text, report }, .. } =
            render_selection(&choice, 5_000).expect("a block");
        assert!(
            text.starts_with(&format!("{HEADER}• `s40` — {LONG}\n• `s00` — {LONG}\n")),
            "{text}"
        );
        assert!(text.ends_with(&format!("• `s39`\n{FOOTER}")), "{text}");
        let expected = RenderReport {
            listed: 41,
            shortened: 0,
            without_description: 6,
            omitted: 0,
            chars: 4_949,
            budget: 5_000,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn later_prompts_add_lines_behind_those_that_were_shown() {
        let all = [item("a", "About a."), item("b", "About b."), item("c", "About c.")];
        let first = render_selection(
            &SkillSelection { matched: &all[..1], total: 500, ..SkillSelection::default() },
            8_000,
        );
        let first = first.expect("a block");
        let head = "[Available Skills]\n• `a` — About a.\n";
        let foot = "\nUse read_skill(skill_id) to load full instructions.";
        assert_eq!(first.catalog.text, format!("{head}(499 more: list_skills(query))\n{foot}"));
        // Nothing new: the same bytes.
        let choice = SkillSelection { matched: &all[..1], total: 500, ..SkillSelection::default() };
        assert_eq!(first.shown.extend(&choice, &[], 8_000), Some(first.clone()));
        let choice = SkillSelection { matched: &all, total: 499, ..SkillSelection::default() };
        let second = first.shown.extend(&choice, &["a"], 8_000).expect("room");
        let lines = "new:\n• `b` — About b.\n• `c` — About c.\nremoved: `a`\n";
        assert_eq!(
            second.catalog.text,
            format!("{head}{lines}(497 more: list_skills(query))\n{foot}")
        );
        assert_eq!(second.shown.ids().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(second.catalog.report.listed, 2);
        assert_eq!(second.shown.extend(&choice, &[], 100), None);
    }

    #[test]
    fn without_skills_there_is_no_block() {
        assert_eq!(render_selection(&SkillSelection::default(), 8_000), None);
    }

    fn any_skills() -> impl Strategy<Value = Vec<(String, String)>> {
        let description = prop_oneof![
            3 => "([A-Za-z]{1,9}[ .,\n]{1,2}){0,30}",
            1 => any::<String>(),
        ];
        proptest::collection::btree_map("[a-zé<-]{1,20}", description, 1..40)
            .prop_map(|skills| skills.into_iter().collect())
    }

    fn listed(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("• `")?.split('`').next()).collect()
    }

    /// What holds of every block; `gone` are listed in its text and no longer in the report.
    fn is_sound(selected: &RenderedSelection, total: usize, budget: usize, gone: &[&str]) {
        let RenderedSelection { catalog: RenderedCatalog { text, report }, shown } = selected;
        let chars = text.chars().count();
        assert_eq!((report.chars, report.budget), (chars, budget));
        assert!(chars <= budget || report.listed == 0, "{chars} of {budget}: {text}");
        assert_eq!(report.listed + report.omitted, total);
        assert_eq!(text.contains(&omitted_line(report.omitted)), report.omitted > 0);
        let mut ids = listed(text);
        ids.retain(|id| !gone.contains(id));
        assert_eq!(ids, shown.ids().map(sanitize).collect::<Vec<_>>());
        assert_eq!(ids.len(), report.listed);
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "listed twice: {text}");
        assert!(report.shortened + report.without_description <= report.listed);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_budget_holds_nothing_is_listed_twice_and_the_report_tells_the_truth(
            skills in any_skills(),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..80),
            bound in 0_usize..6,
            budget in 0_usize..4_000,
        ) {
            let all: Vec<_> = skills.iter().map(|(i, d)| item(i, d)).collect();
            let picked: Vec<_> = order.iter().map(|index| *index.get(&all)).collect();
            let (stable, matched) = picked.split_at(bound.min(picked.len()));
            let total = all.len();
            let choice = SkillSelection { stable, matched, others: &all, total };
            let first = render_selection(&choice, budget).expect("a block");
            is_sound(&first, total, budget, &[]);
            let cut = first.catalog.text.lines().filter(|line| line.ends_with('…')).count();
            prop_assert!(cut >= first.catalog.report.shortened);
            // With room for all of it, all of it is there.
            let whole = render_selection(&choice, 60_000).expect("a block").catalog.report;
            prop_assert_eq!((whole.listed, whole.shortened, whole.without_description), (total, 0, 0));
        }

        #[test]
        fn a_later_block_begins_with_the_lines_of_the_one_before(
            skills in any_skills(),
            turns in proptest::collection::vec(
                (proptest::collection::vec(any::<prop::sample::Index>(), 0..20), any::<bool>()),
                1..8,
            ),
            budget in 600_usize..4_000,
        ) {
            let mut all: Vec<_> = skills.iter().map(|(i, d)| item(i, d)).collect();
            let mut gone: Vec<String> = Vec::new();
            let mut before: Option<RenderedSelection> = None;
            for (order, removes) in turns {
                let mut removed = Vec::new();
                if removes && let Some(before) = &before && all.len() > 1
                    && let Some(id) = before.shown.ids().next()
                {
                    removed.push(id.to_owned());
                    all.retain(|item| item.id != id);
                }
                let matched: Vec<_> = order.iter().map(|index| *index.get(&all)).collect();
                let choice = SkillSelection { matched: &matched, total: all.len(), ..SkillSelection::default() };
                let names: Vec<&str> = removed.iter().map(String::as_str).collect();
                let next = match &before {
                    Some(before) => before.shown.extend(&choice, &names, budget),
                    None => None,
                };
                let now = match next {
                    Some(next) => {
                        let lines = before.map(|before| before.shown.lines).unwrap_or_default();
                        let so_far = [HEADER, &lines].concat();
                        prop_assert!(next.catalog.text.starts_with(&so_far));
                        gone.extend(removed.iter().map(|id| sanitise(id)));
                        for id in &removed {
                            let mut told = next.catalog.text.lines().filter(|l| l.starts_with("removed: "));
                            let quoted = format!("`{}`", sanitise(id));
                            prop_assert!(told.next_back().is_some_and(|line| line.contains(&quoted)));
                        }
                        next
                    }
                    None => {
                        gone.clear();
                        render_selection(&choice, budget).expect("a block")
                    }
                };
                let names: Vec<&str> = gone.iter().map(String::as_str).collect();
                is_sound(&now, all.len(), budget, &names);
                before = Some(now);
            }
        }
    }

    fn sanitise(id: &str) -> String {
        sanitize(id).into_owned()
    }
}
