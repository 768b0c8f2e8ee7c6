//! An outage of many endpoints at once: 1,500 URLs with a queue each, of which many hang, and the time in which the
//! healthy ones have all of theirs.
//!
//! Compared with runs in which only the healthy ones are published to. At *first contact* nobody has tried any of
//! them; with *a restart* all of them were served, and those that hang begin to between the end of one daemon and the
//! start of the next. A run is timed from the start of the daemon to the last request that a healthy URL gets, and to
//! the last first request that any URL gets. The two take turns, and ratios are taken within a round. The goal at
//! first contact has one request's timeout on top, and ten seconds for the first requests.
//!
//! The other row: one living URL beside 20,000 that are unavailable and have a message each.
//!
//! `outage:PART` runs one of them: a percentage, or `dead`. `REDRIVE_BENCH_URLS` sets how many URLs there are; of dead
//! ones there are thirteen times as many.

use std::time::Duration;

use redrive::internals::domain::endpoint::EndpointChange;
use redrive::internals::domain::id::NotificationId;

use crate::delivering;
use crate::ground::{Ground, Queue, open_store};
use crate::numbers::{Spread, aside, rounds, row};
use crate::receiver::{Receiver, time_us};
use crate::support::servers::scratch_directory;

/// URLs with a queue each, unless `REDRIVE_BENCH_URLS` says otherwise.
const URLS: usize = 1_500;
/// Percentages of them that hang.
const SHARES: [usize; 3] = [30, 60, 90];
/// Messages to each healthy URL that are timed.
const MESSAGES: usize = 10;
const BOUND: Duration = Duration::from_mins(4);
const DEAD: usize = 20_000;
/// Messages to the living one.
const LIVING: usize = 3_000;

#[derive(Clone, Copy)]
struct Case {
    urls: usize,
    hanging: usize,
    restart: bool,
}

/// What a run came to.
struct Timed {
    healthy_s: f64,
    begun_s: f64,
}

/// `parts`: as given behind the section's name; all of them without one.
pub async fn run(parts: &[String]) {
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|given| given == part);
    let given = std::env::var("REDRIVE_BENCH_URLS").ok();
    let given: Option<usize> = given.map(|urls| urls.parse().expect("REDRIVE_BENCH_URLS, a number"));
    let urls = given.unwrap_or(URLS);
    for percent in SHARES.into_iter().filter(|percent| wanted(&percent.to_string())) {
        for restart in [false, true] {
            measure(Case {
                urls,
                hanging: urls * percent / 100,
                restart,
            })
            .await;
        }
    }
    if wanted("dead") {
        dead_beside_one(given.map_or(DEAD, |urls| urls * DEAD / URLS)).await;
    }
}

