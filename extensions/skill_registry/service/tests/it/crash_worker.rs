//! A process that runs every operation of a ledger, one after the other, until it is killed.
//!
//! It writes each intended and each completed operation to its output, one per line, before it
//! starts the next one: the process that kills it thus knows the required state.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use skill_catalog::SystemClock;
use skill_format::Digest;
use skill_ledger::{
    Ledger, LedgerError, LedgerErrorKind, LedgerNote, Proposal, ProposalState, ProposeRequest,
};

use crate::fixture::id;
use crate::random::SeededRandom;
use crate::scenario::{ReviewScenario, agent, every_proposal, operator, person, reading};

pub(crate) const SKILLS: [&str; 3] = ["beads", "pdf", "tar"];
const FILES: [&str; 4] = ["SKILL.md", "SKILL.md", "notes/a.md", "notes/deep/b.md"];

/// The prefix of the worker's lines; the test program itself writes others.
pub(crate) const MARK: &str = "@ ";

/// Returns a text with two changeable lines, far enough apart to merge changes of both.
pub(crate) fn whole(skill: &str, file: &str, top: &str, bottom: &str, lines: u64) -> String {
    let head = match file {
        "SKILL.md" => format!("---\nname: {skill}\ndescription: About {skill}.\n---\n"),
        _ => String::new(),
    };
    let middle: String = (0..lines).map(|n| format!("line {n} of {lines}\n")).collect();
    format!("{head}top {top}\n{middle}bottom {bottom}\n")
}

pub(crate) fn ledger(scenario: &ReviewScenario) -> Ledger {
    Ledger::new(scenario.data(""), Arc::new(SystemClock)).set_wait(Duration::from_secs(60))
}

/// Starts this test program as another process that runs one test, with variables for it.
pub(crate) fn start_process(test: &str, variables: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Writes a line for the process that started this one.
pub(crate) fn tell(line: &str) {
    // The reader has closed the pipe and ignores further lines.
    if writeln!(io::stdout(), "{MARK}{line}").is_err() {
        std::process::exit(0);
    }
}

struct Worker<'a> {
    scenario: &'a ReviewScenario,
    ledger: Ledger,
    random: SeededRandom,
    nth: u64,
    seed: u64,
    /// Whether the worker also edits files directly.
    edits: bool,
}

