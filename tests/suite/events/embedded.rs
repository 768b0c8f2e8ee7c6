//! Events in this process: handlers of those who embed the library, and answers of the store that come too late.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive::internals::broker::Look;
use redrive::internals::domain::event::{Event, EventState, EventType, NewEvent, Reference};
use redrive::internals::domain::id::{ExecutionId, NotificationId};
use redrive::internals::domain::message::encode;
use redrive::internals::domain::notification::Notification;
use redrive::internals::domain::time::Timestamp;
use redrive::internals::engine::events::{
    EventCommand, EventHandler, Finished, Handled, HandlerAction, HandlerSettings,
};
use redrive::internals::engine::query;
use redrive::internals::engine::{Command, EngineSettings};
use redrive::internals::store::{Begun, EventBatch, NewIncarnation, ProcessMark};
use tokio_util::sync::CancellationToken;

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::faulty_store::Fault;
use crate::support::wait::{stays_absent, wait_until};

fn imports() -> EventType {
    EventType::parse("imports").unwrap()
}

fn an_event() -> NewEvent {
    NewEvent {
        event_type: imports(),
        reference: Reference::parse("4711").unwrap(),
        nbf: None,
        reason: None,
        payload: None,
        lifetime: None,
        trace: None,
    }
}

struct Panics;

#[async_trait]
impl EventHandler for Panics {
    async fn handle(&self, event: &Event) -> Handled {
        panic!("no luck with {}", event.reference.as_str())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_is_a_failure_of_its_event_and_lets_go_of_it() {
    let stage = Stage::quiet(Ground::embedded(), |_| {}).await;
    let id = stage.engine.event_push(an_event()).await.unwrap().id;
    stage.engine.handle_events(imports(), Arc::new(Panics));
    let processed = stage.engine.process_once(&imports(), CancellationToken::new()).await;
    assert_eq!(processed.unwrap().ended, [(Finished::Retried, 1)]);
    let event = stage.engine.query(query::OneEvent(id)).await.unwrap();
    let reason = event.reason.unwrap();
    assert!(reason.ends_with("error=panic: no luck with 4711"), "{reason}");
    assert_eq!((event.state, event.attempts), (EventState::Ready, 1));
}

/// The page of the outbox comes so late that this process may not go on by then: what is on it is somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_slept_over_its_page_of_the_outbox_publishes_nothing_of_it() {
    let webhook = |settings: &mut redrive::internals::engine::EngineSettings| {
        settings.request_timeout = Duration::from_secs(1);
        settings.take_over = Duration::from_secs(6);
        settings.events.handlers = vec![HandlerSettings {
            event_type: imports(),
            action: HandlerAction::Webhook,
        }];
    };
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), webhook).await;
    for command in [
        EventCommand::SetType {
            event_type: imports(),
            document: "{}".to_owned(),
        },
        EventCommand::Subscribe {
            event_type: imports(),
            url: stage.url("/hook"),
            options: "{}".to_owned(),
        },
    ] {
        stage.execute(Command::Events(command)).await;
    }
    let (finished, page) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let given = Arc::clone(&page);
    store.plan(move |call| match call {
        "events_finish" => {
            finished.store(true, Ordering::SeqCst);
            None
        }
        "outbox_page" if finished.load(Ordering::SeqCst) => {
            given.store(true, Ordering::SeqCst);
            Some(Fault::Late(Duration::from_secs(6)))
        }
        "heartbeat" if finished.load(Ordering::SeqCst) => Some(Fault::Unheard),
        _ => None,
    });
    stage.engine.event_push(an_event()).await.unwrap();
    stage.start();
    wait_until("the page to be asked for", BOUND, async || {
        page.load(Ordering::SeqCst).then_some(())
    })
    .await;
    let execution = ExecutionId::parse("imports:4711").unwrap();
    let queue = stage.settings.naming.delivery_queue(&execution, &stage.url("/hook"));
    stays_absent("a notification", Duration::from_secs(8), async || {
        let look = stage.broker.look(&queue).await.unwrap();
        (look != Look::Missing).then_some(look)
    })
    .await;
    assert_eq!(
        stage.store.outbox_waiting().await.unwrap().count,
        1,
        "it waits for who may"
    );
}

/// Two notifications of one delivery queue: the first can never be published, the second could at once.
/// Stores notifications to one queue; `None` is one that nobody can read.
async fn store_notifications(stage: &Stage, ids: &[(&str, Option<&str>)]) {
    let execution = ExecutionId::parse("imports:4711").unwrap();
    let url = stage.url("/hook");
    let queue = stage.settings.naming.delivery_queue(&execution, &url);
    let row = |(id, body): &(&str, Option<&str>)| {
        let encoded = |body: &str| {
            let notification = Notification {
                id: NotificationId::parse(id).unwrap(),
                execution: execution.clone(),
                url: url.clone(),
                headers: Vec::new(),
                content_type: None,
                body: body.to_owned().into(),
                polling_time_s: None,
                restart_count: None,
                created_at: None,
                event_type: None,
                subscription: None,
            };
            encode(&notification.to_message()).unwrap()
        };
        let bytes = body.map_or_else(|| vec![0], encoded);
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        format!("('{id}', '{}', x'{hex}', 'imports', '4711', 1)", queue.as_str())
    };
    let rows: Vec<String> = ids.iter().map(row).collect();
    stage
        .tamper(&format!(
            "INSERT INTO TABLE.event_outbox (notification, queue, message, type, reference, created_at) VALUES {}",
            rows.join(", ")
        ))
        .await;
}

