//! Rules 1 to 5 and 7: who holds a queue, how its death is known, and how it stops by itself.

use std::time::{Duration, Instant};

use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::query;
use redrive::internals::engine::{Command, EngineError};
use sqlx::{Connection as _, PgConnection};

use super::incarnation_of;
use super::life::Life;
use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::receiver::{Attempt, Behaviour};
use crate::support::servers::{Database, PrivatePostgres, Vhost};
use crate::support::wait::{patient, stays_absent, wait_until};

/// A daemon dies with messages in hand; another takes its queues over. Answers how long after the death it did.
async fn takes_over(ground: Ground, bound: Duration) -> Duration {
    let mut stage = Stage::quiet(ground, |settings| settings.take_over = Duration::from_secs(8)).await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(30)));
    for n in 0..8 {
        stage.publish_many(&format!("e{n}"), "/ok", 12).await;
    }
    let life = Life::start(&stage);
    stage.delivered(20).await;
    life.crash();
    let died = Instant::now();
    let before = stage.receiver.attempts().iter().filter_map(Attempt::epoch).max();
    stage.start();
    wait_until("everything of the dead daemon", bound, async || {
        (stage.receiver.delivered() >= 96).then_some(())
    })
    .await;
    stage.stop().await;
    let attempts = stage.receiver.attempts();
    let after = attempts.iter().filter_map(Attempt::epoch).max();
    assert!(after > before, "the new owner has a higher epoch: {after:?} {before:?}");
    stage.history.faults_of_all = 1;
    stage.assert_kept();
    let of_the_new = attempts.iter().filter(|attempt| attempt.epoch() > before);
    let first = of_the_new.map(|attempt| attempt.started_at).min();
    first.map_or(Duration::ZERO, |first| first.saturating_duration_since(died))
}

/// A cleaner of directories is not death: the daemon beats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_lock_file_was_tidied_away_is_not_taken_over() {
    let mut stage = Stage::quiet(Ground::embedded(), |_| {}).await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(100)));
    stage.publish_many("a", "/ok", 30).await;
    let life = Life::start(&stage);
    stage.delivered(1).await;
    for entry in std::fs::read_dir(stage.ground.directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".incarnation-") {
            std::fs::remove_file(path).unwrap();
        }
    }
    stage.start();
    stage.delivered(30).await;
    let daemons = stage.store.incarnations().await.unwrap();
    assert_eq!(daemons.len(), 2);
    assert!(daemons.iter().all(|one| one.alive), "{daemons:?}");
    life.stop().await.unwrap();
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_at_once_where_its_file_lock_is_free() {
    takes_over(Ground::rabbit_sqlite().await, Duration::from_secs(20)).await;
}

/// This very process lives on, so that only the session tells: it counts once the dead one's fence must have closed,
/// 4 s after its last heartbeat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_behind_its_fence_where_only_its_session_is_gone() {
    let taken_over = takes_over(Ground::rabbit_postgres().await, Duration::from_secs(30)).await;
    assert!(taken_over >= Duration::from_secs(4), "{taken_over:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemons_queues_are_taken_over_with_the_embedded_broker() {
    takes_over(Ground::embedded(), Duration::from_secs(20)).await;
}

