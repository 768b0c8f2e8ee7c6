//! What of the turns is told when: at most one message in a while, and of a subject that goes to and fro its begin and
//! its end.
//!
//! - What begins is told at once, or with the next message.
//! - Its end is told when it lasted as long as the pause between two messages: a subject that is bad again before is not
//!   over, and is only counted.
//! - What ended before its begin was told is not told.
//! - What gets worse is told again.
//! - What happens often is told once, with how often.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Course, Turn, TurnKind};

/// Turns of one message, at most; of the others it says how many.
pub const ITEMS_MAX: usize = 20;
/// Subjects that are told apart, at most.
const SUBJECTS_MAX: usize = 1_000;

/// Decides for one receiver of alerts.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Between two messages, and how long an end has to last.
    every: Duration,
    /// When something was told last (uptime).
    told_at: Option<Duration>,
    subjects: BTreeMap<(&'static str, String), Subject>,
    /// Turns of subjects that there was no room for.
    without_room: u64,
}

/// What is known of one subject.
#[derive(Clone, Debug, Default)]
struct Subject {
    /// What was told of it and is not over.
    told: Option<TurnKind>,
    /// What is to be told.
    next: Option<Turn>,
    /// Since when its end is to be told (uptime).
    over_since: Option<Duration>,
    /// How often it turned bad since something was told of it.
    times: u64,
    /// Messages of all that.
    count: Option<u64>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The turns, in no order of time.
    pub items: Vec<Item>,
    /// So many more are not among them.
    pub more: u64,
}

/// A turn of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The newest of its kind and subject.
    pub turn: Turn,
    /// How often it turned since the last message.
    pub times: u64,
}

impl Pacer {
    /// One that tells nothing more often than this.
    #[must_use]
    pub const fn new(every: Duration) -> Self {
        Self {
            every,
            told_at: None,
            subjects: BTreeMap::new(),
            without_room: 0,
        }
    }

    /// Something turned, at the uptime `now`.
    pub fn note(&mut self, turn: Turn, now: Duration) {
        let key = (turn.kind.subject_of(), turn.subject.clone());
        let is_known = self.subjects.contains_key(&key);
        if turn.kind.course() == Course::Ends && !is_known {
            return;
        }
        if !is_known && self.subjects.len() >= SUBJECTS_MAX {
            self.without_room += 1;
            return;
        }
        let subject = self.subjects.entry(key.clone()).or_default();
        match turn.kind.course() {
            Course::Begins | Course::Once => subject.turns_bad(turn),
            Course::Ends if subject.told.is_some() => {
                subject.over_since = Some(now);
                subject.next = Some(turn);
            }
            Course::Ends => drop(self.subjects.remove(&key)),
        }
    }

    /// When there is something to tell (uptime); none: not before something else turns.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        let pause = self.told_at.map_or(Duration::ZERO, |told| told + self.every);
        let next = self.subjects.values().filter_map(|subject| subject.due(self.every));
        let missed = (self.without_room > 0).then_some(Duration::ZERO);
        next.chain(missed).min().map(|due| due.max(pause))
    }

    /// What is to be told at `now`; none before it is due.
    pub fn take(&mut self, now: Duration) -> Option<Told> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        self.told_at = Some(now);
        let mut told = Told {
            items: Vec::new(),
            more: std::mem::take(&mut self.without_room),
        };
        let every = self.every;
        for subject in self.subjects.values_mut() {
            if subject.due(every).is_none_or(|due| due > now) {
                continue;
            }
            let Some(item) = subject.tell() else { continue };
            if told.items.len() < ITEMS_MAX {
                told.items.push(item);
            } else {
                told.more += 1;
            }
        }
        self.subjects.retain(|_, subject| subject.told.is_some());
        Some(told)
    }
}

impl Subject {
    fn turns_bad(&mut self, turn: Turn) {
        self.times += 1;
        self.over_since = None;
        self.count = match (self.count, turn.count) {
            (Some(sum), Some(more)) if turn.kind.course() == Course::Once => Some(sum.saturating_add(more)),
            (sum, newest) => newest.or(sum),
        };
        self.next = (self.told != Some(turn.kind)).then_some(turn);
    }

