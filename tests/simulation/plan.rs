//! What one seed decides before anything runs: who is there, what is published, which faults come and when. Everything
//! else follows from the seed while it runs.

use std::time::Duration;

use redrive::internals::domain::naming::QueueType;
use redrive::internals::domain::policy::{OnExhausted, RetryPolicy};

use super::events::{self, Push};
use super::orders::{self, Orders};
use super::policies::{self, Change};

/// The deadline of a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Silence of a daemon that is death.
pub const TAKE_OVER: Duration = Duration::from_secs(5);
/// What would come too late otherwise comes in this time.
const EARLY_MS: u64 = 2_000;
/// Faults come in this time.
const FAULTS_IN_MS: u64 = 12_000;

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Takes,
    /// Refuses one request in four for the time being.
    Flaky,
    /// May answer after the deadline.
    Slow,
    /// Does not want every third message.
    Picky,
    /// Fails at the second message, whoever sends it.
    Broken,
}

impl Manner {
    pub const ALL: [Self; 5] = [Self::Takes, Self::Flaky, Self::Slow, Self::Picky, Self::Broken];

    pub fn path(self) -> &'static str {
        match self {
            Self::Takes => "takes",
            Self::Flaky => "flaky",
            Self::Slow => "slow",
            Self::Picky => "picky",
            Self::Broken => "broken",
        }
    }

    pub fn of(path: &str) -> Self {
        let found = Self::ALL.into_iter().find(|manner| manner.path() == path);
        found.unwrap_or(Self::Takes)
    }
}

/// What goes wrong, or is done by a person.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A daemon's process is gone in the middle of whatever it does, and comes back.
    Kill {
        daemon: usize,
        noticed_ms: u64,
        acks_are_lost: bool,
        back_after_ms: u64,
    },
    /// A daemon is stopped in order, and comes back.
    Restart { daemon: usize, back_after_ms: u64 },
    /// The connections of the publishers are cut while a publish is under way: before it arrives, or before its confirm.
    CutPublish { after_it: bool },
    /// Those of a daemon are, while it publishes a dead letter.
    CutLetter { daemon: usize, after_it: bool },
    /// A daemon's host loses its network. The broker is back before the store is.
    Isolated {
        daemon: usize,
        cut_after_ms: u64,
        span_ms: u64,
    },
    /// A daemon's connections to the broker are cut.
    Cut {
        daemon: usize,
        noticed_ms: u64,
        acks_are_lost: bool,
    },
    /// The broker closes one channel of a daemon.
    CloseChannel { daemon: usize, which: u64 },
    /// The broker is away.
    BrokerStops { span_ms: u64 },
    /// The broker takes nothing.
    Alarm { span_ms: u64 },
    /// A daemon cannot reach the store: its calls do not arrive.
    StoreAway { daemon: usize, span_ms: u64 },
    /// Answers of the store are lost: what was asked for is done.
    StoreSilent { daemon: usize, span_ms: u64 },
    /// The store is slow.
    StoreSlow { span_ms: u64 },
    /// The database fails over to a standby that lacks what was committed last.
    FailsOver { lost_ms: u64 },
    /// Somebody publishes to a delivery queue what is no notification.
    Foreign { queue: usize },
    /// Somebody tidied away the files by which processes are known to live.
    FilesGone,
    /// A receiver takes no connection.
    ReceiverDown { manner: Manner, span_ms: u64 },
    /// A person pauses a queue and resumes it.
    Pause { queue: usize, span_ms: u64 },
    /// A person looks at what waits in a queue: its worker gives the lease for as long as that takes.
    Browse { queue: usize },
    /// A person makes every endpoint available.
    Redeliver,
}

impl Fault {
    /// Whether a lease may be nobody's to give for a while: its holder is gone, away from the store, or taken for dead.
    pub const fn keeps_leases(&self) -> bool {
        matches!(
            self,
            Self::Kill { .. }
                | Self::Restart { .. }
                | Self::Cut { .. }
                | Self::Isolated { .. }
                | Self::BrokerStops { .. }
                | Self::StoreAway { .. }
                | Self::StoreSilent { .. }
                | Self::StoreSlow { .. }
                | Self::FailsOver { .. }
                | Self::FilesGone
        )
    }

    /// While there is still something to publish, to pause and to look at.
    const fn comes_early(&self) -> bool {
        matches!(
            self,
            Self::CutPublish { .. }
                | Self::CutLetter { .. }
                | Self::Pause { .. }
                | Self::Browse { .. }
                | Self::Isolated { .. }
                | Self::Foreign { .. }
        )
    }
}

