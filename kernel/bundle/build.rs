//! Packs the files of an installation, as `cargo xtask install` lays them out, for the program that
//! contains them. Without the feature `contents` there is nothing to do.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "contents")]
    share::pack()?;
    Ok(())
}

#[cfg(feature = "contents")]
mod share {
    use std::collections::BTreeMap;
    use std::error::Error;
    use std::fmt::Write as _;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// The directories, and their paths below `share/skillhost`.
    const DIRECTORIES: [(&str, &str); 6] = [
        ("manifests", "manifests"),
        ("sandbox/skills", "skills"),
        ("docs", "docs"),
        ("kernel/sdk", "sdk/sdk"),
        ("kernel/contract", "sdk/contract"),
        ("kernel/payload", "sdk/payload"),
    ];

    /// The files, and their paths below `share/skillhost`.
    const FILES: [(&str, &str); 8] = [
        ("README.md", "README.md"),
        ("ARCHITECTURE.md", "ARCHITECTURE.md"),
        ("CHANGELOG.md", "CHANGELOG.md"),
        ("CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("LICENSE-MIT", "LICENSE-MIT"),
        ("LICENSE-APACHE", "LICENSE-APACHE"),
        ("extensions/skill_registry/tokens/data/LICENSE-o200k_base", "LICENSE-o200k_base"),
        // The versions with which extensions are built: those of this program.
        ("Cargo.lock", "sdk/Cargo.lock"),
    ];

    /// The crates of the SDK, which become a workspace of their own.
    const SDK: [&str; 3] = ["sdk", "contract", "payload"];

    /// A file's content, and whether it is executable.
    type FileContent = (Vec<u8>, bool);

    pub(crate) fn pack() -> Result<(), Box<dyn Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = BTreeMap::new();
        for (source, target) in DIRECTORIES {
            add_directory(&root.join(source), target, &mut files)?;
        }
        for (source, target) in FILES {
            add_file(&root.join(source), target, &mut files)?;
        }
        println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
        let workspace = sdk_workspace(&fs::read_to_string(root.join("Cargo.toml"))?)?;
        files.insert("sdk/Cargo.toml".to_owned(), (workspace.into_bytes(), false));

        let (mut all, mut table) = (Vec::new(), String::new());
        for (path, (bytes, executable)) in &files {
            writeln!(table, "    ({path:?}, {}, {executable}),", bytes.len())?;
            all.extend_from_slice(bytes);
        }
        let name = format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hash(table.as_bytes(), &all));
        let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
        let compressed = miniz_oxide::deflate::compress_to_vec(&all, 9);
        fs::write(Path::new(&out).join("files.deflate"), compressed)?;
        let code = format!(
            "const DIRECTORY: &str = {name:?};\n\
             static FILES: &[(&str, usize, bool)] = &[\n{table}];\n\
             static COMPRESSED: &[u8] = include_bytes!(concat!(env!(\"OUT_DIR\"), \"/files.deflate\"));\n"
        );
        fs::write(Path::new(&out).join("files.rs"), code)?;
        Ok(())
    }

    fn add_directory(
        dir: &Path,
        target: &str,
        files: &mut BTreeMap<String, FileContent>,
    ) -> Result<(), Box<dyn Error>> {
        // For files that are added or removed.
        println!("cargo::rerun-if-changed={}", dir.display());
        for entry in fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| "a name is not UTF-8")?;
            let target = format!("{target}/{name}");
            if entry.file_type()?.is_dir() {
                add_directory(&entry.path(), &target, files)?;
            } else {
                add_file(&entry.path(), &target, files)?;
            }
        }
        Ok(())
    }

    fn add_file(
        path: &Path,
        target: &str,
        files: &mut BTreeMap<String, FileContent>,
    ) -> Result<(), Box<dyn Error>> {
        println!("cargo::rerun-if-changed={}", path.display());
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let executable = fs::metadata(path)?.permissions().mode() & 0o111 != 0;
        files.insert(target.to_owned(), (bytes, executable));
        Ok(())
    }

    /// Returns the workspace from which the crates of the SDK inherit, made from ours.
    fn sdk_workspace(ours: &str) -> Result<String, Box<dyn Error>> {
        let start = ours.find("[workspace.package]").ok_or("no [workspace.package]")?;
        let end = ours.find("[profile.dev]").ok_or("no [profile.dev]")?;
        let members = "members = [\"sdk\", \"contract\", \"payload\"]";
        let mut text = format!("[workspace]\nresolver = \"3\"\n{members}\n\n");
        for line in ours[start..end].lines() {
            // Paths of our other crates would not exist.
            let is_copied = |name: &str| line.starts_with(&format!("skillhost-{name} "));
            if !line.contains("path = ") || SDK.into_iter().any(is_copied) {
                writeln!(text, "{}", line.replace("kernel/", ""))?;
            }
        }
        Ok(text)
    }

    /// Computes a hash (FNV-1a, 64 bits) that tells builds apart; it protects nothing.
    fn hash(table: &[u8], contents: &[u8]) -> u64 {
        table.iter().chain(contents).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}
