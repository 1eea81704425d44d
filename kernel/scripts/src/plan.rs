//! The plan of one run: the private copy, the interpreter, the policy and the isolation that the run
//! will reach. Everything that a person approves is fixed here, before anything is started.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use skillhost_files::RunDirectory;
use skillhost_files::jail::RelPath;
use skillhost_payload::{CallError, ErrorKind, SkillFileScope, SkillTree, SkillTreeFile};
use skillhost_policy::{ComposedPolicy, GrantedPolicy, OperatorPolicy, PolicyLayer, PolicyUse};
use skillhost_sandbox::{IsolationReport, LaunchSpec, SandboxLauncher};

use crate::environment::{RunDirectories, build_environment, check_variables};
use crate::grant_terms::{
    COPY_NAME, PolicyTerms, RequiredPaths, SCRATCH_NAME, grant_policy, is_confined, settings_id,
};
use crate::interpreter::{Interpreter, InterpreterError};
use crate::interpreter_finder::InterpreterFinder;
use crate::tree_copy::{TreeCopy, copy_tree};
use crate::work_directory::{WorkDirectory, create_scratch};

/// The limits of the arguments of a call.
pub(crate) const MAX_ARGUMENTS: usize = 64;
pub(crate) const MAX_ARGUMENT: usize = 4096;

/// The start of a script that decides about its interpreter and its line ends.
const MAX_HEAD: u64 = 64 << 10;

/// A request to run a script of a skill.
#[derive(Debug, Clone)]
pub struct ScriptRequest<'a> {
    /// The files of the skill.
    pub tree: &'a SkillTree,
    /// Whether the file is run as a script or as a handler program.
    pub policy_use: PolicyUse,
    /// The path of the script in the skill.
    pub path: &'a str,
    /// The arguments.
    pub arguments: &'a [String],
    /// Variables for the script.
    pub variables: &'a BTreeMap<String, String>,
    /// The directory in which it starts, relative to `work`, or `@skill`.
    pub workdir: &'a str,
    /// The writable work directory, without links.
    pub work: &'a Path,
    /// A layer of the operator for this run only.
    pub operator_layer: Option<&'a PolicyLayer>,
    /// The limit that the caller's own deadline sets, in seconds.
    pub deadline_seconds: Option<u64>,
}

/// A run that is ready to start. Its private copy is removed on drop.
#[derive(Debug)]
pub struct ScriptPlan {
    pub(crate) tree: SkillTree,
    pub(crate) policy_use: PolicyUse,
    pub(crate) path: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) copy: TreeCopy,
    pub(crate) work: WorkDirectory,
    /// The work directory is not that of the thread, and is removed after the run.
    pub(crate) is_confined: bool,
    pub(crate) composed: ComposedPolicy,
    pub(crate) isolation: IsolationReport,
    pub(crate) launcher: SandboxLauncher,
    pub(crate) deadline_seconds: Option<u64>,
    /// The key of the skill below `sandbox.skills`.
    pub(crate) settings_id: String,
    /// What a grant has to name.
    pub(crate) granted: GrantedPolicy,
    interpreter: Interpreter,
    scratch: RunDirectory,
    home: PathBuf,
    temporary: PathBuf,
}

