//! The cuts that clients make in a list of skills.

use serde::Serialize;
use skill_catalog::{FoundSkill, StoreOptions};
use skill_format::{CatalogItem, Frontmatter, PromptSkill};

/// The number of characters per token where a budget is a share of the window.
const CHARS_PER_TOKEN: usize = 4;

/// The documented budget of a client's list of skills.
struct ClientBudget {
    name: &'static str,
    /// The address of the documentation.
    source: &'static str,
    /// The share of the model's window available to the list, in percent.
    percent: usize,
    /// The budget in characters for an unknown window.
    fallback: usize,
    /// The cut beyond the budget.
    over: OverflowPolicy,
    /// Whether `disable-model-invocation` removes a skill from the list.
    knows_user_only: bool,
}

/// The cuts of a client.
enum OverflowPolicy {
    /// The cuts of `skill_format::catalog`.
    Catalog,
    /// Every name stays. A description, `when_to_use` included, has a length limit in characters;
    /// beyond the budget, descriptions are dropped, the least used skills first.
    DropDescriptions { longest: usize },
    /// All descriptions are shortened to the same length; then skills are left out.
    ShortenThenOmit,
}

/// The clients with documented cuts, as of November 2026.
///
/// Claude Code: "Extend Claude with skills", section "Skill descriptions are cut short"
/// (<https://code.claude.com/docs/en/skills>): 1 % of the context window, 8,000 characters where it
/// is not known; `description` and `when_to_use` together at most 1,536 characters. "Settings",
/// `skillListingBudgetFraction` (<https://code.claude.com/docs/en/settings>): every name stays, the
/// descriptions of the least used skills are dropped. Settings can change all three numbers.
///
/// Codex: "Agent Skills" (<https://developers.openai.com/codex/skills>): name, description and path
/// of each skill in at most 2 % of the context window, 8,000 characters where it is not known;
/// descriptions are shortened first, then skills are left out.
static CLIENTS: [ClientBudget; 3] = [
    ClientBudget {
        name: "skillhost",
        source: "the configuration of skill_registry",
        percent: 2,
        fallback: StoreOptions::DEFAULT_BUDGET_CHARS,
        over: OverflowPolicy::Catalog,
        knows_user_only: true,
    },
    ClientBudget {
        name: "Claude Code",
        source: "https://code.claude.com/docs/en/skills",
        percent: 1,
        fallback: 8_000,
        over: OverflowPolicy::DropDescriptions { longest: 1_536 },
        knows_user_only: true,
    },
    ClientBudget {
        name: "Codex",
        source: "https://developers.openai.com/codex/skills",
        percent: 2,
        fallback: 8_000,
        over: OverflowPolicy::ShortenThenOmit,
        knows_user_only: false,
    },
];

/// The entry of one skill in a list.
#[derive(Debug)]
pub(super) struct SkillListing {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) when_to_use: Option<String>,
    /// The path of its SKILL.md as found.
    pub(super) location: String,
    pub(super) user_only: bool,
}

impl SkillListing {
    pub(super) fn new(skill: &FoundSkill, frontmatter: &Frontmatter) -> Self {
        let id = skill.dir_name.clone();
        Self {
            name: frontmatter.name.clone().unwrap_or_else(|| id.clone()),
            id,
            description: frontmatter.description.clone(),
            when_to_use: frontmatter.when_to_use.clone(),
            location: skill.path().display().to_string(),
            user_only: frontmatter.disable_model_invocation,
        }
    }

    pub(super) fn catalog_item(&self) -> CatalogItem<'_> {
        CatalogItem { id: &self.id, description: &self.description }
    }

    pub(super) fn prompt_skill(&self) -> PromptSkill<'_> {
        PromptSkill { name: &self.name, description: &self.description, location: &self.location }
    }
}

/// The cuts of one client.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ListingCut {
    pub(super) client: &'static str,
    pub(super) source: &'static str,
    /// The budget of the list, in characters.
    pub(super) budget: usize,
    /// The length of the list after the cuts, in characters; for clients other than skillhost
    /// without the surrounding text, which is not documented.
    pub(super) chars: usize,
    /// The number of skills on the list.
    pub(super) listed: usize,
    /// The number of listed skills with a shortened description.
    pub(super) shortened: usize,
    /// The number of listed skills without their description.
    pub(super) without_description: usize,
    /// The number of skills left out.
    pub(super) omitted: usize,
}

