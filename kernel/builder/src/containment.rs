//! The isolation of compilers and trials.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use skillhost_home::{
    Home, ProcessPaths, compose_process_policy, load_operator_policy, without_links,
};
use skillhost_manifest::Manifest;
use skillhost_policy::{ComposedPolicy, OperatorPolicy, PolicyRequest, PolicyUse, SandboxPolicy};
use skillhost_sandbox::{
    EndCause, InputMode, IsolationReport, LaunchError, LaunchSpec, LevelSelection, ProcessExit,
    ProcessLimits, ProgramFiles, RefusalKind, SandboxError, SandboxLauncher, SandboxSpec,
    SandboxedExit, find_in_path, resolve_program, run_limited,
};

use crate::error::BuildError;

/// The retained end of standard error, in bytes.
const MAX_STDERR: usize = 16 * 1024;

/// The files of one run of a compiler or of a trial.
#[derive(Debug, Default, Clone)]
pub(crate) struct RunPaths {
    /// The readable paths besides those of the system. Missing ones are left out.
    pub(crate) readable: Vec<PathBuf>,
    /// The writable paths, which exist.
    pub(crate) writable: Vec<PathBuf>,
}

/// The isolation of the builds of one extension, as the operator's settings state it.
pub(crate) struct BuildContainment {
    operator: OperatorPolicy,
    id: String,
}

/// The action whose limits and errors apply to a run.
#[derive(Clone, Copy)]
pub(crate) struct RunAction {
    /// The action, such as `the build`.
    pub(crate) what: &'static str,
    /// The remedy of a timeout.
    pub(crate) hint: &'static str,
    pub(crate) limits: ProcessLimits,
}

/// The exit of a program, and the isolation of its run.
pub(crate) struct ContainedExit {
    pub(crate) exit: ProcessExit,
    pub(crate) isolation: IsolationReport,
}

impl BuildContainment {
    /// Reads the settings.
    ///
    /// # Errors
    /// [`BuildError::Settings`]; nothing may be built then.
    pub(crate) fn load(home: &Home, id: &str) -> Result<Self, BuildError> {
        let operator = load_operator_policy(home).map_err(|error| BuildError::settings(&error))?;
        Ok(Self { operator, id: id.to_owned() })
    }

    /// Runs a program to its end, in isolation unless the operator has turned it off.
    ///
    /// # Errors
    /// The program was not started, or a limit ended it.
    pub(crate) async fn run(
        &self,
        launch: &LaunchSpec,
        paths: &RunPaths,
        action: RunAction,
    ) -> Result<ContainedExit, BuildError> {
        let RunAction { what, hint, limits } = action;
        if self.operator.is_off(PolicyUse::Build, Some(&self.id)) {
            let exit = run_limited(launch, limits).await.map_err(BuildError::launch(what, hint))?;
            return Ok(ContainedExit { exit, isolation: IsolationReport::uncontained() });
        }
        let launch = LaunchSpec { folder: without_links(&launch.folder), ..launch.clone() };
        let program = launch.program.to_string_lossy().into_owned();
        let spec = SandboxSpec {
            policy: self.compose(&launch.folder, paths, limits)?.policy,
            launch,
            stdin: InputMode::Null,
            channel: None,
            levels: LevelSelection::default(),
        };
        let launcher = SandboxLauncher::default();
        let run = launcher.run(spec);
        // Exact, while the launcher counts seconds. Dropping the run ends it.
        let timed_out = || LaunchError::TimedOut { limit: limits.time };
        let ended = match tokio::time::timeout(limits.time, run).await {
            Err(_) => return Err(BuildError::launch(what, hint)(timed_out())),
            Ok(Err(error)) => return Err(to_build_error(error, program)),
            Ok(Ok(ended)) => ended,
        };
        match ended.end.ended_by {
            Some(EndCause::Time) => Err(BuildError::launch(what, hint)(timed_out())),
            Some(cause) if cause != EndCause::Cancelled => {
                Err(BuildError::LimitExceeded { what, limit: describe_limit(cause) })
            }
            _ => Ok(to_exit(ended)),
        }
    }

