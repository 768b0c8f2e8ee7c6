//! A daemon is told to stop while a run cannot be recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::ambient;
use redrive::domain::job::{JobId, JobPart, Lifetime};
use redrive::domain::message::Message;
use redrive::domain::run::RunState;
use redrive::engine::runs::{Order, OrderKind, Selection};
use redrive::engine::{Command, Done};

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::faulty_store::{Fault, FaultyStore};
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_a_store_that_is_away_and_the_run_goes_on_later() {
    let mut made = None;
    let change = |settings: &mut redrive::engine::EngineSettings| settings.drain = Duration::from_secs(1);
    let mut stage = Stage::quiet_over(Ground::embedded(), change, |store| {
        let faulty = Arc::new(FaultyStore::over(store));
        made = Some(Arc::clone(&faulty));
        faulty
    })
    .await;
    let store = made.unwrap();
    let id = JobId::parse(&ambient::new_id()).unwrap();
    let lifetime = Lifetime::of(Duration::from_mins(10)).unwrap();
    stage.engine.job_submit(id.clone(), lifetime).await.unwrap();
    let (from, to) = (id.queue(JobPart::Result), id.queue(JobPart::Status));
    for _ in 0..3 {
        stage.broker.publish(&from, &Message::default()).await.unwrap();
    }
    stage.start();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    store.plan(move |call| {
        (call == "run_advance").then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            Fault::Unheard
        })
    });
    let order = Order {
        to: Some(to.clone()),
        ..Order::new(OrderKind::Move, Selection::Queue(from.clone()))
    };
    let Done::Run(run) = stage.execute(Command::Run(order)).await else {
        panic!("no run")
    };
    wait_until("the run to need the store", BOUND, async || {
        (asked.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    tokio::time::timeout(BOUND, stage.restart(|_| {}))
        .await
        .expect("it stops");
    let id = run.record.id;
    let over = stage.engine.follow_run(&id, |_| {}).await.unwrap();
    assert_eq!((over.state(), over.counts().done), (RunState::Done, 3), "{over:?}");
    assert_eq!(stage.broker.browse(&to, 10).await.unwrap().len(), 3);
    assert_eq!(stage.broker.browse(&from, 10).await.unwrap().len(), 0);
    stage.stop().await;
}
