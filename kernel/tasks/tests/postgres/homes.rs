//! Several homes in one database: whose events and questions are whose.

use std::sync::Arc;
use std::time::Duration;

use skillhost_tasks::{
    ClaimFilter, NewQuestion, NewTask, NewWait, PostgresQueue, QuestionKind, TaskAmounts, TaskId,
    TaskKind, TaskOutcome, TaskQueue,
};

use super::server::PrivateServer;

async fn connect(server: &PrivateServer, home: &str) -> TaskQueue {
    let address = server.address("work").with_home(home);
    TaskQueue::new(Arc::new(PostgresQueue::connect(address).await.unwrap()))
}

fn question(thread: Option<&str>, call: &str) -> NewQuestion {
    NewQuestion {
        id: TaskId::generate().to_string(),
        thread: thread.map(str::to_owned),
        kind: QuestionKind::Consent,
        asker: "agent".to_owned(),
        call: call.to_owned(),
        title: "may it".to_owned(),
        subject: "bytes".to_owned(),
        options: vec!["approve".to_owned()],
    }
}

async fn topics(queue: &TaskQueue) -> Vec<String> {
    let rows = queue.outbox(100).await.unwrap();
    rows.into_iter().map(|row| format!("{} {}", row.topic, row.key)).collect()
}

#[tokio::test]
async fn events_belong_to_the_submitter() {
    let Some(server) = PrivateServer::start().await else { return };
    let (one, two) = (connect(&server, "one").await, connect(&server, "two").await);
    assert_eq!(one.store().home_identity().await.unwrap(), "one");
    assert_eq!(two.store().home_identity().await.unwrap(), "two");
    let task = one.submit(NewTask::new(TaskKind::Tool, "echo", "{}")).await.unwrap().task;
    let own = one.ask(question(Some("thread"), "1")).await.unwrap();
    // The other machine works on it, asks and ends it.
    let lease = Duration::from_secs(30);
    let claim = async || {
        let claimed = two.claim("two", ClaimFilter::default(), 9, lease).await.unwrap();
        claimed[0].task.current_claim().unwrap()
    };
    let asked = question(None, "2");
    let wait = NewWait { questions: vec![asked.clone()], ..NewWait::default() };
    two.wait(claim().await, wait).await.unwrap();
    two.withdraw(&asked.id, "test").await.unwrap();
    let done = TaskOutcome::Completed { text: "x".into(), structured: None, is_error: false };
    two.finish(claim().await, done, TaskAmounts::default()).await.unwrap();
    assert_eq!(topics(&two).await, Vec::<String>::new());
    let found = topics(&one).await;
    for expected in [
        format!("question.opened {}", own.id),
        format!("question.opened {}", asked.id),
        format!("question.closed {}", asked.id),
        format!("task.ended {}", task.id),
    ] {
        assert!(found.contains(&expected), "{expected}: {found:?}");
    }
    // A question of a task is asked by the home that runs it; every home can decide both.
    assert_eq!(one.open_questions(9).await.unwrap().len(), 1);
    assert_eq!(one.own_questions(9).await.unwrap(), one.open_questions(9).await.unwrap());
    assert_eq!(two.own_questions(9).await.unwrap(), []);
    let seqs = one.outbox(100).await.unwrap().iter().map(|row| row.seq).collect();
    one.acknowledge_outbox(seqs).await.unwrap();
    assert_eq!(topics(&one).await, Vec::<String>::new());
}
