//! Every profile of the configuration on one page: how the worst of each is, what waits, what died, who delivers.

use std::collections::BTreeMap;

use crate::console::state::{State, delivering};
use crate::domain::endpoint::EndpointState;
use crate::domain::queue::QueueState;
use crate::domain::time::Timestamp;
use crate::domain::words::plural;
use crate::engine::snapshot::Snapshot;

/// What is known of the profiles: each answers for itself.
pub type Surveyed = BTreeMap<String, Answer>;

/// What came of looking at a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When.
    pub at: Timestamp,
    /// How it is, or why that is not known (safe to show).
    pub result: Result<Condition, String>,
}

/// How grave the worst is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// Everything moves.
    Fine,
    /// It waits for a time, or somebody paused it.
    Waits,
    /// It fails.
    Fails,
    /// It waits for a person.
    Stands,
}

/// How a profile is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its worst state, in words.
    pub worst: String,
    /// How grave that is.
    pub gravity: Gravity,
    /// Messages that wait.
    pub waiting: Option<u64>,
    /// Dead letters and dead events.
    pub dead: Option<u64>,
    /// Processes that deliver.
    pub daemons: Option<usize>,
    /// When the oldest of it was read.
    pub read_at: Option<Timestamp>,
}

impl Condition {
    /// Of a profile that was looked at.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let (worst, gravity) = worst(snapshot);
        let dead = &snapshot.totals.dead;
        let daemons = snapshot.store.taken_at.map(|_| delivering(snapshot));
        Self {
            worst,
            gravity,
            waiting: snapshot.totals.waiting.filter(|_| snapshot.broker.taken_at.is_some()),
            dead: dead.letters.map(|letters| letters + dead.events.unwrap_or(0)),
            daemons,
            read_at: snapshot.read_at(),
        }
    }
}

/// The first of these that holds.
fn worst(snapshot: &Snapshot) -> (String, Gravity) {
    let totals = &snapshot.totals;
    let endpoints = |state, what: &str| {
        let count = totals.endpoints_in(state);
        (count > 0).then(|| format!("{} {what}", plural(count, "endpoint", "endpoints")))
    };
    let queues = |state: QueueState| {
        let count = totals.queues_in(state);
        (count > 0).then(|| format!("{} {}", plural(count, "queue", "queues"), state.plain()))
    };
    let waits = totals.waiting.is_none_or(|waiting| waiting > 0);
    let nobody = snapshot.store.taken_at.is_some() && delivering(snapshot) == 0 && waits;
    let unread = |part: &crate::engine::snapshot::Part, what: &str| part.problem.as_ref().map(|_| what.to_owned());
    let candidates = [
        (unread(&snapshot.broker, "broker not read"), Gravity::Stands),
        (unread(&snapshot.store, "store not read"), Gravity::Stands),
        (
            snapshot.alarm.as_ref().map(|_| "broker alarm".to_owned()),
            Gravity::Stands,
        ),
        (nobody.then(|| "nobody delivers".to_owned()), Gravity::Stands),
        (queues(QueueState::Quarantined), Gravity::Stands),
        (queues(QueueState::Refused), Gravity::Stands),
        (endpoints(EndpointState::Parked, "parked"), Gravity::Stands),
        (endpoints(EndpointState::Disabled, "disabled"), Gravity::Stands),
        (endpoints(EndpointState::Unavailable, "down"), Gravity::Fails),
        (queues(QueueState::Parked), Gravity::Stands),
        (queues(QueueState::WaitingRetry), Gravity::Waits),
        (queues(QueueState::Paused), Gravity::Waits),
    ];
    let mut found = candidates
        .into_iter()
        .filter_map(|(what, gravity)| Some((what?, gravity)));
    found
        .next()
        .unwrap_or_else(|| ("everything moves".to_owned(), Gravity::Fine))
}

/// A line of the page: the name, what the configuration says of it, and whether it is the one in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileName {
    /// As the configuration calls it; empty: without a profile.
    pub name: String,
    /// Its label and whether it is protected.
    pub says: String,
    /// Whether this console is there.
    pub is_current: bool,
}

impl State {
    /// The profile in use, then the others by their names.
    #[must_use]
    pub fn profile_names(&self) -> Vec<ProfileName> {
        let profiles = &self.session.profiles;
        let current = ProfileName {
            name: profiles.current.clone().unwrap_or_default(),
            says: self.session.place.label.clone(),
            is_current: true,
        };
        let others = profiles.others.iter().map(|other| ProfileName {
            name: other.name.clone(),
            says: other.says.clone(),
            is_current: false,
        });
        std::iter::once(current).chain(others).collect()
    }

    /// How a profile is; the one in use is what the console shows.
    #[must_use]
    pub fn condition_of(&self, profile: &ProfileName) -> Option<Answer> {
        if profile.is_current {
            let snapshot = self.data.snapshot.as_ref()?;
            return Some(Answer {
                at: snapshot.taken_at,
                result: Ok(Condition::of(snapshot)),
            });
        }
        self.data.surveyed.get(&profile.name).cloned()
    }
}