async fn measure(case: Case) {
    let Case { urls, hanging, restart } = case;
    let when = if restart { "a restart" } else { "first contact" };
    let (mut alone, mut with, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds() {
        for turn in 0..2 {
            let hang = (round + turn) % 2 == 1;
            let timed = one_round(case, hang).await;
            aside(&format!(
                "{hanging} of {urls}, {when}, {}: {:.1} s, the last one begun after {:.1} s",
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
        "{}; {:.1} s of {:.1} s; the last URL is begun after {:.1} s",
        Spread::of_ratios(&with, &alone),
        Spread::of(&with).median,
        Spread::of(&alone).median,
        Spread::of(&begun).max,
    );
    let what = format!("{hanging} of {urls} hang, {when}: the others' time, of a run without them");
    row(
        &what,
        &measured,
        if restart { "1.5" } else { "1.5 and 15 s; begun in 10 s" },
    );
}

async fn one_round(case: Case, hang: bool) -> Timed {
    let (receiver, directory, ground) = (Receiver::start().await, scratch_directory(), Ground::prepare().await);
    let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
    // Spread over all of them, as they would be.
    let is_bad = |n: usize| (n * case.hanging) % case.urls < case.hanging;
    let url = |n: usize| {
        let kind = if is_bad(n) { "until" } else { "outage" };
        receiver.url(&format!("{kind}/{n}"))
    };
    run_before(&ground, &receiver, &store).await;
    let queues = ground.queues(case.urls, url);
    ground.create(&queues, &[&store]).await;
    if case.restart {
        let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
        ground.fill(&queues, 1).await;
        receiver.wait_for(case.urls, BOUND).await;
        daemon.finish().await;
        receiver.reset().await;
    }
    receiver.hang().await;
    let healthy: Vec<Queue> = (0..case.urls)
        .filter(|n| !is_bad(*n))
        .map(|n| queues[n].clone())
        .collect();
    ground.fill(if hang { &queues } else { &healthy }, MESSAGES).await;
    let began = time_us();
    let daemon = delivering::start(&ground.naming.vhost, &store, 1).await;
    receiver.wait_for(healthy.len() * MESSAGES, BOUND).await;
    let begun = if hang { case.urls } else { healthy.len() };
    crate::support::wait::wait_until("all to be begun", BOUND, async || {
        (receiver.begun().await.0 == begun).then_some(())
    })
    .await;
    let (seen, (_, begun_last_us)) = (receiver.seen().await, receiver.begun().await);
    // Its hanging requests would be waited for; the virtual host goes with it.
    drop(daemon);
    receiver.finish().await;
    let seconds = |until: u64| until.saturating_sub(began) as f64 / 1_000_000.0;
    Timed {
        healthy_s: seconds(seen.last_us),
        begun_s: seconds(begun_last_us),
    }
}

/// A daemon of this store was here before: the first one on an exchange binds every queue that its store knows, and
/// that would be measured too.
async fn run_before(ground: &Ground, receiver: &Receiver, store: &str) {
    let queue = [Queue::new(&ground.naming, "before", &receiver.url("endpoint"))];
    ground.create(&queue, &[store]).await;
    ground.fill(&queue, 1).await;
    let daemon = delivering::start(&ground.naming.vhost, store, 1).await;
    receiver.wait_for(1, BOUND).await;
    daemon.finish().await;
    receiver.reset().await;
}

async fn dead_beside_one(dead_urls: usize) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let dead = Living::prepare(dead_urls).await;
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
    let what = format!("{dead_urls} dead URLs beside one living one: its time, of a run without them");
    row(&what, &measured, "1.1");
}

/// One living URL, its dead neighbours, and the daemon that has them all.
struct Living {
    dead: usize,
    // Before its virtual host goes.
    _daemon: crate::process::Side,
    receiver: Receiver,
    ground: Ground,
    queue: Queue,
    _directory: tempfile::TempDir,
}

impl Living {
    async fn prepare(dead: usize) -> Self {
        let (receiver, directory, ground) = (Receiver::start().await, scratch_directory(), Ground::prepare().await);
        let store = directory.path().join("redrive.db").to_str().unwrap().to_owned();
        run_before(&ground, &receiver, &store).await;
        let queue = Queue::new(&ground.naming, "living", &receiver.url("endpoint"));
        // The discard port: nobody listens.
        let mut queues: Vec<Queue> = (0..dead)
            .map(|n| Queue::new(&ground.naming, &format!("dead-{n}"), &format!("http://127.0.0.1:9/{n}")))
            .collect();
        queues.push(queue.clone());
        let began = std::time::Instant::now();
        let told = |what: &str| {
            let seconds = began.elapsed().as_secs_f64();
            aside(&format!("{what}, {dead} of them dead: {seconds:.0} s"));
        };
        ground.create(&queues, &[&store]).await;
        told("queues made");
        queues.pop();
        if !queues.is_empty() {
            close(&store, &queues).await;
            told("endpoints closed");
            ground.fill(&queues, 1).await;
            told("queues filled");
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
        told("the living one delivered");
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
