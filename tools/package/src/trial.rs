//! Trials of packages: each is installed into a root directory of its own and used there, without
//! network and as a user without privileges.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Result;
use crate::archive::{is_root, unpack_tar};
use crate::checksums::verify_checksums;
use crate::chroot::{ChrootCommand, ChrootRoot};
use crate::debian_root::{DebianRoot, RootSettings, remove_directory};
use crate::image::unpack_image;
use crate::tree::PackageTree;

/// The user that runs the program in the trials of the archive and of the Debian package.
const USER: u32 = 1000;
/// The home directory of that user.
const USER_HOME: &str = "/home/ada";
/// The directory of the toolchain in a root.
const TOOLCHAIN: &str = "/opt/toolchain";
/// The task that the built-in script of the program plays.
const TASK: &str = "Review the echo extension for best practices";

/// The packages of one version and the directories of a trial.
#[derive(Debug, Clone)]
pub struct TrialSettings<'a> {
    /// The directory of the packages.
    pub packages: &'a Path,
    /// The version that they must have.
    pub version: &'a str,
    /// The processor in the words of Rust.
    pub arch: &'a str,
    /// The place of root directories.
    pub roots: RootSettings<'a>,
}

/// Verifies all digests, and installs and uses the archive, the Debian package and the image.
///
/// Prints one line per step.
///
/// # Errors
/// A package is missing or damaged, or a step fails.
pub fn try_packages(settings: &TrialSettings<'_>) -> Result<()> {
    fs::create_dir_all(settings.roots.cache)?;
    let unpacked = settings.roots.cache.join("archive");
    let image = settings.roots.cache.join("image");
    let result = try_each(settings, &unpacked, &image);
    for directory in [unpacked, image] {
        remove_directory(&directory)?;
    }
    result
}

fn try_each(settings: &TrialSettings<'_>, unpacked: &Path, image: &Path) -> Result<()> {
    println!("digests");
    let count = verify_checksums(settings.packages)?;
    report(&format!("SHA256SUMS: {count} files"));
    println!("archive");
    remove_directory(unpacked)?;
    unpack_archive(&find_package(settings.packages, ".tar.zst")?, unpacked)?;
    let product = PackageTree::from_directory(unpacked)?;
    try_archive(settings, &product, unpacked)?;
    println!("debian package");
    try_debian(settings, &product)?;
    println!("image");
    try_image(settings, image)
}

/// Finds the package whose name has an ending.
fn find_package(directory: &Path, ending: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(format!("{}: {count} packages {ending}", directory.display()).into()),
    }
}

/// Unpacks the archive without the directory that all its files are in.
fn unpack_archive(archive: &Path, to: &Path) -> Result<()> {
    let temporary = to.with_extension("new");
    remove_directory(&temporary)?;
    fs::create_dir_all(&temporary)?;
    unpack_tar(zstd::Decoder::new(fs::File::open(archive)?)?, &temporary)?;
    let mut entries = fs::read_dir(&temporary)?;
    let (first, second) = (entries.next().transpose()?, entries.next());
    let (Some(first), None) = (first, second) else {
        return Err(format!("{}: not one directory", archive.display()).into());
    };
    fs::rename(first.path(), to)?;
    remove_directory(&temporary)
}

/// Creates a root for the product: Debian's smallest system, or a composed one.
fn create_root(settings: &TrialSettings<'_>, product: &PackageTree) -> Result<DebianRoot> {
    DebianRoot::bootstrap(&settings.roots, &[]).or_else(|error| {
        println!(
            "  SKIPPED a root of Debian ({error}); a root with this machine's libraries instead"
        );
        DebianRoot::compose(&settings.roots, product, settings.arch)
    })
}

fn try_archive(settings: &TrialSettings<'_>, product: &PackageTree, unpacked: &Path) -> Result<()> {
    let root = create_root(settings, product)?;
    let opt = root.root().directory().join("opt");
    fs::create_dir_all(&opt)?;
    let mut copy = Command::new("cp");
    let output = copy.arg("-a").arg(unpacked).arg(opt.join("skillhost")).output()?;
    require_success("cp", &output)?;
    let home = create_user(root.root())?;
    let user = TrialUser {
        root: root.root(),
        program: "/opt/skillhost/bin/skillhost",
        user: USER,
        variables: vec![("HOME".to_owned(), USER_HOME.to_owned())],
        mount: None,
    };
    user.try_main_flow(settings.version, &home)
}

