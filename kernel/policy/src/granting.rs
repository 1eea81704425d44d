//! The statements of the operator, who may also widen a policy.

use std::path::PathBuf;

use crate::domain::DomainPattern;
use crate::error::PolicyError;
use crate::isolation::IsolationLevel;
use crate::layer::{LimitLayer, PolicyLayer};
use crate::limits::ResourceLimits;
use crate::paths::{PolicyRoots, append_missing};
use crate::policy::SandboxPolicy;

impl PolicyLayer {
    /// Returns this layer with the statements of a more specific one of the same author: each key of
    /// that one replaces the key of this one, and lists of denied entries are joined.
    #[must_use]
    pub fn overlaid_with(mut self, specific: &Self) -> Self {
        if let Some(specific) = &specific.filesystem {
            let own = self.filesystem.get_or_insert_default();
            replace(&mut own.allow_read, specific.allow_read.as_ref());
            replace(&mut own.allow_write, specific.allow_write.as_ref());
            append_missing(&mut own.deny_read, &specific.deny_read);
            append_missing(&mut own.deny_write, &specific.deny_write);
        }
        if let Some(specific) = &specific.network {
            let own = self.network.get_or_insert_default();
            replace(&mut own.allowed_domains, specific.allowed_domains.as_ref());
            replace(&mut own.allow_unix_sockets, specific.allow_unix_sockets.as_ref());
            replace(&mut own.allow_local_binding, specific.allow_local_binding.as_ref());
            append_missing(&mut own.denied_domains, &specific.denied_domains);
        }
        if let Some(specific) = specific.limits {
            let own = self.limits.get_or_insert_default();
            for (own, specific) in [
                (&mut own.seconds, specific.seconds),
                (&mut own.memory_mib, specific.memory_mib),
                (&mut own.tasks, specific.tasks),
                (&mut own.file_mib, specific.file_mib),
                (&mut own.disk_mib, specific.disk_mib),
                (&mut own.files, specific.files),
                (&mut own.temporary_mib, specific.temporary_mib),
                (&mut own.output_kib, specific.output_kib),
            ] {
                replace(own, specific.as_ref());
            }
        }
        replace(&mut self.minimum, specific.minimum.as_ref());
        if let Some(more) = &specific.require {
            self.require.get_or_insert_default().extend(more.iter().copied());
        }
        self
    }
}

fn replace<T: Clone>(own: &mut Option<T>, specific: Option<&T>) {
    if let Some(value) = specific {
        *own = Some(value.clone());
    }
}

impl SandboxPolicy {
    /// Applies a layer of the operator, which may widen and narrow.
    ///
    /// Readable paths, denied entries and required guarantees are added; the other statements replace
    /// those of the policy. `allowWrite` replaces the work directory, which remains readable, unless
    /// `keeps_work`; writable paths outside of the work directory remain.
    ///
    /// # Errors
    /// [`PolicyError`] for an invalid path or domain; the policy is unchanged then.
    pub fn grant(
        &mut self,
        layer: &PolicyLayer,
        roots: PolicyRoots<'_>,
        keeps_work: bool,
    ) -> Result<(), PolicyError> {
        let mut wide = self.clone();
        let resolve = |key, list: &[String]| {
            list.iter().map(|text| roots.resolve(key, text)).collect::<Result<Vec<_>, _>>()
        };
        if let Some(files) = &layer.filesystem {
            let own = &mut wide.filesystem;
            append_missing(&mut own.deny_read, &resolve("denyRead", &files.deny_read)?);
            append_missing(&mut own.deny_write, &resolve("denyWrite", &files.deny_write)?);
            if let Some(readable) = &files.allow_read {
                append_missing(&mut own.allow_read, &resolve("allowRead", readable)?);
            }
            if let Some(writable) = &files.allow_write {
                let writable = resolve("allowWrite", writable)?;
                if !keeps_work {
                    let (work, kept): (Vec<PathBuf>, _) =
                        own.allow_write.drain(..).partition(|path| path.starts_with(roots.work));
                    own.allow_write = kept;
                    append_missing(&mut own.allow_read, &work);
                }
                append_missing(&mut own.allow_write, &writable);
                own.allow_read.retain(|path| !own.allow_write.contains(path));
            }
        }
        if let Some(network) = &layer.network {
            let own = &mut wide.network;
            append_missing(
                &mut own.denied_domains,
                &parse_domains("deniedDomains", &network.denied_domains)?,
            );
            if let Some(domains) = &network.allowed_domains {
                own.allowed_domains = parse_domains("allowedDomains", domains)?;
            }
            if let Some(sockets) = &network.allow_unix_sockets {
                own.allow_unix_sockets = resolve("allowUnixSockets", sockets)?;
            }
            own.allow_local_binding =
                network.allow_local_binding.unwrap_or(own.allow_local_binding);
        }
        if let Some(limits) = &layer.limits {
            set_limits(&mut wide.limits, limits);
        }
        if let Some(minimum) = layer.minimum {
            // There is no containment below it.
            wide.isolation.minimum = minimum.max(IsolationLevel::Landlock);
        }
        wide.isolation.require.extend(layer.require.iter().flatten().copied());
        *self = wide;
        Ok(())
    }
}

