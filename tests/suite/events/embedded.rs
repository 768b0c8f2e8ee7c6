//! Events in this process: handlers of those who embed the library, and answers of the store that come too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive::broker::Look;
use redrive::domain::event::{Event, EventState, EventType, NewEvent, Reference};
use redrive::domain::id::ExecutionId;
use redrive::engine::events::{
    EventAnswer, EventCommand, EventHandler, EventQuestion, Finished, Handled, HandlerAction, HandlerSettings,
};
use redrive::engine::{Answer, Command, Query};
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
    let one = stage.engine.query(Query::Events(EventQuestion::One(id))).await.unwrap();
    let Answer::Events(EventAnswer::One(event)) = one else {
        panic!("{one:?}")
    };
    let reason = event.reason.unwrap();
    assert!(reason.ends_with("error=panic: no luck with 4711"), "{reason}");
    assert_eq!((event.state, event.attempts), (EventState::Ready, 1));
}

/// The page of the outbox comes so late that this process may not go on by then: what is on it is somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_slept_over_its_page_of_the_outbox_publishes_nothing_of_it() {
    let webhook = |settings: &mut redrive::engine::EngineSettings| {
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
    assert_eq!(stage.store.outbox_count().await.unwrap(), 1, "it waits for who may");
}