fn webhook(settings: &mut EngineSettings) {
    settings.events.handlers = vec![HandlerSettings {
        event_type: imports(),
        action: HandlerAction::Webhook,
    }];
}

/// What is published and not noted is published again after a crash between the two: one at most, so that no old one comes
/// behind a newer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_cannot_note_what_it_published_publishes_no_other_of_that_queue() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), webhook).await;
    let (asked, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (asking, answering) = (Arc::clone(&asked), Arc::clone(&answers));
    store.plan(move |call| match call {
        "outbox_published" => {
            asking.fetch_add(1, Ordering::SeqCst);
            (!answering.load(Ordering::SeqCst)).then_some(Fault::Unheard)
        }
        _ => None,
    });
    store_notifications(&stage, &[("n1", Some("1")), ("n2", Some("2")), ("n3", Some("3"))]).await;
    stage.start();
    stage.delivered(1).await;
    wait_until("the pump to try again", BOUND, async || {
        (asked.load(Ordering::SeqCst) >= 3).then_some(())
    })
    .await;
    let ids = || {
        let attempts = stage.receiver.attempts();
        let mut ids: Vec<String> = attempts.iter().map(|attempt| attempt.id().to_owned()).collect();
        ids.dedup();
        ids
    };
    assert_eq!(ids(), ["n1"], "the others wait until it is noted");
    answers.store(true, Ordering::SeqCst);
    wait_until("all of them", BOUND, async || (ids().len() >= 3).then_some(())).await;
    assert_eq!(ids(), ["n1", "n2", "n3"]);
    stage.stop().await;
}

/// The pump finds out that its lease is somebody else's when it buries a notification: those behind it are his.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pump_that_lost_its_lease_publishes_nothing_behind_what_it_could_not_bury() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), webhook).await;
    // Somebody else who lives has the lease from when the pump has it.
    let (other, _) = stage.ground.place().open(&stage.settings.naming).await;
    let new = NewIncarnation {
        name: "another".to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        process: ProcessMark::default(),
        take_over: stage.settings.take_over,
        deadline: stage.settings.request_timeout,
        version: 1_000,
        naming: None,
        replaces_settings: false,
    };
    let Begun::Alive(another) = other.incarnation_begin(new).await.unwrap() else {
        panic!("nobody has other settings");
    };
    let (buried, asked_again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (burying, asking) = (Arc::clone(&buried), Arc::clone(&asked_again));
    store.plan(move |call| {
        match call {
            "outbox_bury" => burying.store(true, Ordering::SeqCst),
            "named_lease_take" if burying.load(Ordering::SeqCst) => asking.store(true, Ordering::SeqCst),
            _ => {}
        }
        None
    });
    stage.start();
    wait_until("the pump to have its lease", BOUND, async || {
        let held = "SELECT count(*) FROM named_leases WHERE name = 'outbox' AND owner IS NOT NULL";
        (stage.count(held).await == 1).then_some(())
    })
    .await;
    let taken = format!(
        "UPDATE TABLE.named_leases SET owner = {}, epoch = epoch + 1 WHERE name = 'outbox'",
        another.0
    );
    stage.tamper(&taken).await;
    store_notifications(&stage, &[("first", None), ("second", Some("x"))]).await;
    wait_until("the pump to ask for its lease again", BOUND, async || {
        asked_again.load(Ordering::SeqCst).then_some(())
    })
    .await;
    assert!(buried.load(Ordering::SeqCst));
    assert_eq!(
        stage.receiver.count(),
        0,
        "the second one was published without the lease"
    );
    assert_eq!(stage.store.outbox_waiting().await.unwrap().count, 2);
    // The other one ends: what is left is done by whoever has the lease then.
    other.incarnation_end(another).await.unwrap();
    stage.delivered(1).await;
    wait_until("an empty outbox", BOUND, async || {
        (stage.store.outbox_waiting().await.unwrap().count == 0).then_some(())
    })
    .await;
    stage.stop().await;
}

/// A row that no program of ours wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_of_the_outbox_that_makes_no_sense_holds_up_no_other_queue() {
    let mut stage = Stage::quiet(Ground::embedded(), webhook).await;
    store_notifications(&stage, &[("odd", Some("1")), ("plain", Some("2"))]).await;
    stage
        .tamper(
            "UPDATE TABLE.event_outbox SET attempts = -1, type = '', reference = char(10) WHERE notification = 'odd'",
        )
        .await;
    stage.start();
    stage.delivered(2).await;
    stage.stop().await;
}

