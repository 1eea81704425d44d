//! The intersection of a policy with a layer.

use crate::domain::DomainPattern;
use crate::error::PolicyError;
use crate::layer::{LimitLayer, PolicyLayer};
use crate::limits::ResourceLimits;
use crate::paths::{PolicyRoots, append_missing, intersect_paths};
use crate::policy::SandboxPolicy;

/// A request of a layer that the policy does not grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyExcess {
    /// The key, such as `allowWrite`.
    pub key: &'static str,
    /// The requested value.
    pub value: String,
}

impl SandboxPolicy {
    /// Narrows the policy to what the layer allows too, and returns what the layer requests beyond.
    ///
    /// # Errors
    /// [`PolicyError`] for an invalid path or domain; the policy is unchanged then.
    pub fn narrow(
        &mut self,
        layer: &PolicyLayer,
        roots: PolicyRoots<'_>,
    ) -> Result<Vec<PolicyExcess>, PolicyError> {
        let mut narrow = self.clone();
        let mut excess = Vec::new();
        if let Some(files) = &layer.filesystem {
            let resolve = |key, list: &[String]| {
                list.iter().map(|text| roots.resolve(key, text)).collect::<Result<Vec<_>, _>>()
            };
            let own = &mut narrow.filesystem;
            append_missing(&mut own.deny_read, &resolve("denyRead", &files.deny_read)?);
            append_missing(&mut own.deny_write, &resolve("denyWrite", &files.deny_write)?);
            // What may be written may be read, so a readable path may be inside of a writable one.
            let readable: Vec<_> = own.allow_read.iter().chain(&own.allow_write).cloned().collect();
            for (key, requested, allowed, wide) in [
                ("allowRead", &files.allow_read, &mut own.allow_read, &readable),
                (
                    "allowWrite",
                    &files.allow_write,
                    &mut own.allow_write,
                    &self.filesystem.allow_write,
                ),
            ] {
                let Some(requested) = requested else { continue };
                let requested = resolve(key, requested)?;
                let beyond = requested.iter().filter(|p| !wide.iter().any(|w| p.starts_with(w)));
                excess.extend(
                    beyond.map(|path| PolicyExcess { key, value: path.display().to_string() }),
                );
                *allowed = intersect_paths(wide, &requested);
            }
        }
        if let Some(network) = &layer.network {
            let domains = |key, list: &[String]| {
                let parse = |text: &String| {
                    DomainPattern::parse(text).map_err(|source| PolicyError::Domain { key, source })
                };
                list.iter().map(parse).collect::<Result<Vec<_>, _>>()
            };
            let own = &mut narrow.network;
            append_missing(
                &mut own.denied_domains,
                &domains("deniedDomains", &network.denied_domains)?,
            );
            if let Some(requested) = &network.allowed_domains {
                let requested = domains("allowedDomains", requested)?;
                let key = "allowedDomains";
                let beyond =
                    requested.iter().filter(|d| !own.allowed_domains.iter().any(|w| w.covers(d)));
                excess.extend(beyond.map(|name| PolicyExcess { key, value: name.to_string() }));
                own.allowed_domains = intersect_domains(&own.allowed_domains, &requested);
            }
            if let Some(requested) = &network.allow_unix_sockets {
                let key = "allowUnixSockets";
                let requested = requested
                    .iter()
                    .map(|text| roots.resolve(key, text))
                    .collect::<Result<Vec<_>, _>>()?;
                let wide = &own.allow_unix_sockets;
                let beyond = requested.iter().filter(|path| !wide.contains(path));
                excess.extend(
                    beyond.map(|path| PolicyExcess { key, value: path.display().to_string() }),
                );
                own.allow_unix_sockets.retain(|path| requested.contains(path));
            }
            own.allow_local_binding &= network.allow_local_binding.unwrap_or(true);
        }
        if let Some(limits) = &layer.limits {
            narrow_limits(&mut narrow.limits, limits, &mut excess);
        }
        let isolation = &mut narrow.isolation;
        isolation.minimum = isolation.minimum.max(layer.minimum.unwrap_or(isolation.minimum));
        isolation.require.extend(layer.require.iter().flatten().copied());
        *self = narrow;
        Ok(excess)
    }
}

