//! The policy of a process extension: its own files, what its manifest requests, and the operator's
//! settings.

use std::path::{Path, PathBuf};

use skillhost_manifest::Manifest;
use skillhost_policy::{
    ComposedPolicy, FilesystemLayer, LimitLayer, NetworkLayer, OperatorPolicy, PolicyError,
    PolicyExcess, PolicyLayer, PolicyRequest, PolicyRoots, PolicySource, PolicyUse, RequestedLayer,
    ResourceLimits, SandboxPolicy,
};

use crate::settings::ProcessSettings;

/// The paths that belong to a process extension, absolute and without links.
#[derive(Debug, Clone)]
pub struct ProcessPaths {
    /// The copy of the approved files, which is the work directory.
    pub files: PathBuf,
    /// The files of its program and interpreters.
    pub readable: Vec<PathBuf>,
    /// Its data directory and its home.
    pub writable: Vec<PathBuf>,
}

/// The policy of a process extension.
#[derive(Debug, Clone)]
pub struct ProcessPolicy {
    /// The policy with the source of each permission.
    pub composed: ComposedPolicy,
    /// The requests of the manifest that the operator's settings do not grant.
    pub refused: Vec<PolicyExcess>,
}

/// Composes the policy of a process extension.
///
/// The manifest may request more than the default, and its approval grants that; where the
/// operator's settings state the same key, the settings decide alone.
///
/// # Errors
/// [`PolicyError`] for an invalid path or domain.
pub fn compose_process_policy(
    operator: &OperatorPolicy,
    manifest: &Manifest,
    settings: &ProcessSettings,
    paths: &ProcessPaths,
) -> Result<ProcessPolicy, PolicyError> {
    let mut base = SandboxPolicy { limits: default_limits(settings), ..SandboxPolicy::default() };
    base.filesystem.allow_write.clone_from(&paths.writable);
    base.filesystem.allow_read.clone_from(&paths.readable);
    base.filesystem.allow_read.push(paths.files.clone());
    let requested = manifest.sandbox.clone().unwrap_or_default();
    let roots = PolicyRoots { home: &operator.user_home, work: &paths.files };
    let stated = merge_statements(operator, manifest.id.as_str());
    let open = open_requests(&requested, &stated);
    let restrictions = keep_restrictions(&requested);
    let layers = [RequestedLayer { source: PolicySource::Manifest, layer: &restrictions }];
    let composed = operator.compose(PolicyRequest {
        policy_use: PolicyUse::Process,
        id: Some(manifest.id.as_str()),
        base,
        approved_layer: Some(&open),
        operator_layer: None,
        layers: &layers,
        work: &paths.files,
        aliases: &[],
    })?;
    // Everything that was granted is part of the policy, so that the excess is the rest.
    let refused = composed.policy.clone().narrow(&requested, roots)?;
    Ok(ProcessPolicy { composed, refused })
}

/// Returns all statements of the operator about a process extension.
fn merge_statements(operator: &OperatorPolicy, id: &str) -> PolicyLayer {
    let settings = &operator.settings;
    let layer = operator.file_layer.clone().unwrap_or_default();
    let layer = layer.overlaid_with(&settings.processes);
    match settings.extensions.get(id) {
        Some(specific) => layer.overlaid_with(specific),
        None => layer,
    }
}

/// Returns the limits of a process: none of time and output, and room for packages and databases.
fn default_limits(settings: &ProcessSettings) -> ResourceLimits {
    ResourceLimits {
        seconds: None,
        output_kib: None,
        memory_mib: settings.memory_limit_mib,
        file_mib: 1024,
        disk_mib: 4096,
        files: 100_000,
        ..ResourceLimits::default()
    }
}

