//! The socket over which other commands reach a running kernel.

use std::io::ErrorKind as Io;
use std::path::PathBuf;

use serde_json::{Value, json};
use skillhost_kernel::ErrorKind;
use skillhost_kernel::control::{ControlServer, Reply, Request, request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::rig::{Rig, home_with, operator};

/// A kernel that serves its socket.
async fn serving() -> (Rig, PathBuf) {
    let agent = "id: guide\nname: Guide\nagent: {instructions: Guide.}\n";
    let rig = Rig::boot(home_with("a", "").manifest("guide", agent)).await;
    let path = rig.home.outside().join("run/skillhost/control.sock");
    let server = ControlServer::bind(&path).await.expect("a new socket in a new folder");
    tokio::spawn(server.serve(rig.kernel.clone()));
    (rig, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_kernel_does_what_other_commands_ask() {
    let (rig, path) = serving().await;
    let ask = async |what: Request| match request(&path, &what).await.unwrap() {
        Reply::Done(value) => serde_json::from_str::<Value>(value.get()).unwrap(),
        Reply::Failed(error) => panic!("{error:?}"),
    };
    let reloaded = ask(Request::Reload { id: "a".into() }).await;
    assert_eq!((&reloaded["id"], &reloaded["to"]), (&json!("a"), &json!("0.1.0")));
    let turn = ask(Request::Turn { agent: "guide".into(), prompt: "hello".into() }).await;
    assert_eq!(turn["system_prompt"], "Guide.");
    let (context, tool) = (operator(), "a".to_owned());
    let invoke = Request::Invoke { context, tool, arguments: r#"{"do": "build"}"#.into() };
    assert_eq!(ask(invoke).await["text"], "misbehave");
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_comes_back_with_kind_and_hint() {
    let (rig, path) = serving().await;
    let refused = async |what: Request| match request(&path, &what).await.unwrap() {
        Reply::Done(value) => panic!("{value}"),
        Reply::Failed(error) => (error.kind, error.message, error.hint),
    };
    let expected =
        (ErrorKind::NotFound, "no extension `b`".to_owned(), "see: skillhost ext list".to_owned());
    assert_eq!(refused(Request::Reload { id: "b".into() }).await, expected);
    let (context, tool) = (operator(), "a".to_owned());
    let arguments = r#"{"do": "act", "act": "fail"}"#.to_owned();
    let expected = (ErrorKind::Failed, "a failed".to_owned(), "try less".to_owned());
    assert_eq!(refused(Request::Invoke { context, tool, arguments }).await, expected);

    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"hello?\n").await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let Reply::Failed(error) = serde_json::from_str(&reply).unwrap() else { panic!("{reply}") };
    assert_eq!(error.kind, ErrorKind::Protocol);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_kernel_serves_a_socket_and_a_dead_ones_is_taken_over() {
    let (rig, path) = serving().await;
    let second = ControlServer::bind(&path).await.err().map(|error| error.kind());
    assert_eq!(second, Some(Io::AddrInUse));
    // What a killed kernel leaves behind: a socket that nobody listens at.
    let left = path.with_file_name("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    let reload = Request::Reload { id: "a".into() };
    let refused = request(&left, &reload).await.map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(Io::ConnectionRefused));
    let server = ControlServer::bind(&left).await.unwrap();
    drop(server);
    assert!(!left.exists());
    // The folder is the owner's alone.
    let mode = std::fs::metadata(path.parent().unwrap()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    rig.kernel.shutdown().await;
}