fn try_debian(settings: &TrialSettings<'_>, product: &PackageTree) -> Result<()> {
    let root = create_root(settings, product)?;
    let before = root.list_files()?;
    install(&root, settings.packages)?;
    let home = create_user(root.root())?;
    let user = TrialUser::of_package(root.root());
    user.try_main_flow(settings.version, &home)?;
    if !root.is_composed() {
        let scripts = "/usr/share/bash-completion/completions/skillhost";
        let output = root.root().run(&ChrootCommand::new(&["bash", "-n", scripts]))?;
        require_success("bash -n", &output)?;
        report("completions: bash reads them");
    }
    let output = root.run_dpkg(&["--verify", "skillhost"])?;
    let differences = require_success("dpkg --verify", &output)?;
    if !differences.is_empty() {
        return Err(format!("dpkg --verify: {differences}").into());
    }
    report("dpkg --verify: no differences");
    require_success("dpkg --purge", &root.run_dpkg(&["--purge", "skillhost"])?)?;
    remove_directory(&root.root().directory().join(&USER_HOME[1..]))?;
    // A composed root had no directory of homes.
    let _removed_if_empty = fs::remove_dir(root.root().directory().join("home"));
    let mut after = root.list_files()?;
    after.extend(before.iter().filter(|path| *path == Path::new("home")).cloned());
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    if !left.is_empty() {
        return Err(format!("files differ after the removal: {left:?}").into());
    }
    report("dpkg --purge: nothing is left");
    drop(root);
    match DebianRoot::bootstrap(&settings.roots, &["gcc", "libc6-dev"]) {
        Ok(root) => try_offline_build(settings, &root),
        Err(error) => {
            println!("  SKIPPED the build of an extension: it requires a linker ({error})");
            Ok(())
        }
    }
}

/// Installs the Debian package into a root.
fn install(root: &DebianRoot, packages: &Path) -> Result<()> {
    let package = find_package(packages, ".deb")?;
    let inside = root.root().directory().join("skillhost.deb");
    fs::copy(&package, &inside)?;
    let output = root.run_dpkg(&["--install", "/skillhost.deb"])?;
    fs::remove_file(&inside)?;
    require_success("dpkg --install", &output)?;
    report("dpkg --install");
    Ok(())
}

/// Builds the first extension with an empty cargo home and without network.
fn try_offline_build(settings: &TrialSettings<'_>, root: &DebianRoot) -> Result<()> {
    let Some(toolchain) = find_toolchain() else {
        println!("  SKIPPED the build of an extension: rustc was not found");
        return Ok(());
    };
    install(root, settings.packages)?;
    let home = create_user(root.root())?;
    let mut user = TrialUser::of_package(root.root());
    user.mount = Some((&toolchain, TOOLCHAIN));
    let path = format!("{TOOLCHAIN}/bin:/usr/bin:/bin");
    user.variables.push(("PATH".to_owned(), path));
    user.variables.push(("CARGO_HOME".to_owned(), format!("{USER_HOME}/cargo")));
    user.expect(&["init", &home], &["is a home"])?;
    user.expect(&["--home", &home, "ext", "new", "tea"], &["made "])?;
    user.expect(&["--home", &home, "ext", "build", "tea", "--yes"], &["tools tea_greet"])?;
    let call = ["--home", &home, "tool", "call", "tea_greet", r#"{"name": "Ada"}"#];
    user.expect(&call, &["Hello, Ada!"])
}

/// Returns the directory of the toolchain that `rustc` belongs to.
fn find_toolchain() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.join("bin/cargo").is_file().then_some(path)
}

fn try_image(settings: &TrialSettings<'_>, directory: &Path) -> Result<()> {
    remove_directory(directory)?;
    fs::create_dir_all(directory)?;
    let configuration = unpack_image(&find_package(settings.packages, ".oci")?, directory)?;
    report("digests of all blobs and layers");
    let config = configuration.config().as_ref().ok_or("an image without a configuration")?;
    let program = config.entrypoint().iter().flatten().next().ok_or("no entrypoint")?;
    let user = config.user().as_deref().and_then(|user| user.split(':').next());
    let user: u32 = user.ok_or("an image that runs as root")?.parse()?;
    let variables = config.env().iter().flatten().filter_map(|variable| {
        let (name, value) = variable.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let home = config.working_dir().as_deref().ok_or("an image without a directory")?;
    let root = ChrootRoot::new(directory.to_owned());
    let trial =
        TrialUser { root: &root, program, user, variables: variables.collect(), mount: None };
    trial.try_main_flow(settings.version, &format!("{home}/agents"))
}

/// Creates the home directory of the trial's user and returns a path in it.
fn create_user(root: &ChrootRoot) -> Result<String> {
    let path = root.directory().join(&USER_HOME[1..]);
    fs::create_dir_all(&path)?;
    if is_root() {
        chown(&path, Some(USER), Some(USER))?;
    }
    Ok(format!("{USER_HOME}/agents"))
}

/// A user of an installed program.
struct TrialUser<'a> {
    root: &'a ChrootRoot,
    program: &'a str,
    user: u32,
    variables: Vec<(String, String)>,
    mount: Option<(&'a Path, &'a str)>,
}

impl<'a> TrialUser<'a> {
    /// Returns the user of the Debian package.
    fn of_package(root: &'a ChrootRoot) -> Self {
        let variables = vec![("HOME".to_owned(), USER_HOME.to_owned())];
        Self { root, program: "skillhost", user: USER, variables, mount: None }
    }

    /// Creates a home, and lists, validates and asks.
    fn try_main_flow(&self, version: &str, home: &str) -> Result<()> {
        self.expect(&["--version"], &[&format!("skillhost {version}")])?;
        self.expect(&["init", home], &["is a home"])?;
        let ids = ["skill_registry", "core_tools", "echo", "builder_agent", "orchestrator_agent"];
        self.expect(&["--home", home, "ext", "list"], &ids)?;
        self.expect(&["--home", home, "ext", "doctor"], &[])?;
        self.expect(&["--home", home, "skill", "list"], &["code-review"])?;
        let skills = format!("{home}/sandbox/skills");
        self.expect(&["skill", "validate", &skills], &["valid"])?;
        self.expect(&["--home", home, "ask", TASK], &["## Review of the echo extension"])
    }

    /// Runs the program, and compares its exit code and its output.
    fn expect(&self, words: &[&str], expected: &[&str]) -> Result<()> {
        let command = ChrootCommand {
            words: [&[self.program], words].concat(),
            user: self.user,
            variables: self.variables.clone(),
            mount: self.mount,
        };
        let shown = format!("skillhost {}", words.join(" "));
        let text = require_success(&shown, &self.root.run(&command)?)?;
        if let Some(missing) = expected.iter().find(|expected| !text.contains(**expected)) {
            return Err(format!("{shown}: `{missing}` is not in:\n{text}").into());
        }
        report(&shown);
        Ok(())
    }
}

/// Returns the standard output of a successful command.
fn require_success(command: &str, output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command}: {}\n{text}{errors}", output.status).into())
}