    fn compose(
        &self,
        work: &Path,
        paths: &RunPaths,
        limits: ProcessLimits,
    ) -> Result<ComposedPolicy, BuildError> {
        let mut base = PolicyUse::Build.default_policy(work);
        base.filesystem.allow_write =
            paths.writable.iter().map(|path| without_links(path)).collect();
        // A path of the policy must exist.
        let readable = paths.readable.iter().filter(|path| path.exists());
        base.filesystem.allow_read = readable.map(|path| without_links(path)).collect();
        base.limits.seconds = Some(limits.time.as_secs().saturating_add(1));
        base.limits.output_kib = Some((limits.stdout as u64).div_ceil(1024));
        if let Some(bytes) = limits.memory {
            base.limits.memory_mib = bytes.div_ceil(1024 * 1024);
        }
        self.operator
            .compose(PolicyRequest {
                policy_use: PolicyUse::Build,
                id: Some(&self.id),
                base,
                approved_layer: None,
                operator_layer: None,
                layers: &[],
                work,
                aliases: &[],
            })
            .map_err(|error| BuildError::policy(&error))
    }
}

fn to_exit(ended: SandboxedExit) -> ContainedExit {
    let SandboxedExit { isolation, end, stdout, stderr } = ended;
    let status = match (end.exit_code, end.signal) {
        // The format of the system: the code is in the second byte.
        (Some(code), _) => ExitStatus::from_raw(code << 8),
        (None, signal) => ExitStatus::from_raw(signal.unwrap_or(9)),
    };
    // Programs print the cause of a failure at the end.
    let tail = stderr.len().saturating_sub(MAX_STDERR);
    let stderr = String::from_utf8_lossy(&stderr[tail..]).into_owned();
    ContainedExit { exit: ProcessExit { status, stdout, stderr }, isolation }
}

fn to_build_error(error: SandboxError, program: String) -> BuildError {
    match error {
        SandboxError::Refused(refusal) if refusal.kind == RefusalKind::Start => {
            let source = std::io::Error::other(refusal.message);
            BuildError::Start { program, source }
        }
        SandboxError::Refused(refusal) => {
            BuildError::Isolation { message: refusal.to_string(), hint: refusal.hint }
        }
        SandboxError::Launcher(source) => BuildError::Start { program, source },
    }
}

fn describe_limit(cause: EndCause) -> &'static str {
    match cause {
        EndCause::Time => "time",
        EndCause::Memory => "memory",
        EndCause::Tasks => "processes and threads",
        EndCause::Disk => "disk usage",
        EndCause::Output => "output",
        EndCause::Cancelled => "the caller",
    }
}

/// Returns the lines of a review about the isolation of an extension: of its process, or of its
/// build and trial.
pub(crate) fn describe_isolation(home: &Home, manifest: &Manifest) -> Vec<String> {
    let (lines, policy) = match describe_policy(home, manifest) {
        Ok(described) => described,
        Err(error) => return vec![format!("isolation: not known: {error}")],
    };
    let Some(policy) = policy else { return lines };
    let what = match manifest.command() {
        Some(_) => "isolation",
        None => "isolation of its build and trial",
    };
    let level = match SandboxLauncher::default().probe(&policy) {
        Ok(report) => format!("{what}: {}", report.level),
        Err(refusal) => {
            let hint =
                if refusal.hint.is_empty() { String::new() } else { format!("; {}", refusal.hint) };
            format!("{what}: none is possible, so it will not run: {refusal}{hint}")
        }
    };
    std::iter::once(level).chain(lines).collect()
}

