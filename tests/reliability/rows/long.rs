//! The traffic and the faults of eight hours, in minutes: does anything grow that should not?

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::attack::{About, Attack};
use crate::scene::{BOUND, Scene};
use crate::support::daemon::Daemon;
use crate::support::receiver::Behaviour;
use crate::support::servers::{PrivatePostgres, PrivateRabbit};
use crate::support::wait::{at_moment, wait_until};

/// Each with executions of its own, whose queues come, and end.
const HOURS: u32 = 8;
/// At twenty notifications a second, what eight hours bring: 576,000.
const QUEUES: u32 = 40;
const EACH: u32 = 1_800;
/// Notifications of a queue that are published at once.
const AHEAD: u32 = 20;

/// What may not grow, at the end of an hour when everything of it is delivered.
#[derive(Debug)]
struct Sample {
    memory: u64,
    files: u64,
    threads: u64,
    queues: u64,
    rows: u64,
}

impl Sample {
    async fn of(daemon: &Daemon, scene: &Scene) -> Self {
        let count = |what: &str| {
            let entries = fs::read_dir(format!("/proc/{}/{what}", daemon.pid())).expect("a running daemon");
            entries.count() as u64
        };
        let vhost = scene.vhost.as_ref().expect("a RabbitMQ");
        Self {
            memory: daemon.resident_memory(),
            files: count("fd"),
            threads: count("task"),
            queues: vhost.queues().await.len() as u64,
            rows: rows(scene.postgres()).await,
        }
    }

    fn json(&self, hour: u32, delivered: usize) -> Value {
        json!({
            "hour": hour, "delivered": delivered, "memory_bytes": self.memory, "files": self.files, "threads": self.threads,
            "queues": self.queues, "rows": self.rows,
        })
    }

    /// More than those of before, by more than what is noise.
    fn grew(&self, before: &[Self]) -> Vec<String> {
        let most = |of: fn(&Self) -> u64| before.iter().map(of).max().unwrap_or(0);
        let bounds: [(&str, fn(&Self) -> u64, u64); 5] = [
            ("memory", |it| it.memory, 24 << 20),
            ("files", |it| it.files, 8),
            ("threads", |it| it.threads, 8),
            ("queues", |it| it.queues, 2),
            ("rows", |it| it.rows, 400),
        ];
        let grew = bounds.iter().filter(|(_, of, noise)| of(self) > most(*of) + noise);
        grew.map(|(name, of, _)| format!("{name}: {} after {}", of(self), most(*of)))
            .collect()
    }
}

/// Of all tables together.
async fn rows(url: &str) -> u64 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables = "SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) FROM information_schema.tables \
                  WHERE table_schema = 'redrive' AND table_type = 'BASE TABLE'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    let mut rows = 0;
    for table in tables {
        let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let count: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap();
        rows += count.unsigned_abs();
    }
    rows
}

/// The executions of one hour, over four URLs that are always the same and one that is this hour's.
fn executions(hour: u32) -> Vec<(String, String)> {
    let path = |number: u32| match number % 5 {
        4 => format!("/hour-{hour}"),
        other => format!("/hook-{other}"),
    };
    (0..QUEUES)
        .map(|number| (format!("hour-{hour}-run-{number}"), path(number)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_run() {
    let (node, postgres) = (PrivateRabbit::start().await, PrivatePostgres::start().await);
    let mut scene = Scene::on_both(&node.address, &postgres.url).await;
    // What is kept for days by default is kept for moments: else nothing of eight hours would be removed.
    let keep = json!({"attempts_s": 5, "audit_s": 5, "endpoints_s": 5, "runs_s": 5});
    scene.installation.set("store", "retention", keep);
    let about = About {
        order: 60,
        faults: "the traffic of eight hours: receivers fail, RabbitMQ and PostgreSQL start anew, one of two daemons is killed, in turn",
        on: "classic queues, PostgreSQL",
    };
    let mut attack = Attack::on(scene, about);
    let (steady, mut other) = (
        attack.scene.installation.daemon().await,
        attack.scene.installation.daemon().await,
    );
    let mut samples: Vec<Sample> = Vec::new();
    for hour in 1..=HOURS {
        let scene = &attack.scene;
        scene.receiver.behave("*", Behaviour::Status(200));
        let before = scene.receiver.delivered();
        let executions = executions(hour);
        let publishing = join_all(executions.iter().map(async |(execution, path)| {
            for number in 1..=EACH {
                scene.publish(execution, path, number).await;
                let ahead = ((before as u32) + number * QUEUES).saturating_sub(AHEAD * QUEUES);
                while (scene.receiver.delivered() as u32) < ahead {
                    at_moment(Duration::from_millis(20)).await;
                }
            }
            scene.end_of(execution, path).await;
        }));
        let faults = async {
            for (number, kind) in [hour % 4, (hour + 2) % 4].into_iter().enumerate() {
                let share = (QUEUES * EACH) as usize * (number + 1) / 3;
                scene.delivered(before + share).await;
                match kind {
                    0 => {
                        scene.receiver.behave("/hook-1", Behaviour::Status(503));
                        at_moment(Duration::from_secs(3)).await;
                        scene.receiver.behave("/hook-1", Behaviour::Status(200));
                    }
                    1 => {
                        node.kill().await;
                        node.start_again().await;
                    }
                    2 => {
                        postgres.stop().await;
                        postgres.start_again().await;
                    }
                    _ => {
                        other.kill().await;
                        other = scene.installation.daemon().await;
                    }
                }
            }
        };
        tokio::join!(publishing, faults);
        scene.delivered(before + (QUEUES * EACH) as usize).await;
        settled(scene).await;
        let sample = Sample::of(&steady, scene).await;
        let delivered = scene.receiver.delivered();
        attack.samples.push(sample.json(hour, delivered));
        attack.made(2);
        samples.push(sample);
    }
    let grew: Vec<String> = samples[4..]
        .iter()
        .flat_map(|sample| sample.grew(&samples[..4]))
        .collect();
    let mut steady = steady;
    attack.end(&mut [&mut steady, &mut other]).await;
    assert!(grew.is_empty(), "{grew:?}\n{samples:#?}");
}

/// Until the queues of the hour are gone, and what is kept for a moment is removed.
async fn settled(scene: &Scene) {
    let vhost = scene.vhost.as_ref().expect("a RabbitMQ");
    wait_until("the ended queues to be deleted", BOUND, async || {
        let queues = vhost.queues().await;
        let is_delivery = |queue: &&Value| queue["name"].as_str().is_some_and(|name| name.contains("hour-"));
        queues.iter().filter(is_delivery).next().is_none().then_some(())
    })
    .await;
    wait_until("what is kept for a moment to be removed", BOUND, async || {
        (rows(scene.postgres()).await < 200).then_some(())
    })
    .await;
}