/// Commands come and go all day: each is an incarnation that is newer than the daemon.
async fn is_found_dead_behind_commands(ground: Ground) {
    let mut stage = Stage::quiet(ground, |settings| {
        settings.take_over = Duration::from_secs(4);
        settings.request_timeout = Duration::from_secs(1);
    })
    .await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(50)));
    for n in 0..4 {
        stage.publish_many(&format!("e{n}"), "/ok", 10).await;
    }
    let life = Life::start(&stage);
    stage.delivered(4).await;
    for _ in 0..210 {
        let command = incarnation_of(&stage, "a command").await;
        stage.store.incarnation_end(command).await.unwrap();
    }
    stage.publish_many("late", "/ok", 20).await;
    life.crash();
    stage.start();
    stage.delivered(60).await;
    stage.stop().await;
    stage.history.faults_of_all = 1;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemon_is_found_behind_hundreds_of_newer_commands_with_sqlite() {
    is_found_dead_behind_commands(Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_daemon_is_found_behind_hundreds_of_newer_commands_with_postgres() {
    is_found_dead_behind_commands(Ground::rabbit_postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_is_followed_before_the_next_immediate_retry() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |settings| {
        settings.request_timeout = Duration::from_secs(5);
        settings.default_policy.retries_with_no_delay = 3;
    })
    .await;
    stage
        .receiver
        .behave("/slow", Behaviour::Status(500).after(Duration::from_secs(3)));
    stage.publish("a", "/slow").await;
    wait_until("the first attempt", BOUND, async || {
        (stage.receiver.count() == 1).then_some(())
    })
    .await;
    stage.execute(Command::PauseQueue(stage.queue("a", "/slow"))).await;
    stage.queue_is("a", "/slow", "paused").await;
    assert_eq!(stage.receiver.count(), 1, "only the attempt that was in hand");
    stage.receiver.behave("/slow", Behaviour::Status(200));
    stage.execute(Command::ResumeQueue(stage.queue("a", "/slow"))).await;
    stage.delivered(1).await;
    stage.stop().await;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_daemons_share_the_queues_and_no_queue_has_two_workers() {
    let mut stage = Stage::on(Ground::rabbit_postgres().await, |settings| {
        settings.workers = 4;
        settings.linger = Duration::from_millis(50);
    })
    .await;
    stage
        .receiver
        .behave("*", Behaviour::Status(200).after(Duration::from_millis(10)));
    let life = Life::start(&stage);
    for _ in 0..10 {
        for n in 0..12 {
            stage.publish(&format!("e{n}"), &format!("/{}", n % 3)).await;
        }
    }
    stage.delivered(120).await;
    life.stop().await.unwrap();
    stage.stop().await;
    stage.assert_kept();
}

/// Nothing can be read from the store or written to it; deliveries that need neither go on for as long as
/// others cannot take the queues, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_store_does_not_answer_stops_by_itself_and_goes_on_when_it_does() {
    let postgres = PrivatePostgres::start().await;
    let ground = Ground::RabbitPostgres {
        vhost: Vhost::create().await,
        database: Database::create_on(&postgres.url).await,
    };
    let mut stage = Stage::on(ground, |settings| {
        settings.take_over = Duration::from_secs(6);
        settings.request_timeout = Duration::from_secs(1);
    })
    .await;
    stage
        .receiver
        .behave("/ok", Behaviour::Status(200).after(Duration::from_millis(100)));
    for n in 0..4 {
        stage.publish_many(&format!("e{n}"), "/ok", 100).await;
    }
    stage.delivered(8).await;
    postgres.freeze().await;
    let frozen = std::time::Instant::now();
    // Six seconds less two deadlines after the last heartbeat.
    let mut last = stage.receiver.count();
    let mut still = std::time::Instant::now();
    wait_until("the attempts to stop", Duration::from_secs(15), async || {
        let now = stage.receiver.count();
        if now != last {
            (last, still) = (now, std::time::Instant::now());
        }
        (still.elapsed() >= patient(Duration::from_secs(1))).then_some(())
    })
    .await;
    let attempts = stage.receiver.attempts();
    let latest = attempts.iter().map(|attempt| attempt.started_at).max().unwrap();
    assert!(
        latest.saturating_duration_since(frozen) <= Duration::from_secs(4) + patient(Duration::from_millis(500)),
        "an attempt began {:?} after the store fell silent",
        latest.saturating_duration_since(frozen)
    );
    assert!(stage.receiver.delivered() < 400, "nothing was left to go on with");
    let silent = stage.receiver.count();
    stays_absent("an attempt while fenced", Duration::from_secs(4), async || {
        (stage.receiver.count() > silent).then_some(())
    })
    .await;
    postgres.thaw().await;
    wait_until("it to go on", Duration::from_secs(15), async || {
        (stage.receiver.count() > silent).then_some(())
    })
    .await;
    wait_until("all of it", BOUND, async || {
        (stage.receiver.delivered() >= 400).then_some(())
    })
    .await;
    stage.stop().await;
    stage.history.faults_of_all = 1;
    stage.assert_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_other_settings_does_not_begin_and_says_which_must_stay() {
    let mut stage = Stage::on(Ground::rabbit_sqlite().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    stage.delivered(1).await;
    let settings = stage.settings.clone();
    stage.settings.naming.url_hash_key = "another key".to_owned();
    let mut other = Life::start(&stage);
    let error = other.result().await.unwrap_err();
    let EngineError::Refused { why } = &error else {
        panic!("{error:?}")
    };
    assert!(
        why.contains("url_hash_key") && why.contains("works with other settings"),
        "{why}"
    );
    stage.settings = settings;
    stage.publish("a", "/ok").await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

/// Nobody but the daemon is alive, and nobody wants the queue.
async fn leaves_nothing(stage: &Stage, queue: &QueueName) {
    wait_until("the command's incarnation to be over", BOUND, async || {
        let living = stage.store.incarnations_living().await.unwrap();
        living.iter().all(|one| one.delivers).then_some(())
    })
    .await;
    let row = stage.store.queue_get(queue).await.unwrap().unwrap();
    assert_eq!(row.wanted_by, None);
}

/// As a console or a client of the API does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_given_up_while_it_waits_leaves_nothing_behind() {
    let mut stage = Stage::on(Ground::embedded(), |settings| {
        settings.request_timeout = Duration::from_secs(10);
        settings.take_over = Duration::from_secs(40);
    })
    .await;
    stage
        .receiver
        .behave("/slow", Behaviour::Status(200).after(Duration::from_secs(4)));
    stage.publish_many("a", "/slow", 2).await;
    wait_until("the first attempt", BOUND, async || {
        (stage.receiver.count() == 1).then_some(())
    })
    .await;
    let (engine, queue) = (stage.engine.clone(), stage.queue("a", "/slow"));
    let asked = queue.clone();
    let browse = tokio::spawn(async move { engine.query(query::Browse { queue: asked, limit: 1 }).await });
    wait_until("its wish", BOUND, async || {
        stage.store.queue_get(&queue).await.unwrap().unwrap().wanted_by
    })
    .await;
    let why = stage.queue_view("a", "/slow").await.unwrap().why.unwrap();
    assert!(
        why.text.contains("browse-") && why.text.contains("wants it next"),
        "{why:?}"
    );
    browse.abort();
    leaves_nothing(&stage, &queue).await;
    stage.delivered(2).await;
    stage.stop().await;
    stage.assert_kept();
}

/// On SQLite its lock file would be held by a process that lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_panics_leaves_nothing_behind() {
    let (mut stage, faulty) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    stage.publish("a", "/ok").await;
    let mut calls = 0;
    faulty.plan(move |call| {
        calls += u32::from(call == "leases_take");
        assert!(call != "leases_take" || calls > 1, "a fault of the program");
        None
    });
    let (engine, queue) = (stage.engine.clone(), stage.queue("a", "/ok"));
    let asked = queue.clone();
    let browse = tokio::spawn(async move { engine.query(query::Browse { queue: asked, limit: 1 }).await });
    let broke_off = browse.await.unwrap();
    assert!(matches!(broke_off, Err(EngineError::Refused { .. })), "{broke_off:?}");
    leaves_nothing(&stage, &queue).await;
    stage.start();
    stage.delivered(1).await;
    stage.stop().await;
    stage.assert_kept();
}

/// A person in an open transaction. Nobody can take the queue, and no worker is lacking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_whose_row_somebody_else_has_locked_says_so_and_continues_after_it() {
    let mut stage = Stage::quiet(Ground::rabbit_postgres().await, |_| {}).await;
    stage.publish("a", "/ok").await;
    let queue = stage.queue("a", "/ok");
    let database = stage.ground.place().postgres.unwrap();
    let mut somebody = PgConnection::connect(&database).await.unwrap();
    let lock = format!(
        "BEGIN; SELECT 1 FROM redrive.delivery_queues WHERE name = '{}' FOR UPDATE",
        queue.as_str()
    );
    let locking = sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut somebody);
    locking.await.unwrap();
    stage.start();
    wait_until("the reason why it stands still", BOUND, async || {
        let why = stage.queue_view("a", "/ok").await?.why?.text;
        (why.contains("session ") && why.contains("has locked its row")).then_some(())
    })
    .await;
    wait_until("doctor to name the session", BOUND, async || {
        let checks = stage.engine.query(query::Doctor()).await.unwrap();
        let named = |mend: &String| mend.contains("pg_terminate_backend");
        checks
            .iter()
            .any(|check| check.mend.as_ref().is_some_and(named))
            .then_some(())
    })
    .await;
    sqlx::raw_sql("ROLLBACK").execute(&mut somebody).await.unwrap();
    stage.delivered(1).await;
    stage.stop().await;
    stage.assert_kept();
}
