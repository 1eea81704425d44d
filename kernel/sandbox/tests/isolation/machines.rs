//! Machines that lack something, and runs at the end of what a machine has.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use skillhost_policy::{Guarantee, IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{EndCause, LevelSelection, RefusalKind, RevertAction, SandboxError};

use crate::fixture::{LAUNCHER, PYTHON, Victims, block_on, launcher, words};

/// The variable of the second run of a test.
const INNER: &str = "SANDBOX_ON_OTHER_MACHINE";

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

/// Runs one test of this module again, in a machine that a shell command prepares in `$0`'s place.
/// Returns `false` with a printed reason where that is not possible.
fn run_on_machine(test: &str, unshare: &[&str], prepare: &str) -> bool {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can change the machine");
        return false;
    }
    let script = format!("{prepare} || exit 77; exec \"$0\" --exact machines::{test}");
    let output = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(INNER, "1")
        .output();
    let Ok(output) = output else {
        println!("skipped: unshare is missing");
        return false;
    };
    if output.status.code() == Some(77) {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return false;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    true
}

/// Whether this is the second run of a test, on its own machine.
fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// In a container parts of `/proc` are covered, so that no other `/proc` may be mounted.
#[test]
fn container_with_covered_proc_falls_back() {
    if !is_inner() {
        let mount = "mount -t tmpfs none /proc/fs";
        run_on_machine("container_with_covered_proc_falls_back", &["-m"], mount);
        return;
    }
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
}

/// Some distributions and containers allow no user namespaces at all.
#[test]
fn machine_without_user_namespaces_falls_back() {
    if !is_inner() {
        let forbid = "echo 0 >/proc/sys/user/max_user_namespaces";
        run_on_machine("machine_without_user_namespaces_falls_back", &["-Ur"], forbid);
        return;
    }
    let victims = Victims::create();
    let script = victims.fill("cat '{V}/.env'; echo x >'{V}/new'; echo own >file; cat file");
    let spec = victims.spec(&words(&["/bin/sh", "-c", &script]), victims.policy());
    let exit = block_on(launcher().run(spec)).unwrap();
    assert_eq!((exit.isolation.level, &*exit.stdout), (IsolationLevel::Landlock, &b"own\n"[..]));
    let step = &exit.isolation.tried[0].step;
    assert!(["clone", "mounts: owners"].contains(&&**step), "{step}");
    let machine = launcher().describe_machine();
    assert_eq!(machine.best_level(), Some(IsolationLevel::Landlock), "{machine:?}");
    let gap = &machine.gaps[0];
    assert!(gap.finding.contains("user.max_user_namespaces = 0"), "{gap:?}");
    assert!(gap.remedy.contains("sysctl user.max_user_namespaces="), "{gap:?}");
}

/// In a container with a single user, root is the user of the kernel outside.
#[test]
fn container_with_one_user_has_namespaces() {
    if !is_inner() {
        run_on_machine("container_with_one_user_has_namespaces", &["-Urpf", "--mount-proc"], "id");
        return;
    }
    let victims = Victims::create();
    let script =
        victims.fill("cat '{V}/.env'; chmod 777 '{V}/.env'; echo own >file; cat file; id -u");
    let exit = victims
        .run(&words(&["/bin/sh", "-c", &script]), victims.policy(), IsolationLevel::Namespaces)
        .unwrap();
    assert_eq!(&*exit.stdout, b"own\n0\n", "{exit:?}");
    assert_eq!(launcher().describe_machine().best_level(), Some(IsolationLevel::Namespaces));
}

/// The profile of a container refuses namespaces and the inspection of other processes, as
/// `ptrace_scope` does. The filter of a run refuses both, so that a run is such a machine.
#[test]
fn machine_without_ptrace_and_namespaces_falls_back() {
    if is_inner() {
        let target = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
        assert!(std::fs::read(format!("/proc/{target}/environ")).is_err(), "ptrace is possible");
        let victims = Victims::create();
        let script = "sleep 60 & cat '{V}/.env'; echo own";
        let spec =
            victims.spec(&words(&["/bin/sh", "-c", &victims.fill(script)]), victims.policy());
        let exit = block_on(launcher().run(spec)).unwrap();
        assert_eq!(
            (exit.isolation.level, &*exit.stdout),
            (IsolationLevel::Landlock, &b"own\n"[..])
        );
        assert_eq!(exit.end.left_over, 1, "{:?}", exit.end);
        return;
    }
    let victims = Victims::create();
    let program = std::env::current_exe().unwrap();
    let own = |path: &Path| path.parent().unwrap().canonicalize().unwrap();
    let mut policy = victims.policy();
    policy.filesystem.allow_read.extend([own(&program), own(Path::new(LAUNCHER))]);
    policy.filesystem.allow_read.dedup();
    let test = "machines::machine_without_ptrace_and_namespaces_falls_back";
    let command = words(&[program.to_str().unwrap(), "--exact", test, "--nocapture"]);
    let mut spec = victims.spec(&command, policy);
    spec.levels.levels.truncate(1);
    spec.launch.environment.insert(INNER.into(), "1".into());
    let exit = block_on(launcher().run(spec)).unwrap();
    let text = String::from_utf8_lossy(&exit.stdout).into_owned();
    let errors = String::from_utf8_lossy(&exit.stderr);
    assert!(exit.end.exit_code == Some(0) && text.contains("1 passed"), "{text}{errors}");
}

/// A full disk is an error of the script. Protected files are restored or named, never cut.
#[test]
fn full_work_directory_is_an_error_of_program() {
    if !is_inner() {
        let test = "full_work_directory_is_an_error_of_program";
        run_on_machine(test, &["-m"], "mount -t tmpfs -o size=64m none /mnt");
        return;
    }
    let victims = Victims::create();
    let disk = tempfile::tempdir_in("/mnt").unwrap();
    let hooks = "#!/bin/sh\n".repeat(20_000);
    for level in LEVELS {
        let work = disk.path().join(level.as_str());
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("SKILL.md"), &hooks).unwrap();
        let mut policy = victims.policy();
        policy.filesystem.allow_write = vec![work.clone()];
        policy.limits.file_mib = 128;
        let script = "true >SKILL.md; head -c 200000000 /dev/zero >big; echo $?; echo end";
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), policy);
        spec.launch.folder = work.clone();
        spec.levels = LevelSelection { levels: vec![level], landlock_abi: None };
        let exit = block_on(launcher().run(spec)).unwrap();
        let errors = String::from_utf8_lossy(&exit.stderr);
        assert!(errors.contains("No space left"), "{level} {exit:?}");
        assert_eq!((&*exit.stdout, exit.end.ended_by), (&b"1\nend\n"[..], None), "{level}");
        let present = std::fs::read_to_string(work.join("SKILL.md")).ok();
        match level {
            IsolationLevel::Namespaces => assert_eq!(present, Some(hooks.clone())),
            _ => {
                // The disk has no space for it, and the script had emptied it.
                assert_eq!(present, None);
                let [file] = exit.end.reverted.as_slice() else { panic!("{:?}", exit.end) };
                assert_eq!(file.action, RevertAction::Failed);
                assert_eq!(file.path, work.join("SKILL.md").display().to_string());
            }
        }
        std::fs::remove_dir_all(&work).unwrap();
    }
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
