//! The text of one source of policy.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checked_list::{domains, optional_domains, optional_paths, paths};
use crate::error::PolicyError;
use crate::isolation::{Guarantee, IsolationLevel};

/// Permissions and limits of foreign code; an absent key states nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyLayer {
    /// Readable and writable paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemLayer>,
    /// Reachable hosts and sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkLayer>,
    /// Limits of resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitLayer>,
    /// The weakest isolation level at which the code runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<IsolationLevel>,
    /// Guarantees that the level must have, in addition to the required ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require: Option<BTreeSet<Guarantee>>,
}

/// Readable and writable paths. They are literal; `~` is the user's home directory and `.` the work
/// directory of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FilesystemLayer {
    /// Readable paths, besides the libraries of the system.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_paths")]
    pub allow_read: Option<Vec<String>>,
    /// Unreadable paths inside of readable ones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "paths")]
    pub deny_read: Vec<String>,
    /// Writable paths, which are readable too.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_paths")]
    pub allow_write: Option<Vec<String>>,
    /// Read-only paths inside of writable ones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "paths")]
    pub deny_write: Vec<String>,
}

/// Reachable hosts and sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkLayer {
    /// Reachable hosts: names, or `*.` and a domain of two labels.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_domains")]
    pub allowed_domains: Option<Vec<String>>,
    /// Hosts of these that are not reachable.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "domains")]
    pub denied_domains: Vec<String>,
    /// Sockets of other programs to which the code may connect.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_paths")]
    pub allow_unix_sockets: Option<Vec<String>>,
    /// Permission to listen on the loopback interface of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_local_binding: Option<bool>,
}

/// Limits of resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LimitLayer {
    /// Time until the code is ended, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Memory of all processes together, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Size of a file, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mib: Option<u64>,
    /// Growth of the writable directories, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib: Option<u64>,
    /// Number of files by which the writable directories may grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Size of the private temporary directory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporary_mib: Option<u64>,
    /// Output on standard output and on standard error, each in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_kib: Option<u64>,
}

/// A layer and the keys that were read but have no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedLayer {
    /// The statements.
    pub layer: PolicyLayer,
    /// The keys of sandbox-runtime that have no effect here, as `section.key`.
    pub ignored: Vec<String>,
}

/// The keys of sandbox-runtime without effect here: of the file itself, `network`, `filesystem`.
const IGNORED: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "ignoreViolations",
            "mandatoryDenySearchDepth",
            "ripgrep",
            "allowPty",
            "seccomp",
            "bwrapPath",
            "socatPath",
            "allowAppleEvents",
            "enableWeakerNetworkIsolation",
        ],
    ),
    (
        "network",
        &[
            "httpProxyPort",
            "socksProxyPort",
            "mitmProxy",
            "parentProxy",
            "allowMachLookup",
            "allowAllUnixSockets",
            "strictAllowlist",
        ],
    ),
    ("filesystem", &["allowGitConfig"]),
];

/// Parses JSON with the keys of this crate or of Anthropic's sandbox-runtime.
///
/// # Errors
/// [`PolicyError`]: the shape, or a key that would weaken the isolation.
pub fn parse_policy_json(text: &str) -> Result<ParsedLayer, PolicyError> {
    let shape = |error: serde_json::Error| PolicyError::Shape { reason: error.to_string() };
    let mut root: Map<String, Value> = serde_json::from_str(text).map_err(shape)?;
    if is_true(root.remove("enableWeakerNestedSandbox").as_ref()) {
        let reason = "nested sandboxes reach the level `landlock` by themselves";
        return Err(PolicyError::Unsupported { key: "enableWeakerNestedSandbox", reason });
    }
    if is_true(root.get("network").and_then(|network| network.get("allowAllUnixSockets"))) {
        let reason = "list the sockets in `allowUnixSockets`";
        return Err(PolicyError::Unsupported { key: "allowAllUnixSockets", reason });
    }
    let mut ignored = Vec::new();
    for (section, keys) in IGNORED {
        let map = match section {
            "" => Some(&mut root),
            name => root.get_mut(name).and_then(Value::as_object_mut),
        };
        let Some(map) = map else { continue };
        for key in keys.iter().filter(|key| map.remove(**key).is_some()) {
            let dot = if section.is_empty() { "" } else { "." };
            ignored.push(format!("{section}{dot}{key}"));
        }
    }
    let layer = serde_json::from_value(Value::Object(root)).map_err(shape)?;
    Ok(ParsedLayer { layer, ignored })
}

fn is_true(value: Option<&Value>) -> bool {
    value.is_some_and(|value| *value == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_runtime_file_is_accepted() {
        let text = r#"{"network": {"allowedDomains": ["*.github.com"], "deniedDomains": [],
            "allowUnixSockets": ["/run/docker.sock"], "allowLocalBinding": false, "httpProxyPort": 8080},
            "filesystem": {"denyRead": ["~/.ssh"], "allowWrite": [".", "/tmp"], "denyWrite": [".env"]},
            "ignoreViolations": {"*": ["/usr/bin"]}, "enableWeakerNestedSandbox": false}"#;
        let parsed = parse_policy_json(text).unwrap();
        assert_eq!(parsed.ignored, ["ignoreViolations", "network.httpProxyPort"]);
        let files = parsed.layer.filesystem.unwrap();
        assert_eq!((files.allow_read, files.deny_read), (None, vec!["~/.ssh".to_owned()]));
        assert_eq!(parsed.layer.network.unwrap().allow_local_binding, Some(false));
    }

    #[test]
    fn weakening_and_unknown_keys_are_rejected() {
        for (text, part) in [
            (r#"{"enableWeakerNestedSandbox": true}"#, "enableWeakerNestedSandbox"),
            (r#"{"network": {"allowAllUnixSockets": true}}"#, "allowUnixSockets"),
            (r#"{"filesystem": {"allowWrit": []}}"#, "allowWrit"),
            (r#"{"limits": {"seconds": -1}}"#, "-1"),
            (r#"{"minimum": "strong"}"#, "strong"),
            ("[]", "expected a map"),
            ("{", "EOF"),
        ] {
            let error = parse_policy_json(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
