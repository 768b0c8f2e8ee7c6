//! What a person does to an endpoint: redeliver, disable, test.

use std::sync::Arc;

use super::Endpoints;
use super::pace::in_words;
use crate::delivery::{Method, Request};
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState, disabled_by};
use crate::domain::id::{NotificationId, TEST_ID_PREFIX};
use crate::domain::outcome::Outcome;
use crate::domain::pace::{Pace, PaceOrder};
use crate::domain::text;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::words::plural_of;
use crate::engine::EngineError;
use crate::engine::command::{
    Command, Done, Plan, PlanLine, RedeliverTarget, Redelivered, Tested, WriteGrant, hash_with, simple,
};
use crate::engine::operation::{About, Friction, Operation, Subject};
use crate::store::{Changed, HeadScope, QueuesOnly};
use crate::telemetry::names;

/// Lines of a plan, at most: more are counted.
const LINES_MAX: usize = 10_000;
/// What a test of an endpoint may send.
const TEST_METHODS: [&str; 4] = ["HEAD", "GET", "OPTIONS", "POST"];

/// Endpoints are available again, at once or at a pace.
pub(in crate::engine) struct Redeliver<'a> {
    pub(in crate::engine) target: &'a RedeliverTarget,
    pub(in crate::engine) order: Option<&'a PaceOrder>,
}

/// Nothing is sent to it until somebody redelivers.
pub(in crate::engine) struct Disable<'a>(pub(in crate::engine) &'a EndpointUrl);

/// One request without a queued message.
pub(in crate::engine) struct Test<'a> {
    pub(in crate::engine) url: &'a EndpointUrl,
    pub(in crate::engine) method: Option<&'a str>,
}

impl Operation<Endpoints> for Redeliver<'_> {
    fn about(&self) -> About {
        About {
            name: "redeliver",
            subject: match self.target {
                RedeliverTarget::Urls(urls) => match urls.as_slice() {
                    [one] => Subject::Url(one.clone()),
                    many => Subject::Several(many.len(), "endpoint"),
                },
                RedeliverTarget::All => Subject::Words("all endpoints"),
            },
            friction: Friction::Lines("number of endpoints"),
            undo: Err("what was sent is sent: P pauses a queue, D disables the endpoint for what still waits"),
        }
    }

    async fn count(&self, endpoints: &Arc<Endpoints>) -> Result<Option<u64>, EngineError> {
        let (targets, _) = endpoints.target_endpoints(self.target).await?;
        let urls: Vec<&EndpointUrl> = targets.iter().map(|endpoint| &endpoint.url).collect();
        endpoints.waiting_for(&urls).await
    }

    async fn plan(&self, endpoints: &Arc<Endpoints>) -> Result<Plan, EngineError> {
        self.order.map_or(Ok(()), checked)?;
        let (targets, left) = endpoints.targets(self.target).await?;
        let now = endpoints.clock.now();
        let mut plan = simple(String::new(), String::new(), String::new());
        plan.command = self.command();
        plan.lines.clear();
        for (endpoint, queues) in &targets {
            plan.lines.push(PlanLine {
                target: endpoint.url.redacted(),
                now: as_it_is(endpoint),
                effect: self.effect(endpoint, queues, now),
            });
        }
        let down = targets
            .iter()
            .filter(|(endpoint, _)| endpoint.state != EndpointState::Available)
            .count();
        if down < targets.len() {
            plan.warnings.push(format!(
                "{} of {} are available already: only waiting heads are woken",
                targets.len() - down,
                targets.len()
            ));
        }
        let paused = targets
            .iter()
            .filter(|(endpoint, _)| endpoint.paused().is_some())
            .count();
        let asking = targets
            .iter()
            .filter(|(endpoint, _)| endpoint.paused().is_none() && self.waits_after(endpoint, now))
            .count();
        if asking > 0 {
            plan.warnings.push(format!(
                "{asking} of {} wait after their canary: U or `redrive endpoint resume` has the rest go",
                targets.len()
            ));
        }
        if paused > 0 {
            plan.warnings.push(format!(
                "{paused} of {} stay paused: U or `redrive endpoint resume` resumes them",
                targets.len()
            ));
        }
        if left > 0 {
            plan.warnings.push(format!(
                "one plan takes {LINES_MAX} endpoints at most: redeliver once more for the other {left}"
            ));
        }
        plan.title = format!("redeliver to {}", plural_of(targets.len(), "endpoint", "endpoints"));
        plan.hash = hash_with(&plan, &unseen(targets.iter().map(|(endpoint, _)| endpoint)));
        Ok(plan)
    }

    async fn perform(&self, endpoints: &Arc<Endpoints>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let mut done = Vec::new();
        let open = match self.asked() {
            None => EndpointChange::Open,
            Some(order) => EndpointChange::OpenPaced {
                order,
                by: grant.actor().to_owned(),
            },
        };
        for (endpoint, queues) in endpoints.targets(self.target).await?.0 {
            let before = endpoint.state;
            let paused = self.waits_after(&endpoint, endpoints.clock.now());
            if let Changed::Done { now, .. } = endpoints.store.endpoint_change(&endpoint.url, None, &open).await? {
                endpoints.endpoint_moved(&now);
            }
            endpoints
                .store
                .heads_reset(&HeadScope::Url(endpoint.url.clone()))
                .await?;
            endpoints.wake_queues_of(&endpoint.url).await?;
            metrics::counter!(names::REDELIVERS).increment(1);
            done.push(Redelivered {
                url: endpoint.url,
                before,
                queues: queues.continuing as u64,
                paused,
            });
        }
        endpoints.store.generation_raise().await?;
        Ok(Done::Redelivered(done))
    }
}

