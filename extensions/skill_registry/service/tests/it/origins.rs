//! The origin of skills after the ledger and its copy are both lost.

use std::fs;
use std::path::Path;

use skill_catalog::{AgentScope, Audience, Store};
use skill_ledger::{LedgerNote, LedgerSync};
use skill_service::{ListSkillsArgs, list_skills, skill_content};
use skillhost_payload::ErrorKind;

use crate::fixture::id;
use crate::scenario::{ReviewScenario, agent, person, text};

fn two_skills() -> ReviewScenario {
    let scenario = ReviewScenario::new();
    scenario.write("pdf", &text("pdf", "read"));
    let snapshot = scenario.snapshot();
    scenario.ledger.report_created(&snapshot, &agent(), "beads").unwrap();
    scenario
}

fn start(scenario: &ReviewScenario) -> (Store, Vec<LedgerNote>) {
    let store = scenario.fixture.open_warm();
    let ledger = scenario.other();
    let kept = LedgerSync::new(&ledger).load_created_skills(&store);
    assert_eq!(kept.trouble, None);
    (store, kept.notes)
}

fn can_bind(store: &Store, skill: &str) -> bool {
    match skill_content(store, &store.snapshot(), skill, Path::new("")) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Denied);
            false
        }
    }
}

#[test]
fn lost_ledger_and_copy_fail_closed() {
    for torn in [true, false] {
        let scenario = two_skills();
        fs::write(scenario.data("registry.sqlite3"), [0xA5; 20_000]).unwrap();
        match torn {
            true => fs::write(scenario.data("created.json"), "torn").unwrap(),
            false => fs::remove_file(scenario.data("created.json")).unwrap(),
        }
        let (store, notes) = start(&scenario);
        assert!(notes.contains(&LedgerNote::OriginsLost), "{notes:?}");
        assert_eq!((can_bind(&store, "beads"), can_bind(&store, "pdf")), (false, false));
        // Agents still see them.
        let catalog = store.snapshot().catalog(AgentScope::default(), 8_000).unwrap();
        assert!(catalog.text.contains("(unapproved, created by an unknown author)"));
        // The next start gives the same result without any new event.
        let (store, notes) = start(&scenario);
        assert_eq!((notes, can_bind(&store, "pdf")), (Vec::new(), false));

        for skill in ["pdf", "beads"] {
            let snapshot = scenario.snapshot();
            let digest = scenario.ledger.approval_statuses(&snapshot).unwrap()[&id(skill)].digest;
            scenario.ledger.approve_skill(&snapshot, &person(), skill, digest).unwrap();
        }
        let (store, _) = start(&scenario);
        assert_eq!((can_bind(&store, "beads"), can_bind(&store, "pdf")), (true, true));
        // With all of them approved, new skills are the operator's again.
        scenario.write("csv", &text("csv", "mine"));
        assert!(can_bind(&start(&scenario).0, "csv"));
    }
}

#[test]
fn new_ledger_trusts_the_operator() {
    let scenario = ReviewScenario::new();
    let (store, notes) = start(&scenario);
    assert_eq!((notes, can_bind(&store, "beads")), (Vec::new(), true));
    // A ledger without such skills has a copy, too: without it, a loss would look like this.
    scenario.history("beads");
    fs::write(scenario.data("registry.sqlite3"), [0xA5; 20_000]).unwrap();
    let (store, notes) = start(&scenario);
    assert_eq!((notes, can_bind(&store, "beads")), (Vec::new(), true));
}

#[test]
fn copy_alone_is_enough() {
    let scenario = two_skills();
    fs::write(scenario.data("registry.sqlite3"), [0xA5; 20_000]).unwrap();
    let (store, _) = start(&scenario);
    assert_eq!((can_bind(&store, "beads"), can_bind(&store, "pdf")), (false, true));
}

#[test]
fn cut_lists_name_the_limit() {
    let scenario = ReviewScenario::new();
    scenario.write("pdf", &text("pdf", "read"));
    let mut options = scenario.fixture.options(&["skills"]);
    options.limits.skills = 1;
    let store = scenario.fixture.open_with(options);
    let listed = list_skills(&store.snapshot(), Audience::Operator, &ListSkillsArgs::default());
    let last = listed.text.lines().last().unwrap();
    assert_eq!(last, "(the list is not complete: only the first 1 skills were taken)");
}
