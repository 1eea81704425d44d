//! Processes that are killed at any point: every text is the old or the new one, and none is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use skill_format::Digest;
use skill_ledger::{Ledger, LedgerNote, ProposalFileState, ProposalState, VersionAuthor};

use crate::crash_worker::{MARK, SKILLS, ledger, start_process, whole};
use crate::fixture::id;
use crate::random::SeededRandom;
use crate::scenario::{ReviewScenario, agent, every_proposal, person};

/// The number of processes that die in one directory, one after the other.
const CHAIN: usize = 20;

/// The reports of the killed processes.
#[derive(Default)]
struct WorkerReport {
    /// Texts that may appear.
    may: BTreeSet<Digest>,
    /// Texts that must not get lost.
    kept: BTreeSet<Digest>,
    /// Versions by their proposals.
    applied: BTreeMap<String, u64>,
    rejected: BTreeSet<String>,
    back: BTreeSet<(String, u64)>,
    created: BTreeSet<String>,
    /// Skills with edits that the ledger has not recorded.
    unseen: BTreeSet<String>,
    reads: i64,
    done: u32,
    /// The time for these operations.
    took: Duration,
    /// Changes that were completed by a recovery.
    finished: usize,
}

impl WorkerReport {
    fn parse_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let digest = || words[1].parse::<Digest>().unwrap();
        match words[0] {
            "ready" => {}
            "done" => self.done += 1,
            "may" => drop(self.may.insert(digest())),
            "kept" => drop(self.kept.insert(digest())),
            "applied" => drop(self.applied.insert(words[1].to_owned(), words[2].parse().unwrap())),
            "rejected" => drop(self.rejected.insert(words[1].to_owned())),
            "back" => drop(self.back.insert((words[1].to_owned(), words[2].parse().unwrap()))),
            "created" => drop(self.created.insert(words[1].to_owned())),
            "edit" => drop(self.unseen.insert(words[1].to_owned())),
            "seen" => drop(self.unseen.remove(words[1])),
            "read" => self.reads += words[1].parse::<i64>().unwrap(),
            _ => panic!("{line}"),
        }
    }
}

fn start(scenario: &ReviewScenario, random: &mut SeededRandom, edits: bool) -> Child {
    let place = scenario.fixture.path("").display().to_string();
    start_process(
        "crash_worker::crash_worker_process",
        &[
            ("SKILL_STORE_TEST_CRASH_DESK", place),
            ("SKILL_STORE_TEST_SEED", random.next().to_string()),
            ("SKILL_STORE_TEST_EDITS", edits.to_string()),
        ],
    )
}

/// Starts a worker and kills it; parses its reports.
fn kill_one(scenario: &ReviewScenario, random: &mut SeededRandom, report: &mut WorkerReport) {
    let worker = start(scenario, random, true);
    kill(worker, random, report);
}

/// Starts two workers and kills one, and then the other, which recovers and continues. Neither
/// edits: a worker that overwrites an edit of the other is not the ledger's fault.
fn kill_two(scenario: &ReviewScenario, random: &mut SeededRandom, report: &mut WorkerReport) {
    let other = start(scenario, random, false);
    let one = start(scenario, random, false);
    kill(one, random, report);
    kill(other, random, report);
}

fn kill(mut worker: Child, random: &mut SeededRandom, report: &mut WorkerReport) {
    let (mut left, share) = (random.below(14), random.below(200) as u32);
    let start = Instant::now();
    for line in BufReader::new(worker.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The test program writes its own text at the beginning of the first line.
        let Some((_, line)) = line.split_once(MARK) else { continue };
        report.parse_line(line);
        if left == 0 {
            report.took += start.elapsed();
            // At a point within the next two operations, however fast the machine is.
            thread::sleep(report.took / (report.done + 1) * share / 100);
            // Its output until then is still read.
            worker.kill().unwrap();
        }
        left = left.wrapping_sub(1);
    }
    worker.wait().unwrap();
}