impl Redeliver<'_> {
    /// The pace that is asked for, where that limits anything.
    fn asked(&self) -> Option<PaceOrder> {
        self.order.copied().filter(|order| !order.is_none())
    }

    /// What becomes of an endpoint, its pace and its pause among it.
    fn effect(&self, endpoint: &Endpoint, queues: &Counted, now: Timestamp) -> String {
        // Who asks is not known yet, and does not matter.
        let after = endpoint.pace_after_redelivery(self.asked().map(|order| (order, "")), now);
        let Some(after) = after else {
            return format!("available again; {}", queues.in_words());
        };
        if after.waits_for_a_person() {
            return format!(
                "available again; {}; nothing is sent until it is resumed",
                in_words(Some(&after))
            );
        }
        format!("available again; {}; {}", queues.in_words(), in_words(Some(&after)))
    }

    /// Whether nothing is sent even then until somebody resumes it: a person paused it, or its canary is over.
    fn waits_after(&self, endpoint: &Endpoint, now: Timestamp) -> bool {
        let after = endpoint.pace_after_redelivery(self.asked().map(|order| (order, "")), now);
        after.is_some_and(|pace| pace.waits_for_a_person())
    }

    fn command(&self) -> Command {
        let target = self.target.clone();
        match self.order {
            None => Command::Redeliver(target),
            Some(order) => Command::RedeliverPaced { target, order: *order },
        }
    }
}

impl Operation<Endpoints> for Disable<'_> {
    fn about(&self) -> About {
        About {
            name: "endpoint disable",
            subject: Subject::Url(self.0.clone()),
            friction: Friction::Lines("number of endpoints"),
            undo: Ok(Command::Redeliver(RedeliverTarget::Urls(vec![self.0.clone()]))),
        }
    }

    fn undo(&self, plan: &Plan) -> Result<Command, &'static str> {
        let was_available = |line: &PlanLine| line.now.starts_with(EndpointState::Available.as_str());
        if plan.lines.iter().all(was_available) {
            self.about().undo
        } else {
            Err("the endpoint was not available before, and cannot be put back so: R makes it available")
        }
    }

    async fn plan(&self, endpoints: &Arc<Endpoints>) -> Result<Plan, EngineError> {
        let view = endpoints.endpoint_view(self.0).await?;
        let mut plan = simple(
            format!("disable {}", self.0.redacted()),
            self.0.redacted(),
            match of_a_person(&view.endpoint) {
                None => "nothing is sent to it until `redrive redeliver`".to_owned(),
                Some(pace) => format!(
                    "nothing is sent to it until `redrive redeliver`; what a person set stays: {}",
                    in_words(Some(pace))
                ),
            },
        );
        plan.command = Command::DisableEndpoint(self.0.clone());
        plan.lines[0].now = as_it_is(&view.endpoint);
        plan.messages = view.waiting;
        plan.hash = hash_with(&plan, &unseen([&view.endpoint]));
        Ok(plan)
    }

    async fn perform(&self, endpoints: &Arc<Endpoints>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        let change = EndpointChange::Disable {
            reason: disabled_by(grant.actor()),
        };
        if let Changed::Done { now, .. } = endpoints.store.endpoint_change(self.0, None, &change).await? {
            endpoints.endpoint_moved(&now);
        }
        Ok(Done::Endpoint(Box::new(endpoints.endpoint_view(self.0).await?)))
    }
}

impl Operation<Endpoints> for Test<'_> {
    fn about(&self) -> About {
        About {
            name: "endpoint test",
            subject: Subject::Url(self.url.clone()),
            friction: Friction::Lines("number of endpoints"),
            undo: Err("a test request changed nothing"),
        }
    }

    async fn plan(&self, _: &Arc<Endpoints>) -> Result<Plan, EngineError> {
        let method = test_method(self.method)?;
        Ok(simple(
            format!("test {} with {method}", self.url.redacted()),
            self.url.redacted(),
            format!("one {method} request is sent; no queued message"),
        ))
    }

    async fn perform(&self, endpoints: &Arc<Endpoints>, _: &Plan, _: &WriteGrant) -> Result<Done, EngineError> {
        let method = test_method(self.method)?;
        let id = NotificationId::parse(&format!("{TEST_ID_PREFIX}{}", crate::ambient::new_id())).map_err(|error| {
            EngineError::Invalid {
                field: error.field.to_owned(),
                message: error.to_string(),
            }
        })?;
        let request = Request {
            url: self.url.clone(),
            headers: Vec::new(),
            content_type: None,
            body: bytes::Bytes::new(),
            id,
            origin: None,
            secrets: Vec::new(),
            method: if method == "HEAD" {
                Method::Head
            } else {
                Method::Other(method.clone())
            },
        };
        let sent = endpoints.sender.send(request).await;
        Ok(Done::Tested(Tested {
            url: self.url.clone(),
            method,
            class: sent.outcome.class(),
            status: match sent.outcome {
                Outcome::Status(status) => Some(status),
                Outcome::Failure(_) => None,
            },
            error: sent.error,
            duration_ms: u64::try_from(sent.duration.as_millis()).unwrap_or(u64::MAX),
        }))
    }
}

