//! Queues with a lifetime.

use serde::Serialize;

use super::time;
use crate::engine::expiring::ExpiringQueue;

/// A queue with a lifetime, or a leftover that should have one.
#[derive(Clone, Debug, Serialize)]
pub struct ExpiringShape {
    /// Its name.
    pub name: String,
    /// How long it lives unused; `null`: for ever.
    pub ttl_s: Option<f64>,
    /// For how long nobody has used it; `null`: it is used, or nobody knows.
    pub idle_s: Option<f64>,
    /// When it goes; `null` while it is used.
    pub expires_at: Option<String>,
    /// Whether that is derived from statistics, which lag by seconds.
    pub estimated: bool,
    /// Consumers.
    pub consumers: Option<u64>,
    /// Messages that would be lost.
    pub messages: Option<u64>,
    /// What it is for.
    pub kind: &'static str,
}

impl From<&ExpiringQueue> for ExpiringShape {
    fn from(queue: &ExpiringQueue) -> Self {
        Self {
            name: queue.name.as_str().to_owned(),
            ttl_s: queue.ttl.map(|ttl| ttl.as_secs_f64()),
            idle_s: queue.idle.map(|idle| idle.as_secs_f64()),
            expires_at: queue.expires_at.and_then(time),
            estimated: queue.estimated,
            consumers: queue.consumers,
            messages: queue.messages,
            kind: queue.kind.as_str(),
        }
    }
}
