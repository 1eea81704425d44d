//! The health of a kernel's extensions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skillhost_home::{Home, load_operator_policy};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, ErrorKind};

use crate::load_report::LoadReport;
use crate::status::PendingChange;

/// The state of all extensions and of event delivery.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionDiagnosis {
    /// True if no extension was rejected, every library is healthy, events are delivered, every
    /// agent has a model, contained programs can run and no change is pending.
    pub healthy: bool,
    /// The load report of the start, with later reloads.
    pub report: LoadReport,
    /// The health of each library.
    pub health: BTreeMap<ExtensionId, ExtensionHealth>,
    /// The changes on disk that the running kernel has not applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingChange>,
    /// The reason why the running kernel delivers no events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<CallError>,
    /// The reasons why contained programs, or some of them, cannot run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containment: Vec<CallError>,
    /// The agents whose models cannot be used, in the order of their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<UnresolvedModel>,
}

/// An agent whose model is unknown or lacks its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnresolvedModel {
    /// The id of the agent.
    pub agent: ExtensionId,
    /// The name of the model, as the settings or the manifest have it.
    pub model: String,
    /// The error.
    pub message: String,
    /// The next step.
    pub hint: String,
}

/// The health of a library, as it reports it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExtensionHealth {
    /// True if the library can work.
    pub ok: bool,
    /// The error of an unhealthy library.
    pub error: Option<CallError>,
}

/// Returns the reasons why contained programs, or some of them, cannot run in a home. Blocks.
#[must_use]
pub fn find_containment_problems(home: &Home) -> Vec<CallError> {
    let invalid = |message: String, hint: String| {
        CallError::new(ErrorKind::InvalidArgument, message).with_hint(hint)
    };
    match load_operator_policy(home) {
        Ok(operator) if operator.settings.is_off => Vec::new(),
        Ok(operator) => {
            let unusable = operator.unusable.iter();
            unusable.map(|one| invalid(one.to_string(), one.hint().to_owned())).collect()
        }
        Err(error) => {
            vec![invalid(format!("no contained program can run: {error}"), error.hint())]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skillhost_home::HomeSource;

    use super::*;

    #[test]
    fn containment_problems_name_file_key_and_entry() {
        let settings = "sandbox: {policy_file: srt.json, scripts: {filesystem: {allowRead: \
                        [/usr, /no/such, ./own]}}}\n";
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sandbox")).unwrap();
        let home = Home::open(directory.path(), HomeSource::Argument).unwrap();
        let root = home.root().to_owned();
        fs::write(root.join("skillhost.yaml"), settings).unwrap();
        let problems = || {
            let problems = find_containment_problems(&home).into_iter();
            problems.map(|one| (one.message, one.hint)).collect::<Vec<_>>()
        };
        let [(message, hint)] = &problems()[..] else { panic!("one problem") };
        assert!(message.contains("no contained program can run") && message.contains("srt.json"));
        assert!(!hint.is_empty());
        std::os::unix::fs::symlink("/usr", root.join("linked")).unwrap();
        let linked = root.join("linked").display().to_string();
        let text = serde_json::json!({"filesystem": {"allowWrite": [linked]}});
        fs::write(root.join("srt.json"), text.to_string()).unwrap();
        let file = |name: &str| root.join(name).display().to_string();
        let expected = [
            (
                format!(
                    "{}: filesystem.allowWrite: `{linked}` leads through a symbolic link",
                    file("srt.json")
                ),
                "name the real path in the entry".to_owned(),
            ),
            (
                format!(
                    "{}: sandbox.scripts.filesystem.allowRead: `/no/such` does not exist",
                    file("skillhost.yaml")
                ),
                "create it or remove the entry".to_owned(),
            ),
        ];
        assert_eq!(problems(), expected);
        fs::write(root.join("skillhost.yaml"), "sandbox: off\n").unwrap();
        assert_eq!(problems(), []);
    }
}
