//! `skillhost init`: creates a home in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use skillhost_files::write_atomically;
use skillhost_home::{Home, HomeSource, Settings, discover_manifests, trust};
use skillhost_terminal::{CliContext, CliError, CommandResult, Output, display_safe, exit};

use crate::arguments::InitArgs;

/// The directories that receive files.
const FOLDERS: [&str; 7] = [
    "manifests",
    "sandbox",
    "sandbox/skills",
    "sandbox/extensions",
    "sandbox/data",
    "docs",
    "docs/schema",
];

/// The number of files listed one by one.
const MAX_LISTED_FILES: usize = 20;

const SETTINGS: &str = include_str!("../templates/skillhost.yaml");

/// Creates a home, or adds the shipped files that a home does not have.
///
/// # Errors
/// The installation is incomplete, or a file cannot be written.
pub fn cmd_init(session: &CliContext, args: &InitArgs) -> CommandResult {
    let hint = "install the whole product: cargo xtask install --prefix DIR";
    let installation = session.require_installation("the shipped manifests and skills", hint)?;
    let root = session.environment.current_dir.join(&args.dir);
    refuse_links(&root)?;
    let mut made = Vec::new();
    for folder in ["sandbox/skills", "sandbox/extensions", "manifests"] {
        let path = root.join(folder);
        fs::create_dir_all(&path).map_err(|error| CliError::io(&path, &error))?;
    }
    let data = root.join("sandbox/data");
    let private = fs::DirBuilder::new().mode(0o700).recursive(true).create(&data);
    private.map_err(|error| CliError::io(&data, &error))?;
    let home = Home::open(&root, HomeSource::Argument)?;
    let contents = Contents::of(&home);
    copy_missing(&installation.manifests, &root.join("manifests"), &mut made)?;
    copy_missing(&installation.skills, &root.join("sandbox/skills"), &mut made)?;
    // The shipped manifests refer to the schema, so that editors complete and check them.
    let schema = serde_json::to_string_pretty(&skillhost_manifest::manifest_schema())
        .map_err(std::io::Error::from)?;
    let settings = SETTINGS.replace("{{docs}}", &installation.docs.display().to_string());
    let files = [
        ("skillhost.yaml", &*settings),
        (".gitignore", "/sandbox/data/\n/.env\n"),
        ("docs/schema/manifest.json", &*schema),
    ];
    for (name, text) in files {
        let path = root.join(name);
        if !path.exists() {
            write(&path, text.as_bytes())?;
            made.push(path);
        }
    }
    // Files from another source must be reviewed before trust covers them.
    let before = home.require_trust(&session.environment).is_ok();
    let newly_trusted = !before && contents.is_empty() && trust(&home, &session.environment)?;
    let trusted = before || newly_trusted;
    let output = session.output;
    if output.json {
        let mut object = json!({ "home": home.root(), "made": made, "trusted": trusted, "newly_trusted": newly_trusted });
        if !trusted {
            object["found"] = json!(contents);
        }
        output.print_json(&object)?;
        return Ok(exit::OK);
    }
    let place = display_safe(&home.root().display().to_string());
    output.print_line(format!(
        "{place} is a home ({} files created, existing files kept)",
        made.len()
    ))?;
    if !trusted {
        return contents.print(output, &place);
    }
    output.print_line("next:")?;
    output.print_line(format!("  skillhost --home {place} skill list"))?;
    output.print_line(format!("  skillhost --home {place} ask --print-prompt \"hello\""))?;
    output.print_line(format!("  skillhost --home {place} run"))?;
    Ok(exit::OK)
}

/// The contents of a directory before it became a home, as far as the kernel uses them.
#[derive(Debug, Default, Serialize)]
struct Contents {
    /// Manifests of libraries, processes and agents, and manifests that do not parse.
    manifests: Vec<FoundManifest>,
    /// Keys of skillhost.yaml with values other than the default.
    settings: BTreeMap<String, serde_json::Value>,
    /// Other relevant files, such as `.env`.
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct FoundManifest {
    id: String,
    kind: &'static str,
    path: PathBuf,
}

impl Contents {
    /// Reads a home before files are copied to it.
    fn of(home: &Home) -> Self {
        let home = home.clone().into_untrusted();
        let mut contents = Self::default();
        contents.add_manifests(&home);
        contents.add_settings(&home);
        for name in [".env", "sandbox/data", "sandbox/skills"] {
            contents.add_files(&home.root().join(name));
        }
        contents
    }

