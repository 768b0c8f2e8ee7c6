//! Endpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::pace::{PaceOrder, Ramp, STEP_S, STOP_AFTER};
use crate::engine::view::EndpointView;

use super::{Time, Unread, time, unread, words};

/// An endpoint.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Endpoint {
    /// Its URL.
    pub url: String,
    /// The state.
    #[schemars(with = "words::Availability")]
    pub state: &'static str,
    /// Since when it is in that state.
    pub since: Option<Time>,
    /// Attempts that failed since it was available.
    pub attempts: u32,
    /// When it is tried next.
    pub next_attempt_at: Option<Time>,
    /// The HTTP status of the last answer.
    pub last_status: Option<u16>,
    /// The last error where there was no answer.
    pub last_error: Option<String>,
    /// When it took something last.
    pub last_success_at: Option<Time>,
    /// The queue whose head tries whether it is back.
    pub probe_queue: Option<String>,
    /// The notification that tries it.
    pub probe_message_id: Option<String>,
    /// Its queues.
    pub queues: u64,
    /// Messages that wait for it; null: not known.
    pub waiting: Option<u64>,
    /// How fast it is delivered to, where somebody or its policy limits that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Unread>,
}

/// How fast an endpoint goes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "EndpointPace")]
pub struct Pace {
    /// Where it stands.
    #[schemars(with = "words::PaceStage")]
    pub stage: &'static str,
    /// The same as a sentence.
    pub text: String,
    /// Messages a second, at most.
    pub rate: Option<u32>,
    /// Messages a second at this moment; null: it is held back, or nothing limits it.
    pub rate_now: Option<u32>,
    /// How many times faster it goes at each step.
    pub ramp: Option<u32>,
    /// Seconds between steps.
    pub ramp_every_s: Option<u32>,
    /// So many first.
    pub canary: Option<u32>,
    /// For how many seconds those are watched.
    pub canary_watch_s: Option<u32>,
    /// Stop after so many failures in a row; 0: never.
    pub stop_after: Option<u32>,
    /// Failed attempts since it was asked for.
    pub failed: u32,
    /// Who set it.
    pub by: Option<String>,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// Why, where that was said.
    pub paused_reason: Option<String>,
    /// When it began.
    pub since: Option<Time>,
    /// How long until nothing waits, in seconds.
    pub empty_in_s: Option<u64>,
}

impl Pace {
    fn of(view: &EndpointView) -> Option<Self> {
        let (pace, now) = (view.endpoint.pace.as_ref()?, view.taken_at);
        let order = &pace.order;
        Some(Self {
            stage: pace.stage(now).as_str(),
            text: pace.says(view.endpoint.going(view.waiting), now),
            rate: order.rate,
            rate_now: pace.rate_at(now).filter(|_| !pace.is_held(now)),
            ramp: order.ramp.map(|ramp| ramp.factor),
            ramp_every_s: order.ramp.map(|ramp| ramp.every_s),
            canary: order.canary,
            canary_watch_s: order.watch_s,
            stop_after: order.stop_after,
            failed: pace.failed,
            by: pace.by.clone(),
            paused_by: pace.brake.as_ref().map(|brake| brake.by.clone()),
            paused_reason: pace.brake.as_ref().and_then(|brake| brake.reason.clone()),
            since: time(pace.began_at),
            empty_in_s: view
                .endpoint
                .going(view.waiting)
                .and_then(|waiting| pace.takes(waiting, now))
                .map(|takes| takes.as_secs()),
        })
    }
}

/// A pace as it is asked for.
#[derive(Clone, Copy, Debug, Default, JsonSchema, Deserialize)]
pub struct PaceInput {
    /// Messages a second, at most.
    pub rate: Option<u32>,
    /// So many first.
    pub canary: Option<u32>,
    /// For how many seconds those are watched.
    pub canary_watch_s: Option<u32>,
    /// How many times faster it goes at each step.
    pub ramp: Option<u32>,
    /// Seconds between steps.
    pub ramp_every_s: Option<u32>,
    /// Stop after so many failures in a row; 0: never.
    pub stop_after: Option<u32>,
}

impl PaceInput {
    /// What it asks for; `None`: nothing.
    #[must_use]
    pub fn order(&self) -> Option<PaceOrder> {
        let ramp = (self.ramp.is_some() || self.ramp_every_s.is_some()).then(|| Ramp {
            from: 1,
            factor: self.ramp.unwrap_or(2),
            every_s: self.ramp_every_s.unwrap_or(STEP_S),
        });
        let order = PaceOrder {
            rate: self.rate,
            ramp,
            canary: self.canary,
            watch_s: self.canary_watch_s,
            stop_after: self.stop_after.filter(|stop| *stop > 0),
            ends_at_rate: false,
        };
        (order != PaceOrder::default()).then_some(order)
    }

    /// The same for what begins: without a word about it, it stops after a few failures.
    #[must_use]
    pub fn begins(&self) -> Option<PaceOrder> {
        let order = self.order()?;
        let stop_after = match self.stop_after {
            None => Some(STOP_AFTER),
            Some(_) => order.stop_after,
        };
        Some(PaceOrder { stop_after, ..order })
    }
}

impl From<&EndpointView> for Endpoint {
    fn from(view: &EndpointView) -> Self {
        let endpoint = &view.endpoint;
        Self {
            url: endpoint.url.as_str().to_owned(),
            state: endpoint.state.as_str(),
            since: time(endpoint.since),
            attempts: endpoint.attempts,
            next_attempt_at: endpoint.next_attempt_at.and_then(time),
            last_status: endpoint.last_status,
            last_error: endpoint.last_error.clone(),
            last_success_at: endpoint.last_success_at.and_then(time),
            probe_queue: endpoint.probe_queue.as_ref().map(|name| name.as_str().to_owned()),
            probe_message_id: endpoint.probe_message.as_ref().map(|id| id.as_str().to_owned()),
            queues: view.queues,
            waiting: view.waiting,
            pace: Pace::of(view),
            problems: unread(&view.problems),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::{Endpoint as Row, EndpointState};
    use crate::domain::time::Timestamp;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn an_endpoint_has_the_keys_of_the_contract() {
        let url = EndpointUrl::parse("http://example.com").unwrap();
        let view = EndpointView {
            endpoint: Row {
                attempts: 4,
                next_attempt_at: Some(Timestamp::from_seconds(5)),
                last_status: Some(503),
                ..Row::of(url, EndpointState::Unavailable, Timestamp::from_seconds(0))
            },
            queues: 2,
            waiting: None,
            taken_at: Timestamp::from_seconds(0),
            problems: Vec::new(),
        };
        let json = serde_json::to_value(Endpoint::from(&view)).unwrap();
        for key in [
            "url",
            "state",
            "since",
            "attempts",
            "next_attempt_at",
            "last_status",
            "last_error",
            "queues",
            "waiting",
        ] {
            assert!(json.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(json["state"], "unavailable");
        assert_eq!(json["next_attempt_at"], "1970-01-01T00:00:05Z");
        assert!(json["waiting"].is_null());
    }
}