/// Lists every file and every empty directory below a directory.
fn walk(dir: &Path, files: &mut Vec<PathBuf>, empty: &mut Vec<PathBuf>) {
    let entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    if entries.is_empty() {
        empty.push(dir.to_owned());
    }
    for entry in entries {
        if entry.is_dir() { walk(&entry, files, empty) } else { files.push(entry) }
    }
}

fn rows<T: rusqlite::types::FromSql>(conn: &Connection, sql: &str) -> Vec<T> {
    let mut statement = conn.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Checks the integrity of the database, and that it has every required text.
#[track_caller]
fn assert_database(
    scenario: &ReviewScenario,
    report: &WorkerReport,
    on_disk: &BTreeSet<Digest>,
    what: &str,
) {
    let conn = Connection::open(scenario.data("registry.sqlite3")).unwrap();
    assert_eq!(rows::<String>(&conn, "PRAGMA integrity_check"), ["ok"], "{what}");
    assert_eq!(rows::<String>(&conn, "PRAGMA foreign_key_check"), [""; 0], "{what}");
    let pending = "SELECT id FROM intents WHERE state = 'pending'";
    assert_eq!(rows::<String>(&conn, pending), [""; 0], "{what}");
    let mut statement = conn.prepare("SELECT digest, content FROM blobs").unwrap();
    let blobs = statement
        .query_map([], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .unwrap();
    let mut kept = on_disk.clone();
    for blob in blobs {
        let (digest, content) = blob.unwrap();
        assert_eq!(Digest::compute(&content), Digest::from(digest), "{what}");
        kept.insert(Digest::from(digest));
    }
    let lost: Vec<_> = report.kept.difference(&kept).collect();
    assert!(lost.is_empty(), "{what}: texts are lost: {lost:?}");
    let reads = rows::<i64>(&conn, "SELECT count(*) FROM activations")[0];
    // The last batch may have been recorded before the worker could report it.
    assert!(reads >= report.reads && reads % 2 == 0, "{what}: {reads} of {}", report.reads);
}

/// Checks the complete state of a directory in which processes died.
#[track_caller]
fn assert_nothing_lost(
    scenario: &ReviewScenario,
    ledger: &Ledger,
    report: &mut WorkerReport,
    what: &str,
) {
    let proposals =
        ledger.proposals(every_proposal()).unwrap_or_else(|error| panic!("{what}: {error}"));
    for note in ledger.take_notes() {
        match note {
            LedgerNote::Finished { .. } => report.finished += 1,
            LedgerNote::TemporaryFilesRemoved { .. } => {}
            note => panic!("{what}: {note}"),
        }
    }
    assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new(), "{what}");
    // Rebased texts are made by the ledger, so no worker reported them.
    report.may.extend(proposals.iter().map(|proposal| proposal.new_digest));

    let (mut files, mut empty) = (Vec::new(), Vec::new());
    walk(&scenario.fixture.path("skills"), &mut files, &mut empty);
    let on_disk: BTreeSet<_> =
        files.iter().map(|file| Digest::compute(&fs::read(file).unwrap())).collect();
    let torn: Vec<_> = on_disk.difference(&report.may).collect();
    assert!(torn.is_empty(), "{what}: unknown texts: {torn:?}");
    if report.unseen.is_empty() {
        assert_eq!(empty, Vec::<PathBuf>::new(), "{what}");
    }
    if !scenario.data("registry.sqlite3").exists() {
        // It died before its first use of the ledger.
        assert!(report.kept.is_subset(&on_disk), "{what}");
        return;
    }
    assert_database(scenario, report, &on_disk, what);

    let mut applied = BTreeMap::new();
    let snapshot = scenario.snapshot();
    for skill in SKILLS {
        let before = ledger.version(skill, None).map_or(0, |last| last.version.number);
        let versions = ledger.history(&snapshot, skill).unwrap();
        // The files equal the last recorded version, unless a worker edited them.
        if before > 0 && !report.unseen.contains(skill) {
            assert_eq!(versions.len() as u64, before, "{what}: {skill} is torn");
        }
        let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
        assert_eq!(numbers, (1..=versions.len() as u64).collect::<Vec<_>>(), "{what}");
        for version in &versions {
            if let Some(proposal) = &version.proposal {
                let twice = applied.insert(proposal.clone(), version.number);
                assert_eq!(twice, None, "{what}: {proposal} was applied twice");
            }
        }
        for (_, number) in report.back.iter().filter(|(back, _)| back == skill) {
            let author = &versions[*number as usize - 1].author;
            assert_eq!(*author, VersionAuthor::Person { name: "ada".to_owned() }, "{what}");
        }
    }
    report.unseen.clear();
    for (proposal, version) in &report.applied {
        assert_eq!(applied.get(proposal), Some(version), "{what}: {proposal}");
    }
    for summary in ledger.proposals(every_proposal()).unwrap() {
        let (id, state) = (&summary.id, summary.state);
        assert!(state != ProposalState::Approved && state != ProposalState::Failed, "{what}: {id}");
        assert_eq!(state == ProposalState::Applied, applied.contains_key(id), "{what}: {id}");
        if report.rejected.contains(id) {
            assert_eq!(state, ProposalState::Rejected, "{what}: {id}");
        }
        let proposal = ledger.proposal(id).unwrap();
        assert_eq!(proposal.file_state, ProposalFileState::AsWritten, "{what}: {id}");
        let text = proposal.new_text.expect("a text is kept");
        assert_eq!(Digest::compute(text.as_bytes()), summary.new_digest, "{what}: {id}");
    }
    let standing = ledger.approval_statuses(&snapshot).unwrap();
    for skill in &report.created {
        assert!(standing.contains_key(&id(skill)), "{what}: {skill}");
    }
    assert_eq!(ledger.take_notes(), [], "{what}");
}

/// Kills the given number of processes, in several directories.
fn kill_many(points: usize, seed: u64) {
    let (mut random, mut killed) = (SeededRandom::new(seed), 0);
    let (mut done, mut applied, mut finished) = (0, 0, 0);
    let (mut in_repair, mut together) = (0, 0);
    while killed < points {
        let scenario = ReviewScenario::empty();
        let mut report = WorkerReport::default();
        for skill in SKILLS {
            let text = whole(skill, "SKILL.md", "0", "0", 8);
            scenario.write(skill, &text);
            report.may.insert(Digest::compute(text.as_bytes()));
            report.kept.insert(Digest::compute(text.as_bytes()));
        }
        let ledger = ledger(&scenario);
        for _ in 0..CHAIN {
            let what = format!("seed {seed}, kill {killed}");
            match random.below(8) {
                0 => {
                    // The second process recovers, and may be killed during the recovery.
                    kill_one(&scenario, &mut random, &mut report);
                    kill_one(&scenario, &mut random, &mut report);
                    (killed, in_repair) = (killed + 2, in_repair + 1);
                }
                1 => {
                    kill_two(&scenario, &mut random, &mut report);
                    (killed, together) = (killed + 2, together + 2);
                }
                _ => {
                    kill_one(&scenario, &mut random, &mut report);
                    killed += 1;
                }
            }
            assert_nothing_lost(&scenario, &ledger, &mut report, &what);
            if killed >= points {
                break;
            }
        }
        (done, applied) = (done + report.done, applied + report.applied.len());
        finished += report.finished;
        // The ledger still works.
        let mut wish = crate::scenario::wish("beads", &format!("after {killed}"));
        wish.justification = "It is the last one.".to_owned();
        let last = ledger.propose(&scenario.snapshot(), &agent(), &wish).unwrap().proposal;
        let digest = last.new_digest;
        ledger.approve(&scenario.snapshot(), &person(), &last.id, digest, None).unwrap();
        assert_eq!(scenario.file("beads/SKILL.md"), wish.new_content);
    }
    if let Some(path) = std::env::var_os("SKILL_STORE_TEST_NUMBERS") {
        let numbers = format!(
            "{killed} killed ({in_repair} during recovery, {together} next to another one), {done} operations, \
             {applied} applied, {finished} changes finished afterwards"
        );
        fs::write(path, numbers).unwrap();
    }
}

#[test]
fn killed_process_loses_no_data() {
    kill_many(40, 1);
}

#[test]
#[ignore = "takes minutes"]
fn many_killed_processes_lose_no_data() {
    kill_many(600, 2);
}
