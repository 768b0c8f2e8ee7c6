//! Answers to queries, made from the store's rows and the broker's listing.
//!
//! The management API away is not an error here: what it would tell is unknown, and said so.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::query::{Answer, Query, QueuesQuery};
use super::view::{BrowsedMessage, EndpointView, Page, QueueView, Readiness, Retry};
use super::why::{Known, warnings, why};
use super::{EngineError, Inner};
use crate::broker::{BrokerError, ListedQueue, PageRequest};
use crate::domain::endpoint::{Endpoint, EndpointState};
use crate::domain::filter::{Field, FieldKind, FieldValue, Fields, Filter};
use crate::domain::id::QueueName;
use crate::domain::message::Message;
use crate::domain::notification::{Decoded, decode};
use crate::domain::queue::{QueueKind, QueueRecord};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::store::{AttemptQuery, EndpointQuery, Incarnation, QueueQuery};

/// Broker pages read for one list, at most (of 500 queues).
const PAGES_MAX: u32 = 400;
/// Items of one answer, at most.
const LIMIT_MAX: u32 = 1_000;

/// The fields that a filter over queues may name.
const QUEUE_FIELDS: &[Field] = &[
    Field::new("name", FieldKind::Text),
    Field::new("kind", FieldKind::Text),
    Field::new("state", FieldKind::Text),
    Field::new("why", FieldKind::Text),
    Field::new("endpoint", FieldKind::Text),
    Field::new("url", FieldKind::Text),
    Field::new("execution", FieldKind::Text),
    Field::new("owner", FieldKind::Text),
    Field::new("depth", FieldKind::Number),
    Field::new("ready", FieldKind::Number),
    Field::new("unacked", FieldKind::Number),
    Field::new("age", FieldKind::Duration),
    Field::new("paused", FieldKind::Bool),
];

/// What every queue's answer needs besides its own row.
struct World {
    endpoints: HashMap<EndpointUrl, Endpoint>,
    owners: HashMap<i64, String>,
    daemons: usize,
    blocked: Option<String>,
    /// Why the broker cannot be reached.
    away: Option<String>,
    now: Timestamp,
}

impl Inner {
    pub(super) async fn answer(&self, query: Query) -> Result<Answer, EngineError> {
        Ok(match query {
            Query::Queues(query) => Answer::Queues(self.queues(&query).await?),
            Query::Queue(name) => Answer::Queue(Box::new(self.queue(&name).await?)),
            Query::Browse { queue, limit } => Answer::Browsed(self.browse(&queue, limit).await?),
            Query::Endpoints {
                not_available,
                limit,
                cursor,
            } => Answer::Endpoints(self.endpoint_views(not_available, limit, cursor.as_deref()).await?),
            Query::Endpoint(url) => Answer::Endpoint(Box::new(self.endpoint_view(&url).await?)),
            Query::Retries { within, limit } => Answer::Retries(self.retries(within, limit).await?),
            Query::Attempts(query) => Answer::Attempts(self.attempt_views(query).await?),
            Query::Audit { before, limit } => Answer::Audit(self.audit_page(before, limit).await?),
            Query::Incarnations => Answer::Incarnations(self.store.incarnations().await?),
            Query::Doctor => Answer::Doctor(self.doctor().await),
            Query::Readiness => Answer::Readiness(self.readiness().await),
        })
    }

    async fn world(&self) -> Result<World, EngineError> {
        let incarnations = self.store.incarnations().await?;
        let endpoints = self.store.endpoints_not_available().await?;
        let health = self.broker.health().await;
        Ok(World {
            endpoints: endpoints
                .into_iter()
                .map(|endpoint| (endpoint.url.clone(), endpoint))
                .collect(),
            daemons: incarnations.iter().filter(|one| one.alive && one.delivers).count(),
            owners: incarnations
                .into_iter()
                .filter(|one| one.alive)
                .map(|one: Incarnation| (one.id.0, one.name))
                .collect(),
            away: (!health.reachable).then(|| health.problem.unwrap_or_else(|| "no answer".to_owned())),
            blocked: health.blocked,
            now: self.clock.now(),
        })
    }