    fn is_empty(&self) -> bool {
        self.manifests.is_empty() && self.files.is_empty()
    }

    fn add_manifests(&mut self, home: &Home) {
        let found = discover_manifests(home, None, &[]);
        for found in found.manifests.values() {
            let kind = match found.manifest.kind {
                skillhost_manifest::ExtensionKind::Agent(_) => "agent",
                skillhost_manifest::ExtensionKind::Process { .. } => "process",
                skillhost_manifest::ExtensionKind::Library { .. } => "library",
            };
            let (id, path) = (found.manifest.id.to_string(), found.path.clone());
            self.manifests.push(FoundManifest { id, kind, path });
        }
        for rejected in found.rejected {
            let (id, path) = (rejected.id, rejected.manifest);
            self.manifests.push(FoundManifest { id, kind: "not readable", path });
        }
        // A directory without a manifest may get one later, so its files count, too.
        for folder in [home.manifests_dir(), home.extensions_dir()] {
            let named =
                |path: &Path| self.manifests.iter().any(|found| found.path.starts_with(path));
            let others: Vec<_> = entries(&folder).into_iter().filter(|path| !named(path)).collect();
            self.files.extend(others);
        }
    }

    fn add_settings(&mut self, home: &Home) {
        let file = home.settings_file();
        if file.symlink_metadata().is_err() {
            return;
        }
        self.files.push(file);
        let Ok(loaded) = Settings::load_home(home) else { return };
        let as_json = |settings| serde_json::to_value(settings).unwrap_or_default();
        let (values, defaults) = (as_json(loaded.settings), as_json(Settings::default()));
        for (key, value) in values.as_object().into_iter().flatten() {
            if defaults.get(key) != Some(value) {
                self.settings.insert(key.clone(), value.clone());
            }
        }
    }

    fn add_files(&mut self, path: &Path) {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => self.files.extend(entries(path)),
            Ok(_) => self.files.push(path.to_owned()),
            Err(_) => {}
        }
    }

    /// Prints the code and settings that trust in the home would enable.
    fn print(&self, output: Output, place: &str) -> CommandResult {
        output.print_line("it is not trusted, because it had contents before:")?;
        for FoundManifest { id, kind, path } in &self.manifests {
            let path = path.display().to_string();
            output.print_line(format!(
                "  {kind:<12} {:<24} {}",
                display_safe(id),
                display_safe(&path)
            ))?;
        }
        for (key, value) in &self.settings {
            output.print_line(format!(
                "  {:<12} {:<24} {}",
                "setting",
                display_safe(key),
                display_safe(&value.to_string())
            ))?;
        }
        for path in self.files.iter().take(MAX_LISTED_FILES) {
            output.print_line(format!(
                "  {:<12} {}",
                "file",
                display_safe(&path.display().to_string())
            ))?;
        }
        if let Some(more) = self.files.len().checked_sub(MAX_LISTED_FILES).filter(|more| *more > 0)
        {
            output.print_line(format!("  and {more} more files and directories"))?;
        }
        output.print_line("next, after a look at them:")?;
        output.print_line(format!("  skillhost trust {place}"))?;
        Ok(exit::OK)
    }
}

/// Returns the entries of a directory, sorted; empty if the directory does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Fails if a link would redirect new files out of the directory.
fn refuse_links(root: &Path) -> Result<(), CliError> {
    for name in FOLDERS {
        let path = root.join(name);
        if path.is_symlink() {
            let message = format!("{} is a symbolic link", path.display());
            return Err(CliError::new(exit::IO, message)
                .with_hint("replace it with a directory, and run init again"));
        }
    }
    Ok(())
}

/// Copies a tree of files; existing files stay unchanged.
fn copy_missing(from: &Path, to: &Path, made: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let entries = fs::read_dir(from).map_err(|error| CliError::io(from, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| CliError::io(from, &error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| CliError::io(&source, &error))?;
        if target.is_symlink() {
            // The target of a link may lie outside the home.
            continue;
        }
        if kind.is_dir() {
            copy_missing(&source, &target, made)?;
        } else if kind.is_file() && !target.exists() {
            let bytes = fs::read(&source).map_err(|error| CliError::io(&source, &error))?;
            write(&target, &bytes)?;
            made.push(target);
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| write_atomically(path, bytes))
        .map_err(|error| CliError::io(path, &error))
}
