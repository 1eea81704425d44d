//! Kills of runs that load and unload skills and run their scripts: the next start continues with the
//! skills of the last receipt, and nothing else is left.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mock_model::{MockModel, MockRequest, Step, Wire};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use test_support::{Background, STUCK_AFTER, TestHome, can_isolate, program, wait_until};

use crate::agents_scene::last_thread;
use crate::session_tools::{receipt_names, skills_home};

/// The kills of one home: a longer thread would only make each request slower.
const KILLS_PER_HOME: usize = 25;

/// The homes whose runs are killed at the same time.
const WORKERS: usize = 2;

/// The result of a call that a kill has interrupted.
const CUT_OFF: &str = "the run was cut off before this call was answered; it may have happened";

/// Starts a child, reports that it runs, and waits for a line that no one writes.
const SCRIPT: &str =
    "bash -c 'read -r line < wait' &\necho running > started\nread -r line < wait\n";

const LOADS: [(&str, &str); 5] = [
    ("skills_load", r#"{"names":["alpha"]}"#),
    ("skills_load", r#"{"names":["beta"],"mode":"add"}"#),
    ("skills_load", r#"{"names":["gamma","beta"],"mode":"add"}"#),
    ("read_skill", r#"{"skill_id":"alpha"}"#),
    ("skills_load", r#"{"names":["beta","alpha"]}"#),
];

const UNLOADS: [(&str, &str); 3] = [
    ("skills_unload", r#"{"all":true}"#),
    ("skills_unload", r#"{"names":["alpha"]}"#),
    ("skills_unload", r#"{"names":["beta"]}"#),
];

/// The call that a kill hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KilledCall {
    Load,
    Unload,
    Script,
}

/// The run that the model answers: the call that is killed and the number of the kill.
struct RunState {
    call: Option<KilledCall>,
    kill: usize,
    round: usize,
}

impl RunState {
    /// Returns the next reply; each differs from those around it, so that no run counts as a loop.
    fn reply(&mut self) -> Step {
        let round = self.round;
        self.round += 1;
        let load = |number: usize| {
            let (tool, arguments) = LOADS[number % LOADS.len()];
            Step::calls(tool, arguments)
        };
        match self.call {
            Some(KilledCall::Load) => load(self.kill + round),
            Some(KilledCall::Unload) if round % 2 == 1 => {
                let (tool, arguments) = UNLOADS[(self.kill + round / 2) % UNLOADS.len()];
                Step::calls(tool, arguments)
            }
            Some(KilledCall::Unload) => load(self.kill + round),
            Some(KilledCall::Script) if round == 0 => {
                Step::calls("skills_load", r#"{"names":["alpha"],"mode":"add"}"#)
            }
            Some(KilledCall::Script) if round == 1 => {
                // An identical call would need a decision, as the killed one may have happened.
                let kill = self.kill;
                let arguments =
                    format!(r#"{{"path":"scripts/wait.sh","skill":"alpha","args":["{kill}"]}}"#);
                Step::calls("skills_run_script", &arguments)
            }
            _ => Step::text("Done.").held(),
        }
    }
}

/// A home whose runs are killed.
struct KilledHome {
    home: TestHome,
    mock: MockModel,
    state: Arc<Mutex<RunState>>,
    thread: Option<String>,
    runs_scripts: bool,
    /// The private directories of killed runs.
    abandoned: BTreeSet<PathBuf>,
}

impl KilledHome {
    fn new() -> Self {
        let mock = MockModel::new();
        let state = Arc::new(Mutex::new(RunState { call: None, kill: 0, round: 0 }));
        let replies = Arc::clone(&state);
        mock.answer_with(move |_| Some(replies.lock().unwrap().reply()));
        let home = skills_home(&mock, Wire::Openai)
            .file("sandbox/skills/alpha/scripts/wait.sh", SCRIPT)
            .file("../tmp/.keep", "");
        let runs_scripts = can_isolate() && program("bash").is_some();
        if runs_scripts {
            let shown = home.skillhost(["skill", "show", "alpha", "--json"]).success().json();
            let digest = shown["scripts"]["digest"].as_str().unwrap();
            home.skillhost(["skill", "approve-scripts", "alpha", "--yes", "--digest", digest])
                .success();
        }
        Self { home, mock, state, thread: None, runs_scripts, abandoned: BTreeSet::new() }
    }

    fn temporary(&self) -> PathBuf {
        self.home.outside().join("tmp")
    }

    /// Starts a run in the thread.
    fn ask(&self) -> Background {
        let mut command = self.home.command();
        command.env("TMPDIR", self.temporary());
        match &self.thread {
            Some(thread) => command.args(["ask", "--thread", thread, "Go on."]),
            None => command.args(["ask", "--agent", "worker", "Begin."]),
        };
        self.home.start(&mut command)
    }

    /// Kills the run `kill` in the moment of a call and a time after it.
    fn kill(&mut self, kill: usize, call: KilledCall, later: Duration) -> KilledRun {
        *self.state.lock().unwrap() = RunState { call: Some(call), kill: kill / 3, round: 0 };
        let before = self.mock.requests().len();
        let started = (call == KilledCall::Script).then(|| self.start_signal());
        let run = self.ask();
        match started {
            Some(started) => {
                started.wait();
                let stays = self.run_directories().intersection(&self.abandoned).count();
                assert_eq!(stays, 0, "directories of killed runs stay");
            }
            // The reply to this request is the call that is killed.
            None => drop(self.mock.wait_for(before + if call == KilledCall::Load { 1 } else { 2 })),
        }
        // To the microsecond, which no sleep is.
        let end = Instant::now() + later;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let processes = descendants(run.id());
        // Dropped, the run is killed.
        drop(run);
        wait_until("the end of the run's processes", || !processes.iter().any(is_running));
        let directories = self.run_directories();
        if call == KilledCall::Script {
            assert!(processes.len() >= 3, "the launcher, the script and its child: {processes:?}");
            assert!(directories.len() >= 2, "the copy and the private home: {directories:?}");
        }
        self.abandoned.extend(directories);
        KilledRun { request: before, call }
    }

    /// Creates the pipe by which the script signals that it runs.
    fn start_signal(&self) -> StartSignal {
        let thread = self.thread.as_ref().expect("the first kill of a home is another one");
        let work = self.home.path("sandbox/work").join(thread);
        fs::create_dir_all(&work).unwrap();
        for name in ["started", "wait"] {
            if !work.join(name).exists() {
                let mode = Mode::RUSR | Mode::WUSR;
                mknodat(CWD, work.join(name), FileType::Fifo, mode, 0).unwrap();
            }
        }
        StartSignal(work.join("started"))
    }

    fn run_directories(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.temporary()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    }

    /// Checks the thread after a kill.
    fn check_thread(&mut self, kill: usize) {
        let id = self.thread.get_or_insert_with(|| last_thread(&self.home)).clone();
        let (stated, stored) = stated_and_stored(&self.home, &id);
        assert_eq!(stated, stored, "kill {kill} in {id}");
    }

    /// Ends the thread with a run that is not killed.
    fn finish(&self) {
        *self.state.lock().unwrap() = RunState { call: None, kill: 0, round: 0 };
        let before = self.mock.requests().len();
        let run = self.ask();
        drop(self.mock.wait_for(before + 1));
        wait_until("the removal of a killed run's directory", || self.run_directories().is_empty());
        self.mock.release();
        run.finish().success();
        assert!(self.temporary().join(".keep").exists());
    }
}

/// A run that was killed.
struct KilledRun {
    /// The number of its first request.
    request: usize,
    call: KilledCall,
}

impl KilledRun {
    /// Checks the first request of the run after it.
    fn check_next_request(&self, first: &MockRequest) {
        if self.call == KilledCall::Script {
            let messages = first.messages();
            let result = &messages[messages.len() - 2];
            assert!(result.text.contains(CUT_OFF), "{messages:?}");
        }
    }
}

/// A pipe that a script writes to when it runs.
struct StartSignal(PathBuf);

impl StartSignal {
    fn wait(self) {
        // Open for writing, too: the opening must not wait for the script.
        let pipe = fs::OpenOptions::new().read(true).write(true).open(&self.0).unwrap();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(pipe).read_line(&mut line);
            let _ = sender.send(line);
        });
        assert_eq!(receiver.recv_timeout(STUCK_AFTER).expect("the script runs"), "running\n");
    }
}

/// Returns the parent and the start time of a process that is not a zombie.
fn process_facts(pid: u32) -> Option<(u32, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain any character.
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<_> = fields.split(' ').collect();
    let parent = fields[1].parse().ok()?;
    (!matches!(fields[0], "Z" | "X")).then(|| (parent, fields[19].to_owned()))
}

/// Returns the processes below one, each with its start time.
fn descendants(root: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<_> = ids.filter_map(|id| Some((id, process_facts(id)?))).collect();
    let mut found: Vec<(u32, String)> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (id, (_, started)) in all.iter().filter(|(_, (above, _))| *above == parent) {
            parents.push(*id);
            found.push((*id, started.clone()));
        }
    }
    found
}

fn is_running((pid, started): &(u32, String)) -> bool {
    process_facts(*pid).is_some_and(|(_, now)| now == *started)
}

/// Returns the skills that the receipts of a thread state, and those that its state has.
fn stated_and_stored(home: &TestHome, thread: &str) -> (Vec<String>, Vec<String>) {
    let shown = home.skillhost(["threads", "show", thread, "--json"]).success().json();
    let mut stated = Vec::new();
    for message in shown["conversation"].as_array().unwrap() {
        let (name, text) = (&message["name"], message["text"].as_str().unwrap_or_default());
        match name.as_str() {
            Some("skills.load" | "skills.unload") if message["is_error"] == false => {
                let receipt: Value = serde_json::from_str(text).unwrap();
                stated = receipt_names(&receipt).iter().map(|name| (*name).to_owned()).collect();
            }
            // Where it is loaded, it keeps its place.
            Some("read_skill")
                if message["is_error"] == false && !stated.iter().any(|name| name == "alpha") =>
            {
                stated.push("alpha".to_owned());
            }
            _ => {}
        }
    }
    let stored = shown["skills"].as_array().unwrap().iter();
    let stored = stored.map(|skill| skill["skill"]["skill_id"].as_str().unwrap().to_owned());
    (stated, stored.collect())
}

/// Kills the runs of one home, `first` being the number of the first one.
fn kill_runs_of_home(first: usize, kills: usize) -> [usize; 3] {
    let mut killed = KilledHome::new();
    let mut counts = [0; 3];
    let mut moment = 7 + first as u64;
    let mut last: Option<KilledRun> = None;
    for number in 0..kills {
        let call = match number % 3 {
            0 => KilledCall::Load,
            1 => KilledCall::Unload,
            _ if killed.runs_scripts => KilledCall::Script,
            _ => KilledCall::Load,
        };
        counts[call as usize] += 1;
        // Spread over the time that a round takes.
        moment =
            moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let later = Duration::from_micros((moment >> 33) % 12_000);
        let run = killed.kill(first + number, call, later);
        killed.check_thread(first + number);
        let first_request = killed.mock.requests()[run.request].clone();
        if let Some(before) = last.replace(run) {
            before.check_next_request(&first_request);
        }
    }
    killed.finish();
    counts
}

/// Kills runs of several homes at the same time.
fn kill_runs(kills: usize) {
    let next = AtomicUsize::new(0);
    let counts = std::thread::scope(|scope| {
        let work = || {
            let mut counts = [0; 3];
            loop {
                let first = next.fetch_add(KILLS_PER_HOME, Ordering::Relaxed);
                if first >= kills {
                    return counts;
                }
                let of_home = kill_runs_of_home(first, KILLS_PER_HOME.min(kills - first));
                counts = std::array::from_fn(|call| counts[call] + of_home[call]);
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let counts = workers.into_iter().map(|worker| worker.join().unwrap());
        counts.fold([0; 3], |sum, of_worker| std::array::from_fn(|at| sum[at] + of_worker[at]))
    });
    let [load, unload, script] = counts;
    assert_eq!(load + unload + script, kills, "{counts:?}");
    assert!(load.min(unload) >= kills / 4, "{counts:?}");
}

#[test]
fn killed_runs_leave_skills_of_last_receipt() {
    kill_runs(50);
}

#[test]
#[ignore = "takes minutes: run it with --ignored after changes of threads, session tools or scripts"]
fn five_hundred_killed_runs_leave_skills_of_last_receipt() {
    kill_runs(500);
}
