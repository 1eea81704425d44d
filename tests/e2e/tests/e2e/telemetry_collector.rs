//! A collector of OpenTelemetry traces on this machine, for tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// The reply of a collector to each request.
#[derive(Clone, Copy)]
pub(crate) enum CollectorReply {
    Accept,
    /// An error that the exporter does not retry.
    Refuse,
    /// The status 503 for the first request.
    BusyOnce,
    /// None: the connection stays open.
    Never,
    /// The status 307, to another server.
    Redirect(SocketAddr),
}

/// A server that accepts OTLP over HTTP.
pub(crate) struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    connections: usize,
    heads: Vec<String>,
    bodies: Vec<Vec<u8>>,
    /// Connections without a reply, which must not be closed.
    open: Vec<TcpStream>,
}

impl Collector {
    pub(crate) fn start(reply: CollectorReply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Received::default()));
        let shared = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                shared.lock().unwrap().connections += 1;
                thread::spawn(move || serve(&stream, reply, &shared));
            }
        });
        Self { address, received }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.received.lock().unwrap().connections
    }

    /// Returns the heads of the requests, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.received.lock().unwrap().heads.clone()
    }

    /// Returns the bytes of all requests.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.received.lock().unwrap().bodies.concat()
    }

    /// Returns the spans of all requests, by their start.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap();
        let requests = received.bodies.iter().map(|body| {
            ExportTraceServiceRequest::decode(body.as_slice()).expect("the body is OTLP")
        });
        let resources = requests.flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        let mut spans: Vec<_> = scopes.flat_map(|scope| scope.spans).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

/// Returns an attribute of a span as text.
pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(to_text(found))
}

fn to_text(attribute: &KeyValue) -> String {
    match attribute.value.clone().and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{}: {other:?}", attribute.key),
    }
}

/// Serves the requests of a connection, one after the other.
fn serve(stream: &TcpStream, reply: CollectorReply, received: &Mutex<Received>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((head, body)) = read_request(&mut reader) {
        let mut shared = received.lock().unwrap();
        shared.heads.push(head);
        shared.bodies.push(body);
        let mut writer = stream.try_clone().unwrap();
        let _ = match reply {
            CollectorReply::BusyOnce if shared.heads.len() == 1 => {
                writer.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            }
            CollectorReply::Accept | CollectorReply::BusyOnce => {
                writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
            CollectorReply::Refuse => {
                writer.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            }
            CollectorReply::Redirect(to) => write!(
                writer,
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{to}/v1/traces\r\n\
                 Content-Length: 0\r\n\r\n"
            ),
            CollectorReply::Never => {
                shared.open.push(writer);
                return;
            }
        };
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
