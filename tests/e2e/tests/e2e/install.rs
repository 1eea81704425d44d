//! Tests of the product as `cargo xtask install` installs it, run from another directory, and of
//! `skillhost init`, which copies from there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::{Output, Terminal, TestHome, binary, profile_dir};

use crate::builds::toolchain;
use crate::bundled::is_bundled;
use crate::fixtures::{bind_time_filters, repository_root, stable_json};

/// A copy installed from the build directory, next to an otherwise empty home.
pub(crate) struct Installation {
    place: TestHome,
    prefix: PathBuf,
}

impl Installation {
    pub(crate) fn new() -> Self {
        let place = TestHome::new();
        let prefix = place.outside().join("prefix");
        let installed = Self { place, prefix };
        installed.install();
        installed
    }

    /// Installs the files of the build, also over those of an earlier call.
    fn install(&self) {
        let profile = profile_dir();
        let mut xtask = Command::new(profile.join("xtask"));
        xtask.args(["install", "--no-build", "--prefix"]).arg(&self.prefix);
        if profile.ends_with("debug") {
            xtask.arg("--debug");
        }
        let output = xtask.env("CARGO_TARGET_DIR", profile.join("..")).output();
        let output =
            output.expect("xtask is built; run `cargo xtask test` or cargo build -p xtask");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs the installed program in a directory from which no home is found.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        let mut command = self.place.command_of(&self.prefix.join("bin/skillhost"));
        self.place.start(command.current_dir(self.place.outside()).args(args)).finish()
    }

    /// The directory of the installation.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// A directory outside of every home, which contains the installation.
    pub(crate) fn outside(&self) -> &Path {
        self.place.outside()
    }

    /// Returns a command with the environment of a new user.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.place.command_of(program)
    }

    /// Starts a command on a terminal with a size in columns and rows.
    pub(crate) fn on_terminal(&self, command: &mut Command, size: (u16, u16)) -> Terminal {
        self.place.on_terminal(command, size)
    }

    fn home_dir(&self) -> PathBuf {
        self.place.outside().join("mine")
    }
}

