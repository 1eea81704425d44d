//! The export to a collector that does not reply: no call waits, and the queue has a limit.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost_agents::{ObservedCall, ObservedRun, SpanEnd};
use skillhost_home::Settings;
use skillhost_payload::{CallContext, ErrorKind, ToolOutput, ToolSpec};
use skillhost_telemetry::TelemetryExport;

/// More than the queue of the exporter holds.
const CALLS: usize = 20_000;

#[test]
fn silent_collector_delays_no_call() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    // Connections are accepted, kept, and never read.
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let text = format!(
        "telemetry: {{otlp: 'http://{address}', gen_ai: development-2026-11, content: true}}"
    );
    let settings =
        Settings::parse("skillhost.yaml".as_ref(), &text).expect("the settings are valid");
    let spec: ToolSpec = serde_json::from_value(json!({
        "name": "read_skill", "description": "", "input_schema": {},
        "skill_use": {"kind": "instructions", "skill_argument": "skill_id"},
    }))
    .expect("the tool is valid");
    let context = CallContext { agent_id: "worker".to_owned(), ..CallContext::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    runtime.block_on(async {
        let export = TelemetryExport::start(&settings.telemetry);
        let export = export.expect("it starts").expect("it is on");
        let observer = export.observer();
        let start = Instant::now();
        let run = observer.start_run(&ObservedRun {
            agent_id: "worker",
            root_thread_id: "thread",
            parent: None,
        });
        for number in 0..CALLS {
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
        // One request alone would take five seconds.
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        let end = Instant::now();
        export.shut_down().await;
        assert!(end.elapsed() < Duration::from_secs(4), "{:?}", end.elapsed());
    });
    runtime.shutdown_background();
}
