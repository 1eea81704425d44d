//! Kills of the kernel at random moments while people write to a bot, and the platform repeats
//! messages, throttles and cuts connections. Each message gets one run, and a reply.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use fake_bot_api::{ApiFault, FakeBotApi};
use mock_model::{MockModel, Step};
use serde_json::{Value, json};
use skillhost_control::ChannelRole;
use test_support::{STUCK_AFTER, TestHome};

use crate::channel_scene::{TOKEN, pair_people, telegram_home};
use crate::fixtures::start_kernel;

/// The longest life of a kernel that is killed.
const LIFE_US: u64 = 3_000_000;

/// The numbers of one test.
struct UpdatePlan {
    updates: usize,
    people: usize,
    kills: usize,
    seed: u64,
    /// The time after which the test is stuck, once the kills have ended.
    limit: Duration,
}

#[test]
fn killed_kernel_answers_each_message_once() {
    check_updates(&UpdatePlan { updates: 60, people: 4, kills: 3, seed: 1, limit: STUCK_AFTER });
}

/// The complete measurement; `SKILLHOST_KILLS`, `SKILLHOST_UPDATES` and `SKILLHOST_SEED` select others.
#[test]
#[ignore = "takes several minutes"]
fn thousands_of_updates_survive_kills() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    check_updates(&UpdatePlan {
        updates: number("SKILLHOST_UPDATES").unwrap_or(10_000),
        people: 200,
        kills: number("SKILLHOST_KILLS").unwrap_or(200),
        seed: number("SKILLHOST_SEED").map_or(2, |seed| seed as u64),
        limit: Duration::from_secs(3600),
    });
}

fn check_updates(plan: &UpdatePlan) {
    let api = FakeBotApi::new(TOKEN);
    let mock = MockModel::new();
    // From the message alone, so that a killed run gets the same reply again.
    mock.answer_with(|request| {
        let messages = request.messages();
        let text = messages.iter().rfind(|message| message.role == "user")?.text.clone();
        Some(Step::text(&format!("Re: {text}.")))
    });
    let home = telegram_home(&api, &mock);
    let people: Vec<i64> = (0..plan.people).map(|number| 5000 + number as i64).collect();
    let kernel = start_kernel(&home);
    pair_people(&home, &api, ChannelRole::Owner, people.iter().copied());
    kernel.interrupt().success();
    let mut random = RandomNumbers(plan.seed);
    let mut faults = RandomNumbers(plan.seed + 1);
    api.fail_by(move |method| {
        let percent = if method == "getUpdates" { 12 } else { 3 };
        if faults.below(100) >= percent {
            return None;
        }
        Some(match faults.below(4) {
            0 => ApiFault::Throttle(1),
            1 => ApiFault::Status(502, "Bad Gateway".to_owned()),
            2 => ApiFault::CutBefore,
            _ => ApiFault::CutAfter,
        })
    });
    let (mut pushed, mut total) = (Vec::<(i64, i64)>::new(), 0);
    for kill in 0..plan.kills {
        while total < plan.updates * (kill + 1) / plan.kills {
            total += 1;
            let last = pushed.len().min(100) as u64;
            // Every fifth is one of the last hundred, again.
            let (person, message) = match random.below(5) {
                0 if last > 0 => pushed[pushed.len() - 1 - random.below(last) as usize],
                _ => {
                    let person = people[random.below(people.len() as u64) as usize];
                    pushed.push((person, 100 + pushed.len() as i64));
                    pushed[pushed.len() - 1]
                }
            };
            api.push_message(person, message, &message_text(person, message));
        }
        let kernel = home.start(home.command().arg("run"));
        kernel.line_with("running; Ctrl-C ends it");
        std::thread::sleep(Duration::from_micros(random.below(LIFE_US)));
        // Dropped, the kernel is killed.
        drop(kernel);
    }
    api.stop_faults();
    let kernel = start_kernel(&home);
    wait_for_replies(&home, &api, &pushed, plan.limit);
    api.wait_until_confirmed();
    kernel.interrupt().success();
    let doubled = check_runs(&home, &api, &pushed);
    report(plan, &api, &mock, pushed.len(), doubled);
}

fn message_text(person: i64, message: i64) -> String {
    format!("message {message} of {person}")
}