/// A fault and when it comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub at: Duration,
    pub fault: Fault,
}

/// One ordered queue and what is published to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    pub execution: String,
    pub manner: Manner,
    pub messages: u32,
    /// Pauses between two publishes, at most.
    pub pause_ms: u64,
    /// An end mark comes after this many, and what is behind it is a rerun.
    pub end_after: Option<u32>,
}

/// What a run of the simulation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Deliveries, with faults of every kind.
    Deliveries,
    /// Runs over dead letters.
    Orders,
    /// Policies that change while messages wait.
    Policies,
    /// Events that are pushed, handled and told to subscribers.
    Events,
}

impl Scenario {
    pub const ALL: [Self; 4] = [Self::Deliveries, Self::Orders, Self::Policies, Self::Events];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Orders => "orders",
            Self::Policies => "policies",
            Self::Events => "events",
        }
    }

    /// The part of the time that it gets of a run of all.
    pub const fn share(self) -> u32 {
        match self {
            Self::Deliveries => 2,
            Self::Orders | Self::Policies | Self::Events => 1,
        }
    }

    pub fn plan(self, seed: u64) -> Plan {
        match self {
            Self::Deliveries => Plan::of(seed),
            Self::Orders => Plan::of_orders(seed),
            Self::Policies => Plan::of_policies(seed),
            Self::Events => Plan::of_events(seed),
        }
    }
}

/// Everything.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub scenario: Scenario,
    pub daemons: usize,
    pub prefetch: u16,
    pub queue_type: QueueType,
    /// How often a message of a quorum queue may come back, by somebody's policy.
    pub delivery_limit: Option<u32>,
    /// Whether processes are known to live by a session in the database, and not by a locked file.
    pub sessions: bool,
    pub policy: RetryPolicy,
    pub streams: Vec<Stream>,
    pub orders: Orders,
    pub policies: Vec<Change>,
    pub events: Vec<Push>,
    pub faults: Vec<Planned>,
}

/// What comes together in one run.
#[derive(Clone, Copy)]
enum Mix {
    /// Faults of every kind.
    Everything,
    /// Faults of two or three kinds, again and again: what they do to each other is found, and what goes wrong without the
    /// others.
    FewKinds,
}

impl Mix {
    const fn of(seed: u64) -> Self {
        if seed % 2 == 1 {
            Self::Everything
        } else {
            Self::FewKinds
        }
    }

    const fn daemons_min(self) -> usize {
        match self {
            Self::Everything => 1,
            // What daemons do to each other needs two of them.
            Self::FewKinds => 2,
        }
    }
}

