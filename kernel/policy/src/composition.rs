//! The composed policy of one run, with the source of each permission.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::error::PolicyError;
use crate::layer::PolicyLayer;
use crate::narrowing::PolicyExcess;
use crate::paths::PolicyRoots;
use crate::policy::SandboxPolicy;

/// Names of files and directories with secrets. In the user's home and directly in an allowed
/// directory they are hidden unless a policy lists exactly their path.
pub const SECRET_NAMES: [&str; 6] = [".ssh", ".gnupg", ".aws", ".kube", ".docker", ".netrc"];

/// The origin of a permission, a denial or a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicySource {
    /// The default of the use, or a path that the run requires.
    Default,
    /// The file that `sandbox.policy_file` names.
    PolicyFile,
    /// A key below `sandbox` in the settings.
    Settings(&'static str),
    /// The operator's own statement for this run.
    Operator,
    /// The manifest of an extension.
    Manifest,
    /// A request of a manifest that the approval of the extension grants.
    ApprovedManifest,
    /// The frontmatter of a skill.
    Skill,
    /// The paths with secrets, which are hidden unless they are listed.
    Secrets,
}

impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::PolicyFile => f.write_str("settings: sandbox.policy_file"),
            Self::Settings(key) => write!(f, "settings: sandbox.{key}"),
            Self::Operator => f.write_str("this run's operator"),
            Self::Manifest => f.write_str("manifest"),
            Self::ApprovedManifest => f.write_str("manifest, approved"),
            Self::Skill => f.write_str("skill"),
            Self::Secrets => f.write_str("hidden unless listed"),
        }
    }
}

/// One permission, denial or limit of a policy and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyPermission {
    /// The key, such as `allowWrite` or `seconds`.
    pub key: &'static str,
    /// The path, the host, the number or the name.
    pub value: String,
    /// The origin.
    pub source: String,
}

/// A path with secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretPath {
    /// The absolute path.
    pub path: PathBuf,
    /// Whether it exists. If not, it is hidden only where a run could create it.
    pub exists: bool,
}

/// The policy of one run.
#[derive(Debug, Clone)]
pub struct ComposedPolicy {
    /// The policy.
    pub policy: SandboxPolicy,
    /// The requests of manifests and skills that it does not grant.
    pub excess: Vec<PolicyExcess>,
    sources: BTreeMap<(&'static str, String), PolicySource>,
    aliases: Vec<(PathBuf, String)>,
}

impl ComposedPolicy {
    /// Returns the digest of the policy, `sha256:` and hexadecimal digits.
    ///
    /// It is the same for the same policy in another work directory and in another copy of a skill,
    /// and does not depend on the order of entries.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(json!(self.statements()).to_string());
        digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Returns what the digest covers, sorted: each statement as `key=value`, with names for the
    /// directories that differ between runs.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        let mut entries: Vec<String> = list_statements(&self.policy)
            .into_iter()
            .map(|(key, value)| format!("{key}={}", self.name_path(&value)))
            .collect();
        entries.sort();
        entries.dedup();
        entries
    }

    /// Lists each permission, denial, limit and requirement with its origin.
    #[must_use]
    pub fn explain(&self) -> Vec<PolicyPermission> {
        let list = list_statements(&self.policy).into_iter();
        list.map(|(key, value)| {
            let source = self.sources.get(&(key, value.clone())).copied();
            let source = source.unwrap_or(PolicySource::Default).to_string();
            // The path of the work directory is information, that of a private copy is not.
            let named = self.name_path(&value);
            PolicyPermission {
                key,
                value: if named.starts_with('@') { named } else { value },
                source,
            }
        })
        .collect()
    }

    /// Lists the same as [`ComposedPolicy::explain`] without the path of the work directory, which is
    /// `.`: the policy of all runs.
    #[must_use]
    pub fn explain_all_runs(&self) -> Vec<PolicyPermission> {
        let mut list = self.explain();
        for permission in &mut list {
            permission.value = self.name_path(&permission.value);
        }
        list
    }

    /// Records the source of the statements that are new.
    pub(crate) fn record_new(&mut self, source: PolicySource) {
        for statement in list_statements(&self.policy) {
            self.sources.entry(statement).or_insert(source);
        }
    }

    /// Replaces a directory whose path differs between runs with its name.
    fn name_path(&self, value: &str) -> String {
        let path = Path::new(value);
        if !path.is_absolute() {
            return value.to_owned();
        }
        let found = self
            .aliases
            .iter()
            .filter(|(directory, _)| path.starts_with(directory))
            .max_by_key(|(directory, _)| directory.components().count());
        let below = found.and_then(|(directory, name)| {
            path.strip_prefix(directory).ok().map(|below| (name, below))
        });
        match below {
            Some((name, below)) if below.as_os_str().is_empty() => name.clone(),
            Some((name, below)) => format!("{name}/{}", below.display()),
            None => value.to_owned(),
        }
    }
}

