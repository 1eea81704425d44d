//! The checks.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::result_row::{CheckVerdict, PeerRow};
use super::setup::{InstalledTools, search_path};
use super::task_server::make_task_home;
use crate::workspace::Result;

/// The timeout of one client.
const PATIENCE: Duration = Duration::from_secs(300);

/// The scenarios of the conformance suite that a server without its test tools can pass.
const SCENARIOS: [&str; 6] = [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
];

/// The scenarios of the conformance suite for background tasks; `tasks-status-notifications` skips
/// itself.
const TASK_SCENARIOS: [&str; 9] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-mrtr-composition",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
];

/// The model for the clients, and the client of the Python SDK.
const SCRIPTS: [(&str, &str); 2] =
    [("model.mjs", include_str!("model.mjs")), ("client.py", include_str!("client.py"))];

/// The shared state of the checks.
pub(super) struct PeerChecks<'b> {
    dir: &'b Path,
    program: &'b Path,
    tools: &'b InstalledTools,
    /// The arguments with which the server is started.
    serve: Vec<String>,
    /// A skill that it serves.
    skill: String,
    rows: Vec<PeerRow>,
}

/// A process that ends with the check.
struct PeerProcess(Child);

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with the fixture tools of background tasks, and the kernel that executes the tasks.
struct TaskServer {
    // Dropped in this order.
    _server: PeerProcess,
    _kernel: PeerProcess,
    url: String,
}

