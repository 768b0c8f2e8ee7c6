//! A daemon is told to stop while a run cannot be recorded, and the work on a run breaks off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::internals::ambient;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::job::{JobId, JobPart, Lifetime};
use redrive::internals::domain::message::Message;
use redrive::internals::domain::run::RunState;
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Command, Done, EngineSettings};

use crate::engine::stage::{BOUND, Ground, Stage};
use crate::support::faulty_store::{Fault, FaultyStore};
use crate::support::wait::{wait_until, within};

/// A daemon that is quiet at first, over a store with faults, and a run that moves three messages; the first queue
/// is where they are, the second where they go.
struct Moving {
    stage: Stage,
    store: Arc<FaultyStore>,
    from: QueueName,
    to: QueueName,
}

impl Moving {
    async fn prepare(change: impl FnOnce(&mut EngineSettings)) -> Self {
        let (stage, store) = Stage::quiet_over_faults(Ground::embedded(), change).await;
        let id = JobId::parse(&ambient::new_id()).unwrap();
        let lifetime = Lifetime::of(Duration::from_mins(10)).unwrap();
        stage.engine.job_submit(id.clone(), lifetime).await.unwrap();
        let (from, to) = (id.queue(JobPart::Result), id.queue(JobPart::Status));
        for _ in 0..3 {
            stage.broker.publish(&from, &Message::default()).await.unwrap();
        }
        Self { stage, store, from, to }
    }

    /// The run's id.
    async fn begin(&self) -> String {
        let order = Order {
            to: Some(self.to.clone()),
            ..Order::new(OrderKind::Move, Selection::Queue(self.from.clone()))
        };
        let Done::Run(run) = self.stage.execute(Command::Run(order)).await else {
            panic!("no run")
        };
        run.record.id
    }

    /// The run ends by itself, with everything moved once.
    async fn ends(mut self, id: &str) {
        let over = self.stage.engine.follow_run(id, |_| {}).await.unwrap();
        assert_eq!((over.state(), over.counts().done), (RunState::Done, 3), "{over:?}");
        assert_eq!(self.stage.broker.browse(&self.to, 10).await.unwrap().len(), 3);
        assert_eq!(self.stage.broker.browse(&self.from, 10).await.unwrap().len(), 0);
        self.stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_a_store_that_is_away_and_the_run_goes_on_later() {
    let mut moving = Moving::prepare(|settings| settings.drain = Duration::from_secs(1)).await;
    moving.stage.start();
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    moving.store.plan(move |call| {
        (call == "run_advance").then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            Fault::Unheard
        })
    });
    let id = moving.begin().await;
    wait_until("the run to need the store", BOUND, async || {
        (asked.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    within(BOUND, Box::pin(moving.stage.restart(|_| {})))
        .await
        .expect("it stops");
    moving.ends(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_work_panicked_is_found_and_goes_on() {
    let mut moving = Moving::prepare(|_| {}).await;
    moving.stage.start();
    let mut calls = 0;
    moving.store.plan(move |call| {
        calls += u32::from(call == "run_advance");
        assert!(call != "run_advance" || calls > 1, "a fault of the program");
        None
    });
    let id = moving.begin().await;
    within(BOUND, moving.ends(&id)).await.expect("it goes on");
}

/// The lease of its own source is nobody else's: neither the answer that gave it nor the one that freed it was heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_does_not_wait_for_a_lease_that_it_has_itself() {
    let (mut stage, store) = Stage::quiet_over_faults(Ground::embedded(), |_| {}).await;
    stage.publish_many("a", "/ok", 2).await;
    // Planning takes the lease, too: faults begin with the run.
    let (mut begun, mut taken, mut freed) = (false, 0, 0);
    store.plan(move |call| {
        begun |= call == "run_take";
        taken += u32::from(begun && call == "leases_take");
        freed += u32::from(begun && call == "lease_free");
        match call {
            "leases_take" if taken == 1 => Some(Fault::Unanswered),
            "lease_free" if begun && freed <= 2 => Some(Fault::Unheard),
            _ => None,
        }
    });
    let queue = stage.queue("a", "/ok");
    let order = Order::skip(queue.clone());
    let Done::Run(run) = stage.execute(Command::Run(order)).await else {
        panic!("no run")
    };
    let over = within(BOUND, stage.engine.follow_run(&run.record.id, |_| {})).await;
    let over = over.expect("it ends").unwrap();
    assert_eq!((over.state(), over.counts().done), (RunState::Done, 1), "{over:?}");
    let row = stage.store.queue_get(&queue).await.unwrap().unwrap();
    assert_eq!((row.owner, row.wanted_by), (None, None));
    wait_until("its incarnation to be over", BOUND, async || {
        stage
            .store
            .incarnations_living()
            .await
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    stage.stop().await;
}