/// Returns the lines about a policy, and the policy unless isolation is off.
fn describe_policy(
    home: &Home,
    manifest: &Manifest,
) -> Result<(Vec<String>, Option<SandboxPolicy>), BuildError> {
    let id = manifest.id.as_str();
    let operator = load_operator_policy(home).map_err(|error| BuildError::settings(&error))?;
    if manifest.command().is_none() {
        return Ok(match operator.is_off(PolicyUse::Build, Some(id)) {
            true => (
                vec!["!!! its build and trial are not isolated (settings: sandbox)".to_owned()],
                None,
            ),
            false => (Vec::new(), Some(PolicyUse::Build.default_policy(Path::new("/tmp")))),
        });
    }
    if operator.is_off(PolicyUse::Process, Some(id)) {
        let line = "!!! not isolated (settings: sandbox): it runs with all of your permissions";
        return Ok((vec![line.to_owned()], None));
    }
    let settings =
        skillhost_home::Settings::load_home(home).map_err(|error| BuildError::settings(&error))?;
    let mut paths = ProcessPaths {
        files: without_links(&home.extensions_dir().join(id)),
        readable: Vec::new(),
        writable: vec![home.data_dir(id), home.process_home(id)],
    };
    let compose = |paths: &ProcessPaths| {
        compose_process_policy(&operator, manifest, &settings.settings.processes, paths)
            .map_err(|error| BuildError::policy(&error))
    };
    let writable = compose(&paths)?.composed.policy.filesystem.allow_write;
    let program = find_program_files(manifest, &paths.files, &writable);
    paths.readable = program.iter().flat_map(|files| files.readable.clone()).collect();
    let policy = compose(&paths)?;
    let lines = describe_program(&program, &paths).into_iter().chain(policy.describe(&paths));
    let lines = lines.collect();
    let mut policy = policy.composed.policy;
    // Its own directories are created only when it starts.
    policy.filesystem.allow_write.retain(|path| !paths.writable.contains(path));
    Ok((lines, Some(policy)))
}

/// Returns the files of the program of an extension, as a start of it finds them.
fn find_program_files(
    manifest: &Manifest,
    folder: &Path,
    writable: &[PathBuf],
) -> std::io::Result<ProgramFiles> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let word = manifest.command().and_then(<[String]>::first).map_or("", String::as_str);
    let program = match word.contains('/') {
        true => folder.join(word),
        false => find_in_path(word, &path).ok_or(std::io::ErrorKind::NotFound)?,
    };
    let foreign = [&[folder.to_owned()], writable].concat();
    let mut files = resolve_program(&program, &path, &foreign)?;
    // It reads its own files anyway.
    files.readable.retain(|path| !path.starts_with(folder));
    Ok(files)
}

