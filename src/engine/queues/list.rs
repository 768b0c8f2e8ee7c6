//! Queues: all of them, filtered and sorted, and one with its head.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Queues;
use super::listing::{Listing, Oldest};
use super::seen::Seen;
use super::world::{Absence, World};
use crate::ambient::{self, HashMap};
use crate::broker::{BrokerError, ListedQueue, Look};
use crate::domain::id::QueueName;
use crate::domain::queue::{QueueKind, QueueRecord, QueueState};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineError;
use crate::engine::fields::QUEUE_FIELDS;
use crate::engine::kept::good_until;
use crate::engine::paging::{bounded, offset_of};
use crate::engine::sieve;
use crate::engine::sight::Sight;
use crate::engine::view::QueuesQuery;
use crate::engine::view::{Page, QueueView, Source};
use crate::store::StoreHandle;

/// Lists whose order is kept at once.
const ORDERS_MAX: usize = 4;

/// A listing, and when it was begun.
#[derive(Debug)]
pub(super) struct Taken {
    listing: Listing,
    at: Timestamp,
    /// The order of lists whose first page was answered.
    orders: Mutex<VecDeque<(Asked, Arc<Vec<QueueName>>)>>,
}

/// What a list was asked for: its filter, what it is sorted by, and what of it is hidden.
type Asked = (Option<String>, Option<String>, bool);

impl Taken {
    /// One that is kept for the pages behind the first.
    async fn read(queues: &Queues, at: Timestamp, began: Duration) -> Result<Arc<Self>, EngineError> {
        let listing = match queues.seen(Oldest::Everywhere).await {
            // Without its vhost no queue is anywhere, whatever the store remembers.
            Err(missing @ BrokerError::Vhost { .. }) => return Err(missing.into()),
            seen => queues.listing(seen),
        };
        let taken = Arc::new(Self {
            listing,
            at,
            orders: Mutex::default(),
        });
        let until = good_until(began, queues.clock.uptime());
        queues.taken.keep(Arc::clone(&taken), until);
        Ok(taken)
    }

    /// The pages behind the first are of the list as it was then: what changes its state in between would be in two of them
    /// otherwise, and another queue in none.
    fn order(&self, asked: &Asked) -> Option<Arc<Vec<QueueName>>> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let known = orders.iter().find(|(known, _)| known == asked);
        known.map(|(_, names)| Arc::clone(names))
    }

    fn keep_order(&self, asked: Asked, names: Arc<Vec<QueueName>>) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|(known, _)| *known != asked);
        orders.push_front((asked, names));
        orders.truncate(ORDERS_MAX);
    }
}

impl Queues {
    pub(in crate::engine) async fn queues(&self, query: &QueuesQuery) -> Result<Page<QueueView>, EngineError> {
        let filter = query.filter.as_deref().map(|text| sieve::read(text, QUEUE_FIELDS));
        let mut sieve = self.sieve(filter.transpose()?);
        let order = order(query.sort.as_deref(), Sight::present())?;
        let (offset, limit) = (offset_of(query.cursor.as_deref())?, bounded(query.limit) as usize);
        let turn = self.whole_list().await?;
        let began = self.clock.uptime();
        let (world, away) = self.world().await?;
        if let Some(error) = away {
            return Err(error.into());
        }
        let taken = match self.taken.good(began).filter(|_| offset > 0) {
            Some(taken) => taken,
            None => Taken::read(self, world.now, began).await?,
        };
        let listing = &taken.listing;
        let world = world
            .where_absent(listing.absence())
            .where_published(self.seen.published.lately(self.store_time.now()));
        let asked = (
            query.filter.clone(),
            query.sort.clone(),
            matches!(Sight::present(), Sight::Masked),
        );
        let behind = offset.saturating_add(limit);
        let mut views = Vec::with_capacity(listing.seen.len());
        self.join(&world, &listing.seen, |view| views.push(view)).await?;
        let (items, more) = if let Some(names) = taken.order(&asked).filter(|_| offset > 0) {
            let page = names.get(offset..behind.min(names.len())).unwrap_or_default();
            (ambient::beside(|| in_order(views, page)), names.len() > behind)
        } else {
            if views.is_empty() {
                listing.must_be_read()?;
            }
            let mut views = sieve.keep(views, |filter, view| filter.matches(view)).await?;
            ambient::beside(|| views.sort_unstable_by(&order));
            let more = views.len() > behind;
            if more {
                let names = views.iter().map(|view| view.name.clone()).collect();
                taken.keep_order(asked, Arc::new(names));
            }
            (views.into_iter().skip(offset).take(limit).collect(), more)
        };
        if !more || listing.unread.is_some() {
            self.taken.drop_it();
        }
        drop(turn);
        Ok(Page {
            problems: listing.unread.iter().cloned().collect(),
            next_cursor: more.then(|| behind.to_string()),
            items,
            taken_at: taken.at,
        })
    }

