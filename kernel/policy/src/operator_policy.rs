//! The policy of one run: defaults, the operator's settings, and the layers of others.

use std::path::{Path, PathBuf};

use crate::allowed_entry::{AllowedEntry, UnusableEntry};
use crate::composition::{ComposedPolicy, PolicyComposer, PolicySource, SecretPath};
use crate::error::PolicyError;
use crate::layer::PolicyLayer;
use crate::paths::PolicyRoots;
use crate::policy::SandboxPolicy;
use crate::policy_use::PolicyUse;
use crate::settings::SandboxSettings;

/// A layer whose author can only narrow a policy.
#[derive(Debug, Clone, Copy)]
pub struct RequestedLayer<'a> {
    /// The author of the layer.
    pub source: PolicySource,
    /// The layer.
    pub layer: &'a PolicyLayer,
}

/// The facts of a run whose policy is composed.
#[derive(Debug, Clone)]
pub struct PolicyRequest<'a> {
    /// The code.
    pub policy_use: PolicyUse,
    /// The id of the skill, or of the extension for processes and builds.
    pub id: Option<&'a str>,
    /// The default policy: [`PolicyUse::default_policy`] with the paths that the caller requires.
    pub base: SandboxPolicy,
    /// Requests of a manifest that its approval grants, as far as the operator states nothing else.
    pub approved_layer: Option<&'a PolicyLayer>,
    /// A layer of the operator for this run only, over the settings.
    pub operator_layer: Option<&'a PolicyLayer>,
    /// The layers that only narrow.
    pub layers: &'a [RequestedLayer<'a>],
    /// The work directory of the run, which `.` names.
    pub work: &'a Path,
    /// Directories whose paths differ between runs, such as the copy of a skill, each with the name
    /// that stands for it in digests and lists.
    pub aliases: &'a [(&'a Path, &'a str)],
}

/// The operator's statements on foreign code at one moment.
#[derive(Debug, Clone, Default)]
pub struct OperatorPolicy {
    /// The settings.
    pub settings: SandboxSettings,
    /// The statements of the policy file that the settings name.
    pub file_layer: Option<PolicyLayer>,
    /// The keys of the policy file that have no effect.
    pub notes: Vec<String>,
    /// The user's home directory, which `~` names; without links.
    pub user_home: PathBuf,
    /// The paths that stay hidden unless a policy lists exactly them.
    pub secrets: Vec<SecretPath>,
    /// The allowed paths that cannot be used. A run to which one applies is not composed.
    pub unusable: Vec<UnusableEntry>,
}

impl OperatorPolicy {
    /// Tests whether the operator has turned containment off, in general or for a process extension.
    #[must_use]
    pub fn is_off(&self, policy_use: PolicyUse, id: Option<&str>) -> bool {
        let listed = |id: &str| self.settings.unsandboxed.iter().any(|listed| listed == id);
        self.settings.is_off || (policy_use == PolicyUse::Process && id.is_some_and(listed))
    }

    /// Composes the policy of a run: the base, the policy file, the settings of the use and of the id,
    /// and the layers that can only narrow the result.
    ///
    /// # Errors
    /// [`PolicyError`] for an invalid path or domain, or an allowed path that cannot be used.
    pub fn compose(&self, request: PolicyRequest<'_>) -> Result<ComposedPolicy, PolicyError> {
        let roots = PolicyRoots { home: &self.user_home, work: request.work };
        let policy_use = request.policy_use;
        let keeps_work = matches!(policy_use, PolicyUse::Process | PolicyUse::Build);
        let mut composer = PolicyComposer::new(request.base);
        // First, so that the operator's statements, which come later, take precedence.
        if let Some(layer) = request.approved_layer {
            composer.grant(PolicySource::ApprovedManifest, layer, roots, keeps_work)?;
        }
        if let Some(layer) = &self.file_layer {
            composer.grant(PolicySource::PolicyFile, layer, roots, keeps_work)?;
        }
        // The layers of the settings are one author's: a key of the more specific one replaces that
        // of the general one, and does not add to it.
        let general = self.settings.layer(policy_use);
        let specific = request.id.and_then(|id| self.specific_layer(policy_use, id));
        let merged = specific.map(|specific| general.clone().overlaid_with(specific));
        match (merged, policy_use.id_key()) {
            (Some(merged), Some(key)) => {
                composer.grant_overlaid(
                    (general, policy_use.settings_key()),
                    (&merged, key),
                    roots,
                    keeps_work,
                )?;
            }
            _ => composer.grant(
                PolicySource::Settings(policy_use.settings_key()),
                general,
                roots,
                keeps_work,
            )?,
        }
        if let Some(layer) = request.operator_layer {
            composer.grant(PolicySource::Operator, layer, roots, keeps_work)?;
        }
        for requested in request.layers {
            composer.narrow(requested.source, requested.layer, roots)?;
        }
        composer.hide(&self.secrets);
        composer.remove_denied_paths();
        let policy = composer.policy();
        if let Some(unusable) =
            self.unusable.iter().find(|one| one.entry.is_in(policy, policy_use, request.id))
        {
            return Err(PolicyError::Unusable(Box::new(unusable.clone())));
        }
        let mut aliases: Vec<(PathBuf, String)> = request
            .aliases
            .iter()
            .map(|(path, name)| (path.to_path_buf(), (*name).to_owned()))
            .collect();
        aliases.push((request.work.to_owned(), ".".to_owned()));
        Ok(composer.finish(aliases))
    }

