//! Remarks about the limits and permissions that a script met, each with the key that changes it.

use skillhost_policy::{IsolationLevel, ResourceLimits};
use skillhost_sandbox::EndCause;

use crate::script_result::ScriptResult;

/// The signal of a file that is too large.
const SIGXFSZ: i32 = 25;

/// The facts of a run.
pub(crate) struct HintFacts<'a> {
    pub(crate) result: &'a ScriptResult,
    pub(crate) limits: &'a ResourceLimits,
    /// The key of the skill below `sandbox.skills`.
    pub(crate) skill: &'a str,
}

/// Returns the remarks about a run.
pub(crate) fn list_hints(facts: &HintFacts<'_>) -> Vec<String> {
    let HintFacts { result, limits, skill } = facts;
    let more = |key: &str, value: u64| {
        format!(
            "the limit {key} is {value}; if the script needs more, the operator sets \
             sandbox.skills.{skill}.limits.{key} in skillhost.yaml, or gives the policy \
             {{\"limits\": {{\"{key}\": {}}}}} for one run",
            value.saturating_mul(4)
        )
    };
    let mut hints = Vec::new();
    match result.ended_by {
        Some(EndCause::Time) => hints.push(more("seconds", limits.seconds.unwrap_or_default())),
        Some(EndCause::Memory) => hints.push(more("memoryMib", limits.memory_mib)),
        Some(EndCause::Tasks) => hints.push(more("tasks", limits.tasks)),
        Some(EndCause::Disk) if result.signal == Some(SIGXFSZ) => {
            hints.push(more("fileMib", limits.file_mib));
        }
        Some(EndCause::Disk) => {
            hints.push(more("diskMib", limits.disk_mib));
            hints.push(more("files", limits.files));
        }
        Some(EndCause::Output) => {
            hints.push(more("outputKib", limits.output_kib.unwrap_or_default()));
        }
        Some(EndCause::Cancelled) | None => {}
    }
    if result.is_success() || result.ended_by.is_some() {
        return hints;
    }
    let says = |words: &[&str]| words.iter().any(|word| result.stderr.contains(word));
    if result.signal == Some(SIGXFSZ) || says(&["File too large", "EFBIG"]) {
        hints.push(more("fileMib", limits.file_mib));
    }
    if says(&["No space left on device", "ENOSPC"]) {
        hints.push(more("temporaryMib", limits.temporary_mib));
    }
    if says(&["MemoryError", "Cannot allocate memory", "out of memory", "ENOMEM"]) {
        hints.push(more("memoryMib", limits.memory_mib));
    }
    if says(&["Resource temporarily unavailable", "EAGAIN", "can't start new thread"]) {
        hints.push(more("tasks", limits.tasks));
    }
    if says(&[
        "Name or service not known",
        "Temporary failure in name resolution",
        "Network is unreachable",
        "ENOTFOUND",
        "EAI_AGAIN",
        "ENETUNREACH",
        "Could not resolve host",
    ]) {
        hints.push(format!(
            "there is no network; the operator may list hosts in \
             sandbox.skills.{skill}.network.allowedDomains"
        ));
    }
    if says(&["Read-only file system", "EROFS", "Permission denied", "EACCES", "PermissionError"]) {
        hints.push(format!(
            "only the work directory can be written, and only it, the skill's files and the system \
             can be read; the operator may list paths in sandbox.skills.{skill}.filesystem"
        ));
    }
    let is_weaker = result.isolation.level == IsolationLevel::Landlock;
    if is_weaker && says(&["SemLock", "/dev/shm", "'/tmp", "/tmp/", "socket"]) {
        hints.push(
            "at the isolation level `landlock` there is no shared memory, no /tmp and no socket; use \
             $TMPDIR, or a machine that has namespaces"
                .to_owned(),
        );
    }
    hints
}
