//! The queues that this process holds, asks for or lets go of, and what they use: places, slots, probes.
//!
//! There are two kinds of places: those of attempts that can still proceed, which `workers` bounds, and those of
//! requests that hang, which have a bound of their own (docs/protocols.md 35).
//!
//! Pure bookkeeping. What is used is counted from what is held, in the one place where a holding comes, changes
//! or goes, so that nothing can be used by a queue that is not held. Every holding has a [`Claim`] of its own:
//! an answer that was asked for under an earlier one changes nothing.

use std::sync::Arc;

use super::tell::Claim;
use super::worker::Control;
use crate::ambient::{HashMap, HashSet};
use crate::budget::Share;
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;

/// What a holding takes up while it is asked for or worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A worker for a URL that answers this process.
    Answering,
    /// A worker for a URL that answered an earlier process.
    Remembered,
    /// A worker for a URL, or a queue, of which nothing is known yet.
    First,
    /// One of those whose request hangs, or whose URL is known for it.
    Slow,
}

/// A queue that this process holds, or asks for.
#[derive(Debug)]
pub(super) enum Holding {
    /// The lease is asked for; a slot of the URL is reserved when it is known.
    Asking {
        url: Option<EndpointUrl>,
        probe: Probe,
        place: Place,
        /// Its share of the memory; none while a probe waits for one.
        share: Option<Share>,
    },
    /// A worker is on it.
    Working {
        url: Option<EndpointUrl>,
        control: Arc<Control>,
        probes: bool,
        place: Place,
    },
    /// It is being deleted or released; no worker is on it.
    Closing,
}

/// Whether a lease is asked for to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// For work as usual.
    No,
    /// The probe is being claimed first.
    Claiming,
    /// The probe is claimed, under this token.
    Claimed(i64),
}

impl Probe {
    pub(super) const fn token(self) -> Option<i64> {
        match self {
            Self::Claimed(token) => Some(token),
            Self::No | Self::Claiming => None,
        }
    }
}

impl Holding {
    /// The place that it takes up.
    const fn place(&self) -> Option<Place> {
        match self {
            Self::Asking { place, .. } | Self::Working { place, .. } => Some(*place),
            Self::Closing => None,
        }
    }

    /// The URL that it has a slot of.
    fn slot(&self) -> Option<&EndpointUrl> {
        match self {
            Self::Asking { url, .. } | Self::Working { url, .. } => url.as_ref(),
            Self::Closing => None,
        }
    }

    const fn probes(&self) -> bool {
        match self {
            Self::Asking { probe, .. } => !matches!(probe, Probe::No),
            Self::Working { probes, .. } => *probes,
            Self::Closing => false,
        }
    }
}

/// What the holdings of one URL use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    slots: usize,
    probes: usize,
    slow: usize,
}

/// How many places of each kind are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) answering: usize,
    pub(super) remembered: usize,
    pub(super) first: usize,
    pub(super) slow: usize,
}

impl Places {
    /// Workers, and those that are about to be.
    pub(super) const fn workers(&self) -> usize {
        self.answering + self.remembered + self.first
    }