impl ScriptPlan {
    /// Makes the copy of the skill, finds the interpreter, composes the policy and determines the
    /// isolation. Starts nothing of the skill; blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown script or a missing interpreter,
    /// [`ErrorKind::InvalidArgument`] for arguments that are not valid, [`ErrorKind::Conflict`] if
    /// the files are no longer those of the tree, [`ErrorKind::Unavailable`] without isolation,
    /// [`ErrorKind::Io`] if the disk fails.
    pub fn prepare(
        operator: &OperatorPolicy,
        launcher: &SandboxLauncher,
        request: &ScriptRequest<'_>,
    ) -> Result<Self, CallError> {
        let tree = request.tree;
        if operator.is_off(request.policy_use, Some(&tree.skill_id)) {
            let message = "the code of skills runs in isolation only, and `sandbox: off` is set";
            return Err(CallError::new(ErrorKind::Unavailable, message)
                .with_hint("remove `sandbox: off` from skillhost.yaml"));
        }
        check_arguments(request.arguments)?;
        check_variables(request.variables)?;
        let file = find_script(tree, request.path)?;
        let copy = copy_tree(tree).map_err(|error| error.to_call_error())?;
        let finder = InterpreterFinder::from_environment(operator.settings.interpreters.clone());
        let interpreter = find_interpreter(&finder, &copy, file)?;
        link_packages(&copy, &interpreter);
        let io_error = |error: std::io::Error| {
            CallError::new(ErrorKind::Io, format!("the private directory of the run: {error}"))
                .with_hint("check the free space of the temporary directory")
        };
        let scratch = RunDirectory::create().map_err(io_error)?;
        let base = scratch.path().to_owned();
        let home = create_scratch(&base, "home").map_err(io_error)?;
        let temporary = create_scratch(&base, "tmp").map_err(io_error)?;
        let mut writes = vec![home.clone(), temporary.clone()];
        // A skill that declares its own directory alone has a work directory that is not kept.
        let is_confined = tree.security.is_some_and(is_confined);
        let work_root = match is_confined {
            true => create_scratch(&base, "work").map_err(io_error)?,
            false => request.work.to_owned(),
        };
        writes.extend(is_confined.then(|| work_root.clone()));
        let work = WorkDirectory::open(&work_root, request.workdir, copy.root())?;
        let parent = copy.root().parent().unwrap_or(copy.root()).to_owned();
        let required = RequiredPaths {
            reads: std::iter::once(parent.clone()).chain(interpreter.reads.clone()).collect(),
            writes,
            aliases: vec![(parent, COPY_NAME), (base, SCRATCH_NAME)],
        };
        let composed = required.compose(&PolicyTerms {
            operator,
            policy_use: request.policy_use,
            tree,
            work: &work_root,
            operator_layer: request.operator_layer,
        })?;
        let granted = grant_policy(operator, request.policy_use, tree)?;
        let isolation = launcher.probe(&composed.policy).map_err(|refusal| {
            CallError::new(ErrorKind::Unavailable, refusal.to_string()).with_hint(refusal.hint)
        })?;
        let granted = GrantedPolicy::new(&granted, isolation.level);
        Ok(Self {
            tree: tree.clone(),
            policy_use: request.policy_use,
            path: file.path.clone(),
            arguments: request.arguments.to_vec(),
            variables: request.variables.clone(),
            copy,
            work,
            is_confined,
            composed,
            isolation,
            launcher: launcher.clone(),
            deadline_seconds: request.deadline_seconds,
            settings_id: settings_id(operator, tree),
            granted,
            interpreter,
            scratch,
            home,
            temporary,
        })
    }

    /// Returns the files of the skill.
    #[must_use]
    pub fn tree(&self) -> &SkillTree {
        &self.tree
    }

    /// Returns the path of the script in the skill.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether each run requires the approval of a person, also with a grant: the skill
    /// declares that it uses any file of the system.
    #[must_use]
    pub fn requires_approval(&self) -> bool {
        let scope = self.tree.security.and_then(|security| security.file_scope);
        scope == Some(SkillFileScope::System)
    }

    /// Returns the policy of the run with the origin of each permission.
    #[must_use]
    pub fn policy(&self) -> &ComposedPolicy {
        &self.composed
    }

    /// Returns the policy and level that a grant has to name: without the directories of the
    /// interpreter, so that one grant covers all scripts of a skill, and without the operator's layer
    /// for this run.
    #[must_use]
    pub fn granted_policy(&self) -> &GrantedPolicy {
        &self.granted
    }

    /// Returns the isolation that the run will reach.
    #[must_use]
    pub fn isolation(&self) -> &IsolationReport {
        &self.isolation
    }

    /// Returns the program and its arguments, with the path of the script as in the skill.
    #[must_use]
    pub fn command(&self) -> Vec<String> {
        let program = self.interpreter.program.display().to_string();
        let own = self.interpreter.arguments.iter().cloned();
        let script = std::iter::once(self.path.clone());
        std::iter::once(program).chain(own).chain(script).chain(self.arguments.clone()).collect()
    }

    /// Returns the directory in which the script starts.
    #[must_use]
    pub fn start_directory(&self) -> &Path {
        &self.work.start
    }

    /// Returns the private copy of the files.
    #[must_use]
    pub fn copy(&self) -> &TreeCopy {
        &self.copy
    }

    /// Returns the launch of the script. The directories of the plan must outlive the run.
    #[must_use]
    pub fn launch(&self) -> LaunchSpec {
        let script = self.copy.root().join(&self.path);
        let own = self.interpreter.arguments.iter().map(OsString::from);
        let arguments = own
            .chain(std::iter::once(script.into_os_string()))
            .chain(self.arguments.iter().map(OsString::from))
            .collect();
        let directories = RunDirectories {
            skill: self.copy.root(),
            home: &self.home,
            temporary: &self.temporary,
        };
        let mut environment =
            build_environment(&self.interpreter, &directories, &self.variables, |name| {
                std::env::var_os(name)
            });
        if let Some(parent) = package_parent(&self.tree, &self.path) {
            let mut path = self.copy.root().join(parent).into_os_string();
            let name = OsString::from("PYTHONPATH");
            if let Some(sites) = environment.get(&name) {
                path.push(":");
                path.push(sites);
            }
            environment.insert(name, path);
        }
        LaunchSpec {
            program: self.interpreter.program.clone(),
            arguments,
            environment,
            folder: self.work.start.clone(),
        }
    }