/// Chance of the plan alone: dropping a fault changes nothing else of it.
pub struct Dice(fastrand::Rng);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(0..bound.max(1))
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice(fastrand::Rng::with_seed(seed ^ 0x5eed_5eed));
        let mix = Mix::of(seed);
        let daemons = (1 + dice.index(3)).max(mix.daemons_min());
        let queue_type = if dice.one_in(4) {
            QueueType::Quorum
        } else {
            QueueType::Classic
        };
        let prefetch = if dice.one_in(3) { 8 } else { 1 };
        let sessions = dice.one_in(3);
        let limited = queue_type == QueueType::Quorum && dice.one_in(2);
        let delivery_limit = limited.then(|| u32::try_from(dice.below(4)).unwrap_or(0));
        let on_exhausted = if dice.one_in(2) {
            OnExhausted::Park
        } else {
            OnExhausted::DeadLetter
        };
        let policy = RetryPolicy {
            retries_with_no_delay: u32::try_from(dice.below(2)).unwrap_or(0),
            minimum_delay_retries: 2,
            minimum_delay_s: 1,
            maximum_delay_s: 3,
            maximum_delay_retries: 2,
            backoff_retries: Some(1),
            on_exhausted,
            ..RetryPolicy::default()
        };
        let streams = streams(&mut dice, mix);
        let kinds = kinds(&mut dice, mix);
        let faults = faults(&mut dice, &kinds, daemons, streams.len());
        Self {
            seed,
            scenario: Scenario::Deliveries,
            daemons,
            prefetch: if queue_type == QueueType::Quorum { 1 } else { prefetch },
            queue_type,
            delivery_limit,
            sessions,
            policy,
            streams,
            orders: Orders::default(),
            policies: Vec::new(),
            events: Vec::new(),
            faults,
        }
    }

    /// Dead letters of others, or of receivers that refuse what they take later; nothing is published meanwhile.
    fn of_orders(seed: u64) -> Self {
        // What happens to who works on a run, and to what it sends.
        const KINDS: [u64; 17] = [0, 1, 5, 6, 7, 8, 9, 9, 10, 11, 12, 14, 15, 21, 21, 21, 22];
        let mut dice = Dice(fastrand::Rng::with_seed(seed ^ 0x0bde_0bde));
        let is_own = dice.one_in(2);
        let streams = if is_own {
            let executions = 1 + dice.below(2);
            let refused = |execution| Stream {
                execution: format!("e{execution}"),
                manner: Manner::Picky,
                messages: 6 + u32::try_from(dice.below(30)).unwrap_or(0),
                pause_ms: 0,
                end_after: None,
            };
            (0..executions).map(refused).collect()
        } else {
            Vec::new()
        };
        let orders = orders::draw(&mut dice, is_own);
        let few = 1 + dice.index(3);
        let kinds: Vec<u64> = (0..few).map(|_| KINDS[dice.index(KINDS.len())]).collect();
        let daemons = 1 + dice.index(3);
        let faults = faults(&mut dice, &kinds, daemons, 0);
        Self {
            scenario: Scenario::Orders,
            daemons,
            delivery_limit: None,
            sessions: dice.one_in(3),
            streams,
            orders,
            faults,
            ..Self::of(seed)
        }
    }

    /// Receivers that are away for long, and policies that change meanwhile.
    fn of_policies(seed: u64) -> Self {
        const KINDS: [u64; 8] = [0, 5, 6, 9, 10, 11, 18, 29];
        let mut dice = Dice(fastrand::Rng::with_seed(seed ^ 0x9011_c1e5));
        let plan = Self::of(seed);
        let policies = policies::draw(&mut dice);
        let few = 1 + dice.index(2);
        let kinds: Vec<u64> = (0..few).map(|_| KINDS[dice.index(KINDS.len())]).collect();
        let mut faults = faults(&mut dice, &kinds, plan.daemons, plan.streams.len());
        for change in &policies {
            faults.push(Planned {
                at: Duration::from_millis(200 + dice.below(3_000)),
                fault: Fault::ReceiverDown {
                    manner: change.manner,
                    span_ms: 5_000 + dice.below(30_000),
                },
            });
        }
        faults.sort_by_key(|planned| planned.at);
        Self {
            scenario: Scenario::Policies,
            delivery_limit: None,
            policy: RetryPolicy {
                minimum_delay_s: 5,
                maximum_delay_s: 20,
                ..plan.policy.clone()
            },
            policies,
            faults,
            ..plan
        }
    }

    /// Pushes, and faults of processes, store and broker.
    fn of_events(seed: u64) -> Self {
        const KINDS: [u64; 15] = [0, 1, 5, 6, 9, 10, 11, 12, 13, 14, 14, 15, 21, 21, 22];
        let mut dice = Dice(fastrand::Rng::with_seed(seed ^ 0xe7e7_e7e7));
        let (plan, events) = (Self::of(seed), events::draw(&mut dice));
        let few = 1 + dice.index(3);
        let kinds: Vec<u64> = (0..few).map(|_| KINDS[dice.index(KINDS.len())]).collect();
        let daemons = 1 + dice.index(3);
        let faults = faults(&mut dice, &kinds, daemons, 0);
        Self {
            scenario: Scenario::Events,
            daemons,
            delivery_limit: None,
            sessions: dice.one_in(3),
            // What is given up is no news of anybody.
            policy: RetryPolicy {
                on_exhausted: OnExhausted::Park,
                ..plan.policy.clone()
            },
            streams: Vec::new(),
            events,
            faults,
            ..plan
        }
    }

    /// How often a message fails, at most, before it waits for a person or dies.
    pub fn attempts_allowed(&self) -> u32 {
        if self.scenario == Scenario::Policies {
            // Those that are saved meanwhile say so.
            return 10_000;
        }
        let policy = &self.policy;
        let backoff = policy.backoff_retries.unwrap_or(0);
        1 + policy.retries_with_no_delay + policy.minimum_delay_retries + backoff + policy.maximum_delay_retries
    }

    /// The same without one fault.
    pub fn without(&self, fault: usize) -> Self {
        let mut plan = self.clone();
        plan.faults.remove(fault);
        plan
    }
}

