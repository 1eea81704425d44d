//! Synchronization of a running registry with the ledger.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use skill_catalog::{AgentScope, Audience, Clock as _, Store};
use skill_ledger::{
    ActivationLog, LedgerErrorKind, LedgerEvent, LedgerSync, OfferLog, ProposalState,
    RetentionRule, SkillActivation, UsageCounts, UsageDay, utc_day,
};
use skill_service::{
    ListSkillsArgs, ReadSkillArgs, ReviewPolicy, list_skills, propose_skill_update, read_skill,
    skill_content,
};
use skillhost_payload::ErrorKind;

use crate::fixture::id;
use crate::scenario::{ReviewScenario, agent, person, poll_and_sync, reading, text, wish};

fn topics(keeper: &LedgerSync, store: &Store) -> Vec<&'static str> {
    poll_and_sync(keeper, store).iter().map(LedgerEvent::topic).collect()
}

fn now_ms(scenario: &ReviewScenario) -> i64 {
    let now = scenario.clock.now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

#[test]
fn foreign_changes_are_reported_once() {
    let scenario = ReviewScenario::new();
    let other = scenario.other();
    other.propose(&scenario.snapshot(), &agent(), &wish("beads", "before")).unwrap();
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    assert!(keeper.start(&store).events.is_empty());
    assert_eq!(topics(&keeper, &store), [""; 0]);

    let made = other.propose(&scenario.snapshot(), &agent(), &wish("beads", "four")).unwrap();
    assert_eq!(topics(&keeper, &store), ["skill.proposal.created"]);
    assert_eq!(topics(&keeper, &store), [""; 0]);
    // Changes of the same copy of the program were published by it already.
    scenario.propose("beads", "five");
    assert_eq!(topics(&keeper, &store), [""; 0]);

    scenario.write("beads", &text("beads", "by hand"));
    let expected = [
        "skill.version.created",
        "skill.proposal.stale",
        "skill.proposal.stale",
        "skill.proposal.stale",
    ];
    assert_eq!(topics(&keeper, &store), expected);
    let state = other.proposal(&made.proposal.id).unwrap().summary.state;
    assert_eq!(state, ProposalState::Stale);
    assert_eq!(topics(&keeper, &store), [""; 0]);
}

#[test]
fn unusable_ledger_is_reported_once() {
    let scenario = ReviewScenario::new();
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    fs::create_dir_all(scenario.data("registry.sqlite3")).unwrap();
    scenario.write("beads", &text("beads", "by hand"));
    let report = store.poll();
    let trouble = keeper.sync(&store, &report.events, report.changed).trouble.unwrap();
    assert_eq!(trouble.kind(), ErrorKind::Io);
    assert_eq!(keeper.last_error(), Some(trouble));
    assert_eq!(keeper.sync(&store, &[], true).trouble, None);
    assert!(keeper.last_error().is_some());
    fs::remove_dir(scenario.data("registry.sqlite3")).unwrap();
    let kept = keeper.sync(&store, &[], false);
    let topics: Vec<_> = kept.events.iter().map(|event| event.topic()).collect();
    assert_eq!((topics, keeper.last_error()), (vec!["skill.version.created"], None));
}

#[test]
fn empty_registry_creates_no_database() {
    let scenario = ReviewScenario::empty();
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    for kept in
        [keeper.load_created_skills(&store), keeper.start(&store), keeper.sync(&store, &[], true)]
    {
        assert!(kept.events.is_empty() && kept.trouble.is_none(), "{kept:?}");
    }
    assert!(keeper.flush_activations(&ActivationLog::default()).trouble.is_none());
    assert!(!scenario.data("").exists());
}

#[test]
fn sync_does_not_modify_database() {
    let scenario = ReviewScenario::new();
    scenario.propose("beads", "four");
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    let stamp = || fs::metadata(scenario.data("registry.sqlite3")).unwrap().modified().unwrap();
    // The first start records the existing skills.
    assert!(LedgerSync::new(&scenario.ledger).start(&store).trouble.is_none());
    let before = stamp();
    assert!(keeper.start(&store).trouble.is_none());
    assert!(keeper.sync(&store, &[], true).trouble.is_none());
    assert_eq!(stamp(), before);
}

#[test]
fn reads_are_recorded_in_batches() {
    let scenario = ReviewScenario::new();
    let keeper = LedgerSync::new(&scenario.ledger);
    let log = ActivationLog::default();
    let full: Vec<i64> = (1..=600).filter(|at| log.record(reading(*at, "beads"))).collect();
    assert_eq!(full, [256, 512]);
    let reads = || scenario.ledger.stats(None).unwrap().first().map_or(0, |stats| stats.reads);
    assert!(keeper.flush_activations(&log).notes.is_empty());
    assert_eq!(reads(), 600);

    // The ledger is unavailable: excess reads are counted, the others are written later.
    fs::rename(scenario.data(""), scenario.fixture.path("away")).unwrap();
    fs::write(scenario.data(""), "in the way").unwrap();
    let count = (0..100).filter(|at| log.record(reading(*at, "beads"))).count();
    assert_eq!(count, 0);
    assert_eq!(keeper.flush_activations(&log).trouble.unwrap().reason(), LedgerErrorKind::Io);
    assert!((0..9_000).filter(|at| log.record(reading(*at, "beads"))).count() > 0);
    assert_eq!(keeper.flush_activations(&log).trouble, None);
    fs::remove_file(scenario.data("")).unwrap();
    fs::rename(scenario.fixture.path("away"), scenario.data("")).unwrap();
    let mut notes = keeper.flush_activations(&log).notes;
    notes.extend(keeper.flush_activations(&log).notes);
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    let missing = "7976 reads of skills are missing from the log: too many at once";
    assert_eq!(notes, [missing]);
    assert_eq!(reads(), 600 + 100 + 9_000 - 7_976);
}

/// Returns the use of `beads`: the day after that of the clock's start, the agent and the counts.
fn usage(scenario: &ReviewScenario) -> Vec<UsageDay> {
    scenario.ledger.usage_days("beads", None).unwrap()
}

fn used(day: i64, counts: UsageCounts) -> UsageDay {
    UsageDay { day, agent_id: "builder".to_owned(), counts }
}

#[test]
fn use_is_counted_per_utc_day() {
    let scenario = ReviewScenario::new();
    let keeper = LedgerSync::new(&scenario.ledger);
    let offers = Arc::new(OfferLog::default());
    let log = ActivationLog::new(Arc::clone(&offers));
    let block: Arc<str> = "head\n• `beads` — Tracks work.\n".into();
    let today = utc_day(now_ms(&scenario));
    let none = UsageCounts::default();
    // Of two calls of one batch, the second is on the next day; operators are no agents.
    let midnight = (today + 1) * 86_400_000;
    let operator = SkillActivation { origin: "operator".to_owned(), ..reading(midnight, "beads") };
    for reading in [reading(midnight - 1, "beads"), reading(midnight, "beads"), operator] {
        log.record(reading);
    }
    offers.record("builder", &block, None);
    offers.record("builder", &block, None);
    assert!(keeper.flush_activations(&log).trouble.is_none());
    let expected = [
        used(today, UsageCounts { offered: 2, reads: 1, ..none }),
        used(today + 1, UsageCounts { reads: 1, ..none }),
    ];
    assert_eq!(usage(&scenario), expected);
    // A second flush counts no data again.
    assert!(keeper.flush_completely(&log).trouble.is_none());
    assert_eq!(usage(&scenario), expected);
    scenario.clock.advance(Duration::from_secs(86_400));
    offers.record("builder", &block, None);
    assert!(keeper.flush_activations(&log).trouble.is_none());
    assert_eq!(usage(&scenario)[1], used(today + 1, UsageCounts { offered: 1, reads: 1, ..none }));
    let summary = scenario.ledger.skill_usage(None).unwrap();
    let found: Vec<_> =
        summary.iter().map(|it| (&*it.skill_id, it.days_offered, it.counts.reads)).collect();
    assert_eq!(found, [("beads", 2, 2)]);
    assert_eq!(scenario.ledger.skill_usage(Some(today + 2)), Ok(Vec::new()));
}

#[test]
fn offers_are_written_at_intervals() {
    let scenario = ReviewScenario::new();
    let keeper = LedgerSync::new(&scenario.ledger);
    let offers = Arc::new(OfferLog::default());
    let log = ActivationLog::new(Arc::clone(&offers));
    let block: Arc<str> = "• `beads`\n".into();
    let offer_and_flush = || {
        offers.record("builder", &block, None);
        assert!(keeper.flush_activations(&log).trouble.is_none());
        usage(&scenario).first().map_or(0, |row| row.counts.offered)
    };
    assert_eq!(offer_and_flush(), 1);
    assert_eq!(offer_and_flush(), 1);
    scenario.clock.advance(Duration::from_secs(29));
    assert_eq!(offer_and_flush(), 1);
    scenario.clock.advance(Duration::from_secs(1));
    assert_eq!(offer_and_flush(), 4);
    assert_eq!(offer_and_flush(), 4);
    // The end of the registry writes all of them, and the clock may have been set back.
    assert!(keeper.flush_completely(&log).trouble.is_none());
    assert_eq!(usage(&scenario)[0].counts.offered, 5);
    // A process that is killed here loses only the turns since.
    offers.record("builder", &block, None);
    drop(log);
    assert_eq!(usage(&scenario)[0].counts.offered, 5);
}

#[test]
fn failed_flush_counts_once() {
    let scenario = ReviewScenario::new();
    let keeper = LedgerSync::new(&scenario.ledger);
    let offers = Arc::new(OfferLog::default());
    let log = ActivationLog::new(Arc::clone(&offers));
    offers.record("builder", &"• `beads`\n".into(), Some(&["beads".into()].into()));
    log.record(reading(now_ms(&scenario), "beads"));
    fs::write(scenario.data(""), "in the way").unwrap();
    assert!(keeper.flush_activations(&log).trouble.is_some());
    assert!(keeper.flush_completely(&log).trouble.is_none());
    fs::remove_file(scenario.data("")).unwrap();
    assert!(keeper.flush_completely(&log).trouble.is_none());
    assert!(keeper.flush_completely(&log).trouble.is_none());
    let counts = UsageCounts { offered: 1, surfaced: 1, reads: 1, ..UsageCounts::default() };
    assert_eq!(usage(&scenario), [used(utc_day(now_ms(&scenario)), counts)]);
}

#[test]
fn old_use_is_pruned() {
    let scenario = ReviewScenario::new();
    scenario.ledger.record_activations(&[reading(now_ms(&scenario), "beads")]).unwrap();
    let day = Duration::from_secs(86_400);
    scenario.clock.advance(400 * day);
    scenario.ledger.prune(&RetentionRule::default(), false).unwrap();
    assert_eq!(usage(&scenario).len(), 1);
    scenario.clock.advance(day);
    assert_eq!(scenario.ledger.prune(&RetentionRule::default(), false).unwrap().usage_rows, 1);
    assert_eq!(usage(&scenario), []);
}

#[test]
fn created_skill_requires_approval() {
    let scenario = ReviewScenario::new();
    let store = scenario.fixture.open_warm();
    let keeper = LedgerSync::new(&scenario.ledger);
    assert!(keeper.start(&store).trouble.is_none());
    let bind = || {
        skill_content(&store, &store.snapshot(), "beads", Path::new("")).map(|content| content.text)
    };
    assert!(bind().is_ok());

    scenario.other().report_created(&scenario.snapshot(), &agent(), "beads").unwrap();
    keeper.sync(&store, &[], false);
    let snapshot = store.snapshot();
    let tree = snapshot.created()[&id("beads")].tree.unwrap();
    let error = bind().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    let message = "`beads` was created by the agent builder and is not approved as it is now";
    assert_eq!(error.message, message);
    let command = format!("skillhost skill approve beads --digest {tree}");
    assert_eq!(error.hint.to_string(), format!("inspect its files, then run: {command}"));
    let listed = list_skills(&snapshot, Audience::Model, &ListSkillsArgs::default());
    assert!(listed.text.ends_with("; skills, unapproved, created by the agent builder]"));
    let unapproved = json!({ "author": agent(), "approved": null, "tree": tree });
    assert_eq!(listed.structured["skills"][0]["unapproved"], unapproved);
    let args = ReadSkillArgs { skill_id: "beads".to_owned() };
    let read = read_skill(&store, &snapshot, Audience::Model, &args).unwrap();
    let note = "unapproved: created by the agent builder, it grants nothing until a person \
                approves it";
    assert_eq!(read.structured["notes"], json!([note]));
    let catalog = store.snapshot().catalog(AgentScope::default(), 8_000).unwrap();
    let line = "• `beads` — (unapproved, created by the agent builder) About beads.";
    assert!(catalog.text.contains(line), "{}", catalog.text);

    scenario.other().approve_skill(&scenario.snapshot(), &person(), "beads", tree).unwrap();
    keeper.sync(&store, &[], false);
    assert!(bind().is_ok());
    assert!(
        !store
            .snapshot()
            .catalog(AgentScope::default(), 8_000)
            .unwrap()
            .text
            .contains("unapproved")
    );
    let listed = list_skills(&store.snapshot(), Audience::Model, &ListSkillsArgs::default());
    assert_eq!(listed.structured["skills"][0]["unapproved"], Value::Null);

    // No poll and no synchronization lies between this write and these calls.
    scenario.fixture.write("skills/beads/run.sh", "rm -r /");
    assert_eq!(bind().unwrap_err().kind, ErrorKind::Denied);
    fs::remove_file(scenario.fixture.path("skills/beads/run.sh")).unwrap();
    assert!(bind().is_ok());
    // A poll that finds another text revokes the approval by itself.
    scenario.write("beads", &text("beads", "other"));
    assert!(store.poll().changed);
    assert!(
        store
            .snapshot()
            .catalog(AgentScope::default(), 8_000)
            .unwrap()
            .text
            .contains("(unapproved, ")
    );
    assert_eq!(bind().unwrap_err().kind, ErrorKind::Denied);
}

#[test]
fn mirror_suffices_for_start() {
    let scenario = ReviewScenario::new();
    scenario.other().report_created(&scenario.snapshot(), &agent(), "beads").unwrap();
    // The database cannot be opened at all.
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    fs::create_dir(scenario.data("registry.sqlite3")).unwrap();
    let store = scenario.fixture.open_warm();
    let kept = LedgerSync::new(&scenario.ledger).load_created_skills(&store);
    assert_eq!(kept.trouble, None);
    assert!(!store.snapshot().created()[&id("beads")].is_approved());
    fs::write(scenario.data("created.json"), "torn").unwrap();
    assert!(LedgerSync::new(&scenario.ledger).load_created_skills(&store).trouble.is_some());
    // An unreadable copy does not remove the records that are loaded.
    assert!(!store.snapshot().created()[&id("beads")].is_approved());
}

#[test]
fn propose_reports_tolerated_deviations() {
    let scenario = ReviewScenario::new();
    let snapshot: Arc<_> = scenario.snapshot();
    let mut request = wish("beads", "");
    request.new_content = None;
    request.diff = Some("```diff\n@@ -9,9 +9,9 @@\n one\n-two\n+2\n three\n```\n".to_owned());
    let propose = |policy| {
        let (ledger, author) = (&scenario.ledger, agent());
        let (answer, outcome) =
            propose_skill_update(ledger, &snapshot, Audience::Model, &author, &request, policy);
        (answer.unwrap(), outcome.events)
    };
    let (answer, events) = propose(ReviewPolicy::Human);
    let topics: Vec<_> = events.iter().map(LedgerEvent::topic).collect();
    assert_eq!(topics, ["skill.proposal.created"]);
    for note in ["marks around the diff were dropped", "its header had wrong line counts"] {
        assert!(answer.text.contains(note), "{}", answer.text);
    }
    assert!(answer.structured["fuzz"].as_array().unwrap().len() >= 2, "{answer:?}");
    let (again, events) = propose(ReviewPolicy::Human);
    assert_eq!((events, &again.structured["count"]), (vec![], &json!(2)));
    for (policy, decides) in [
        (ReviewPolicy::Human, "a person decides"),
        (ReviewPolicy::AgentRecommends, "a person decides"),
        (ReviewPolicy::AgentApproves, "a reviewing agent or a person decides"),
    ] {
        let next = propose(policy).0.structured["next"].to_string();
        assert!(next.contains(decides), "{next}");
    }
}
