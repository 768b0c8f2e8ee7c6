//! Rules 34, 37 and 41: a store that went back, clocks that are wrong, a probe whose store is away, and messages that
//! bring a schedule of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redrive::internals::ambient::Clock;
use redrive::internals::domain::event::{EventType, NewEvent, Reference};
use redrive::internals::domain::policy::OnExhausted;
use redrive::internals::engine::Engine;
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{BOUND, Ground, Stage, notification, sender};
use crate::support::daemon::Installation;
use crate::support::faulty_store::Fault;
use crate::support::receiver::{Behaviour, Receiver};
use crate::support::wait::wait_until;

/// What a daemon remembers of a URL is ahead of its store by a few changes.
const WENT_BACK: &str = "UPDATE TABLE.numbers SET value = value - 7 WHERE name = 'generation'; \
    UPDATE TABLE.endpoints SET epoch = epoch - 1, state = 'available', next_attempt_at = NULL, attempts = 0, \
    probe_queue = NULL, probe_message = NULL, probe_token = NULL, probe_until = NULL";

/// The URL was closed and opened, so that its epoch is above what a store that went back says.
async fn closed_and_open(stage: &mut Stage) {
    stage.receiver.behave("/hook", Behaviour::Status(503));
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(1).await;
    stage.endpoint_is("/hook", "available").await;
}