    fn due(&self, every: Duration) -> Option<Duration> {
        self.next.as_ref()?;
        Some(self.over_since.map_or(Duration::ZERO, |since| since + every))
    }

    fn tell(&mut self) -> Option<Item> {
        let mut turn = self.next.take()?;
        self.told = (turn.kind.course() == Course::Begins).then_some(turn.kind);
        self.over_since = None;
        if turn.kind.course() != Course::Ends {
            turn.count = self.count.take();
        }
        Some(Item {
            turn,
            times: std::mem::take(&mut self.times).max(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::time::Timestamp;
    use super::TurnKind::{DeadLetters, EndpointAvailable, EndpointParked, EndpointUnavailable};
    use super::*;

    const EVERY: u64 = 60;

    fn turn(kind: TurnKind, subject: &str, count: Option<u64>) -> Turn {
        Turn {
            kind,
            subject: subject.to_owned(),
            text: String::new(),
            count,
            at: Timestamp::EPOCH,
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pacer() -> Pacer {
        Pacer::new(at(EVERY))
    }

    /// What is told at this second: the kinds, with how often.
    fn told(pacer: &mut Pacer, second: u64) -> Vec<(TurnKind, u64)> {
        let told = pacer.take(at(second)).map_or_else(Vec::new, |told| told.items);
        told.into_iter().map(|item| (item.turn.kind, item.times)).collect()
    }

    #[test]
    fn a_flapping_endpoint_is_one_alert_and_its_end() {
        let mut pacer = pacer();
        pacer.note(turn(EndpointUnavailable, "a", None), at(0));
        assert_eq!(told(&mut pacer, 0), [(EndpointUnavailable, 1)]);
        for second in (10..600).step_by(20) {
            pacer.note(turn(EndpointAvailable, "a", None), at(second));
            pacer.note(turn(EndpointUnavailable, "a", None), at(second + 10));
            assert_eq!(told(&mut pacer, second + 10), []);
        }
        pacer.note(turn(EndpointAvailable, "a", None), at(600));
        assert_eq!(pacer.due(), Some(at(660)));
        assert_eq!(told(&mut pacer, 659), []);
        assert_eq!(told(&mut pacer, 660), [(EndpointAvailable, 30)]);
        assert_eq!(pacer.due(), None);
    }

    #[test]
    fn what_gets_worse_is_told_again_and_what_was_over_before_it_was_told_is_not() {
        let mut pacer = pacer();
        pacer.note(turn(EndpointUnavailable, "a", None), at(0));
        told(&mut pacer, 0);
        pacer.note(turn(EndpointParked, "a", None), at(1));
        pacer.note(turn(EndpointUnavailable, "b", None), at(1));
        pacer.note(turn(EndpointAvailable, "b", None), at(2));
        assert_eq!(told(&mut pacer, 59), []);
        assert_eq!(told(&mut pacer, 60), [(EndpointParked, 1)]);
        pacer.note(turn(EndpointAvailable, "never bad", None), at(61));
        assert_eq!(pacer.due(), None);
    }

    #[test]
    fn what_happens_often_is_told_once_with_its_sum() {
        let mut pacer = pacer();
        pacer.note(turn(DeadLetters, "q", Some(1)), at(0));
        assert_eq!(told(&mut pacer, 0), [(DeadLetters, 1)]);
        for second in 1..=30 {
            pacer.note(turn(DeadLetters, "q", Some(2)), at(second));
        }
        let next = pacer.take(at(60)).unwrap();
        assert_eq!((next.items[0].times, next.items[0].turn.count), (30, Some(60)));
    }

    #[test]
    fn a_thousand_subjects_are_one_bounded_message() {
        let mut pacer = pacer();
        for number in 0..5_000 {
            pacer.note(turn(EndpointUnavailable, &number.to_string(), None), at(0));
        }
        let told = pacer.take(at(0)).unwrap();
        assert_eq!((told.items.len(), told.more), (ITEMS_MAX, 5_000 - ITEMS_MAX as u64));
        assert!(pacer.subjects.len() <= SUBJECTS_MAX);
    }
}