/// Their events are handled, and gone from the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tells_of_notifications_that_are_not_published() {
    let stage = Stage::quiet(Ground::embedded(), webhook).await;
    let of_outbox = async || {
        let checks = stage.engine.query(query::Doctor()).await.unwrap();
        checks.into_iter().find(|check| check.name == "outbox")
    };
    assert_eq!(of_outbox().await, None);
    store_notifications(&stage, &[("n1", Some("1")), ("n2", Some("2"))]).await;
    stage
        .tamper("UPDATE TABLE.event_outbox SET error = 'the broker is away' WHERE notification = 'n1'")
        .await;
    let found = of_outbox().await.unwrap().found;
    assert!(
        found.starts_with("2 notifications") && found.ends_with("the broker is away"),
        "{found}"
    );
}

/// Locks the row of the event `held` before it is done with it, as an open transaction of a person would.
struct Locks {
    database: String,
    transaction: tokio::sync::Mutex<Option<sqlx::PgConnection>>,
    is_locked: CancellationToken,
}

#[async_trait]
impl EventHandler for Locks {
    async fn handle(&self, event: &Event) -> Handled {
        use sqlx::Connection as _;
        if event.reference.as_str() == "held" {
            let mut connection = sqlx::PgConnection::connect(&self.database).await.unwrap();
            let lock = "BEGIN; SELECT 1 FROM redrive.events WHERE reference = 'held' FOR UPDATE";
            sqlx::raw_sql(lock).execute(&mut connection).await.unwrap();
            *self.transaction.lock().await = Some(connection);
            self.is_locked.cancel();
        } else {
            self.is_locked.cancelled().await;
        }
        Handled::Done
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_row_somebody_else_has_locked_holds_up_the_end_of_no_other() {
    let mut stage = Stage::quiet(Ground::rabbit_postgres().await, |settings| settings.events.workers = 8).await;
    let handler = Arc::new(Locks {
        database: stage.ground.place().postgres.unwrap(),
        transaction: tokio::sync::Mutex::default(),
        is_locked: CancellationToken::new(),
    });
    stage
        .engine
        .handle_events(imports(), Arc::clone(&handler) as Arc<dyn EventHandler>);
    for reference in ["held", "a", "b", "c", "d"] {
        let event = NewEvent {
            reference: Reference::parse(reference).unwrap(),
            ..an_event()
        };
        stage.engine.event_push(event).await.unwrap();
    }
    stage.start();
    let left = async |count: u64| {
        wait_until("handled events to be finished", BOUND, async || {
            let counts = stage.store.events_counts().await.unwrap();
            (counts.iter().map(|one| one.count).sum::<u64>() == count).then_some(())
        })
        .await;
    };
    handler.is_locked.cancelled().await;
    left(1).await;
    // It is finished once the other one is done with it.
    drop(handler.transaction.lock().await.take());
    left(0).await;
    stage.stop().await;
}

/// Counts what is handled, and what of one reference is handled while another event of it is.
#[derive(Default)]
struct OneByOne {
    at_work: std::sync::Mutex<HashSet<String>>,
    handled: AtomicUsize,
    overlaps: AtomicUsize,
}

#[async_trait]
impl EventHandler for OneByOne {
    async fn handle(&self, event: &Event) -> Handled {
        let reference = event.reference.as_str().to_owned();
        if !self.at_work.lock().unwrap().insert(reference.clone()) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        tokio::task::yield_now().await;
        self.at_work.lock().unwrap().remove(&reference);
        self.handled.fetch_add(1, Ordering::Relaxed);
        Handled::Done
    }
}

/// So many that several statements take them side by side: two of each reference, of which only one may be at work.
async fn a_crowd_is_handled_once_and_one_by_one(ground: Ground) {
    const REFERENCES: usize = 2_000;
    let settings = |settings: &mut EngineSettings| settings.events.ahead = Duration::from_secs(60);
    let stage = Stage::quiet(ground, settings).await;
    for from in (0..REFERENCES).step_by(500) {
        let events = (from..from + 500).flat_map(|number| {
            [None, Some(Timestamp::from_seconds(1_000_000_000))].map(|nbf| NewEvent {
                reference: Reference::parse(&number.to_string()).unwrap(),
                nbf,
                ..an_event()
            })
        });
        let batch = EventBatch {
            events: events.collect(),
            ..EventBatch::default()
        };
        stage.store.events_push(&batch).await.unwrap();
    }
    let handler = Arc::new(OneByOne::default());
    stage
        .engine
        .handle_events(imports(), Arc::clone(&handler) as Arc<dyn EventHandler>);
    let processed = stage.engine.process_once(&imports(), CancellationToken::new()).await;
    let all = 2 * REFERENCES;
    assert_eq!(processed.unwrap().ended, [(Finished::Done, all as u64)]);
    assert_eq!(handler.handled.load(Ordering::Relaxed), all);
    assert_eq!(handler.overlaps.load(Ordering::Relaxed), 0);
    assert_eq!(stage.store.events_counts().await.unwrap(), Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_events_is_handled_once_and_one_by_one_embedded() {
    a_crowd_is_handled_once_and_one_by_one(Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_events_is_handled_once_and_one_by_one_on_postgres() {
    a_crowd_is_handled_once_and_one_by_one(Ground::rabbit_postgres().await).await;
}
