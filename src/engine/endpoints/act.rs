//! What a person does to an endpoint: redeliver, disable, test.

use super::Endpoints;
use crate::delivery::{Method, Request};
use crate::domain::endpoint::{Endpoint, EndpointChange, EndpointState};
use crate::domain::id::{NotificationId, TEST_ID_PREFIX};
use crate::domain::outcome::Outcome;
use crate::domain::text;
use crate::domain::url::EndpointUrl;
use crate::domain::words::plural_of;
use crate::engine::EngineError;
use crate::engine::command::{Done, Plan, PlanLine, RedeliverTarget, Redelivered, Tested};
use crate::engine::plans::simple;
use crate::store::{Changed, HeadScope};
use crate::telemetry::names;

/// Lines of a plan, at most: more are counted.
const LINES_MAX: usize = 10_000;
/// What a test of an endpoint may send.
const TEST_METHODS: [&str; 4] = ["HEAD", "GET", "OPTIONS", "POST"];

impl Endpoints {
    pub(in crate::engine) async fn plan_redeliver(&self, target: &RedeliverTarget) -> Result<Plan, EngineError> {
        let endpoints = self.targets(target).await?;
        let mut plan = simple(String::new(), String::new(), String::new());
        plan.lines.clear();
        for (endpoint, queues) in &endpoints {
            plan.lines.push(PlanLine {
                target: endpoint.url.redacted(),
                now: format!("{}, epoch {}", endpoint.state.as_str(), endpoint.epoch),
                effect: format!(
                    "available; {} with the whole retry budget",
                    plural_of(*queues, "queue goes on", "queues go on")
                ),
            });
        }
        let down = endpoints
            .iter()
            .filter(|(endpoint, _)| endpoint.state != EndpointState::Available)
            .count();
        if down < endpoints.len() {
            plan.warnings.push(format!(
                "{} of {} are available already: only waiting heads are woken",
                endpoints.len() - down,
                endpoints.len()
            ));
        }
        plan.title = format!("redeliver to {}", plural_of(endpoints.len(), "endpoint", "endpoints"));
        Ok(plan)
    }

    /// What is redelivered to, with the number of its queues.
    async fn targets(&self, target: &RedeliverTarget) -> Result<Vec<(Endpoint, usize)>, EngineError> {
        let mut counted = Vec::new();
        for endpoint in self.target_endpoints(target).await? {
            let mut queues = 0;
            let mut pages = self.queue_pages(Some(endpoint.url.clone()));
            while let Some(rows) = pages.next().await? {
                queues += rows.len();
            }
            counted.push((endpoint, queues));
        }
        Ok(counted)
    }

    pub(in crate::engine) async fn target_endpoints(
        &self,
        target: &RedeliverTarget,
    ) -> Result<Vec<Endpoint>, EngineError> {
        match target {
            RedeliverTarget::All => {
                let mut all = self.store.endpoints_not_available().await?;
                all.sort_by(|a, b| a.url.cmp(&b.url));
                all.truncate(LINES_MAX);
                Ok(all)
            }
            RedeliverTarget::Urls(urls) => {
                let mut found = Vec::with_capacity(urls.len());
                for url in urls {
                    let endpoint = self.store.endpoint_get(url).await?;
                    found.push(endpoint.ok_or_else(|| EngineError::NotFound {
                        what: format!("endpoint {}", url.redacted()),
                    })?);
                }
                Ok(found)
            }
        }
    }

    pub(in crate::engine) async fn plan_disable(&self, url: &EndpointUrl) -> Result<Plan, EngineError> {
        let view = self.endpoint_view(url).await?;
        let mut plan = simple(
            format!("disable {}", url.redacted()),
            url.redacted(),
            "nothing is sent to it until `redrive redeliver`".to_owned(),
        );
        plan.lines[0].now = format!("{}, epoch {}", view.endpoint.state.as_str(), view.endpoint.epoch);
        plan.messages = view.waiting;
        Ok(plan)
    }

    pub(in crate::engine) async fn redeliver(&self, target: &RedeliverTarget) -> Result<Done, EngineError> {
        let mut done = Vec::new();
        for (endpoint, queues) in self.targets(target).await? {
            let before = endpoint.state;
            if let Changed::Done { now, .. } = self
                .store
                .endpoint_change(&endpoint.url, None, &EndpointChange::Open)
                .await?
            {
                self.endpoint_moved(&now);
            }
            self.store.heads_reset(&HeadScope::Url(endpoint.url.clone())).await?;
            self.wake_queues_of(&endpoint.url).await?;
            metrics::counter!(names::REDELIVERS).increment(1);
            done.push(Redelivered {
                url: endpoint.url,
                before,
                queues: queues as u64,
            });
        }
        self.store.generation_raise().await?;
        Ok(Done::Redelivered(done))
    }

    async fn wake_queues_of(&self, url: &EndpointUrl) -> Result<(), EngineError> {
        let mut pages = self.queue_pages(Some(url.clone()));
        while let Some(rows) = pages.next().await? {
            for row in rows {
                self.broker.nudge(&row.name).await;
            }
        }
        Ok(())
    }

    pub(in crate::engine) async fn test(&self, url: &EndpointUrl, method: Option<&str>) -> Result<Done, EngineError> {
        let method = test_method(method)?;
        let id = NotificationId::parse(&format!("{TEST_ID_PREFIX}{}", crate::ambient::new_id())).map_err(|error| {
            EngineError::Invalid {
                field: error.field.to_owned(),
                message: error.to_string(),
            }
        })?;
        let request = Request {
            url: url.clone(),
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
        let sent = self.sender.send(request).await;
        Ok(Done::Tested(Tested {
            url: url.clone(),
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

/// Of a test by a person: what asks, and no method that removes or replaces.
pub(in crate::engine) fn test_method(method: Option<&str>) -> Result<String, EngineError> {
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