/// An endpoint that was changed and changed back looks as before: since when it is so does not. A probe that fails leaves
/// all of that as it is.
fn unseen<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> String {
    let one = |endpoint: &Endpoint| (endpoint.since, endpoint.paused().map(|brake| brake.at));
    let all: Vec<_> = endpoints.into_iter().map(one).collect();
    format!("{all:?}")
}

/// The pace that a person asked for: that of a slow start ends without anybody.
fn of_a_person(endpoint: &Endpoint) -> Option<&Pace> {
    endpoint.pace.as_ref().filter(|pace| pace.is_of_a_person())
}

/// Its state, with what a person set of its pace.
fn as_it_is(endpoint: &Endpoint) -> String {
    let state = endpoint.state.as_str();
    match of_a_person(endpoint) {
        None => state.to_owned(),
        Some(pace) => format!("{state}; {}", in_words(Some(pace))),
    }
}

/// Queues of an endpoint.
#[derive(Debug, Default)]
struct Counted {
    continuing: usize,
    /// A person paused them one by one.
    paused: usize,
}

impl Counted {
    fn in_words(&self) -> String {
        let continuing = plural_of(self.continuing, "queue continues", "queues continue");
        match self.paused {
            0 => format!("{continuing} with all retries"),
            paused => format!(
                "{continuing} with all retries, {}",
                plural_of(paused, "stays paused", "stay paused")
            ),
        }
    }
}

/// What is out of bounds names its field.
pub(super) fn checked(order: &PaceOrder) -> Result<(), EngineError> {
    order.check().map_err(|(field, message)| EngineError::Invalid {
        field: field.to_owned(),
        message,
    })
}

impl Endpoints {
    /// What is redelivered to, with the number of its queues; and how many endpoints are too many for once.
    async fn targets(&self, target: &RedeliverTarget) -> Result<(Vec<(Endpoint, Counted)>, usize), EngineError> {
        let mut counted = Vec::new();
        let (endpoints, left) = self.target_endpoints(target).await?;
        for endpoint in endpoints {
            let mut queues = Counted::default();
            let mut pages = self.queue_pages(QueuesOnly::OfUrl(endpoint.url.clone()));
            while let Some(rows) = pages.next().await? {
                let paused = rows.iter().filter(|row| row.pause.is_some()).count();
                queues.paused += paused;
                queues.continuing += rows.len() - paused;
            }
            counted.push((endpoint, queues));
        }
        Ok((counted, left))
    }

    /// Those that are redelivered to at once, and how many are too many for that.
    async fn target_endpoints(&self, target: &RedeliverTarget) -> Result<(Vec<Endpoint>, usize), EngineError> {
        match target {
            RedeliverTarget::All => {
                let mut all = self.store.endpoints_not_available().await?;
                let left = all.len().saturating_sub(LINES_MAX);
                all.truncate(LINES_MAX);
                Ok((all, left))
            }
            RedeliverTarget::Urls(urls) => {
                let mut found = Vec::with_capacity(urls.len());
                for url in urls {
                    let endpoint = self.store.endpoint_get(url).await?;
                    found.push(endpoint.ok_or_else(|| EngineError::NotFound {
                        what: format!("endpoint {}", url.redacted()),
                    })?);
                }
                Ok((found, 0))
            }
        }
    }

    pub(super) async fn wake_queues_of(&self, url: &EndpointUrl) -> Result<(), EngineError> {
        let mut pages = self.queue_pages(QueuesOnly::OfUrl(url.clone()));
        while let Some(rows) = pages.next().await? {
            for row in rows {
                self.broker.nudge(&row.name).await;
            }
        }
        Ok(())
    }
}

/// Of a test by a person: what asks, and no method that removes or replaces.
fn test_method(method: Option<&str>) -> Result<String, EngineError> {
    let asked = method.unwrap_or(TEST_METHODS[0]);
    let found = TEST_METHODS.iter().find(|method| method.eq_ignore_ascii_case(asked));
    found
        .map(|method| (*method).to_owned())
        .ok_or_else(|| EngineError::Invalid {
            field: "method".to_owned(),
            message: format!(
                "a test does not send {}: possible are {}",
                text::show(asked, 40),
                TEST_METHODS.join(", ")
            ),
        })
}
