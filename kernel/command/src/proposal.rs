//! Permissions that a failed command seems to have lacked, as lines for the settings.
//!
//! The output names paths and hosts; nothing here looks at the disk, so that a command does not
//! learn from the proposal which paths exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use skillhost_policy::{DomainPattern, SandboxPolicy};

/// The proposed entries of one list.
const MAX_ENTRIES: usize = 4;

/// Messages of the operating system about a path that is hidden or read-only.
const PATH_MESSAGES: [&str; 5] = [
    "No such file or directory",
    "Permission denied",
    "Read-only file system",
    "Operation not permitted",
    "not a git repository",
];

/// Those of them about an attempt to write.
const WRITE_MESSAGES: [&str; 1] = ["Read-only file system"];

/// The ends of messages about a host that cannot be reached, before its name.
const HOST_MESSAGES: [&str; 5] = [
    "Could not resolve host: ",
    "Could not resolve hostname ",
    "getaddrinfo ENOTFOUND ",
    "getaddrinfo EAI_AGAIN ",
    "failed to lookup address information: ",
];

/// Returns the settings that would permit what the output complains about, or `None`.
pub(crate) fn propose_settings(output: &str, policy: &SandboxPolicy) -> Option<String> {
    let (mut read, mut write, mut hosts) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in output.lines().rev().take(200) {
        if PATH_MESSAGES.iter().any(|message| line.contains(message)) {
            let is_write = WRITE_MESSAGES.iter().any(|message| line.contains(message));
            for path in absolute_paths(line).filter(|path| !is_allowed(path, policy, is_write)) {
                if is_write {
                    write.insert(path)
                } else {
                    read.insert(path)
                };
            }
        }
        for message in HOST_MESSAGES {
            let Some((_, rest)) = line.split_once(message) else { continue };
            let word = rest.split(|c: char| c.is_whitespace() || ",)'\"".contains(c)).next();
            let name = word.unwrap_or_default().split(':').next().unwrap_or_default();
            let is_url = rest.starts_with(&format!("{name}://"));
            if let (Ok(host), false) = (DomainPattern::parse(name), is_url) {
                hosts.insert(host.as_str().to_owned());
            }
        }
    }
    let list = |entries: BTreeSet<String>, default: Option<&str>| {
        let entries = entries.into_iter().take(MAX_ENTRIES);
        let entries: Vec<_> = default.map(str::to_owned).into_iter().chain(entries).collect();
        serde_json::to_string(&entries).unwrap_or_default()
    };
    let mut files = Vec::new();
    if !read.is_empty() {
        files.push(format!("allowRead: {}", list(read, None)));
    }
    if !write.is_empty() {
        // The list replaces the default.
        files.push(format!("allowWrite: {}", list(write, Some("."))));
    }
    let mut lines = String::new();
    // Writing to a string cannot fail.
    if !files.is_empty() {
        let _ = write!(lines, "\n    filesystem: {{{}}}", files.join(", "));
    }
    if !hosts.is_empty() {
        let _ = write!(lines, "\n    network: {{allowedDomains: {}}}", list(hosts, None));
    }
    (!lines.is_empty()).then(|| format!("sandbox:\n  commands:{lines}"))
}

/// Returns the absolute paths in a line, without those of the machine's own file systems.
fn absolute_paths(line: &str) -> impl Iterator<Item = String> {
    let words =
        line.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '(' | ')' | ','));
    words.filter_map(|word| {
        let word = word.trim_end_matches([':', '.', ';']);
        let is_literal = word.starts_with('/')
            && word.len() > 1
            && !word.contains("..")
            && !word.contains(|c: char| c.is_control() || "*?[]{}<>|:$".contains(c));
        let is_special = ["/proc", "/sys", "/dev"].iter().any(|p| Path::new(word).starts_with(p));
        (is_literal && !is_special).then(|| word.to_owned())
    })
}

fn is_allowed(path: &str, policy: &SandboxPolicy, is_write: bool) -> bool {
    let files = &policy.filesystem;
    let reads = files.allow_read.iter().filter(|_| !is_write);
    files.allow_write.iter().chain(reads).any(|allowed| Path::new(path).starts_with(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propose(output: &str) -> Option<String> {
        propose_settings(output, &SandboxPolicy::with_work_directory(Path::new("/work")))
    }

    #[test]
    fn hidden_paths_and_hosts_are_proposed() {
        let output = "cat: /data/in.csv: No such file or directory
fatal: not a git repository: /main/.git/worktrees/a
curl: (6) Could not resolve host: api.example.org
touch: cannot touch '/opt/x': Read-only file system
";
        assert_eq!(
            propose(output).unwrap(),
            r#"sandbox:
  commands:
    filesystem: {allowRead: ["/data/in.csv","/main/.git/worktrees/a"], allowWrite: [".","/opt/x"]}
    network: {allowedDomains: ["api.example.org"]}"#
        );
    }

    #[test]
    fn other_failures_propose_nothing() {
        for output in [
            "",
            "/work/a.txt: No such file or directory",
            "a.txt: No such file or directory",
            "/proc/1/environ: Permission denied",
            "/data/../x: No such file or directory",
            "/data/$(x): Permission denied",
            "Could not resolve host: https://x",
            "error[E0308]: mismatched types in /data/src/main.rs",
        ] {
            assert_eq!(propose(output), None, "{output}");
        }
    }
}
