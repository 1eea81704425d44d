//! Several processes that approve, roll back and edit the same skills: every operation is recorded
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Duration;

use rusqlite::Connection;
use skill_format::Digest;
use skill_ledger::{LedgerErrorKind, ProposalState, ProposeRequest, VersionAuthor};

use crate::crash_worker::{MARK, SKILLS, ledger, start_process, tell, whole};
use crate::fixture::id;
use crate::random::SeededRandom;
use crate::scenario::{ReviewScenario, every_proposal, operator, person, wish};

const PROCESSES: usize = 8;

/// One of the processes.
struct Member<'a> {
    scenario: &'a ReviewScenario,
    ledger: skill_ledger::Ledger,
    random: SeededRandom,
    nth: u64,
}

impl Member<'_> {
    /// Changes a line of a skill by a proposal, which is repeated until no other process was
    /// faster.
    fn approve(&mut self, skill: &str, own: &str) {
        loop {
            let Some(text) = self.with_line(skill, own) else { continue };
            let request = ProposeRequest { new_content: Some(text), ..wish(skill, "") };
            let snapshot = self.scenario.snapshot();
            let proposed = match self.ledger.propose(&snapshot, &operator(), &request) {
                Ok(proposed) => proposed.proposal,
                Err(error) if lost_a_race(error.reason()) => continue,
                Err(error) => panic!("{error}"),
            };
            let (id, digest) = (&proposed.id, proposed.new_digest);
            match self.ledger.approve(&snapshot, &person(), id, digest, None) {
                Ok(applied) => {
                    tell(&format!("applied {skill} {} {id}", applied.version));
                    return;
                }
                Err(error) => {
                    assert!(lost_a_race(error.reason()), "{error}");
                    self.ledger.reject(&person(), id, "too late").unwrap();
                    tell(&format!("rejected {id}"));
                }
            }
        }
    }

    fn roll_back(&mut self, skill: &str) {
        loop {
            let last = self.ledger.version(skill, None).unwrap().version.number;
            let number = 1 + self.random.below(last);
            let snapshot = self.scenario.snapshot();
            match self.ledger.rollback(&snapshot, &person(), skill, Some(number), None) {
                Ok(back) => return tell(&format!("back {skill} {}", back.version)),
                // It may already equal that version.
                Err(error) => {
                    let reason = error.reason();
                    assert!(lost_a_race(reason) || reason == LedgerErrorKind::State, "{error}");
                }
            }
        }
    }

    /// Saves a file like an editor. Only one process edits at a time: an edit that overwrites
    /// another one is not the ledger's fault.
    fn edit(&mut self, skill: &str, own: &str) {
        let editor = fs::File::create(self.scenario.fixture.path("editor")).unwrap();
        editor.lock().unwrap();
        self.ledger.record_direct_edits(&self.scenario.snapshot(), &[id(skill)]).unwrap();
        let text = self.with_line(skill, own).unwrap();
        let temporary = self.scenario.fixture.write("saved", &text);
        let path = self.scenario.fixture.path(&format!("skills/{skill}/SKILL.md"));
        fs::rename(temporary, path).unwrap();
        self.ledger.record_direct_edits(&self.scenario.snapshot(), &[id(skill)]).unwrap();
        tell(&format!("edited {skill} {}", Digest::compute(text.as_bytes())));
    }

    /// Returns a skill's text with one more line at the top, and without the oldest of many.
    fn with_line(&self, skill: &str, own: &str) -> Option<String> {
        let now = self.scenario.file(&format!("{skill}/SKILL.md"))?;
        let (head, body) = now.split_once("\ntop ")?;
        let lines: Vec<&str> = body.lines().take(12).collect();
        Some(format!("{head}\ntop {own}\n{}\n", lines.join("\n")))
    }

    fn work(&mut self, rounds: u64) {
        for round in 0..rounds {
            let skill = SKILLS[self.random.below(3) as usize];
            let own = format!("{}.{round}", self.nth);
            match self.random.below(8) {
                0 => self.roll_back(skill),
                1 | 2 => self.edit(skill, &own),
                _ => self.approve(skill, &own),
            }
        }
        tell("end");
    }
}

fn lost_a_race(reason: LedgerErrorKind) -> bool {
    matches!(reason, LedgerErrorKind::Stale | LedgerErrorKind::Conflict | LedgerErrorKind::Invalid)
}

/// The program of the processes; without its variables it returns at once.
#[test]
fn member_process() {
    let Ok(place) = std::env::var("SKILL_LEDGER_TEST_DIRECTORY") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let scenario = ReviewScenario::at(place.into());
    let (nth, rounds) = (number("SKILL_STORE_TEST_SEED"), number("SKILL_STORE_TEST_ROUNDS"));
    let ledger = ledger(&scenario).set_wait(Duration::from_secs(600));
    Member { scenario: &scenario, ledger, random: SeededRandom::new(nth + 1), nth }.work(rounds);
}

fn start(scenario: &ReviewScenario, nth: usize, rounds: u64) -> Child {
    let place = scenario.fixture.path("").display().to_string();
    start_process(
        "ledger_processes::member_process",
        &[
            ("SKILL_LEDGER_TEST_DIRECTORY", place),
            ("SKILL_STORE_TEST_SEED", nth.to_string()),
            ("SKILL_STORE_TEST_ROUNDS", rounds.to_string()),
        ],
    )
}