    async fn queues(&self, query: &QueuesQuery) -> Result<Page<QueueView>, EngineError> {
        let filter = query
            .filter
            .as_deref()
            .map(|text| Filter::parse(text, QUEUE_FIELDS))
            .transpose()
            .map_err(|error| EngineError::Invalid {
                field: "filter".to_owned(),
                message: error.to_string(),
            })?;
        let world = self.world().await?;
        if let Some(detail) = world.away {
            return Err(BrokerError::Unreachable {
                operation: "listing queues",
                detail,
            }
            .into());
        }
        let mut views = self.all_queues(&world).await?;
        if let Some(filter) = &filter {
            views.retain(|view| filter.matches(view));
        }
        sort(&mut views, query.sort.as_deref())?;
        let offset = offset_of(query.cursor.as_deref())?;
        let limit = bounded(query.limit) as usize;
        let more = views.len() > offset + limit;
        let items: Vec<QueueView> = views.into_iter().skip(offset).take(limit).collect();
        Ok(Page {
            next_cursor: more.then(|| (offset + limit).to_string()),
            items,
            taken_at: world.now,
        })
    }

    /// Rows of the store joined with the broker's listing.
    async fn all_queues(&self, world: &World) -> Result<Vec<QueueView>, EngineError> {
        let mut records = BTreeMap::new();
        let mut page = QueueQuery::first(1_000);
        loop {
            let rows = self.store.queues_page(&page).await?;
            let full = rows.len() == 1_000;
            page.after = rows.last().map(|row| row.name.clone());
            records.extend(rows.into_iter().map(|row| (row.name.clone(), row)));
            if !full {
                break;
            }
        }
        let mut views = Vec::with_capacity(records.len());
        for listed in self.listed_queues().await? {
            let record = records.remove(&listed.name);
            views.push(self.view(record.as_ref(), Some(&listed), &listed.name, world));
        }
        views.extend(
            records
                .values()
                .map(|record| self.view(Some(record), None, &record.name, world)),
        );
        Ok(views)
    }

