//! Examples computed by a program in another language with the same formula.

use skill_search::{Index, Ranker, SearchRequest, TextAnalyzer};

use crate::catalog::Skill;

/// Returns a number of generated words.
fn filler(words: usize, step: usize) -> String {
    (0..words).map(|at| format!("w{}", at * step % 97)).collect::<Vec<_>>().join(" ")
}

fn skills() -> Vec<Skill> {
    let skill =
        |id: &str, description: &str, when: &str, tags: &[&str], heads: &[&str], body| Skill {
            id: id.to_owned(),
            name: id.to_owned(),
            description: description.to_owned(),
            when_to_use: when.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            headings: heads.iter().map(|&heading| heading.to_owned()).collect(),
            body,
        };
    let long = format!(
        "# Long guide\n{}\n## Publishing\n{} publish the package {}\n## Beads\n{} count the beads by \
         colour {} string of beads\n",
        filler(700, 7),
        filler(60, 11),
        filler(60, 13),
        filler(1_800, 17),
        filler(900, 19),
    );
    assert_eq!(long.len(), 13_813, "longer than the part that is read");
    vec![
        skill(
            "bead-counter",
            "Counts beads on a string and reports the total by colour.",
            "Use when somebody asks how many beads there are.",
            &["craft", "counting"],
            &["Bead counter", "Count beads", "Report"],
            "# Bead counter\n\nLay the string flat.\n\n## Count beads\nCount the beads twice; note each \
             colour.\n\n### Report\nWrite the total number of beads by colour.\n"
                .to_owned(),
        ),
        skill(
            "csharp-release",
            "Publishes a C# package built with .NET to a feed.",
            "",
            &["c#", "release"],
            &["Release", "Versions"],
            "# Release\nRun the build, then publish the package.\n## Versions\nRaise the version first. \
             Never publish the same version twice.\n"
                .to_owned(),
        ),
        skill(
            "invoice-report",
            "Turns invoices into a monthly report with totals.",
            "When the user wants a report of invoices.",
            &["finance"],
            &["Invoices", "Monthly report"],
            "# Invoices\nCollect the invoices of the month.\n## Monthly report\nAdd up the totals, sort \
             by customer, write the monthly report.\n"
                .to_owned(),
        ),
        skill(
            "long-guide",
            "A long guide to everything.",
            "",
            &[],
            &["Long guide", "Publishing", "Beads"],
            long,
        ),
        skill(
            "node-upgrade",
            "Upgrades a Node.js service, its packages and its build.",
            "",
            &["node.js"],
            &["Upgrade"],
            "# Upgrade\nRead the changelog. Raise the version of Node.js, then run the build and \
             publish.\n"
                .to_owned(),
        ),
        skill(
            "string-theory",
            "Explains string theory to beginners.",
            "",
            &["physics"],
            &[],
            String::new(),
        ),
    ]
}