fn report(step: &str) {
    println!("  ok {step}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{CompressionLevel, compress_zstd, write_tar};
    use crate::checksums::write_checksums;
    use crate::debian::{DebianSettings, make_package};
    use crate::sample::sample_prefix;
    use crate::tree::EXECUTABLE_MODE;

    /// Writes an archive and a Debian package with a program of this machine.
    fn write_packages(directory: &Path, program: &str) {
        let mut prefix = sample_prefix();
        prefix.insert_file("bin/skillhost", EXECUTABLE_MODE, fs::read(program).unwrap());
        let level = CompressionLevel::Fast;
        let tar = write_tar(&prefix, "skillhost-0.2.0/", 0, Vec::new()).unwrap();
        fs::write(directory.join("a.tar.zst"), compress_zstd(&tar, level).unwrap()).unwrap();
        let arch = std::env::consts::ARCH;
        let maintainer = "Ada <ada@example.org>";
        let settings =
            DebianSettings { version: "0.2.0", arch, maintainer, time: 0, unit: None, level };
        fs::write(directory.join("a.deb"), make_package(&prefix, &settings).unwrap()).unwrap();
        write_checksums(directory).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn trial_of_wrong_program_fails() {
        let packages = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        write_packages(packages.path(), "/bin/echo");
        let settings = TrialSettings {
            packages: packages.path(),
            version: "0.2.0",
            arch: std::env::consts::ARCH,
            // There is no such release, so that the root is composed.
            roots: RootSettings { cache: cache.path(), suite: "none" },
        };
        let error = try_packages(&settings).unwrap_err().to_string();
        if error.contains("unshare: ") || error.contains("dpkg-query: ") {
            eprintln!("skipped: {error}");
            return;
        }
        let expected = "skillhost --version: `skillhost 0.2.0` is not in:\necho (GNU coreutils)";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        fs::write(packages.path().join("a.tar.zst"), "changed").unwrap();
        let error = try_packages(&settings).unwrap_err().to_string();
        assert_eq!(error, "a.tar.zst: differs from SHA256SUMS");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn package_is_installed_and_removed_in_composed_root() {
        let (packages, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_packages(packages.path(), "/bin/echo");
        let roots = RootSettings { cache: cache.path(), suite: "none" };
        let mut product = PackageTree::default();
        product.insert_file("bin/echo", EXECUTABLE_MODE, fs::read("/bin/echo").unwrap());
        let root = match DebianRoot::compose(&roots, &product, std::env::consts::ARCH) {
            Ok(root) => root,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let before = root.list_files().unwrap();
        if let Err(error) = install(&root, packages.path()) {
            assert!(error.to_string().contains("unshare: "), "{error}");
            eprintln!("skipped: {error}");
            return;
        }
        let library = root.root().directory().join("usr/lib/skillhost/libecho.so");
        assert!(library.is_file());
        fs::write(&library, "changed").unwrap();
        let output = root.run_dpkg(&["--verify", "skillhost"]).unwrap();
        let differences = String::from_utf8_lossy(&output.stdout);
        assert!(differences.contains("/usr/lib/skillhost/libecho.so"), "{differences}");
        require_success("purge", &root.run_dpkg(&["--purge", "skillhost"]).unwrap()).unwrap();
        assert_eq!(root.list_files().unwrap(), before);
    }
}
