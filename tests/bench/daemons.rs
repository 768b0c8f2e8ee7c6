//! One, two, four and eight daemons on one PostgreSQL and broker: what they deliver together, how evenly, and how long
//! the queues of one that was killed wait for another.
//!
//! 200 queues of 200 URLs are full before the daemons start, and the rate is from the first request to the last. How
//! even it is: what the busiest daemon delivered, of the mean. The same once more, and the first daemon is killed when a
//! tenth is delivered: the time is from then to the last request.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::delivering;
use crate::ground::{Ground, Queue};
use crate::numbers::{aside, row};
use crate::process::Side;
use crate::receiver::Receiver;
use crate::support::servers::Database;

const COUNTS: [usize; 4] = [1, 2, 4, 8];
const QUEUES: usize = 200;
const MESSAGES: usize = 500;
const BOUND: Duration = Duration::from_mins(5);

pub async fn run() {
    let mut alone = None;
    for count in COUNTS {
        let place = Place::make().await;
        let mut sides = place.start(count).await;
        let (rate, busiest) = place.together(&mut sides).await;
        finish(sides).await;
        let of_one = rate / *alone.get_or_insert(rate);
        let after = if count > 1 {
            format!("{:.1} s", place.killed(count).await)
        } else {
            "–".to_owned()
        };
        row(
            &format!(
                "{count} daemons, PostgreSQL: together, of one / busiest of the mean / all delivered after a kill"
            ),
            &format!("{rate:.0}/s, {of_one:.2} / {busiest:.2} / {after}"),
            "",
        );
        place.receiver.finish().await;
    }
}

/// What all daemons stand on.
struct Place {
    receiver: Receiver,
    ground: Ground,
    database: Database,
    queues: Vec<Queue>,
}

impl Place {
    async fn make() -> Self {
        let (receiver, ground, database) = (
            Receiver::start().await,
            Ground::prepare().await,
            Database::create().await,
        );
        let queues = ground.queues(QUEUES, |n| receiver.url(&format!("endpoint/{n}")));
        ground.create(&queues, &[&database.url()]).await;
        Self {
            receiver,
            ground,
            database,
            queues,
        }
    }

    /// So many daemons over full queues.
    async fn start(&self, count: usize) -> Vec<Side> {
        self.ground.fill(&self.queues, MESSAGES).await;
        self.receiver.reset().await;
        let (vhost, store) = (&self.ground.naming.vhost, self.database.url());
        join_all((0..count).map(|_| delivering::start(vhost, &store, 1))).await
    }

    /// Messages a second of all, and the share of the busiest, of the mean.
    async fn together(&self, sides: &mut [Side]) -> (f64, f64) {
        self.receiver.wait_for(QUEUES * MESSAGES, BOUND).await;
        let seen = self.receiver.seen().await;
        let rate = (QUEUES * MESSAGES) as f64 / ((seen.last_us - seen.first_us) as f64 / 1_000_000.0);
        let mut delivered = Vec::new();
        for side in sides {
            delivered.push(delivering::number(side, redrive::internals::telemetry::ATTEMPTS).await);
        }
        let mean = delivered.iter().sum::<f64>() / delivered.len() as f64;
        let gap_ms = seen.gap_us / 1000;
        aside(&format!("each delivered {delivered:?}, longest gap {gap_ms} ms"));
        (rate, delivered.iter().copied().fold(0.0, f64::max) / mean)
    }

    /// Seconds from the kill of one to the last request.
    async fn killed(&self, count: usize) -> f64 {
        let mut sides = self.start(count).await;
        self.receiver.wait_for(QUEUES * MESSAGES / 10, BOUND).await;
        let killed = Instant::now();
        sides.remove(0).kill().await;
        self.receiver.wait_for(QUEUES * MESSAGES, BOUND).await;
        let took = killed.elapsed().as_secs_f64();
        finish(sides).await;
        took
    }
}

async fn finish(sides: Vec<Side>) {
    for side in sides {
        side.finish().await;
    }
}
