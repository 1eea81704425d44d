//! Machines that lack something, and runs at the end of what a machine has.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use skillhost_policy::{Guarantee, IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{EndCause, LevelSelection, RefusalKind, SandboxError};

use crate::fixture::{PYTHON, Victims, block_on, launcher, words};

const LEVELS: [IsolationLevel; 2] = [IsolationLevel::Namespaces, IsolationLevel::Landlock];

#[test]
fn machine_without_landlock_has_namespaces_only() {
    let victims = Victims::create();
    let script = "echo x >file; echo y >/usr/file; cat '{V}/.env'; cat file";
    let command = words(&["/bin/sh", "-c", &victims.fill(script)]);
    let exit =
        victims.run_with(&command, victims.policy(), IsolationLevel::Namespaces, Some(0)).unwrap();
    assert_eq!((exit.isolation.landlock_abi, &*exit.stdout), (0, &b"x\n"[..]), "{exit:?}");
    let refused = victims.run_with(&command, victims.policy(), IsolationLevel::Landlock, Some(0));
    let Err(SandboxError::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.kind, RefusalKind::Isolation);
    assert!(refusal.message.contains("version 3 is required, found none"), "{refusal}");
    assert!(refusal.hint.contains("`lsm="), "{}", refusal.hint);
}

/// In a container parts of `/proc` are covered, so that no other `/proc` may be mounted.
#[test]
fn container_with_covered_proc_falls_back() {
    const INNER: &str = "SANDBOX_INSIDE_CONTAINER";
    if std::env::var_os(INNER).is_some() {
        let report = launcher().probe(&SandboxPolicy::default()).unwrap();
        assert_eq!(report.level, IsolationLevel::Landlock);
        assert_eq!(report.tried[0].step, "mounts: proc", "{report:?}");
        let machine = launcher().describe_machine();
        assert_eq!(machine.best_level(), Some(IsolationLevel::Landlock));
        let gap = machine.gaps.iter().find(|gap| gap.level.is_some()).unwrap();
        assert!(!gap.remedy.is_empty(), "{gap:?}");
        let victims = Victims::create();
        let mut spec = victims.spec(&words(&["/bin/echo", "fell back"]), victims.policy());
        spec.policy.isolation.require.insert(Guarantee::Names);
        assert!(block_on(launcher().run(spec)).is_err(), "names are required");
        return;
    }
    let script = "mount -t tmpfs none /proc/fs && exec \"$0\" --exact machines::container_with_covered_proc_falls_back";
    if !rustix::process::getuid().is_root() {
        return;
    }
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(INNER, "1")
        .output();
    let Ok(output) = output else {
        println!("skipped: unshare is missing");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[test]
fn work_directory_on_other_file_system_is_writable() {
    let victims = Victims::create();
    let Ok(work) = tempfile::tempdir_in("/dev/shm") else { return };
    for level in LEVELS {
        let mut policy = victims.policy();
        policy.filesystem.allow_write = vec![work.path().to_owned()];
        let script = "echo x >file && mv file moved && mkdir -p a && cp moved a/b && cat a/b";
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), policy);
        spec.launch.folder = work.path().to_owned();
        spec.levels = LevelSelection { levels: vec![level], landlock_abi: None };
        let exit = block_on(launcher().run(spec)).unwrap();
        assert_eq!(&*exit.stdout, b"x\n", "{level} {exit:?}");
    }
    let found = std::fs::read_to_string(work.path().join("a/b")).unwrap();
    assert_eq!(found, "x\n");
}

/// A full private directory is an error of the program, not of the run.
#[test]
fn full_temporary_directory_is_an_error_of_program() {
    let victims = Victims::create();
    let mut policy = victims.policy();
    policy.limits.temporary_mib = 1;
    let script = "head -c 3000000 /dev/zero >/tmp/big; echo $?; wc -c </tmp/big; echo x >file";
    let command = words(&["/bin/sh", "-c", script]);
    let exit = victims.run(&command, policy, IsolationLevel::Namespaces).unwrap();
    assert!(String::from_utf8_lossy(&exit.stderr).contains("No space left"), "{exit:?}");
    assert_eq!(&*exit.stdout, b"1\n1048576\n");
    assert_eq!((exit.end.exit_code, exit.end.ended_by), (Some(0), None));
}

#[test]
fn gigabyte_of_output_ends_run_at_limit() {
    let victims = Victims::create();
    for level in LEVELS {
        let command = words(&["/bin/sh", "-c", "head -c 1000000000 /dev/zero"]);
        let start = Instant::now();
        let exit = victims.run(&command, victims.policy(), level).unwrap();
        assert_eq!(exit.end.ended_by, Some(EndCause::Output), "{level} {:?}", exit.end);
        assert_eq!(exit.stdout.len(), 1024 << 10);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

#[test]
fn binary_output_is_kept() {
    let victims = Victims::create();
    if !Path::new(PYTHON).exists() {
        println!("skipped: {PYTHON} is missing");
        return;
    }
    let script = "import sys; sys.stdout.buffer.write(bytes(range(256))*100); sys.stderr.buffer.write(b'\\xff\\0')";
    for level in LEVELS {
        let exit = victims.run(&words(&[PYTHON, "-c", script]), victims.policy(), level).unwrap();
        let expected: Vec<u8> = (0..=255).cycle().take(25_600).collect();
        assert_eq!((exit.stdout, &*exit.stderr), (expected, &b"\xff\0"[..]), "{level}");
    }
}