    pub(in crate::engine) async fn queue(&self, name: &QueueName) -> Result<QueueView, EngineError> {
        if self.kind_of(name) == QueueKind::Intake {
            return self.intake(name).await;
        }
        let record = self.store.queue_get(name).await?;
        let row = record
            .clone()
            .unwrap_or_else(|| QueueRecord::new(name, self.clock.now()));
        let mut problems = Vec::new();
        let mut failed = None;
        let mut seen = match self.parts_listed(&row).await {
            Ok(Some(listed)) => Some(self.seen_alone(listed).await),
            Ok(None) => None,
            Err(error @ BrokerError::Vhost { .. }) => return Err(error.into()),
            Err(error) => {
                problems.push(self.unread(self.listing_source(), &error));
                failed = Some(error);
                None
            }
        };
        let mut absence = None;
        // An exact look beats statistics that lag; only for our own queues, where it renews nothing. The list of the embedded
        // broker is exact, and what is in hand is of the same moment there.
        let is_exact = self.broker.is_embedded() && seen.is_some();
        if self.kind_of(name) == QueueKind::Delivery && !is_exact {
            match self.look_at_parts(&row).await {
                Ok(Look::Present { ready, .. }) => {
                    let now = self.clock.now();
                    let entry = seen.get_or_insert_with(|| Seen::unknown(name.clone(), now));
                    entry.ready = Some(ready);
                    entry.taken_at = now;
                }
                Ok(Look::Missing) => {
                    seen = None;
                    absence = Some(Absence::Missing);
                }
                Err(error) => problems.push(self.unread(Source::Queue(name.clone()), &error)),
            }
        }
        let unread = problems.last().map(|unread| Absence::Unread(unread.reason.clone()));
        let absence = absence.or(unread);
        if record.is_none() && seen.is_none() {
            return Err(match (failed, problems.pop()) {
                (Some(error @ BrokerError::Login { .. }), _) => error.into(),
                (_, Some(unread)) => EngineError::Unread(Box::new(unread)),
                (_, None) => EngineError::NotFound {
                    what: format!("queue {:?}", name.as_str()),
                },
            });
        }
        let (world, _) = self.world().await?;
        let world = world
            .where_absent(absence)
            .where_locked(locked_by(&self.store, name).await);
        let mut view = world.view(self.kind_in(name, seen.as_ref()), name.clone(), record, seen.as_ref());
        view.problems = problems;
        if let Some(of) = self.settings.naming.companion_of(name) {
            view.is_before(&Box::pin(self.queue(&of)).await?);
        } else if view.kind != QueueKind::Delivery {
            self.ask_the_broker(&mut view).await;
        }
        Ok(view)
    }

    /// Who consumes a queue that is not ours to deliver, and how it moves.
    async fn ask_the_broker(&self, view: &mut QueueView) {
        match self.broker.queue_on_broker(&view.name).await {
            Ok(found) => view.on_broker = found.map(Box::new),
            Err(error) => view
                .problems
                .push(self.unread(Source::Queue(view.name.clone()), &error)),
        }
    }