async fn an_available_url_fails_after_its_store_went_back(mut stage: Stage) {
    closed_and_open(&mut stage).await;
    stage.tamper(WENT_BACK).await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    let before = stage.receiver.count();
    stage.publish("a", "/hook").await;
    // One retry at once, then one a second: so it was hammered when it was tried more often than that.
    stage.endpoint_is("/hook", "unavailable").await;
    let tried = stage.receiver.count() - before;
    assert!((2..=4).contains(&tried), "{tried} attempts before it closed");
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

async fn an_unavailable_url_is_served_after_its_store_opened_it_in_the_past(mut stage: Stage) {
    closed_and_open(&mut stage).await;
    stage.receiver.behave("/hook", Behaviour::retry_after(503, "3600"));
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.tamper(WENT_BACK).await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_url_is_not_hammered_when_its_store_went_back() {
    an_available_url_fails_after_its_store_went_back(Stage::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_url_is_not_hammered_when_its_store_went_back_on_postgres() {
    an_available_url_fails_after_its_store_went_back(Stage::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_open_in_a_store_that_went_back_is_served() {
    an_unavailable_url_is_served_after_its_store_opened_it_in_the_past(Stage::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_open_in_a_store_that_went_back_is_served_on_postgres() {
    an_unavailable_url_is_served_after_its_store_opened_it_in_the_past(Stage::rabbit_postgres().await).await;
}

/// Ids of events that a store which went back has forgotten are not given to others.
async fn events_after_the_store_went_back(mut stage: Stage, forget: &str) {
    let engine = stage.engine.clone();
    let push = async || engine.event_push(an_event()).await.unwrap().id;
    let before = [push().await, push().await];
    // Seen by a daemon that goes on.
    closed_and_open(&mut stage).await;
    stage.tamper(&format!("DELETE FROM TABLE.events; {forget}")).await;
    wait_until("it to be noticed", BOUND, async || {
        // Until it is below what the daemon saw.
        stage
            .tamper("UPDATE TABLE.numbers SET value = value / 2 WHERE name = 'generation'")
            .await;
        let audit = stage.store.audit_list(None, 10).await.unwrap();
        audit.iter().any(|line| line.entry.result == "went back").then_some(())
    })
    .await;
    let after = [push().await, push().await];
    assert!(before.iter().all(|id| !after.contains(id)), "{before:?} and {after:?}");
    // Twice is as often as never: nothing goes back.
    stage.store.event_ids_raise().await.unwrap();
    assert!(push().await > after[1]);
    stage.stop().await;
}

fn an_event() -> NewEvent {
    NewEvent {
        event_type: EventType::parse("imports").unwrap(),
        reference: Reference::parse(&redrive::internals::ambient::new_id()).unwrap(),
        nbf: None,
        reason: None,
        payload: None,
        lifetime: None,
        trace: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_went_back_gives_no_id_of_an_event_again() {
    let forget = "DELETE FROM sqlite_sequence WHERE name = 'events'";
    events_after_the_store_went_back(Stage::embedded().await, forget).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_went_back_gives_no_id_of_an_event_again_on_postgres() {
    let forget = "SELECT setval('redrive.events_id_seq', 1, false)";
    events_after_the_store_went_back(Stage::rabbit_postgres().await, forget).await;
}

/// The receiver answered the probe, and the store cannot be told: the message is not sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_2xx_of_a_probe_is_acked_while_the_store_is_away() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    stage.start();
    stage.receiver.behave("/hook", Behaviour::Status(503));
    stage.publish("a", "/hook").await;
    stage.endpoint_is("/hook", "unavailable").await;
    store.plan(|call| (call == "endpoint_change").then_some(Fault::Unheard));
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(1).await;
    // Messages in hand are in their table until they are acked.
    wait_until("the ack", BOUND, async || {
        (stage.count("SELECT count(*) FROM broker_message").await == 0).then_some(())
    })
    .await;
    store.plan(|_| None);
    stage.endpoint_is("/hook", "available").await;
    stage.publish("a", "/hook").await;
    stage.delivered(2).await;
    stage.stop().await;
    assert_eq!(stage.receiver.delivered(), 2, "nothing was sent twice");
    stage.assert_kept();
}

/// One URL closes and is probed, and one queue waits alone: both by the clock of the store.
async fn delivers_with_a_calendar_that_is_off(by: i64) {
    let mut stage = Stage::quiet(Ground::rabbit_postgres().await, |settings| {
        settings.default_policy.retries_with_no_delay = 0;
    })
    .await;
    let (store, broker) = stage.ground.place().open(&stage.settings.naming).await;
    let engine = Engine::new(
        store,
        broker,
        sender(&stage.settings),
        stage.settings.clone(),
        Clock::system_off_by(by),
    );
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { engine.run(stop).await.unwrap() }
    });
    stage.receiver.behave_by("/down", |attempt| match attempt.earlier {
        0..=2 => Behaviour::Status(503),
        _ => Behaviour::Status(200),
    });
    // Its own fault: the other queues of the URL go on.
    let failures = AtomicU32::new(0);
    stage.receiver.behave_by("/own", move |attempt| {
        if attempt.body.starts_with(b"poison") && failures.fetch_add(1, Ordering::SeqCst) < 3 {
            Behaviour::Status(500)
        } else {
            Behaviour::Status(200)
        }
    });
    for (execution, path) in [
        ("a", "/down"),
        ("b", "/own"),
        ("c", "/own"),
        ("d", "/own"),
        ("e", "/own"),
    ] {
        stage.publish(execution, path).await;
    }
    stage.delivered(4).await;
    let poison = stage.publish("poison", "/own").await;
    for number in 0..12 {
        stage.publish(["b", "c", "d", "e"][number % 4], "/own").await;
    }
    stage.delivered(5 + 12 + 1).await;
    // Neither the URL nor the queue was tried before its second was over.
    let early = |mut times: Vec<Instant>| {
        times.sort();
        times
            .windows(2)
            .any(|pair| pair[1] - pair[0] < Duration::from_millis(900))
    };
    let attempts = stage.receiver.attempts();
    let times = |wanted: &dyn Fn(&crate::support::receiver::Attempt) -> bool| -> Vec<Instant> {
        attempts
            .iter()
            .filter(|one| wanted(one))
            .map(|one| one.started_at)
            .collect()
    };
    assert!(!early(times(&|one| one.path == "/down")), "the URL was probed early");
    assert!(
        !early(times(&|one| one.id() == poison.id.as_str())),
        "the queue was tried early"
    );
    stop.cancel();
    running.await.unwrap();
    engine.close().await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_calendar_is_an_hour_behind_keeps_the_stores_times() {
    delivers_with_a_calendar_that_is_off(-3_600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_calendar_is_an_hour_ahead_keeps_the_stores_times() {
    delivers_with_a_calendar_that_is_off(3_600).await;
}

/// Rule 41: a message without retries dies alone, and its URL goes on by the policy, with the queue that waits longest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_own_attempts_are_used_up_dies_alone_and_the_url_keeps_its_schedule() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.on_exhausted = OnExhausted::DeadLetter;
    })
    .await;
    stage.receiver.behave_by("/hook", |attempt| match attempt.earlier {
        0..=2 => Behaviour::Status(503),
        _ => Behaviour::Status(200),
    });
    for execution in ["hasty", "hastier"] {
        let mut hasty = notification(execution, stage.url("/hook"), 1, execution);
        // Its wish for an hour between attempts is not the URL's.
        (hasty.polling_time_s, hasty.restart_count) = (Some(3_600), Some(0));
        stage.engine.publish(hasty).await.unwrap();
    }
    stage.start();
    stage.dead_letters(2).await;
    stage.publish("patient", "/hook").await;
    stage.delivered(1).await;
    let attempts = stage.receiver.attempts();
    assert_eq!(
        attempts.len(),
        4,
        "one for each that died, a failed probe, and the delivery"
    );
    for pair in attempts.windows(2) {
        let apart = pair[1].started_at - pair[0].started_at;
        assert!(
            apart > Duration::from_millis(900),
            "an override shortened the wait to {apart:?}"
        );
    }
    stage.stop().await;
}

/// A URL that is tried at once stays available: until it closes, the times between attempts are the message's own. Each
/// failure counts once for the URL, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_keeps_its_own_times_while_its_url_is_available() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.default_policy.retries_with_no_delay = 4;
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    let mut own = notification("own", stage.url("/hook"), 1, "own");
    (own.polling_time_s, own.restart_count) = (Some(1), Some(3));
    stage.engine.publish(own).await.unwrap();
    stage.start();
    stage.queue_is("own", "/hook", "parked").await;
    let attempts = stage.receiver.attempts();
    assert_eq!(attempts.len(), 4, "the first attempt and three retries");
    for pair in attempts.windows(2) {
        let apart = pair[1].started_at - pair[0].started_at;
        assert!(
            (900..4_000).contains(&apart.as_millis()),
            "tried again after {apart:?}, and it asked for a second"
        );
    }
    let endpoint = stage.endpoint("/hook").await.unwrap().endpoint;
    assert_eq!(
        endpoint.state.as_str(),
        "available",
        "four failures of the four that it takes"
    );
    stage.stop().await;
}

/// Parked, and the only one of its URL: nobody else can give the probe, and it gives none until somebody redelivers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_message_gives_no_probe_where_its_url_has_nothing_else() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.default_policy.retries_with_no_delay = 0;
    })
    .await;
    stage.receiver.behave("/alone", Behaviour::Status(503));
    stage.receiver.behave("/clock", Behaviour::Status(503));
    let mut hasty = notification("hasty", stage.url("/alone"), 1, "hasty");
    hasty.restart_count = Some(0);
    stage.engine.publish(hasty).await.unwrap();
    stage.start();
    stage.endpoint_is("/alone", "unavailable").await;
    // A URL with the same schedule is probed three times meanwhile.
    stage.publish("patient", "/clock").await;
    let tried = |stage: &Stage, body: &[u8]| {
        let attempts = stage.receiver.attempts();
        attempts.iter().filter(|one| one.body.starts_with(body)).count()
    };
    wait_until("three probes", BOUND, async || {
        (tried(&stage, b"patient") >= 4).then_some(())
    })
    .await;
    assert_eq!(tried(&stage, b"hasty"), 1, "it was sent though it is parked");
    // Something new is there that may be sent: with it the URL and its queues go on.
    stage.receiver.behave("/alone", Behaviour::Status(200));
    stage.receiver.behave("/clock", Behaviour::Status(200));
    stage.publish("late", "/alone").await;
    stage.delivered(3).await;
    stage.stop().await;
}

/// Its own failure, met by a probe: its queue waits for that, also where nothing else could give the next probe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_by_itself_gives_no_probe_before_its_time() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.default_policy.retries_with_no_delay = 0;
        settings.default_policy.maximum_delay_s = 4;
    })
    .await;
    stage.start();
    // Without other queues every one of the URL would be in trouble, and the URL would wait.
    for execution in ["x", "y", "z"] {
        stage.publish(execution, "/hook").await;
    }
    stage.delivered(3).await;
    stage.receiver.behave_by("/hook", |attempt| {
        Behaviour::Status(match attempt.earlier {
            3 => 503,
            4 => 500,
            _ => 200,
        })
    });
    stage.publish("alone", "/hook").await;
    stage.delivered(4).await;
    let attempts = stage.receiver.attempts_of("/hook");
    assert_eq!(attempts.len(), 6, "the URL's failure, its own, and the delivery");
    let apart = attempts[5].started_at - attempts[4].started_at;
    assert!(
        apart > Duration::from_millis(3_900),
        "its probe came {apart:?} after its own failure"
    );
    stage.endpoint_is("/hook", "available").await;
    stage.stop().await;
}

/// Parked alone: it is not tried while its URL is not available, and the queue that waits longest gives the probes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_own_attempts_are_used_up_parks_its_queue_alone() {
    let mut stage = Stage::quiet(Ground::embedded(), |settings| {
        settings.default_policy.retries_with_no_delay = 0;
    })
    .await;
    stage.receiver.behave("/hook", Behaviour::Status(503));
    let mut hasty = notification("hasty", stage.url("/hook"), 1, "hasty");
    hasty.restart_count = Some(0);
    stage.engine.publish(hasty).await.unwrap();
    stage.start();
    stage.endpoint_is("/hook", "unavailable").await;
    wait_until("nothing to be tried", BOUND, async || {
        let shown = stage.endpoint("/hook").await?;
        (shown.waiting == Some(1) && shown.endpoint.next_attempt_at.is_none()).then_some(())
    })
    .await;
    stage.publish("patient", "/hook").await;
    wait_until("three probes", BOUND, async || {
        (stage.receiver.count() >= 4).then_some(())
    })
    .await;
    let parked = stage.queue_is("hasty", "/hook", "parked").await;
    assert!(parked.head.as_ref().is_some_and(|head| head.parked), "{parked:?}");
    let why = &parked.why.as_ref().unwrap().text;
    assert!(
        why.contains("its head failed 1 of 1 attempts") && why.contains("until its URL is available again"),
        "{why}"
    );
    let attempts = stage.receiver.attempts();
    assert!(
        attempts[1..].iter().all(|one| one.body.starts_with(b"patient")),
        "it was tried again"
    );
    // With the URL every queue of it goes on.
    stage.receiver.behave("/hook", Behaviour::Status(200));
    stage.delivered(2).await;
    stage.stop().await;
}

