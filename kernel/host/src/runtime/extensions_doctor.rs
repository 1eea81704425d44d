//! The tool by which an agent learns what is loaded, what is not, and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;
use skillhost_contract::payload::ToolSpec;

use super::kernel_tools;
use crate::discovery::discover_manifests;
use crate::kernel::Kernel;
use crate::report::LoadReport;

pub(super) const NAME: &str = "extensions_doctor";

/// Characters of one reason or note.
const REASON: usize = 2000;

pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        read_only: true,
        ..kernel_tools::new_spec(
            NAME,
            "Checks every extension: what is loaded and well, what was rejected in which phase and \
             why, what has changed on the disk and waits for the next start.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        )
    }
}

impl Kernel {
    /// What `skillhost ext doctor` says, for a model.
    pub(super) async fn extensions_doctor(&self) -> String {
        let health = self.check_health().await;
        let report = self.report();
        let (waiting, mut wrong) = self.rediscover_extensions(&report);
        for (id, result) in &health {
            if let Err(error) = result {
                wrong.push(format_finding(
                    &format!("`{id}` is not well"),
                    &error.message,
                    &error.hint,
                ));
            }
        }
        if let Some(error) = self.delivery_problem() {
            wrong.push(format_finding("Events are not delivered", &error.message, &error.hint));
        }
        let mut text = match wrong.len() {
            0 => "Everything is in order.\n".to_owned(),
            1 => format!("One thing is wrong:\n{}", wrong.concat()),
            count => format!("{count} things are wrong:\n{}", wrong.concat()),
        };
        let mut list = |title: &str, ids: Vec<String>| {
            if !ids.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{title}: {}", ids.join(", "));
            }
        };
        let loaded = report.loaded.iter();
        list("Loaded", loaded.map(|loaded| format!("{} {}", loaded.id, loaded.version)).collect());
        list("Agents", report.agents.iter().map(|agent| agent.id.to_string()).collect());
        list("Disabled", report.disabled.iter().map(ToString::to_string).collect());
        list("Wait for the next start", waiting);
        for note in &report.notes {
            text.push_str(&format_finding("Note", note, ""));
        }
        text
    }

    /// Extensions that are there and were not at the start, and everything that was rejected then or
    /// would be now.
    fn rediscover_extensions(&self, report: &LoadReport) -> (Vec<String>, Vec<String>) {
        let settings = self.shared.settings.load();
        let (home, installation) = (&self.shared.home, self.shared.installation.as_ref());
        let found = discover_manifests(home, installation, &settings.allow_shadowing);
        let loaded = report.loaded.iter().map(|loaded| loaded.id.as_str());
        let agents = report.agents.iter().map(|agent| agent.id.as_str());
        let disabled = report.disabled.iter().map(|id| id.as_str());
        let rejected = report.rejected.iter().map(|rejection| rejection.id.as_str());
        let known: BTreeSet<_> = loaded.chain(agents).chain(disabled).chain(rejected).collect();
        let new = found.manifests.keys().map(|id| id.as_str()).filter(|id| !known.contains(id));
        let waiting = new.map(str::to_owned).collect();
        let told = |rejection: &crate::report::LoadRejection| {
            let title = format!("`{}` was rejected in phase {}", rejection.id, rejection.phase);
            format_finding(&title, &rejection.reason, &rejection.hint)
        };
        let mut wrong: Vec<_> = report.rejected.iter().map(told).collect();
        let before: BTreeSet<_> = report.rejected.iter().map(|rejection| &rejection.id).collect();
        let newly = found.rejected.iter().filter(|rejection| !before.contains(&rejection.id));
        wrong.extend(newly.map(told));
        (waiting, wrong)
    }
}

/// One finding; what manifests and libraries say of themselves cannot steer anything.
fn format_finding(title: &str, reason: &str, hint: &str) -> String {
    let clean = |text: &str| {
        let text: String = text.chars().filter(|c| !c.is_control() || *c == '\n').collect();
        super::arguments::truncate(text.trim().replace('\n', "\n    ").as_str(), REASON)
    };
    let hint = match hint {
        "" => String::new(),
        hint => format!("  hint: {}\n", clean(hint)),
    };
    format!("- {title}: {}\n{hint}", clean(reason))
}
