//! How everything stands at one look, and the turns between that and the look before.
//!
//! A part that could not be read says nothing: what was known of it stands, and nothing ends by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::run::RunState;
use super::super::text::show;
use super::super::time::Timestamp;
use super::super::words::{about, count, plural};
use super::{Turn, TurnKind};

/// Between two sentences about one queue that goes on to get dead letters.
const RATE: Duration = Duration::from_mins(1);
/// What got none for so long is told as something new.
const CALM: Duration = Duration::from_mins(10);
/// More new groups than this at once are counted, not named.
const GROUPS_NAMED_MAX: usize = 5;
/// What a group is called is at most this wide.
const GROUP_WIDTH_MAX: usize = 120;

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

/// Dead letters that failed alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How they failed (from outside).
    pub what: String,
    /// Where (from outside).
    pub place: String,
    /// How many there are.
    pub count: u64,
}

/// What stands in one part, by subject.
type Part<T> = Option<BTreeMap<String, T>>;

/// How everything stands. A part that is `None` could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// URLs that are not available.
    pub endpoints: Part<Condition>,
    /// Queues that are set aside, are not delivered, or take no publishes.
    pub queues: Part<Condition>,
    /// Why the broker takes no publishes; empty: it does.
    pub broker: Part<Condition>,
    /// Dead letters by queue.
    pub dead: Part<u64>,
    /// Dead letters by the fingerprint of their group.
    pub groups: Part<Group>,
    /// Runs, with a sentence about each.
    pub runs: Part<(RunState, String)>,
}

/// Who looks again and again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    known: Standing,
    /// Queues that got dead letters.
    dying: BTreeMap<String, Dying>,
}

/// What was told of a queue that gets dead letters.
#[derive(Clone, Copy, Debug, Default)]
struct Dying {
    told_at: Option<Timestamp>,
    /// When it got some last.
    last_at: Timestamp,
    /// How many since something was told.
    untold: u64,
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
        dead_letters((&mut known.dead, &mut self.dying), new.dead, at, &mut turns);
        groups(&mut known.groups, new.groups, at, &mut turns);
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
        format!("queue {subject} takes publishes and is delivered again")
    } else {
        "the broker takes publishes again".to_owned()
    }
}

/// The first ones at once; while more come, how many and how fast, once in a while.
fn dead_letters(
    (known, dying): (&mut Part<u64>, &mut BTreeMap<String, Dying>),
    new: Part<u64>,
    at: Timestamp,
    turns: &mut Vec<Turn>,
) {
    let Some(new) = new else { return };
    let before = known.replace(new).unwrap_or_default();
    if let Some(known) = known {
        // A queue that could not be counted this time has what it had.
        for (queue, count) in &before {
            known.entry(queue.clone()).or_insert(*count);
        }
    }
    for (queue, now) in known.iter().flatten() {
        let more = now.saturating_sub(before.get(queue).copied().unwrap_or(0));
        if more == 0 && !dying.contains_key(queue) {
            continue;
        }
        let state = dying.entry(queue.clone()).or_default();
        if let Some((text, count)) = state.tells(queue, more, *now, at) {
            turns.push(Turn {
                kind: TurnKind::DeadLetters,
                subject: queue.clone(),
                text,
                count: Some(count),
                at,
            });
        }
    }
    dying.retain(|_, state| state.untold > 0 || at.since(state.last_at) < CALM);
}

impl Dying {
    /// `more` came, `now` are there.
    fn tells(&mut self, queue: &str, more: u64, now: u64, at: Timestamp) -> Option<(String, u64)> {
        self.untold += more;
        if more > 0 {
            self.last_at = at;
        }
        let since = self.told_at.map(|told| at.since(told));
        if self.untold == 0 || since.is_some_and(|since| since < RATE) {
            return None;
        }
        self.told_at = Some(at);
        let untold = std::mem::take(&mut self.untold);
        let letters = plural(untold, "more dead letter", "more dead letters");
        let text = match since {
            None => format!(
                "{letters} in {queue}, {} in all: `redrive dead groups` shows why",
                count(now)
            ),
            Some(since) => format!(
                "{letters} in {queue} within {} ({} a minute), {} in all",
                about(since),
                count(untold.saturating_mul(60) / since.as_secs().max(1)),
                count(now)
            ),
        };
        Some((text, untold))
    }
}

