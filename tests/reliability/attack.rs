//! One row: a scene under attack, and its record.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::scene::{BOUND, Scene, executions};
use crate::support::checker::{History, Violation, violations};
use crate::support::daemon::Daemon;
use crate::support::receiver::Behaviour;
use crate::support::wait::{at_moment, wait_until};

/// Messages of a queue that wait, on average, when publishing waits too.
const AHEAD: usize = 20;

/// What a row is of.
pub struct About {
    /// Its place in the table, and the name of its file.
    pub order: u32,
    /// The faults, in the table's words.
    pub faults: &'static str,
    /// What they are made to.
    pub on: &'static str,
}

/// A scene whose messages flow while faults are made, and what was seen of them.
pub struct Attack {
    about: About,
    pub scene: Scene,
    began: Instant,
    /// Made up to now.
    made: u32,
    /// From the moment when the cause of a fault was gone to the next delivery.
    recoveries: Vec<Duration>,
    /// In the words of the table, what a person had to do.
    pub hands: u32,
    /// Messages in flight for each queue.
    pub prefetch: u16,
    /// What a database that failed over had answered and did not have any more, in bytes of its log.
    pub lost_by_the_database: Option<u64>,
    /// What may not grow, as the curve of the page has it.
    pub samples: Vec<Value>,
}

/// What flows, over four URLs.
#[derive(Clone, Copy)]
pub struct Load {
    pub queues: u32,
    /// To each queue at least; publishing goes on until the faults are made.
    pub each: u32,
    /// How long a receiver takes for its answer.
    pub answer: Duration,
}

impl Load {
    /// Fast enough that faults meet messages in all states.
    pub const fn fast(queues: u32, each: u32) -> Self {
        let answer = Duration::from_millis(5);
        Self { queues, each, answer }
    }

    /// For faults that last: not too many messages meanwhile.
    pub const fn slow(queues: u32, each: u32) -> Self {
        let answer = Duration::from_millis(100);
        Self { queues, each, answer }
    }

    fn total(self) -> usize {
        (self.queues * self.each) as usize
    }
}

impl Attack {
    pub fn on(scene: Scene, about: About) -> Self {
        Self {
            about,
            scene,
            began: Instant::now(),
            made: 0,
            recoveries: Vec::new(),
            hands: 0,
            prefetch: 1,
            lost_by_the_database: None,
            samples: Vec::new(),
        }
    }

    /// With `prefetch` messages of each queue in flight.
    pub fn with_prefetch(mut self, prefetch: u16) -> Self {
        self.prefetch = prefetch;
        self.scene.installation.set("delivery", "prefetch", prefetch);
        self
    }

    /// Publishes the load; meanwhile makes `count` faults, the next each time its share of the messages is delivered. `fault`
    /// takes the number of the fault, and ends when its cause is gone. Messages flow until the last fault is over.
    pub async fn under(&mut self, load: Load, count: u32, mut fault: impl AsyncFnMut(&Scene, u32)) {
        let Self {
            scene,
            made,
            recoveries,
            ..
        } = self;
        scene.receiver.behave("*", Behaviour::Status(200).after(load.answer));
        let (over, published) = (AtomicBool::new(false), AtomicUsize::new(0));
        let faults = async {
            for number in 1..=count {
                let share = load.total() / (count as usize + 1);
                scene.delivered(scene.receiver.delivered() + share).await;
                fault(scene, number).await;
                let (since, before) = (Instant::now(), scene.receiver.delivered());
                scene.delivered(before + 1).await;
                recoveries.push(since.elapsed());
                *made += 1;
            }
            over.store(true, Ordering::SeqCst);
        };
        let executions = executions(load.queues, 4);
        let publishing = join_all(executions.iter().map(async |(execution, path)| {
            let mut number = 0;
            while number < load.each || !over.load(Ordering::SeqCst) {
                number += 1;
                scene.publish(execution, path, number).await;
                published.fetch_add(1, Ordering::SeqCst);
                while published.load(Ordering::SeqCst) > scene.receiver.delivered() + AHEAD * load.queues as usize {
                    at_moment(Duration::from_millis(20)).await;
                }
            }
        }));
        tokio::join!(publishing, faults);
    }

