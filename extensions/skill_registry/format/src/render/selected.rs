//! The catalog of many skills: those that match a prompt, and the lines a session has so far.
//!
//! A first block takes only a part of the budget. Matches of later prompts of the session are
//! appended, so that the text so far does not change and the prompt cache of the model stays valid.

use std::collections::HashSet;

use super::catalog::{
    CatalogEntry, CatalogItem, DescriptionCut, FOOTER, HEADER, RenderReport, RenderedCatalog,
    omitted_line,
};
use super::line::{SHORT_DESCRIPTION, sanitize_text};

/// The number of best matches with a complete short description.
const COMPLETE_MATCHES: usize = 8;

/// The number of further matches with the start of their description.
const PARTIAL_MATCHES: usize = 16;

/// The length of such a start in characters; also for bound and recent skills.
const PARTIAL_CHARS: usize = 64;

/// The number of best matches of a later prompt that get a line if they have none.
const LATER_MATCHES: usize = 10;

/// The number of those with a complete short description.
const COMPLETE_LATER_MATCHES: usize = 4;

/// The minimum length of a first block in characters; a smaller budget is not shared.
const MIN_FIRST_BLOCK: usize = 2_000;

const NEW: &str = "new:\n";

/// The skills for a block; a skill may be in several of the lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkillSelection<'a> {
    /// Bound and recently used skills, which come first.
    pub stable: &'a [CatalogItem<'a>],
    /// The matches for the prompt, best first.
    pub matched: &'a [CatalogItem<'a>],
    /// The skills for the remaining room, in this order.
    pub others: &'a [CatalogItem<'a>],
    /// The number of all skills; those without a line are counted in the last line.
    pub total: usize,
}

/// A rendered selection and the state for later selections of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSelection {
    /// The block for the prompt and its cuts.
    pub catalog: RenderedCatalog,
    /// The lines the session has so far.
    pub shown: SessionLines,
}

/// The lines a session has so far, byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLines {
    /// The text between the header and the line that counts the others.
    lines: String,
    chars: usize,
    listed: Vec<(Box<str>, DescriptionCut)>,
}

/// Renders the skills that match a prompt in at most `budget_chars` characters; `None` if there
/// are no skills.
///
/// Bound and recent skills come first, then the matches, then the others; each once. The best
/// matches have their complete description, those after them its start, the others only an id. If
/// not every skill has a line, the block reserves three eighths of a large budget for later prompts
/// of the session, see [`SessionLines::extend`].
#[must_use]
pub fn render_selection(
    choice: &SkillSelection<'_>,
    budget_chars: usize,
) -> Option<RenderedSelection> {
    if choice.total == 0 {
        return None;
    }
    let shared = (budget_chars * 5 / 8).max(MIN_FIRST_BLOCK).min(budget_chars);
    let room = |chars: usize| chars.saturating_sub(frame_chars(choice.total));
    let mut block = SelectionBlock { room: room(shared), ..SelectionBlock::default() };
    block.add(choice.stable, |_| PARTIAL_CHARS, block.room / 2);
    block.add(
        choice.matched,
        limit_by_rank(COMPLETE_MATCHES, COMPLETE_MATCHES + PARTIAL_MATCHES),
        block.room,
    );
    // Matches are completed before the others take room, because they are the likely choice.
    block.expand_descriptions();
    block.add(choice.others, |_| 0, block.room);
    if block.lines.len() >= choice.total {
        // Every skill has a line, so later prompts need no room.
        block.room = room(budget_chars);
        block.expand_descriptions();
    }
    let mut shown = SessionLines::default();
    shown.write(&block.lines);
    Some(shown.selected(choice.total, budget_chars))
}

impl SessionLines {
    /// Returns the ids of the listed skills, in the order of their lines.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(|(id, _)| &**id)
    }

    /// Renders the lines so far and appends those of another prompt: the best matches that have no
    /// line yet after `new:`, the removed skills after `removed:`.
    ///
    /// The new text starts with the lines so far, byte for byte. Returns `None` if it exceeds the
    /// budget: the caller must then render a new block.
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
        // The budget is checked on the complete text below.
        let mut block = SelectionBlock { room: usize::MAX, known, ..SelectionBlock::default() };
        let best = &choice.matched[..choice.matched.len().min(LATER_MATCHES)];
        block.add(best, limit_by_rank(COMPLETE_LATER_MATCHES, LATER_MATCHES), usize::MAX);
        if !block.lines.is_empty() {
            shown.push(NEW);
            shown.write(&block.lines);
        }
        let quoted: Vec<String> = self
            .ids()
            .filter(|id| gone.contains(id))
            .map(|id| format!("`{}`", sanitize_text(id)))
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

/// Returns the length of a block without its lines, in characters.
fn frame_chars(total: usize) -> usize {
    [HEADER, &omitted_line(total), "\n", FOOTER].map(|part| part.chars().count()).iter().sum()
}

/// Returns a function from the rank of a match to the length of its description in characters.
fn limit_by_rank(complete: usize, partial: usize) -> impl Fn(usize) -> usize {
    move |rank| match rank {
        rank if rank < complete => SHORT_DESCRIPTION,
        rank if rank < partial => PARTIAL_CHARS,
        _ => 0,
    }
}

/// A line to be written.
struct SelectionLine<'a> {
    id: &'a str,
    entry: CatalogEntry<'a>,
    /// The maximum length of its description in characters.
    limit: usize,
}