/// Returns the requests about which the operator has stated nothing.
fn open_requests(requested: &PolicyLayer, stated: &PolicyLayer) -> PolicyLayer {
    let files = requested.filesystem.as_ref().map(|requested| {
        let stated = stated.filesystem.clone().unwrap_or_default();
        FilesystemLayer {
            allow_read: unless_stated(&requested.allow_read, &stated.allow_read),
            allow_write: unless_stated(&requested.allow_write, &stated.allow_write),
            ..FilesystemLayer::default()
        }
    });
    let network = requested.network.as_ref().map(|requested| {
        let stated = stated.network.clone().unwrap_or_default();
        NetworkLayer {
            allowed_domains: unless_stated(&requested.allowed_domains, &stated.allowed_domains),
            allow_unix_sockets: unless_stated(
                &requested.allow_unix_sockets,
                &stated.allow_unix_sockets,
            ),
            ..NetworkLayer::default()
        }
    });
    let limits = requested.limits.as_ref().map(|requested| {
        let stated = stated.limits.unwrap_or_default();
        LimitLayer {
            seconds: None,
            memory_mib: unless_stated(&requested.memory_mib, &stated.memory_mib),
            tasks: unless_stated(&requested.tasks, &stated.tasks),
            file_mib: unless_stated(&requested.file_mib, &stated.file_mib),
            disk_mib: unless_stated(&requested.disk_mib, &stated.disk_mib),
            files: unless_stated(&requested.files, &stated.files),
            temporary_mib: unless_stated(&requested.temporary_mib, &stated.temporary_mib),
            output_kib: None,
        }
    });
    PolicyLayer { filesystem: files, network, limits, ..PolicyLayer::default() }
}

fn unless_stated<T: Clone>(requested: &Option<T>, stated: &Option<T>) -> Option<T> {
    requested.clone().filter(|_| stated.is_none())
}

/// Returns the statements that only narrow.
fn keep_restrictions(requested: &PolicyLayer) -> PolicyLayer {
    let files = requested.filesystem.as_ref().map(|files| FilesystemLayer {
        allow_read: None,
        allow_write: None,
        ..files.clone()
    });
    let network = requested.network.as_ref().map(|network| NetworkLayer {
        allowed_domains: None,
        allow_unix_sockets: None,
        ..network.clone()
    });
    PolicyLayer { filesystem: files, network, limits: None, ..requested.clone() }
}