/// Lets the processes work and compares the reports with the ledger.
fn run_processes(rounds: u64) {
    let scenario = ReviewScenario::empty();
    let ledger = ledger(&scenario);
    for skill in SKILLS {
        scenario.write(skill, &whole(skill, "SKILL.md", "0", "0", 4));
    }
    let snapshot = scenario.snapshot();
    for skill in SKILLS {
        ledger.history(&snapshot, skill).unwrap();
    }
    let children: Vec<_> = (0..PROCESSES).map(|nth| start(&scenario, nth, rounds)).collect();
    let read = |mut child: Child| {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let lines = lines.filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        let lines: Vec<String> = lines.collect();
        assert!(child.wait().unwrap().success());
        lines
    };
    // One reader per process, since a full pipe would block its process.
    let readers = children.into_iter().map(|child| std::thread::spawn(move || read(child)));
    let reports: Vec<String> =
        readers.collect::<Vec<_>>().into_iter().flat_map(|one| one.join().unwrap()).collect();

    let mut by_proposal = BTreeMap::new();
    let (mut rejected, mut back, mut edits) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let mut ended = 0;
    for line in &reports {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["applied", skill, version, id] => {
                let version = (skill.to_owned(), version.parse::<u64>().unwrap());
                assert_eq!(by_proposal.insert(id.to_owned(), version), None);
            }
            ["rejected", id] => assert!(rejected.insert(id.to_owned())),
            ["back", skill, version] => {
                assert!(back.insert((skill.to_owned(), version.parse::<u64>().unwrap())));
            }
            ["edited", skill, digest] => {
                let digest = digest.parse::<Digest>().unwrap();
                assert_eq!(edits.insert(digest, skill.to_owned()), None);
            }
            ["end"] => ended += 1,
            _ => panic!("{line}"),
        }
    }
    assert_eq!(ended, PROCESSES);
    let deeds = by_proposal.len() + back.len() + edits.len();
    assert_eq!(deeds as u64, PROCESSES as u64 * rounds);
    assert_history(&scenario, &ledger, &by_proposal, &back, &edits);

    let mut seen = (0, 0);
    for proposal in ledger.proposals(every_proposal()).unwrap() {
        match proposal.state {
            ProposalState::Applied => {
                seen.0 += 1;
                assert!(by_proposal.contains_key(&proposal.id));
            }
            ProposalState::Rejected => {
                seen.1 += 1;
                assert!(rejected.contains(&proposal.id));
            }
            state => panic!("{}: {state}", proposal.id),
        }
    }
    assert_eq!(seen, (by_proposal.len(), rejected.len()));
    assert_eq!(scenario.leftovers(), Vec::<std::path::PathBuf>::new());
    let conn = Connection::open(scenario.data("registry.sqlite3")).unwrap();
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let verdict = conn.query_row("PRAGMA integrity_check", [], check).unwrap();
    assert_eq!(verdict, "ok");
    if let Some(path) = std::env::var_os("SKILL_STORE_TEST_NUMBERS") {
        let (approved, tried) = (by_proposal.len(), rejected.len());
        let (back, edits) = (back.len(), edits.len());
        let numbers = format!("{approved} applied, {tried} too late, {back} back, {edits} edits");
        fs::write(path, numbers).unwrap();
    }
}

/// Checks that the history has every operation once and no other one, and ends with the current
/// files.
#[track_caller]
fn assert_history(
    scenario: &ReviewScenario,
    ledger: &skill_ledger::Ledger,
    by_proposal: &BTreeMap<String, (String, u64)>,
    back: &BTreeSet<(String, u64)>,
    edits: &BTreeMap<Digest, String>,
) {
    let conn = Connection::open(scenario.data("registry.sqlite3")).unwrap();
    let mut digests = conn
        .prepare(
            "SELECT digest FROM version_files JOIN versions ON versions.seq = version \
             WHERE skill_id = ?1 AND number = ?2",
        )
        .unwrap();
    let snapshot = scenario.snapshot();
    let (mut external, mut applied, mut returned) = (BTreeSet::new(), 0, 0);
    for skill in SKILLS {
        let versions = ledger.history(&snapshot, skill).unwrap();
        for (nth, version) in versions.iter().enumerate() {
            let key = (skill.to_owned(), nth as u64 + 1);
            assert_eq!(version.number, key.1);
            match &version.author {
                VersionAuthor::Agent(_) => {
                    applied += 1;
                    assert_eq!(by_proposal.get(version.proposal.as_ref().unwrap()), Some(&key));
                }
                VersionAuthor::Person { .. } => {
                    returned += 1;
                    assert!(back.contains(&key), "{key:?}");
                }
                VersionAuthor::External if key.1 == 1 => {}
                VersionAuthor::External => {
                    let digest: [u8; 32] =
                        digests.query_row((skill, key.1 as i64), |row| row.get(0)).unwrap();
                    assert!(external.insert(Digest::from(digest)), "{key:?} was recorded twice");
                }
            }
        }
        let last = ledger.version(skill, None).unwrap();
        assert_eq!(last.files[0].text(), scenario.file(&format!("{skill}/SKILL.md")).as_deref());
        assert_eq!(last.version, *versions.last().unwrap());
    }
    assert_eq!((applied, returned), (by_proposal.len(), back.len()));
    let edited: BTreeSet<Digest> = edits.keys().copied().collect();
    assert_eq!(external, edited);
}

#[test]
fn concurrent_operations_are_recorded_once() {
    run_processes(6);
}

#[test]
#[ignore = "takes minutes"]
fn many_concurrent_operations_are_recorded() {
    run_processes(1_000);
}