    /// An intake queue is answered for even where it is not there, or the store is away: that is what is asked.
    async fn intake(&self, name: &QueueName) -> Result<QueueView, EngineError> {
        let listed = self.broker.queue_detail(name).await?;
        let why = self.why_intake(name, listed.as_ref()).await;
        let seen = match listed {
            Some(listed) => Some(self.seen_alone(listed).await),
            None => None,
        };
        let world = match self.world().await {
            Ok((world, _)) => world,
            Err(error) => {
                tracing::debug!(error = ?error, "who is alive is unknown");
                World::unknown(self.clock.now())
            }
        };
        let mut view = world.view(QueueKind::Intake, name.clone(), None, seen.as_ref());
        self.ask_the_broker(&mut view).await;
        if let Some(why) = why {
            view.explain(why);
        }
        Ok(view)
    }

    async fn seen_alone(&self, listed: ListedQueue) -> Seen {
        let preflight = self.preflight_of(&listed).await;
        self.seen_by(listed, &preflight)
    }
}

/// The foreign session that has locked the row of a queue.
async fn locked_by(store: &StoreHandle, name: &QueueName) -> Option<String> {
    match store.foreign_locks(Some(name)).await {
        Ok(locks) => locks.into_iter().next().map(|lock| lock.by),
        Err(error) => {
            tracing::debug!(error = ?error, "who locks a row is unknown");
            None
        }
    }
}

type Order = Box<dyn Fn(&QueueView, &QueueView) -> Ordering + Send>;

/// Whether the value of a column is not known, and how two that are known compare.
type IsUnknown = fn(&QueueView) -> bool;
type By = fn(&QueueView, &QueueView) -> Ordering;

/// By a column, and by name where that is the same; a leading `-` turns it round. Unknown values come last either way.
fn order(column: Option<&str>, sight: Sight) -> Result<Order, EngineError> {
    let column = column.unwrap_or("name");
    let (descending, column) = column.strip_prefix('-').map_or((false, column), |rest| (true, rest));
    let (is_unknown, by): (IsUnknown, By) = match column {
        "name" => (|_| false, |_, _| Ordering::Equal),
        "depth" | "ready" => (|view| view.ready.is_none(), |a, b| a.ready.cmp(&b.ready)),
        "unacked" => (|view| view.unacked.is_none(), |a, b| a.unacked.cmp(&b.unacked)),
        "state" => (
            |view| view.state.is_none(),
            |a, b| a.state.map(QueueState::as_str).cmp(&b.state.map(QueueState::as_str)),
        ),
        // Their order would tell what is hidden in them.
        "endpoint" | "url" if sight == Sight::Masked => (
            |view| view.url.is_none(),
            |a, b| {
                let shown = |view: &QueueView| view.url.as_ref().map(EndpointUrl::redacted);
                shown(a).cmp(&shown(b))
            },
        ),
        "endpoint" | "url" => (|view| view.url.is_none(), |a, b| a.url.cmp(&b.url)),
        "age" => (|view| view.oldest_age.is_none(), |a, b| a.oldest_age.cmp(&b.oldest_age)),
        "next_attempt_at" => (
            |view| view.next_attempt_at.is_none(),
            |a, b| a.next_attempt_at.cmp(&b.next_attempt_at),
        ),
        _ => {
            return Err(EngineError::Invalid {
                field: "sort".to_owned(),
                message: format!(
                    "sort by {column:?} is not possible; use name, depth, unacked, state, endpoint, age or next_attempt_at"
                ),
            });
        }
    };
    Ok(Box::new(move |a, b| {
        let ascending = by(a, b).then_with(|| a.name.cmp(&b.name));
        let wanted = if descending { ascending.reverse() } else { ascending };
        is_unknown(a).cmp(&is_unknown(b)).then(wanted)
    }))
}

/// Those of these names, in their order; what is not there any more is left out.
fn in_order(views: Vec<QueueView>, names: &[QueueName]) -> Vec<QueueView> {
    let places: HashMap<&QueueName, usize> = names.iter().zip(0..).collect();
    let placed = views
        .into_iter()
        .filter_map(|view| Some((*places.get(&view.name)?, view)));
    placed.collect::<BTreeMap<_, _>>().into_values().collect()
}
