//! Programs that may start no other one.

use skillhost_policy::{IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{RefusalKind, SandboxError};

use crate::fixture::{Victims, words};

const LEVELS: [IsolationLevel; 2] = [IsolationLevel::Namespaces, IsolationLevel::Landlock];

fn alone(victims: &Victims) -> SandboxPolicy {
    SandboxPolicy { deny_execution: true, ..victims.policy() }
}

#[test]
fn program_starts_no_other_one() {
    let victims = Victims::create();
    let mut tried = 0;
    for level in LEVELS {
        let run = |text: &str, policy: SandboxPolicy| {
            victims.run(&words(&["/bin/bash", "-c", text, "name", "an argument"]), policy, level)
        };
        // A machine without the level has no run at all.
        let Ok(open) = run("/bin/true && echo \"$1\"", victims.policy()) else { continue };
        tried += 1;
        assert_eq!(open.stdout, b"an argument\n");
        let text = "/bin/true && echo STARTED; (exec /bin/bash -c 'echo STARTED'); \
                    (/bin/echo STARTED &) ; echo \"$1 $MARK\"; exit 7";
        let exit = run(text, alone(&victims)).unwrap();
        let stdout = String::from_utf8_lossy(&exit.stdout);
        assert!(!stdout.contains("STARTED"), "{level}: {stdout}");
        assert!(stdout.starts_with("an argument "), "{level}: {stdout}");
        assert_eq!(exit.end.exit_code, Some(7), "{level}");
        let stderr = String::from_utf8_lossy(&exit.stderr);
        assert!(stderr.contains("Operation not permitted"), "{level}: {stderr}");
        // The start directory and the end by a signal are those of other runs.
        let exit = run("echo \"$PWD\"; kill -TERM $$", alone(&victims)).unwrap();
        let work = format!("{}\n", victims.path("work").display());
        assert_eq!(String::from_utf8_lossy(&exit.stdout), work, "{level}");
        assert_eq!(exit.end.signal, Some(15), "{level}");
    }
    assert!(tried > 0, "the machine has neither level");
}

#[test]
fn missing_program_is_named() {
    let victims = Victims::create();
    for level in LEVELS {
        if victims.run(&words(&["/bin/true"]), victims.policy(), level).is_err() {
            continue;
        }
        for (program, reason) in
            [("/no/such/program", "No such file or directory"), ("bash", "needs an absolute path")]
        {
            let error = victims.run(&words(&[program]), alone(&victims), level).unwrap_err();
            let SandboxError::Refused(refusal) = error else { panic!("{error}") };
            assert_eq!(refusal.kind, RefusalKind::Start, "{level}: {refusal}");
            assert!(refusal.to_string().contains(reason), "{level}: {refusal}");
        }
    }
}
