//! The export to a collector that does not reply, is slow or refuses spans for a time: no call waits,
//! and what is dropped is reported.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost_agents::{ObservedCall, ObservedRun, RunObserver, SpanEnd};
use skillhost_home::Settings;
use skillhost_payload::{CallContext, ErrorKind, ToolOutput, ToolSpec};
use skillhost_telemetry::TelemetryExport;
use tokio::runtime::Runtime;

/// The number of spans that wait at most, as `docs/telemetry.md` says.
const QUEUE: usize = 2_048;
/// The number of spans in a request, the default of the SDK. So many are sent at once.
const BATCH: usize = 512;
/// Numbers of calls for a full queue; they differ, so that the log tells the tests apart.
const MANY: usize = 20_000;
const FEWER: usize = 10_000;

const ACCEPTED: &str = "200 OK";
/// An error that is not tried again.
const REFUSED: &str = "400 Bad Request";

/// A request of the exporter that waits for its reply.
struct HeldRequest(TcpStream);

impl HeldRequest {
    fn reply(mut self, status: &str) {
        // The exporter may have closed the connection at its end.
        let _ =
            write!(self.0, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

/// Starts a collector whose requests are replied to by the test; returns its URL.
fn start_collector() -> (String, Receiver<HeldRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection is accepted");
            if read_request(&stream).is_ok() && sender.send(HeldRequest(stream)).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn read_request(stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    reader.read_exact(&mut vec![0; length])
}

/// The log of this process, which its tests share.
#[derive(Clone, Default)]
struct SharedLog(Arc<Mutex<Vec<u8>>>);

impl io::Write for SharedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SharedLog {
    fn start() -> Self {
        static LOG: OnceLock<SharedLog> = OnceLock::new();
        let start = || {
            let log = Self::default();
            let writer = log.clone();
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
            log
        };
        LOG.get_or_init(start).clone()
    }

    /// Returns the lines with a text.
    fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = self.0.lock().expect("no writer panics").clone();
        let log = String::from_utf8(bytes).expect("the log is UTF-8");
        log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

/// Starts an export, and a runtime for its requests.
fn start_export(collector: &str) -> (Runtime, TelemetryExport) {
    let text =
        format!("telemetry: {{otlp: '{collector}', gen_ai: development-2026-11, content: true}}");
    let settings = Settings::parse("skillhost.yaml".as_ref(), &text);
    let settings = settings.expect("the settings are valid");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    let export = {
        let _entered = runtime.enter();
        TelemetryExport::start(&settings.telemetry).expect("it starts").expect("it is on")
    };
    (runtime, export)
}

/// Ends a number of calls of a run, each of which is a span; returns the number of spans.
fn end_calls(observer: &dyn RunObserver, count: usize) -> usize {
    let spec: ToolSpec = serde_json::from_value(json!({
        "name": "read_skill", "description": "", "input_schema": {},
        "skill_use": {"kind": "instructions", "skill_argument": "skill_id"},
    }))
    .expect("the tool is valid");
    let context = CallContext { agent_id: "worker".to_owned(), ..CallContext::default() };
    let run = observer.start_run(&ObservedRun {
        agent_id: "worker",
        root_thread_id: "thread",
        parent: None,
    });
    for number in 0..count {
        let call = observer.start_call(&ObservedCall {
            spec: &spec,
            arguments: r#"{"skill_id": "pdf-forms"}"#,
            context: &context,
            root_thread_id: Some("thread"),
            parent: Some(run.place()),
        });
        match number % 3 {
            0 => call.end(SpanEnd::Returned(&ToolOutput::default())),
            1 => call.end(SpanEnd::Failed(ErrorKind::Timeout)),
            // A call that is dropped was cancelled.
            _ => drop(call),
        }
    }
    run.end(SpanEnd::Done);
    count + 1
}

/// Returns the value of a field of a line of the log.
fn field(line: &str, name: &str) -> usize {
    let start = format!(" {name}=");
    let value = line.split(&start).nth(1).and_then(|rest| rest.split(' ').next());
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {line}"))
}

#[test]
fn silent_collector_delays_no_call() {
    // Every request is held.
    let (collector, requests) = start_collector();
    let (runtime, export) = start_export(&collector);
    let start = Instant::now();
    end_calls(&*export.observer(), MANY);
    // One request alone would take five seconds.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let end = Instant::now();
    runtime.block_on(export.shut_down());
    assert!(end.elapsed() < Duration::from_secs(4), "{:?}", end.elapsed());
    runtime.shutdown_background();
    drop(requests);
}

#[test]
fn full_queue_drops_further_spans() {
    let log = SharedLog::start();
    let (collector, requests) = start_collector();
    let (runtime, export) = start_export(&collector);
    let ended = end_calls(&*export.observer(), FEWER);
    // The first request was held during all calls; it and further ones are accepted now.
    let first = requests.recv().expect("a request arrives");
    thread::spawn(move || {
        first.reply(ACCEPTED);
        requests.iter().for_each(|request| request.reply(ACCEPTED));
    });
    runtime.block_on(export.shut_down());
    let lines = log.lines_with("spans of telemetry were not exported");
    // The tests of a process share its log.
    let counts = lines.iter().map(|line| (field(line, "lost"), field(line, "exported")));
    let own: Vec<_> = counts.filter(|(lost, exported)| lost + exported == ended).collect();
    let [(_, exported)] = own.as_slice() else { panic!("{lines:?}") };
    assert!(*exported <= QUEUE + BATCH, "{lines:?}");
}

#[test]
fn outage_is_reported_once() {
    let log = SharedLog::start();
    let (collector, requests) = start_collector();
    let (runtime, export) = start_export(&collector);
    let observer = export.observer();
    for status in [REFUSED, REFUSED, ACCEPTED] {
        end_calls(&*observer, BATCH);
        requests.recv().expect("a request arrives").reply(status);
    }
    thread::spawn(move || requests.iter().for_each(|request| request.reply(ACCEPTED)));
    runtime.block_on(export.shut_down());
    let of_collector = |text: &str| -> Vec<String> {
        let lines = log.lines_with(text);
        lines.into_iter().filter(|line| line.contains(&collector)).collect()
    };
    assert_eq!(of_collector("spans of telemetry are not accepted").len(), 1);
    let accepted = of_collector("spans of telemetry are accepted again");
    let [line] = accepted.as_slice() else { panic!("{accepted:?}") };
    assert!((BATCH..=2 * BATCH).contains(&field(line, "failed")), "{line}");
}
