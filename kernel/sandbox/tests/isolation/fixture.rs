//! Directories, processes and sockets that hostile scripts aim at.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use skillhost_policy::{IsolationLevel, ResourceLimits, SandboxPolicy};
use skillhost_sandbox::{
    InputMode, LaunchSpec, LevelSelection, SandboxError, SandboxLauncher, SandboxSpec,
    SandboxedExit,
};
use tempfile::TempDir;

/// The launcher that this crate builds for its tests.
pub(crate) const LAUNCHER: &str = env!("CARGO_BIN_EXE_sandbox-launcher");

/// A user id that no account has.
pub(crate) const OTHER_USER: u32 = 61_234;

/// The interpreter of the scripts.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The targets of one test.
pub(crate) struct Victims {
    pub(crate) base: TempDir,
    pub(crate) mark: String,
    process: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    datagrams: UnixDatagram,
    _listeners: [UnixListener; 2],
    shared_memory: Option<String>,
}

impl Victims {
    pub(crate) fn create() -> Self {
        let base = tempfile::tempdir().unwrap();
        let at = |path: &str| base.path().join(path);
        for (path, text) in [
            ("victim/.ssh/id_rsa", "KEY"),
            ("victim/.env", "canary=1"),
            ("victim/.bashrc", ""),
            ("skill/SKILL.md", "# s"),
            ("skill/assets/t.txt", "template"),
            ("skill/scripts/helper.py", "def value():\n    return 'helped'\n"),
            (
                "skill/scripts/asset.py",
                "import pathlib, helper\nprint(helper.value(), (pathlib.Path(__file__).parent.parent/'assets'/'t.txt').read_text())\n",
            ),
            ("work/input.txt", "one\n"),
            ("skill/lib/demo/__init__.py", "def answer():\n    return 'answer 42'\n"),
            ("skill/lib/demo/data.txt", "data"),
            ("skill/lib/demo-1.2.3.dist-info/METADATA", "Name: demo\nVersion: 1.2.3\n"),
        ] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        std::os::unix::fs::symlink("victim", at("link")).unwrap();
        let mark = format!("{:x}", rustix::process::getpid().as_raw_nonzero())
            + base.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
        let datagrams = UnixDatagram::bind(at("victim/dsock")).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let address = SocketAddr::from_abstract_name(format!("sbx-{mark}")).unwrap();
        let listeners = [
            UnixListener::bind_addr(&address).unwrap(),
            UnixListener::bind(at("victim/sock")).unwrap(),
        ];
        fs::write(format!("/dev/shm/sbx-{mark}"), "").unwrap();
        let made = Command::new("ipcmk").args(["-M", "4096"]).output();
        let shared_memory = made.ok().and_then(|output| {
            Some(String::from_utf8(output.stdout).ok()?.split_whitespace().next_back()?.to_owned())
        });
        Self {
            process: victim_process(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            base,
            mark,
            udp,
            datagrams,
            _listeners: listeners,
            shared_memory,
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.base.path().join(below)
    }

    /// Returns a text with the names of the targets filled in.
    pub(crate) fn fill(&self, text: &str) -> String {
        let path = |below| self.path(below).display().to_string();
        let values = [
            ("{V}", path("victim")),
            ("{W}", path("work")),
            ("{S}", path("skill")),
            ("{REPO}", path("repo")),
            ("{MARK}", self.mark.clone()),
            ("{PID}", self.process.id().to_string()),
            ("{LAUNCH}", std::process::id().to_string()),
            ("{P}", self.tcp.local_addr().unwrap().port().to_string()),
            ("{U}", self.udp.local_addr().unwrap().port().to_string()),
            ("{SHM}", self.shared_memory.clone().unwrap_or("0".to_owned())),
            ("{KEY}", "0".to_owned()),
            ("{PYTHON}", PYTHON.to_owned()),
        ];
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Describes the traces of a script outside of its work directory, and removes them.
    pub(crate) fn collect_effects(&mut self) -> Vec<&'static str> {
        let mut effects = Vec::new();
        let env = self.path("victim/.env");
        if fs::read_to_string(&env).ok().as_deref() != Some("canary=1") {
            effects.push("content changed");
        }
        let meta = fs::metadata(&env).ok();
        use std::os::unix::fs::MetadataExt as _;
        if meta.is_none_or(|meta| meta.mode() & 0o777 == 0o777 || meta.mtime() == 1) {
            effects.push("metadata changed");
        }
        if self.path("victim/new").exists()
            || fs::read_to_string(self.path("victim/.bashrc")).is_ok_and(|text| !text.is_empty())
        {
            effects.push("new content");
        }
        if fs::read_to_string(self.path("skill/SKILL.md")).is_ok_and(|text| text != "# s") {
            effects.push("skill changed");
        }
        let planted = ["work/.git/hooks/pre-commit", "work/b/config", "work/c/.git/config"];
        if planted.iter().any(|path| self.path(path).exists()) {
            effects.push("planted for git");
        }
        let planted = ["work/f/.git", "work/l/.git", "work/c/.mcp.json"];
        if planted.iter().any(|path| self.path(path).symlink_metadata().is_ok()) {
            effects.push("planted for programs");
        }
        let mut bytes = [0; 9];
        if self.udp.recv(&mut bytes).is_ok() || self.datagrams.recv(&mut bytes).is_ok() {
            effects.push("datagram received");
        }
        if self.process.try_wait().unwrap().is_some() {
            effects.push("process ended");
            self.process = victim_process();
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", self.process.id())).unwrap();
        if limits.lines().any(|line| line.starts_with("Max open files") && line.contains(" 64 ")) {
            effects.push("process limited");
        }
        // A child has the niceness of this process.
        if read_niceness(self.process.id()) != read_niceness(std::process::id()) {
            effects.push("process reniced");
        }
        if !effects.is_empty() {
            let _ = self.process.kill();
            let _ = self.process.wait();
            self.process = victim_process();
        }
        self.reset();
        effects
    }

    fn reset(&self) {
        use std::os::unix::fs::PermissionsExt;
        let work = self.path("work");
        fs::remove_dir_all(&work).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(work.join("input.txt"), "one\n").unwrap();
        let _ = fs::remove_file(self.path("victim/new"));
        for (path, text) in
            [("victim/.env", "canary=1"), ("victim/.bashrc", ""), ("skill/SKILL.md", "# s")]
        {
            let _ = fs::remove_file(self.path(path));
            fs::write(self.path(path), text).unwrap();
            fs::set_permissions(self.path(path), PermissionsExt::from_mode(0o644)).unwrap();
        }
    }

    /// Returns the processes with the mark of this test that still run.
    pub(crate) fn survivors(&self) -> Vec<PathBuf> {
        let mark = format!("MARK={}", self.mark);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let has_mark = |path: &Path| {
            fs::read(path.join("environ")).is_ok_and(|text| {
                text.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            })
        };
        processes.map(|entry| entry.path()).filter(|path| has_mark(path)).collect()
    }

    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let work = self.path("work").display().to_string();
        [
            ("PATH", SEARCH_PATH),
            ("HOME", &work),
            ("TMPDIR", &work),
            ("USER", "sandbox"),
            ("LANG", "C.UTF-8"),
            ("MARK", &self.mark),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// Returns the policy of a script of the skill.
    pub(crate) fn policy(&self) -> SandboxPolicy {
        let mut policy = SandboxPolicy::with_work_directory(&self.path("work"));
        policy.filesystem.allow_read.push(self.path("skill"));
        policy
    }

    /// Returns a run of a command in the work directory.
    pub(crate) fn spec(&self, command: &[String], policy: SandboxPolicy) -> SandboxSpec {
        let environment = self.environment();
        let launch = LaunchSpec {
            program: command[0].clone().into(),
            arguments: command[1..].iter().map(Into::into).collect(),
            environment: environment.into_iter().map(|(n, v)| (n.into(), v.into())).collect(),
            folder: self.path("work"),
        };
        let levels = LevelSelection::default();
        SandboxSpec { launch, policy, stdin: InputMode::Null, channel: None, levels }
    }

    /// Runs a command in the work directory at one level only.
    pub(crate) fn run(
        &self,
        command: &[String],
        policy: SandboxPolicy,
        level: IsolationLevel,
    ) -> Result<SandboxedExit, SandboxError> {
        self.run_with(command, policy, level, None)
    }

    /// Runs a command as with another version of Landlock.
    pub(crate) fn run_with(
        &self,
        command: &[String],
        policy: SandboxPolicy,
        level: IsolationLevel,
        landlock_abi: Option<i32>,
    ) -> Result<SandboxedExit, SandboxError> {
        let mut spec = self.spec(command, policy);
        spec.levels = LevelSelection { levels: vec![level], landlock_abi };
        block_on(launcher().run(spec))
    }

    /// Runs a command without isolation.
    pub(crate) fn run_plain(&self, command: &[String]) -> String {
        let output = Command::new(&command[0])
            .args(&command[1..])
            .env_clear()
            .envs(self.environment())
            .env("SECRET_OF_HOST", "canary")
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(format!("/dev/shm/sbx-{}", self.mark));
        if let Some(id) = &self.shared_memory {
            let _ = Command::new("ipcrm").args(["-m", id]).status();
        }
    }
}

fn read_niceness(process: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().to_owned()
}

fn victim_process() -> Child {
    Command::new("sleep")
        .arg("600")
        .env_clear()
        .env("canary", "1")
        .env("PATH", SEARCH_PATH)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the launcher of this crate, or its copy for another user.
pub(crate) fn launcher() -> SandboxLauncher {
    let program = std::env::var_os("SANDBOX_LAUNCHER").map_or(LAUNCHER.into(), PathBuf::from);
    SandboxLauncher::from_program(program)
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns limits that make the scripts end soon.
pub(crate) fn short_limits(seconds: u64) -> ResourceLimits {
    ResourceLimits { seconds: Some(seconds), ..ResourceLimits::default() }
}