fn narrow_limits(own: &mut ResourceLimits, layer: &LimitLayer, excess: &mut Vec<PolicyExcess>) {
    let optional = |own: &mut Option<u64>, key, requested: Option<u64>, more: &mut Vec<_>| {
        let Some(requested) = requested else { return };
        if own.is_some_and(|limit| requested > limit) {
            more.push(PolicyExcess { key, value: requested.to_string() });
        }
        *own = Some(own.map_or(requested, |limit| limit.min(requested)));
    };
    optional(&mut own.seconds, "seconds", layer.seconds, excess);
    optional(&mut own.output_kib, "outputKib", layer.output_kib, excess);
    for (key, own, requested) in [
        ("memoryMib", &mut own.memory_mib, layer.memory_mib),
        ("tasks", &mut own.tasks, layer.tasks),
        ("fileMib", &mut own.file_mib, layer.file_mib),
        ("diskMib", &mut own.disk_mib, layer.disk_mib),
        ("files", &mut own.files, layer.files),
        ("temporaryMib", &mut own.temporary_mib, layer.temporary_mib),
    ] {
        let mut limit = Some(*own);
        optional(&mut limit, key, requested, excess);
        *own = limit.unwrap_or(*own);
    }
}

fn intersect_domains(wide: &[DomainPattern], narrow: &[DomainPattern]) -> Vec<DomainPattern> {
    let mut both = Vec::new();
    for (one, other) in wide.iter().flat_map(|one| narrow.iter().map(move |other| (one, other))) {
        if one.covers(other) {
            both.push(other.clone());
        } else if other.covers(one) {
            both.push(one.clone());
        }
    }
    both.sort();
    both.dedup();
    both
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::isolation::{Guarantee, IsolationLevel};
    use crate::layer::parse_policy_json;

    fn roots() -> PolicyRoots<'static> {
        PolicyRoots { home: Path::new("/home/u"), work: Path::new("/work") }
    }

    fn narrowed(layer: &str) -> Result<(SandboxPolicy, Vec<PolicyExcess>), PolicyError> {
        let mut policy = SandboxPolicy::with_work_directory(Path::new("/work"));
        policy.filesystem.allow_read = vec!["/data".into(), "/home/u/a".into()];
        policy.network.allowed_domains = vec![DomainPattern::parse("*.example.org").unwrap()];
        let excess = policy.narrow(&parse_policy_json(layer)?.layer, roots())?;
        Ok((policy, excess))
    }

    #[test]
    fn lists_become_intersections() {
        let layer = r#"{"filesystem": {"allowRead": ["/data/sub", "~", "./in", "/etc"],
            "allowWrite": ["./out", "/data"], "denyWrite": [".env"]},
            "network": {"allowedDomains": ["api.example.org", "evil.org"]},
            "limits": {"seconds": 10, "tasks": 9999}, "minimum": "namespaces", "require": ["domains"]}"#;
        let (policy, excess) = narrowed(layer).unwrap();
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(policy.filesystem.allow_read, paths(&["/data/sub", "/home/u/a", "/work/in"]));
        assert_eq!(policy.filesystem.allow_write, paths(&["/work/out"]));
        assert_eq!(policy.filesystem.deny_write, paths(&["/work/.env"]));
        assert!(policy.allows_host("api.example.org") && !policy.allows_host("b.example.org"));
        assert_eq!((policy.limits.seconds, policy.limits.tasks), (Some(10), 256));
        assert_eq!(policy.isolation.minimum, IsolationLevel::Namespaces);
        assert!(policy.isolation.require.contains(&Guarantee::Domains));
        let keys: Vec<_> = excess.iter().map(|e| format!("{} {}", e.key, e.value)).collect();
        assert_eq!(
            keys,
            [
                "allowRead /home/u",
                "allowRead /etc",
                "allowWrite /data",
                "allowedDomains evil.org",
                "tasks 9999"
            ]
        );
    }

    #[test]
    fn second_narrowing_changes_nothing() {
        let layer = r#"{"filesystem": {"allowRead": ["/data/sub"], "allowWrite": []},
            "limits": {"memoryMib": 5}, "minimum": "none"}"#;
        let (once, _) = narrowed(layer).unwrap();
        let mut twice = once.clone();
        twice.narrow(&parse_policy_json(layer).unwrap().layer, roots()).unwrap();
        assert_eq!(once, twice);
        assert_eq!(once.isolation.minimum, IsolationLevel::Landlock, "a layer cannot weaken it");
        assert!(once.filesystem.allow_write.is_empty());
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for path in ["", "../up", "a/../../b", "*.txt", "~other/x", "a[0]"] {
            let layer = serde_json::json!({ "filesystem": { "allowRead": [path] } }).to_string();
            assert!(narrowed(&layer).is_err(), "{path}");
        }
    }
}
