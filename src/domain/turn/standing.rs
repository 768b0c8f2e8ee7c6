//! How everything stands at one look, and the turns between that and the look before.
//!
//! A part that could not be read says nothing: what was known of it stands, and nothing ends by it.

use std::collections::BTreeMap;

use super::super::run::RunState;
use super::super::time::Timestamp;
use super::{Turn, TurnKind};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What; one that has an end.
    pub kind: TurnKind,
    /// One sentence.
    pub text: String,
    /// How many messages wait for it, where that is known.
    pub count: Option<u64>,
}

/// What stands in one part, by subject.
type Part<T> = Option<BTreeMap<String, T>>;

/// How everything stands. A part that is `None` could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// URLs that are not available.
    pub endpoints: Part<Condition>,
    /// Queues that are set aside or refused.
    pub queues: Part<Condition>,
    /// Why the broker takes no publishes; empty: it does.
    pub broker: Part<Condition>,
    /// Dead letters by queue.
    pub dead: Part<u64>,
    /// Runs, with a sentence about each.
    pub runs: Part<(RunState, String)>,
}

/// Who looks again and again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    known: Standing,
}

impl Watch {
    /// The turns since the look before. At the first look everything that is bad is one; runs are not, because those
    /// that stopped long ago stay.
    pub fn look(&mut self, new: Standing, at: Timestamp) -> Vec<Turn> {
        let mut turns = Vec::new();
        let known = &mut self.known;
        conditions(&mut known.endpoints, new.endpoints, at, &mut turns);
        conditions(&mut known.queues, new.queues, at, &mut turns);
        conditions(&mut known.broker, new.broker, at, &mut turns);
        dead_letters(&mut known.dead, new.dead, at, &mut turns);
        runs(&mut known.runs, new.runs, at, &mut turns);
        turns
    }
}

fn conditions(known: &mut Part<Condition>, new: Part<Condition>, at: Timestamp, turns: &mut Vec<Turn>) {
    let Some(new) = new else { return };
    let before = known.replace(new).unwrap_or_default();
    let now = known.iter().flatten();
    let begun = now.filter(|(subject, condition)| before.get(*subject).is_none_or(|old| old.kind != condition.kind));
    turns.extend(begun.map(|(subject, condition)| Turn {
        kind: condition.kind,
        subject: subject.clone(),
        text: condition.text.clone(),
        count: condition.count,
        at,
    }));
    let is_there = |subject: &String| known.as_ref().is_some_and(|now| now.contains_key(subject));
    let over = before.iter().filter(|(subject, _)| !is_there(subject));
    turns.extend(over.filter_map(|(subject, old)| {
        let kind = old.kind.end()?;
        Some(Turn {
            kind,
            text: is_over(kind, subject),
            subject: subject.clone(),
            count: None,
            at,
        })
    }));
}

fn is_over(kind: TurnKind, subject: &str) -> String {
    if kind == TurnKind::EndpointAvailable {
        format!("{subject} is available again")
    } else if kind == TurnKind::QueueRecovered {
        format!("queue {subject} is delivered again")
    } else {
        "the broker takes publishes again".to_owned()
    }
}

fn dead_letters(known: &mut Part<u64>, new: Part<u64>, at: Timestamp, turns: &mut Vec<Turn>) {
    let Some(new) = new else { return };
    let before = known.replace(new).unwrap_or_default();
    if let Some(known) = known {
        // A queue that could not be counted this time has what it had.
        for (queue, count) in &before {
            known.entry(queue.clone()).or_insert(*count);
        }
    }
    turns.extend(known.iter().flatten().filter_map(|(queue, now)| {
        let more = now.saturating_sub(before.get(queue).copied().unwrap_or(0));
        (more > 0).then(|| Turn {
            kind: TurnKind::DeadLetters,
            subject: queue.clone(),
            text: format!("{more} more dead letters in {queue}, {now} in all: `redrive dead groups` shows why"),
            count: Some(more),
            at,
        })
    }));
}

