//! An outage of many endpoints at once: 1,500 URLs with a queue each, of which many hang, and the time in which the
//! healthy ones have all of theirs.
//!
//! Compared with runs in which only the healthy ones are published to. At *first contact* nobody has tried any of
//! them; with *a restart* all of them were served, and those that hang begin to between the end of one daemon and the
//! start of the next. A run is timed from the start of the daemon to the last request that a healthy URL gets; each
//! hanging URL's first request is timed too. The two take turns, and ratios are taken within a round.
//!
//! The other row: one living URL beside 20,000 that are unavailable and have a message each.

use std::time::Duration;

use redrive::domain::endpoint::EndpointChange;
use redrive::domain::id::NotificationId;

use crate::delivering;
use crate::ground::{Ground, Queue, open_store};
use crate::numbers::{Spread, aside, rounds, row};
use crate::receiver::{Receiver, time_us};
use crate::support::servers::scratch_directory;

const URLS: usize = 1_500;
/// Messages to each healthy URL that are timed.
const MESSAGES: usize = 10;
const BOUND: Duration = Duration::from_mins(4);
const DEAD: usize = 20_000;
/// Messages to the living one.
const LIVING: usize = 3_000;

#[derive(Clone, Copy)]
struct Case {
    hanging: usize,
    restart: bool,
}

/// What a run came to.
struct Timed {
    healthy_s: f64,
    begun_s: f64,
}

pub async fn run() {
    for percent in [30, 60, 90] {
        for restart in [false, true] {
            measure(Case {
                hanging: URLS * percent / 100,
                restart,
            })
            .await;
        }
    }
    dead_beside_one().await;
}

