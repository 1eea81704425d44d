//! The socket through which other commands call a running kernel.

use std::io::ErrorKind as Io;
use std::path::PathBuf;

use serde_json::{Value, json};
use skillhost_control::{ControlRequest, ControlResponse, send_request};
use skillhost_core::KernelLimits;
use skillhost_kernel::control::ControlServer;
use skillhost_payload::ErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::fixture::{KernelFixture, SOON, home_with, operator, patient};

/// A kernel that serves its socket.
async fn serving() -> (KernelFixture, PathBuf) {
    let agent = "id: guide\nname: Guide\nagent: {instructions: Guide.}\n";
    let fixture = KernelFixture::boot(home_with("a", "").manifest("guide", agent)).await;
    let path = fixture.home.outside().join("run/skillhost/control.sock");
    let server = ControlServer::bind(&path).await.expect("a new socket in a new folder");
    tokio::spawn(server.serve(fixture.kernel.clone()));
    (fixture, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn running_kernel_serves_other_commands() {
    let (fixture, path) = serving().await;
    let ask = async |what: ControlRequest| match send_request(&path, &what).await.unwrap() {
        ControlResponse::Done(value) => serde_json::from_str::<Value>(value.get()).unwrap(),
        ControlResponse::Failed(error) => panic!("{error:?}"),
    };
    let reloaded = ask(ControlRequest::Reload { id: "a".into() }).await;
    assert_eq!((&reloaded["id"], &reloaded["to"]), (&json!("a"), &json!("0.1.0")));
    let turn = ask(ControlRequest::Turn { agent: "guide".into(), prompt: "hello".into() }).await;
    assert_eq!(turn["system_prompt"], "Guide.");
    let (context, tool) = (operator(), "a".to_owned());
    let invoke = ControlRequest::Invoke {
        context: Box::new(context),
        tool,
        arguments: r#"{"do": "build"}"#.into(),
    };
    assert_eq!(ask(invoke).await["text"], "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_keeps_kind_and_hint() {
    let (fixture, path) = serving().await;
    let refused = async |what: ControlRequest| match send_request(&path, &what).await.unwrap() {
        ControlResponse::Done(value) => panic!("{value}"),
        ControlResponse::Failed(error) => (error.kind, error.message, error.hint),
    };
    let expected = (
        ErrorKind::NotFound,
        "extension `b` not found".to_owned(),
        "see: skillhost ext list".to_owned(),
    );
    assert_eq!(refused(ControlRequest::Reload { id: "b".into() }).await, expected);
    let (context, tool) = (operator(), "a".to_owned());
    let arguments = r#"{"do": "act", "act": "fail"}"#.to_owned();
    let expected = (ErrorKind::Failed, "a failed".to_owned(), "try less".to_owned());
    assert_eq!(
        refused(ControlRequest::Invoke { context: Box::new(context), tool, arguments }).await,
        expected
    );

    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"hello?\n").await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let ControlResponse::Failed(error) = serde_json::from_str(&reply).unwrap() else {
        panic!("{reply}")
    };
    assert_eq!(error.kind, ErrorKind::Protocol);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_socket_is_replaced() {
    let (fixture, path) = serving().await;
    let second = ControlServer::bind(&path).await.err().map(|error| error.kind());
    assert_eq!(second, Some(Io::AddrInUse));
    // A killed kernel leaves a socket without a listener.
    let left = path.with_file_name("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let reload = ControlRequest::Reload { id: "a".into() };
    assert!(send_request(&left, &reload).await.unwrap_err().is_gone());
    let server = ControlServer::bind(&left).await.unwrap();
    drop(server);
    assert!(!left.exists());
    // The directory is accessible only to the owner.
    let mode = std::fs::metadata(path.parent().unwrap()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_disconnected() {
    let limits = KernelLimits { control: SOON, ..patient() };
    let fixture = KernelFixture::boot_with(home_with("a", ""), limits, true).await;
    let path = fixture.home.outside().join("run/skillhost/control.sock");
    let server = ControlServer::bind(&path).await.expect("a new socket in a new folder");
    tokio::spawn(server.serve(fixture.kernel.clone()));
    // More clients than may be silent at once.
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(UnixStream::connect(&path).await.unwrap());
    }
    // Connects last, and gets a reply after the first ones were disconnected.
    let ControlResponse::Done(_) = send_request(&path, &ControlRequest::Report).await.unwrap()
    else {
        panic!("the report is always there");
    };
    let mut end = [0];
    assert_eq!(silent[0].read(&mut end).await.unwrap(), 0);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_request_is_not_performed() {
    let (fixture, path) = serving().await;
    let (context, tool) = (operator(), "a".to_owned());
    let deed = json!({"do": "emit", "topic": "done", "payload": {}}).to_string();
    let mut line = serde_json::to_string(&ControlRequest::Invoke {
        context: Box::new(context),
        tool,
        arguments: deed,
    })
    .unwrap();
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert_eq!(reply, "");
    assert!(!fixture.home.path("sandbox/data/kernel/events.db").exists());
    // The complete request is performed.
    line.push('\n');
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(fixture.home.path("sandbox/data/kernel/events.db").exists(), "{reply}");
    fixture.kernel.shutdown().await;
}
