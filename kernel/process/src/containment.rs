//! The containment of a process: its program, its policy and the operator's exceptions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillhost_core::ExtensionLoadError;
use skillhost_home::{
    Home, LoadPhase, ProcessPaths, ProcessSettings, compose_process_policy, load_operator_policy,
    without_links,
};
use skillhost_manifest::Manifest;
use skillhost_policy::PolicyUse;
use skillhost_sandbox::{ChildContainment, find_in_path, is_executable, resolve_program};

/// A process whose policy is to be composed.
pub(crate) struct ContainedProcess {
    pub(crate) home: Home,
    pub(crate) settings: ProcessSettings,
    pub(crate) manifest: Arc<Manifest>,
    /// The private copy of its files.
    pub(crate) folder: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) process_home: PathBuf,
}

/// A process that can be started.
pub(crate) struct PreparedProcess {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) containment: ChildContainment,
    /// The value of `PATH`.
    pub(crate) search_path: String,
}

impl ContainedProcess {
    /// Finds the program and composes the policy. Blocks.
    ///
    /// # Errors
    /// The program is missing, or the policy is not valid.
    pub(crate) fn prepare(self) -> Result<PreparedProcess, ExtensionLoadError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let command = self.manifest.command().unwrap_or_default();
        let word = command.first().map_or("", String::as_str);
        // Resolved here, because the process gets another working directory than the kernel.
        let program = find_program(word, &self.folder, &path)?;
        let failed = |reason: String, hint: String| ExtensionLoadError {
            phase: LoadPhase::Probe,
            reason,
            hint,
        };
        let operator = load_operator_policy(&self.home)
            .map_err(|error| failed(error.to_string(), error.hint()))?;
        if operator.is_off(PolicyUse::Process, Some(self.manifest.id.as_str())) {
            let containment = ChildContainment::Plain {
                note: self.folder.with_extension("pid"),
                memory: self.settings.memory_limit_mib.saturating_mul(1024 * 1024),
            };
            let search_path = path.to_string_lossy().into_owned();
            let folder = self.folder;
            return Ok(PreparedProcess { program, folder, containment, search_path });
        }
        // A placeholder of a version manager could not find its manager in isolation.
        let folder = without_links(&self.folder);
        let mut paths = ProcessPaths {
            readable: Vec::new(),
            files: folder,
            writable: [&self.data, &self.process_home].map(|path| without_links(path)).into(),
        };
        let compose = |paths: &ProcessPaths| {
            compose_process_policy(&operator, &self.manifest, &self.settings, paths)
                .map_err(|error| failed(error.to_string(), error.hint_or("correct `sandbox`")))
        };
        // What a run can write, a later start must not trust.
        let foreign = compose(&paths)?.composed.policy.filesystem.allow_write;
        let foreign = [vec![paths.files.clone()], foreign].concat();
        let files = resolve_program(&program, &path, &foreign)
            .map_err(|error| failed(error.to_string(), format!("check that `{word}` works")))?;
        let own = |path: &&PathBuf| !path.starts_with(&paths.files);
        paths.readable = files.readable.iter().filter(own).cloned().collect();
        let composed = compose(&paths)?;
        let allowed = &composed.composed.policy.filesystem;
        let is_allowed =
            |path: &Path| allowed.allow_read.iter().any(|allowed| path.starts_with(allowed));
        if let Some(path) = files.unlisted.iter().find(|path| !is_allowed(path)) {
            let path = path.display();
            return Err(failed(
                format!("`{word}` needs {path}, which is neither of the system nor in PATH"),
                "to permit it, add its directory to `allowRead` of `sandbox.processes`, \
                 or use an interpreter in PATH"
                    .to_owned(),
            ));
        }
        for refused in &composed.refused {
            let (id, key, value) = (&self.manifest.id, refused.key, &refused.value);
            tracing::warn!(%id, key, value, "request of the manifest not granted by the settings");
        }
        let search_path = files.join_path(&path).to_string_lossy().into_owned();
        let containment = ChildContainment::Sandboxed(Box::new(composed.composed.policy));
        Ok(PreparedProcess {
            program: files.program,
            folder: paths.files,
            containment,
            search_path,
        })
    }
}

