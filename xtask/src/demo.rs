//! `cargo xtask demo`: the main workflow, on a temporary copy of `sandbox/`.
//!
//! Every step runs the real binary and checks its output; the demo fails if any step did not
//! succeed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::file_transfer::FileTransfer;
use crate::install::{BuildProfile, build_product, lay_out};
use crate::workspace::{Result, target};

/// The timeout of one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// The task of the agent.
const TASK: &str = "Review the echo extension for best practices";

/// Builds in release and shows the main workflow.
pub(crate) fn cmd_demo() -> Result<()> {
    build_product(BuildProfile::Release)?;
    let demo = DemoHome::new()?;
    let result = demo.steps();
    fs::remove_dir_all(&demo.home)?;
    result
}

/// The options of the agents' flow.
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    /// The model, `provider/model`; keys as in docs/models.md
    model: String,
    /// Base URL of a provider that is compatible with OpenAI's
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable that has its key
    #[arg(long, value_name = "NAME", requires = "base_url")]
    key: Option<String>,
}

/// Builds in release and runs the script at the end of the demo with a real model.
pub(crate) fn cmd_flow(args: &FlowArgs) -> Result<()> {
    build_product(BuildProfile::Release)?;
    let demo = DemoHome::new()?;
    let result = demo.flow(args);
    fs::remove_dir_all(&demo.home)?;
    result
}

struct DemoHome {
    binary: PathBuf,
    home: PathBuf,
}