    fn specific_layer(&self, policy_use: PolicyUse, id: &str) -> Option<&PolicyLayer> {
        match policy_use.id_key()? {
            "skills" => self.settings.skills.get(id),
            _ => self.settings.extensions.get(id),
        }
    }
}

impl OperatorPolicy {
    /// Lists the paths that the operator allows, except for those in the work directory of a run.
    #[must_use]
    pub fn list_allowed_entries(&self) -> Vec<AllowedEntry> {
        let settings = &self.settings;
        let uses = [
            PolicyUse::Script,
            PolicyUse::Handler,
            PolicyUse::Process,
            PolicyUse::Build,
            PolicyUse::Command,
        ];
        let general = uses.map(|one| (one.settings_key().to_owned(), settings.layer(one)));
        let specific = |key: &'static str, id: &String| format!("{key}.{id}");
        let skills = settings.skills.iter().map(|(id, layer)| (specific("skills", id), layer));
        let extensions =
            settings.extensions.iter().map(|(id, layer)| (specific("extensions", id), layer));
        let stated = general.into_iter().chain(skills).chain(extensions);
        let stated = stated.map(|(section, layer)| (Some(section), layer));
        let all = self.file_layer.iter().map(|layer| (None, layer)).chain(stated);
        all.flat_map(|(section, layer)| list_entries(section.as_deref(), layer, &self.user_home))
            .collect()
    }
}

