//! The time that isolation adds to a start.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use skillhost_policy::{IsolationLevel, ResourceLimits};
use skillhost_sandbox::EndCause;

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

/// A limit, the script that exceeds it and then notes the time, and how the run has to end.
struct LimitCase {
    name: &'static str,
    script: &'static str,
    set: fn(&mut ResourceLimits),
    end: EndCause,
}

/// Each script writes the time at which it has exceeded its limit, and goes on.
const LIMIT_CASES: [LimitCase; 5] = [
    LimitCase {
        name: "seconds",
        script: "",
        set: |limits| limits.seconds = Some(1),
        end: EndCause::Time,
    },
    LimitCase {
        name: "memoryMib",
        script: "import os\nread, write = os.pipe()\nfor _ in range(4):\n    if os.fork() == 0:\n        \
                 kept = b'x' * (24 << 20)\n        os.write(write, b'.')\n        time.sleep(30)\n\
                 while len(os.read(read, 1)) == 1: note()",
        set: |limits| limits.memory_mib = 64,
        end: EndCause::Memory,
    },
    LimitCase {
        name: "tasks",
        script: "import subprocess\nfor n in range(24):\n    subprocess.Popen(['/bin/sleep', '30'])\n    \
                 if n == 15: note()",
        set: |limits| limits.tasks = 16,
        end: EndCause::Tasks,
    },
    LimitCase {
        name: "diskMib",
        script: "for n in range(5):\n    open(f'{start}-{n}', 'wb').write(b'x' * (1 << 20))\nnote()",
        set: |limits| limits.disk_mib = 4,
        end: EndCause::Disk,
    },
    LimitCase {
        name: "outputKib",
        script: "note()\nsys.stdout.write('x' * (1 << 17))\nsys.stdout.flush()",
        set: |limits| limits.output_kib = Some(64),
        end: EndCause::Output,
    },
];

/// Measures the time from the moment at which a limit is exceeded to the end of the run, and prints
/// a line of JSON for each limit and level.
#[test]
#[ignore = "measures, and needs an idle machine"]
fn limits_act_in_time() {
    let victims = Victims::create();
    let mut findings = Vec::new();
    for LimitCase { name, script, set, end } in LIMIT_CASES {
        for level in [IsolationLevel::Namespaces, IsolationLevel::Landlock] {
            let text = format!(
                "import sys, time\nstart = time.time()\ndef note():\n    \
                 with open('at.txt', 'w') as file: file.write(str(time.time()))\n{script}\ntime.sleep(30)\n"
            );
            let at = victims.path("work/at.txt");
            let _ = std::fs::remove_file(&at);
            let command = ["/usr/bin/python3", "-I", "-c", &text].map(str::to_owned);
            let mut policy = victims.policy();
            set(&mut policy.limits);
            let mut figure = serde_json::json!({"level": level, "limit_of": name, "limit_ms": 250});
            match victims.run(&command, policy, level) {
                Err(error) => figure["skipped"] = error.to_string().into(),
                Ok(exit) => {
                    let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
                    figure["ended_by"] = serde_json::json!(exit.end.ended_by);
                    // The process may have been ended before it could note the time.
                    let noted = std::fs::read_to_string(&at).ok();
                    let noted = noted.and_then(|text| text.parse::<f64>().ok());
                    let late = match end {
                        EndCause::Time => exit.end.ms as f64 - 1000.0,
                        _ => noted.map_or(0.0, |noted| (ended - noted) * 1000.0),
                    };
                    figure["late_ms"] = late.into();
                    if late > 250.0 || exit.end.ended_by != Some(end) {
                        findings.push(figure.to_string());
                    }
                }
            }
            eprintln!("{figure}");
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
