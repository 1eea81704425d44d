//! Pipes, descriptors, cancellation and the reports of runs.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skillhost_policy::{Guarantee, IsolationLevel};
use skillhost_sandbox::{EndCause, InputMode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fixture::{LAUNCHER, Victims, block_on, launcher, short_limits, words};

const LEVELS: [IsolationLevel; 2] = [IsolationLevel::Namespaces, IsolationLevel::Landlock];

/// Waits until no process has the mark of a test.
fn await_end(victims: &Victims) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !victims.survivors().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", victims.survivors());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn report_names_level_and_gaps() {
    let victims = Victims::create();
    for level in LEVELS {
        let exit = victims.run(&words(&["/bin/true"]), victims.policy(), level).unwrap();
        let report = exit.isolation;
        assert_eq!((report.level, report.tried.len()), (level, 0));
        let lacks_modes = report.missing.contains(&Guarantee::Modes);
        assert_eq!(lacks_modes, level == IsolationLevel::Landlock, "{report:?}");
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.starts_with(&format!(r#"{{"level":"{level}","landlock_abi":"#)), "{text}");
    }
}

#[test]
fn input_and_channel_reach_program() {
    let victims = Victims::create();
    for level in LEVELS {
        let (mut own, theirs) = UnixStream::pair().unwrap();
        let script = "read word; read line <&3; echo $word; echo got $line >&3";
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
        spec.stdin = InputMode::Pipe;
        spec.channel = Some(theirs.into());
        spec.levels.levels = vec![level];
        let (output, end) = block_on(async {
            let mut child = launcher().spawn(spec).await.unwrap();
            own.write_all(b"question\n").unwrap();
            child.stdin.take().unwrap().write_all(b"input\n").await.unwrap();
            let mut output = String::new();
            child.stdout.take().unwrap().read_to_string(&mut output).await.unwrap();
            (output, child.wait().await.unwrap())
        });
        let mut answer = String::new();
        own.read_to_string(&mut answer).unwrap();
        assert_eq!((&*output, &*answer), ("input\n", "got question\n"), "{level} {end:?}");
        assert_eq!((end.exit_code, end.ended_by, end.left_over), (Some(0), None, 0));
    }
}

#[test]
fn cancelled_run_ends_at_once() {
    let victims = Victims::create();
    for level in LEVELS {
        let script = "sleep 1000 & sleep 1000 & echo ready; wait";
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
        spec.levels.levels = vec![level];
        let end = block_on(async {
            let mut child = launcher().spawn(spec).await.unwrap();
            let mut line = [0; 5];
            child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
            child.cancel(None).unwrap();
            child.wait().await.unwrap()
        });
        assert_eq!(end.ended_by, Some(EndCause::Cancelled), "{level}");
        assert!(victims.survivors().is_empty());
    }
}

#[test]
fn dropped_run_leaves_no_process() {
    let victims = Victims::create();
    for level in LEVELS {
        let script = "(setsid sleep 1000 &) ; echo ready; sleep 1000";
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
        spec.levels.levels = vec![level];
        block_on(async {
            let mut child = launcher().spawn(spec).await.unwrap();
            let mut line = [0; 5];
            child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
            assert!(!victims.survivors().is_empty(), "{level}");
        });
        await_end(&victims);
    }
}

/// Without its socket the launcher does nothing.
#[test]
fn launcher_requires_socket() {
    for redirection in ["3<&-", "3</dev/null", "3>&1"] {
        let script = format!("exec '{LAUNCHER}' --sandbox-launcher {redirection}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{redirection} {output:?}");
    }
}

/// A killed launcher takes a process namespace with it.
#[test]
fn killed_launcher_ends_namespace() {
    let victims = Victims::create();
    let script = "(setsid sleep 1000 &) ; echo ready; sleep 1000";
    let mut spec = victims.spec(&words(&["/bin/sh", "-c", script]), victims.policy());
    spec.levels.levels = vec![IsolationLevel::Namespaces];
    block_on(async {
        let mut child = launcher().spawn(spec).await.unwrap();
        let mut line = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
        let pid = Pid::from_raw(child.launcher_id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        assert!(child.wait().await.is_err());
    });
    await_end(&victims);
}

#[test]
fn limits_act_within_quarter_second() {
    let victims = Victims::create();
    for level in LEVELS {
        let mut policy = victims.policy();
        policy.limits = short_limits(1);
        let start = Instant::now();
        let exit = victims.run(&words(&["sleep", "100"]), policy, level).unwrap();
        assert_eq!(exit.end.ended_by, Some(EndCause::Time));
        let late = start.elapsed().saturating_sub(Duration::from_secs(1));
        // The limit is 250 ms on an idle machine.
        assert!(late < Duration::from_secs(2), "{level} {late:?}");
    }
}

/// Inside of a run no namespace can be made, so a launcher there falls back and says so.
#[test]
fn nested_run_reaches_landlock() {
    if std::env::var_os("SANDBOX_NESTED").is_some() {
        let victims = Victims::create();
        let spec = victims.spec(&words(&["/bin/echo", "nested"]), victims.policy());
        let exit = block_on(launcher().run(spec)).unwrap();
        println!("{} {}", exit.isolation.level, serde_json::to_string(&exit.isolation).unwrap());
        // With neither level nothing runs.
        let mut spec = victims.spec(&words(&["/bin/sh", "-c", "echo x >ran"]), victims.policy());
        spec.levels.landlock_abi = Some(0);
        let error = block_on(launcher().run(spec)).unwrap_err();
        assert!(error.to_string().starts_with("no isolation level is available"), "{error}");
        assert!(!victims.path("work/ran").exists());
        return;
    }
    let victims = Victims::create();
    let program = std::env::current_exe().unwrap();
    let name = program.to_str().unwrap();
    let test = "protocol::nested_run_reaches_landlock";
    let mut policy = victims.policy();
    let launcher_path = std::env::var("SANDBOX_LAUNCHER").unwrap_or(LAUNCHER.to_owned());
    policy.filesystem.allow_read.extend([program.clone(), launcher_path.clone().into()]);
    let mut spec = victims.spec(&words(&[name, "--exact", test, "--nocapture"]), policy);
    spec.levels.levels = vec![IsolationLevel::Namespaces];
    spec.launch.environment.extend([
        ("SANDBOX_NESTED".into(), "1".into()),
        ("SANDBOX_LAUNCHER".into(), launcher_path.into()),
    ]);
    let exit = block_on(launcher().run(spec)).unwrap();
    let output = String::from_utf8_lossy(&exit.stdout);
    assert_eq!(exit.end.exit_code, Some(0), "{exit:?} {output}");
    assert!(output.contains(r#"landlock {"level":"landlock""#), "{exit:?} {output}");
    assert!(output.contains(r#"{"level":"namespaces","step":"clone""#), "{output}");
}
