//! The hosts that a run may contact, as real programs do.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use skillhost_broker::HostContact;
use skillhost_policy::{DomainPattern, Guarantee, IsolationLevel, SandboxPolicy};
use skillhost_sandbox::{SandboxError, SandboxedExit};

use crate::fixture::{PYTHON, Victims, block_on, launcher, words};

/// Returns a policy with hosts of the network.
fn with_hosts(victims: &Victims, hosts: &[&str]) -> SandboxPolicy {
    let mut policy = victims.policy();
    policy.network.allowed_domains =
        hosts.iter().map(|host| DomainPattern::parse(host).unwrap()).collect();
    policy
}

/// Starts a server of the host that answers every request with `served`; returns its port.
fn start_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
                }
            });
        }
    });
    port
}

fn run(victims: &Victims, command: &[&str], policy: SandboxPolicy) -> (SandboxedExit, String) {
    let exit = block_on(launcher().run(victims.spec(&words(command), policy))).unwrap();
    let output = String::from_utf8_lossy(&exit.stdout).into_owned();
    (exit, output)
}

fn contact(host: &str, refused: Option<&str>, count: u64) -> HostContact {
    HostContact { host: host.to_owned(), refused: refused.map(str::to_owned), count }
}

const NOT_LISTED: &str = "it is not in `network.allowedDomains`";

#[test]
fn python_reaches_allowed_host_only() {
    let victims = Victims::create();
    let port = start_server();
    let script = format!(
        "import urllib.request as u\n\
         print(u.urlopen('http://127.0.0.1:{port}/').read())\n\
         for target in ['http://evil.org/', 'https://evil.org/']:\n\
         \x20try: u.urlopen(target)\n\
         \x20except Exception as error: print(error)\n"
    );
    let policy = with_hosts(&victims, &["127.0.0.1"]);
    let (exit, output) = run(&victims, &[PYTHON, "-c", &script], policy);
    assert!(output.starts_with("b'served'\n"), "{output} {exit:?}");
    let refused = format!("evil.org: {NOT_LISTED}");
    let refusals = output.lines().filter(|line| line.contains("403") && line.contains(&refused));
    assert_eq!(refusals.count(), 2, "{output}");
    let contacts = [contact("127.0.0.1", None, 1), contact("evil.org", Some(NOT_LISTED), 2)];
    assert_eq!(exit.end.hosts, contacts);
    assert!(!exit.isolation.missing.contains(&Guarantee::Domains), "{:?}", exit.isolation);
}

#[test]
fn curl_and_node_reach_allowed_host_only() {
    let victims = Victims::create();
    let port = start_server();
    let curl = format!(
        "curl -s http://127.0.0.1:{port}/; curl -s -p http://127.0.0.1:{port}/; \
         curl -s -x socks5h://127.0.0.1:3128 http://127.0.0.1:{port}/; \
         curl -s http://evil.org/ | head -1; \
         curl -s -p http://evil.org/; echo $?; curl -s --noproxy '*' http://127.0.0.1:{port}/; echo $?"
    );
    let node = format!(
        "const http=require('http');const c=http.request({{port:3128,method:'CONNECT',path:'127.0.0.1:{port}'}});\
         c.on('connect',(r,s)=>{{console.log(r.statusCode);s.write('GET / HTTP/1.1\\r\\n\\r\\n');s.on('data',d=>{{console.log(String(d).slice(-6));s.end()}})}});c.end()"
    );
    let rows = [
        (
            "/usr/bin/curl",
            vec!["/bin/sh", "-c", &*curl],
            "servedservedservedevil.org: it is not in `network.allowedDomains`\n56\n7\n",
        ),
        ("/usr/bin/node", vec!["/usr/bin/node", "-e", &*node], "200\nserved\n"),
    ];
    for (program, command, expected) in rows {
        if !Path::new(program).exists() {
            println!("skipped: {program} is missing");
            continue;
        }
        let policy = with_hosts(&victims, &["127.0.0.1"]);
        let (exit, output) = run(&victims, &command, policy);
        assert_eq!(output, expected, "{program} {}", String::from_utf8_lossy(&exit.stderr));
    }
}