/// Finds the program of a command: in the directory if the word is a path, else in `PATH`.
fn find_program(
    word: &str,
    folder: &Path,
    path: &std::ffi::OsStr,
) -> Result<PathBuf, ExtensionLoadError> {
    let failed = |reason: String, hint: String| {
        Err(ExtensionLoadError { phase: LoadPhase::Probe, reason, hint })
    };
    if word.contains('/') {
        let program = folder.join(word);
        return match is_executable(&program) {
            true => Ok(program),
            false => failed(
                format!("`{word}` is not an executable file in the extension's directory"),
                format!("put it there, then: chmod +x {word}"),
            ),
        };
    }
    match find_in_path(word, path) {
        Some(program) => Ok(program),
        None => failed(
            format!("program `{word}` not found in PATH"),
            format!("install it, or write ./{word} for a program in the extension's directory"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn program_word_decides_search_location() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tempfile::tempdir().unwrap();
        let (folder, bin) = (temp.path().join("folder"), temp.path().join("bin"));
        for place in [&folder, &bin] {
            fs::create_dir(place).unwrap();
            for (name, mode) in [("run", 0o755), ("text", 0o644)] {
                fs::write(place.join(name), "").unwrap();
                fs::set_permissions(place.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let path = std::env::join_paths([Path::new("folder"), Path::new(""), &bin]).unwrap();
        let find = |word: &str| find_program(word, &folder, &path).map_err(|f| (f.reason, f.hint));
        assert_eq!(find("./run"), Ok(folder.join("./run")));
        assert_eq!(find("run"), Ok(bin.join("run")), "relative directories of PATH are left out");
        let (reason, hint) = find("./text").unwrap_err();
        assert_eq!(reason, "`./text` is not an executable file in the extension's directory");
        assert_eq!(hint, "put it there, then: chmod +x ./text");
        let (reason, hint) = find("text").unwrap_err();
        assert_eq!(reason, "program `text` not found in PATH");
        assert_eq!(hint, "install it, or write ./text for a program in the extension's directory");
    }

    #[test]
    fn program_of_extension_never_runs_or_widens_before_isolation() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let (folder, trace) = (base.join("copy"), base.join("trace"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let manager = format!("#!/bin/sh\necho ran > {}\necho /bin/sh\n", trace.display());
        write(folder.join("bin/pyenv"), &manager);
        write(folder.join("shims/server"), "#!/bin/sh\n");
        write(base.join("app/bin/sh2"), "binary");
        let interpreter = base.join("app/bin/sh2").display().to_string();
        write(folder.join("outside"), &format!("#!{interpreter}\n"));
        fs::create_dir(base.join("sandbox")).unwrap();
        let prepare = |word: &str, settings: &str| {
            fs::write(base.join("skillhost.yaml"), settings).unwrap();
            let text = format!("id: a\nname: A\nentrypoint: {{command: [{word}]}}\n");
            let process = ContainedProcess {
                home: Home::open(&base, skillhost_home::HomeSource::Argument).unwrap(),
                settings: ProcessSettings::default(),
                manifest: Arc::new(skillhost_manifest::parse_manifest(&text).unwrap()),
                folder: folder.clone(),
                data: base.join("data"),
                process_home: base.join("home"),
            };
            process.prepare().map_err(|error| (error.reason, error.hint))
        };
        let prepared = prepare("./shims/server", "{}").unwrap();
        assert_eq!(prepared.program, folder.join("shims/server"));
        assert!(!trace.exists(), "a program of the extension was executed");
        let (reason, hint) = prepare("./outside", "{}").err().unwrap();
        assert!(reason.contains("neither of the system nor in PATH"), "{reason}");
        assert!(reason.contains(&interpreter) && hint.contains("allowRead"), "{reason} {hint}");
        let allowed = format!(
            "sandbox: {{processes: {{filesystem: {{allowRead: [{}]}}}}}}\n",
            base.join("app").display()
        );
        assert!(prepare("./outside", &allowed).is_ok());
    }
}
