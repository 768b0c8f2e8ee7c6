//! Queues that have something to do and wait for a slot of their URL and a worker (PROTOCOLS.md 16).
//!
//! Pure bookkeeping: URLs take turns, queues of one URL are in order of arrival, nothing is in twice.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::domain::id::QueueName;
use crate::domain::url::EndpointUrl;

/// URLs of queues remembered beyond those that wait, at most.
const URLS_MAX: usize = 200_000;
/// Queues that wait, at most; more are found again by the sweep.
const WAITING_MAX: usize = 200_000;

/// The waiting queues.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    urls: HashMap<QueueName, EndpointUrl>,
    waiting: HashSet<QueueName>,
    by_url: HashMap<EndpointUrl, VecDeque<QueueName>>,
    turns: VecDeque<EndpointUrl>,
    /// Queues whose URL is not known yet.
    unknown: VecDeque<QueueName>,
}

impl Candidates {
    /// Remembers a queue's URL.
    pub(super) fn learn(&mut self, queue: &QueueName, url: &EndpointUrl) {
        if self.urls.len() >= URLS_MAX {
            self.urls.retain(|name, _| self.waiting.contains(name));
        }
        self.urls.insert(queue.clone(), url.clone());
    }

    /// Forgets a queue that is gone, wherever it waits.
    pub(super) fn forget(&mut self, queue: &QueueName) {
        self.take(queue);
        self.urls.remove(queue);
    }

    /// Takes a queue in, at the end of its line.
    pub(super) fn add(&mut self, queue: QueueName) {
        if self.waiting.len() >= WAITING_MAX || !self.waiting.insert(queue.clone()) {
            return;
        }
        match self.urls.get(&queue) {
            None => self.unknown.push_back(queue),
            Some(url) => {
                let line = self.by_url.entry(url.clone()).or_default();
                if line.is_empty() {
                    self.turns.push_back(url.clone());
                }
                line.push_back(queue);
            }
        }
    }

    /// Takes out a particular queue, wherever it waits; true when it did.
    pub(super) fn take(&mut self, queue: &QueueName) -> bool {
        if !self.waiting.remove(queue) {
            return false;
        }
        if let Some(url) = self.urls.get(queue) {
            if let Some(line) = self.by_url.get_mut(url) {
                line.retain(|name| name != queue);
                if line.is_empty() {
                    self.by_url.remove(url);
                }
            }
            let url = url.clone();
            if !self.by_url.contains_key(&url) {
                self.turns.retain(|turn| *turn != url);
            }
        }
        self.unknown.retain(|name| name != queue);
        true
    }

    /// The queue of `url` that waits longest.
    pub(super) fn first_of(&self, url: &EndpointUrl) -> Option<&QueueName> {
        self.by_url.get(url).and_then(VecDeque::front)
    }

    /// The next queue whose URL is unknown.
    pub(super) fn next_unknown(&mut self) -> Option<QueueName> {
        let queue = self.unknown.pop_front()?;
        self.waiting.remove(&queue);
        Some(queue)
    }

    /// The next queue in turn among the URLs that `admits`; URLs take turns.
    pub(super) fn next(&mut self, mut admits: impl FnMut(&EndpointUrl) -> bool) -> Option<(QueueName, EndpointUrl)> {
        for _ in 0..self.turns.len() {
            let url = self.turns.pop_front()?;
            if !admits(&url) {
                self.turns.push_back(url);
                continue;
            }
            let Some(line) = self.by_url.get_mut(&url) else {
                continue;
            };
            let queue = line.pop_front();
            if line.is_empty() {
                self.by_url.remove(&url);
            } else {
                self.turns.push_back(url.clone());
            }
            if let Some(queue) = queue {
                self.waiting.remove(&queue);
                return Some((queue, url));
            }
        }
        None
    }

    /// URLs that somebody waits for.
    pub(super) fn urls_waiting(&self) -> impl Iterator<Item = &EndpointUrl> {
        self.by_url.keys()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
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
            candidates.add(queue(name));
            candidates.add(queue(name));
        }
        candidates.add(queue("unknown"));
        candidates
    }

    fn order(candidates: &mut Candidates, admits: impl Fn(&EndpointUrl) -> bool) -> Vec<String> {
        std::iter::from_fn(|| candidates.next(&admits))
            .map(|(name, _)| name.as_str().to_owned())
            .collect()
    }

    #[test]
    fn urls_take_turns_and_nothing_is_in_twice() {
        assert_eq!(order(&mut filled(), |_| true), ["a1", "b1", "a2"]);
    }

    #[test]
    fn a_url_that_takes_nothing_keeps_its_line_and_holds_up_no_other() {
        let mut candidates = filled();
        assert_eq!(order(&mut candidates, |u| *u == url("b")), ["b1"]);
        assert_eq!(order(&mut candidates, |_| true), ["a1", "a2"]);
    }

    #[test]
    fn a_queue_that_is_gone_waits_no_more_and_gives_no_probe() {
        let mut candidates = filled();
        candidates.forget(&queue("a1"));
        assert_eq!(candidates.first_of(&url("a")), Some(&queue("a2")));
        assert_eq!(order(&mut candidates, |_| true), ["a2", "b1"]);
    }

    #[test]
    fn a_particular_queue_can_be_taken_out() {
        let mut candidates = filled();
        assert!(candidates.take(&queue("a1")));
        assert!(candidates.take(&queue("b1")));
        assert!(candidates.take(&queue("unknown")));
        assert!(!candidates.take(&queue("a1")));
        assert_eq!(order(&mut candidates, |_| true), ["a2"]);
        assert_eq!(candidates.next_unknown(), None);
        assert_eq!(candidates.len(), 0);
    }
}
