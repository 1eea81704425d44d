//! Chromium, driven by the WebDriver protocol of its own driver.
//!
//! The tests are skipped with a printed reason where either is not installed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};
use test_support::{STUCK_AFTER, TestHome, wait_until};

use crate::console_client::ConsoleAddress;

pub(crate) const CHROMIUM: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";

/// A browser with a profile of its own; both programs end with it.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser; `None` where it is not installed.
    #[expect(clippy::print_stderr, reason = "the reason of a skip")]
    pub(crate) fn start(script: bool) -> Option<Self> {
        for program in [CHROMIUM, DRIVER] {
            if !Path::new(program).exists() {
                eprintln!("skipped: {program} is not installed");
                return None;
            }
        }
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(DRIVER);
        command.arg("--port=0").env("HOME", profile.path());
        let mut driver =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start the driver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                let line = line.unwrap();
                let port = line.split("started successfully on port ").nth(1)?;
                Some(port.trim_end_matches('.').parse().unwrap())
            })
            .expect("the driver prints its port");
        // The driver must not block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let directory = browser._profile.path().join("profile").display().to_string();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1024,900",
            &format!("--user-data-dir={directory}"),
        ];
        let javascript = if script { 1 } else { 2 };
        let options = json!({
            "binary": CHROMIUM,
            "args": arguments,
            "prefs": { "profile.managed_default_content_settings.javascript": javascript },
        });
        let capabilities = json!({
            "capabilities": { "alwaysMatch": {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
                "unhandledPromptBehavior": "ignore",
            } },
        });
        let created = browser.request("POST", "/session", &capabilities);
        browser.session = created["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Sends a request to the driver; returns its value.
    #[track_caller]
    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.send(method, path, body);
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value
    }

    /// Sends a request to the driver; returns its value or its error.
    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(STUCK_AFTER)).unwrap();
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        // The driver keeps the connection open.
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        let reply: Value = serde_json::from_slice(&bytes).unwrap();
        reply["value"].clone()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.request(method, &format!("/session/{}/{path}", self.session), body)
    }

    pub(crate) fn open(&self, url: &str) {
        self.command("POST", "url", &json!({ "url": url }));
    }

    pub(crate) fn url(&self) -> String {
        self.command("GET", "url", &Value::Null).as_str().unwrap().to_owned()
    }

    /// Evaluates the body of a function in the page.
    pub(crate) fn evaluate(&self, script: &str) -> Value {
        self.command("POST", "execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Evaluates the body of a function whose last argument receives the result.
    pub(crate) fn evaluate_async(&self, script: &str) -> Value {
        self.command("POST", "execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Evaluates until the result is `true`; the page changes in the background.
    #[track_caller]
    pub(crate) fn wait_until(&self, script: &str) {
        wait_until(script, || self.evaluate(script) == true);
    }

    fn find(&self, selector: &str) -> String {
        let query = json!({ "using": "css selector", "value": selector });
        let found = self.command("POST", "element", &query);
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    pub(crate) fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.command("POST", &format!("element/{element}/click"), &json!({}));
    }

    pub(crate) fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.command("POST", &format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses keys on the focused element.
    pub(crate) fn press(&self, keys: &str) {
        let element = self.command("GET", "element/active", &Value::Null);
        let element =
            element.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        self.command("POST", &format!("element/{element}/value"), &json!({ "text": keys }));
    }

    /// Sends a command of the DevTools protocol.
    fn send_devtools(&self, command: &str, params: &Value) -> Value {
        let command = json!({ "cmd": command, "params": params });
        self.command("POST", "goog/cdp/execute", &command)
    }

    /// Emulates a screen of a width.
    pub(crate) fn set_width(&self, width: u32) {
        let metrics =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": true });
        self.send_devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Emulates a color scheme.
    pub(crate) fn set_theme(&self, theme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": theme });
        self.send_devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Draws the open page in its whole height as PNG.
    pub(crate) fn draw_page(&self, width: u32) -> Vec<u8> {
        let height = self.evaluate("return document.documentElement.scrollHeight");
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let drawn = self.send_devtools("Page.captureScreenshot", &params);
        base64::engine::general_purpose::STANDARD.decode(drawn["data"].as_str().unwrap()).unwrap()
    }

    /// Returns whether a dialog is open.
    pub(crate) fn has_dialog(&self) -> bool {
        let path = format!("/session/{}/alert/text", self.session);
        self.send("GET", &path, &Value::Null)["error"] != "no such alert"
    }

    /// Returns the messages of the browser's console since the last call.
    pub(crate) fn console_messages(&self) -> Vec<String> {
        let entries = self.command("POST", "se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the addresses of all requests since the last call.
    pub(crate) fn requested_urls(&self) -> Vec<String> {
        let entries = self.command("POST", "se/log", &json!({ "type": "performance" }));
        let entries = entries.as_array().unwrap().iter();
        let messages = entries.map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            message["message"].clone()
        });
        let sent = messages.filter(|message| message["method"] == "Network.requestWillBeSent");
        sent.map(|message| message["params"]["request"]["url"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            self.send("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Logs in with the button of the login page.
pub(crate) fn log_in(browser: &Browser, home: &TestHome) -> String {
    let address = ConsoleAddress::of(home);
    browser.open(&format!("{}/login?token={}", address.origin(), address.token));
    browser.click("button");
    browser.wait_until("return document.querySelector('h1')?.textContent === 'Overview'");
    address.origin()
}
