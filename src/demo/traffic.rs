//! Executions that publish steadily: orders whose progress is told to six receivers.
//!
//! What is published is bounded by what the ledger lets be on its way. Some sequences end with an end
//! mark and begin anew, as a workflow that is run again does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::plan::DemoPlan;
use super::receivers::{Behaviour, DemoEndpoint};
use crate::ambient::{self, Clock};
use crate::domain::id::{ExecutionId, IdError, NotificationId};
use crate::engine::{Ended, Engine, NewNotification};

/// To whom the n-th notification goes; every execution begins at another place.
const TURNS: [Behaviour; 12] = [
    Behaviour::Healthy,
    Behaviour::Slow,
    Behaviour::Down,
    Behaviour::Healthy,
    Behaviour::Flaky,
    Behaviour::Healthy,
    Behaviour::Failing,
    Behaviour::Slow,
    Behaviour::Down,
    Behaviour::Healthy,
    Behaviour::Flaky,
    Behaviour::Gone,
];

/// What happens to an order, in this order.
const STORY: [&str; 8] = [
    "order.created",
    "payment.authorized",
    "order.confirmed",
    "order.packed",
    "shipment.dispatched",
    "shipment.delivered",
    "payment.captured",
    "invoice.issued",
];

/// An end mark follows this many notifications to the healthy endpoint.
const END_EVERY: u64 = 8;

/// The executions at work.
#[derive(Debug)]
pub(super) struct Traffic {
    quiet: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    ended: Arc<AtomicU64>,
}

impl Traffic {
    pub(super) fn start(
        engine: &Engine,
        clock: &Clock,
        ledger: &Ledger,
        endpoints: &[DemoEndpoint],
        plan: &DemoPlan,
    ) -> Result<Self, IdError> {
        let (quiet, ended) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for index in 0..plan.executions {
            let publisher = Publisher {
                engine: engine.clone(),
                ledger: ledger.clone(),
                endpoints: endpoints.to_vec(),
                execution: ExecutionId::parse(&format!("order-{}", 1001 + index))?,
                index,
                ended: Arc::clone(&ended),
            };
            // The first ones are spread over a step, so that traffic is steady.
            let first = plan.step * index / plan.executions.max(1);
            tasks.push(ambient::spawn(
                "demo execution",
                publisher.run(first, plan.step, quiet.clone()),
            ));
        }
        let events = super::events::play(engine.clone(), clock.clone(), plan.step, quiet.clone());
        tasks.push(ambient::spawn("demo events", events));
        Ok(Self { quiet, tasks, ended })
    }

    /// Nothing new is published.
    pub(super) fn quieten(&self) {
        self.quiet.cancel();
    }

    /// Waits for what is being published; the number of sequences that were ended.
    pub(super) async fn stop(self) -> u64 {
        self.quiet.cancel();
        for task in self.tasks {
            let _ = task.await;
        }
        self.ended.load(Ordering::Relaxed)
    }
}

struct Publisher {
    engine: Engine,
    ledger: Ledger,
    endpoints: Vec<DemoEndpoint>,
    execution: ExecutionId,
    index: u32,
    ended: Arc<AtomicU64>,
}

impl Publisher {
    async fn run(self, first: Duration, step: Duration, quiet: CancellationToken) {
        ambient::wait(&quiet, first).await;
        let mut healthy = 0_u64;
        let turns = TURNS.iter().cycle().skip(usize::try_from(self.index * 5).unwrap_or(0));
        for (number, behaviour) in (1_u64..).zip(turns) {
            if quiet.is_cancelled() {
                return;
            }
            let endpoint = self.endpoints.iter().find(|endpoint| endpoint.behaviour == *behaviour);
            if let Some(endpoint) = endpoint.filter(|endpoint| self.ledger.has_room(endpoint.behaviour)) {
                self.publish(endpoint, number).await;
                healthy += u64::from(*behaviour == Behaviour::Healthy);
                if *behaviour == Behaviour::Healthy && healthy.is_multiple_of(END_EVERY) {
                    self.end(endpoint).await;
                }
            }
            ambient::wait(&quiet, step).await;
        }
    }

    async fn publish(&self, endpoint: &DemoEndpoint, number: u64) {
        let Ok(id) = NotificationId::parse(&ambient::new_id()) else {
            return;
        };
        let queue = self.engine.naming().delivery_queue(&self.execution, &endpoint.url);
        self.ledger.publishing(&queue, endpoint.behaviour, &id);
        let published = self
            .engine
            .publish(self.notification(endpoint, id.clone(), number))
            .await;
        if let Err(error) = published {
            tracing::warn!(error = ?error, "a demo notification is not confirmed");
            self.ledger.not_confirmed(&queue, &id);
        }
    }

    async fn end(&self, endpoint: &DemoEndpoint) {
        match self.engine.end(self.execution.clone(), endpoint.url.clone()).await {
            Ok(Ended::Marked(_)) => {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Ended::NoQueue(_)) => {}
            Err(error) => tracing::warn!(error = ?error, "a demo end mark is not confirmed"),
        }
    }

    fn notification(&self, endpoint: &DemoEndpoint, id: NotificationId, number: u64) -> NewNotification {
        let kind = STORY
            .iter()
            .cycle()
            .nth(usize::try_from(number - 1).unwrap_or(0) % STORY.len());
        let kind = kind.copied().unwrap_or_default();
        NewNotification {
            id: Some(id),
            execution: self.execution.clone(),
            url: endpoint.url.clone(),
            headers: vec![("x-event-type".to_owned(), kind.to_owned())],
            content_type: Some("application/json".to_owned()),
            body: self.body(kind, number),
            polling_time_s: None,
            restart_count: None,
        }
    }

    fn body(&self, kind: &str, number: u64) -> Bytes {
        let quantity = 1 + number % 3;
        let price_cents = 1290 + 100 * u64::from(self.index);
        let body = json!({
            "type": kind,
            "sequence": number,
            "data": {
                "order": self.execution.as_str(),
                "customer": { "id": format!("cus_{:04}", 4200 + self.index), "country": "DE" },
                "items": [{ "sku": format!("SKU-{:03}", 100 + number % 17), "quantity": quantity, "price_cents": price_cents }],
                "total_cents": quantity * price_cents,
                "currency": "EUR",
            },
        });
        Bytes::from(body.to_string())
    }
}
