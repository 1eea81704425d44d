//! Connections that require encryption.

use skillhost_tasks::{PostgresAddress, PostgresQueue, QueueErrorKind};
use test_support::PostgresServer;

#[tokio::test]
async fn required_encryption_is_never_dropped() {
    let settings = ["fsync=off", "listen_addresses=127.0.0.1"];
    // A server without a certificate.
    let Some(server) = PostgresServer::start_with(&settings, |_| {}) else { return };
    let connect = |mode: &str| {
        let address = format!(
            "host=127.0.0.1 port={} user=operator dbname=postgres sslmode={mode}",
            server.port()
        );
        PostgresQueue::connect(PostgresAddress::parse(&address, "work").unwrap())
    };
    let Err(refused) = connect("require").await else { panic!("the server has no certificate") };
    assert_eq!(refused.kind(), QueueErrorKind::Io, "{refused}");
    assert!(refused.to_string().contains("TLS"), "{refused}");
    assert!(!refused.hint().is_empty());
    assert!(connect("prefer").await.is_ok());
}