fn parse_domains(key: &'static str, list: &[String]) -> Result<Vec<DomainPattern>, PolicyError> {
    let parse = |text: &String| {
        DomainPattern::parse(text).map_err(|source| PolicyError::Domain { key, source })
    };
    list.iter().map(parse).collect()
}

fn set_limits(own: &mut ResourceLimits, layer: &LimitLayer) {
    own.seconds = layer.seconds.or(own.seconds);
    own.output_kib = layer.output_kib.or(own.output_kib);
    for (own, stated) in [
        (&mut own.memory_mib, layer.memory_mib),
        (&mut own.tasks, layer.tasks),
        (&mut own.file_mib, layer.file_mib),
        (&mut own.disk_mib, layer.disk_mib),
        (&mut own.files, layer.files),
        (&mut own.temporary_mib, layer.temporary_mib),
    ] {
        *own = stated.unwrap_or(*own);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layer::parse_policy_json;

    fn layer(text: &str) -> PolicyLayer {
        parse_policy_json(text).unwrap().layer
    }

    fn granted(text: &str, keeps_work: bool) -> SandboxPolicy {
        let mut policy = SandboxPolicy::with_work_directory(Path::new("/work"));
        policy.filesystem.allow_write.push("/build".into());
        let roots = PolicyRoots { home: Path::new("/home/u"), work: Path::new("/work") };
        policy.grant(&layer(text), roots, keeps_work).unwrap();
        policy
    }

    #[test]
    fn operator_widens_policy() {
        let text = r#"{"filesystem": {"allowRead": ["~/data"], "denyRead": ["~/data/x"]},
            "network": {"allowedDomains": ["a.org"], "allowLocalBinding": false},
            "limits": {"seconds": 99, "tasks": 9999}, "minimum": "namespaces", "require": ["modes"]}"#;
        let policy = granted(text, false);
        assert_eq!(policy.filesystem.allow_read, [Path::new("/home/u/data")]);
        assert_eq!(policy.filesystem.allow_write, [Path::new("/work"), Path::new("/build")]);
        assert!(policy.allows_host("a.org") && !policy.network.allow_local_binding);
        assert_eq!((policy.limits.seconds, policy.limits.tasks), (Some(99), 9999));
        assert_eq!(policy.isolation.require.len(), 5, "the required guarantees remain");
    }

    #[test]
    fn stated_writes_replace_work_directory() {
        let text = r#"{"filesystem": {"allowWrite": ["./out", "/data"]}}"#;
        let files = granted(text, false).filesystem;
        assert_eq!(files.allow_write, ["/build", "/work/out", "/data"].map(PathBuf::from));
        assert_eq!(files.allow_read, [Path::new("/work")], "it stays readable");
        let files = granted(text, true).filesystem;
        assert_eq!(files.allow_write, ["/work", "/build", "/work/out", "/data"].map(PathBuf::from));
        let files = granted(r#"{"filesystem": {"allowWrite": []}}"#, false).filesystem;
        assert_eq!(files.allow_write, [Path::new("/build")]);
    }

    #[test]
    fn specific_layer_replaces_keys_and_adds_denials() {
        let general = layer(
            r#"{"filesystem": {"allowRead": ["/a"], "denyRead": ["/a/x"]},
            "network": {"allowedDomains": ["a.org"]}, "limits": {"seconds": 1, "tasks": 2}}"#,
        );
        let specific = layer(
            r#"{"filesystem": {"allowRead": ["/b"], "denyRead": ["/b/x"]}, "limits": {"seconds": 3}}"#,
        );
        let both = general.overlaid_with(&specific);
        let expected = layer(
            r#"{"filesystem": {"allowRead": ["/b"], "denyRead": ["/a/x", "/b/x"]},
            "network": {"allowedDomains": ["a.org"]}, "limits": {"seconds": 3, "tasks": 2}}"#,
        );
        assert_eq!(both, expected);
    }
}
