//! Tests of a running kernel on a full disk, without descriptors or without a reader of its
//! output.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

use mock_model::{MockModel, Step, Wire};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use skillhost_control::socket_path;
use skillhost_home::{Environment, Home, HomeSource};
use test_support::{Background, STUCK_AFTER, TestHome, binary, poll_until};

use crate::fixtures::shipped_manifest;

/// Creates a trusted home with only the shipped echo.
fn echo_home() -> TestHome {
    TestHome::new().manifest("echo", &shipped_manifest("echo")).trusted()
}

/// Starts `skillhost run` through a shell, with its log on standard output.
fn run_in_shell(home: &TestHome, before: &str) -> Background {
    let script = format!("{before}exec \"$0\" run 2>&1");
    let mut command = home.command_of("sh".as_ref());
    home.start(command.args(["-c", &script]).arg(binary()))
}

fn pid_of(id: u32) -> Pid {
    Pid::from_raw(id.try_into().unwrap()).unwrap()
}

/// Waits until a kernel accepts connections.
fn wait_until_reachable(home: &TestHome) {
    poll_until("a reply of the kernel", || {
        let output = home.skillhost(["ext", "reload", "echo"]);
        if output.status == 0 { Ok(()) } else { Err(output) }
    });
}

/// Sends SIGTERM to a kernel and panics if it does not exit.
fn terminate_kernel(mut child: Child) -> ExitStatus {
    let id = pid_of(child.id());
    kill_process(id, Signal::TERM).unwrap();
    let (sender, exited) = channel();
    std::thread::spawn(move || sender.send(child.wait().unwrap()));
    exited.recv_timeout(STUCK_AFTER).unwrap_or_else(|_| {
        kill_process(id, Signal::KILL).unwrap();
        panic!("the kernel does not end");
    })
}

fn with_output(mut command: Command, output: &std::io::PipeWriter) -> Child {
    command
        .stdout(Stdio::from(output.try_clone().unwrap()))
        .stderr(Stdio::from(output.try_clone().unwrap()));
    command.spawn().unwrap()
}

#[test]
fn kernel_survives_closed_stdout() {
    let home = echo_home();
    for args in [&["run"][..], &["run", "--supervised"], &["run", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.command();
        command.args(args);
        let kernel = with_output(command, &writer);
        wait_until_reachable(&home);
        // The log line of this command cannot be written.
        home.skillhost(["ext", "reload", "echo"]).success();
        assert_eq!(terminate_kernel(kernel).code(), Some(0), "{args:?}");
    }
}

#[test]
fn kernel_stops_while_stdout_blocks() {
    let home = echo_home();
    for args in [&["run"][..], &["run", "--supervised"]] {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let flags = fcntl_getfl(&writer).unwrap();
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
        let full = loop {
            if let Err(error) = writer.write(&[b'x'; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        fcntl_setfl(&writer, flags).unwrap();
        let mut command = home.command();
        command.args(args);
        let kernel = with_output(command, &writer);
        wait_until_reachable(&home);
        assert_eq!(terminate_kernel(kernel).code(), Some(0), "{args:?}");
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(b"xxxx"));
    }
}

#[test]
fn control_socket_survives_descriptor_exhaustion() {
    let home = echo_home();
    let kernel = run_in_shell(&home, "");
    kernel.line_with("running; Ctrl-C ends it");
    let usual = getrlimit(Resource::Nofile);
    let limit = |current| {
        let limit = Rlimit { current, maximum: usual.maximum };
        prlimit(Some(pid_of(kernel.id())), Resource::Nofile, limit).unwrap();
    };
    limit(Some(3));
    let waiting = home.spawn(["ext", "reload", "echo"]);
    kernel.line_with("control socket cannot accept");
    limit(usual.current);
    waiting.finish().success();
    kernel.interrupt().success();
}

#[test]
fn full_disk_rejects_messages_until_freed() {
    let mock = MockModel::with([Step::text("Tea.")]);
    let home = TestHome::new()
        .manifest("plain", "id: plain\nname: Plain\nagent: {instructions: You answer.}\n")
        .settings(&mock.settings(Wire::Openai))
        .trusted();
    // A file size limit acts as a full disk; with SIGXFSZ ignored, writes fail with an error.
    let kernel = run_in_shell(&home, "trap '' 25; ulimit -S -f 0; ");
    kernel.line_with("running; Ctrl-C ends it");
    let denied = home.skillhost(["ask", "--agent", "plain", "What is it?"]).exits(5);
    assert!(denied.stderr.contains("kernel does not accept messages yet: "), "{denied}");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("unhealthy events: not delivered: "), "{doctor}");
    let doctor = home.skillhost(["ext", "doctor", "--json"]).exits(1).json();
    assert_eq!((&doctor["healthy"], &doctor["delivery"]["kind"]), (&false.into(), &"io".into()));

    let usual = getrlimit(Resource::Fsize);
    prlimit(Some(pid_of(kernel.id())), Resource::Fsize, usual).unwrap();
    kernel.line_with("event delivery resumed");
    let output = home.skillhost(["ask", "--agent", "plain", "What is it?"]).success();
    assert_eq!(output.stdout, "Tea.\n");
    assert_eq!(mock.requests().len(), 1);
    home.skillhost(["ext", "doctor"]).success();
    kernel.interrupt().success();
}

/// Listens on the socket of a kernel and ends after a request, except that for its notices.
fn spawn_dying_kernel(home: &TestHome) -> std::thread::JoinHandle<()> {
    let environment = Environment {
        runtime_dir: Some(home.outside().join("run").into()),
        ..Environment::from_process().unwrap()
    };
    let found = Home::open(&home.root(), HomeSource::Argument).unwrap();
    let path = socket_path(&found, &environment).unwrap();
    let private = |path: &std::path::Path| {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap();
    };
    private(path.parent().unwrap());
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let mut is_notices = true;
        while is_notices {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            is_notices = line.contains("notices");
        }
        std::fs::remove_file(&path).unwrap();
    })
}

#[test]
fn query_is_retried_after_lost_connection() {
    let home = echo_home();
    let kernel = spawn_dying_kernel(&home);
    let listed = home.skillhost(["tool", "list"]).success();
    assert!(listed.stdout.contains("echo"), "{listed}");
    kernel.join().unwrap();
}

#[test]
fn command_outcome_is_unknown_after_disconnect() {
    let home = echo_home();
    let cases: [(&[&str], &str); 3] = [
        (&["tool", "call", "echo", r#"{"text":"x"}"#], "the call of `echo` may have happened"),
        (&["ext", "reload", "echo"], "`echo` may have been reloaded"),
        (&["ext", "rollback", "echo"], "`echo` may have been rolled back"),
    ];
    for (args, what) in cases {
        let kernel = spawn_dying_kernel(&home);
        let output = home.skillhost(args).exits(1);
        let expected = format!("error: the kernel ended before it answered; {what}\n");
        assert!(output.stderr.starts_with(&expected), "{output}");
        kernel.join().unwrap();
    }
}
