//! A server of fixed responses for tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// A server on a local port that answers by path.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    /// Starts a server with the response of each path: the lines of its head without the final blank
    /// one, and its body. Another path is answered with 404.
    pub(crate) fn start(responses: Vec<(&'static str, String, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = String::new();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
                    head.push_str(&line.to_lowercase());
                    head.push('\n');
                }
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().unwrap().push(head);
                let path = target.split('?').next().unwrap_or_default();
                let found = responses.iter().find(|(own, ..)| *own == path);
                let (head, body) = match found {
                    Some((_, head, body)) => (head.as_str(), body.as_slice()),
                    None => ("404 Not Found", b"nothing".as_slice()),
                };
                // A client that has read enough closes the connection.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                )
                .and_then(|()| stream.write_all(body));
            }
        });
        Self { address, requests }
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the heads of the requests so far, in lower case.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Returns a successful response with a content type.
pub(crate) fn ok(path: &'static str, kind: &str, body: &str) -> (&'static str, String, Vec<u8>) {
    (path, format!("200 OK\r\nContent-Type: {kind}"), body.as_bytes().to_vec())
}

/// Returns a redirect.
pub(crate) fn redirect(path: &'static str, target: &str) -> (&'static str, String, Vec<u8>) {
    (path, format!("302 Found\r\nLocation: {target}"), Vec::new())
}