impl ProcessPolicy {
    /// Describes what the process may do beyond its own files, one line each, for an approval.
    #[must_use]
    pub fn describe(&self, paths: &ProcessPaths) -> Vec<String> {
        let policy = &self.composed.policy;
        let own: Vec<_> =
            paths.readable.iter().chain([&paths.files]).chain(&paths.writable).collect();
        let others = |list: &[PathBuf]| {
            let others = list.iter().filter(|path| !own.contains(path));
            others.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let files = &policy.filesystem;
        let network = &policy.network;
        let hosts = network.allowed_domains.iter().map(ToString::to_string).collect();
        let mut lines = Vec::new();
        for (what, names) in [
            ("may also read", others(&files.allow_read)),
            ("may also write", others(&files.allow_write)),
            ("may reach the hosts", hosts),
            ("may use the sockets", others(&network.allow_unix_sockets)),
            (
                "not granted by the settings of this home",
                self.refused.iter().map(|one| format!("{} {}", one.key, one.value)).collect(),
            ),
        ] {
            if !names.is_empty() {
                lines.push(format!("{what}: {}", names.join(", ")));
            }
        }
        if network.allowed_domains.is_empty() {
            lines.push("has no network".to_owned());
        }
        lines
    }
}

/// Returns a path without links, or the path itself if it does not exist.
#[must_use]
pub fn without_links(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use skillhost_policy::IsolationLevel;

    use super::*;
    use crate::settings::Settings;

    /// Composes the policy of a manifest with settings.
    fn compose(settings: &str, sandbox: &str) -> ProcessPolicy {
        let settings = Settings::parse(Path::new("skillhost.yaml"), settings).unwrap();
        let text = format!("id: a\nname: A\nentrypoint: {{command: [s]}}\nsandbox: {sandbox}\n");
        let manifest = skillhost_manifest::parse_manifest(&text).unwrap();
        let operator = OperatorPolicy { settings: settings.sandbox, ..OperatorPolicy::default() };
        compose_process_policy(&operator, &manifest, &settings.processes, &paths()).unwrap()
    }

    fn paths() -> ProcessPaths {
        ProcessPaths {
            files: "/h/copy".into(),
            readable: vec!["/opt/py".into()],
            writable: vec!["/h/data".into(), "/h/home".into()],
        }
    }

    #[test]
    fn manifest_requests_are_granted() {
        let policy = compose(
            "{}",
            "{filesystem: {allowRead: [/srv/wiki], allowWrite: [/srv/out], denyRead: [/srv/wiki/x]}, \
             network: {allowedDomains: [a.org]}, limits: {memoryMib: 2048}, minimum: namespaces}",
        );
        let SandboxPolicy { filesystem: files, network, limits, isolation, .. } =
            &policy.composed.policy;
        let list = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(files.allow_read, list(&["/opt/py", "/h/copy", "/srv/wiki"]));
        assert_eq!(files.allow_write, list(&["/h/data", "/h/home", "/srv/out"]));
        assert_eq!(files.deny_read, list(&["/srv/wiki/x"]));
        assert_eq!(network.allowed_domains.len(), 1);
        assert_eq!((limits.seconds, limits.output_kib, limits.memory_mib), (None, None, 2048));
        assert_eq!(isolation.minimum, IsolationLevel::Namespaces);
        assert_eq!(policy.refused, []);
        let explained = policy.composed.explain();
        let source = |key: &str, value: &str| {
            let row = explained.iter().find(|row| row.key == key && row.value == value);
            row.map(|row| row.source.clone())
        };
        for (key, value) in [
            ("allowRead", "/srv/wiki"),
            ("allowWrite", "/srv/out"),
            ("allowedDomains", "a.org"),
            ("memoryMib", "2048"),
        ] {
            assert_eq!(source(key, value).as_deref(), Some("manifest, approved"), "{key}");
        }
        assert_eq!(source("denyRead", "/srv/wiki/x").as_deref(), Some("manifest"));
        assert_eq!(source("allowRead", "/opt/py").as_deref(), Some("default"));
        assert_eq!(
            policy.describe(&paths()),
            ["may also read: /srv/wiki", "may also write: /srv/out", "may reach the hosts: a.org"]
        );
    }

    #[test]
    fn settings_bound_the_requests() {
        let policy = compose(
            "sandbox: {processes: {filesystem: {allowRead: [/srv]}, network: {allowedDomains: []}, \
             limits: {memoryMib: 64}}}",
            "{filesystem: {allowRead: [/srv/wiki, /etc]}, network: {allowedDomains: [a.org]}, \
             limits: {memoryMib: 2048}}",
        );
        assert!(policy.composed.policy.network.allowed_domains.is_empty());
        assert_eq!(policy.composed.policy.limits.memory_mib, 64);
        let refused: Vec<_> =
            policy.refused.iter().map(|one| format!("{} {}", one.key, one.value)).collect();
        assert_eq!(refused, ["allowRead /etc", "allowedDomains a.org", "memoryMib 2048"]);
        let only_one = compose(
            "sandbox: {extensions: {a: {network: {allowedDomains: [b.org]}}}}",
            "{network: {allowedDomains: [a.org]}}",
        );
        assert!(only_one.composed.policy.allows_host("b.org"));
        assert!(!only_one.composed.policy.allows_host("a.org"));
        let default = compose("{}", "{}");
        assert_eq!(default.describe(&paths()), ["has no network"]);
        assert_eq!(default.composed.policy.limits.memory_mib, 1024);
    }
}
