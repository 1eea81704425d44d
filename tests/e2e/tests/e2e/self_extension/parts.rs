//! The files that the builder's model writes.

pub(super) const CARGO: &str = r#"[package]
name = "skillhost-ext-rss-monitor"
version = "0.1.0"
edition = "2024"
publish = false

[lib]
name = "rss_monitor"
crate-type = ["cdylib"]

[dependencies]
skillhost-sdk = { path = "SDK_PATH" }

[profile.release]
opt-level = 0
panic = "unwind"
strip = "symbols"

[workspace]
"#;

/// The line of [`LIB`] that replaces the broken one.
pub(super) const FIXED_LINE: &str = "        let seen = self.seen()?;\n";
pub(super) const BROKEN_LINE: &str = "        let seen = self.seen().ok_or_nothing();\n";

/// Reads feeds over plain HTTP and stores the titles that it has reported.
pub(super) const LIB: &str = r#"//! Reports new items of RSS feeds.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use skillhost_sdk::ApprovalPolicy;
use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use skillhost_sdk::serde_json;

#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    feeds: Vec<String>,
}

struct Monitor {
    cx: ExtensionContext,
    config: Config,
}

impl Monitor {
    const FILE: &str = "seen.json";

    fn seen(&self) -> Result<BTreeSet<String>> {
        match fs::read(self.cx.data_path().join(Self::FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| ExtensionError::failed(error.to_string())),
            Err(_) => Ok(BTreeSet::new()),
        }
    }

    fn poll(&self) -> Result<Vec<String>> {
        let seen = self.seen()?;
        let mut titles = Vec::new();
        for feed in &self.config.feeds {
            titles.extend(titles_of(&get(feed)?));
        }
        let fresh: Vec<String> = titles.iter().filter(|t| !seen.contains(*t)).cloned().collect();
        let all: BTreeSet<String> = seen.into_iter().chain(titles).collect();
        let folder = self.cx.data_dir()?;
        let draft = folder.join("seen.json.new");
        let text = serde_json::to_vec(&all).map_err(|error| ExtensionError::failed(error.to_string()))?;
        fs::write(&draft, text)?;
        fs::rename(&draft, folder.join(Self::FILE))?;
        Ok(fresh)
    }
}

fn get(url: &str) -> Result<String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| ExtensionError::failed("only http"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn titles_of(feed: &str) -> Vec<String> {
    let items = feed.split("<item>").skip(1);
    let title = |item: &str| {
        let (_, rest) = item.split_once("<title>")?;
        Some(rest.split_once("</title>")?.0.to_owned())
    };
    items.filter_map(title).collect()
}

#[async_trait]
impl Extension for Monitor {
    fn new(cx: ExtensionContext) -> Result<Self> {
        let config = cx.config()?;
        Ok(Self { cx, config })
    }
}

#[async_trait]
impl ToolProvider for Monitor {
    fn tools(&self, _cx: &CallContext) -> Vec<ToolSpec> {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let poll = ToolSpec::new("feeds_poll", "Tells what is new in the feeds.", schema);
        vec![poll.needs_approval(ApprovalPolicy::UnlessGranted)]
    }

    async fn invoke(&self, _cx: &CallContext, tool: &str, _args: ToolArgs<'_>) -> Result<ToolOutput> {
        match tool {
            "feeds_poll" => match self.poll()?.as_slice() {
                [] => Ok(ToolOutput::text("nothing is new")),
                fresh => Ok(ToolOutput::text(format!("new: {}", fresh.join(", ")))),
            },
            other => Err(ExtensionError::not_found(format!("no tool named `{other}`"))),
        }
    }
}

#[async_trait]
impl SchedulerProvider for Monitor {
    async fn run_task(&self, _cx: &CallContext, _task: &str) -> Result<Option<String>> {
        Ok(Some(format!("{} new", self.poll()?.len())))
    }
}

export_extension!(Monitor: tools, scheduler);
"#;

/// The same in Python, without any package.
pub(super) const SERVER: &str = r#""""Reports new items of RSS feeds, as a process extension."""

import json
import os
import sys
import urllib.request
import xml.etree.ElementTree as tree

CONFIG = json.loads(os.environ.get("SKILLHOST_CONFIG", "{}"))
SEEN = os.path.join(os.environ["SKILLHOST_DATA_DIR"], "seen.json")
TOOLS = [{
    "name": "feeds_poll",
    "description": "Tells what is new in the feeds.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
}]


def poll():
    seen = set()
    if os.path.exists(SEEN):
        with open(SEEN, encoding="utf-8") as file:
            seen = set(json.load(file))
    titles = []
    for url in CONFIG["feeds"]:
        with urllib.request.urlopen(url, timeout=10) as answer:
            titles += [title.text for title in tree.parse(answer).iterfind(".//item/title")]
    fresh = [title for title in titles if title not in seen]
    with open(SEEN + ".new", "w", encoding="utf-8") as file:
        json.dump(sorted(seen.union(titles)), file)
    os.replace(SEEN + ".new", SEEN)
    return "new: " + ", ".join(fresh) if fresh else "nothing is new"


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rss_monitor", "version": "0.1.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "feeds_poll":
        try:
            return {"content": [{"type": "text", "text": poll()}]}
        except Exception as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    raise LookupError(method)


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request["method"], request.get("params") or {})
        except LookupError as error:
            reply["error"] = {"code": -32601, "message": f"no method {error}"}
        print(json.dumps(reply), flush=True)


main()
"#;