/// The first of a group. What was there at the first look is nothing new: the number of its queue is told.
fn groups(known: &mut Part<Group>, new: Part<Group>, at: Timestamp, turns: &mut Vec<Turn>) {
    let Some(new) = new else { return };
    let Some(before) = known.replace(new) else { return };
    let new: BTreeSet<&String> = known
        .iter()
        .flatten()
        .map(|(id, _)| id)
        .filter(|id| !before.contains_key(*id))
        .collect();
    let turn = |subject: &str, text: String, count: u64| Turn {
        kind: TurnKind::DeadLetters,
        subject: subject.to_owned(),
        text,
        count: Some(count),
        at,
    };
    let of_new = known.iter().flatten().filter(|(id, _)| new.contains(id));
    if new.len() > GROUPS_NAMED_MAX {
        let letters: u64 = of_new.map(|(_, group)| group.count).sum();
        let text = format!(
            "{} new groups of dead letters, {}: `redrive dead groups` lists them",
            new.len(),
            plural(letters, "letter", "letters")
        );
        turns.push(turn("groups", text, letters));
        return;
    }
    turns.extend(of_new.map(|(id, group)| {
        let named = |text: &str| show(text, GROUP_WIDTH_MAX);
        let text = format!(
            "the first dead letters of a group, {} so far: {} at {}; `redrive dead list --group {id}` lists them",
            count(group.count),
            named(&group.what),
            named(&group.place)
        );
        turn(id, text, group.count)
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
    fn dead_letters_are_told_at_once_and_then_by_their_rate_and_never_by_what_went() {
        let dead = |count| Standing {
            dead: Some([("q".to_owned(), count)].into()),
            ..Standing::default()
        };
        let mut watch = Watch::default();
        let mut told = |seconds, standing| -> Vec<(Option<u64>, String)> {
            let turns = watch.look(standing, Timestamp::from_seconds(seconds)).into_iter();
            turns.map(|turn| (turn.count, turn.text)).collect()
        };
        let first = "5 more dead letters in q, 5 in all: `redrive dead groups` shows why";
        assert_eq!(told(0, dead(5)), [(Some(5), first.to_owned())]);
        assert_eq!(told(5, dead(5)), []);
        assert_eq!(told(10, Standing::default()), []);
        assert_eq!(told(15, dead(9)), [], "soon after");
        assert_eq!(told(20, dead(2)), [], "what went is none");
        let rate = "1,000 more dead letters in q within 90 s (666 a minute), 998 in all";
        assert_eq!(told(90, dead(998)), [(Some(1_000), rate.to_owned())]);
        assert_eq!(told(700, dead(998)), []);
        let again = "1 more dead letter in q, 999 in all: `redrive dead groups` shows why";
        assert_eq!(
            told(760, dead(999)),
            [(Some(1), again.to_owned())],
            "after a calm it is new"
        );
    }

    #[test]
    fn the_first_of_a_group_is_told_with_how_and_where_and_many_at_once_are_counted() {
        let groups = |ids: std::ops::Range<u64>| Standing {
            groups: Some(
                ids.map(|id| {
                    let group = Group {
                        what: format!("rejected {id}"),
                        place: "orders".to_owned(),
                        count: id,
                    };
                    (format!("f{id}"), group)
                })
                .collect(),
            ),
            ..Standing::default()
        };
        let mut watch = Watch::default();
        let mut told = |standing| -> Vec<String> {
            let turns = watch.look(standing, AT).into_iter();
            turns.map(|turn| turn.text).collect()
        };
        assert_eq!(told(groups(1..3)), [] as [&str; 0], "what was there before");
        assert_eq!(told(Standing::default()), [] as [&str; 0]);
        assert_eq!(
            told(groups(1..4)),
            [
                "the first dead letters of a group, 3 so far: rejected 3 at orders; `redrive dead list --group f3` lists them"
            ]
        );
        assert_eq!(told(groups(2..4)), [] as [&str; 0]);
        assert_eq!(
            told(groups(2..12)),
            ["8 new groups of dead letters, 60 letters: `redrive dead groups` lists them"]
        );
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