/// The daemon's file, as if its clock were so much ahead of what it was when everything in it was written.
async fn set_forward(installation: &Installation, by: Duration, statement: &str) -> SqliteConnection {
    let address = format!("sqlite://{}", installation.path("store.db").display());
    let mut file = SqliteConnection::connect(&address).await.unwrap();
    let statement = statement.replace("BY", &by.as_micros().to_string());
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut file)
        .await
        .unwrap();
    file
}

async fn number_of(file: &mut SqliteConnection, what: &'static str) -> i64 {
    sqlx::query_scalar(what).fetch_one(file).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_went_a_year_ahead_removes_nothing_for_a_day() {
    const ATTEMPTS: &str = "SELECT count(*) FROM attempts WHERE started_at > 0";
    const EVENTS: &str = "SELECT count(*) FROM events WHERE created_at > 0";
    let receiver = Receiver::start().await;
    let mut installation = Installation::embedded();
    installation.append("[store.retention]\nattempts_s = 3600\n");
    let url = receiver.url("/hook");
    let publish = ["publish", "--execution", "a", "--url", url.as_str()];
    installation.run(&publish).await.expect_code(0);
    let push = ["event", "push", "--type", "t", "--reference", "a", "--ttl", "86400"];
    installation.run(&push).await.expect_code(0);
    let mut daemon = installation.daemon().await;
    let address = format!("sqlite://{}", installation.path("store.db").display());
    let mut file = SqliteConnection::connect(&address).await.unwrap();
    wait_until("an attempt, and ages that count", BOUND, async || {
        let counted = "SELECT count(*) FROM janitor WHERE aged_at IS NOT NULL AND leapt_at IS NULL";
        (number_of(&mut file, ATTEMPTS).await == 1 && number_of(&mut file, counted).await == 1).then_some(())
    })
    .await;
    daemon.stop().await;
    let year = Duration::from_hours(24 * 365);
    let ahead = "UPDATE attempts SET started_at = started_at - BY; UPDATE janitor SET aged_at = aged_at - BY; \
                 UPDATE events SET created_at = created_at - BY, expires_at = expires_at - BY";
    let mut file = set_forward(&installation, year, ahead).await;
    let mut daemon = installation.daemon().await;
    wait_until("the daemon doubts its clock", BOUND, async || {
        let doubts = "SELECT count(*) FROM janitor WHERE leapt_at IS NOT NULL";
        (number_of(&mut file, doubts).await == 1).then_some(())
    })
    .await;
    // The answer comes with the next page of what there is to remove.
    daemon.stop().await;
    assert_eq!(number_of(&mut file, ATTEMPTS).await, 1);
    assert_eq!(number_of(&mut file, EVENTS).await, 1);
    // A day later nobody has set it right: it is the time.
    let day = Duration::from_hours(25);
    let mut file = set_forward(&installation, day, "UPDATE janitor SET leapt_at = leapt_at - BY").await;
    let mut daemon = installation.daemon().await;
    wait_until("what is old is gone", BOUND, async || {
        let left = number_of(&mut file, ATTEMPTS).await + number_of(&mut file, EVENTS).await;
        (left == 0).then_some(())
    })
    .await;
    daemon.stop().await;
}