/// Computes the cuts of every client for a model with this context window in tokens.
pub(super) fn simulate_cuts(listings: &[SkillListing], window: Option<u32>) -> Vec<ListingCut> {
    let mut sorted: Vec<&SkillListing> = listings.iter().collect();
    sorted.sort_by(|a, b| (&a.id, &a.location).cmp(&(&b.id, &b.location)));
    CLIENTS
        .iter()
        .map(|client| {
            let visible = sorted.iter().filter(|it| !(client.knows_user_only && it.user_only));
            client.cut(&visible.copied().collect::<Vec<_>>(), window)
        })
        .collect()
}

impl ClientBudget {
    fn cut(&self, listings: &[&SkillListing], window: Option<u32>) -> ListingCut {
        let budget = window.map_or(self.fallback, |tokens| {
            (tokens as usize).saturating_mul(CHARS_PER_TOKEN) * self.percent / 100
        });
        let cut = ListingCut {
            client: self.name,
            source: self.source,
            budget,
            chars: 0,
            listed: listings.len(),
            shortened: 0,
            without_description: 0,
            omitted: 0,
        };
        match self.over {
            OverflowPolicy::Catalog => catalog(listings, cut),
            OverflowPolicy::DropDescriptions { longest } => {
                drop_descriptions(listings, longest, cut)
            }
            OverflowPolicy::ShortenThenOmit => shorten_descriptions(listings, cut),
        }
    }
}

fn catalog(listings: &[&SkillListing], cut: ListingCut) -> ListingCut {
    let items: Vec<CatalogItem<'_>> = listings.iter().map(|it| it.catalog_item()).collect();
    let Some(catalog) = skill_format::render_catalog(&items, cut.budget) else { return cut };
    let report = catalog.report;
    ListingCut {
        chars: report.chars,
        listed: report.listed,
        shortened: report.shortened,
        without_description: report.without_description,
        omitted: report.omitted,
        ..cut
    }
}

/// Keeps all names. Only the client knows the least used skills, so the last ones by name stand in
/// for them in the count.
fn drop_descriptions(
    listings: &[&SkillListing],
    longest: usize,
    mut cut: ListingCut,
) -> ListingCut {
    let entries: Vec<(usize, usize)> = listings
        .iter()
        .map(|it| {
            let when = it.when_to_use.as_ref().map_or(0, |text| chars(text) + " ".len());
            (chars(&it.name) + "- \n".len(), chars(&it.description) + when)
        })
        .collect();
    cut.chars = entries.iter().map(|(name, _)| name).sum();
    let mut room = true;
    for (_, text) in entries {
        let cost = ": ".len() + text.min(longest);
        room = room && cut.chars + cost <= cut.budget;
        if room {
            cut.chars += cost;
            cut.shortened += usize::from(text > longest);
        } else {
            cut.without_description += 1;
        }
    }
    cut
}

/// Gives every description the same length, the largest that fits; leaves out the last skills by
/// name if not even names and paths fit.
fn shorten_descriptions(listings: &[&SkillListing], mut cut: ListingCut) -> ListingCut {
    let bare = |it: &SkillListing| chars(&it.name) + chars(&it.location) + "- :  (file: )\n".len();
    let mut total = 0;
    cut.listed = listings
        .iter()
        .take_while(|it| {
            total += bare(it);
            total <= cut.budget
        })
        .count();
    cut.omitted = listings.len() - cut.listed;
    let listed = &listings[..cut.listed];
    cut.chars = listed.iter().map(|it| bare(it)).sum();
    let mut lengths: Vec<usize> = listed.iter().map(|it| chars(&it.description)).collect();
    lengths.sort_unstable();
    let mut room = cut.budget.saturating_sub(cut.chars);
    for (at, length) in lengths.iter().enumerate() {
        let each = room / (lengths.len() - at);
        let given = each.min(*length);
        room -= given;
        cut.chars += given;
        cut.shortened += usize::from(0 < given && given < *length);
        cut.without_description += usize::from(given == 0);
    }
    cut
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests;
