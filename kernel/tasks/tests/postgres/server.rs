//! A private server with connections of the store and of an administrator.

use skillhost_tasks::PostgresAddress;
use test_support::PostgresServer;
use tokio_postgres::{Client, NoTls};

/// A server with an empty database. It ends with the value.
pub(crate) struct PrivateServer(PostgresServer);

impl PrivateServer {
    /// Starts a server, or returns `None` and prints the reason.
    pub(crate) async fn start() -> Option<Self> {
        tokio::task::spawn_blocking(PostgresServer::start).await.unwrap().map(Self)
    }

    /// Returns the parameters of connections.
    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Returns the address of a schema.
    pub(crate) fn address(&self, schema: &str) -> PostgresAddress {
        PostgresAddress::parse(&self.url(), schema).unwrap()
    }

    /// Connects without a queue.
    pub(crate) async fn admin(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Ends the server as a crash does, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.0.restart();
    }
}
