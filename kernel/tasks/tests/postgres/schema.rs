//! The schema: creation, versions, triggers, and a server that restarts.

use std::time::Duration;

use skillhost_tasks::{
    NewTask, PostgresAddress, PostgresQueue, QueueErrorKind, TaskKind, TaskQueue, TaskState,
};

use super::server::PrivateServer;

#[tokio::test]
async fn schema_is_created_once_and_guarded() {
    let Some(server) = PrivateServer::start().await else { return };
    let connect = || PostgresQueue::connect(server.address("work"));
    let (first, second, third) = tokio::join!(connect(), connect(), connect());
    let queue = TaskQueue::new(std::sync::Arc::new(first.unwrap()));
    drop((second.unwrap(), third.unwrap()));
    let task = queue.submit(NewTask::new(TaskKind::Tool, "echo", "{}")).await.unwrap().task;
    queue.cancel(task.id.clone(), "test").await.unwrap();
    let admin = server.admin().await;
    let changes = [
        ("UPDATE work.tasks SET state = 'ready'", "is closed"),
        (
            "INSERT INTO work.outbox (topic, key, payload, home)
             SELECT topic, key, '{}', '' FROM work.outbox",
            "outbox_key",
        ),
    ];
    for (change, reason) in changes {
        let error = admin.batch_execute(change).await.unwrap_err();
        let message = error.as_db_error().unwrap().to_string();
        assert!(message.contains(reason), "{message}");
    }
    admin.batch_execute("UPDATE work.schema_version SET version = 99").await.unwrap();
    assert_eq!(connect().await.unwrap_err().kind(), QueueErrorKind::Newer);
    admin.batch_execute("CREATE SCHEMA other; CREATE TABLE other.mine (a int)").await.unwrap();
    let other = PostgresQueue::connect(server.address("other")).await.unwrap_err();
    assert_eq!(other.kind(), QueueErrorKind::Database);
    assert!(other.to_string().contains("tables of another program"), "{other}");
}

#[tokio::test]
async fn restarted_server_is_used_again() {
    let Some(mut server) = PrivateServer::start().await else { return };
    let store = PostgresQueue::connect(server.address("work")).await.unwrap();
    let queue = TaskQueue::new(std::sync::Arc::new(store));
    let mut new = NewTask::new(TaskKind::Tool, "echo", "{}");
    new.key = Some("one".to_owned());
    let task = queue.submit(new.clone()).await.unwrap().task;
    server.restart().await;
    // The same key is the same task, whichever of the two was confirmed.
    let again = queue.submit(new).await.unwrap();
    assert_eq!((again.created, again.task.id), (false, task.id));
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Ready, 1)]);
}

#[tokio::test]
async fn change_of_another_machine_wakes() {
    let Some(server) = PrivateServer::start().await else { return };
    let [one, two] = [server.address("work"), server.address("work")].map(PostgresQueue::connect);
    let one = TaskQueue::new(std::sync::Arc::new(one.await.unwrap()));
    let two = std::sync::Arc::new(two.await.unwrap());
    let waiting = {
        let two = std::sync::Arc::clone(&two);
        tokio::spawn(async move {
            use skillhost_tasks::Queue as _;
            let start = std::time::Instant::now();
            let mut wakes = 0;
            // The first one may be the start of the listener.
            while wakes < 2 && start.elapsed() < Duration::from_secs(60) {
                two.wait_for_change(Duration::from_secs(60)).await;
                wakes += 1;
            }
            start.elapsed()
        })
    };
    while !waiting.is_finished() {
        one.submit(NewTask::new(TaskKind::Tool, "echo", "{}")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(waiting.await.unwrap() < Duration::from_secs(60));
}

#[tokio::test]
async fn absent_server_is_an_io_error() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("host={} user=u password=hunter2", directory.path().display());
    let address = PostgresAddress::parse(&url, "work").unwrap();
    let error = PostgresQueue::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::Io, "{error}");
    assert!(!format!("{error}{}", error.hint()).contains("hunter2"));
}
