//! Snapshots of engines at work: what they show, what they keep, and what they say when store or broker
//! are away; and a process that delivers only while no other one does.

mod alone;
mod elsewhere;
mod looks;
mod outages;

use std::sync::Arc;
use std::time::Duration;

use redrive::internals::domain::endpoint::EndpointState;
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::url::EndpointUrl;
use redrive::internals::engine::Engine;
use redrive::internals::engine::observe::Observer;
use redrive::internals::engine::snapshot::{EndpointRow, QueueRow, Snapshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::wait::wait_until;

/// How long anything may take, servers that start again included.
const BOUND: Duration = Duration::from_secs(60);
const REFRESH: Duration = Duration::from_millis(200);

/// An observer that ends with this value.
struct Watching {
    observer: Observer,
    _stop: DropGuard,
}

impl Watching {
    fn of(engine: &Engine) -> Self {
        let stop = CancellationToken::new();
        Self {
            observer: engine.observe(REFRESH, stop.clone()),
            _stop: stop.drop_guard(),
        }
    }

    fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.observer.snapshots().borrow())
    }

    /// The first snapshot from now on that `is_it` says yes to.
    async fn until(&self, what: &str, mut is_it: impl FnMut(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut last = None;
        let found = wait_until(what, BOUND, async || {
            let newest = self.newest();
            let found = is_it(&newest).then(|| Arc::clone(&newest));
            last = Some(newest);
            found
        });
        found.await
    }

    /// A snapshot that was begun after this call.
    async fn next(&self) -> Arc<Snapshot> {
        // The one that is being made now may have begun before.
        let enough = self.newest().generation + 2;
        self.observer.look_now();
        self.until("two more looks", |snapshot| snapshot.generation >= enough)
            .await
    }
}

fn queue<'a>(snapshot: &'a Snapshot, name: &QueueName) -> Option<&'a Arc<QueueRow>> {
    snapshot.queues.iter().find(|row| row.name == *name)
}

fn endpoint<'a>(snapshot: &'a Snapshot, url: &EndpointUrl) -> Option<&'a Arc<EndpointRow>> {
    snapshot.endpoints.iter().find(|row| row.endpoint.url == *url)
}

fn is_in(snapshot: &Snapshot, url: &EndpointUrl, state: EndpointState) -> bool {
    endpoint(snapshot, url).is_some_and(|row| row.endpoint.state == state)
}