fn runs(known: &mut Part<(RunState, String)>, new: Part<(RunState, String)>, at: Timestamp, turns: &mut Vec<Turn>) {
    let Some(new) = new else { return };
    let is_first = known.is_none();
    let before = known.replace(new).unwrap_or_default();
    if is_first {
        return;
    }
    let turn = |kind, id: &String, text: String| Turn {
        kind,
        subject: id.clone(),
        text,
        count: None,
        at,
    };
    let now = known.iter().flatten();
    let moved = now.filter(|(id, (state, _))| before.get(*id).is_none_or(|(old, _)| old != state));
    turns.extend(moved.filter_map(|(id, (state, text))| match state {
        RunState::Canary | RunState::Failed => Some(turn(TurnKind::RunStopped, id, text.clone())),
        RunState::Done | RunState::Cancelled => Some(turn(TurnKind::RunEnded, id, text.clone())),
        RunState::Planned | RunState::Running | RunState::Paused => None,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::EPOCH;

    fn condition(kind: TurnKind) -> Condition {
        Condition {
            kind,
            text: kind.as_str().to_owned(),
            count: None,
        }
    }

    fn endpoints(down: &[(&str, TurnKind)]) -> Standing {
        let down = down.iter().map(|(url, kind)| ((*url).to_owned(), condition(*kind)));
        Standing {
            endpoints: Some(down.collect()),
            ..Standing::default()
        }
    }

    fn seen(watch: &mut Watch, standing: Standing) -> Vec<(TurnKind, String)> {
        let turns = watch.look(standing, AT).into_iter();
        turns.map(|turn| (turn.kind, turn.subject)).collect()
    }

    #[test]
    fn what_begins_changes_and_ends_is_a_turn_each_and_what_stays_is_none() {
        use TurnKind::{EndpointAvailable, EndpointParked, EndpointUnavailable};
        let mut watch = Watch::default();
        let down = endpoints(&[("a", EndpointUnavailable)]);
        assert_eq!(seen(&mut watch, down.clone()), [(EndpointUnavailable, "a".to_owned())]);
        assert_eq!(seen(&mut watch, down), []);
        let parked = endpoints(&[("a", EndpointParked)]);
        assert_eq!(seen(&mut watch, parked), [(EndpointParked, "a".to_owned())]);
        assert_eq!(seen(&mut watch, Standing::default()), [], "unread ends nothing");
        assert_eq!(seen(&mut watch, endpoints(&[])), [(EndpointAvailable, "a".to_owned())]);
    }

    #[test]
    fn dead_letters_are_told_by_what_came_and_not_by_what_went() {
        let dead = |count| Standing {
            dead: Some([("q".to_owned(), count)].into()),
            ..Standing::default()
        };
        let mut watch = Watch::default();
        let mut counts = |standing| -> Vec<Option<u64>> {
            let turns = watch.look(standing, AT).into_iter();
            turns.map(|turn| turn.count).collect()
        };
        assert_eq!(counts(dead(5)), [Some(5)]);
        assert_eq!(counts(dead(5)), []);
        assert_eq!(counts(Standing::default()), []);
        assert_eq!(counts(dead(9)), [Some(4)]);
        assert_eq!(counts(dead(2)), []);
    }

    #[test]
    fn a_run_that_stopped_before_the_first_look_is_old_news() {
        let run = |state| Standing {
            runs: Some([("r".to_owned(), (state, "r".to_owned()))].into()),
            ..Standing::default()
        };
        let mut watch = Watch::default();
        assert_eq!(seen(&mut watch, run(RunState::Failed)), []);
        assert_eq!(seen(&mut watch, run(RunState::Running)), []);
        let stopped = (TurnKind::RunStopped, "r".to_owned());
        assert_eq!(seen(&mut watch, run(RunState::Canary)), [stopped]);
        let ended = (TurnKind::RunEnded, "r".to_owned());
        assert_eq!(seen(&mut watch, run(RunState::Done)), [ended]);
        assert_eq!(seen(&mut watch, run(RunState::Done)), []);
    }
}