fn faults(dice: &mut Dice, kinds: &[u64], daemons: usize, streams: usize) -> Vec<Planned> {
    let mut faults: Vec<Planned> = (0..dice.below(9))
        .map(|_| {
            let fault = fault(dice, kinds, daemons, streams);
            let within = if fault.comes_early() { EARLY_MS } else { FAULTS_IN_MS };
            let at = Duration::from_millis(200 + dice.below(within));
            Planned { at, fault }
        })
        .collect();
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn streams(dice: &mut Dice, mix: Mix) -> Vec<Stream> {
    let (fewest, pauses) = match mix {
        Mix::Everything => (2, [0, 100, 1_500, 4_000]),
        // Something is under way as long as faults come.
        Mix::FewKinds => (6, [500, 1_500, 2_500, 4_000]),
    };
    let executions = 1 + dice.below(3);
    let mut streams = Vec::new();
    for execution in 0..executions {
        for manner in Manner::ALL {
            if dice.one_in(2) {
                continue;
            }
            let most = if manner == Manner::Slow { 14 } else { 6 };
            let messages = fewest + u32::try_from(dice.below(most)).unwrap_or(0);
            streams.push(Stream {
                execution: format!("e{execution}"),
                manner,
                messages,
                pause_ms: pauses[dice.index(4)],
                end_after: dice
                    .one_in(3)
                    .then(|| 1 + u32::try_from(dice.below(u64::from(messages))).unwrap_or(0)),
            });
        }
    }
    streams
}

/// What is drawn from: the more numbers lead to a kind of fault, the more often it comes.
fn kinds(dice: &mut Dice, mix: Mix) -> Vec<u64> {
    // One number of each kind, and two where much else has to come together.
    const DRAWN: [u64; 21] = [
        0, 5, 6, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 24, 25, 27, 29,
    ];
    match mix {
        Mix::Everything => (0..30).collect(),
        Mix::FewKinds => {
            let few = 2 + dice.below(2);
            (0..few).map(|_| DRAWN[dice.index(DRAWN.len())]).collect()
        }
    }
}

fn fault(dice: &mut Dice, kinds: &[u64], daemons: usize, streams: usize) -> Fault {
    let daemon = dice.index(daemons);
    let noticed_ms = [0, 0, 500, 4_000][dice.index(4)];
    let acks_are_lost = dice.one_in(2);
    match kinds[dice.index(kinds.len())] {
        0..=4 => Fault::Kill {
            daemon,
            noticed_ms,
            acks_are_lost,
            back_after_ms: [100, 1_500, 7_000][dice.index(3)],
        },
        5 => Fault::Restart {
            daemon,
            back_after_ms: [100, 3_000][dice.index(2)],
        },
        6..=8 => Fault::Cut {
            daemon,
            noticed_ms,
            acks_are_lost,
        },
        9 => Fault::CloseChannel {
            daemon,
            which: dice.below(8),
        },
        10 => Fault::BrokerStops {
            span_ms: 300 + dice.below(4_000),
        },
        11 => Fault::Alarm {
            span_ms: 500 + dice.below(5_000),
        },
        kind @ (12..=16 | 25 | 26) => fault_of_the_store(dice, kind, daemon),
        17 => Fault::ReceiverDown {
            manner: Manner::ALL[dice.index(Manner::ALL.len())],
            span_ms: 300 + dice.below(8_000),
        },
        18 => Fault::Pause {
            queue: dice.index(streams.max(1)),
            span_ms: 2_500 + dice.below(5_000),
        },
        19 | 20 => Fault::CutPublish {
            after_it: dice.one_in(2),
        },
        21 => Fault::CutLetter {
            daemon,
            after_it: dice.one_in(2),
        },
        22 | 23 => Fault::Isolated {
            daemon,
            cut_after_ms: 4_000 + dice.below(4_000),
            span_ms: 7_000 + dice.below(4_000),
        },
        24 => Fault::Browse {
            queue: dice.index(streams.max(1)),
        },
        27 | 28 => Fault::Foreign {
            queue: dice.index(streams.max(1)),
        },
        _ => Fault::Redeliver,
    }
}

fn fault_of_the_store(dice: &mut Dice, kind: u64, daemon: usize) -> Fault {
    match kind {
        12 | 13 => Fault::StoreAway {
            daemon,
            span_ms: [1_000, 4_000, 8_000][dice.index(3)],
        },
        14 => Fault::StoreSilent {
            daemon,
            span_ms: 500 + dice.below(3_000),
        },
        15 => Fault::StoreSlow {
            span_ms: 500 + dice.below(5_000),
        },
        16 => Fault::FilesGone,
        _ => Fault::FailsOver {
            lost_ms: 100 + dice.below(4_000),
        },
    }
}