impl<'b> PeerChecks<'b> {
    pub(super) fn new(
        dir: &'b Path,
        program: &'b Path,
        skills: &Path,
        tools: &'b InstalledTools,
    ) -> Result<Self> {
        for folder in ["work", "inspector", "claude", "codex"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        for (name, text) in SCRIPTS {
            fs::write(dir.join(name), text)?;
        }
        let output = Command::new(program)
            .args(["--json", "skill", "list", "--root"])
            .arg(skills)
            .current_dir(dir.join("work"))
            .output()?;
        let listed: Value = serde_json::from_slice(&output.stdout)?;
        let skill = listed["skills"][0]["skill_id"].as_str().ok_or("no skills found")?;
        let serve =
            vec!["mcp".to_owned(), "--root".to_owned(), format!("peers={}", skills.display())];
        Ok(Self { dir, program, tools, serve, skill: skill.to_owned(), rows: Vec::new() })
    }

    pub(super) fn run(mut self) -> Vec<PeerRow> {
        let served = self.http(&self.serve);
        self.inspector(served.as_ref().map(|(_, url)| url.as_str()));
        self.conformance(served.as_ref().map(|(_, url)| url.as_str()));
        drop(served);
        self.task_conformance();
        self.python();
        self.claude();
        self.codex();
        self.rows
    }

    fn row(&mut self, peer: &'static str, check: impl Into<String>, result: CheckResult) {
        let verdict = match result {
            Ok(result) => CheckVerdict::Passed(result),
            Err(CheckError::Failed(reason)) => CheckVerdict::Failed(reason),
            Err(CheckError::Missing(reason)) => CheckVerdict::Skipped(reason),
        };
        self.rows.push(PeerRow { peer, check: check.into(), verdict });
    }

    /// Returns a command in the empty working directory, with a home and a cleared environment.
    fn client(&self, program: &Path, home: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", search_path(&self.tools.bin))
            .env("HOME", self.dir.join(home))
            .current_dir(self.dir.join("work"))
            .stdin(Stdio::null());
        command
    }

    /// Starts a server over HTTP on a free port.
    fn http(&self, serve: &[String]) -> std::result::Result<(PeerProcess, String), CheckError> {
        let mut command = self.client(self.program, "work");
        command.arg("--json").args(serve).args(["--http", "127.0.0.1:0"]);
        let log = File::create(self.dir.join("server.txt"))?;
        let mut running = PeerProcess(command.stdout(Stdio::piped()).stderr(log).spawn()?);
        let line = first_line(&mut running)?;
        let address: Value = serde_json::from_str(&line).map_err(|error| to_failure(&error))?;
        let url =
            address["url"].as_str().ok_or_else(|| to_failure(&"the server names no address"))?;
        Ok((running, url.to_owned()))
    }

    fn inspector(&mut self, url: std::result::Result<&str, &CheckError>) {
        let command = self.tools.command("mcp-inspector");
        // This exceeds the client's default limit of skills.
        let limit = 100_000;
        let mut servers = json!({});
        let stdio = json!({
            "command": self.program, "args": self.serve, "skillCatalogMaxSkills": limit,
        });
        for (name, era) in [("stdio", "legacy"), ("stdio 2026", "modern")] {
            servers[name] = stdio.clone();
            servers[name]["protocolEra"] = era.into();
        }
        let mut names = vec!["stdio", "stdio 2026"];
        match url {
            Ok(url) => {
                for (name, era) in [("http", "legacy"), ("http 2026", "modern")] {
                    servers[name] = json!({
                        "type": "streamable-http", "url": url, "protocolEra": era,
                        "skillCatalogMaxSkills": limit,
                    });
                    names.push(name);
                }
            }
            Err(trouble) => self.row("inspector", "http", Err(trouble.clone())),
        }
        let config = self.dir.join("inspector.json");
        let written = fs::write(&config, json!({ "mcpServers": servers }).to_string());
        let methods: [&[&str]; 5] = [
            &["tools/list", "--strict"],
            &["resources/list"],
            &["resources/templates/list"],
            &["prompts/list"],
            &["skills/list", "--verify", "--require-digests"],
        ];
        for name in names {
            for method in methods {
                let result = (|| {
                    written.as_ref().map_err(to_failure)?;
                    let program = command.as_ref().map_err(|e| missing(e))?;
                    let mut command = self.client(program, "inspector");
                    command.env("MCP_INSPECTOR_SECRET_STORE", "memory").arg("--cli");
                    command.arg("--config").arg(&config).args(["--server", name, "--method"]);
                    let (_, stderr) = finished(command.args(method), self.dir)?;
                    let result = stderr.lines().find(|line| line.starts_with("Verified"));
                    Ok(result.unwrap_or_default().to_owned())
                })();
                self.row("inspector", format!("{name}: {}", method.join(" ")), result);
            }
        }
    }

    fn conformance(&mut self, url: std::result::Result<&str, &CheckError>) {
        for scenario in SCENARIOS {
            let result = (|| {
                let program = self.tools.command("conformance").map_err(|e| missing(&e))?;
                let url = url.map_err(Clone::clone)?;
                let mut command = self.client(&program, "work");
                command.args(["server", "--url", url, "--scenario", scenario]);
                let (stdout, _) = finished(&mut command, self.dir)?;
                let result = stdout.lines().find(|line| line.starts_with("Passed"));
                Ok(result.unwrap_or_default().to_owned())
            })();
            self.row("conformance", scenario, result);
        }
    }

    /// Runs the scenarios of background tasks against the server with their fixture tools.
    fn task_conformance(&mut self) {
        let served = self.task_server();
        for scenario in TASK_SCENARIOS {
            let result = (|| {
                let node = self.tools.command("node").map_err(|e| missing(&e))?;
                let suite = self.tools.main_file("conformance-tasks", "dist/index.js");
                let url = &served.as_ref().map_err(Clone::clone)?.url;
                let mut command = self.client(&node, "work");
                command.arg(suite.map_err(|e| missing(&e))?);
                command.args(["server", "--url", url, "--scenario", scenario]);
                let (stdout, _) = finished(&mut command, self.dir)?;
                let result = stdout.lines().find(|line| line.starts_with("Passed"));
                Ok(result.unwrap_or_default().to_owned())
            })();
            self.row("conformance", scenario, result);
        }
    }

    /// Starts the kernel of a home with the fixture tools, and its server over HTTP.
    fn task_server(&self) -> std::result::Result<TaskServer, CheckError> {
        let home = self.dir.join("task_home");
        let program = || self.client(self.program, "work");
        make_task_home(&home, program).map_err(|error| to_failure(&error))?;
        // A file, because the kernel prints a line for each task.
        let log = self.dir.join("kernel.txt");
        let output = File::create(&log)?;
        let mut command = program();
        command.arg("--home").arg(&home).arg("run").stderr(output.try_clone()?).stdout(output);
        let mut kernel = PeerProcess(command.spawn()?);
        while !fs::read_to_string(&log)?.contains("running") {
            if kernel.0.try_wait()?.is_some() {
                return Err(to_failure(&fs::read_to_string(&log)?));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let home = home.display().to_string();
        let (server, url) = self.http(&["--home".to_owned(), home, "mcp".to_owned()])?;
        Ok(TaskServer { _server: server, _kernel: kernel, url })
    }

    fn python(&mut self) {
        let result = (|| {
            let python = self.tools.python.as_ref().map_err(|e| missing(e))?;
            let mut command = self.client(python, "work");
            command.arg(self.dir.join("client.py")).arg(&self.skill).arg(self.program);
            let (stdout, _) = finished(command.args(&self.serve), self.dir)?;
            Ok(stdout.lines().collect::<Vec<_>>().join("; "))
        })();
        self.row("python", "initialize, list, call, resources", result);
    }

    fn claude(&mut self) {
        let result = (|| {
            let program = self.tools.command("claude").map_err(|e| missing(&e))?;
            let (_model, port, answer) = self.model()?;
            let servers = json!({ "skillhost": {
                "type": "stdio", "command": self.program, "args": self.serve,
            }});
            let config = self.dir.join("claude.json");
            fs::write(&config, json!({ "mcpServers": servers }).to_string())?;
            let mut command = self.client(&program, "claude");
            command
                .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}"))
                .env("ANTHROPIC_API_KEY", "dummy")
                // Else the tools are behind a search of its own, which the model does not know.
                .env("ENABLE_TOOL_SEARCH", "false")
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .env("DISABLE_AUTOUPDATER", "1")
                .args(["-p", "Use the skill", "--strict-mcp-config", "--mcp-config"])
                .arg(&config)
                .args(["--allowedTools", "mcp__skillhost__read_skill"]);
            finished(&mut command, self.dir)?;
            self.check_answer(&answer)
        })();
        self.row("claude code", "read_skill, to the model and back", result);
    }

    fn codex(&mut self) {
        let result = (|| {
            let program = self.tools.command("codex").map_err(|e| missing(&e))?;
            let (_model, port, answer) = self.model()?;
            // JSON's strings and lists of strings are TOML's, too.
            let config = format!(
                "model = \"mock\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \
                 \"mock\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nwire_api = \"responses\"\n\
                 env_key = \"MOCK_KEY\"\n[mcp_servers.skillhost]\ncommand = {}\nargs = {}\n",
                json!(self.program),
                json!(self.serve)
            );
            fs::write(self.dir.join("codex/config.toml"), config)?;
            let mut command = self.client(&program, "codex");
            command.env("CODEX_HOME", self.dir.join("codex")).env("MOCK_KEY", "dummy").args([
                "exec",
                "--skip-git-repo-check",
                "--sandbox",
                "read-only",
                "Use the skill",
            ]);
            finished(&mut command, self.dir)?;
            self.check_answer(&answer)
        })();
        self.row("codex", "read_skill, to the model and back", result);
    }

    /// Starts a model that calls `read_skill` once; returns its port and the file of the result.
    fn model(&self) -> std::result::Result<(PeerProcess, String, PathBuf), CheckError> {
        let node = self.tools.command("node").map_err(|e| missing(&e))?;
        let answer = self.dir.join("answer.txt");
        fs::write(&answer, "")?;
        let arguments = json!({ "skill_id": self.skill }).to_string();
        let mut command = self.client(&node, "work");
        command.arg(self.dir.join("model.mjs")).arg("read_skill").arg(arguments).arg(&answer);
        let mut running = PeerProcess(command.stdout(Stdio::piped()).spawn()?);
        let port = first_line(&mut running)?;
        Ok((running, port, answer))
    }

    /// Checks that the model was given the instructions of the skill.
    fn check_answer(&self, answer: &Path) -> CheckResult {
        let text = fs::read_to_string(answer)?;
        let begins = format!("Skill loaded: {} (approx.", self.skill);
        if !text.contains(&begins) || !text.contains("</skill_content>") {
            let shown: String = text.chars().take(120).collect();
            return Err(to_failure(&format!("the model was not given the skill, but {shown:?}")));
        }
        Ok(format!("{} bytes", text.len()))
    }
}

type CheckResult = std::result::Result<String, CheckError>;

/// The reason why a check did not pass.
#[derive(Clone)]
enum CheckError {
    Failed(String),
    Missing(String),
}

impl From<std::io::Error> for CheckError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn to_failure(reason: &impl ToString) -> CheckError {
    CheckError::Failed(reason.to_string())
}

fn missing(reason: &str) -> CheckError {
    CheckError::Missing(reason.to_owned())
}

fn first_line(running: &mut PeerProcess) -> std::result::Result<String, CheckError> {
    let stdout = running.0.stdout.take().ok_or_else(|| to_failure(&"it has no output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Waits until a command has succeeded; its output goes to files, because a full pipe would block
/// it.
fn finished(
    command: &mut Command,
    dir: &Path,
) -> std::result::Result<(String, String), CheckError> {
    let files = ["stdout.txt", "stderr.txt"].map(|name| dir.join(name));
    command.stdout(File::create(&files[0])?).stderr(File::create(&files[1])?);
    let mut running = PeerProcess(command.spawn()?);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            return Err(to_failure(&format!("it did not end within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let read = |path: &PathBuf| fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
    let (stdout, stderr) = (read(&files[0])?, read(&files[1])?);
    if status.success() {
        return Ok((stdout, stderr));
    }
    let mut said = stderr.lines().chain(stdout.lines()).map(str::trim);
    let last = said.rfind(|line| !line.is_empty()).unwrap_or_default();
    Err(to_failure(&format!("{status}: {last}")))
}
