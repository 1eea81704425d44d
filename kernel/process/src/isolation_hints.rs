//! Remedies for processes that fail because of their isolation.

use std::path::Path;

use skillhost_payload::{CallError, ErrorKind};
use skillhost_sandbox::{IsolationReport, RefusalKind, SandboxError};

/// Parts of messages about an unreachable network, in lower case.
const NETWORK_SIGNS: [&str; 12] = [
    "enotfound",
    "eai_again",
    "getaddrinfo",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "enetunreach",
    "econnrefused",
    "connection refused",
    "could not connect",
    "failed to connect",
    "fetch failed",
];

/// Parts of messages about an inaccessible file, in lower case.
const FILE_SIGNS: [&str; 7] = [
    "enoent",
    "no such file",
    "eacces",
    "eperm",
    "erofs",
    "permission denied",
    "read-only file system",
];

const NETWORK_HINT: &str = "the process runs without network: list the hosts that it needs in its \
                            manifest, sandbox: {network: {allowedDomains: [HOST]}}";

const FILE_HINT: &str = "the process sees only its own files: list others that it needs in its \
                         manifest, sandbox: {filesystem: {allowRead: [PATH], allowWrite: [PATH]}}";

/// Converts the error of a start.
pub(crate) fn to_start_error(error: SandboxError, program: &Path) -> CallError {
    let name = program.display();
    match error {
        SandboxError::Refused(refusal) if refusal.kind == RefusalKind::Isolation => CallError {
            kind: ErrorKind::Unavailable,
            message: format!("not started without isolation: {refusal}"),
            hint: join_hints(
                &refusal.hint,
                "or list the extension in `sandbox: {unsandboxed: [ID]}` in skillhost.yaml, which \
                 runs it with all of your permissions",
            ),
        },
        SandboxError::Refused(refusal) if refusal.kind == RefusalKind::Policy => CallError {
            kind: ErrorKind::InvalidArgument,
            message: format!("its permissions are not valid: {refusal}"),
            hint: join_hints(
                &refusal.hint,
                "correct `sandbox` in its manifest, or `sandbox.processes` in skillhost.yaml",
            ),
        },
        SandboxError::Refused(refusal) => CallError {
            kind: ErrorKind::Io,
            message: refusal.to_string(),
            hint: join_hints(
                "check that it is executable and that its dependencies are installed",
                &refusal.hint,
            ),
        },
        SandboxError::Launcher(error) => CallError {
            kind: ErrorKind::Io,
            message: format!("{name}: {error}"),
            hint: "check that it is executable and that its dependencies are installed".to_owned(),
        },
    }
}

/// Adds the keys that a process may lack, if its error looks like a lack of network or files.
pub(crate) fn with_cause(error: CallError, isolation: &IsolationReport) -> CallError {
    if !isolation.is_contained() {
        return error;
    }
    let message = error.message.to_lowercase();
    let has_sign = |signs: &[&str]| signs.iter().any(|sign| message.contains(sign));
    let mut hint = error.hint;
    for (signs, more) in [(&NETWORK_SIGNS[..], NETWORK_HINT), (&FILE_SIGNS[..], FILE_HINT)] {
        if has_sign(signs) {
            hint = join_hints(&hint, more);
        }
    }
    // A server that waits for a network prints nothing.
    if error.kind == ErrorKind::Timeout && !hint.contains(NETWORK_HINT) {
        hint = join_hints(&hint, NETWORK_HINT);
    }
    CallError { hint, ..error }
}

/// Joins remedies, one per line.
fn join_hints(one: &str, other: &str) -> String {
    let both = [one, other].into_iter().filter(|hint| !hint.is_empty());
    both.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use skillhost_policy::IsolationLevel;

    use super::*;

    #[test]
    fn lack_of_network_or_files_names_key() {
        let error = |kind, message: &str| CallError {
            kind,
            message: message.to_owned(),
            hint: "check".to_owned(),
        };
        let sandboxed =
            IsolationReport { level: IsolationLevel::Landlock, ..IsolationReport::uncontained() };
        let hint = |kind, message| with_cause(error(kind, message), &sandboxed).hint;
        let network = hint(ErrorKind::Failed, "npm error code EAI_AGAIN");
        assert_eq!(network, format!("check\n{NETWORK_HINT}"));
        let files = hint(ErrorKind::Failed, "Error: ENOENT: no such file or directory");
        assert_eq!(files, format!("check\n{FILE_HINT}"));
        assert_eq!(hint(ErrorKind::Failed, "TypeError: x"), "check");
        assert_eq!(hint(ErrorKind::Timeout, "timed out"), format!("check\n{NETWORK_HINT}"));
        let plain = with_cause(error(ErrorKind::Failed, "ENOENT"), &IsolationReport::uncontained());
        assert_eq!(plain.hint, "check");
    }
}