/// Without names in the policy there is no proxy, and no variable that names one.
#[test]
fn run_without_hosts_has_no_proxy() {
    let victims = Victims::create();
    let script = "import os,socket\n\
        print([name for name in os.environ if 'proxy' in name.lower()])\n\
        try: socket.create_connection(('127.0.0.1',3128),1)\n\
        except OSError as error: print(error)";
    let (exit, output) = run(&victims, &[PYTHON, "-c", script], victims.policy());
    assert!(output.starts_with("[]\n[Errno"), "{output}");
    assert!(exit.end.hosts.is_empty());
}

/// A run may reach hosts although it may not listen itself.
#[test]
fn local_binding_is_separate_from_hosts() {
    let victims = Victims::create();
    let port = start_server();
    let script = format!(
        "import socket,urllib.request as u\n\
         try: socket.create_server(('127.0.0.1',0)); print('listens')\n\
         except OSError as error: print(error)\n\
         print(u.urlopen('http://127.0.0.1:{port}/').read())"
    );
    let mut policy = with_hosts(&victims, &["127.0.0.1"]);
    let command = [PYTHON, "-c", &*script];
    let (_, output) = run(&victims, &command, policy.clone());
    assert_eq!(output, "listens\nb'served'\n");
    policy.network.allow_local_binding = false;
    let mut spec = victims.spec(&words(&command), policy);
    for landlock_abi in [None, Some(0)] {
        spec.levels.landlock_abi = landlock_abi;
        let again = victims.spec(&words(&command), spec.policy.clone());
        let spec = skillhost_sandbox::SandboxSpec { levels: spec.levels.clone(), ..again };
        let exit = block_on(launcher().run(spec)).unwrap();
        let output = String::from_utf8_lossy(&exit.stdout).into_owned();
        assert!(output.contains("ermi") && output.ends_with("b'served'\n"), "{output} {exit:?}");
    }
}

#[test]
fn landlock_refuses_hosts_and_sockets() {
    let victims = Victims::create();
    let mut with_socket = victims.policy();
    with_socket.network.allow_unix_sockets.push(victims.path("victim/sock"));
    for (policy, step) in
        [(with_hosts(&victims, &["a.example.org"]), "domains"), (with_socket, "private")]
    {
        let error =
            victims.run(&words(&["/bin/true"]), policy, IsolationLevel::Landlock).unwrap_err();
        let SandboxError::Refused(refusal) = error else { panic!("{error:?}") };
        assert_eq!(refusal.tried[0].step, step, "{refusal}");
        assert!(refusal.hint.contains("allow"), "{refusal:?}");
    }
}

/// A listed socket of another program can be used, and nothing else in its directory.
#[test]
fn listed_socket_is_reachable() {
    let victims = Victims::create();
    let directory = victims.path("victim");
    let script = format!(
        "import os,socket\n\
         s=socket.socket(socket.AF_UNIX); s.connect('{0}/sock'); print('connected')\n\
         print(os.listdir('{0}'))\n\
         try: os.remove('{0}/sock')\n\
         except OSError as error: print(error.strerror)\n\
         try: socket.socket(socket.AF_UNIX,socket.SOCK_STREAM).connect('{0}/dsock')\n\
         except OSError as error: print(error.strerror)",
        directory.display()
    );
    let mut policy = victims.policy();
    policy.network.allow_unix_sockets.push(directory.join("sock"));
    let (exit, output) = run(&victims, &[PYTHON, "-c", &script], policy.clone());
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..2], ["connected", "['sock']"], "{output} {exit:?}");
    assert!(lines.len() == 4 && lines[3] == "No such file or directory", "{output}");
    assert!(directory.join("sock").exists());
    assert_eq!(exit.isolation.level, IsolationLevel::Namespaces);
}

/// Only sockets can be listed as such: a file would be writable.
#[test]
fn listed_socket_must_be_one() {
    let victims = Victims::create();
    for (path, message) in [
        ("victim/.env", "it is not a socket"),
        ("victim", "it is not a socket"),
        ("victim/none", "it does not exist"),
    ] {
        let mut policy = victims.policy();
        policy.network.allow_unix_sockets.push(victims.path(path));
        let refusal = launcher().probe(&policy).unwrap_err();
        assert!(refusal.message.contains(message), "{path} {refusal}");
    }
}
