//! The text of one source of policy.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::InvalidDomain;
use crate::isolation::{Guarantee, IsolationLevel};

/// The statements of one source; an absent key states nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyLayer {
    /// The files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemLayer>,
    /// The network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkLayer>,
    /// The limits of resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitLayer>,
    /// The weakest acceptable level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<IsolationLevel>,
    /// The required guarantees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require: Option<BTreeSet<Guarantee>>,
}

/// The statements on files; paths may begin with `~` or `.`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FilesystemLayer {
    /// The readable paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_read: Option<Vec<String>>,
    /// The unreadable paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_read: Vec<String>,
    /// The writable paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_write: Option<Vec<String>>,
    /// The read-only paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_write: Vec<String>,
}

/// The statements on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkLayer {
    /// The reachable hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// The unreachable hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_domains: Vec<String>,
    /// The sockets of other programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unix_sockets: Option<Vec<String>>,
    /// Whether the run may listen on its loopback interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_local_binding: Option<bool>,
}

/// The statements on limits, in the units of [`crate::ResourceLimits`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the fields are those of `ResourceLimits`")]
pub struct LimitLayer {
    pub seconds: Option<u64>,
    pub memory_mib: Option<u64>,
    pub tasks: Option<u64>,
    pub file_mib: Option<u64>,
    pub disk_mib: Option<u64>,
    pub files: Option<u64>,
    pub temporary_mib: Option<u64>,
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

/// The reason why a policy is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text is not JSON of the expected shape.
    #[error("the policy is not valid: {reason}")]
    Shape {
        /// The reason of the parser, with the key.
        reason: String,
    },
    /// A key would weaken the isolation in a way that is not supported.
    #[error("`{key}` is not supported: {reason}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// The alternative.
        reason: &'static str,
    },
    /// A path is not valid.
    #[error("`{key}`: the path `{path}` is not valid: {reason}")]
    Path {
        /// The list.
        key: &'static str,
        /// The entry.
        path: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A domain is not valid.
    #[error("`{key}`: {source}")]
    Domain {
        /// The list.
        key: &'static str,
        /// The reason.
        source: InvalidDomain,
    },
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