fn list_entries(section: Option<&str>, layer: &PolicyLayer, home: &Path) -> Vec<AllowedEntry> {
    let files = layer.filesystem.as_ref();
    let network = layer.network.as_ref();
    let lists = [
        ("allowRead", files.and_then(|files| files.allow_read.as_ref())),
        ("allowWrite", files.and_then(|files| files.allow_write.as_ref())),
        ("allowUnixSockets", network.and_then(|network| network.allow_unix_sockets.as_ref())),
    ];
    let mut entries = Vec::new();
    for (key, list) in lists {
        for text in list.into_iter().flatten().filter(|text| text.starts_with(['/', '~'])) {
            let roots = PolicyRoots { home, work: home };
            // The text was checked when it was parsed.
            if let Ok(path) = roots.resolve(key, text) {
                let section = section.map(str::to_owned);
                entries.push(AllowedEntry { section, key, text: text.clone(), path });
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_entry::PathProblem;
    use crate::layer::parse_policy_json;

    fn operator(settings: &str) -> OperatorPolicy {
        let settings = serde_json::from_str(settings).unwrap();
        OperatorPolicy { settings, user_home: "/home/u".into(), ..OperatorPolicy::default() }
    }

    fn parse(text: &str) -> PolicyLayer {
        parse_policy_json(text).unwrap().layer
    }

    fn compose(
        operator: &OperatorPolicy,
        id: Option<&str>,
        layer: &str,
        work: &Path,
    ) -> ComposedPolicy {
        let copy = work.join("copy-of-skill");
        let mut base = PolicyUse::Script.default_policy(work);
        base.filesystem.allow_read.push(copy.clone());
        let layer = parse(layer);
        let request = PolicyRequest {
            policy_use: PolicyUse::Script,
            id,
            base,
            approved_layer: None,
            operator_layer: None,
            layers: &[RequestedLayer { source: PolicySource::Skill, layer: &layer }],
            work,
            aliases: &[(&copy, "@skill")],
        };
        operator.compose(request).unwrap()
    }

    fn source(composed: &ComposedPolicy, key: &str, value: &str) -> String {
        let list = composed.explain();
        let found = list.iter().find(|row| row.key == key && row.value == value);
        found.unwrap_or_else(|| panic!("{key} {value} in {list:?}")).source.clone()
    }

    const WIDE: &str = r#"{
        "scripts": {
            "filesystem": {"allowRead": ["/data"]},
            "network": {"allowedDomains": ["*.example.org"]},
            "limits": {"seconds": 60, "tasks": 10}
        },
        "skills": {"pdf": {"filesystem": {"allowRead": ["/fonts"]}, "limits": {"seconds": 90}}}
    }"#;

    #[test]
    fn settings_widen_and_layers_narrow() {
        let operator = operator(WIDE);
        let layer = r#"{"filesystem": {"allowRead": ["/data/in", "/etc/passwd"]},
            "network": {"allowedDomains": ["api.example.org", "evil.org"]}, "limits": {"seconds": 5, "tasks": 99}}"#;
        let composed = compose(&operator, Some("other"), layer, Path::new("/work"));
        let policy = &composed.policy;
        assert_eq!(policy.filesystem.allow_read, [Path::new("/data/in")]);
        assert!(policy.allows_host("api.example.org") && !policy.allows_host("b.example.org"));
        assert_eq!((policy.limits.seconds, policy.limits.tasks), (Some(5), 10));
        let excess: Vec<_> = composed.excess.iter().map(|e| (e.key, &*e.value)).collect();
        assert_eq!(
            excess,
            [("allowRead", "/etc/passwd"), ("allowedDomains", "evil.org"), ("tasks", "99")]
        );
        assert_eq!(source(&composed, "allowRead", "/data/in"), "skill");
        assert_eq!(source(&composed, "tasks", "10"), "settings: sandbox.scripts");
        assert_eq!(source(&composed, "allowWrite", "/work"), "default");
    }

    #[test]
    fn settings_of_one_skill_take_precedence() {
        let operator = operator(WIDE);
        let composed = compose(&operator, Some("pdf"), "{}", Path::new("/work"));
        let policy = &composed.policy;
        assert!(policy.filesystem.allow_read.contains(&"/fonts".into()));
        assert!(!policy.filesystem.allow_read.contains(&"/data".into()), "the key is replaced");
        assert_eq!((policy.limits.seconds, policy.limits.tasks), (Some(90), 10));
        assert_eq!(source(&composed, "seconds", "90"), "settings: sandbox.skills");
        assert_eq!(source(&composed, "tasks", "10"), "settings: sandbox.scripts");
        assert_eq!(source(&composed, "allowRead", "@skill"), "default");
        // A skill that does not exist is not an error.
        assert_eq!(
            compose(&operator, Some("gone"), "{}", Path::new("/work")).policy.limits.seconds,
            Some(60)
        );
    }

    #[test]
    fn digest_ignores_directory_of_run() {
        let operator = operator(WIDE);
        let digest =
            |work: &str, layer: &str| compose(&operator, None, layer, Path::new(work)).digest();
        assert_eq!(digest("/work/a", "{}"), digest("/work/b", "{}"));
        let order = |one: &str, two: &str| {
            let layer = format!("{{\"filesystem\": {{\"denyRead\": [\"{one}\", \"{two}\"]}}}}");
            digest("/work/a", &layer)
        };
        assert_eq!(order("/x", "/y"), order("/y", "/x"));
        assert_ne!(digest("/work/a", "{}"), digest("/work/a", r#"{"limits": {"seconds": 1}}"#));
        assert!(digest("/work/a", "{}").starts_with("sha256:"));
    }

    #[test]
    fn secrets_stay_hidden_unless_listed() {
        let secret = |path: &str, exists| SecretPath { path: path.into(), exists };
        let denied = |settings: &str| {
            let mut operator = operator(settings);
            operator.secrets = vec![
                secret("/home/u/.ssh", true),
                secret("/home/u/.aws", false),
                secret("/h/data", true),
            ];
            compose(&operator, None, "{}", Path::new("/work")).policy.filesystem.deny_read
        };
        let readable = |paths: &[&str]| {
            denied(
                &serde_json::json!({"scripts": {"filesystem": {"allowRead": paths}}}).to_string(),
            )
        };
        assert_eq!(readable(&["/"]), [Path::new("/home/u/.ssh"), Path::new("/h/data")]);
        assert_eq!(readable(&["~"]), [Path::new("/home/u/.ssh")]);
        assert_eq!(readable(&["~", "~/.ssh"]), Vec::<PathBuf>::new());
        assert_eq!(readable(&["~/.ssh/config"]), Vec::<PathBuf>::new());
        let writable = denied(r#"{"scripts": {"filesystem": {"allowWrite": ["~"]}}}"#);
        assert_eq!(writable, [Path::new("/home/u/.ssh"), Path::new("/home/u/.aws")]);
    }

    #[test]
    fn denied_directory_spares_required_paths() {
        let settings = r#"{"scripts": {"filesystem": {"allowRead": ["~/in/private", "~/out"],
            "denyRead": ["~/in", "/work"]}}}"#;
        let composed = compose(&operator(settings), None, "{}", Path::new("/work/thread"));
        let files = &composed.policy.filesystem;
        assert_eq!(
            files.allow_read,
            ["/work/thread/copy-of-skill", "/home/u/out"].map(PathBuf::from)
        );
        assert_eq!(files.allow_write, [Path::new("/work/thread")], "the run requires it");
        assert!(files.is_inside_denied(Path::new("/work/thread")));
        assert!(!files.is_inside_denied(Path::new("/home/u/out")));
    }

    #[test]
    fn unusable_entry_refuses_only_its_runs() {
        let settings = r#"{"scripts": {"filesystem": {"allowRead": ["~/data", "/ok", "./own"]}},
            "skills": {"pdf": {"filesystem": {"allowRead": ["/ok"]}}},
            "commands": {"network": {"allowUnixSockets": ["/sock"]}}}"#;
        let mut operator = operator(settings);
        let entries = operator.list_allowed_entries();
        let keys: Vec<_> = entries.iter().map(|entry| (entry.full_key(), &*entry.text)).collect();
        let list = "sandbox.scripts.filesystem.allowRead".to_owned();
        assert_eq!(keys[..2], [(list.clone(), "~/data"), (list, "/ok")]);
        assert_eq!(keys[2].0, "sandbox.commands.network.allowUnixSockets");
        assert_eq!(keys[3].0, "sandbox.skills.pdf.filesystem.allowRead");
        let entry = entries[0].clone();
        let problem = PathProblem::Missing;
        operator.unusable = vec![UnusableEntry { file: "/h/s.yaml".into(), entry, problem }];
        let work = Path::new("/work");
        let request = |policy_use: PolicyUse, id| PolicyRequest {
            policy_use,
            id,
            base: policy_use.default_policy(work),
            approved_layer: None,
            operator_layer: None,
            layers: &[],
            work,
            aliases: &[],
        };
        let error = operator.compose(request(PolicyUse::Script, Some("other"))).unwrap_err();
        let expected = "/h/s.yaml: sandbox.scripts.filesystem.allowRead: `~/data` does not exist";
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.hint_or(""), "create it or remove the entry");
        assert!(operator.compose(request(PolicyUse::Script, Some("pdf"))).is_ok(), "replaced");
        assert!(operator.compose(request(PolicyUse::Command, None)).is_ok(), "another use");
    }

    #[test]
    fn containment_is_off_only_where_stated() {
        let listed = operator(r#"{"unsandboxed": ["clock"]}"#);
        assert!(listed.is_off(PolicyUse::Process, Some("clock")));
        assert!(!listed.is_off(PolicyUse::Process, Some("other")));
        assert!(!listed.is_off(PolicyUse::Script, Some("clock")));
        let mut off = operator("{}");
        off.settings.is_off = true;
        assert!(off.is_off(PolicyUse::Script, None));
    }
}
