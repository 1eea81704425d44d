//! Scripts that try to read, change or reach something outside, or not to end.

use std::time::{Duration, Instant};

use serde::Deserialize;
use skillhost_policy::{DomainPattern, IsolationLevel, ResourceLimits, SandboxPolicy};
use skillhost_sandbox::EndCause;

use crate::fixture::{PYTHON, Victims, short_limits};

/// The time limit of a script, in seconds.
const SECONDS: u64 = 6;

/// The time within which a limit must act.
const LIMIT_DELAY: Duration = Duration::from_millis(250);

#[derive(Deserialize)]
struct ScriptTable {
    prelude: String,
    scripts: Vec<HostileScript>,
}

#[derive(Deserialize)]
struct HostileScript {
    name: String,
    code: String,
    #[serde(default)]
    system_calls: bool,
    /// Whether it is harmless enough to be tried without isolation.
    #[serde(default)]
    try_plain: bool,
    ended_by: Option<EndCause>,
    /// The time limit, if it is not the usual one.
    seconds: Option<u64>,
    /// The limit of the writable directories in MiB, if it is not the usual one.
    disk_mib: Option<u64>,
    /// The hosts that the policy allows; a level without networks refuses them.
    #[serde(default)]
    hosts: Vec<DomainPattern>,
    /// The work directory, if it is not the usual one.
    writable: Option<String>,
    /// The begin of the reason, if the run must not start.
    refused: Option<String>,
}

impl ScriptTable {
    fn load() -> Self {
        serde_json::from_str(include_str!("hostile.json")).unwrap()
    }

    fn command(&self, script: &HostileScript, victims: &Victims) -> Vec<String> {
        let prelude = if script.system_calls { &*self.prelude } else { "" };
        let code = format!("{prelude}{}", victims.fill(&script.code));
        [PYTHON, "-B", "-c", &code].map(str::to_owned).into()
    }
}

impl HostileScript {
    fn policy(&self, victims: &Victims) -> SandboxPolicy {
        let mut policy = victims.policy();
        // A busy machine needs longer than the script has for as many files as by default.
        let limits = short_limits(self.seconds.unwrap_or(SECONDS));
        let disk_mib = self.disk_mib.unwrap_or(limits.disk_mib);
        policy.limits = ResourceLimits { files: 2_000, disk_mib, ..limits };
        policy.network.allowed_domains.clone_from(&self.hosts);
        if let Some(path) = &self.writable {
            policy.filesystem.allow_write = vec![victims.fill(path).into()];
        }
        policy
    }

    /// Returns a part of the refusal at a level where the script cannot run.
    fn expected_refusal(&self, level: IsolationLevel) -> Option<&str> {
        let needs_network = !self.hosts.is_empty() && level == IsolationLevel::Landlock;
        self.refused.as_deref().or(needs_network.then_some("domains"))
    }

    /// Tests whether the version of Landlock makes no difference.
    fn is_for_any_landlock(&self) -> bool {
        self.ended_by.is_some() || self.name.ends_with("-bomb") || !self.hosts.is_empty()
    }
}

fn check_level(level: IsolationLevel, landlock_abi: Option<i32>) {
    let table = ScriptTable::load();
    let mut victims = Victims::create();
    let mut findings = Vec::new();
    for script in &table.scripts {
        if landlock_abi.is_some() && script.is_for_any_landlock() {
            continue;
        }
        let command = table.command(script, &victims);
        let policy = script.policy(&victims);
        let start = Instant::now();
        let result = victims.run_with(&command, policy, level, landlock_abi);
        let exit = match (result, script.expected_refusal(level)) {
            (Ok(exit), None) => exit,
            (Ok(_), Some(_)) => {
                findings.push(format!("{}: must be refused", script.name));
                continue;
            }
            (Err(error), Some(reason)) if error.to_string().contains(reason) => continue,
            (Err(error), _) => {
                findings.push(format!("{}: not run: {error}", script.name));
                continue;
            }
        };
        let took = start.elapsed();
        let output = String::from_utf8_lossy(&exit.stdout);
        let mut wrong = victims.collect_effects();
        if output.contains("ESCAPED") {
            wrong.push("escaped");
        }
        if took > Duration::from_secs(SECONDS) + 2 * LIMIT_DELAY {
            wrong.push("limit too late");
        }
        // Without a namespace, processes that the user starts elsewhere meanwhile count too, so that
        // the system may refuse a process before the launcher has counted up to the limit.
        let is_refused = level == IsolationLevel::Landlock && output.starts_with("stopped at ");
        if script.ended_by.is_some() && exit.end.ended_by != script.ended_by && !is_refused {
            wrong.push("other limit");
        }
        let survivors = victims.survivors();
        if !survivors.is_empty() {
            wrong.push("survivors");
        }
        let line = format!(
            "{level} {:22} {:10} {:>6} ms  code {:?} signal {:?} {:?} left {} | {} | {}",
            script.name,
            if wrong.is_empty() { "contained".to_owned() } else { wrong.join(", ") },
            took.as_millis(),
            exit.end.exit_code,
            exit.end.signal,
            exit.end.ended_by,
            exit.end.left_over,
            last_line(&exit.stdout),
            last_line(&exit.stderr),
        );
        if std::env::var_os("SANDBOX_REPORT").is_some() {
            eprintln!("{line}");
        }
        if !wrong.is_empty() {
            findings.push(line);
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(table.scripts.len() >= 70, "{} scripts", table.scripts.len());
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.trim_end().lines().next_back().unwrap_or("").chars().take(70).collect()
}

#[test]
fn namespaces_contain_hostile_scripts() {
    check_level(IsolationLevel::Namespaces, None);
}

#[test]
fn landlock_contains_hostile_scripts() {
    check_level(IsolationLevel::Landlock, None);
}

/// Older kernels leave some calls to the launcher.
#[test]
fn old_landlock_contains_hostile_scripts() {
    for version in [3, 5] {
        check_level(IsolationLevel::Landlock, Some(version));
    }
}

/// The scripts would do harm: without isolation most of those that may be tried have an effect.
#[test]
fn plain_children_are_not_contained() {
    if rustix::process::getuid().is_root() {
        // As root even more of them would, on the machine itself.
        return;
    }
    let table = ScriptTable::load();
    let mut victims = Victims::create();
    let mut succeeded = Vec::new();
    let mut failed = Vec::new();
    for script in table.scripts.iter().filter(|script| script.try_plain) {
        let output = victims.run_plain(&table.command(script, &victims));
        let effects = victims.collect_effects();
        let escaped = output.contains("ESCAPED") || !effects.is_empty();
        if escaped { &mut succeeded } else { &mut failed }.push(&*script.name);
    }
    if std::env::var_os("SANDBOX_REPORT").is_some() {
        eprintln!("plain: {} have an effect, without: {failed:?}", succeeded.len());
    }
    assert!(succeeded.len() >= 30, "only {succeeded:?}");
}
