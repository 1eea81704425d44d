//! Tests of `overlap`.

use yaml_tree::Span;

use super::*;

fn skills(descriptions: &[(&str, &str)]) -> Vec<CatalogSkill> {
    let skill = |&(id, description): &(&str, &str)| CatalogSkill {
        id: id.to_owned(),
        description: (description.to_owned(), Span::default()),
        ..CatalogSkill::default()
    };
    descriptions.iter().map(skill).collect()
}

fn pairs(descriptions: &[(&str, &str)]) -> Vec<(usize, usize, bool)> {
    let found = find_overlaps(&skills(descriptions));
    found.iter().map(|it| (it.index, it.other, it.same)).collect()
}

#[test]
fn stop_words_are_sorted() {
    assert!(STOP_WORDS.is_sorted());
}

#[test]
fn later_duplicate_is_found() {
    let found = pairs(&[
        ("a", "Counts glass beads in a jar and reports the total per colour."),
        ("b", "Sorts wooden beads by size into trays and labels every tray."),
        ("c", "Counts the glass beads in jars, reports a total per colour today."),
        ("d", "A total per colour of glass beads: counts jar reports."),
    ]);
    assert_eq!(found, [(2, 0, false), (3, 0, true)]);
}

#[test]
fn distinct_descriptions_are_ignored() {
    assert_eq!(pairs(&[("a", "Counts beads."), ("b", "Counts beads.")]), []);
    let one = "Reviews Go code for races, leaks and errors that are dropped on the floor.";
    let other = "Plans a garden by month, with seeds, soil, water and light for each bed.";
    assert_eq!(pairs(&[("a", one), ("b", other)]), []);
}

#[test]
fn name_word_distinguishes_template_skills() {
    let of = |what: &str| {
        format!("Automates {what} tasks through the gateway; searches tools for schemas first.")
    };
    let (mezmo, mapbox) = (of("Mezmo"), of("Mapbox"));
    let distinguished = [("mezmo-automation", &*mezmo), ("mapbox-automation", &*mapbox)];
    assert_eq!(pairs(&distinguished), []);
    let general = of("gateway");
    let family = [("gateway-tools", &*general), ("mezmo-tools", &*mezmo)];
    assert_eq!(pairs(&family), []);
    assert_eq!(pairs(&[("gateway", &*general), ("mezmo", &*mezmo)]), [(1, 0, false)]);
    assert_eq!(pairs(&[("one", &mezmo), ("two", &mapbox)]), [(1, 0, false)]);
}

#[test]
fn template_catalog_compares_first_skills() {
    let template: Vec<_> = (0..30).map(|word| format!("word{word}")).collect();
    let template = template.join(" ");
    let texts: Vec<_> = (0..200).map(|n| format!("{template} number{n}")).collect();
    let list: Vec<_> = texts.iter().map(|text| ("x", &**text)).collect();
    let found = find_overlaps(&skills(&list));
    assert_eq!(found.len(), 199);
    assert!(found.iter().all(|it| it.other < MAX_COMPARED && !it.same));
}

#[test]
fn overlapping_pairs_share_rare_word() {
    let texts = [
        "alpha beta gamma delta epsilon zeta eta theta",
        "alpha beta gamma delta epsilon zeta eta iota",
        "kappa beta gamma delta epsilon zeta eta theta",
        "alpha beta gamma delta epsilon nu xi omicron",
    ];
    let list: Vec<_> = texts.iter().map(|text| ("x", *text)).collect();
    let WordIndex { sets, weights, .. } = WordIndex::build(&skills(&list));
    for (index, set) in sets.iter().enumerate() {
        for other in &sets[..index] {
            let alike = similarity(set, other, &weights) >= MIN_OVERLAP;
            let (one, two) = (total_weight(set, &weights), total_weight(other, &weights));
            let slack = one - least_shared(one, two);
            assert!(!alike || could_overlap(set, other, &weights, slack), "{index}");
            let first = rarest(set, &weights);
            let shares = rarest(other, &weights).iter().any(|word| first.contains(word));
            assert!(!alike || shares, "{index}");
        }
    }
}