pub(crate) fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder that was just made") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(directory).expect("it lies below");
                found.push(relative.display().to_string());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn installation_is_complete() {
    let installed = Installation::new();
    let all = files(&installed.prefix);
    let outside_sdk: Vec<_> = all
        .iter()
        .filter(|path| !path.starts_with("share/skillhost/sdk/"))
        .filter(|path| !path.starts_with("share/skillhost/docs/"))
        .filter(|path| !path.contains("/templates/"))
        .filter(|path| !path.starts_with("share/man/man1/skillhost-"))
        .cloned()
        .collect();
    insta::assert_snapshot!(outside_sdk.join("\n"), @"
    bin/skillhost
    lib/skillhost/libcore_tools.so
    lib/skillhost/libecho.so
    lib/skillhost/libembedding.so
    lib/skillhost/libskill_registry.so
    lib/skillhost/libtelegram.so
    lib/skillhost/libweb_search.so
    lib/skillhost/libwebhook.so
    share/bash-completion/completions/skillhost
    share/fish/vendor_completions.d/skillhost.fish
    share/man/man1/skillhost.1
    share/skillhost/ARCHITECTURE.md
    share/skillhost/CHANGELOG.md
    share/skillhost/CONTRIBUTING.md
    share/skillhost/LICENSE-APACHE
    share/skillhost/LICENSE-MIT
    share/skillhost/LICENSE-o200k_base
    share/skillhost/README.md
    share/skillhost/manifests/builder_agent/manifest.yaml
    share/skillhost/manifests/builder_agent/prompt.jinja2
    share/skillhost/manifests/core_tools/manifest.yaml
    share/skillhost/manifests/echo/manifest.yaml
    share/skillhost/manifests/embedding/manifest.yaml
    share/skillhost/manifests/orchestrator_agent/manifest.yaml
    share/skillhost/manifests/orchestrator_agent/prompt.jinja2
    share/skillhost/manifests/reviewer_agent/manifest.yaml
    share/skillhost/manifests/reviewer_agent/prompt.jinja2
    share/skillhost/manifests/skill_registry/manifest.yaml
    share/skillhost/manifests/task_worker_agent/manifest.yaml
    share/skillhost/manifests/task_worker_agent/prompt.jinja2
    share/skillhost/manifests/telegram/manifest.yaml
    share/skillhost/manifests/web_search/manifest.yaml
    share/skillhost/manifests/webhook/manifest.yaml
    share/skillhost/skills/code-review/SKILL.md
    share/skillhost/skills/code-review/evals/evals.json
    share/skillhost/skills/code-review/evals/triggers.json
    share/skillhost/skills/code-review/references/rust.md
    share/skillhost/skills/extension-development/SKILL.md
    share/skillhost/skills/extension-development/evals/triggers.json
    share/skillhost/skills/extension-development/references/protocols.md
    share/skillhost/skills/skill-authoring/SKILL.md
    share/skillhost/skills/skill-authoring/evals/evals.json
    share/skillhost/skills/skill-authoring/evals/triggers.json
    share/skillhost/skills/skill-authoring/references/specification.md
    share/skillhost/skills/task-decomposition/SKILL.md
    share/skillhost/skills/task-decomposition/evals/triggers.json
    share/zsh/site-functions/_skillhost
    ");
    assert!(all.contains(&"share/man/man1/skillhost-skill-validate.1".to_owned()), "{all:?}");
    for file in ["Cargo.toml", "sdk/Cargo.toml", "sdk/src/lib.rs", "contract/src/abi.rs"] {
        assert!(all.contains(&format!("share/skillhost/sdk/{file}")), "{file} of {all:?}");
    }
}

#[test]
fn installation_contains_every_library_and_page() {
    let installed = Installation::new();
    let all = files(&installed.prefix);
    let mut libraries = 0;
    for manifest in files(&repository_root().join("manifests")) {
        assert!(all.contains(&format!("share/skillhost/manifests/{manifest}")), "{manifest}");
        let text = fs::read_to_string(repository_root().join("manifests").join(&manifest)).unwrap();
        for name in text.lines().filter_map(|line| line.strip_prefix("entrypoint: ")) {
            assert!(all.contains(&format!("lib/skillhost/lib{name}.so")), "{name} of {manifest}");
            libraries += 1;
        }
    }
    assert!(libraries >= 5, "{libraries}");
    for page in files(&repository_root().join("docs")) {
        assert!(all.contains(&format!("share/skillhost/docs/{page}")), "{page}");
    }
    for (shell, path) in [
        ("bash", "share/bash-completion/completions/skillhost"),
        ("zsh", "share/zsh/site-functions/_skillhost"),
        ("fish", "share/fish/vendor_completions.d/skillhost.fish"),
    ] {
        let script = installed.run(["completions", shell]).success().stdout;
        assert_eq!(fs::read_to_string(installed.prefix.join(path)).unwrap(), script, "{shell}");
    }
}

#[test]
fn second_installation_has_same_files() {
    let installed = Installation::new();
    let first = files(&installed.prefix);
    // An interrupted command left this file.
    let program = installed.prefix.join("bin/skillhost");
    fs::write(program.with_extension("new"), "").unwrap();
    installed.install();
    assert_eq!(files(&installed.prefix), first);
    // Another program is replaced, not written into: it may be running.
    let other = installed.outside().join("other");
    fs::write(&other, "other").unwrap();
    fs::remove_file(&program).unwrap();
    fs::hard_link(&other, &program).unwrap();
    installed.install();
    assert_eq!(fs::read_to_string(&other).unwrap(), "other");
    installed.run(["--version"]).success();
}

/// Returns the targets of the relative links in a page, without those in code.
fn links(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    let targets = lines
        .flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()));
    targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

