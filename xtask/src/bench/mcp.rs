//! The latencies of an MCP client: `skillhost mcp` on standard input and output, in the current
//! build.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::table::{BenchRow, row};
use crate::install::BuildProfile;
use crate::workspace::{Result, root};

/// Calls that are timed, after a tenth as many that warm up.
const CALLS: usize = 5_000;

/// The number of timed full lists, after the first.
const LISTS: usize = 9;

/// A server with its client.
struct McpConnection {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl McpConnection {
    fn connect(home: &Path) -> Result<Self> {
        let mut child = Command::new(BuildProfile::Dist.directory().join("skillhost"))
            .arg("--home")
            .arg(home)
            .args(["--trust-home", "mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child without pipes".into());
        };
        let mut talk = Self { child, input, output: BufReader::new(output), next: 0 };
        talk.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "bench", "version": "1" },
            }),
        )?;
        let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        talk.input.write_all(format!("{begun}\n").as_bytes())?;
        Ok(talk)
    }

    /// Sends a request and waits for its response; other messages of the server are skipped.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        // One write: the server is not to wait for the rest of a line.
        self.input.write_all(format!("{message}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("{method}: the server has ended").into());
            }
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                if !answer["error"].is_null() {
                    return Err(format!("{method}: {}", answer["error"]).into());
                }
                return Ok(answer["result"].take());
            }
        }
    }

    /// Reads `skills/list` to its end; returns the ids of the skills.
    fn list(&mut self) -> Result<Vec<String>> {
        let (mut ids, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask("skills/list", &params)?;
            for skill in page["skills"].as_array().into_iter().flatten() {
                let uri = skill["uri"].as_str().unwrap_or_default();
                let rest = uri.strip_prefix("skill://").unwrap_or_default();
                ids.push(rest.split('/').next().unwrap_or_default().to_owned());
            }
            match page["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return Ok(ids),
            }
        }
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures a server of a directory of skills.
pub(super) fn measure_server(
    work: &Path,
    skills: &Path,
    count: usize,
    rows: &mut Vec<BenchRow>,
) -> Result<()> {
    let home = work.join("mcp-home");
    let manifests = home.join("manifests/skill_registry");
    fs::create_dir_all(home.join("sandbox"))?;
    fs::create_dir_all(&manifests)?;
    let shipped = root().join("manifests/skill_registry/manifest.yaml");
    fs::copy(shipped, manifests.join("manifest.yaml"))?;
    let roots = json!([{ "label": "root", "path": skills, "trust": "operator" }]);
    // JSON is YAML.
    let settings = json!({ "extensions": { "skill_registry": { "roots": roots } } });
    fs::write(home.join("skillhost.yaml"), settings.to_string())?;
    let mut talk = McpConnection::connect(&home)?;
    let started = Instant::now();
    let ids = talk.list()?;
    let first_ms = started.elapsed().as_secs_f64() * 1e3;
    if ids.len() != count {
        return Err(format!("skills/list has {} of {count} skills", ids.len()).into());
    }
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let started = Instant::now();
        talk.list()?;
        lists.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let mut calls = Vec::new();
    for (number, id) in ids.iter().cycle().take(CALLS + CALLS / 10).enumerate() {
        let call = json!({ "name": "read_skill", "arguments": { "skill_id": id } });
        let started = Instant::now();
        let answer = talk.ask("tools/call", &call)?;
        let elapsed = started.elapsed().as_secs_f64() * 1e6;
        if answer["isError"] != false {
            return Err(format!("read_skill {id}: {answer}").into());
        }
        if number >= CALLS / 10 {
            calls.push(elapsed);
        }
    }
    lists.sort_by(f64::total_cmp);
    calls.sort_by(f64::total_cmp);
    let (p50, p99) = (calls[calls.len() / 2], calls[calls.len() * 99 / 100]);
    let mut add = |what: &str, value: String, wanted: &str, reached: bool| {
        rows.push(row(&format!("{what}, {count} skills"), value, wanted, reached));
    };
    add("MCP read_skill over stdio, p50", format!("{p50:.0} µs"), "≤ 1000 µs", p50 <= 1e3);
    add("MCP read_skill over stdio, p99", format!("{p99:.0} µs"), "≤ 5000 µs", p99 <= 5e3);
    let again = lists[lists.len() / 2];
    let value = format!("{again:.0} ms (the first time {first_ms:.0} ms)");
    add("MCP skills/list to its end, again", value, "≤ 100 ms", again <= 100.0);
    Ok(())
}