/// A query, its hits with scores, and the features of one of the hits.
type Example = (&'static str, &'static [(&'static str, f64)], &'static str, [f64; 11]);

#[rustfmt::skip]
const EXAMPLES: [Example; 6] = [
    (
        "How many beads are on this string?",
        &[("bead-counter", 16.553755), ("string-theory", 6.747253), ("long-guide", 3.260438)],
        "bead-counter",
        [1.0, 1.02947, 0.3173, 1.0, 0.429959, 0.0, 2.207549, 0.93363, 0.93363, 1.467415, 1.467415],
    ),
    (
        "How many beads are on this string?",
        &[("bead-counter", 16.553755), ("string-theory", 6.747253), ("long-guide", 3.260438)],
        "long-guide",
        [0.056812, 0.0, 0.240269, 0.300679, 0.0, 0.0, 0.0, 0.287108, 0.861324, 0.083366, 0.083366],
    ),
    (
        "Publish the package. It is a C# package for .NET!",
        &[("csharp-release", 17.066794), ("node-upgrade", 8.794997), ("long-guide", 4.76062)],
        "csharp-release",
        [1.0, 0.99553, 0.0, 1.0, 0.5, 0.117242, 1.06344, 0.58531, 0.58531, 1.524474, 1.524474],
    ),
    (
        "Publish the package. It is a C# package for .NET!",
        &[("csharp-release", 17.066794), ("node-upgrade", 8.794997), ("long-guide", 4.76062)],
        "long-guide",
        [
            0.048827, 0.0, 0.135161, 0.363777, 0.0, 0.117242, 0.0, 0.471702, 0.471702, 0.201703,
            0.201703,
        ],
    ),
    (
        "Please count the beads by colour; then write a report\n```\nstring theory\n```\nfor the month.",
        &[
            ("bead-counter", 16.597072),
            ("invoice-report", 9.091666),
            ("string-theory", 5.256342),
            ("long-guide", 3.012094),
        ],
        "bead-counter",
        [
            1.0, 0.598375, 0.289606, 0.71498, 0.429959, 0.22397, 1.186906, 1.066613, 1.066613,
            1.663218, 1.663218,
        ],
    ),
    (
        "Raise the Node.js version and run the build",
        &[("node-upgrade", 15.61951), ("csharp-release", 10.811375)],
        "node-upgrade",
        [1.0, 0.446733, 0.0, 1.0, 0.0, 0.130149, 0.0, 1.321622, 1.321622, 1.194948, 1.194948],
    ),
];

#[test]
fn reference_ranker_matches_examples() {
    let skills = skills();
    let ranker = Ranker::reference();
    for analysis in [TextAnalyzer::Reference, TextAnalyzer::Standard] {
        let index = Index::build(analysis, skills.iter().map(Skill::document));
        for (query, expected, id, features) in EXAMPLES {
            let explanation = index.explain(&SearchRequest::new(query, &ranker), 10);
            let hits = explanation.hits;
            let found: Vec<_> = hits.iter().map(|hit| &*hit.id).collect();
            assert_eq!(found, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{query}");
            for (hit, (id, score)) in hits.iter().zip(expected) {
                assert!((hit.score - score).abs() < 1e-5, "{id}: {} {score}", hit.score);
                let sum: f64 = hit.contributions.iter().map(|it| it.contribution).sum();
                assert_eq!(sum, hit.score, "{id}");
            }
            let hit = hits.iter().find(|hit| &*hit.id == id).unwrap();
            for (found, expected) in hit.contributions.iter().zip(features) {
                let name = &found.feature;
                assert!(
                    (found.value - expected).abs() < 1e-5,
                    "{name}: {} {expected}",
                    found.value
                );
            }
        }
    }
}

#[test]
fn explanation_is_complete() {
    let skills = skills();
    let index = Index::build(TextAnalyzer::Standard, skills.iter().map(Skill::document));
    let ranker = Ranker::bm25f();
    let request = SearchRequest::new("Beads, beads of colour", &ranker);
    let explanation = index.explain(&request, 1);
    let score = explanation.hits[0].score;
    let weights: Vec<f64> = explanation.terms.iter().map(|term| term.weight).collect();
    let expected = format!(
        "RankingExplanation {{ ranker: \"bm25f\", terms: [\
         QueryTerm {{ term: \"bead\", count: 2, skills: 2, weight: {:?} }}, \
         QueryTerm {{ term: \"colour\", count: 1, skills: 1, weight: {:?} }}], candidates: 2, hits: [\
         ExplainedHit {{ id: \"bead-counter\", score: {score:?}, fields: FieldSet(27), matched: [\
         TermMatch {{ term: \"bead\", fields: FieldSet(27) }}, \
         TermMatch {{ term: \"colour\", fields: FieldSet(18) }}], contributions: [\
         FeatureContribution {{ feature: \"lex\", value: {score:?}, weight: 1.0, contribution: {score:?} }}, \
         FeatureContribution {{ feature: \"sqrt(lex)\", value: {:?}, weight: 0.0, contribution: 0.0 }}] }}] }}",
        weights[0],
        weights[1],
        score.sqrt(),
    );
    assert_eq!(format!("{explanation:?}"), expected);
    let hits = index.search(&SearchRequest { limit: 1, ..request });
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].score, &*hits[0].id), (score, "bead-counter"));
    assert_eq!(hits[0].fields.names(), ["name", "description", "headings", "body"]);
}
