//! Tests of `clients`.

use super::*;

fn listing(id: &str, description: &str) -> SkillListing {
    SkillListing {
        id: id.to_owned(),
        name: id.to_owned(),
        description: description.to_owned(),
        when_to_use: None,
        location: format!("{id}/SKILL.md"),
        user_only: false,
    }
}

/// Budget, characters, listed, shortened, without description, left out; in the order of
/// [`CLIENTS`].
fn numbers(listings: &[SkillListing], window: Option<u32>) -> Vec<[usize; 6]> {
    simulate_cuts(listings, window)
        .iter()
        .map(|cut| {
            let ListingCut {
                budget, chars, listed, shortened, without_description, omitted, ..
            } = *cut;
            [budget, chars, listed, shortened, without_description, omitted]
        })
        .collect()
}

#[test]
fn short_list_is_not_cut() {
    let one = [listing("brew", "Brews tea.")];
    // The catalog's header and footer count; those of the other clients are not documented.
    let catalog = skill_format::render_catalog(&[one[0].catalog_item()], 8_000).unwrap();
    assert_eq!(
        numbers(&one, None),
        [
            [8_000, catalog.report.chars, 1, 0, 0, 0],
            [8_000, "- brew: Brews tea.\n".len(), 1, 0, 0, 0],
            [8_000, "- brew: Brews tea. (file: brew/SKILL.md)\n".len(), 1, 0, 0, 0],
        ]
    );
}

#[test]
fn window_determines_budget() {
    let budgets = |window| numbers(&[], window).iter().map(|it| it[0]).collect::<Vec<_>>();
    assert_eq!(budgets(None), [8_000, 8_000, 8_000]);
    assert_eq!(budgets(Some(200_000)), [16_000, 8_000, 16_000]);
    let config = skill_service::RegistryConfig::default();
    for window in [1, 999, 200_000, u32::MAX] {
        assert_eq!(budgets(Some(window))[0], config.budget_chars(Some(window)));
    }
}

#[test]
fn claude_code_drops_descriptions() {
    let long = "x".repeat(1_500);
    let mut skills: Vec<SkillListing> =
        ["a", "b", "c", "d", "e", "f"].map(|id| listing(id, &long)).into();
    // The blank between the two texts counts: 1,537 characters.
    skills[0].when_to_use = Some("y".repeat(36));
    let entry = "- a: \n".len() + 1_500;
    let full = 5 * entry + 36 - "- f\n".len();
    assert!(full <= 8_000);
    assert_eq!(numbers(&skills, None)[1], [8_000, 5 * entry + 36 + "- f\n".len(), 6, 1, 1, 0]);
    // Exactly at the limit of 1,536 characters.
    skills[0].when_to_use = Some("y".repeat(35));
    assert_eq!(numbers(&skills, None)[1], [8_000, 5 * entry + 36 + 4, 6, 0, 1, 0]);
    // Names stay at any budget.
    assert_eq!(numbers(&skills, Some(1))[1], [0, 24, 6, 0, 6, 0]);
}

#[test]
fn codex_shortens_then_omits() {
    let skills = [
        listing("a", "0123456789"),
        listing("b", &"x".repeat(100)),
        listing("c", &"x".repeat(200)),
    ];
    let bare = "- a:  (file: a/SKILL.md)\n".len();
    // 4 × 2 % of the window fits three names and 88 characters of descriptions.
    let window = |budget: usize| Some(u32::try_from((budget * 100).div_ceil(8)).unwrap());
    let budget = 3 * bare + 88;
    assert_eq!(numbers(&skills, window(budget))[2], [budget, budget, 3, 2, 0, 0]);
    let budget = 3 * bare;
    assert_eq!(numbers(&skills, window(budget))[2], [budget, budget, 3, 0, 3, 0]);
    let budget = 3 * bare - 1;
    assert_eq!(
        numbers(&skills, window(budget))[2],
        [budget, budget, 2, 1, 0, 1],
        "a whole and what is left of b"
    );
}

#[test]
fn user_only_skills_depend_on_client() {
    let mut skill = listing("brew", "Brews tea.");
    skill.user_only = true;
    let listed: Vec<_> = numbers(&[skill], None).iter().map(|it| it[2]).collect();
    assert_eq!(listed, [0, 0, 1]);
}
