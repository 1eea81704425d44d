//! The tool by which an agent reads the state of all extensions, with the reasons for rejections.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;
use skillhost_control::{LoadReport, LoadedExtension, find_containment_problems};
use skillhost_home::discover_manifests;
use skillhost_payload::ToolSpec;

use super::tool_spec::new_spec;
use crate::agent_runtime::AgentRuntime;

pub(super) const NAME: &str = "extensions_doctor";

/// The length limit of one reason or note, in characters.
const REASON: usize = 2000;

pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        read_only: true,
        ..new_spec(
            NAME,
            "Checks every extension: which are loaded and healthy, which were rejected, in which \
             phase and why, which are loaded at the next start, and which isolation this machine \
             offers to foreign code.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        )
    }
}

impl AgentRuntime {
    /// Returns the report of `skillhost ext doctor`, for a model.
    pub(super) async fn extensions_doctor(&self) -> String {
        let health = self.extensions().check_health().await;
        let report = self.extensions().report();
        let (pending, mut findings) = self.rediscover_extensions(&report);
        for (id, result) in &health {
            if let Err(error) = result {
                findings.push(format_finding(
                    &format!("`{id}` is not healthy"),
                    &error.message,
                    &error.hint,
                ));
            }
        }
        for problem in find_containment_problems(self.extensions().home()) {
            let title = "Contained programs do not run";
            findings.push(format_finding(title, &problem.message, &problem.hint));
        }
        let services = self.extensions().services();
        if let Some(error) = services.and_then(|services| services.delivery_problem()) {
            findings.push(format_finding("Events are not delivered", &error.message, &error.hint));
        }
        let mut text = match findings.len() {
            0 => "No findings.\n".to_owned(),
            1 => format!("1 finding:\n{}", findings.concat()),
            count => format!("{count} findings:\n{}", findings.concat()),
        };
        let mut list = |title: &str, ids: Vec<String>| {
            if !ids.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{title}: {}", ids.join(", "));
            }
        };
        list("Loaded", report.loaded.iter().map(describe_loaded).collect());
        list("Agents", report.agents.iter().map(|agent| agent.id.to_string()).collect());
        list("Disabled", report.disabled.iter().map(ToString::to_string).collect());
        list("Loaded at the next start", pending);
        for note in &report.notes {
            text.push_str(&format_finding("Note", note, ""));
        }
        text + &self.describe_isolation().await
    }

    /// Returns the isolation that foreign code reaches on this machine, and the remedies for gaps.
    async fn describe_isolation(&self) -> String {
        let machine = match self.extensions().describe_isolation().await {
            Ok(machine) => machine,
            Err(error) => return format_finding("Isolation is not known", &error.message, ""),
        };
        let mut text = format!("Isolation: {}\n", machine.summarize());
        for gap in &machine.gaps {
            let title = match gap.level {
                Some(level) => format!("Isolation level {level} is missing"),
                None => "Isolation lacks a guarantee".to_owned(),
            };
            text.push_str(&format_finding(&title, &gap.finding, &gap.remedy));
        }
        text
    }

    /// Returns the extensions that are on disk and were not at the start, and every rejection of
    /// then or now.
    fn rediscover_extensions(&self, report: &LoadReport) -> (Vec<String>, Vec<String>) {
        let settings = self.extensions().settings();
        let (home, installation) = (self.extensions().home(), self.extensions().installation());
        let found = discover_manifests(home, installation, &settings.allow_shadowing);
        let loaded = report.loaded.iter().map(|loaded| loaded.id.as_str());
        let agents = report.agents.iter().map(|agent| agent.id.as_str());
        let disabled = report.disabled.iter().map(|id| id.as_str());
        let rejected = report.rejected.iter().map(|rejection| rejection.id.as_str());
        let known: BTreeSet<_> = loaded.chain(agents).chain(disabled).chain(rejected).collect();
        let new = found.manifests.keys().map(|id| id.as_str()).filter(|id| !known.contains(id));
        let pending = new.map(str::to_owned).collect();
        let format_rejection = |rejection: &skillhost_home::LoadRejection| {
            let title = format!("`{}` was rejected in phase {}", rejection.id, rejection.phase);
            format_finding(&title, &rejection.reason, &rejection.hint)
        };
        let mut findings: Vec<_> = report.rejected.iter().map(format_rejection).collect();
        // A rejection of the start is listed once, with its reason of then.
        let before: BTreeSet<_> = report.rejected.iter().map(|rejection| &rejection.id).collect();
        let newly = found.rejected.iter().filter(|rejection| !before.contains(&rejection.id));
        findings.extend(newly.map(format_rejection));
        (pending, findings)
    }
}

/// Describes a loaded extension; that of a process includes the isolation that it has reached.
fn describe_loaded(loaded: &LoadedExtension) -> String {
    let name = format!("{} {}", loaded.id, loaded.version);
    match &loaded.isolation {
        None => name,
        Some(report) if report.is_contained() => format!("{name} (process, {})", report.level),
        Some(_) => format!("{name} (process, not isolated)"),
    }
}

/// Formats one finding. Control characters are removed, as manifests and libraries are untrusted.
fn format_finding(title: &str, reason: &str, hint: &str) -> String {
    let clean = |text: &str| {
        // Indented, so that no line of a reason can pass for a finding.
        let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
        skillhost_core::mistakes::truncate(text.trim().replace('\n', "\n    ").as_str(), REASON)
    };
    let hint = match hint {
        "" => String::new(),
        hint => format!("  hint: {}\n", clean(hint)),
    };
    format!("- {title}: {}\n{hint}", clean(reason))
}
