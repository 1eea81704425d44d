//! Tests of the findings and remedies for settings of the kernel.

use super::*;

fn failure(level: IsolationLevel, step: &str) -> FailedLevel {
    FailedLevel { level, step: step.to_owned(), error: "Operation not permitted".to_owned() }
}

fn machine(files: &[(&str, &str)]) -> KernelSettings {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    KernelSettings { is_root: false, ..KernelSettings::read(root.path()) }
}

/// The files of a machine, the step that fails, and parts of its finding and remedy.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);

#[test]
fn failed_namespaces_name_setting_and_remedy() {
    let apparmor = "proc/sys/kernel/apparmor_restrict_unprivileged_userns";
    let rows: [Row<'_>; 6] = [
        (&[(apparmor, "1\n")], "mounts: private", "apparmor_restrict", "  userns,"),
        (&[(apparmor, "0\n")], "clone", "clone: Operation", "CONFIG_USER_NS"),
        (
            &[("proc/sys/user/max_user_namespaces", "0\n")],
            "clone",
            "user.max_user_namespaces = 0",
            "sysctl user.max_user_namespaces=15000",
        ),
        (
            &[("proc/sys/kernel/unprivileged_userns_clone", "0\n")],
            "clone",
            "kernel.unprivileged_userns_clone = 0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (&[(".dockerenv", "")], "mounts: proc", "mounts: proc", "systempaths=unconfined"),
        (&[("run/.containerenv", "")], "clone", "clone", "seccomp profile"),
    ];
    for (files, step, finding, remedy) in rows {
        let failed = failure(IsolationLevel::Namespaces, step);
        let found = machine(files).explain_failure(&failed, 6);
        assert!(found.0.contains(finding) && found.1.contains(remedy), "{step} {found:?}");
    }
}

#[test]
fn failed_landlock_names_security_modules() {
    let failed = failure(IsolationLevel::Landlock, "landlock");
    let modules = [("sys/kernel/security/lsm", "lockdown,yama,apparmor\n")];
    let (finding, remedy) = machine(&modules).explain_failure(&failed, 0);
    assert!(finding.contains("`lockdown,yama,apparmor`"), "{finding}");
    assert!(remedy.contains("`lsm=landlock,lockdown,yama,apparmor`"), "{remedy}");
    let (_, remedy) = machine(&modules).explain_failure(&failed, 2);
    assert_eq!(remedy, "use Linux 6.2 or later");
}

#[test]
fn reachable_level_without_control_group_is_a_gap() {
    let level = |level, failure, cgroup| MachineLevel { level, failure, cgroup, missing: vec![] };
    let without = [level(IsolationLevel::Landlock, None, false)];
    let gaps = KernelSettings::default().explain(&without, 6);
    assert!(gaps.len() == 1 && gaps[0].remedy.contains("Delegate=yes"), "{gaps:?}");
    let with = [level(IsolationLevel::Landlock, None, true)];
    assert!(KernelSettings::default().explain(&with, 6).is_empty());
}
