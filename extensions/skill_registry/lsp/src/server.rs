//! The state of the server and its loop.

mod actions;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skill_format::{Severity, find_fences};
use skill_rules::fmt::{FmtOptions, format_skill};

use crate::analysis::{
    DocumentAnalysis, DocumentKind, LocatedFinding, analyze, kind_of, path_of_uri,
};
use crate::hover;
use crate::position::{LineTable, TextRange};
use crate::protocol::{
    ChangeParams, CodeActionParams, DocumentParams, HoverParams, IncomingMessage, InitializeParams,
    OpenParams, code,
};
use crate::transport::{Frame, read_frame, write_frame};

/// The pause after a change before a check, if the client sets none.
const DEBOUNCE: Duration = Duration::from_millis(150);

/// The maximum pause that a client can set.
const MAX_DEBOUNCE: Duration = Duration::from_secs(60);

/// The limit on the text of a document; longer ones are not checked. The limit on a SKILL.md is lower.
const MAX_TEXT: usize = 8 << 20;

/// The way in which a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// The client requested `shutdown` before the end.
    Shutdown,
    /// The client ended without it.
    Abandoned,
}

/// A document that a client has open.
struct OpenDocument {
    path: PathBuf,
    version: i64,
    text: String,
    /// The findings in the current text; `None` after a change.
    analysis: Option<DocumentAnalysis>,
    /// The time of the next check; each change postpones it, so that a text is never checked that a
    /// later one has replaced.
    due: Option<Instant>,
}

struct LanguageServer<W> {
    output: W,
    working_directory: PathBuf,
    debounce: Duration,
    is_initialized: bool,
    is_shut_down: bool,
    documents: BTreeMap<String, OpenDocument>,
    /// The last error of a policy that was shown.
    shown_error: Option<String>,
}

/// An error of a request.
struct RequestError {
    code: i32,
    message: String,
}

/// Serves one client until it sends `exit` or closes its stream. Malformed messages are answered
/// with an error and do not end the session.
///
/// # Errors
/// The output cannot be written.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    output: impl Write,
    working_directory: &Path,
) -> io::Result<ServerEnd> {
    let (sender, frames) = channel();
    std::thread::spawn(move || {
        // A stream that fails is one that ended.
        while let Ok(Some(frame)) = read_frame(&mut input) {
            if sender.send(frame).is_err() {
                break;
            }
        }
    });
    let mut server = LanguageServer {
        output,
        working_directory: working_directory.to_owned(),
        debounce: DEBOUNCE,
        is_initialized: false,
        is_shut_down: false,
        documents: BTreeMap::new(),
        shown_error: None,
    };
    server.run(&frames)
}