#[test]
fn installed_document_links_resolve() {
    let installed = Installation::new();
    let share = installed.prefix.join("share/skillhost");
    let mut seen = 0;
    for page in files(&share).iter().filter(|path| path.ends_with(".md")) {
        // The examples in the documentation of the rules link to files of imaginary skills.
        if ["sdk/", "skills/", "docs/rules.md"].iter().any(|other| page.starts_with(other)) {
            continue;
        }
        let page = share.join(page);
        for link in links(&fs::read_to_string(&page).unwrap()) {
            assert!(page.parent().unwrap().join(link).exists(), "{} -> {link}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
    installed.run(["init", "mine"]).success();
    let settings = fs::read_to_string(installed.home_dir().join("skillhost.yaml")).unwrap();
    let named: Vec<_> = settings.split(['(', ')']).filter(|part| part.ends_with(".md")).collect();
    assert_eq!(named.len(), 3, "{settings}");
    for page in named {
        assert!(Path::new(page).is_file(), "{page}");
    }
    let manifest = installed.prefix.join("share/skillhost/manifests/echo/manifest.yaml");
    let text = fs::read_to_string(&manifest).unwrap();
    let schema = text.lines().next().unwrap().rsplit('=').next().unwrap();
    assert!(manifest.parent().unwrap().join(schema).is_file(), "{schema}");
}

#[test]
fn installed_copy_runs_main_flow() {
    let _filters = bind_time_filters();
    let installed = Installation::new();
    insta::assert_snapshot!(installed.run(["init", "mine"]), @r#"
    exit 0
    --- stdout
    [OUTSIDE]/mine is a home ([N] files created, existing files kept)
    next:
      skillhost --home [OUTSIDE]/mine skill list
      skillhost --home [OUTSIDE]/mine ask --print-prompt "hello"
      skillhost --home [OUTSIDE]/mine run
    "#);
    let run = |args: &[&str]| installed.run(["--home", "mine"].iter().chain(args)).success();
    let report = run(&["ext", "list", "--json"]).json();
    let ids = |key: &str| {
        let rows = report[key].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("loaded"), ["echo", "skill_registry", "core_tools", "web_search"]);
    let agents = ["reviewer_agent", "builder_agent", "orchestrator_agent", "task_worker_agent"];
    assert_eq!(ids("agents"), agents);
    assert_eq!(ids("rejected"), Vec::<String>::new());
    // Libraries take precedence over the extensions that the program contains.
    for loaded in report["loaded"].as_array().unwrap() {
        assert_eq!(loaded["bundled"], false, "{loaded}");
    }
    assert_eq!(
        report["loaded"][1]["library"],
        "[OUTSIDE]/prefix/lib/skillhost/libskill_registry.so"
    );
    assert_eq!(run(&["ext", "doctor", "--json"]).json()["healthy"], true);

    let listed = run(&["skill", "list", "--json"]).json();
    let skills: Vec<_> =
        listed["skills"].as_array().unwrap().iter().map(|one| &one["skill_id"]).collect();
    let shipped = ["code-review", "extension-development", "skill-authoring", "task-decomposition"];
    assert_eq!(skills, shipped);
    assert_eq!(listed["problems"], serde_json::json!([]));
    let prompt = run(&["ask", "--print-prompt", "hello"]).stdout;
    assert!(
        prompt.contains("\n---\n\n<available_skills>\n[Available Skills]\n• `code-review` — "),
        "{prompt}"
    );
    let builder = run(&["ask", "--agent", "builder_agent", "--print-prompt", "hello"]).stdout;
    assert!(builder.contains("<skill_content name=\"extension-development\""), "{builder}");
}

#[test]
fn new_extension_uses_installed_sdk() {
    let installed = Installation::new();
    installed.run(["init", "mine"]).success();
    installed.run(["--home", "mine", "ext", "new", "tea_time"]).success();
    let directory = installed.home_dir().join("sandbox/extensions/tea_time");
    let text = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
    let sdk = installed.prefix.join("share/skillhost/sdk/sdk");
    assert!(
        text.contains(&format!("skillhost-sdk = {{ path = \"{}\" }}", sdk.display())),
        "{text}"
    );
    let vendor = sdk.join("../vendor").canonicalize().unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(directory.join("Cargo.toml"))
        .args(["--config", "source.crates-io.replace-with='vendor'", "--config"])
        .arg(format!("source.vendor.directory='{}'", vendor.display()))
        .env("CARGO_HOME", installed.place.outside().join("empty"))
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let manifest = |name: &str| {
        let package = packages.iter().find(|package| package["name"] == name);
        PathBuf::from(package.unwrap()["manifest_path"].as_str().unwrap())
    };
    assert_eq!(manifest("skillhost-sdk"), sdk.join("Cargo.toml"));
    for name in ["contract", "payload"] {
        assert_eq!(
            manifest(&format!("skillhost-{name}")),
            sdk.join("..").join(name).join("Cargo.toml").canonicalize().unwrap()
        );
    }
}

#[test]
fn build_without_crates_names_command() {
    let installed = Installation::new();
    let empty = installed.place.outside().join("empty");
    let run = |args: &[&str]| {
        let mut command = installed.place.command_of(&installed.prefix.join("bin/skillhost"));
        let toolchain = toolchain().into_iter().filter(|(name, _)| name.starts_with("RUSTUP"));
        command.envs(toolchain).env("CARGO_HOME", &empty).env("CARGO_NET_OFFLINE", "true");
        let home = ["--home", "mine"].iter().chain(args);
        installed.place.start(command.current_dir(installed.place.outside()).args(home)).finish()
    };
    installed.run(["init", "mine"]).success();
    run(&["ext", "new", "tea_time"]).success();
    fs::remove_dir_all(installed.prefix.join("share/skillhost/sdk/vendor")).unwrap();
    let output = run(&["ext", "build", "tea_time", "--yes"]);
    assert_eq!(output.status, 1, "{output:?}");
    assert!(output.stderr.contains("cargo fetch --manifest-path "), "{}", output.stderr);
}

#[test]
fn init_keeps_existing_home() {
    let installed = Installation::new();
    let first = installed.run(["init", "mine", "--json"]).success();
    let made = files(&installed.home_dir());
    insta::assert_snapshot!(made.iter().filter(|path| !path.contains("/templates/")).cloned().collect::<Vec<_>>().join("\n"), @"
    .gitignore
    docs/schema/manifest.json
    manifests/builder_agent/manifest.yaml
    manifests/builder_agent/prompt.jinja2
    manifests/core_tools/manifest.yaml
    manifests/echo/manifest.yaml
    manifests/embedding/manifest.yaml
    manifests/orchestrator_agent/manifest.yaml
    manifests/orchestrator_agent/prompt.jinja2
    manifests/reviewer_agent/manifest.yaml
    manifests/reviewer_agent/prompt.jinja2
    manifests/skill_registry/manifest.yaml
    manifests/task_worker_agent/manifest.yaml
    manifests/task_worker_agent/prompt.jinja2
    manifests/telegram/manifest.yaml
    manifests/web_search/manifest.yaml
    manifests/webhook/manifest.yaml
    sandbox/skills/code-review/SKILL.md
    sandbox/skills/code-review/evals/evals.json
    sandbox/skills/code-review/evals/triggers.json
    sandbox/skills/code-review/references/rust.md
    sandbox/skills/extension-development/SKILL.md
    sandbox/skills/extension-development/evals/triggers.json
    sandbox/skills/extension-development/references/protocols.md
    sandbox/skills/skill-authoring/SKILL.md
    sandbox/skills/skill-authoring/evals/evals.json
    sandbox/skills/skill-authoring/evals/triggers.json
    sandbox/skills/skill-authoring/references/specification.md
    sandbox/skills/task-decomposition/SKILL.md
    sandbox/skills/task-decomposition/evals/triggers.json
    skillhost.yaml
    ");
    assert_eq!(first.json()["made"].as_array().map(Vec::len), Some(made.len()));
    assert_eq!(
        (&first.json()["trusted"], &first.json()["newly_trusted"]),
        (&true.into(), &true.into())
    );

    let settings = installed.home_dir().join("skillhost.yaml");
    let skill = installed.home_dir().join("sandbox/skills/code-review/SKILL.md");
    fs::write(&settings, "# mine\n").unwrap();
    fs::write(&skill, "---\ndescription: Mine.\n---\nMine.\n").unwrap();
    fs::remove_file(installed.home_dir().join("manifests/echo/manifest.yaml")).unwrap();
    insta::assert_snapshot!(stable_json(&installed.run(["init", "mine", "--json"]).success()), @r#"
    {
      "home": "[OUTSIDE]/mine",
      "made": [
        "[OUTSIDE]/mine/manifests/echo/manifest.yaml"
      ],
      "newly_trusted": false,
      "schema_version": 1,
      "trusted": true
    }
    "#);
    assert_eq!(fs::read_to_string(settings).unwrap(), "# mine\n");
    assert!(fs::read_to_string(skill).unwrap().contains("Mine."));
    assert_eq!(files(&installed.home_dir()), made);
}

#[test]
fn init_in_clone_does_not_trust() {
    let installed = Installation::new();
    let home_dir = installed.home_dir();
    let write = |path: &str, text: &str| {
        let path = home_dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("manifests/evil/manifest.yaml", "id: evil\nname: Evil\nentrypoint: evil\n");
    write("sandbox/extensions/spy/manifest.yaml", "id: spy\nname: Spy\nagent: {}\n");
    write("skillhost.yaml", "allow_shadowing: [core_tools]\n");
    write(".env", "SECRET=x\n");
    let output = installed.run(["init", "mine"]).success();
    for line in [
        "it is not trusted, because it had contents before:",
        "library      evil ",
        "spy ",
        "setting      allow_shadowing          [\"core_tools\"]",
        "[OUTSIDE]/mine/.env",
        "skillhost trust [OUTSIDE]/mine",
    ] {
        assert!(output.stdout.contains(line), "{line}: {output}");
    }
    let list = ["--home", "mine", "ext", "list"];
    let denied = installed.run(list).exits(5);
    assert!(denied.stderr.contains("this home is not trusted"), "{denied}");
    // A second run does not trust the home, either.
    let second = installed.run(["init", "mine", "--json"]).success().json();
    assert_eq!((&second["trusted"], &second["newly_trusted"]), (&false.into(), &false.into()));
    assert!(second["found"]["manifests"].to_string().contains("evil"), "{second}");
    installed.run(["trust", "mine"]).success();
    installed.run(list).success();
    let second = installed.run(["init", "mine", "--json"]).success().json();
    assert_eq!(second["trusted"], true);
}

#[test]
fn init_does_not_follow_links() {
    let installed = Installation::new();
    let (home_dir, elsewhere) = (installed.home_dir(), installed.place.outside().join("far"));
    fs::create_dir_all(home_dir.join("sandbox")).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, home_dir.join("sandbox/skills")).unwrap();
    let output = installed.run(["init", "mine"]).exits(5);
    assert!(output.stderr.contains("sandbox/skills is a symbolic link"), "{output}");
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn init_reports_blocking_file() {
    let installed = Installation::new();
    fs::write(installed.place.outside().join("file"), "").unwrap();
    insta::assert_snapshot!(installed.run(["init", "file/home"]), @"
    exit 5
    --- stderr
    error: [OUTSIDE]/file/home/sandbox/skills: Not a directory (os error 20)
    hint: move the file away: a directory is required there
    ");
    insta::assert_snapshot!(installed.run(["init"]), @"
    exit 2
    --- stderr
    error: the following required arguments were not provided:
      <DIR>

    Usage: skillhost init <DIR>

    For more information, try '--help'.
    ");
}

#[test]
fn shipped_skills_are_listed_uncopied() {
    let installed = Installation::new();
    fs::create_dir_all(installed.home_dir().join("sandbox")).unwrap();
    let run = |args: &[&str]| installed.run(["--home", "mine", "--trust-home"].iter().chain(args));
    let listed = run(&["skill", "list", "--json"]).success().json();
    let sources: Vec<_> =
        listed["skills"].as_array().unwrap().iter().map(|one| &one["source"]).collect();
    assert_eq!(sources, ["shipped"; 4]);
    let prompt = run(&["ask", "--print-prompt", "hello"]).success().stdout;
    assert!(prompt.contains("• `task-decomposition` — "), "{prompt}");
}

/// This applies to a program without bundled files: `cargo build -p skillhost --no-default-features`.
/// `bundled.rs` has the tests of the other one.
#[test]
fn bare_binary_reports_missing_files() {
    if is_bundled() {
        return;
    }
    let place = TestHome::new();
    let bin_dir = place.outside().join("lonely");
    fs::create_dir(&bin_dir).unwrap();
    fs::copy(binary(), bin_dir.join("skillhost")).unwrap();
    let run = |args: &[&str]| {
        place.start(place.command_of(&bin_dir.join("skillhost")).args(args)).finish()
    };
    insta::assert_snapshot!(run(&["init", "x"]), @"
    exit 3
    --- stderr
    error: the shipped manifests and skills were not found next to this executable
    hint: install the whole product: cargo xtask install --prefix DIR
    ");
    insta::assert_snapshot!(run(&["ext", "new", "mine"]), @"
    exit 3
    --- stderr
    error: the sources of skillhost-sdk were not found next to this executable
    hint: name them: --sdk DIR (kernel/sdk in the source tree)
    ");
    run(&["skill", "list"]).success();
}