async fn measure(case: Case) {
    let Case { hanging, restart } = case;
    let when = if restart { "a restart" } else { "first contact" };
    let (mut alone, mut with, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds() {
        for turn in 0..2 {
            let hang = (round + turn) % 2 == 1;
            let timed = one_round(case, hang).await;
            aside(&format!(
                "{hanging} of {URLS}, {when}, {}: {:.1} s, the last hanging one begun after {:.1} s",
                if hang { "with them" } else { "without" },
                timed.healthy_s,
                timed.begun_s
            ));
            if hang {
                with.push(timed.healthy_s);
                begun.push(timed.begun_s);
            } else {
                alone.push(timed.healthy_s);
            }
        }
    }
    let measured = format!(
        "{}; {:.1} s of {:.1} s; the last that hangs is begun after {:.1} s",
        Spread::of_ratios(&with, &alone),
        Spread::of(&with).median,
        Spread::of(&alone).median,
        Spread::of(&begun).max,
    );
    let what = format!("{hanging} of {URLS} hang, {when}: the others' time, of a run without them");
    row(&what, &measured, "1.5");
}

async fn one_round(case: Case, hang: bool) -> Timed {
    let (receiver, directory, ground) = (Receiver::start().await, scratch_directory(), Ground::prepare().await);
    let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
    // Spread over all of them, as they would be.
    let is_bad = |n: usize| (n * case.hanging) % URLS < case.hanging;
    let url = |n: usize| {
        let kind = if is_bad(n) { "until" } else { "endpoint" };
        receiver.url(&format!("{kind}/{n}"))
    };
    let queues: Vec<Queue> = (0..URLS)
        .map(|n| Queue::new(&ground.naming, &format!("run-{n}"), &url(n)))
        .collect();
    ground.create(&queues, &[&store]).await;
    if case.restart {
        let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
        ground.fill(&queues, 1).await;
        receiver.wait_for(URLS, BOUND).await;
        daemon.finish().await;
        receiver.reset().await;
    }
    receiver.hang().await;
    let healthy: Vec<Queue> = (0..URLS).filter(|n| !is_bad(*n)).map(|n| queues[n].clone()).collect();
    ground.fill(if hang { &queues } else { &healthy }, MESSAGES).await;
    let began = time_us();
    let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
    receiver.wait_for(healthy.len() * MESSAGES, BOUND).await;
    if hang {
        crate::support::wait::wait_until("all that hang to be begun", BOUND, async || {
            (receiver.hanging().await.0 == case.hanging).then_some(())
        })
        .await;
    }
    let (seen, (_, hanging_last_us)) = (receiver.seen().await, receiver.hanging().await);
    // Its hanging requests would be waited for; the virtual host goes with it.
    drop(daemon);
    receiver.finish().await;
    let seconds = |until: u64| until.saturating_sub(began) as f64 / 1_000_000.0;
    Timed {
        healthy_s: seconds(seen.last_us),
        begun_s: seconds(hanging_last_us.max(began)),
    }
}

async fn dead_beside_one() {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let dead = Living::prepare(DEAD).await;
    let alone = Living::prepare(0).await;
    for round in 0..rounds() {
        for turn in 0..2 {
            let (living, times) = if (round + turn) % 2 == 0 {
                (&alone, &mut without)
            } else {
                (&dead, &mut with)
            };
            let seconds = living.seconds().await;
            aside(&format!(
                "one living URL beside {} dead ones: {seconds:.2} s",
                living.dead
            ));
            times.push(seconds);
        }
    }
    let measured = format!(
        "{}; {:.2} s of {:.2} s for {LIVING} messages",
        Spread::of_ratios(&with, &without),
        Spread::of(&with).median,
        Spread::of(&without).median
    );
    let what = format!("{DEAD} dead URLs beside one living one: its time, of a run without them");
    row(&what, &measured, "1.1");
}

/// One living URL, its dead neighbours, and the daemon that has them all.
struct Living {
    dead: usize,
    receiver: Receiver,
    ground: Ground,
    queue: Queue,
    _daemon: crate::process::Side,
    _directory: tempfile::TempDir,
}

impl Living {
    async fn prepare(dead: usize) -> Self {
        let (receiver, directory, ground) = (Receiver::start().await, scratch_directory(), Ground::prepare().await);
        let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
        let queue = Queue::new(&ground.naming, "living", &receiver.url("endpoint"));
        // The discard port: nobody listens.
        let mut queues: Vec<Queue> = (0..dead)
            .map(|n| Queue::new(&ground.naming, &format!("dead-{n}"), &format!("http://127.0.0.1:9/{n}")))
            .collect();
        queues.push(queue.clone());
        ground.create(&queues, &[&store]).await;
        queues.pop();
        if !queues.is_empty() {
            close(&store, &queues).await;
            ground.fill(&queues, 1).await;
        }
        let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
        let living = Self {
            dead,
            receiver,
            ground,
            queue,
            _daemon: daemon,
            _directory: directory,
        };
        // Once before it counts: every queue was listed by then.
        living.seconds().await;
        living
    }

    async fn seconds(&self) -> f64 {
        self.receiver.reset().await;
        let one = std::slice::from_ref(&self.queue);
        self.ground.fill(one, LIVING).await;
        self.ground.nudge(one).await;
        self.receiver.wait_for(LIVING, BOUND).await;
        let seen = self.receiver.seen().await;
        seen.last_us.saturating_sub(seen.first_us) as f64 / 1_000_000.0
    }
}

/// As an outage of an hour leaves them: unavailable, with a probe to come.
async fn close(store: &str, queues: &[Queue]) {
    let store = open_store(store).await;
    for part in queues.chunks(500) {
        let changes = part.iter().map(|queue| {
            let change = EndpointChange::Close {
                queue: queue.name.clone(),
                message: NotificationId::parse("its-head").unwrap(),
                attempts: 8,
                delay: Duration::from_hours(1),
            };
            let store = store.clone();
            async move { store.endpoint_change(&queue.url, None, &change).await.unwrap() }
        });
        futures_util::future::join_all(changes).await;
    }
    store.close().await;
}
