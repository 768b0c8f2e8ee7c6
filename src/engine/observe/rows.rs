//! Rows of queues from views, with the last snapshot's row wherever nothing changed.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::intern::Interner;
use super::kept;
use crate::ambient::{HashMap, HashSet};
use crate::domain::id::QueueName;
use crate::domain::naming::Naming;
use crate::domain::queue::{Head, QueueKind};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::queues::seen::Seen;
use crate::engine::row::{QueueFacts, QueueRow};
use crate::engine::series::{Key, Series};
use crate::engine::view::QueueView;

/// The rows of a snapshot while they are made.
pub(super) struct Rows<'a> {
    last: &'a [Arc<QueueRow>],
    texts: &'a mut Interner,
    oldest: HashMap<QueueName, Timestamp>,
    probing: HashSet<QueueName>,
    made: Vec<Arc<QueueRow>>,
    /// The heads of the queues that probe.
    pub(super) heads: HashMap<QueueName, Head>,
    /// Delivered since the last snapshot.
    pub(super) delivered: u64,
    /// Of that, to each endpoint.
    pub(super) delivered_to: HashMap<Arc<EndpointUrl>, u64>,
    moves: Moves<'a>,
}

/// How queues move, as this process knows it.
#[derive(Clone, Copy)]
pub(super) struct Moves<'a> {
    pub(super) series: &'a Series,
    pub(super) naming: &'a Naming,
    pub(super) uptime: Duration,
    /// This process delivers nothing itself: what it sees is all that it knows.
    pub(super) only_looks: bool,
}

impl<'a> Rows<'a> {
    /// `last` are the rows of the last snapshot, by name.
    pub(super) fn new(
        last: &'a [Arc<QueueRow>],
        texts: &'a mut Interner,
        seen: &[Seen],
        probing: HashSet<QueueName>,
        moves: Moves<'a>,
    ) -> Self {
        let oldest = seen
            .iter()
            .filter_map(|seen| Some((seen.name.clone(), seen.oldest_at?)));
        Self {
            oldest: oldest.collect(),
            made: Vec::with_capacity(last.len()),
            last,
            texts,
            probing,
            heads: HashMap::default(),
            delivered: 0,
            delivered_to: HashMap::default(),
            moves,
        }
    }

    pub(super) fn push(&mut self, view: QueueView) {
        if let Some(head) = view.head.as_ref().filter(|_| self.probing.contains(&view.name)) {
            self.heads.insert(view.name.clone(), head.clone());
        }
        if self.moves.only_looks
            && view.url.is_some()
            && let Some(delivered) = view.delivered
        {
            self.moves.series.seen(&view.name, delivered);
        }
        let row = self.row(view);
        let last = find(self.last, &row.name);
        let delivered = delivered_since(last, &row);
        self.delivered += delivered;
        if let (Some(url), 1..) = (&row.url, delivered) {
            *self.delivered_to.entry(Arc::clone(url)).or_default() += delivered;
        }
        self.made.push(kept::item(row, last));
    }

    fn row(&mut self, view: QueueView) -> QueueRow {
        let head = view.head.as_ref();
        QueueRow::from(QueueFacts {
            url: view.url.map(|url| self.texts.url(url)),
            execution: view.execution,
            ready: view.ready,
            unacked: view.unacked,
            delivered: view.delivered,
            oldest_at: self.oldest.get(&view.name).copied(),
            next_attempt_at: view.next_attempt_at,
            owner: view.owner.map(|owner| self.texts.text(owner)),
            why: view.why.map(|why| self.texts.text(why.text)),
            warnings: view.warnings,
            findings: view.findings,
            attempts: head.map(|head| (head.failures, head.attempts_allowed)),
            moving: self.moves.series.moving(Key::queue(&view.name), self.moves.uptime),
            kind: view.kind,
            state: view.state,
            paused: view.paused.is_some(),
            name: view.name,
        })
    }

    /// By name; the last snapshot's own list where nothing changed at all.
    pub(super) fn finish(self, last: &Arc<Vec<Arc<QueueRow>>>) -> Arc<Vec<Arc<QueueRow>>> {
        arranged(self.made, last)
    }
}

/// What a queue delivered between two rows. A count that went back began anew.
fn delivered_since(last: Option<&Arc<QueueRow>>, row: &QueueRow) -> u64 {
    let Some(now) = row.delivered() else { return 0 };
    match last.map(|last| last.delivered()) {
        Some(Some(before)) => now.checked_sub(before).unwrap_or(now),
        // Its first row: it was made since.
        None | Some(None) => now,
    }
}

/// The rows of the last snapshot with what the broker says now, for when the store cannot be read.
pub(super) fn recounted(
    last: &Arc<Vec<Arc<QueueRow>>>,
    seen: Vec<Seen>,
    unknown: impl Fn(&Seen) -> QueueFacts,
) -> Arc<Vec<Arc<QueueRow>>> {
    let mut seen: HashMap<QueueName, Seen> = seen.into_iter().map(|seen| (seen.name.clone(), seen)).collect();
    let mut rows: Vec<Arc<QueueRow>> = last
        .iter()
        .map(|row| {
            let listed = seen.remove(&row.name);
            let listed = listed.as_ref();
            let counted = row.counted(
                listed.and_then(|seen| seen.ready),
                listed.and_then(|seen| seen.unacked),
                listed.and_then(|seen| seen.oldest_at),
            );
            kept::item(counted, Some(row))
        })
        .collect();
    rows.extend(seen.into_values().map(|seen| {
        Arc::new(QueueRow::from(QueueFacts {
            ready: seen.ready,
            unacked: seen.unacked,
            oldest_at: seen.oldest_at,
            ..unknown(&seen)
        }))
    }));
    arranged(rows, last)
}

fn arranged(mut rows: Vec<Arc<QueueRow>>, last: &Arc<Vec<Arc<QueueRow>>>) -> Arc<Vec<Arc<QueueRow>>> {
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    rows.shrink_to_fit();
    kept::list(rows, last)
}

/// What the broker said of the queues when the last snapshot was made.
pub(super) fn seen_before(last: &[Arc<QueueRow>], taken_at: Timestamp) -> Vec<Seen> {
    last.iter()
        .filter(|row| row.ready().is_some() || row.kind != QueueKind::Delivery)
        .map(|row| Seen {
            kind: Some(row.kind),
            ready: row.ready(),
            unacked: row.unacked(),
            oldest_at: row.oldest_at(),
            ..Seen::unknown(row.name.clone(), taken_at)
        })
        .collect()
}

fn find<'a>(rows: &'a [Arc<QueueRow>], name: &QueueName) -> Option<&'a Arc<QueueRow>> {
    let place = rows.binary_search_by(|row| -> Ordering { row.name.cmp(name) }).ok()?;
    rows.get(place)
}
