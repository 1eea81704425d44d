//! A growing RSS feed on a local port.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// An RSS feed on a local port.
pub(crate) struct Feed {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    titles: Vec<String>,
    served: usize,
}

impl Feed {
    pub(crate) fn new(title: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared { titles: vec![title.to_owned()], served: 0 }));
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                // An empty line ends the head.
                let _ = lines.map_while(Result::ok).find(String::is_empty);
                let mut shared = served.lock().unwrap();
                shared.served += 1;
                let items: String = shared
                    .titles
                    .iter()
                    .map(|title| format!("<item><title>{title}</title></item>"))
                    .collect();
                let body = format!(
                    "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel>{items}</channel></rss>"
                );
                let _ = write!(
                    stream,
                    "HTTP/1.0 200 OK\r\nContent-Type: application/rss+xml\r\n\
                     Content-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/feed", self.address)
    }

    pub(crate) fn publish(&self, title: &str) {
        self.shared.lock().unwrap().titles.push(title.to_owned());
    }

    /// Returns the number of requests so far.
    pub(crate) fn served(&self) -> usize {
        self.shared.lock().unwrap().served
    }
}
