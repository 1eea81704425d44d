//! A client of `skillhost mcp` on standard input and output, plain enough to misbehave.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_support::{Output, TestHome};

/// After this time a test is stuck.
const DEADLINE: Duration = Duration::from_secs(120);

/// The newest version of the protocol that begins with `initialize`.
pub(crate) const VERSION: &str = "2025-11-25";

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    errors: Option<JoinHandle<String>>,
    next: u64,
    answers: HashMap<u64, Value>,
    others: VecDeque<Value>,
}

impl Client {
    /// Starts a server and introduces itself.
    pub(crate) fn of(home: &TestHome) -> Self {
        Self::begin(home.command().args(["mcp"]))
    }

    /// As [`Client::of`] with a command of the test's own.
    pub(crate) fn begin(command: &mut Command) -> Self {
        let mut client = Self::start(command);
        client.initialize(VERSION, &json!({}));
        client
    }

    /// Starts a server and says nothing yet.
    pub(crate) fn start(command: &mut Command) -> Self {
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
                // Nothing but messages may ever be on standard output.
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|error| json!({ "garbage": line, "error": error.to_string() }));
                // The test may have ended.
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
            answers: HashMap::new(),
            others: VecDeque::new(),
        }
    }

    /// Introduces itself and returns what the server says of itself.
    #[track_caller]
    pub(crate) fn initialize(&mut self, version: &str, capabilities: &Value) -> Value {
        let answer = self.result(
            "initialize",
            json!({
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": { "name": "test client", "version": "1" },
            }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        // A server that has ended does not read.
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Asks and does not wait.
    pub(crate) fn ask(&mut self, method: &str, params: impl Borrow<Value>) -> u64 {
        let params = params.borrow();
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the whole answer to a question.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.take();
        }
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: impl Borrow<Value>) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Asks and requires a result.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: impl Borrow<Value>) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Asks and requires an error; returns its code and message.
    #[track_caller]
    pub(crate) fn refusal(&mut self, method: &str, params: impl Borrow<Value>) -> (i64, String) {
        let params = params.borrow();
        let answer = self.request(method, params);
        let error = &answer["error"];
        let code = error["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("{method} {params} is not refused: {answer}"));
        (code, error["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Calls a tool and requires that the protocol has nothing against it.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: impl Borrow<Value>) -> Value {
        let arguments = arguments.borrow();
        self.result("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for a message of the server's own, whatever else it says meanwhile.
    #[track_caller]
    pub(crate) fn told(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.others.iter().position(|other| other["method"] == method) {
                return self.others.remove(at).expect("it was just found");
            }
            self.take();
        }
    }

    /// What the server has said of its own accord so far and nobody has asked for.
    pub(crate) fn untold(&self) -> Vec<&str> {
        self.others.iter().filter_map(|other| other["method"].as_str()).collect()
    }

    #[track_caller]
    fn take(&mut self) {
        let message = match self.lines.recv_timeout(DEADLINE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("the server says nothing"),
            Err(RecvTimeoutError::Disconnected) => {
                let errors = self.errors.take().map(|errors| errors.join());
                panic!("the server has ended: {errors:?}")
            }
        };
        assert!(message["garbage"].is_null(), "not a message: {message}");
        match message["id"].as_u64() {
            Some(id) if message["method"].is_null() => drop(self.answers.insert(id, message)),
            _ => self.others.push_back(message),
        }
    }

    /// Closes the connection and waits for the server's end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Output {
        drop(self.input.take());
        self.ended()
    }

    /// Waits for the server's end.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Output {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the process is ours") {
                break status;
            }
            assert!(begun.elapsed() < DEADLINE, "the server does not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        let signal = || std::os::unix::process::ExitStatusExt::signal(&status).map(|s| -s);
        Output {
            status: status.code().or_else(signal).expect("a code or a signal ends a process"),
            stdout: String::new(),
            stderr: self.errors.take().expect("it ends once").join().expect("it only reads"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // After its end there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The texts at a pointer of every entry of a list.
pub(crate) fn texts(list: &Value, pointer: &str) -> Vec<String> {
    let entries = list.as_array().into_iter().flatten();
    entries.map(|entry| entry.pointer(pointer).unwrap().as_str().unwrap().to_owned()).collect()
}