impl<W: Write> LanguageServer<W> {
    fn run(&mut self, frames: &Receiver<Frame>) -> io::Result<ServerEnd> {
        loop {
            let frame = match self.documents.values().filter_map(|document| document.due).min() {
                None => frames.recv().map_err(|_| RecvTimeoutError::Disconnected),
                // Messages that wait go first: they may replace the text that is due.
                Some(due) => frames.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match frame {
                Ok(Frame::Message(message)) => {
                    if self.handle(message)? {
                        break;
                    }
                }
                Ok(Frame::Malformed(reason)) => {
                    self.fail(&Value::Null, code::PARSE_ERROR, &reason)?;
                }
                Err(RecvTimeoutError::Timeout) => self.check_due()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(if self.is_shut_down { ServerEnd::Shutdown } else { ServerEnd::Abandoned })
    }

    /// Handles a message; returns `true` for `exit`.
    fn handle(&mut self, message: Value) -> io::Result<bool> {
        let Ok(message) = serde_json::from_value::<IncomingMessage>(message) else {
            self.fail(
                &Value::Null,
                code::INVALID_REQUEST,
                "the message is not a JSON-RPC request",
            )?;
            return Ok(false);
        };
        // A message without a method is a response; the server sends no requests.
        let Some(method) = message.method else { return Ok(false) };
        match message.id {
            None if method == "exit" => return Ok(true),
            None => self.notify(&method, message.params)?,
            Some(id) => match self.answer(&method, message.params) {
                Ok(result) => {
                    self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
                }
                Err(RequestError { code, message }) => self.fail(&id, code, &message)?,
            },
        }
        Ok(false)
    }

    fn answer(&mut self, method: &str, params: Value) -> Result<Value, RequestError> {
        let failed = |code, message: &str| Err(RequestError { code, message: message.to_owned() });
        if self.is_shut_down {
            return failed(code::INVALID_REQUEST, "the server is shut down");
        }
        if !self.is_initialized && method != "initialize" {
            return failed(code::NOT_INITIALIZED, "the server is not initialized");
        }
        match method {
            "initialize" => {
                let params: InitializeParams = read_params(params).unwrap_or_default();
                let debounce = params.initialization_options.and_then(|options| options.debounce);
                self.debounce = debounce.map_or(DEBOUNCE, Duration::from_millis).min(MAX_DEBOUNCE);
                self.is_initialized = true;
                Ok(capabilities())
            }
            "shutdown" => {
                self.is_shut_down = true;
                Ok(Value::Null)
            }
            "textDocument/codeAction" => {
                let params: CodeActionParams = read_params(params)?;
                let Some(document) = self.checked(&params.text_document.uri) else {
                    return Ok(json!([]));
                };
                Ok(actions::list_actions(document, &params))
            }
            "textDocument/hover" => {
                let params: HoverParams = read_params(params)?;
                let Some(document) = self.checked(&params.text_document.uri) else {
                    return Ok(Value::Null);
                };
                Ok(hover_result(document, &params))
            }
            "textDocument/formatting" => {
                let params: DocumentParams = read_params(params)?;
                let document = self.documents.get(&params.text_document.uri);
                document.map_or(Ok(Value::Null), format_document)
            }
            _ => failed(code::METHOD_NOT_FOUND, &format!("method `{method}` not found")),
        }
    }

    fn notify(&mut self, method: &str, params: Value) -> io::Result<()> {
        if !self.is_initialized {
            return Ok(());
        }
        // A notification has no answer, so that invalid parameters are dropped.
        match method {
            "textDocument/didOpen" => {
                if let Ok(OpenParams { text_document: item }) = read_params(params) {
                    self.open(item.uri, item.version, item.text);
                }
            }
            "textDocument/didChange" => {
                if let Ok(params) = read_params(params) {
                    self.change(params);
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => self.check_all_again(),
            "textDocument/didClose" => {
                if let Ok(DocumentParams { text_document }) = read_params(params)
                    && self.documents.remove(&text_document.uri).is_some()
                {
                    self.publish(&text_document.uri, None, &json!([]))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, uri: String, version: i64, text: String) {
        let Some(path) = path_of_uri(&uri) else { return };
        // An opened file is checked at once, unless a message that changes it waits already.
        let due = Some(Instant::now());
        self.documents.insert(uri, OpenDocument { path, version, text, analysis: None, due });
    }

    fn change(&mut self, params: ChangeParams) {
        let Some(document) = self.documents.get_mut(&params.text_document.uri) else { return };
        document.version = params.text_document.version.unwrap_or(document.version);
        for change in params.content_changes {
            match change.range {
                None => document.text = change.text,
                Some(TextRange { start, end }) => {
                    let table = LineTable::new(&document.text);
                    let (start, end) = (table.offset(start), table.offset(end));
                    document.text.replace_range(start..end.max(start), &change.text);
                }
            }
        }
        document.analysis = None;
        document.due = Some(Instant::now() + self.debounce);
    }

    /// Schedules all documents: a saved file may be a policy, or a file that a skill names.
    fn check_all_again(&mut self) {
        for document in self.documents.values_mut() {
            document.analysis = None;
            document.due = Some(Instant::now());
        }
    }

    fn check_due(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let due = |document: &OpenDocument| document.due.is_some_and(|due| due <= now);
        let uris: Vec<_> = self.documents.iter().filter(|(_, document)| due(document)).collect();
        let uris: Vec<String> = uris.into_iter().map(|(uri, _)| uri.clone()).collect();
        for uri in uris {
            let Some(document) = self.checked(&uri) else { continue };
            let diagnostics = list_diagnostics(document);
            let version = document.version;
            let error = document.analysis.as_ref().and_then(|it| it.policy_error.clone());
            self.publish(&uri, Some(version), &diagnostics)?;
            if error.is_some() && error != self.shown_error {
                let message = format!(
                    "the lint policy is not used: {}",
                    error.as_deref().unwrap_or_default()
                );
                let params = json!({ "type": 1, "message": message });
                self.send(
                    &json!({ "jsonrpc": "2.0", "method": "window/showMessage", "params": params }),
                )?;
            }
            self.shown_error = error;
        }
        Ok(())
    }

    /// Returns a document with the findings in its current text.
    fn checked(&mut self, uri: &str) -> Option<&OpenDocument> {
        let document = self.documents.get_mut(uri)?;
        if document.analysis.is_none() {
            let is_checked = document.text.len() <= MAX_TEXT;
            let text = if is_checked { &*document.text } else { "" };
            let path = if is_checked { &*document.path } else { Path::new("") };
            document.analysis = Some(analyze(path, text, &self.working_directory));
        }
        if document.due.is_some_and(|due| due <= Instant::now()) {
            document.due = None;
        }
        Some(document)
    }

    fn publish(&mut self, uri: &str, version: Option<i64>, diagnostics: &Value) -> io::Result<()> {
        let mut params = json!({ "uri": uri, "diagnostics": diagnostics });
        if let Some(version) = version {
            params["version"] = version.into();
        }
        let method = "textDocument/publishDiagnostics";
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    fn fail(&mut self, id: &Value, code: i32, message: &str) -> io::Result<()> {
        let error = json!({ "code": code, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        write_frame(&mut self.output, message)
    }
}

fn read_params<T: DeserializeOwned>(params: Value) -> Result<T, RequestError> {
    serde_json::from_value(params)
        .map_err(|error| RequestError { code: code::INVALID_PARAMS, message: error.to_string() })
}

fn capabilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": {
                "openClose": true,
                "change": 2,
                "save": { "includeText": false },
            },
            "codeActionProvider": { "codeActionKinds": ["quickfix", actions::FIX_ALL] },
            "hoverProvider": true,
            "documentFormattingProvider": true,
        },
        "serverInfo": { "name": "skillhost", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn list_diagnostics(document: &OpenDocument) -> Value {
    let Some(analysis) = &document.analysis else { return json!([]) };
    let lines = LineTable::new(&document.text);
    analysis.findings.iter().map(|found| to_diagnostic(&lines, found)).collect()
}

fn to_diagnostic(lines: &LineTable<'_>, found: &LocatedFinding) -> Value {
    let LocatedFinding { diagnostic, range, .. } = found;
    let severity = match diagnostic.severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    };
    let message = match &diagnostic.help {
        Some(help) => format!("{}\nhelp: {help}", diagnostic.message),
        None => diagnostic.message.clone(),
    };
    json!({
        "range": lines.range(range),
        "severity": severity,
        "code": diagnostic.rule,
        "source": "skillhost",
        "message": message,
    })
}

fn hover_result(document: &OpenDocument, params: &HoverParams) -> Value {
    let Some(analysis) = &document.analysis else { return Value::Null };
    let offset = LineTable::new(&document.text).offset(params.position);
    match hover::describe(&document.text, analysis, offset) {
        Some(text) => json!({ "contents": { "kind": "markdown", "value": text } }),
        None => Value::Null,
    }
}

/// Formats the frontmatter of a SKILL.md: one edit, or none if it is canonical already.
fn format_document(document: &OpenDocument) -> Result<Value, RequestError> {
    if kind_of(&document.path) != DocumentKind::Skill || document.text.len() > MAX_TEXT {
        return Ok(Value::Null);
    }
    let text = &document.text;
    let formatted = format_skill(text, FmtOptions::default()).map_err(|error| RequestError {
        code: code::REQUEST_FAILED,
        message: format!("line {}: {error}", error.line),
    })?;
    if formatted.text == *text {
        return Ok(json!([]));
    }
    // The body stays the same, so that the cursor in it does, too.
    let head = |text: &str| find_fences(text).map_or(text.len(), |fences| fences.body_start);
    let body = formatted.text.len() - head(&formatted.text);
    let end = text.len().saturating_sub(body);
    let range = LineTable::new(text).range(&(0..end));
    Ok(json!([{ "range": range, "newText": &formatted.text[..head(&formatted.text)] }]))
}