impl DemoHome {
    fn new() -> Result<Self> {
        let home = std::env::temp_dir().join(format!("skillhost-demo-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        let home = fs::canonicalize(home)?;
        // The program finds the shipped files next to itself, and the target directory may lie
        // outside of this repository.
        let installed = target().join("demo");
        lay_out(&BuildProfile::Release.directory(), &installed, FileTransfer::Copy)?;
        Ok(Self { binary: installed.join("bin/skillhost"), home })
    }

    fn steps(&self) -> Result<()> {
        let home = self.home.display();
        title("1. A home: shipped manifests and skills, copied");
        let text = self.skillhost(["init", &home.to_string()])?;
        expect(&text, "is a home")?;

        title("2. The load report: manifests found, libraries loaded");
        let text = self.skillhost(["ext", "list"])?;
        for id in ["skill_registry", "core_tools", "echo", "builder_agent", "orchestrator_agent"] {
            expect(&text, id)?;
        }
        expect_absent(&text, "rejected")?;

        title("3. A prompt with the catalog of skills");
        let text = self.skillhost(["ask", "--print-prompt", "what can you do?"])?;
        expect(&text, "[Available Skills]")?;
        expect(&text, "• `code-review`")?;

        title("4. An agent that always carries a skill: builder_agent's layers");
        let text = self.call(["agent", "show", "builder_agent"])?;
        let headings =
            |line: &&str| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains("sha256");
        for line in text.lines().take(5).chain(text.lines().filter(headings)) {
            println!("{line}");
        }
        expect(&text, "skill extension-development")?;

        title("5. Tools, called through the library: read_skill, read_skill_resource");
        let text = self.call(["tool", "call", "read_skill", r#"{"skill_id": "code-review"}"#])?;
        excerpt(&text, 6);
        expect(&text, "Skill loaded: code-review (approx.")?;
        let arguments =
            r#"{"skill_id": "extension-development", "path": "references/protocols.md"}"#;
        let text = self.call(["tool", "call", "read_skill_resource", arguments])?;
        excerpt(&text, 4);
        expect(&text, "ToolProvider")?;

        title("6. The kernel runs; a new skill is dropped into sandbox/skills");
        let running = RunningKernel::start(self)?;
        self.write_skill("Greets people in the manner of the house. Use when greeting someone.")?;
        running.wait_for("skill.added house-greeting")?;
        let text = self.call(["ask", "--print-prompt", "hello"])?;
        show_lines(&text, "house-greeting");
        expect(&text, "• `house-greeting` — Greets people")?;

        title("7. Its SKILL.md breaks; the last good version still serves");
        self.skill_file("this is no frontmatter at all\n")?;
        let text = self.poll_until(
            || self.call(["tool", "call", "read_skill", r#"{"skill_id": "house-greeting"}"#]),
            "last good version",
        )?;
        show_lines(&text, "last good version");
        expect(&text, "Say good morning before noon")?;
        let text = self.call(["ask", "--print-prompt", "hello"])?;
        expect(&text, "• `house-greeting` — Greets people")?;
        running.stop()?;

        title("8. Skills are checked and fixed; this needs no kernel and no home");
        self.skill_file(
            "---\ndescription: Greets people: before noon, or at night. Use when greeting someone.\n\
             name: house-greeting\ntags: [manners]\n---\n\nSay good morning before noon.\n",
        )?;
        let folder = self.home.join("sandbox/skills/house-greeting");
        let folder = folder.to_str().ok_or("a temporary directory whose name is not UTF-8")?;
        let text = self.call_expecting(1, ["skill", "validate", folder])?;
        print!("{text}");
        expect(&text, "error[frontmatter.recovered]")?;
        self.skillhost(["skill", "fmt", "--portable", folder])?;
        let text = self.skillhost(["skill", "validate", folder])?;
        expect(&text, "1 skill: valid")?;
        let text = self.skillhost(["skill", "cost", folder])?;
        expect(&text, "tokens of o200k_base")?;

        title("9. An agent works: it finds a skill, reads it, reads files and answers");
        // No key and no network: the model is a script that ships. The loop, the tools and the
        // registry are those that a real model gets.
        let text = self.skillhost(["ask", TASK])?;
        expect(&text, "I will follow the skill for reviews.")?;
        expect(&text, "## Review of the echo extension")?;
        expect_absent(&text, "I could not read the file")?;
        let text = self.calls()?;
        for called in ["→ read_skill", "→ read_file", "skill    code-review"] {
            expect(&text, called)?;
        }

        title("10. An extension is written, built under a policy, tried, installed and used");
        // An operator builds here in the way that `build_extension` does for an agent. The SDK is
        // compiled once.
        self.skillhost(["ext", "new", "weather"])?;
        let text = self.skillhost(["ext", "build", "weather", "--yes"])?;
        expect(&text, "built weather 0.1.0: tools weather_greet")?;
        let text = self.skillhost(["tool", "call", "weather_greet", r#"{"name": "Ada"}"#])?;
        expect(&text, "Hello, Ada!")?;
        self.skillhost(["ext", "doctor"])?;

        println!("\nEverything happened. What a user would try next:");
        let binary = self.binary.display();
        println!("  {binary} init ~/skillhost");
        println!("  {binary} --home ~/skillhost skill list");
        println!("  {binary} --home ~/skillhost run");
        println!("  {binary} --home ~/skillhost chat");
        Ok(())
    }

    fn flow(&self, args: &FlowArgs) -> Result<()> {
        self.skillhost(["init", &self.home.display().to_string()])?;
        if let (Some(url), Some((provider, _))) = (&args.base_url, args.model.split_once('/')) {
            let mut settings = json!({ "wire": "openai", "base_url": url });
            if let Some(key) = &args.key {
                settings["key"] = json!(key);
            }
            // JSON is YAML, too.
            let models = json!({ "providers": { provider: settings } });
            let path = self.home.join("skillhost.yaml");
            let text = fs::read_to_string(&path)?;
            fs::write(&path, format!("{text}\nmodels: {models}\n"))?;
        }
        self.skillhost(["models", "check", &args.model])?;
        self.skillhost(["ask", "--model", &args.model, TASK])?;
        let calls = self.calls()?;
        // Which files it reads is the model's choice; that it follows the skill is the point.
        expect(&calls, "skill    code-review")
    }

    /// Prints the tool calls of the only thread; returns the complete output.
    fn calls(&self) -> Result<String> {
        let text = self.call(["threads", "list", "--json"])?;
        let thread = text.split_once("\"id\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let (thread, _) = thread.ok_or("no thread is listed")?;
        let text = self.call(["threads", "show", thread])?;
        show_lines(&text, "→ ");
        Ok(text)
    }

    fn write_skill(&self, description: &str) -> Result<()> {
        self.skill_file(&format!(
            "---\nname: house-greeting\ndescription: {description}\n---\n\nSay good morning before noon.\n"
        ))
    }

    fn skill_file(&self, text: &str) -> Result<()> {
        let folder = self.home.join("sandbox/skills/house-greeting");
        fs::create_dir_all(&folder)?;
        // The file is replaced by a rename, as a careful editor writes.
        fs::write(folder.join(".SKILL.md.new"), text)?;
        Ok(fs::rename(folder.join(".SKILL.md.new"), folder.join("SKILL.md"))?)
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("--home")
            .arg(&self.home)
            .arg("--trust-home")
            .args(arguments)
            // The demo must leave no file behind and use none of the user's settings.
            .env("XDG_STATE_HOME", self.home.join(".state"))
            .env("XDG_RUNTIME_DIR", self.home.join(".run"))
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "100");
        command
    }

    /// Runs a command, prints it and its output.
    fn skillhost<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        let text = self.call(arguments)?;
        print!("{text}");
        Ok(text)
    }

    /// Runs a command and prints it.
    fn call<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        self.call_expecting(0, arguments)
    }

    /// Runs a command that is to end with an exit code, and prints it.
    fn call_expecting<const N: usize>(&self, code: i32, arguments: [&str; N]) -> Result<String> {
        println!("$ skillhost {}", arguments.join(" "));
        let output = self.command(arguments).stderr(Stdio::inherit()).output()?;
        if output.status.code() != Some(code) {
            return Err(format!("skillhost {}: {}", arguments.join(" "), output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Repeats a command until its output contains a text.
    fn poll_until(&self, command: impl Fn() -> Result<String>, wanted: &str) -> Result<String> {
        let started = Instant::now();
        loop {
            let text = command()?;
            if text.contains(wanted) {
                return Ok(text);
            }
            if started.elapsed() > STEP_TIMEOUT {
                return Err(format!("no output said {wanted:?} within {STEP_TIMEOUT:?}").into());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// A `skillhost run` in the background; killed if the demo fails.
struct RunningKernel {
    child: Child,
    lines: Receiver<String>,
}

impl RunningKernel {
    fn start(demo: &DemoHome) -> Result<Self> {
        println!("$ skillhost run &");
        let mut child = demo.command(["run"]).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(std::io::Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        let running = Self { child, lines };
        running.wait_for("running; Ctrl-C ends it")?;
        Ok(running)
    }

    fn wait_for(&self, wanted: &str) -> Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .lines
                .recv_timeout(left)
                .map_err(|_| format!("skillhost run did not print {wanted:?}"))?;
            if line.contains(wanted) {
                println!("run: {line}");
                return Ok(());
            }
        }
    }

    fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("skillhost run: {status}").into()) }
    }
}

impl Drop for RunningKernel {
    fn drop(&mut self) {
        // After `stop` the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn title(text: &str) {
    println!("\n== {text}");
}

fn excerpt(text: &str, lines: usize) {
    for line in text.lines().take(lines) {
        println!("{line}");
    }
    println!("… ({} lines)", text.lines().count());
}

fn show_lines(text: &str, wanted: &str) {
    for line in text.lines().filter(|line| line.contains(wanted)) {
        println!("{line}");
    }
}

fn expect(text: &str, wanted: &str) -> Result<()> {
    if text.contains(wanted) { Ok(()) } else { Err(format!("the output lacks {wanted:?}").into()) }
}

fn expect_absent(text: &str, unwanted: &str) -> Result<()> {
    if text.contains(unwanted) {
        Err(format!("the output has {unwanted:?}").into())
    } else {
        Ok(())
    }
}
