//! Queues that have something to do and wait for a slot of their URL and a place (docs/protocols.md 16, 35).
//!
//! Pure bookkeeping: URLs take turns in the line of their kind, queues of one URL are in order of arrival, behind them those
//! whose message failed, nothing is in twice. A URL that can take nothing at present stands aside until something changes for it, so that finding
//! the next queue costs the same however many URLs are dead.

use std::collections::VecDeque;

use crate::ambient::{HashMap, HashSet};
use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;

/// URLs of queues remembered beyond those that wait, at most.
const URLS_MAX: usize = 200_000;
/// Queues that wait, at most; more are found again by the sweep.
const WAITING_MAX: usize = 200_000;

/// The lines that URLs wait in: who never answered stands in no line with those known to hang, and who did not answer
/// this process in none with those that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It answers this process.
    Answering,
    /// It answered an earlier process.
    Remembered,
    /// Nobody knows whether it answers.
    First,
    /// It gave no answer in time.
    Silent,
}

/// What a URL whose turn it is can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Take one more.
    Takes,
    /// It belongs to another line by now.
    Elsewhere(Line),
    /// Nothing, until [`Candidates::recall`].
    Aside,
}

/// Those of one URL.
#[derive(Debug)]
struct Waiting {
    queues: VecDeque<QueueName>,
    /// Those that failed: any other message tells more of the URL. Once it takes messages they are as good as others.
    failed: VecDeque<QueueName>,
    /// Which entry of a line is its turn; others with its name are left over.
    ticket: u64,
    /// It waits in no line.
    aside: bool,
}

/// A line, with what is left over of URLs that left it.
type Tickets = VecDeque<(u64, EndpointUrl)>;

/// The waiting queues.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    urls: HashMap<QueueName, EndpointUrl>,
    /// Where each of them waits: with its URL, or among those whose URL is not known.
    waiting: HashMap<QueueName, Option<EndpointUrl>>,
    by_url: HashMap<EndpointUrl, Waiting>,
    /// Those that failed and do not wait yet.
    failed: HashSet<QueueName>,
    /// By [`Line`].
    lines: [Tickets; 4],
    tickets: u64,
    /// Queues whose URL is not known yet.
    unknown: VecDeque<QueueName>,
}

impl Candidates {
    /// Remembers a queue's URL.
    pub(super) fn learn(&mut self, queue: &QueueName, url: &EndpointUrl) {
        if self.urls.len() >= URLS_MAX && !self.urls.contains_key(queue) {
            let Self { urls, waiting, .. } = self;
            urls.retain(|name, _| waiting.contains_key(name));
        }
        self.urls.insert(queue.clone(), url.clone());
    }

    /// The URL of a queue, where it is known.
    pub(super) fn url_of(&self, queue: &QueueName) -> Option<&EndpointUrl> {
        self.urls.get(queue)
    }

    /// Forgets a queue that is gone, wherever it waits.
    pub(super) fn forget(&mut self, queue: &QueueName) {
        self.take(queue);
        self.urls.remove(queue);
        self.failed.remove(queue);
    }

    /// Its message failed: should its URL take nothing but probes, the others of that URL come first.
    pub(super) fn failed(&mut self, queue: &QueueName) {
        if self.failed.len() >= WAITING_MAX {
            self.failed.clear();
        }
        self.failed.insert(queue.clone());
    }

    /// Takes a queue in, at the end of the line of its URL. A URL that nobody waited for joins `line`.
    pub(super) fn add(&mut self, queue: QueueName, line: Line) {
        if self.waiting.len() >= WAITING_MAX || self.waiting.contains_key(&queue) {
            return;
        }
        let url = self.urls.get(&queue).cloned();
        let has_failed = self.failed.remove(&queue);
        self.waiting.insert(queue.clone(), url.clone());
        let Some(url) = url else {
            self.unknown.push_back(queue);
            return;
        };
        let is_new = !self.by_url.contains_key(&url);
        let waiting = self.by_url.entry(url.clone()).or_insert_with(|| Waiting {
            queues: VecDeque::new(),
            failed: VecDeque::new(),
            ticket: 0,
            aside: true,
        });
        if has_failed {
            waiting.failed.push_back(queue);
        } else {
            waiting.queues.push_back(queue);
        }
        if is_new {
            self.join(url, line);
        }
    }

