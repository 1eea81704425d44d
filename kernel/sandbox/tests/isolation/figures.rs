//! The time that isolation adds to a start.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_policy::IsolationLevel;

use crate::fixture::Victims;

const REPETITIONS: usize = 50;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// Compares isolated runs with plain ones in turn, and prints a line of JSON for each. Run alone:
/// `cargo test -p skillhost-sandbox --test isolation -- --ignored --nocapture figures`.
#[test]
#[ignore = "measures, and needs an idle machine"]
fn isolated_starts_stay_fast() {
    let victims = Victims::create();
    let mut findings = Vec::new();
    let rows: [(&str, &[&str], f64); 4] = [
        ("true", &["/bin/true"], 12.0),
        ("sh -c :", &["/bin/sh", "-c", ":"], 12.0),
        ("python3", &["/usr/bin/python3", "-I", "-c", "pass"], 2.0),
        ("node", &["/usr/bin/node", "-e", "0"], 1.6),
    ];
    for (name, words, limit) in rows {
        let command: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
            let mut figure = serde_json::json!({"level": level, "program": name, "limit": limit});
            if let Some(reason) = find_obstacle(&victims, &command, level) {
                figure["skipped"] = reason.into();
                eprintln!("{figure}");
                continue;
            }
            let (mut plain, mut isolated) = (Vec::new(), Vec::new());
            for _ in 0..REPETITIONS {
                let start = Instant::now();
                let status = Command::new(words[0])
                    .args(&words[1..])
                    .env_clear()
                    .envs(victims.environment())
                    .current_dir(victims.path("work"))
                    .stdin(Stdio::null())
                    .output()
                    .unwrap()
                    .status;
                plain.push(start.elapsed());
                assert!(status.success());
                let start = Instant::now();
                let exit = victims.run(&command, victims.policy(), level).unwrap();
                isolated.push(start.elapsed());
                assert_eq!(exit.end.exit_code, Some(0), "{exit:?}");
            }
            let (plain, isolated) = (median(plain), median(isolated));
            figure["plain_ms"] = plain.into();
            figure["isolated_ms"] = isolated.into();
            figure["ratio"] = (isolated / plain).into();
            eprintln!("{figure}");
            if isolated / plain > limit {
                findings.push(figure.to_string());
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Returns the reason why a program cannot be measured at a level.
fn find_obstacle(victims: &Victims, command: &[String], level: IsolationLevel) -> Option<String> {
    if !Path::new(&command[0]).exists() {
        return Some(format!("{} is missing", command[0]));
    }
    victims.run(command, victims.policy(), level).err().map(|error| error.to_string())
}