impl Worker<'_> {
    /// Returns another text for a file and reports that it may appear.
    fn reworded(&mut self, skill: &str, file: &str) -> String {
        self.nth += 1;
        let own = format!("{}.{}", self.seed, self.nth);
        let now = self.scenario.file(&format!("{skill}/{file}"));
        let text = match (now, self.random.below(4)) {
            (Some(now), 0) => replace_line(&now, "top ", &own),
            (Some(now), 1) => replace_line(&now, "bottom ", &own),
            _ => {
                let lines = [8, 8, 40, 3_000][self.random.below(4) as usize];
                whole(skill, file, &own, &own, lines)
            }
        };
        tell(&format!("may {}", Digest::compute(text.as_bytes())));
        text
    }

    /// Reports that a text must not get lost.
    fn kept(text: Option<&str>) {
        if let Some(text) = text {
            tell(&format!("kept {}", Digest::compute(text.as_bytes())));
        }
    }

    fn target(&mut self) -> (&'static str, &'static str) {
        (SKILLS[self.random.below(3) as usize], FILES[self.random.below(4) as usize])
    }

    fn one_in(&mut self, states: &[ProposalState]) -> Result<Option<Proposal>, LedgerError> {
        let all = self.ledger.proposals(every_proposal())?;
        let fit: Vec<_> = all.into_iter().filter(|one| states.contains(&one.state)).collect();
        let one = self.random.one_of(&fit).map(|one| one.id.clone());
        one.map(|id| self.ledger.proposal(&id)).transpose()
    }

    fn propose(&mut self) -> Result<(), LedgerError> {
        let (skill, file) = self.target();
        let text = self.reworded(skill, file);
        let wish = ProposeRequest {
            skill_id: skill.to_owned(),
            path: Some(file.to_owned()),
            new_content: Some(text.clone()),
            justification: "It counts better.".to_owned(),
            ..ProposeRequest::default()
        };
        // A person may repeat a change that was rejected.
        self.ledger.propose(&self.scenario.snapshot(), &operator(), &wish)?;
        Self::kept(Some(&text));
        Ok(())
    }

    fn approve(&mut self) -> Result<(), LedgerError> {
        let Some(open) = self.one_in(&[ProposalState::Open])? else { return self.propose() };
        let (id, digest) = (&open.summary.id, open.summary.new_digest);
        let applied =
            self.ledger.approve(&self.scenario.snapshot(), &person(), id, digest, Some("good"))?;
        tell(&format!("applied {id} {}", applied.version));
        Ok(())
    }

    fn amend(&mut self) -> Result<(), LedgerError> {
        let Some(open) = self.one_in(&[ProposalState::Open])? else { return self.propose() };
        let summary = open.summary;
        let text = self.reworded(&summary.skill_id, &summary.path);
        self.ledger.amend(&self.scenario.snapshot(), &person(), &summary.id, &text)?;
        Self::kept(Some(&text));
        Ok(())
    }

    fn reject(&mut self) -> Result<(), LedgerError> {
        use ProposalState::{Open, Stale};
        let Some(one) = self.one_in(&[Open, Stale])? else { return self.propose() };
        self.ledger.reject(&person(), &one.summary.id, "no")?;
        tell(&format!("rejected {}", one.summary.id));
        Ok(())
    }

    fn rebase(&mut self) -> Result<(), LedgerError> {
        let Some(stale) = self.one_in(&[ProposalState::Stale])? else { return self.edit() };
        let rebased =
            self.ledger.rebase(&self.scenario.snapshot(), &person(), &stale.summary.id)?;
        Self::kept(rebased.proposal.new_text.as_deref());
        Ok(())
    }

    fn roll_back(&mut self) -> Result<(), LedgerError> {
        let (skill, _) = self.target();
        let last = self.ledger.version(skill, None)?.version.number;
        let number = 1 + self.random.below(last);
        let snapshot = self.scenario.snapshot();
        let back = self.ledger.rollback(&snapshot, &person(), skill, Some(number), None)?;
        tell(&format!("back {skill} {}", back.version));
        Ok(())
    }

    fn history(&mut self) -> Result<(), LedgerError> {
        let (skill, _) = self.target();
        self.ledger.history(&self.scenario.snapshot(), skill)?;
        Ok(())
    }

    /// Saves a file like an editor; the former content is recorded in the ledger before.
    fn edit(&mut self) -> Result<(), LedgerError> {
        if !self.edits {
            return self.propose();
        }
        let (skill, file) = self.target();
        self.ledger.record_direct_edits(&self.scenario.snapshot(), &[id(skill)])?;
        let text = self.reworded(skill, file);
        let temporary = self.scenario.fixture.write("saved", &text);
        let path = self.scenario.fixture.path(&format!("skills/{skill}/{file}"));
        tell(&format!("edit {skill}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::rename(temporary, path).unwrap();
        Self::kept(Some(&text));
        if self.random.below(2) == 0 {
            self.ledger.record_direct_edits(&self.scenario.snapshot(), &[id(skill)])?;
            tell(&format!("seen {skill}"));
        }
        Ok(())
    }

    fn create(&mut self) -> Result<(), LedgerError> {
        let (skill, _) = self.target();
        self.ledger.report_created(&self.scenario.snapshot(), &agent(), skill)?;
        tell(&format!("created {skill}"));
        let standing = self.ledger.approval_statuses(&self.scenario.snapshot())?;
        let digest = standing[&id(skill)].digest;
        self.ledger.approve_skill(&self.scenario.snapshot(), &person(), skill, digest)
    }

    fn activate(&mut self) -> Result<(), LedgerError> {
        let (skill, _) = self.target();
        let activation = reading(1, skill);
        self.ledger.record_activations(&[activation.clone(), activation])?;
        tell("read 2");
        Ok(())
    }

    fn work(&mut self) {
        let done = match self.random.below(16) {
            0..3 => self.propose(),
            3..8 => self.approve(),
            8 => self.amend(),
            9 => self.reject(),
            10 => self.rebase(),
            11..13 => self.roll_back(),
            13 => self.edit(),
            14 => self.history(),
            _ if self.random.below(2) == 0 => self.create(),
            _ => self.activate(),
        };
        use LedgerErrorKind::{Conflict, Digest, Invalid, NotFound, Quota, Stale, State};
        match done {
            Err(error)
                if !matches!(
                    error.reason(),
                    Conflict | Digest | Invalid | NotFound | Quota | Stale | State
                ) =>
            {
                tell(&format!("broken {error}"));
            }
            _ => tell("done"),
        }
        for note in self.ledger.take_notes() {
            if !matches!(
                note,
                LedgerNote::Finished { .. } | LedgerNote::TemporaryFilesRemoved { .. }
            ) {
                tell(&format!("broken {note}"));
            }
        }
    }
}

/// Replaces the lines with a prefix.
fn replace_line(text: &str, start: &str, rest: &str) -> String {
    let line = |line: &str| match line.starts_with(start) {
        true => format!("{start}{rest}\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The program of the killed processes; without its variables it returns at once.
#[test]
fn crash_worker_process() {
    let Ok(place) = std::env::var("SKILL_STORE_TEST_CRASH_DESK") else { return };
    let seed = std::env::var("SKILL_STORE_TEST_SEED").unwrap().parse().unwrap();
    let edits = std::env::var("SKILL_STORE_TEST_EDITS").unwrap() == "true";
    let scenario = ReviewScenario::at(place.into());
    let ledger = ledger(&scenario);
    let mut worker = Worker {
        scenario: &scenario,
        ledger,
        random: SeededRandom::new(seed),
        nth: 0,
        seed,
        edits,
    };
    tell("ready");
    // A limit, in case the process is never killed.
    for _ in 0..1_000 {
        worker.work();
    }
}