    /// Takes out a particular queue, wherever it waits; true when it did.
    pub(super) fn take(&mut self, queue: &QueueName) -> bool {
        let Some(place) = self.waiting.remove(queue) else {
            return false;
        };
        let Some(url) = place else {
            self.unknown.retain(|name| name != queue);
            return true;
        };
        if let Some(waiting) = self.by_url.get_mut(&url) {
            for queues in [&mut waiting.queues, &mut waiting.failed] {
                if queues.front() == Some(queue) {
                    queues.pop_front();
                } else {
                    queues.retain(|name| name != queue);
                }
            }
            if waiting.queues.is_empty() && waiting.failed.is_empty() {
                self.by_url.remove(&url);
            }
        }
        true
    }

    /// The queue of `url` that waits longest, of those whose message has not failed where there is one.
    pub(super) fn first_of(&self, url: &EndpointUrl) -> Option<&QueueName> {
        let waiting = self.by_url.get(url)?;
        waiting.queues.front().or_else(|| waiting.failed.front())
    }

    /// The next queue whose URL is unknown.
    pub(super) fn next_unknown(&mut self) -> Option<QueueName> {
        let queue = self.unknown.pop_front()?;
        self.waiting.remove(&queue);
        Some(queue)
    }

    /// Some of those whose URL is not known, at most so many; those that were not asked for come first the next time.
    pub(super) fn some_unknown(&mut self, most: usize) -> Vec<QueueName> {
        let some: Vec<QueueName> = self.unknown.drain(..most.min(self.unknown.len())).collect();
        self.unknown.extend(some.iter().cloned());
        some
    }

    /// These URLs became known; queues that waited without one join the line of theirs.
    pub(super) fn found(&mut self, found: &[(QueueName, EndpointUrl, Line)]) {
        for (queue, url, _) in found {
            self.learn(queue, url);
        }
        let waited = |name: &QueueName| matches!(self.waiting.get(name), Some(None));
        let joining: HashMap<&QueueName, Line> = found
            .iter()
            .filter(|(name, ..)| waited(name))
            .map(|(name, _, line)| (name, *line))
            .collect();
        if joining.is_empty() {
            return;
        }
        self.unknown.retain(|name| !joining.contains_key(name));
        for (name, line) in joining {
            self.waiting.remove(name);
            self.add(name.clone(), line);
        }
    }

    /// The next queue in turn in `line`; what `turn` says of its URL decides.
    pub(super) fn next(
        &mut self,
        line: Line,
        mut turn: impl FnMut(&EndpointUrl) -> Turn,
    ) -> Option<(QueueName, EndpointUrl)> {
        while let Some((ticket, url)) = self.lines[line as usize].pop_front() {
            let Some(waiting) = self.by_url.get_mut(&url) else {
                continue;
            };
            if waiting.aside || waiting.ticket != ticket {
                continue;
            }
            waiting.aside = true;
            match turn(&url) {
                Turn::Aside => {}
                Turn::Elsewhere(line) => self.join(url, line),
                Turn::Takes => {
                    waiting.queues.append(&mut waiting.failed);
                    let queue = waiting.queues.pop_front();
                    if waiting.queues.is_empty() {
                        self.by_url.remove(&url);
                    } else {
                        self.join(url.clone(), line);
                    }
                    if let Some(queue) = queue {
                        self.waiting.remove(&queue);
                        return Some((queue, url));
                    }
                }
            }
        }
        None
    }