/// Lists the statements of a policy as keys and values.
fn list_statements(policy: &SandboxPolicy) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    let files = &policy.filesystem;
    for (key, paths) in [
        ("allowRead", &files.allow_read),
        ("denyRead", &files.deny_read),
        ("allowWrite", &files.allow_write),
        ("denyWrite", &files.deny_write),
        ("allowUnixSockets", &policy.network.allow_unix_sockets),
    ] {
        list.extend(paths.iter().map(|path| (key, path.display().to_string())));
    }
    let network = &policy.network;
    for (key, domains) in
        [("allowedDomains", &network.allowed_domains), ("deniedDomains", &network.denied_domains)]
    {
        list.extend(domains.iter().map(|domain| (key, domain.to_string())));
    }
    list.push(("allowLocalBinding", network.allow_local_binding.to_string()));
    let limits = &policy.limits;
    let optional = |limit: Option<u64>| limit.map_or("none".to_owned(), |limit| limit.to_string());
    list.extend([
        ("seconds", optional(limits.seconds)),
        ("memoryMib", limits.memory_mib.to_string()),
        ("tasks", limits.tasks.to_string()),
        ("fileMib", limits.file_mib.to_string()),
        ("diskMib", limits.disk_mib.to_string()),
        ("files", limits.files.to_string()),
        ("temporaryMib", limits.temporary_mib.to_string()),
        ("outputKib", optional(limits.output_kib)),
        ("minimum", policy.isolation.minimum.to_string()),
    ]);
    // Only where it is denied: the digests of other policies stay as they are.
    if policy.deny_execution {
        list.push(("denyExecution", "true".to_owned()));
    }
    list.extend(
        policy.isolation.require.iter().map(|guarantee| ("require", guarantee.to_string())),
    );
    list
}

/// A policy that is being composed.
pub(crate) struct PolicyComposer {
    policy: SandboxPolicy,
    excess: Vec<PolicyExcess>,
    sources: BTreeMap<(&'static str, String), PolicySource>,
}

impl PolicyComposer {
    pub(crate) fn new(base: SandboxPolicy) -> Self {
        let mut composer = Self { policy: base, excess: Vec::new(), sources: BTreeMap::new() };
        composer.record(|_| PolicySource::Default);
        composer
    }

    /// Applies a layer of the operator.
    pub(crate) fn grant(
        &mut self,
        source: PolicySource,
        layer: &PolicyLayer,
        roots: PolicyRoots<'_>,
        keeps_work: bool,
    ) -> Result<(), PolicyError> {
        self.policy.grant(layer, roots, keeps_work)?;
        self.record(|_| source);
        Ok(())
    }

    /// Applies two layers of the settings that are already one.
    pub(crate) fn grant_overlaid(
        &mut self,
        (general, general_key): (&PolicyLayer, &'static str),
        (merged, specific_key): (&PolicyLayer, &'static str),
        roots: PolicyRoots<'_>,
        keeps_work: bool,
    ) -> Result<(), PolicyError> {
        let mut alone = self.policy.clone();
        alone.grant(general, roots, keeps_work)?;
        let of_general = list_statements(&alone);
        self.policy.grant(merged, roots, keeps_work)?;
        self.record(|statement| match of_general.contains(statement) {
            true => PolicySource::Settings(general_key),
            false => PolicySource::Settings(specific_key),
        });
        Ok(())
    }

    /// Narrows the policy, and keeps what the layer requests beyond.
    pub(crate) fn narrow(
        &mut self,
        source: PolicySource,
        layer: &PolicyLayer,
        roots: PolicyRoots<'_>,
    ) -> Result<(), PolicyError> {
        let more = self.policy.narrow(layer, roots)?;
        self.excess.extend(more);
        self.record(|_| source);
        Ok(())
    }

    /// Denies the secrets that are inside of an allowed directory and not listed themselves.
    pub(crate) fn hide(&mut self, secrets: &[SecretPath]) {
        let files = &mut self.policy.filesystem;
        for SecretPath { path: secret, exists } in secrets {
            let mut allowed = files.allow_read.iter().chain(&files.allow_write);
            let is_inside = allowed.clone().any(|path| secret.starts_with(path));
            let is_listed = allowed.any(|path| path == secret);
            // A path that does not exist could be created only in a writable directory.
            let could_appear = files.allow_write.iter().any(|path| secret.starts_with(path));
            let matters = could_appear || *exists;
            if is_inside && !is_listed && matters && !files.deny_read.contains(secret) {
                files.deny_read.push(secret.clone());
            }
        }
        self.record(|_| PolicySource::Secrets);
    }

    /// Removes the allowed paths at or below a denied one, except for those that the run requires:
    /// a denied directory hides what others have listed, and not the files of the program itself.
    pub(crate) fn remove_denied_paths(&mut self) {
        let files = &mut self.policy.filesystem;
        let sources = &self.sources;
        let denied = &files.deny_read;
        for (key, list) in
            [("allowRead", &mut files.allow_read), ("allowWrite", &mut files.allow_write)]
        {
            list.retain(|path| {
                let is_denied = denied.iter().any(|outer| path.starts_with(outer));
                let statement = (key, path.display().to_string());
                !is_denied || sources.get(&statement) == Some(&PolicySource::Default)
            });
        }
    }

    /// Returns the policy as it is now.
    pub(crate) fn policy(&self) -> &SandboxPolicy {
        &self.policy
    }

    pub(crate) fn finish(self, aliases: Vec<(PathBuf, String)>) -> ComposedPolicy {
        let Self { policy, excess, sources } = self;
        ComposedPolicy { policy, excess, sources, aliases }
    }

    /// Records the source of the statements that are new.
    fn record(&mut self, source: impl Fn(&(&'static str, String)) -> PolicySource) {
        for statement in list_statements(&self.policy) {
            let origin = source(&statement);
            self.sources.entry(statement).or_insert(origin);
        }
    }
}