    /// Counts faults that were made otherwise.
    pub fn made(&mut self, faults: u32) {
        self.made += faults;
    }

    /// Until everything is delivered; the row is written, and the promises are judged.
    pub async fn end(self, daemons: &mut [&mut Daemon]) {
        let history = self.scene.end(daemons, self.made).await;
        self.judge(history).await;
    }

    /// The same of a history that was told otherwise.
    pub async fn judge(self, mut history: History) {
        history.prefetch = u32::from(self.prefetch);
        history.faults_of_all = self.made;
        let found = violations(&history);
        let row = self.row(&history, &found).await;
        write(self.about.order, &row);
        history.assert_kept();
    }

    async fn row(&self, history: &History, found: &[Violation]) -> Value {
        let count = |is: fn(&Violation) -> bool| found.iter().filter(|one| is(one)).count();
        let repeats = repeats(history);
        let most = repeats.values().copied().max().unwrap_or(0);
        let rabbitmq = match &self.scene.vhost {
            Some(vhost) => {
                let overview = vhost.node.request("GET", "/api/overview").send().await.json();
                overview["rabbitmq_version"].as_str().map(str::to_owned)
            }
            None => None,
        };
        json!({
            "order": self.about.order,
            "faults": self.about.faults,
            "on": self.about.on,
            "rabbitmq": rabbitmq,
            "postgresql": postgresql(&self.scene).await,
            "made": self.made,
            "published": history.published.len(),
            "lost": count(|one| matches!(one, Violation::Lost { .. })),
            "reordered": count(|one| matches!(one, Violation::OutOfOrder { .. } | Violation::Overlap { .. } | Violation::StaleEpoch { .. })),
            "otherwise_wrong": count(|one| matches!(one, Violation::Phantom { .. } | Violation::ChangedBody { .. } | Violation::WrongDepth { .. })),
            "repeated": repeats.values().sum::<u64>(),
            "most_of_one_queue": most,
            "allowed_of_one_queue": u64::from(self.made) * u64::from(self.prefetch),
            "lost_by_the_database_bytes": self.lost_by_the_database,
            "recovery_most_ms": self.recoveries.iter().max().map(Duration::as_millis),
            "recovery_median_ms": median(&self.recoveries).map(|it| it.as_millis()),
            "hands": self.hands,
            "samples": self.samples,
            "seconds": self.began.elapsed().as_secs(),
        })
    }
}

/// How often notifications of each queue were delivered again.
fn repeats(history: &History) -> HashMap<String, u64> {
    let mut known = HashSet::new();
    let mut repeats: HashMap<String, u64> = HashMap::new();
    for seen in &history.seen {
        let succeeded = seen.status.is_some_and(|status| (200..300).contains(&status));
        if succeeded && !known.insert((seen.queue.as_str(), seen.id.as_str())) {
            *repeats.entry(seen.queue.clone()).or_default() += 1;
        }
    }
    repeats
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied()
}

async fn postgresql(scene: &Scene) -> Option<String> {
    let url = scene.database()?.to_owned();
    let answer = wait_until("the version of PostgreSQL", BOUND, async || {
        let mut connection = PgConnection::connect(&url).await.ok()?;
        let version = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection);
        version.await.ok()
    });
    let version: String = answer.await;
    version.split_whitespace().next().map(str::to_owned)
}

/// To the folder that `tests/reliability/run` names.
fn write(order: u32, row: &Value) {
    let Ok(folder) = std::env::var("REDRIVE_RELIABILITY_ROWS") else {
        return;
    };
    let path = std::path::Path::new(&folder).join(format!("{order:02}.json"));
    let text = serde_json::to_string_pretty(row).unwrap() + "\n";
    std::fs::write(path, text).expect("the folder of the rows");
}
