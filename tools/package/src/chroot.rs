//! Commands in another root directory, in namespaces of their own.
//!
//! Each command has a private mount namespace and a private process namespace: its mounts and the
//! processes that it leaves behind disappear with it, even if this program is killed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Result;
use crate::archive::is_root;

/// Mounts the devices and `/proc`, and a directory if one is named, and runs the command.
const SCRIPT: &str = r#"
root=$1 source=$2 target=$3
shift 3
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
for device in null zero full random urandom; do
    [ -e "$root/dev/$device" ] || : > "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
if [ -n "$source" ]; then
    mkdir -p "$root$target"
    mount --bind "$source" "$root$target"
    mount -o remount,ro,bind "$root$target"
fi
exec env -i "$@"
"#;

/// The variables of a command, unless it names others.
const VARIABLES: [(&str, &str); 2] =
    [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")];

/// A root directory in which commands run without network.
#[derive(Debug)]
pub struct ChrootRoot {
    directory: PathBuf,
}

/// A command for a root directory.
#[derive(Debug, Clone)]
pub struct ChrootCommand<'a> {
    /// The program and its arguments.
    pub words: Vec<&'a str>,
    /// The user and group that it runs as.
    pub user: u32,
    /// Its variables in addition to `PATH` and `LANG`, or instead of them.
    pub variables: Vec<(String, String)>,
    /// A directory of this machine, and the path at which it is readable.
    pub mount: Option<(&'a Path, &'a str)>,
}

impl<'a> ChrootCommand<'a> {
    /// Creates a command of root.
    #[must_use]
    pub fn new(words: &[&'a str]) -> Self {
        Self { words: words.to_vec(), user: 0, variables: Vec::new(), mount: None }
    }

    /// Returns the command as a user would type it.
    #[must_use]
    pub fn display(&self) -> String {
        self.words.join(" ")
    }
}

impl ChrootRoot {
    /// Uses a directory.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs a command and returns its output.
    ///
    /// # Errors
    /// The namespaces cannot be created or the command cannot be started.
    pub fn run(&self, command: &ChrootCommand<'_>) -> Result<Output> {
        let chroot = ["/usr/sbin/chroot", "/usr/bin/chroot", "/sbin/chroot", "/bin/chroot"];
        let chroot = chroot.into_iter().find(|path| Path::new(path).exists());
        let chroot = chroot.ok_or("the program chroot was not found")?;
        let mut unshare = Command::new("unshare");
        if !is_root() {
            unshare.arg("--map-root-user");
        }
        unshare.args(["--mount", "--pid", "--net", "--fork", "--kill-child"]);
        unshare.args(["--propagation", "private", "sh", "-ec", SCRIPT, "sh"]);
        unshare.arg(&self.directory);
        let (source, target) = command.mount.unwrap_or((Path::new(""), ""));
        unshare.args([source.as_os_str(), OsStr::new(target)]);
        let defaults = VARIABLES
            .iter()
            .filter(|(name, _)| !command.variables.iter().any(|(variable, _)| variable == name));
        unshare.args(defaults.map(|(name, value)| format!("{name}={value}")));
        unshare.args(command.variables.iter().map(|(name, value)| format!("{name}={value}")));
        unshare.arg(chroot);
        // A user without privileges has one user id in its namespace.
        if command.user != 0 && is_root() {
            unshare.arg(format!("--userspec={0}:{0}", command.user));
        }
        unshare.arg(&self.directory).args(&command.words);
        unshare.output().map_err(|error| format!("unshare: {error}").into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::archive::{unpack_tar, write_tar};
    use crate::image::base_layer;
    use crate::tree::{EXECUTABLE_MODE, PackageTree};

    #[test]
    #[cfg(target_os = "linux")]
    fn command_leaves_no_mounts() {
        let mut tree = PackageTree::default();
        tree.insert_file("usr/bin/cat", EXECUTABLE_MODE, fs::read("/bin/cat").unwrap());
        let base = base_layer(&tree, std::env::consts::ARCH).unwrap();
        let directory = tempfile::tempdir().unwrap();
        for layer in [&base, &tree] {
            unpack_tar(&*write_tar(layer, "", 0, Vec::new()).unwrap(), directory.path()).unwrap();
        }
        let shared = tempfile::tempdir().unwrap();
        fs::write(shared.path().join("text"), "shared").unwrap();
        let root = ChrootRoot::new(directory.path().to_owned());
        let mut command = ChrootCommand::new(&["/usr/bin/cat", "/shared/text", "/proc/mounts"]);
        command.mount = Some((shared.path(), "/shared"));
        let output = root.run(&command).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.starts_with("unshare: ") {
            eprintln!("skipped: {errors}");
            return;
        }
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.starts_with("shared"), "{text}");
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(directory.path().to_str().unwrap()), "{mounts}");
        assert!(!directory.path().join("shared/text").exists());
        let missing = root.run(&ChrootCommand::new(&["/usr/bin/none"])).unwrap();
        assert!(!missing.status.success());
    }
}