    /// Everything that the broker lists; empty when its management API is away.
    async fn listed_queues(&self) -> Result<Vec<ListedQueue>, EngineError> {
        let mut listed = Vec::new();
        for page in 1..=PAGES_MAX {
            match self
                .broker
                .queues_page(&PageRequest {
                    page,
                    size: 500,
                    name_contains: None,
                })
                .await
            {
                Ok(answer) => {
                    listed.extend(answer.queues);
                    if !answer.more {
                        break;
                    }
                }
                Err(error @ (BrokerError::Unreachable { .. } | BrokerError::Management { .. })) => {
                    tracing::warn!(error = ?error, "depths are unknown");
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(listed)
    }

    fn view(
        &self,
        record: Option<&QueueRecord>,
        listed: Option<&ListedQueue>,
        name: &QueueName,
        world: &World,
    ) -> QueueView {
        let kind = self.kind_of(name);
        let mut view = QueueView {
            name: name.clone(),
            kind,
            execution: record.and_then(|record| record.execution.clone()),
            url: record.and_then(|record| record.url.clone()),
            ready: listed.and_then(|listed| listed.ready),
            unacked: listed.and_then(|listed| listed.unacked),
            state: None,
            why: None,
            owner: None,
            oldest_age: listed.and_then(|listed| listed.oldest_at).map(|at| world.now.since(at)),
            next_attempt_at: None,
            paused: record.and_then(|record| record.pause.clone()),
            head: record.and_then(|record| record.head.clone()),
            delivered: record.map(|record| record.delivered),
            warnings: record.map(warnings).unwrap_or_default(),
            taken_at: listed.map_or(world.now, |listed| listed.taken_at),
        };
        if listed.is_some_and(|listed| {
            matches!(
                listed.state.as_deref(),
                Some("down" | "minority" | "stopped" | "crashed")
            )
        }) {
            view.warnings
                .push("its node is down: what is in it is not reachable".to_owned());
        }
        if kind == QueueKind::Delivery {
            explain(&mut view, record, world);
        }
        view
    }

    fn kind_of(&self, name: &QueueName) -> QueueKind {
        let naming = &self.settings.naming;
        let name = name.as_str();
        if naming.is_delivery_queue(name) {
            QueueKind::Delivery
        } else if name == naming.dead_letter_queue() {
            QueueKind::DeadLetter
        } else if name == naming.wake_queue() {
            QueueKind::Wake
        } else if name.starts_with("jobs.") {
            QueueKind::Job
        } else {
            QueueKind::Foreign
        }
    }

    pub(super) async fn queue(&self, name: &QueueName) -> Result<QueueView, EngineError> {
        let record = self.store.queue_get(name).await?;
        let mut listed = match self.broker.queue_detail(name).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::debug!(error = ?error, "statistics are unknown");
                None
            }
        };
        // An exact look beats statistics that lag; only for our own queues, where it renews nothing.
        if self.kind_of(name) == QueueKind::Delivery
            && let Ok(crate::broker::Look::Present { ready, .. }) = self.broker.look(name).await
        {
            let now = self.clock.now();
            let entry = listed.get_or_insert_with(|| blank_listing(name, now));
            entry.ready = Some(ready);
            entry.taken_at = now;
        }
        if record.is_none() && listed.is_none() {
            return Err(EngineError::NotFound {
                what: format!("queue {:?}", name.as_str()),
            });
        }
        let world = self.world().await?;
        Ok(self.view(record.as_ref(), listed.as_ref(), name, &world))
    }

    async fn browse(&self, queue: &QueueName, limit: u32) -> Result<Vec<BrowsedMessage>, EngineError> {
        if !(1..=500).contains(&limit) {
            return Err(EngineError::Invalid {
                field: "limit".to_owned(),
                message: "limit must be 1 to 500".to_owned(),
            });
        }
        let browsed = if self.kind_of(queue) == QueueKind::Delivery {
            self.under_lease(queue, "browse", |_| async {
                Ok(self.broker.browse(queue, limit).await?)
            })
            .await?
        } else {
            self.broker.browse(queue, limit).await?
        };
        Ok(browsed
            .into_iter()
            .map(|one| BrowsedMessage {
                position: one.position,
                foreign: foreign(&one.message),
                message: one.message,
                redelivered: one.redelivered,
            })
            .collect())
    }

    async fn endpoint_views(
        &self,
        not_available: bool,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<EndpointView>, EngineError> {
        let offset = offset_of(cursor)?;
        let limit = bounded(limit);
        let query = EndpointQuery {
            not_available,
            offset: offset as u64,
            limit,
        };
        let rows = self.store.endpoints_page(&query).await?;
        let full = rows.len() == limit as usize;
        let waiting = self.waiting_by_url().await?;
        let items = rows
            .into_iter()
            .map(|(endpoint, queues)| EndpointView {
                waiting: waiting
                    .as_ref()
                    .and_then(|waiting| waiting.get(&endpoint.url).copied().unwrap_or(Some(0))),
                endpoint,
                queues,
            })
            .collect();
        Ok(Page {
            items,
            next_cursor: full.then(|| (offset + limit as usize).to_string()),
            taken_at: self.clock.now(),
        })
    }

    /// Messages that wait for each URL; `None` when the broker cannot list.
    async fn waiting_by_url(&self) -> Result<Option<HashMap<EndpointUrl, Option<u64>>>, EngineError> {
        let listed = self.listed_queues().await?;
        if listed.is_empty() {
            return Ok(None);
        }
        let mut urls = HashMap::new();
        let mut page = QueueQuery::first(1_000);
        loop {
            let rows = self.store.queues_page(&page).await?;
            let full = rows.len() == 1_000;
            page.after = rows.last().map(|row| row.name.clone());
            urls.extend(rows.into_iter().filter_map(|row| Some((row.name, row.url?))));
            if !full {
                break;
            }
        }
        // One count that is missing makes the sum of its URL unknown, not smaller.
        let mut waiting: HashMap<EndpointUrl, Option<u64>> = HashMap::new();
        for queue in listed {
            if let Some(url) = urls.get(&queue.name) {
                let sum = waiting.entry(url.clone()).or_insert(Some(0));
                *sum = sum
                    .zip(queue.ready)
                    .map(|(sum, ready)| sum + ready + queue.unacked.unwrap_or(0));
            }
        }
        Ok(Some(waiting))
    }

    pub(super) async fn endpoint_view(&self, url: &EndpointUrl) -> Result<EndpointView, EngineError> {
        let not_found = || EngineError::NotFound {
            what: format!("endpoint {}", url.redacted()),
        };
        let endpoint = self.store.endpoint_get(url).await?.ok_or_else(not_found)?;
        let rows = self
            .store
            .queues_page(&QueueQuery {
                after: None,
                url: Some(url.clone()),
                limit: LIMIT_MAX,
            })
            .await?;
        let waiting = self
            .waiting_by_url()
            .await?
            .and_then(|waiting| waiting.get(url).copied().unwrap_or(Some(0)));
        Ok(EndpointView {
            endpoint,
            queues: rows.len() as u64,
            waiting,
        })
    }

    async fn retries(&self, within: Option<Duration>, limit: u32) -> Result<Page<Retry>, EngineError> {
        let now = self.store.now().await?;
        let mut items: Vec<Retry> = self
            .store
            .endpoints_not_available()
            .await?
            .into_iter()
            .filter_map(probe_of)
            .collect();
        for record in self.store.queues_waiting(bounded(limit)).await? {
            items.extend(head_of(&record, &items));
        }
        if let Some(within) = within {
            items.retain(|retry| retry.at.is_some_and(|at| at <= now.plus(within)));
        }
        items.sort_by_key(|retry| (retry.at.is_none(), retry.at));
        items.truncate(bounded(limit) as usize);
        for retry in &mut items {
            self.fill_from_head(retry).await?;
        }
        Ok(Page {
            items,
            next_cursor: None,
            taken_at: now,
        })
    }

    /// An endpoint's probe: its phase and its count are its head's.
    async fn fill_from_head(&self, retry: &mut Retry) -> Result<(), EngineError> {
        let Some(queue) = retry.queue.clone().filter(|_| retry.of == 0) else {
            return Ok(());
        };
        if let Some(head) = self.store.queue_get(&queue).await?.and_then(|record| record.head) {
            retry.phase = head.phase;
            retry.of = head.attempts_allowed;
            retry.attempt = head.failures + 1;
        }
        Ok(())
    }

    async fn attempt_views(&self, query: AttemptQuery) -> Result<Page<super::view::AttemptView>, EngineError> {
        let query = AttemptQuery {
            limit: bounded(query.limit),
            ..query
        };
        self.recorder.flush(&self.store).await;
        Ok(Page {
            items: self.store.attempts(&query).await?,
            next_cursor: None,
            taken_at: self.clock.now(),
        })
    }

    async fn audit_page(&self, before: Option<i64>, limit: u32) -> Result<Page<crate::store::AuditEntry>, EngineError> {
        let limit = bounded(limit);
        let items = self.store.audit_list(before, limit).await?;
        let full = items.len() == limit as usize;
        let next_cursor = items.last().filter(|_| full).map(|entry| entry.id.to_string());
        Ok(Page {
            items,
            next_cursor,
            taken_at: self.clock.now(),
        })
    }

    async fn readiness(&self) -> Readiness {
        let health = self.broker.health().await;
        Readiness {
            broker: if health.reachable {
                Ok(())
            } else {
                Err(health.problem.unwrap_or_else(|| "not reachable".to_owned()))
            },
            store: self
                .store
                .now()
                .await
                .map(|_| ())
                .map_err(|error| super::error::chain(&error)),
            delivering: if self.delivering.load(Ordering::SeqCst) && self.fence.is_open() {
                Ok(())
            } else {
                Err("this process does not deliver at present".to_owned())
            },
        }
    }
}

fn explain(view: &mut QueueView, record: Option<&QueueRecord>, world: &World) {
    let unknown;
    let record = if let Some(record) = record {
        record
    } else {
        unknown = blank(&view.name, world.now);
        &unknown
    };
    let owner = record.owner.and_then(|owner| world.owners.get(&owner.0)).cloned();
    let depth = view.ready.map(|ready| ready + view.unacked.unwrap_or(0));
    let why = why(&Known {
        record,
        endpoint: record.url.as_ref().and_then(|url| world.endpoints.get(url)),
        depth,
        owner: owner.as_deref(),
        daemons: world.daemons,
        blocked: world.blocked.as_deref(),
    });
    view.owner = owner;
    view.explain(why);
}

fn foreign(message: &Message) -> Option<String> {
    match decode(message, &super::worker::unnamed) {
        Decoded::Foreign(why) => Some(why),
        Decoded::Notification(_) | Decoded::End => None,
    }
}

fn probe_of(endpoint: Endpoint) -> Option<Retry> {
    (endpoint.state == EndpointState::Unavailable || endpoint.state == EndpointState::Parked).then_some(Retry {
        at: endpoint.next_attempt_at,
        queue: endpoint.probe_queue,
        url: Some(endpoint.url),
        message: endpoint.probe_message,
        phase: None,
        attempt: endpoint.attempts + 1,
        of: 0,
    })
}

fn head_of(record: &QueueRecord, known: &[Retry]) -> Option<Retry> {
    let head = record.head.as_ref()?;
    if known.iter().any(|retry| retry.queue.as_ref() == Some(&record.name)) {
        return None;
    }
    Some(Retry {
        at: head.next_attempt_at,
        queue: Some(record.name.clone()),
        url: record.url.clone(),
        message: Some(head.message.clone()),
        phase: head.phase,
        attempt: head.failures + 1,
        of: head.attempts_allowed,
    })
}

fn blank(name: &QueueName, now: Timestamp) -> QueueRecord {
    QueueRecord {
        name: name.clone(),
        execution: None,
        url: None,
        epoch: crate::domain::id::Epoch(0),
        owner: None,
        pause: None,
        wanted_by: None,
        closing: crate::domain::queue::Closing::Open,
        refused: None,
        refusing: None,
        quarantined: None,
        has_companion: false,
        head: None,
        decision: None,
        refusals_in_row: 0,
        delivered: 0,
        last_delivered_at: None,
        active_at: now,
        created_at: now,
    }
}

fn blank_listing(name: &QueueName, now: Timestamp) -> ListedQueue {
    ListedQueue {
        name: name.clone(),
        queue_type: None,
        ready: None,
        unacked: None,
        consumers: None,
        oldest_at: None,
        idle_since: None,
        state: None,
        arguments: Vec::new(),
        policy: None,
        taken_at: now,
    }
}

fn text(text: Option<&str>) -> FieldValue<'_> {
    text.map_or(FieldValue::Missing, |text| FieldValue::Text(text.into()))
}

#[expect(clippy::cast_precision_loss, reason = "a filter compares depths, not ids")]
fn count(number: Option<u64>) -> FieldValue<'static> {
    number.map_or(FieldValue::Missing, |number| FieldValue::Number(number as f64))
}

