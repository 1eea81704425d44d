//! Temporary files of writers and editors next to the files of a skill.

use std::fs;
use std::time::{Duration, SystemTime};

use skill_catalog::{Audience, find_skills};
use skill_ledger::LedgerErrorKind;
use skill_service::{
    ReadResourceArgs, ReadSkillArgs, SkillPublisher, read_skill, read_skill_resource,
};
use skillhost_payload::ErrorKind;

use crate::fixture::{id, ids, set_mtime};
use crate::scenario::{ReviewScenario, agent, person, text, wish};

const LEFTOVERS: [&str; 8] = [
    ".skillhost-tmp-2147483646-0",
    ".SKILL.md.2147483646-0.tmp",
    ".core-tools-2147483646-0.tmp",
    "SKILL.md~",
    ".SKILL.md.swp",
    "4913",
    "sedAb12Cd",
    "scripts/.run.sh.swp",
];

fn scatter(scenario: &ReviewScenario) {
    for name in LEFTOVERS {
        scenario.fixture.write(&format!("skills/beads/{name}"), "half a text");
    }
}

#[test]
fn leftovers_are_not_resources() {
    let scenario = ReviewScenario::new();
    scenario.fixture.write("skills/beads/scripts/run.sh", "#!/bin/sh\n");
    let store = scenario.store();
    let publisher = SkillPublisher::new();
    let list = || {
        let snapshot = store.snapshot();
        let read = ReadSkillArgs { skill_id: "beads".to_owned() };
        let read = read_skill(&store, &snapshot, Audience::Operator, &read).unwrap();
        let skill = snapshot.get("beads").unwrap();
        let entry = publisher.entry(&store, &snapshot, skill).unwrap();
        let published: Vec<String> =
            entry.files.iter().flatten().map(|file| file.path.clone()).collect();
        let mut linted = Vec::new();
        let _ = find_skills(&scenario.fixture.path("skills/beads"), &mut |found| {
            if let skill_catalog::FoundItem::Skill(mut skill) = found {
                let files = skill.read(true).unwrap().files.unwrap();
                linted.extend(files.into_iter().map(|file| file.path));
            }
            std::ops::ControlFlow::<()>::Continue(())
        });
        (read.structured["resources"].clone(), read.structured["notes"].clone(), published, linted)
    };
    let before = list();
    scatter(&scenario);
    assert_eq!(list(), before);
    for path in LEFTOVERS {
        let args = ReadResourceArgs {
            skill_id: "beads".to_owned(),
            path: path.to_owned(),
            offset: None,
            limit: None,
        };
        let error = read_skill_resource(&store.snapshot(), Audience::Operator, &args).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{path}");
        let mut request = wish("beads", "");
        request.path = Some(path.to_owned());
        let error = scenario.ask(&request).unwrap_err();
        assert_eq!(error.reason(), LedgerErrorKind::Denied, "{path}");
    }
}

#[test]
fn leftovers_do_not_affect_approval() {
    let scenario = ReviewScenario::new();
    let snapshot = scenario.snapshot();
    scenario.ledger.report_created(&snapshot, &agent(), "beads").unwrap();
    let digest = scenario.ledger.approval_statuses(&snapshot).unwrap()[&id("beads")].digest;
    scenario.ledger.approve_skill(&snapshot, &person(), "beads", digest).unwrap();
    let before = scenario.ledger.history(&snapshot, "beads").unwrap();
    scatter(&scenario);
    assert!(scenario.ledger.approval_statuses(&snapshot).unwrap()[&id("beads")].approved);
    assert_eq!(scenario.ledger.history(&snapshot, "beads").unwrap(), before);
}

#[test]
fn unfinished_skill_directories_are_not_skills() {
    let scenario = ReviewScenario::new();
    let name = ".skillhost-tmp-2147483646-new-pdf";
    scenario.fixture.write(&format!("skills/{name}/SKILL.md"), text("pdf", "half"));
    scenario.fixture.write("skills/.core-tools-2147483646-0.tmp/SKILL.md", text("x", "half"));
    let store = scenario.store();
    assert_eq!(ids(&store), ["beads"]);
    assert_eq!(store.snapshot().problems().len(), 0);
}

#[test]
fn next_writer_removes_leftovers() {
    let scenario = ReviewScenario::new();
    scatter(&scenario);
    let ago = SystemTime::now() - Duration::from_secs(120);
    for name in &LEFTOVERS[..3] {
        set_mtime(&scenario.fixture.path(&format!("skills/beads/{name}")), ago);
    }
    let (proposal, digest) = scenario.propose("beads", "four");
    scenario.approve(&proposal, digest).unwrap();
    let left: Vec<&str> = LEFTOVERS
        .into_iter()
        .filter(|name| scenario.fixture.path(&format!("skills/beads/{name}")).exists())
        .collect();
    assert_eq!(left, &LEFTOVERS[3..]);
    assert_eq!(fs::read_dir(scenario.fixture.path("skills/beads")).unwrap().count(), 6);
}
