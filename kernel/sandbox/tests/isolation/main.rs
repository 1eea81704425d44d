//! Hostile and ordinary scripts at every level that this machine offers.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "reports of runs, on demand")]

mod figures;
mod fixture;
mod hostile;
mod machines;
mod network;
mod ordinary;
mod probe;
mod protocol;
mod refusals;

use std::path::Path;
use std::process::Command;

/// The tests that an ordinary user repeats, if this is root.
const REPEATED: [&str; 16] = [
    "network::python_reaches_allowed_host_only",
    "network::curl_and_node_reach_allowed_host_only",
    "network::local_binding_is_separate_from_hosts",
    "network::listed_socket_is_reachable",
    "probe::probe_reports_isolation_of_run",
    "hostile::namespaces_contain_hostile_scripts",
    "hostile::landlock_contains_hostile_scripts",
    "hostile::old_landlock_contains_hostile_scripts",
    "ordinary::old_landlock_runs_ordinary_scripts",
    "hostile::plain_children_are_not_contained",
    "ordinary::namespaces_run_ordinary_scripts",
    "protocol::nested_run_reaches_landlock",
    "protocol::dropped_run_leaves_no_process",
    "refusals::protected_names_are_reverted",
    "refusals::refusals_name_cause_and_remedy",
    "ordinary::landlock_runs_ordinary_scripts",
];

/// Root runs the scripts again as another user, who has other ways to be isolated.
#[test]
fn ordinary_user_has_same_results() {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::getuid().is_root() {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let home = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir()
        .unwrap();
    std::os::unix::fs::chown(home.path(), Some(fixture::OTHER_USER), Some(fixture::OTHER_USER))
        .unwrap();
    // Both binaries may be where only root can go.
    let copies = [(&*program, "tests"), (Path::new(fixture::LAUNCHER), "launcher")];
    for (from, name) in copies {
        std::fs::copy(from, home.path().join(name)).unwrap();
    }
    let status = Command::new(home.path().join("tests"))
        .args(["--exact", "--test-threads=1", "--nocapture"])
        .args(REPEATED)
        .uid(fixture::OTHER_USER)
        .gid(fixture::OTHER_USER)
        .env("TMPDIR", home.path())
        .env("SANDBOX_LAUNCHER", home.path().join("launcher"))
        .current_dir("/")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
