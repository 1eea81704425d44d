//! Vectors from one extension to another: results and errors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};
use skillhost_payload::ErrorKind;
use test_support::{TestHome, library};
use word_vectors::VectorTable;

use crate::fixture::{Gate, KernelFixture, SOON, misbehaving};

/// A caller `b` and an extension `a` that it may call, with this `config`.
fn two(config: &str) -> TestHome {
    let home = misbehaving(TestHome::new(), "a", &format!("config: {config}"));
    misbehaving(home, "b", "depends_on: [{id: a, optional: true}]")
}

/// A caller `b` and the shipped extension, enabled and with these settings.
fn shipped(settings: &str) -> TestHome {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/embedding/manifest.yaml");
    let text = std::fs::read_to_string(path).expect("it ships");
    let text = text.replace("enabled: false\n", "");
    let home = TestHome::new().manifest("embedding", &text).settings(settings);
    let home = home.library("embedding", "embedding", &library("embedding"));
    misbehaving(home, "b", "depends_on: [embedding]")
}

fn asked(extension: &str, texts: &[&str]) -> Value {
    json!({"do": "embed", "extension": extension, "texts": texts})
}

fn read(answer: &str) -> Value {
    serde_json::from_str(answer).expect("the caller answers with JSON")
}

/// Returns the vectors of a reply. As `f32`, because JSON's numbers lose the last bit of an `f64`.
fn vectors(answer: &Value) -> Vec<Vec<f32>> {
    serde_json::from_value(answer["vectors"].clone()).expect("a list of vectors")
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_keep_order_of_texts() {
    let fixture = KernelFixture::boot(two("{}")).await;
    let answer = fixture.done("b", asked("a", &["x", "日本", "", "\"\\\0"])).await;
    let vectors = [[1.0, 1.0], [2.0, 1.0], [0.0, 1.0], [3.0, 1.0]];
    assert_eq!(read(&answer), json!({"model": "first", "dimension": 2, "vectors": vectors}));
    let none = read(&fixture.done("b", asked("a", &[])).await);
    assert_eq!(none["vectors"], json!([]));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_reply_yields_no_vector() {
    let cases = [
        ("fewer", "expected 2 vectors, received 1"),
        ("longer", "expected vectors of 2 components, received 3"),
        ("uneven", "expected vectors of 2 components, received 1"),
        ("not_a_number", "received a vector with a component that is not finite"),
        ("nameless", "model `` with 2 components is not valid"),
    ];
    for (vectors, expected) in cases {
        let fixture = KernelFixture::boot(two(&format!("{{vectors: {vectors}}}"))).await;
        let fault = fixture.fault("b", asked("a", &["x", "yz"])).await;
        assert_eq!(fault, (ErrorKind::Protocol, expected.to_owned()));
        fixture.kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_error_reaches_only_caller() {
    let fixture = KernelFixture::boot(two("{parts: {embed: panic}}")).await;
    let become_ = |place: &str, act: &str| json!({"do": "become", "place": place, "act": act});
    let fault = async || fixture.fault("b", asked("a", &["x"])).await;
    let panicked =
        |place: &str| (ErrorKind::Panicked, format!("the extension panicked: {place} panicked"));
    assert_eq!(fault().await, panicked("embed"));
    fixture.done("a", become_("embed", "fail")).await;
    assert_eq!(fault().await, (ErrorKind::Failed, "embed failed".to_owned()));
    fixture.done("a", become_("model", "panic")).await;
    assert_eq!(fault().await, panicked("model"));
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_provider_times_out() {
    let home = two("{parts: {embed: hang}}");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let mut deed = asked("a", &["x"]);
    // Long enough to get there on a slow machine.
    deed["limit_ms"] = json!(SOON.as_millis() as u64);
    let (fault, held) = tokio::join!(fixture.fault("b", deed.clone()), gate.reached("a embed"));
    let expected = (ErrorKind::Timeout, "embedding by `a` timed out after 2000 ms".to_owned());
    assert_eq!(fault, expected);
    // The extension does not continue an abandoned call.
    held.given_up().await;

    // A blocked thread cannot be cancelled, but no call waits for it.
    fixture.done("a", json!({"do": "become", "place": "embed", "act": "block"})).await;
    let (fault, held) = tokio::join!(fixture.fault("b", deed), gate.reached("a embed"));
    assert_eq!(fault, expected);
    drop(held);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_of_models_are_not_mixed() {
    let fixture = KernelFixture::boot(two("{}")).await;
    let mut deed = asked("a", &["x"]);
    deed["then"] = json!({"do": "remodel", "id": "second"});
    let answer = read(&fixture.done("b", deed).await);
    assert_eq!(answer, json!({"model": "second", "dimension": 2, "vectors": [[1.0, 1.0]]}));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_loaded_dependency_is_called() {
    let fixture = KernelFixture::boot(misbehaving(
        TestHome::new(),
        "b",
        "depends_on: [{id: a, optional: true}]",
    ))
    .await;
    let absent = (ErrorKind::Unavailable, "`a` is not loaded".to_owned());
    assert_eq!(fixture.fault("b", asked("a", &["x"])).await, absent);
    let denied = (ErrorKind::Denied, "`c` is not in depends_on of `b`".to_owned());
    assert_eq!(fixture.fault("b", asked("c", &["x"])).await, denied);
    fixture.kernel.shutdown().await;
}

/// Settings and files that make `models/tiny` the model: `left` is (3, 0), `right` is (0, 4).
fn with_tiny_model() -> TestHome {
    let numbers: Vec<u8> = TINY_ROWS.iter().flat_map(|n| n.to_le_bytes()).collect();
    let header = r#"{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &numbers].concat();
    shipped("extensions: {embedding: {model: {file: models/tiny}}}\n")
        .file("models/tiny/model.safetensors", &weights)
        .file("models/tiny/vocab.txt", TINY_VOCABULARY)
}

const TINY_ROWS: [f32; 4] = [3.0, 0.0, 0.0, 4.0];
const TINY_VOCABULARY: &str = "left\nright\n";

#[tokio::test(flavor = "multi_thread")]
async fn shipped_extension_returns_table_vectors() {
    let fixture = KernelFixture::boot(with_tiny_model()).await;
    assert_eq!(fixture.loaded(), ["embedding", "b"]);
    let long = "left \0🎉字 ".repeat(100_000);
    let texts = ["Left right", "up", "", "\0", "日本語だけ", "שלום right", &long];
    let answer = read(&fixture.done("b", asked("embedding", &texts)).await);
    let id = answer["model"].as_str().expect("an id");
    assert!(id.starts_with("tiny:") && id.len() == 21, "{id}");
    assert_eq!(answer["dimension"], json!(2));
    assert_eq!(vectors(&answer)[..2], [[0.6, 0.8], [0.0, 0.0]]);
    let table = VectorTable::from_floats(TINY_VOCABULARY.into(), TINY_ROWS.into()).unwrap();
    let expected: Vec<_> = texts.iter().map(|text| table.embed(text)).collect();
    assert_eq!(vectors(&answer), expected);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_model_is_rejected() {
    let home = shipped("extensions: {embedding: {model: {file: gone}}}\n");
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(
        fixture.rejection("embedding"),
        "new: [HOME]/gone/model.safetensors: No such file or directory (os error 2)\n\
         hint: set config.model.file to a Model2Vec directory with model.safetensors, and \
         tokenizer.json or vocab.txt"
    );
    fixture.kernel.shutdown().await;

    let fixture =
        KernelFixture::boot(shipped("extensions: {embedding: {model: static-minilm-128}}\n")).await;
    assert_eq!(
        fixture.rejection("embedding"),
        "new: the table static-minilm-128 is not part of this library\n\
         hint: set config.model to {file: PATH} or {endpoint: …} as in \
         manifests/embedding/manifest.yaml, or build the library with the feature static-minilm"
    );
    fixture.kernel.shutdown().await;
}

/// Sends one reply of OpenAI's form; joining returns the request's head.
fn server(listener: TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client comes");
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            assert_ne!(reader.read_line(&mut head).expect("a line"), 0);
            let line = head[start..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        reader.read_exact(&mut vec![0; length]).expect("the body");
        let body = r#"{"data":[{"index":0,"embedding":[3,4]}]}"#;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).expect("the client reads");
        head.to_ascii_lowercase()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_server_receives_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let endpoint = format!("{{url: '{url}', model: small, dimension: 2, key: EMBEDDING_API_KEY}}");
    let settings = format!("extensions: {{embedding: {{model: {{endpoint: {endpoint}}}}}}}\n");
    let served = server(listener);
    let fixture =
        KernelFixture::boot(shipped(&settings).file(".env", "EMBEDDING_API_KEY=s3cret\n")).await;
    let answer = read(&fixture.done("b", asked("embedding", &["x"])).await);
    assert_eq!(answer["model"], format!("{url}#small"));
    assert_eq!(vectors(&answer), [[0.6, 0.8]]);
    let head = served.join().expect("the server has answered");
    assert!(head.contains("\r\nauthorization: bearer s3cret\r\n"), "{head}");

    // Without the server the caller gets an error, and so does a health check.
    let (kind, message) = fixture.fault("b", asked("embedding", &["x"])).await;
    assert_eq!(kind, ErrorKind::Unavailable, "{message}");
    let health = fixture.kernel.extensions().check_health().await;
    let reported =
        health.iter().find(|(id, _)| *id == "embedding").map(|(_, result)| result.clone());
    let error = reported.expect("it is asked").expect_err("it has failed");
    assert_eq!((error.kind, error.message), (kind, message));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_secret_is_named() {
    let endpoint = "{url: 'https://localhost:1', model: m, dimension: 2, key: EMBEDDING_API_KEY}";
    let settings = format!("extensions: {{embedding: {{model: {{endpoint: {endpoint}}}}}}}\n");
    let fixture = KernelFixture::boot(shipped(&settings)).await;
    let expected = "the secret `EMBEDDING_API_KEY` is not set".to_owned();
    let fault = fixture.fault("b", asked("embedding", &["x"])).await;
    assert_eq!(fault, (ErrorKind::Unavailable, expected));
    fixture.kernel.shutdown().await;

    let plain = "{url: 'http://lan/v1', model: m, dimension: 2, key: OPENAI_API_KEY}";
    let settings = format!("extensions: {{embedding: {{model: {{endpoint: {plain}}}}}}}\n");
    let fixture = KernelFixture::boot(shipped(&settings)).await;
    assert_eq!(
        fixture.rejection("embedding"),
        "new: config.model.endpoint: url: a key requires https:// or a server on this machine\n\
         hint: see `model` in manifests/embedding/manifest.yaml"
    );
    fixture.kernel.shutdown().await;
}
