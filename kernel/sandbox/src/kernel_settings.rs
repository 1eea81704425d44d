//! The settings of the kernel that isolation depends on, and their remedies.

use std::fs;
use std::path::Path;

use skillhost_policy::IsolationLevel;

use crate::isolation::FailedLevel;
use crate::machine::{IsolationGap, MachineLevel};

#[cfg(test)]
mod tests;

/// The first steps of the level `namespaces`, which fail where namespaces are not allowed.
const NAMESPACE_STEPS: [&str; 8] =
    ["clone", "mounts", "owners", "setgroups", "uid_map", "gid_map", "loopback", "host name"];

/// The settings of the kernel as far as they can be read.
#[derive(Debug, Default)]
pub(crate) struct KernelSettings {
    pub(crate) kernel: String,
    /// `user.max_user_namespaces`.
    max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, a setting of Debian.
    unprivileged_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, a setting of Ubuntu.
    apparmor_restricts: Option<u64>,
    /// The security modules, separated by commas.
    security_modules: Option<String>,
    is_container: bool,
    is_root: bool,
    /// The file of this program.
    program: String,
}

impl KernelSettings {
    /// Reads the settings below a root directory.
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path: &str| {
            fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned())
        };
        let number = |path: &str| text(path).and_then(|text| text.parse().ok());
        let program = std::env::current_exe().unwrap_or_default();
        Self {
            kernel: format!("Linux {}", text("proc/sys/kernel/osrelease").unwrap_or_default()),
            max_user_namespaces: number("proc/sys/user/max_user_namespaces"),
            unprivileged_clone: number("proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            security_modules: text("sys/kernel/security/lsm"),
            is_container: ["run/.containerenv", ".dockerenv", "run/systemd/container"]
                .iter()
                .any(|path| root.join(path).exists()),
            is_root: rustix::process::geteuid().is_root(),
            program: program.display().to_string(),
        }
    }

    /// Explains the levels that cannot be reached, and limits that no control group keeps.
    pub(crate) fn explain(&self, levels: &[MachineLevel], landlock_abi: i32) -> Vec<IsolationGap> {
        let mut gaps = Vec::new();
        for found in levels {
            let Some(failure) = &found.failure else { continue };
            let (finding, remedy) = self.explain_failure(failure, landlock_abi);
            gaps.push(IsolationGap { level: Some(found.level), finding, remedy });
        }
        let mut reached = levels.iter().filter(|level| level.failure.is_none()).peekable();
        if reached.peek().is_some() && reached.all(|level| !level.cgroup) {
            gaps.push(IsolationGap {
                level: None,
                finding: "no control group with `memory` and `pids` is delegated: limits are checked every 20 ms"
                    .to_owned(),
                remedy: "start the program with `systemd-run --user --scope -p Delegate=yes`, or with `Delegate=yes` in its service"
                    .to_owned(),
            });
        }
        gaps
    }

    /// Returns the cause of a failed level and its remedy.
    pub(crate) fn explain_failure(
        &self,
        failure: &FailedLevel,
        landlock_abi: i32,
    ) -> (String, String) {
        let error = format!("{}: {}", failure.step, failure.error);
        let begins = |steps: &[&str]| steps.iter().any(|step| failure.step.starts_with(step));
        match failure.level {
            IsolationLevel::Namespaces if begins(&NAMESPACE_STEPS) => {
                self.explain_namespaces(error)
            }
            IsolationLevel::Landlock if begins(&["landlock"]) => {
                self.explain_landlock(error, landlock_abi)
            }
            _ => (error, String::new()),
        }
    }

    fn explain_namespaces(&self, error: String) -> (String, String) {
        let setting = |name: &str, value: u64| format!("{name} = {value} ({error})");
        if self.max_user_namespaces == Some(0) {
            let finding = setting("user.max_user_namespaces", 0);
            return (finding, set_kernel_parameter("user.max_user_namespaces=15000"));
        }
        if self.unprivileged_clone == Some(0) && !self.is_root {
            let finding = setting("kernel.unprivileged_userns_clone", 0);
            return (finding, set_kernel_parameter("kernel.unprivileged_userns_clone=1"));
        }
        if let Some(value) = self.apparmor_restricts.filter(|value| *value > 0)
            && !self.is_root
        {
            let finding = setting("kernel.apparmor_restrict_unprivileged_userns", value);
            return (finding, self.describe_apparmor_profile());
        }
        if self.is_container && error.starts_with("mounts") {
            let remedy = "a container hides parts of /proc, so that no other can be mounted: start it with `--security-opt systempaths=unconfined` (Docker, Podman), or with `procMount: Unmasked` (Kubernetes)";
            return (error, remedy.to_owned());
        }
        if self.is_container {
            let remedy = "start the container with a seccomp profile that allows user namespaces, such as `--security-opt seccomp=unconfined`";
            return (error, remedy.to_owned());
        }
        let remedy = "allow user namespaces to this program: a kernel with CONFIG_USER_NS, and no security module that denies them";
        (error, remedy.to_owned())
    }

    /// Returns the profile that grants user namespaces to this program only.
    fn describe_apparmor_profile(&self) -> String {
        let program = &self.program;
        format!(
            "write this profile to /etc/apparmor.d/skillhost, and load it with `sudo apparmor_parser -r /etc/apparmor.d/skillhost`:\n\
             abi <abi/4.0>,\n\
             include <tunables/global>\n\
             profile skillhost \"{program}\" flags=(unconfined) {{\n  userns,\n}}"
        )
    }

    fn explain_landlock(&self, error: String, version: i32) -> (String, String) {
        if version > 0 {
            return (error, "use Linux 6.2 or later".to_owned());
        }
        match &self.security_modules {
            Some(modules) if !modules.split(',').any(|module| module == "landlock") => (
                format!("`landlock` is not among the security modules `{modules}`"),
                format!("add the kernel parameter `lsm=landlock,{modules}`, with Linux 6.2 or later"),
            ),
            _ => (
                error,
                "use Linux 6.2 or later with `landlock` in the kernel parameter `lsm=`, and in a container a seccomp profile that allows Landlock".to_owned(),
            ),
        }
    }
}

fn set_kernel_parameter(assignment: &str) -> String {
    format!("`sudo sysctl {assignment}`, and the same line in /etc/sysctl.d/ for the next start")
}
