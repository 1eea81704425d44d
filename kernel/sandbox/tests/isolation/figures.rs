//! The time that isolation adds to a start.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use skillhost_policy::IsolationLevel;

use crate::fixture::Victims;

const REPETITIONS: usize = 50;

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// Compares isolated runs with plain ones in turn. Run alone:
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
            let ratio = isolated / plain;
            let line = format!(
                "{level:10} {name:8} plain {plain:5.1} ms  isolated {isolated:5.1} ms  ratio {ratio:4.1}"
            );
            eprintln!("{line}");
            if ratio > limit {
                findings.push(line);
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
