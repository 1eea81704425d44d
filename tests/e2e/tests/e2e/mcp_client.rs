//! A client of `skillhost mcp` on standard input and output, low-level enough to break the
//! protocol.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use test_support::{Output, STUCK_AFTER, TestHome, poll_until, to_exit_code};

/// The newest protocol version with an `initialize` request.
pub(crate) const VERSION: &str = "2025-11-25";

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Option<JoinHandle<String>>,
    next: u64,
    responses: HashMap<u64, Value>,
    others: VecDeque<Value>,
}

impl Client {
    /// Spawns a server for a home and initializes the session.
    pub(crate) fn connect(home: &TestHome) -> Self {
        Self::connect_with(home.command().args(["mcp"]))
    }

    /// Spawns a server by the given command and initializes the session.
    pub(crate) fn connect_with(command: &mut Command) -> Self {
        let mut client = Self::spawn(command);
        client.initialize(VERSION, &json!({}));
        client
    }

    /// Spawns a server and sends no message.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Standard output carries nothing but messages, so every other line is a failure.
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|error| json!({ "garbage": line, "error": error.to_string() }));
                // The receiver is gone when the test has ended.
                let _ = sender.send(message);
            }
        });
        let mut stderr = child.stderr.take().expect("it is piped");
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("a pipe can be read");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            errors: Some(errors),
            next: 1,
            responses: HashMap::new(),
            others: VecDeque::new(),
        }
    }

    /// Initializes the session and returns the server's result.
    #[track_caller]
    pub(crate) fn initialize(&mut self, version: &str, capabilities: &Value) -> Value {
        let response = self.result(
            "initialize",
            json!({
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": { "name": "test client", "version": "1" },
            }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        response
    }

    /// Writes bytes to the server without changes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        // A server that has exited does not read.
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request without waiting for the response.
    pub(crate) fn send_request(&mut self, method: &str, params: impl Borrow<Value>) -> u64 {
        let params = params.borrow();
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the response to a request.
    #[track_caller]
    pub(crate) fn response(&mut self, id: u64) -> Value {
        loop {
            if let Some(response) = self.responses.remove(&id) {
                return response;
            }
            self.receive();
        }
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: impl Borrow<Value>) -> Value {
        let id = self.send_request(method, params);
        self.response(id)
    }

    /// Sends a request and returns its result; panics on an error.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: impl Borrow<Value>) -> Value {
        let mut response = self.request(method, params);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].take()
    }

    /// Sends a request that must fail and returns code and message of the error.
    #[track_caller]
    pub(crate) fn expect_error(
        &mut self,
        method: &str,
        params: impl Borrow<Value>,
    ) -> (i64, String) {
        let params = params.borrow();
        let response = self.request(method, params);
        let error = &response["error"];
        let code = error["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("{method} {params} did not fail: {response}"));
        (code, error["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Calls a tool and returns its result; panics on a protocol error.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: impl Borrow<Value>) -> Value {
        let arguments = arguments.borrow();
        self.result("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for a notification or request of the server with this method.
    #[track_caller]
    pub(crate) fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.others.iter().position(|other| other["method"] == method) {
                return self.others.remove(at).expect("it was just found");
            }
            self.receive();
        }
    }

    /// Returns the methods of the unread messages from the server.
    pub(crate) fn unread_methods(&self) -> Vec<&str> {
        self.others.iter().filter_map(|other| other["method"].as_str()).collect()
    }

    #[track_caller]
    fn receive(&mut self) {
        let message = match self.lines.recv_timeout(STUCK_AFTER) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no message from the server before the timeout")
            }
            Err(RecvTimeoutError::Disconnected) => {
                let errors = self.errors.take().map(|errors| errors.join());
                panic!("the server has exited: {errors:?}")
            }
        };
        assert!(message["garbage"].is_null(), "not a message: {message}");
        match message["id"].as_u64() {
            Some(id) if message["method"].is_null() => drop(self.responses.insert(id, message)),
            _ => self.others.push_back(message),
        }
    }

    /// Closes the connection and waits for the server to exit.
    #[track_caller]
    pub(crate) fn close(mut self) -> Output {
        drop(self.input.take());
        self.wait_for_exit()
    }

    /// Waits for the server to exit.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> Output {
        let status = poll_until("the exit of the server", || {
            self.child.try_wait().expect("the process is ours").ok_or("it runs")
        });
        Output {
            status: to_exit_code(status),
            stdout: String::new(),
            stderr: self.errors.take().expect("it ends once").join().expect("it only reads"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Both calls fail without effect if the server has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text at a JSON pointer in every entry of a list.
pub(crate) fn texts(list: &Value, pointer: &str) -> Vec<String> {
    let entries = list.as_array().into_iter().flatten();
    entries.map(|entry| entry.pointer(pointer).unwrap().as_str().unwrap().to_owned()).collect()
}