    const fn of(&mut self, place: Place) -> &mut usize {
        match place {
            Place::Answering => &mut self.answering,
            Place::Remembered => &mut self.remembered,
            Place::First => &mut self.first,
            Place::Slow => &mut self.slow,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    by_queue: HashMap<QueueName, (Claim, Holding)>,
    used: HashMap<EndpointUrl, Used>,
    places: Places,
    probes: usize,
    /// URLs for which something became free since this was asked.
    eased: HashSet<EndpointUrl>,
    /// Told of while they were held: they are looked at once more after the release.
    again: HashSet<QueueName>,
    claims: u64,
}

impl Holdings {
    /// Takes in a queue that is not held; `None` when it is.
    pub(super) fn begin(&mut self, queue: &QueueName, holding: Holding) -> Option<Claim> {
        if self.by_queue.contains_key(queue) {
            return None;
        }
        self.claims += 1;
        let claim = Claim(self.claims);
        self.count(&holding);
        self.by_queue.insert(queue.clone(), (claim, holding));
        Some(claim)
    }

    /// What is held under `claim`.
    pub(super) fn claimed(&self, queue: &QueueName, claim: Claim) -> Option<&Holding> {
        self.by_queue
            .get(queue)
            .filter(|(current, _)| *current == claim)
            .map(|(_, holding)| holding)
    }

    /// The share of the memory that was taken for what is asked for under `claim`.
    pub(super) fn take_share(&mut self, queue: &QueueName, claim: Claim) -> Option<Share> {
        match self.by_queue.get_mut(queue) {
            Some((current, Holding::Asking { share, .. })) if *current == claim => share.take(),
            Some(_) | None => None,
        }
    }

    /// It becomes another, under the same claim; false when that is not the present one.
    pub(super) fn turn(&mut self, queue: &QueueName, claim: Claim, holding: Holding) -> bool {
        if self.end(queue, claim).is_none() {
            return false;
        }
        self.count(&holding);
        self.by_queue.insert(queue.clone(), (claim, holding));
        true
    }

    /// It is held no more; answers what it was, and `None` when it is not held under this claim.
    pub(super) fn end(&mut self, queue: &QueueName, claim: Claim) -> Option<Holding> {
        self.claimed(queue, claim)?;
        let (_, holding) = self.by_queue.remove(queue)?;
        self.discount(&holding);
        Some(holding)
    }

    /// A worker that had no slot has one of `url` from now on; false when there is no such worker.
    pub(super) fn give_slot(&mut self, queue: &QueueName, of: &EndpointUrl) -> bool {
        let Some((
            _,
            Holding::Working {
                url: url @ None, place, ..
            },
        )) = self.by_queue.get_mut(queue)
        else {
            return false;
        };
        *url = Some(of.clone());
        let slow = usize::from(*place == Place::Slow);
        let used = self.used.entry(of.clone()).or_default();
        used.slots += 1;
        used.slow += slow;
        true
    }

    /// A worker takes up another place from now on.
    pub(super) fn stand(&mut self, queue: &QueueName, to: Place) {
        let Some((_, Holding::Working { url, place, .. })) = self.by_queue.get_mut(queue) else {
            return;
        };
        let from = std::mem::replace(place, to);
        *self.places.of(from) -= 1;
        *self.places.of(to) += 1;
        let Some(used) = url.as_ref().and_then(|url| self.used.get_mut(url)) else {
            return;
        };
        used.slow += usize::from(to == Place::Slow);
        used.slow -= usize::from(from == Place::Slow);
        if let Some(url) = url {
            self.eased.insert(url.clone());
        }
    }

    /// It is looked at once more when it is not held any more.
    pub(super) fn look_again(&mut self, queue: QueueName) {
        self.again.insert(queue);
    }

    /// Takes that back; answers whether it was to be looked at once more.
    pub(super) fn take_again(&mut self, queue: &QueueName) -> bool {
        self.again.remove(queue)
    }

    pub(super) fn get(&self, queue: &QueueName) -> Option<&Holding> {
        self.by_queue.get(queue).map(|(_, holding)| holding)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_queue.is_empty()
    }

    /// The workers: on which queue, of which URL, in which place.
    pub(super) fn working(&self) -> impl Iterator<Item = (&QueueName, Option<&EndpointUrl>, &Arc<Control>, Place)> {
        self.by_queue.iter().filter_map(|(queue, (_, holding))| match holding {
            Holding::Working {
                url, control, place, ..
            } => Some((queue, url.as_ref(), control, *place)),
            Holding::Asking { .. } | Holding::Closing => None,
        })
    }

    /// The places that are taken.
    pub(super) const fn places(&self) -> Places {
        self.places
    }

    /// Probes under way.
    pub(super) const fn probes(&self) -> usize {
        self.probes
    }

    /// URLs for which something became free since the last call.
    pub(super) fn eased(&mut self) -> HashSet<EndpointUrl> {
        std::mem::take(&mut self.eased)
    }

    /// Slots of `url` in use.
    pub(super) fn slots(&self, url: &EndpointUrl) -> usize {
        self.used.get(url).map_or(0, |used| used.slots)
    }

    /// Whether the probe of `url` is under way here.
    pub(super) fn is_probing(&self, url: &EndpointUrl) -> bool {
        self.used.get(url).is_some_and(|used| used.probes > 0)
    }

    /// Whether a request to `url` hangs.
    pub(super) fn hangs(&self, url: &EndpointUrl) -> bool {
        self.used.get(url).is_some_and(|used| used.slow > 0)
    }

    fn count(&mut self, holding: &Holding) {
        let Some(place) = holding.place() else { return };
        *self.places.of(place) += 1;
        self.probes += usize::from(holding.probes());
        if let Some(url) = holding.slot() {
            let used = self.used.entry(url.clone()).or_default();
            used.slots += 1;
            used.probes += usize::from(holding.probes());
            used.slow += usize::from(place == Place::Slow);
        }
    }

    fn discount(&mut self, holding: &Holding) {
        let Some(place) = holding.place() else { return };
        *self.places.of(place) -= 1;
        self.probes -= usize::from(holding.probes());
        let Some(url) = holding.slot() else { return };
        if let Some(used) = self.used.get_mut(url) {
            used.slots -= 1;
            used.probes -= usize::from(holding.probes());
            used.slow -= usize::from(place == Place::Slow);
            if used.slots == 0 {
                self.used.remove(url);
            }
            self.eased.insert(url.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn url() -> EndpointUrl {
        EndpointUrl::parse("http://example.com/a").unwrap()
    }

    fn asking(url: Option<EndpointUrl>, probe: Probe) -> Holding {
        Holding::Asking {
            url,
            probe,
            place: Place::First,
            share: None,
        }
    }

    fn working(url: Option<EndpointUrl>) -> Holding {
        Holding::Working {
            url,
            control: Arc::new(Control::new(mpsc::channel(1).0)),
            probes: false,
            place: Place::Answering,
        }
    }

    fn used(holdings: &Holdings) -> (usize, usize, bool) {
        (
            holdings.places().workers(),
            holdings.slots(&url()),
            holdings.is_probing(&url()),
        )
    }

    #[test]
    fn what_is_used_comes_and_goes_with_what_is_held() {
        let mut holdings = Holdings::default();
        let claim = holdings
            .begin(&queue("a"), asking(Some(url()), Probe::Claiming))
            .unwrap();
        assert_eq!(used(&holdings), (1, 1, true));
        assert!(holdings.begin(&queue("a"), Holding::Closing).is_none(), "it is held");
        assert!(holdings.turn(&queue("a"), claim, working(Some(url()))));
        assert_eq!(used(&holdings), (1, 1, false));
        assert!(holdings.turn(&queue("a"), claim, Holding::Closing));
        assert_eq!(used(&holdings), (0, 0, false));
        assert!(holdings.end(&queue("a"), claim).is_some());
        assert!(holdings.is_empty());
    }

    #[test]
    fn an_answer_under_an_earlier_claim_changes_nothing() {
        let mut holdings = Holdings::default();
        let earlier = holdings.begin(&queue("a"), Holding::Closing).unwrap();
        holdings.end(&queue("a"), earlier);
        holdings.begin(&queue("a"), asking(Some(url()), Probe::No)).unwrap();
        assert!(holdings.end(&queue("a"), earlier).is_none());
        assert!(!holdings.turn(&queue("a"), earlier, Holding::Closing));
        assert_eq!(used(&holdings), (1, 1, false));
    }

    #[test]
    fn a_worker_gets_one_slot_and_somebody_who_asks_none() {
        let mut holdings = Holdings::default();
        holdings.begin(&queue("asks"), asking(None, Probe::No)).unwrap();
        let claim = holdings.begin(&queue("works"), working(None)).unwrap();
        assert!(!holdings.give_slot(&queue("asks"), &url()));
        assert!(holdings.give_slot(&queue("works"), &url()));
        assert!(!holdings.give_slot(&queue("works"), &url()), "it has one");
        assert_eq!(used(&holdings), (2, 1, false));
        holdings.end(&queue("works"), claim);
        assert_eq!(used(&holdings), (1, 0, false));
    }

    #[test]
    fn a_request_that_hangs_leaves_the_workers_and_counts_for_its_url() {
        let mut holdings = Holdings::default();
        let claim = holdings.begin(&queue("a"), working(Some(url()))).unwrap();
        assert!(!holdings.hangs(&url()));
        holdings.stand(&queue("a"), Place::Slow);
        assert_eq!((holdings.places().workers(), holdings.places().slow), (0, 1));
        assert!(holdings.hangs(&url()));
        assert!(holdings.eased().contains(&url()));
        holdings.stand(&queue("a"), Place::Answering);
        assert_eq!((holdings.places().workers(), holdings.hangs(&url())), (1, false));
        holdings.stand(&queue("a"), Place::Slow);
        holdings.end(&queue("a"), claim);
        assert_eq!(holdings.places(), Places::default());
        assert!(!holdings.hangs(&url()) && holdings.eased().contains(&url()));
    }
}