fn bounded(limit: u32) -> u32 {
    limit.clamp(1, LIMIT_MAX)
}

fn offset_of(cursor: Option<&str>) -> Result<usize, EngineError> {
    let invalid = || EngineError::Invalid {
        field: "cursor".to_owned(),
        message: "cursor is not one that was given out".to_owned(),
    };
    cursor.map_or(Ok(0), |text| text.parse().map_err(|_| invalid()))
}

/// Sorts by a column; a leading `-` turns it round. Unknown values come last.
fn sort(views: &mut [QueueView], column: Option<&str>) -> Result<(), EngineError> {
    let column = column.unwrap_or("name");
    let (descending, column) = column.strip_prefix('-').map_or((false, column), |rest| (true, rest));
    match column {
        "name" => views.sort_by(|a, b| a.name.cmp(&b.name)),
        "depth" | "ready" => views.sort_by_key(|view| (view.ready.is_none(), view.ready)),
        "unacked" => views.sort_by_key(|view| (view.unacked.is_none(), view.unacked)),
        "state" => views.sort_by_key(|view| view.state.map(crate::domain::queue::QueueState::as_str)),
        "endpoint" | "url" => views.sort_by(|a, b| a.url.cmp(&b.url)),
        "age" => views.sort_by_key(|view| (view.oldest_age.is_none(), view.oldest_age)),
        "next_attempt_at" => views.sort_by_key(|view| (view.next_attempt_at.is_none(), view.next_attempt_at)),
        _ => {
            return Err(EngineError::Invalid {
                field: "sort".to_owned(),
                message: format!(
                    "sort by {column:?} is not possible; use name, depth, unacked, state, endpoint, age or next_attempt_at"
                ),
            });
        }
    }
    if descending {
        views.reverse();
    }
    Ok(())
}

impl Fields for QueueView {
    fn field(&self, name: &str) -> FieldValue<'_> {
        match name {
            "name" => text(Some(self.name.as_str())),
            "kind" => text(Some(self.kind.as_str())),
            "state" => text(self.state.map(crate::domain::queue::QueueState::as_str)),
            "why" => text(self.why.as_ref().map(|why| why.text.as_str())),
            "endpoint" | "url" => text(self.url.as_ref().map(EndpointUrl::as_str)),
            "execution" => text(self.execution.as_ref().map(crate::domain::id::ExecutionId::as_str)),
            "owner" => text(self.owner.as_deref()),
            "depth" => count(self.ready.map(|ready| ready + self.unacked.unwrap_or(0))),
            "ready" => count(self.ready),
            "unacked" => count(self.unacked),
            "age" => self.oldest_age.map_or(FieldValue::Missing, FieldValue::Duration),
            "paused" => FieldValue::Bool(self.paused.is_some()),
            _ => FieldValue::Missing,
        }
    }
}