/// Returns how often each message was answered on the platform.
fn count_replies(api: &FakeBotApi) -> BTreeMap<String, usize> {
    let mut replies = BTreeMap::new();
    for call in api.calls("sendMessage").into_iter().filter(|call| call.had_effect) {
        let text = call.body["text"].as_str().unwrap_or_default();
        if let Some(text) = text.strip_prefix("Re: ").and_then(|text| text.strip_suffix('.')) {
            *replies.entry(text.to_owned()).or_default() += 1;
        }
    }
    replies
}

/// Returns the number of messages that a person has to send again: later ones of the conversation were
/// answered while it was a dead letter.
fn count_refusals(api: &FakeBotApi) -> usize {
    let is_refusal = |text: &str| text.contains("message was superseded by a later message");
    let calls = api.calls("sendMessage").into_iter().filter(|call| call.had_effect);
    calls.filter(|call| call.body["text"].as_str().is_some_and(is_refusal)).count()
}

/// Waits until every message has a reply. A message whose attempts all ended with the process is a dead
/// letter, which an operator retries.
fn wait_for_replies(home: &TestHome, api: &FakeBotApi, pushed: &[(i64, i64)], limit: Duration) {
    let start = Instant::now();
    loop {
        let replies = count_replies(api);
        let is_missing = |(person, message): &&(i64, i64)| {
            !replies.contains_key(&message_text(*person, *message))
        };
        let missing: Vec<_> = pushed.iter().filter(is_missing).collect();
        // The person of such a message reads that it was not answered, and why.
        if missing.len() == count_refusals(api) {
            return;
        }
        if start.elapsed() > limit {
            let tasks = home.skillhost(["task", "list", "--json"]).success();
            panic!("{} of {} without reply: {missing:?}\n{tasks}", missing.len(), pushed.len());
        }
        let dead = home.skillhost(["event", "dead-letters", "--json"]).success();
        // Without any, the only line is an empty list.
        if !dead.json()["dead"].is_array() {
            for line in dead.stdout.lines() {
                let letter: Value = serde_json::from_str(line).unwrap();
                home.skillhost(["event", "retry", &letter["id"].to_string()]).success();
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Checks that each message is in one thread, once, and was answered; returns the replies that were shown
/// twice.
fn check_runs(home: &TestHome, api: &FakeBotApi, pushed: &[(i64, i64)]) -> usize {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for entry in fs::read_dir(home.path("sandbox/data/kernel/threads")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.contains(r#""role":"user""#)) {
            for (person, message) in find_messages(line) {
                *runs.entry(message_text(person, message)).or_default() += 1;
            }
        }
    }
    let replies = count_replies(api);
    let mut doubled = 0;
    for (person, message) in pushed {
        let text = message_text(*person, *message);
        match replies.get(&text) {
            Some(count) => {
                assert_eq!(runs.get(&text), Some(&1), "runs of {text}");
                doubled += count - 1;
            }
            None => assert!(runs.get(&text).is_none_or(|count| *count == 1), "runs of {text}"),
        }
    }
    doubled
}

/// Returns the messages that a line of a thread contains.
fn find_messages(line: &str) -> Vec<(i64, i64)> {
    let parts = line.split("message ").skip(1);
    let parse = |part: &str| {
        let (message, rest) = part.split_once(" of ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((digits.parse().ok()?, message.parse().ok()?))
    };
    parts.filter_map(parse).collect()
}

/// Writes the figures into the file that a variable names.
fn report(plan: &UpdatePlan, api: &FakeBotApi, mock: &MockModel, messages: usize, doubled: usize) {
    let Some(path) = std::env::var_os("SKILLHOST_FIGURES") else { return };
    let calls = ["getUpdates", "sendMessage"].map(|method| api.calls(method));
    let failed = calls.iter().flatten().filter(|call| !call.had_effect).count();
    let figures = json!({
        "updates": plan.updates,
        "messages": messages,
        "repeated": plan.updates - messages,
        "kills": plan.kills,
        "seed": plan.seed,
        "polls": calls[0].len(),
        "sends": calls[1].len(),
        "failed_calls": failed,
        "model_requests": mock.requests().len(),
        "lost": 0,
        "superseded": count_refusals(api),
        "doubled_runs": 0,
        "replies_shown_twice": doubled,
    });
    fs::write(path, format!("{figures:#}\n")).unwrap();
}

/// A deterministic source of numbers (xorshift64*).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % limit
    }
}