    /// Returns the private directory of the run.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

fn check_arguments(arguments: &[String]) -> Result<(), CallError> {
    let reason = if arguments.len() > MAX_ARGUMENTS {
        format!("more than {MAX_ARGUMENTS} arguments")
    } else if arguments.iter().any(|argument| argument.len() > MAX_ARGUMENT) {
        format!("an argument has more than {MAX_ARGUMENT} bytes")
    } else if arguments.iter().any(|argument| argument.contains('\0')) {
        "an argument has a NUL".to_owned()
    } else {
        return Ok(());
    };
    Err(CallError::new(ErrorKind::InvalidArgument, reason)
        .with_hint("write long input to a file in the work directory"))
}

/// Finds the listed file that a path names.
fn find_script<'t>(tree: &'t SkillTree, path: &str) -> Result<&'t SkillTreeFile, CallError> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let shown: String = path.chars().take(200).flat_map(char::escape_debug).collect();
    let error = |kind, message: String| {
        let likely = tree.files.iter().filter(|file| is_likely_script(file));
        let names: Vec<_> = likely.map(|file| file.path.as_str()).take(20).collect();
        CallError::new(kind, message).with_hint(match names.as_slice() {
            [] => "this skill has no scripts".to_owned(),
            names => format!("the scripts of this skill: {}", names.join(", ")),
        })
    };
    if let Err(reason) = RelPath::new_printable(path) {
        return Err(error(ErrorKind::InvalidArgument, format!("path {shown}: {reason}")));
    }
    tree.files.iter().find(|file| file.path == path).ok_or_else(|| {
        let id = &tree.skill_id;
        error(
            ErrorKind::NotFound,
            format!("{shown} is not a file of `{id}`; links and node_modules are not run"),
        )
    })
}

/// Tests whether a file is a script by its name or mode, for a hint.
fn is_likely_script(file: &SkillTreeFile) -> bool {
    let suffixes = [".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1"];
    file.executable || suffixes.iter().any(|suffix| file.path.ends_with(suffix))
}

/// Tests whether a skill has files that can be run as scripts or programs, by their names and modes.
#[must_use]
pub fn has_code(tree: &SkillTree, operator: &OperatorPolicy) -> bool {
    let stated = &operator.settings.interpreters;
    let is_stated = |file: &SkillTreeFile| stated.keys().any(|suffix| file.path.ends_with(suffix));
    tree.files.iter().any(|file| is_likely_script(file) || is_stated(file))
}

fn find_interpreter(
    finder: &InterpreterFinder,
    copy: &TreeCopy,
    file: &SkillTreeFile,
) -> Result<Interpreter, CallError> {
    let path = copy.root().join(&file.path);
    let mut head = Vec::new();
    let read = File::open(&path).and_then(|script| script.take(MAX_HEAD).read_to_end(&mut head));
    read.map_err(|error| CallError::new(ErrorKind::Io, format!("{}: {error}", file.path)))?;
    let found = finder.find(&file.path, &head, file.executable);
    let mut interpreter = found.map_err(|error| error.to_call_error())?;
    if interpreter.is_shell && head.windows(2).any(|pair| pair == b"\r\n") {
        let (path, reason) =
            (file.path.clone(), "it has CRLF line ends, which no shell runs; convert it to LF");
        return Err(InterpreterError::Unsupported { path, reason }.to_call_error());
    }
    if interpreter.is_shell {
        add_companions(finder, &head, &mut interpreter);
    }
    Ok(interpreter)
}

/// Adds the interpreters that a shell script names, so that they are those of other scripts and not
/// older ones of the system.
fn add_companions(finder: &InterpreterFinder, script: &[u8], interpreter: &mut Interpreter) {
    for (names, example) in [(&["python"][..], "a.py"), (&["node", "npm", "npx"], "a.js")] {
        let is_named = |name: &&str| script.windows(name.len()).any(|text| text == name.as_bytes());
        if !names.iter().any(is_named) {
            continue;
        }
        // Without it only the script's own command fails, with a message of the shell.
        if let Ok(companion) = finder.find(example, b"", false) {
            interpreter.add_companion(companion);
        }
    }
}

/// Returns the directory that contains the outermost package of a Python script, if it is part of one:
/// such scripts import each other as `package.module`.
fn package_parent<'p>(tree: &SkillTree, path: &'p str) -> Option<&'p str> {
    let parent = |path: &'p str| path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let has_marker = |directory: &str| {
        let marker = format!("{directory}/__init__.py");
        !directory.is_empty() && tree.files.iter().any(|file| file.path == marker)
    };
    let mut directory = parent(path);
    if !path.ends_with(".py") || !has_marker(directory) {
        return None;
    }
    while has_marker(directory) {
        directory = parent(directory);
    }
    Some(directory)
}

/// Links the global packages next to the copy: ES modules ignore `NODE_PATH` and look for
/// `node_modules` in the directories above.
fn link_packages(copy: &TreeCopy, interpreter: &Interpreter) {
    if let (Some(packages), Some(parent)) = (&interpreter.packages, copy.root().parent()) {
        // Without it only imports of such packages fail, with a message of their own.
        let _ = symlink(packages, parent.join("node_modules"));
    }
}
