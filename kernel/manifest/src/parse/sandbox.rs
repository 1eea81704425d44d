//! Parses the permissions that a process extension requests.

use std::collections::BTreeSet;

use skillhost_policy::{
    FilesystemLayer, Guarantee, IsolationLevel, LimitLayer, NetworkLayer, PolicyLayer,
};

use super::process::reject_unless_process;
use crate::read::{ErrorReport, MappingReader, NodeReader, ReadResult};
use crate::rules::{self, TextRule};
use crate::{ExtensionKind, ManifestErrorKind};

/// The levels that a manifest may require. `none` is a decision of the operator.
const LEVELS: [(&str, IsolationLevel); 2] =
    [("landlock", IsolationLevel::Landlock), ("namespaces", IsolationLevel::Namespaces)];

/// The format of a limit, in words.
const LIMIT: &str = "a whole number of at least 1";

/// Parses `sandbox`.
pub(super) fn parse_sandbox(
    fields: &MappingReader<'_>,
    kind: Option<&ExtensionKind>,
    report: &mut ErrorReport,
) -> ReadResult<Option<PolicyLayer>> {
    reject_unless_process("sandbox", fields, kind, report)?;
    fields.optional("sandbox", report, |at, report| {
        let expected = "a mapping with `filesystem`, `network`, `limits`, `minimum` and `require`";
        let fields = at.fields("sandbox", expected, report)?;
        let filesystem = fields.optional("filesystem", report, parse_files);
        let network = fields.optional("network", report, parse_network);
        let limits = fields.optional("limits", report, parse_limits);
        let minimum = fields.optional("minimum", report, |at, report| {
            at.choice(&LEVELS, "text, `landlock` or `namespaces`", report)
        });
        let require = fields.optional("require", report, |at, report| {
            let choices = Guarantee::ALL.map(|guarantee| (guarantee.as_str(), guarantee));
            let expected = "text, one of files, secrets, network, domains, deny_inside, tree, \
                            signals, modes, names, private, memory, tasks and control_group";
            let listed = at.list(report, |at, report| at.choice(&choices, expected, report));
            listed.map(BTreeSet::from_iter)
        });
        Ok(PolicyLayer {
            filesystem: filesystem?,
            network: network?,
            limits: limits?,
            minimum: minimum?,
            require: require?,
        })
    })
}

fn parse_files(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<FilesystemLayer> {
    let expected = "a mapping with `allowRead`, `denyRead`, `allowWrite` and `denyWrite`";
    let fields = at.fields("sandbox.filesystem", expected, report)?;
    let mut paths = |name| parse_texts(&fields, name, &rules::SANDBOX_PATH, report);
    let (allow_read, deny_read) = (paths("allowRead"), paths("denyRead"));
    let (allow_write, deny_write) = (paths("allowWrite"), paths("denyWrite"));
    Ok(FilesystemLayer {
        allow_read: allow_read?,
        deny_read: deny_read?.unwrap_or_default(),
        allow_write: allow_write?,
        deny_write: deny_write?.unwrap_or_default(),
    })
}

fn parse_network(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<NetworkLayer> {
    let expected = "a mapping with `allowedDomains`, `deniedDomains`, `allowUnixSockets` and \
                    `allowLocalBinding`";
    let fields = at.fields("sandbox.network", expected, report)?;
    let allowed = parse_texts(&fields, "allowedDomains", &rules::DOMAIN, report);
    let denied = parse_texts(&fields, "deniedDomains", &rules::DOMAIN, report);
    let sockets = parse_texts(&fields, "allowUnixSockets", &rules::SANDBOX_PATH, report);
    let binding = fields.optional("allowLocalBinding", report, NodeReader::boolean);
    Ok(NetworkLayer {
        allowed_domains: allowed?,
        denied_domains: denied?.unwrap_or_default(),
        allow_unix_sockets: sockets?,
        allow_local_binding: binding?,
    })
}

/// Parses the limits. A process runs until it is stopped, so that it has none of time or output.
fn parse_limits(at: &NodeReader<'_>, report: &mut ErrorReport) -> ReadResult<LimitLayer> {
    let expected = "a mapping with `memoryMib`, `tasks`, `fileMib`, `diskMib`, `files` and \
                    `temporaryMib`";
    let fields = at.fields("sandbox.limits", expected, report)?;
    let mut limit =
        |name| fields.optional(name, report, |at, report| at.positive::<u64>(LIMIT, report));
    let (memory_mib, tasks, file_mib) = (limit("memoryMib"), limit("tasks"), limit("fileMib"));
    let (disk_mib, files, temporary) = (limit("diskMib"), limit("files"), limit("temporaryMib"));
    Ok(LimitLayer {
        memory_mib: memory_mib?,
        tasks: tasks?,
        file_mib: file_mib?,
        disk_mib: disk_mib?,
        files: files?,
        temporary_mib: temporary?,
        ..LimitLayer::default()
    })
}

/// Parses a list of texts that satisfy a rule.
fn parse_texts(
    fields: &MappingReader<'_>,
    name: &str,
    rule: &TextRule,
    report: &mut ErrorReport,
) -> ReadResult<Option<Vec<String>>> {
    fields.optional(name, report, |at, report| {
        let texts = at.list(report, |at, report| at.text_matching(rule, report))?;
        match texts.len() {
            // Every entry is shown in an approval.
            0..=rules::MAX_SANDBOX_ENTRIES => Ok(texts),
            count => {
                let (field, value) = (at.path.clone(), format!("{count} entries"));
                let expected = rules::SANDBOX_ENTRIES;
                Err(at.error(ManifestErrorKind::Invalid { field, value, expected }, report))
            }
        }
    })
}
