//! Hostile and ordinary scripts at every level that this machine offers.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "reports of runs, on demand")]

mod denied_links;
mod figures;
mod fixture;
mod hostile;
mod machines;
mod network;
mod ordinary;
mod probe;
mod protected;
mod protocol;
mod refusals;
mod single_program;
mod sockets;

use std::path::Path;
use std::process::Command;

/// The tests that an ordinary user repeats, if this is root.
const HOSTILE_NAMESPACES: [&str; 3] = [
    "hostile::namespaces_contain_hostile_scripts",
    "hostile::old_landlock_contains_hostile_scripts",
    "hostile::plain_children_are_not_contained",
];
const HOSTILE_LANDLOCK: [&str; 4] = [
    "hostile::landlock_contains_hostile_scripts",
    "protocol::nested_run_reaches_landlock",
    "protocol::dropped_run_leaves_no_process",
    "refusals::refusals_name_cause_and_remedy",
];
const ORDINARY: [&str; 20] = [
    "machines::machine_without_landlock_has_namespaces_only",
    "machines::work_directory_on_other_file_system_is_writable",
    "network::curl_and_node_reach_allowed_host_only",
    "network::listed_socket_is_reachable",
    "network::local_binding_is_separate_from_hosts",
    "network::python_reaches_allowed_host_only",
    "ordinary::landlock_runs_ordinary_scripts",
    "ordinary::namespaces_run_ordinary_scripts",
    "ordinary::old_landlock_runs_ordinary_scripts",
    "probe::machine_description_agrees_with_runs",
    "probe::probe_reports_isolation_of_run",
    "protected::directories_are_checked_although_they_are_unreadable",
    "protected::moved_directory_keeps_protected_files",
    "protected::repository_elsewhere_must_be_harmless",
    "protected::restored_file_does_not_follow_link",
    "protocol::input_and_channel_reach_program",
    "refusals::new_repository_remains_without_programs",
    "refusals::protected_names_are_reverted",
    "sockets::sockets_of_other_programs_are_unreachable",
    "sockets::view_of_machine_has_no_sockets_of_services",
];

#[test]
fn ordinary_user_contains_hostile_scripts_in_namespaces() {
    repeat_as_user(&HOSTILE_NAMESPACES);
}

#[test]
fn ordinary_user_contains_hostile_scripts_at_landlock() {
    repeat_as_user(&HOSTILE_LANDLOCK);
}

#[test]
fn ordinary_user_runs_ordinary_scripts() {
    repeat_as_user(&ORDINARY);
}

/// Runs tests again as another user, who has other ways to be isolated.
fn repeat_as_user(tests: &[&str]) {
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
    let output = Command::new(home.path().join("tests"))
        .args(["--exact", "--test-threads=1", "--nocapture"])
        .args(tests)
        .uid(fixture::OTHER_USER)
        .gid(fixture::OTHER_USER)
        .env("TMPDIR", home.path())
        .env("SANDBOX_LAUNCHER", home.path().join("launcher"))
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that does not exist would be left out silently.
    let passed = format!("{} passed", tests.len());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(&passed), "{text}\n{errors}");
}
