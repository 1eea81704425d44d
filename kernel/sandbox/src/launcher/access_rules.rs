//! The Landlock rules of a run.

use std::os::fd::AsFd as _;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use skillhost_policy::IsolationLevel;

use super::error::{SetupError, StepContext as _};
use super::policy_paths::{DEVICES, MACHINE_FILES, open_path, system_paths};
use crate::protocol::LaunchRequest;

/// The oldest version with rules for all ways to change a file.
pub(super) const MIN_LANDLOCK: i32 = 3;

/// The first version with rules for ports.
pub(super) const PORT_LANDLOCK: i32 = 4;

/// The first version that keeps signals and abstract sockets inside.
pub(super) const SCOPED_LANDLOCK: i32 = 6;

/// Restricts this process and all that it starts to the files of the policy.
pub(super) fn restrict_access(
    request: &LaunchRequest,
    level: IsolationLevel,
    version: i32,
) -> Result<(), SetupError> {
    let abi = ABI::from(version);
    let all = AccessFs::from_all(abi);
    let read = AccessFs::from_read(abi);
    // The sockets of the run itself need no rule.
    let write = all & !AccessFs::MakeChar & !AccessFs::MakeBlock & !AccessFs::ResolveUnix;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .at("landlock")?;
    // In its own network namespace a run reaches only itself and the proxy.
    let denied_ports = match level {
        IsolationLevel::Namespaces if request.policy.network.allow_local_binding => None,
        IsolationLevel::Namespaces => Some(AccessNet::BindTcp.into()),
        _ => Some(AccessNet::from_all(abi)),
    };
    if let (true, Some(denied)) = (version >= PORT_LANDLOCK, denied_ports) {
        rules = rules.handle_access(denied).at("landlock")?;
    }
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi)).at("landlock")?;
    }
    let mut rules = rules.create().at("landlock")?;
    let files = &request.policy.filesystem;
    match level {
        IsolationLevel::Namespaces => {
            // The mounts determine what exists; these rules repeat what can be written.
            allow_system(&mut rules, Path::new("/"), read, abi)?;
            for path in ["/tmp", "/dev/shm"] {
                allow_system(&mut rules, Path::new(path), write, abi)?;
            }
        }
        _ => {
            for path in system_paths().chain(MACHINE_FILES.iter().map(Path::new)) {
                allow_system(&mut rules, path, read, abi)?;
            }
            for path in &files.allow_read {
                allow_place(&mut rules, path, read, abi)?;
            }
        }
    }
    for path in &files.allow_write {
        allow_place(&mut rules, path, write, abi)?;
    }
    if abi >= ABI::V9 {
        for path in &request.policy.network.allow_unix_sockets {
            allow_place(&mut rules, path, AccessFs::ResolveUnix.into(), abi)?;
        }
    }
    for path in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile;
        allow_system(&mut rules, Path::new(path), access, abi)?;
    }
    rules.restrict_self().at("landlock")?;
    Ok(())
}

/// Allows a path of the system, through links, if it exists.
fn allow_system(
    rules: &mut RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    abi: ABI,
) -> Result<(), SetupError> {
    if !path.exists() {
        return Ok(());
    }
    let place = PathFd::new(path).at(&path.display().to_string())?;
    add_rule(rules, path, place, access, abi)
}

fn allow_place(
    rules: &mut RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    abi: ABI,
) -> Result<(), SetupError> {
    let place = open_path(path).at(&path.display().to_string())?;
    add_rule(rules, path, place.as_fd(), access, abi)
}

fn add_rule(
    rules: &mut RulesetCreated,
    path: &Path,
    place: impl std::os::fd::AsFd,
    access: BitFlags<AccessFs>,
    abi: ABI,
) -> Result<(), SetupError> {
    // Rights on entries of directories are errors for a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
    rules.add_rule(PathBeneath::new(place, access)).at(&path.display().to_string())?;
    Ok(())
}
