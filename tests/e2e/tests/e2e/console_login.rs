//! The login of the web console and the checks of its requests.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use mock_model::MockModel;
use test_support::TestHome;

use crate::agents_scene::agents_home;
use crate::console_client::{ConsoleAddress, ConsoleClient, encode_form, post_login};
use crate::fixtures::start_kernel;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

fn empty_home() -> TestHome {
    TestHome::new().trusted()
}

#[test]
fn console_requires_running_kernel() {
    let home = empty_home();
    let output = home.skillhost(["console"]).exits(3);
    assert!(output.stderr.contains("no kernel runs for"), "{output}");
    assert!(output.stderr.contains("skillhost run"), "{output}");
    let kernel = start_kernel(&home);
    let printed = home.skillhost(["console"]).success().stdout;
    assert!(printed.starts_with("http://") && printed.contains(".localhost:"), "{printed}");
    kernel.interrupt().success();
    home.skillhost(["console"]).exits(3);
}

#[test]
fn token_works_once() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let address = ConsoleAddress::of(&home);
    // A browser or a chat program that opens the address in advance uses nothing.
    let path = format!("/login?token={}", address.token);
    for method in ["GET", "HEAD", "GET"] {
        let page = address.send(method, &path, &[("Host", &address.authority)], "").expect(200);
        assert_eq!(page.header("set-cookie"), None);
    }
    let reply = post_login(&address, &address.token).expect(303);
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let name = address.authority.split('.').next().unwrap();
    assert!(cookie.starts_with(&format!("skillhost_{name}=")), "{cookie}");
    let replayed = post_login(&address, &address.token).expect(401);
    assert!(replayed.body.contains("was used before"), "{}", replayed.body);
    post_login(&address, &"0".repeat(64)).expect(401);
    post_login(&address, "").expect(401);
}

#[test]
fn concurrent_uses_log_in_once() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let address = ConsoleAddress::of(&home);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let use_token = || post_login(&address, &address.token).status;
        let uses: Vec<_> = (0..100).map(|_| scope.spawn(use_token)).collect();
        uses.into_iter().map(|used| used.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 303).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 99, "{statuses:?}");
}

#[test]
fn every_page_requires_a_login() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let address = ConsoleAddress::of(&home);
    let host = ("Host", &*address.authority);
    for path in ["/", "/inbox", "/threads", "/tasks", "/settings", "/api/changes", "/nowhere"] {
        let reply = address.send("GET", path, &[host], "").expect(401);
        assert!(reply.body.contains("skillhost console"), "{path}: {}", reply.body);
    }
    let origin = address.origin();
    let headers = [host, ("Origin", &*origin), FORM];
    address.send("POST", "/logout", &headers, "all=1").expect(401);
    address.send("DELETE", "/", &[host], "").expect(405);
}

#[test]
fn every_response_has_security_headers() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let page = client.get("/");
    let style = page.body.split("stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    for path in ["/", "/nowhere", "/login?token=x", style, "/api/threads/x/events"] {
        let reply = client.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"), "{path}");
        let cache = if path == style { "private, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(reply.header("cache-control"), Some(cache), "{path}");
    }
}

#[test]
fn rebound_names_are_refused() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let (address, port) = (&client.address, client.address.port());
    let cookie = ("Cookie", &*client.cookie);
    let hosts = [
        format!("evil.example:{port}"),
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("ffffffff.localhost:{port}"),
        address.authority.rsplit_once(':').unwrap().0.to_owned(),
        String::new(),
    ];
    for host in &hosts {
        let reply = address.send("GET", "/", &[("Host", host), cookie], "").expect(421);
        assert!(!reply.body.contains("Overview · "), "{host}");
        let origin = format!("http://{host}");
        let headers = [("Host", &**host), ("Origin", &origin), FORM];
        let form = encode_form(&[("token", &ConsoleAddress::of(&home).token)]);
        address.send("POST", "/login", &headers, &form).expect(421);
    }
    let twice = [("Host", &*address.authority), ("Host", "evil.example"), cookie];
    assert!(matches!(address.send("GET", "/", &twice, "").status, 400 | 421));
}

#[test]
fn foreign_posts_are_refused() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let (address, own) = (&client.address, client.address.origin());
    let other_port = format!("http://{}:1", address.authority.split(':').next().unwrap());
    let host = ("Host", &*address.authority);
    let cookie = ("Cookie", &*client.cookie);
    let form = encode_form(&[("csrf", &client.csrf)]);
    let origins: [&[(&str, &str)]; 6] = [
        &[],
        &[("Origin", "null")],
        &[("Origin", "http://evil.example")],
        &[("Origin", &other_port)],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
        &[("Origin", &own), ("Sec-Fetch-Site", "same-site")],
    ];
    for origin in origins {
        let headers = [&[host, cookie, FORM], origin].concat();
        address.send("POST", "/logout", &headers, &form).expect(403);
        let token = ConsoleAddress::of(&home).token;
        let login = encode_form(&[("token", &token)]);
        let headers = [&[host, FORM], origin].concat();
        address.send("POST", "/login", &headers, &login).expect(403);
        // A refused request uses no token.
        post_login(address, &token).expect(303);
    }
    // The right origin without the token of the session, and with that of another one.
    let other = ConsoleClient::log_in(&home).csrf;
    for form in [String::new(), encode_form(&[("csrf", &other)]), encode_form(&[("csrf", "")])] {
        let headers = [host, cookie, FORM, ("Origin", &*own)];
        address.send("POST", "/logout", &headers, &form).expect(403);
    }
    let headers = [host, cookie, ("Origin", &*own), ("Content-Type", "text/plain")];
    address.send("POST", "/logout", &headers, &form).expect(415);
    // Nothing of it has ended the session.
    client.get("/").expect(200);
    let reading = [host, cookie, ("Sec-Fetch-Site", "cross-site")];
    address.send("GET", "/api/changes", &reading, "").expect(403);
    client.post("/logout", &[]).expect(303);
    client.get("/").expect(401);
}