    /// Something changed for `url`: it joins `line` if it stood aside.
    pub(super) fn recall(&mut self, url: &EndpointUrl, line: Line) {
        if self.by_url.get(url).is_some_and(|waiting| waiting.aside) {
            self.join(url.clone(), line);
        }
    }

    /// Every URL that stands aside.
    pub(super) fn aside(&self) -> Vec<EndpointUrl> {
        let aside = self.by_url.iter().filter(|(_, waiting)| waiting.aside);
        aside.map(|(url, _)| url.clone()).collect()
    }

    /// Whether a queue of `url` waits.
    pub(super) fn waits(&self, url: &EndpointUrl) -> bool {
        self.by_url.contains_key(url)
    }

    /// Whether one waits whose URL is not known.
    pub(super) fn unknown_waits(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Whether a URL may be in `line`: what is left over of others is counted too.
    pub(super) fn may_wait_in(&self, line: Line) -> bool {
        !self.lines[line as usize].is_empty()
    }

    /// Whether half of those that may wait do.
    pub(super) fn many_wait(&self) -> bool {
        self.waiting.len() >= WAITING_MAX / 2
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn join(&mut self, url: EndpointUrl, line: Line) {
        self.tickets += 1;
        let ticket = self.tickets;
        let Some(waiting) = self.by_url.get_mut(&url) else {
            return;
        };
        (waiting.ticket, waiting.aside) = (ticket, false);
        let many = self.by_url.len() * 2 + 64;
        let tickets = &mut self.lines[line as usize];
        tickets.push_back((ticket, url));
        if tickets.len() > many {
            let by_url = &self.by_url;
            tickets.retain(|(ticket, url)| by_url.get(url).is_some_and(|w| !w.aside && w.ticket == *ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    fn url(path: &str) -> EndpointUrl {
        EndpointUrl::parse(&format!("http://example.com/{path}")).unwrap()
    }

    fn filled() -> Candidates {
        let mut candidates = Candidates::default();
        for (name, path) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
            candidates.learn(&queue(name), &url(path));
            candidates.add(queue(name), Line::Answering);
            candidates.add(queue(name), Line::Answering);
        }
        candidates.add(queue("unknown"), Line::First);
        candidates
    }

    fn order(candidates: &mut Candidates, takes: impl Fn(&EndpointUrl) -> bool) -> Vec<String> {
        let turn = |url: &EndpointUrl| if takes(url) { Turn::Takes } else { Turn::Aside };
        std::iter::from_fn(|| candidates.next(Line::Answering, turn))
            .map(|(name, _)| name.as_str().to_owned())
            .collect()
    }

    #[test]
    fn urls_take_turns_and_nothing_is_in_twice() {
        assert_eq!(order(&mut filled(), |_| true), ["a1", "b1", "a2"]);
    }

    #[test]
    fn a_url_that_takes_nothing_stands_aside_until_it_is_recalled() {
        let mut candidates = filled();
        assert_eq!(order(&mut candidates, |u| *u == url("b")), ["b1"]);
        let asked = std::cell::Cell::new(0);
        let count = |_: &EndpointUrl| {
            asked.set(asked.get() + 1);
            true
        };
        assert_eq!(order(&mut candidates, count), Vec::<String>::new());
        assert_eq!(asked.get(), 0, "it costs nothing while it stands aside");
        candidates.recall(&url("a"), Line::Answering);
        candidates.recall(&url("a"), Line::Answering);
        assert_eq!(order(&mut candidates, |_| true), ["a1", "a2"]);
    }

    #[test]
    fn a_url_that_belongs_elsewhere_changes_its_line() {
        let mut candidates = filled();
        let elsewhere = |u: &EndpointUrl| {
            if *u == url("a") {
                Turn::Elsewhere(Line::Silent)
            } else {
                Turn::Takes
            }
        };
        let taken = candidates.next(Line::Answering, elsewhere).map(|(name, _)| name);
        assert_eq!(taken, Some(queue("b1")));
        assert_eq!(candidates.next(Line::Answering, |_| Turn::Takes), None);
        let taken = candidates.next(Line::Silent, |_| Turn::Takes).map(|(name, _)| name);
        assert_eq!(taken, Some(queue("a1")));
    }

    #[test]
    fn a_queue_whose_url_becomes_known_waits_in_the_line_of_that_url() {
        let mut candidates = filled();
        candidates.add(queue("other"), Line::First);
        assert_eq!(candidates.some_unknown(1), [queue("unknown")]);
        assert_eq!(candidates.some_unknown(5), [queue("other"), queue("unknown")]);
        candidates.found(&[
            (queue("unknown"), url("c"), Line::Remembered),
            (queue("nobody waits for it"), url("c"), Line::Remembered),
        ]);
        let taken = candidates.next(Line::Remembered, |_| Turn::Takes);
        assert_eq!(taken, Some((queue("unknown"), url("c"))));
        assert_eq!(candidates.next(Line::Remembered, |_| Turn::Takes), None);
        assert_eq!(candidates.next_unknown(), Some(queue("other")));
        assert_eq!(candidates.next_unknown(), None);
        assert_eq!(order(&mut candidates, |_| true), ["a1", "b1", "a2"]);
    }

    #[test]
    fn what_is_left_over_of_those_that_left_a_line_does_not_grow() {
        let mut candidates = filled();
        for _ in 0..10_000 {
            assert!(candidates.take(&queue("b1")));
            candidates.add(queue("b1"), Line::Answering);
        }
        let left = candidates.lines[Line::Answering as usize].len();
        assert!(left < 200, "{left}");
        assert_eq!(order(&mut candidates, |_| true), ["a1", "b1", "a2"]);
    }

    #[test]
    fn a_queue_that_is_gone_waits_no_more_and_gives_no_probe() {
        let mut candidates = filled();
        candidates.forget(&queue("a1"));
        assert_eq!(candidates.first_of(&url("a")), Some(&queue("a2")));
        assert_eq!(order(&mut candidates, |_| true), ["a2", "b1"]);
    }

    #[test]
    fn a_queue_that_failed_gives_the_next_probe_when_no_other_one_waits_and_keeps_its_place_once_the_url_takes() {
        let mut candidates = filled();
        let fails = |candidates: &mut Candidates, name: &str| {
            assert!(candidates.take(&queue(name)));
            candidates.failed(&queue(name));
            candidates.add(queue(name), Line::Answering);
        };
        for name in ["a1", "a2"] {
            assert_eq!(candidates.first_of(&url("a")), Some(&queue(name)));
            fails(&mut candidates, name);
        }
        assert_eq!(candidates.first_of(&url("a")), Some(&queue("a1")), "all of them failed");
        for name in ["new", "newer"] {
            candidates.learn(&queue(name), &url("a"));
            candidates.add(queue(name), Line::Answering);
        }
        assert_eq!(candidates.first_of(&url("a")), Some(&queue("new")));
        fails(&mut candidates, "new");
        let first = candidates.next(
            Line::Answering,
            |u| {
                if *u == url("a") { Turn::Takes } else { Turn::Aside }
            },
        );
        assert_eq!(first, Some((queue("newer"), url("a"))));
        candidates.add(queue("newer"), Line::Answering);
        assert_eq!(order(&mut candidates, |u| *u == url("a")), ["a1", "a2", "new", "newer"]);
    }

    #[test]
    fn a_particular_queue_can_be_taken_out() {
        let mut candidates = filled();
        // Learned while it waits for that: it is taken from where it waits.
        candidates.learn(&queue("unknown"), &url("c"));
        assert!(candidates.take(&queue("a1")));
        assert!(candidates.take(&queue("b1")));
        assert!(candidates.take(&queue("unknown")));
        assert!(!candidates.take(&queue("a1")));
        assert_eq!(order(&mut candidates, |_| true), ["a2"]);
        assert_eq!(candidates.next_unknown(), None);
        assert_eq!(candidates.len(), 0);
    }
}