/// The lines of a block to be written.
#[derive(Default)]
struct SelectionBlock<'a> {
    lines: Vec<SelectionLine<'a>>,
    known: HashSet<&'a str>,
    room: usize,
    used: usize,
    /// The part of `used` for descriptions: ids get at least half of the room.
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
            // The lists are sorted by importance, so a shorter id further down must not overtake.
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

    /// Completes descriptions from the first line on, while they fit.
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
    fn best_matches_come_first_and_longest() {
        let ids: Vec<String> = (0..300).map(|n| format!("skill-number-{n:03}")).collect();
        let all: Vec<_> = ids.iter().map(|id| item(id, LONG)).collect();
        let choice = SkillSelection {
            stable: &[item("bound", LONG), all[7]],
            matched: &all[..60],
            others: &all,
            total: 301,
        };
        let RenderedSelection { catalog: RenderedCatalog { text, report }, shown } =
            render_selection(&choice, 4_232).expect("a block");
        let lines: Vec<&str> = text.lines().collect();
        let begun = "— Reviews a change of code with a checklist of what goes wrong…";
        assert_eq!(lines[2], format!("• `bound` {begun}"));
        assert_eq!(lines[3], format!("• `skill-number-007` {begun}"));
        assert_eq!(lines[4], format!("• `skill-number-000` — {LONG}"));
        assert_eq!(lines[10], format!("• `skill-number-006` — {LONG}"));
        assert_eq!(lines[11], format!("• `skill-number-008` {begun}"));
        assert_eq!(lines[13], "• `skill-number-010`");
        assert_eq!(lines[lines.len() - 5], "(243 more: list_skills(query))");
        assert_eq!(shown.ids().take(3).collect::<Vec<_>>(), ["bound", &*ids[7], &*ids[0]]);
        let expected = RenderReport {
            listed: 58,
            shortened: 4,
            without_description: 47,
            omitted: 243,
            chars: 2_620,
            budget: 4_232,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn descriptions_fill_budget_of_complete_list() {
        let ids: Vec<String> = (0..41).map(|n| format!("s{n:02}")).collect();
        let all: Vec<_> = ids.iter().map(|id| item(id, LONG)).collect();
        let choice = SkillSelection { matched: &all[40..], others: &all, total: 41, stable: &[] };
        let RenderedSelection { catalog: RenderedCatalog { text, report }, .. } =
            render_selection(&choice, 5_145).expect("a block");
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
            chars: 5_094,
            budget: 5_145,
        };
        assert_eq!(report, expected);
    }

    #[test]
    fn later_prompt_appends_lines() {
        let all = [item("a", "About a."), item("b", "About b."), item("c", "About c.")];
        let first = render_selection(
            &SkillSelection { matched: &all[..1], total: 500, ..SkillSelection::default() },
            8_000,
        );
        let first = first.expect("a block");
        let head = "<available_skills>\n[Available Skills]\n• `a` — About a.\n";
        let foot = FOOTER;
        assert_eq!(first.catalog.text, format!("{head}(499 more: list_skills(query))\n{foot}"));
        // Without new matches, the bytes stay the same.
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
    fn empty_selection_renders_none() {
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

    /// Asserts the invariants of a block; `gone` are in its text, but not in its report.
    fn assert_sound(selected: &RenderedSelection, total: usize, budget: usize, gone: &[&str]) {
        let RenderedSelection { catalog: RenderedCatalog { text, report }, shown } = selected;
        let chars = text.chars().count();
        assert_eq!((report.chars, report.budget), (chars, budget));
        assert!(chars <= budget || report.listed == 0, "{chars} of {budget}: {text}");
        assert_eq!(report.listed + report.omitted, total);
        assert_eq!(text.contains(&omitted_line(report.omitted)), report.omitted > 0);
        let mut ids = listed(text);
        ids.retain(|id| !gone.contains(id));
        assert_eq!(ids, shown.ids().map(sanitize_text).collect::<Vec<_>>());
        assert_eq!(ids.len(), report.listed);
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "listed twice: {text}");
        assert!(report.shortened + report.without_description <= report.listed);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn selection_is_sound_within_budget(
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
            assert_sound(&first, total, budget, &[]);
            let cut = first.catalog.text.lines().filter(|line| line.ends_with('…')).count();
            prop_assert!(cut >= first.catalog.report.shortened);
            // With enough room, every description is complete.
            let unlimited = render_selection(&choice, 60_000).expect("a block").catalog.report;
            prop_assert_eq!((unlimited.listed, unlimited.shortened, unlimited.without_description), (total, 0, 0));
        }

        #[test]
        fn later_block_keeps_earlier_lines(
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
                        gone.extend(removed.iter().map(|id| sanitized(id)));
                        for id in &removed {
                            let mut notices = next.catalog.text.lines().filter(|l| l.starts_with("removed: "));
                            let quoted = format!("`{}`", sanitized(id));
                            prop_assert!(notices.next_back().is_some_and(|line| line.contains(&quoted)));
                        }
                        next
                    }
                    None => {
                        gone.clear();
                        render_selection(&choice, budget).expect("a block")
                    }
                };
                let names: Vec<&str> = gone.iter().map(String::as_str).collect();
                assert_sound(&now, all.len(), budget, &names);
                before = Some(now);
            }
        }
    }

    fn sanitized(id: &str) -> String {
        sanitize_text(id).into_owned()
    }
}