#[test]
fn foreign_cookies_are_refused() {
    let (one, other) = (empty_home(), empty_home());
    let (_first, _second) = (start_kernel(&one), start_kernel(&other));
    let mut client = ConsoleClient::log_in(&one);
    let foreign = ConsoleClient::log_in(&other);
    assert_ne!(client.address.authority, foreign.address.authority);
    client.cookie = foreign.cookie.clone();
    client.get("/").expect(401);
    // The same value under the name of this home.
    let name = client.address.authority.split('.').next().unwrap().to_owned();
    let value = foreign.cookie.split_once('=').unwrap().1;
    client.cookie = format!("skillhost_{name}={value}");
    client.get("/").expect(401);
}

#[test]
fn sessions_end_together() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    let (one, other) = (ConsoleClient::log_in(&home), ConsoleClient::log_in(&home));
    assert!(one.get("/settings").expect(200).body.contains("(this one)"));
    one.post("/logout", &[("all", "1")]).expect(303);
    other.get("/").expect(401);
}

#[test]
fn enabled_console_listens_from_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let home = empty_home();
    let settings = std::fs::read_to_string(home.path("skillhost.yaml")).unwrap_or_default();
    home.write(
        "skillhost.yaml",
        format!("{settings}console: {{enabled: true, listen: '{address}'}}\n"),
    );
    // The kernel runs without its console, and says so.
    let kernel = start_kernel(&home);
    let output = home.skillhost(["console"]).exits(4);
    assert!(output.stderr.contains("console.listen"), "{output}");
    let output = kernel.interrupt().success();
    let message = format!("the console cannot listen on {address}");
    assert!(output.stderr.contains(&message), "{output}");
    drop(taken);
    let kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    assert_eq!(client.address.port(), address.port());
    client.get("/").expect(200);
    let output = kernel.interrupt().success();
    assert!(output.stderr.contains("console on http://"), "{output}");
}

#[test]
fn second_console_on_port_leaves_first_alone() {
    let (one, other) = (empty_home(), empty_home());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for home in [&one, &other] {
        home.write("skillhost.yaml", format!("console: {{enabled: true, listen: '{free}'}}\n"));
    }
    let (first, second) = (start_kernel(&one), start_kernel(&other));
    let refused = other.skillhost(["console"]).exits(4);
    assert!(refused.stderr.contains("console.listen"), "{refused}");
    let client = ConsoleClient::log_in(&one);
    client.get("/").expect(200);
    // The second kernel works without its console, and has it once the port is free.
    other.skillhost(["status"]).success();
    drop(first);
    let taken_over = ConsoleClient::log_in(&other);
    assert_eq!(taken_over.address.port(), free.port());
    taken_over.get("/").expect(200);
    // The session of the first home is none of the second one.
    let foreign = [("Host", &*taken_over.address.authority), ("Cookie", &*client.cookie)];
    taken_over.address.send("GET", "/", &foreign, "").expect(401);
    second.interrupt().success();
}

#[test]
fn browser_opens_private_page() {
    let home = empty_home();
    let _kernel = start_kernel(&home);
    // A program in place of the system's opener, which shows its argument and the mode of the file.
    let opener = home.outside().join("bin/xdg-open");
    std::fs::create_dir_all(opener.parent().unwrap()).unwrap();
    std::fs::write(&opener, "#!/bin/sh\ncp -p \"$1\" \"$0.page\"\necho \"$*\" > \"$0.args\"\n")
        .unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", opener.parent().unwrap().display());
    let output = home.start(home.command().env("PATH", path).args(["console", "--open"])).finish();
    assert_eq!(output.success().stdout, "opened the console in the browser\n");
    let page = opener.with_extension("page");
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    let html = std::fs::read_to_string(page).unwrap();
    let token = html.split("?token=").nth(1).unwrap().split('"').next().unwrap();
    let arguments = std::fs::read_to_string(opener.with_extension("args")).unwrap();
    assert!(!arguments.contains(token), "{arguments}");
    post_login(&ConsoleAddress::of(&home), token).expect(303);
}

#[test]
fn large_forms_are_refused() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let _kernel = start_kernel(&home);
    let client = ConsoleClient::log_in(&home);
    let text = "x".repeat(4 << 20);
    let reply = client.post("/threads", &[("agent", "worker"), ("text", &text)]);
    // A refused body is not read to its end.
    assert!(matches!(reply.status, 413 | 0), "{}", reply.status);
    client.get("/threads").expect(200);
    assert_eq!(mock.requests().len(), 0);
}
