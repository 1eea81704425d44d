//! The isolation that a run would reach, and what a machine offers.

use skillhost_policy::{Guarantee, IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{RefusalKind, SandboxLauncher};

use crate::fixture::{Victims, block_on, launcher, words};

#[test]
fn probe_reports_isolation_of_run() {
    let victims = Victims::create();
    let mut hidden = victims.policy();
    hidden.filesystem.deny_read.push(victims.path("work/private"));
    for policy in [SandboxPolicy::default(), victims.policy(), hidden] {
        let probed = launcher().probe(&policy).unwrap();
        let mut spec = victims.spec(&words(&["/bin/true"]), policy.clone());
        if policy == SandboxPolicy::default() {
            spec.launch.folder = "/usr".into();
        }
        let run = block_on(launcher().run(spec)).unwrap();
        assert_eq!(probed, run.isolation);
        assert_eq!(launcher().probe(&policy).unwrap(), probed, "the kept result");
    }
}

#[test]
fn probe_refuses_as_run_would() {
    let victims = Victims::create();
    let mut missing = victims.policy();
    missing.filesystem.allow_read.push("/no/such".into());
    let refusal = launcher().probe(&missing).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Policy, "{refusal}");
    let mut demanding = victims.policy();
    demanding.isolation.minimum = IsolationLevel::Landlock;
    demanding.isolation.require.extend([Guarantee::Names, Guarantee::ControlGroup]);
    match launcher().probe(&demanding) {
        Ok(report) => assert!(report.cgroup),
        Err(refusal) => {
            assert_eq!(refusal.kind, RefusalKind::Isolation, "{refusal}");
            assert!(refusal.tried.iter().any(|level| level.step == "require"), "{refusal:?}");
        }
    }
}

/// A refusal is not kept: what was missing may exist now.
#[test]
fn probe_notices_remedy() {
    let victims = Victims::create();
    let mut policy = victims.policy();
    let late = victims.path("late");
    policy.filesystem.allow_read.push(late.clone());
    assert!(launcher().probe(&policy).is_err());
    std::fs::create_dir(late).unwrap();
    assert!(launcher().probe(&policy).is_ok());
}

#[test]
fn program_that_is_no_launcher_is_refused() {
    for program in ["/bin/true", "/no/such/launcher"] {
        let launcher = SandboxLauncher::from_program(program.into());
        let refusal = launcher.probe(&SandboxPolicy::default()).unwrap_err();
        assert_eq!((refusal.kind, &*refusal.step), (RefusalKind::Isolation, "launcher"));
    }
}

#[test]
fn machine_description_agrees_with_runs() {
    let machine = launcher().describe_machine();
    assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    assert_eq!(machine.levels.len(), 2);
    let best = launcher().probe(&SandboxPolicy::default()).unwrap();
    assert_eq!(machine.best_level(), Some(best.level));
    for level in &machine.levels {
        let gap = machine.gaps.iter().find(|gap| gap.level == Some(level.level));
        assert_eq!(level.failure.is_some(), gap.is_some(), "{machine:?}");
    }
}