/// Describes what the process reads because of its program.
fn describe_program(
    program: &std::io::Result<ProgramFiles>,
    paths: &ProcessPaths,
) -> Option<String> {
    let join = |all: &[PathBuf]| {
        all.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    match program {
        Ok(files) if !files.unlisted.is_empty() => Some(format!(
            "!!! its program needs files that are neither of the system nor in PATH: {}",
            join(&files.unlisted)
        )),
        Ok(_) if paths.readable.is_empty() => None,
        Ok(_) => Some(format!("reads as files of its program: {}", join(&paths.readable))),
        Err(error) => Some(format!("its program is not found, so it will not run: {error}")),
    }
}

/// The programs and files of the Rust toolchain.
#[derive(Debug, Default)]
pub(crate) struct Toolchain {
    /// The file of cargo.
    pub(crate) cargo: PathBuf,
    pub(crate) readable: Vec<PathBuf>,
    /// The search path with the toolchain first.
    pub(crate) search_path: OsString,
}

impl Toolchain {
    /// Finds cargo, the compiler and the crates that were fetched.
    ///
    /// The proxies of rustup would need its directory, so that the toolchain itself is used.
    ///
    /// # Errors
    /// [`BuildError::Start`] without cargo.
    pub(crate) async fn find(environment: &LaunchSpec) -> Result<Self, BuildError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let missing = || BuildError::Start {
            program: "cargo".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let found = find_in_path("cargo", &path).ok_or_else(missing)?;
        let mut toolchain = Self { cargo: found.clone(), ..Self::default() };
        let rustc = LaunchSpec {
            program: "rustc".into(),
            arguments: vec!["--print".into(), "sysroot".into()],
            ..environment.clone()
        };
        let limits = ProcessLimits { time: Duration::from_secs(60), memory: None, stdout: 4096 };
        let sysroot = run_limited(&rustc, limits).await.ok().filter(|exit| exit.status.success());
        let sysroot = sysroot
            .map(|exit| PathBuf::from(String::from_utf8_lossy(&exit.stdout).trim().to_owned()));
        // A cargo of another kind, such as that of a distribution, needs no replacement.
        let is_proxy = found.with_file_name("rustup").exists();
        let mut search = Vec::new();
        if let Some(sysroot) = sysroot.filter(|sysroot| sysroot.is_absolute()) {
            let own = sysroot.join("bin/cargo");
            if is_proxy && own.exists() {
                toolchain.cargo = own;
                search.push(sysroot.join("bin"));
            }
            toolchain.readable.push(sysroot);
        }
        for program in [Some(toolchain.cargo.clone()), find_in_path("cc", &path)] {
            let files = program.map(|program| resolve_program(&program, &path, &[]));
            if let Some(Ok(files)) = files {
                toolchain.readable.extend(files.readable);
            }
        }
        toolchain.search_path =
            std::env::join_paths(search.into_iter().chain(std::env::split_paths(&path)))
                .unwrap_or(path);
        let cargo_home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
        // Not the whole directory: it has the operator's tokens.
        let parts = ["registry", "git", "config.toml", "config"];
        toolchain
            .readable
            .extend(cargo_home.iter().flat_map(|home| parts.map(|part| home.join(part))));
        Ok(toolchain)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use skillhost_home::HomeSource;
    use test_support::can_isolate;

    use super::*;

    /// Stands for the build script of a crate.
    const SCRIPT: &str = "cat \"$1/.ssh/id_ed25519\" > \"$2/key\"; echo x > \"$1/created\"; \
                          echo x > \"$3/lib.rs\"; echo built > \"$2/library\"; cat \"$3/lib.rs\"";

    #[tokio::test]
    async fn build_script_reads_and_writes_only_its_own() {
        if !can_isolate() {
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let user = base.join("user");
        let (target, sources) = (base.join("target"), base.join("sources"));
        for directory in [&base.join("sandbox"), &user.join(".ssh"), &target, &sources] {
            fs::create_dir_all(directory).unwrap();
        }
        fs::write(user.join(".ssh/id_ed25519"), "secret").unwrap();
        fs::write(sources.join("lib.rs"), "reviewed").unwrap();
        let home = Home::open(&base, HomeSource::Argument).unwrap();
        let containment = BuildContainment::load(&home, "tea").unwrap();
        let text = |path: &Path| path.as_os_str().to_owned();
        let launch = LaunchSpec {
            program: "/bin/sh".into(),
            arguments: vec![
                "-c".into(),
                SCRIPT.into(),
                "sh".into(),
                text(&user),
                text(&target),
                text(&sources),
            ],
            environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
            folder: "/".into(),
        };
        let paths = RunPaths { readable: vec![sources.clone()], writable: vec![target.clone()] };
        let limits = ProcessLimits { time: Duration::from_secs(60), memory: None, stdout: 4096 };
        let action = RunAction { what: "the build", hint: "", limits };
        let done = containment.run(&launch, &paths, action).await.unwrap();
        assert!(done.isolation.is_contained());
        assert_eq!(String::from_utf8_lossy(&done.exit.stdout), "reviewed");
        assert_eq!(fs::read_to_string(target.join("library")).unwrap(), "built\n");
        assert!(fs::read_to_string(target.join("key")).is_ok_and(|text| text.is_empty()));
        assert!(!user.join("created").exists());
        let quick = ProcessLimits { time: Duration::from_millis(300), ..limits };
        let sleep = LaunchSpec { arguments: vec!["-c".into(), "sleep 100".into()], ..launch };
        let action = RunAction { limits: quick, ..action };
        let error = containment.run(&sleep, &paths, action).await.err().unwrap();
        assert!(matches!(error, BuildError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn review_lists_reads_of_the_program() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let folder = base.join("sandbox/extensions/tea");
        let interpreter = base.join("app/bin/sh2");
        for (path, text) in [
            (interpreter.clone(), "binary".to_owned()),
            (folder.join("server"), format!("#!{}\n", interpreter.display())),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let home = Home::open(&base, HomeSource::Argument).unwrap();
        let text = "id: tea\nname: Tea\nentrypoint: {command: [./server]}\n";
        let manifest = skillhost_manifest::parse_manifest(text).unwrap();
        let (lines, _) = describe_policy(&home, &manifest).unwrap();
        let named = interpreter.display().to_string();
        assert!(
            lines[0].contains("neither of the system nor in PATH") && lines[0].contains(&named)
        );
        let paths = ProcessPaths {
            files: folder,
            readable: vec!["/opt/py".into(), "/opt/tool".into()],
            writable: Vec::new(),
        };
        let program = resolve_program(Path::new("/bin/sh"), std::ffi::OsStr::new(""), &[]).unwrap();
        let line = describe_program(&Ok(program), &paths).unwrap();
        assert_eq!(line, "reads as files of its program: /opt/py, /opt/tool");
    }
}
