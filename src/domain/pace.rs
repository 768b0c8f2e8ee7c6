//! How fast an endpoint goes that is available again: what a person or its retry policy asked for, how far it is, and
//! what it allows at a moment. Pure: the store keeps it, every daemon computes the same from it.
//!
//! A paced message waits in its queue like any other; nothing about its order or its retries changes.

use std::time::Duration;

use super::named::named;
use super::queue::Pause;
use super::time::Timestamp;
use super::words::{about, plural};

/// Messages a second, at most.
pub const RATE_MAX: u32 = 1_000_000;
/// Requests of a canary, at most: each of them is counted in the store.
pub const CANARY_MAX: u32 = 10_000;
/// Seconds of a watch or of a step of a ramp, at most: a day.
pub const SPAN_S_MAX: u32 = 86_400;
/// What a ramp multiplies the rate by, at most.
pub const FACTOR_MAX: u32 = 100;
/// Seconds of a step of a ramp, where nobody says.
pub const STEP_S: u32 = 10;
/// Failures that stop a paced endpoint, where nobody says.
pub const STOP_AFTER: u32 = 5;
/// The command that has an endpoint go on, as sentences name it.
pub const ENDPOINT_RESUME: &str = "`redrive endpoint resume`";
/// So long after its last request a canary passes although the end of one of them is not known: its daemon is gone.
const UNKNOWN_FOR: Duration = Duration::from_secs(90);
/// A success of before the endpoint was made available is recorded within this.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// A request to a paced endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// It waited for its turn, and was one of the canary, where there is one.
    InTurn,
    /// It asks whether the endpoint is available again, and waits for no turn.
    Probe,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PaceOrder {
    /// Messages a second, at most; without it as fast as it goes.
    pub rate: Option<u32>,
    /// The rate begins low and grows.
    pub ramp: Option<Ramp>,
    /// So many requests first, and then a look.
    pub canary: Option<u32>,
    /// Seconds without a failure after which the canary passes; without it a person looks.
    pub watch_s: Option<u32>,
    /// So many failed attempts close the endpoint again.
    pub stop_after: Option<u32>,
    /// It is over when the ramp has reached the rate, not only when nothing waits any more.
    pub ends_at_rate: bool,
}

/// A rate that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Ramp {
    /// Messages a second at its begin.
    pub from: u32,
    /// What the rate is multiplied by at each step.
    pub factor: u32,
    /// Seconds of a step.
    pub every_s: u32,
}

/// An endpoint that is paced, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// What is asked for.
    pub order: PaceOrder,
    /// Who asked for it (from outside); `None`: its retry policy did.
    pub by: Option<String>,
    /// Raised by each change, so that a decision is about what was looked at.
    pub revision: i64,
    /// Since when it is paced.
    pub began_at: Timestamp,
    /// When its ramp began.
    pub ramp_at: Timestamp,
    /// Requests of the canary that were begun.
    pub taken: u32,
    /// Requests of the canary that have ended.
    pub ended: u32,
    /// When the last request of the canary was begun or ended.
    pub moved_at: Timestamp,
    /// Whether the canary is over, or there is none.
    pub passed: bool,
    /// Failed attempts since it was ordered.
    pub failed: u32,
    /// Requests of the canary that failed.
    #[serde(default)]
    pub canary_failed: u32,
    /// When a person made the endpoint available at this pace.
    #[serde(default)]
    pub opened_at: Option<Timestamp>,
    /// A person stopped it.
    pub brake: Option<Pause>,
}

/// A change of a pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaceChange {
    /// A person asks for something else; failures are counted from there, and what was counted of the canary stays.
    Order {
        /// What.
        order: PaceOrder,
        /// Who.
        by: String,
    },
    /// A person stops it.
    Brake {
        /// Who.
        by: String,
        /// Why, where that was said.
        reason: Option<String>,
    },
    /// A person has it go on: after the brake, or after the canary.
    Resume,
    /// One more request of the canary is about to begin.
    Take,
    /// That request was not begun after all: another one may be.
    GiveBack,
    /// A request of the canary has ended well.
    Ended,
    /// The canary was watched, and nothing failed.
    Passed,
    /// Nothing is held back any more.
    Release,
}

impl PaceChange {
    /// Whether every daemon looks again because of it: what a canary counts is asked for at each of its requests.
    #[must_use]
    pub const fn raises(&self) -> bool {
        !matches!(self, Self::Take | Self::GiveBack | Self::Ended)
    }
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The canary is being sent; so many are left.
    Canary(u32),
    /// The canary is watched until then.
    Watched(Timestamp),
    /// A person looks at the canary.
    Asks,
    /// A person stopped it.
    Braked,
    /// The rate grows.
    Ramp,
    /// At its rate.
    Steady,
}

named! {
    /// The word for a program.
    Stage {
        Self::Canary(_) => "canary",
        Self::Watched(_) => "watched",
        Self::Asks => "asks",
        Self::Braked => "paused",
        Self::Ramp => "ramp",
        Self::Steady => "steady",
    }
}

impl PaceOrder {
    /// Whether requests wait because of it. One that only stops after failures holds nothing back until then.
    #[must_use]
    pub const fn holds_back(&self) -> bool {
        self.rate.is_some() || self.ramp.is_some() || self.canary.is_some()
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.holds_back() && self.stop_after.is_none()
    }

    /// What is wrong with it: the field, and a sentence.
    ///
    /// # Errors
    /// The first thing.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let within = |field: &'static str, value: Option<u32>, least: u32, most: u32| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err((field, format!("{field} {value} is not between {least} and {most}")))
            }
            _ => Ok(()),
        };
        within("rate", self.rate, 1, RATE_MAX)?;
        within("canary", self.canary, 1, CANARY_MAX)?;
        within("canary_watch_s", self.watch_s, 1, SPAN_S_MAX)?;
        within("stop_after", self.stop_after, 1, RATE_MAX)?;
        within("ramp", self.ramp.map(|ramp| ramp.factor), 2, FACTOR_MAX)?;
        within("ramp_every_s", self.ramp.map(|ramp| ramp.every_s), 1, SPAN_S_MAX)?;
        if self.watch_s.is_some() && self.canary.is_none() {
            let why = "canary_watch_s needs a canary: give how many are sent first".to_owned();
            return Err(("canary_watch_s", why));
        }
        Ok(())
    }

    /// What this changes of `current`: what it does not say stays, and a rate alone ends the ramp.
    #[must_use]
    pub const fn over(&self, current: &Self) -> Self {
        let ramp_stays = self.rate.is_none();
        Self {
            rate: if self.rate.is_some() { self.rate } else { current.rate },
            ramp: match self.ramp {
                Some(ramp) => Some(ramp),
                None if ramp_stays => current.ramp,
                None => None,
            },
            canary: if self.canary.is_some() {
                self.canary
            } else {
                current.canary
            },
            watch_s: if self.watch_s.is_some() {
                self.watch_s
            } else {
                current.watch_s
            },
            stop_after: if self.stop_after.is_some() {
                self.stop_after
            } else {
                current.stop_after
            },
            ends_at_rate: false,
        }
    }

    /// Messages a second so long after its ramp began; `None`: as fast as it goes.
    fn rate_after(&self, span: Duration) -> Option<u32> {
        let Some(ramp) = self.ramp else { return self.rate };
        let steps = span.as_secs() / u64::from(ramp.every_s.max(1));
        let mut rate = ramp.from.max(1);
        for _ in 0..steps.min(32) {
            rate = rate.saturating_mul(ramp.factor.max(2));
        }
        Some(rate.min(self.rate.unwrap_or(RATE_MAX)))
    }

    /// How long `waiting` messages take from so far into its ramp on; `None`: nobody knows, nothing limits them.
    fn takes_from(&self, into: Duration, waiting: u64) -> Option<Duration> {
        let (mut left, mut at, mut took) = (waiting, into, Duration::ZERO);
        loop {
            let rate = u64::from(self.rate_after(at)?.max(1));
            let grows = self
                .ramp
                .is_some_and(|_| self.rate_after(at) < Some(self.rate.unwrap_or(RATE_MAX)));
            let step = Duration::from_secs(self.ramp.map_or(1, |ramp| u64::from(ramp.every_s.max(1))));
            let until_step = step.saturating_sub(Duration::from_micros(
                u64::try_from(at.as_micros() % step.as_micros().max(1)).unwrap_or(0),
            ));
            let of_step = u64::try_from(u128::from(rate) * until_step.as_millis() / 1_000).unwrap_or(u64::MAX);
            if !grows || left <= of_step {
                return Some(took + Duration::from_millis(left.saturating_mul(1_000) / rate));
            }
            left -= of_step;
            at += until_step;
            took += until_step;
        }
    }

    /// How long `waiting` messages take from its begin on, when all goes well; `None` where nothing limits them.
    #[must_use]
    pub fn takes(&self, waiting: u64) -> Option<Duration> {
        let watched = Duration::from_secs(u64::from(self.watch_s.unwrap_or(0)));
        let rest = self
            .canary
            .map_or(waiting, |canary| waiting.saturating_sub(u64::from(canary)));
        Some(self.takes_from(Duration::ZERO, rest)? + if rest > 0 { watched } else { Duration::ZERO })
    }

    /// In words: `at most 50 a second, from 1 a second on, twice as many every 10 s; …`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(canary) = self.canary {
            parts.push(match self.watch_s {
                Some(watch) => format!("the first {canary}, watched {watch} s"),
                None => format!("the first {canary}, then it asks"),
            });
        }
        if let Some(ramp) = self.ramp {
            parts.push(format!(
                "from {} a second, times {} every {} s",
                ramp.from, ramp.factor, ramp.every_s
            ));
        }
        if let Some(rate) = self.rate {
            parts.push(format!("at most {rate} a second"));
        }
        if let Some(stop) = self.stop_after {
            parts.push(format!("stops after {stop} failures"));
        }
        if parts.is_empty() {
            return "as fast as it goes".to_owned();
        }
        parts.join(", ")
    }
}

/// What a reason says first that tells of a pace which closed its endpoint.
const CLOSED: &str = "closed again after ";

/// Why an endpoint is parked whose pace closed it; `last` is what came last.
#[must_use]
pub fn closed_again(failed: u32, last: &str) -> String {
    let failed = plural(failed.into(), "failed attempt", "failed attempts");
    format!("{CLOSED}{failed} at its pace (last: {last})")
}

/// Whether an endpoint's error is such a reason.
#[must_use]
pub fn is_closed_again(error: &str) -> bool {
    error.starts_with(CLOSED)
}

impl Pace {
    /// One that begins now.
    #[must_use]
    pub const fn new(order: PaceOrder, by: Option<String>, now: Timestamp) -> Self {
        Self {
            order,
            by,
            revision: 1,
            began_at: now,
            ramp_at: now,
            taken: 0,
            ended: 0,
            moved_at: now,
            passed: order.canary.is_none(),
            failed: 0,
            canary_failed: 0,
            opened_at: None,
            brake: None,
        }
    }

    /// The same, where a person makes the endpoint available at this pace.
    #[must_use]
    pub fn opened(self, now: Timestamp) -> Self {
        Self {
            opened_at: Some(now),
            ..self
        }
    }

    /// Whether a person asked for it, or stopped it: only a person takes that away.
    #[must_use]
    pub const fn is_of_a_person(&self) -> bool {
        self.by.is_some() || self.brake.is_some()
    }

    /// What is left where its order is over: the brake, which only a person takes away.
    #[must_use]
    pub fn brake_alone(&self) -> Option<Self> {
        let brake = self.brake.clone()?;
        Some(Self {
            revision: self.revision + 1,
            brake: Some(brake),
            ..Self::new(PaceOrder::default(), self.by.clone(), self.began_at)
        })
    }

    /// The endpoint closed meanwhile, and is available again: the ramp begins anew, what was counted stays.
    #[must_use]
    pub fn reopened(&self, now: Timestamp) -> Self {
        Self {
            ramp_at: now,
            moved_at: now,
            opened_at: None,
            revision: self.revision + 1,
            ..self.clone()
        }
    }

    /// Whether nothing goes on until a person says so: it was stopped, or the canary is over and was not watched, or
    /// failed.
    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        // Neither depends on the time.
        matches!(self.stage(self.moved_at), Stage::Braked | Stage::Asks)
    }

    /// Where it stands.
    #[must_use]
    pub fn stage(&self, now: Timestamp) -> Stage {
        if self.brake.is_some() {
            return Stage::Braked;
        }
        if !self.passed {
            let left = self.order.canary.unwrap_or(0).saturating_sub(self.taken);
            return match self.order.watch_s {
                _ if left > 0 => Stage::Canary(left),
                Some(watch) if self.failed == 0 && self.canary_failed == 0 => {
                    Stage::Watched(self.moved_at.plus(Duration::from_secs(u64::from(watch))))
                }
                _ => Stage::Asks,
            };
        }
        if self.is_at_rate(now) || self.order.ramp.is_none() {
            Stage::Steady
        } else {
            Stage::Ramp
        }
    }

    /// Whether nothing may be sent at present.
    #[must_use]
    pub fn is_held(&self, now: Timestamp) -> bool {
        matches!(self.stage(now), Stage::Watched(_) | Stage::Asks | Stage::Braked)
    }

    /// Whether each request is counted in the store before it begins.
    #[must_use]
    pub const fn is_canary(&self) -> bool {
        !self.passed
    }

    /// Messages a second at present, over all daemons; `None`: as fast as it goes.
    #[must_use]
    pub fn rate_at(&self, now: Timestamp) -> Option<u32> {
        if self.passed {
            self.order.rate_after(now.since(self.ramp_at))
        } else {
            self.order.rate_after(Duration::ZERO)
        }
    }

    /// Whether the ramp is at its end.
    #[must_use]
    pub fn is_at_rate(&self, now: Timestamp) -> bool {
        self.passed && self.rate_at(now) >= Some(self.order.rate.unwrap_or(RATE_MAX))
    }

    /// Whether the watch of the canary is over, and nothing failed.
    #[must_use]
    pub fn may_pass(&self, now: Timestamp) -> bool {
        let Stage::Watched(until) = self.stage(now) else {
            return false;
        };
        let all_known = self.ended >= self.taken;
        until <= now && (all_known || now.since(self.moved_at) >= UNKNOWN_FOR)
    }

    /// How long `waiting` messages take from now on, when all goes well; `None`: a person has to do something first, or
    /// nothing limits them.
    #[must_use]
    pub fn takes(&self, waiting: u64, now: Timestamp) -> Option<Duration> {
        match self.stage(now) {
            Stage::Braked | Stage::Asks => None,
            Stage::Canary(_) => self.order.takes(waiting),
            Stage::Watched(until) => Some(self.order.takes_from(Duration::ZERO, waiting)? + until.since(now)),
            Stage::Ramp | Stage::Steady => self.order.takes_from(now.since(self.ramp_at), waiting),
        }
    }

    /// What it says to people: `ramping up: 8 a second`, `paused by ana`.
    #[must_use]
    pub fn in_words(&self, now: Timestamp) -> String {
        let rate = match self.rate_at(now) {
            Some(rate) => format!("{rate} a second"),
            None => "as fast as it goes".to_owned(),
        };
        match self.stage(now) {
            Stage::Braked => self.brake.as_ref().map(Pause::in_words).unwrap_or_default(),
            Stage::Canary(left) => format!("canary: {left} of {} left", self.order.canary.unwrap_or(0)),
            Stage::Watched(until) => format!(
                "canary of {} is sent: continues in {} s when nothing fails",
                self.taken,
                until.since(now).as_secs()
            ),
            Stage::Asks if self.canary_failed > 0 => {
                format!(
                    "canary of {} is sent, {} failed: waits for a person to resume it",
                    self.taken, self.canary_failed
                )
            }
            Stage::Asks if self.failed > 0 => {
                let failed = plural(self.failed.into(), "attempt", "attempts");
                format!(
                    "canary of {} is sent, and {failed} failed: waits for a person to resume it",
                    self.taken
                )
            }
            Stage::Asks => format!("canary of {} is sent: waits for a person to resume it", self.taken),
            Stage::Ramp => format!("ramping up: {rate}"),
            Stage::Steady if self.rate_at(now).is_some() => format!("paced: at most {rate}"),
            Stage::Steady => match self.order.stop_after {
                Some(stop) => format!("{rate}, stops after {stop} failures"),
                None => rate,
            },
        }
    }

    /// The same, with when nothing waits any more: `ramping up: 8 a second, empty in about 2 min`.
    #[must_use]
    pub fn says(&self, waiting: Option<u64>, now: Timestamp) -> String {
        let words = self.in_words(now);
        match waiting.and_then(|waiting| self.takes(waiting, now)) {
            Some(takes) => format!("{words}, empty in about {}", about(takes)),
            None => words,
        }
    }

    /// Whether a request that failed counts. A probe does where a person made the endpoint available at this pace, and
    /// it has answered nothing with a 2xx since, the last of which was at `last_success_at`: any other time that it is down
    /// is a matter of its retry policy.
    #[must_use]
    pub fn counts(&self, request: Request, last_success_at: Option<Timestamp>) -> bool {
        match request {
            Request::InTurn => true,
            Request::Probe => self
                .opened_at
                .is_some_and(|opened| last_success_at.is_none_or(|last| last <= opened.plus(RECORDED_WITHIN))),
        }
    }

    /// One more attempt failed that counts; whether that closes the endpoint.
    pub fn failed(&mut self, request: Request, now: Timestamp) -> bool {
        self.failed += 1;
        self.revision += 1;
        if !self.passed && request == Request::InTurn {
            self.ended += 1;
            self.canary_failed += 1;
            self.moved_at = now;
        }
        self.order.stop_after.is_some_and(|stop| self.failed >= stop)
    }
}

/// A person stops it, or an endpoint that was not paced.
fn braked(before: Option<&Pace>, by: &str, reason: Option<String>, now: Timestamp) -> Pace {
    let pace = before.cloned();
    let pace = pace.unwrap_or_else(|| Pace::new(PaceOrder::default(), Some(by.to_owned()), now));
    let by = by.to_owned();
    Pace {
        revision: pace.revision + 1,
        brake: Some(Pause { by, reason, at: now }),
        ..pace
    }
}

/// What becomes of a pace by a change; `None` inside: nothing is held back any more.
///
/// # Errors
/// Why it cannot be.
pub fn after(before: Option<&Pace>, change: &PaceChange, now: Timestamp) -> Result<Option<Pace>, &'static str> {
    let nothing = "this endpoint is not paced";
    let changed = |mut pace: Pace, change: &dyn Fn(&mut Pace)| {
        pace.revision += 1;
        change(&mut pace);
        Ok(Some(pace))
    };
    match (change, before) {
        (PaceChange::Order { order, .. }, Some(pace)) if order.is_none() && pace.brake.is_none() => Ok(None),
        (PaceChange::Order { order, .. }, None) if order.is_none() => Ok(None),
        (PaceChange::Order { order, by }, Some(pace)) => changed(pace.clone(), &|pace| {
            pace.passed = order.canary.is_none_or(|canary| pace.passed && canary <= pace.taken);
            pace.order = *order;
            pace.by = Some(by.clone());
            pace.failed = 0;
            pace.opened_at = None;
        }),
        (PaceChange::Order { order, by }, None) => Ok(Some(Pace::new(*order, Some(by.clone()), now))),
        (PaceChange::Brake { .. }, Some(pace)) if pace.brake.is_some() => Err("this endpoint is paused already"),
        (PaceChange::Brake { by, reason }, before) => Ok(Some(braked(before, by, reason.clone(), now))),
        (PaceChange::Resume, Some(pace)) => match (&pace.brake, pace.stage(now)) {
            (Some(_), _) if pace.order.is_none() => Ok(None),
            // The ramp goes on where it was, or begins where it was to begin anew meanwhile.
            (Some(brake), _) => changed(pace.clone(), &|pace| {
                pace.ramp_at = pace.ramp_at.plus(now.since(brake.at.max(pace.ramp_at)));
                pace.brake = None;
            }),
            (None, Stage::Asks | Stage::Watched(_)) => changed(pace.clone(), &|pace| pass(pace, now)),
            (None, _) => Err("this endpoint is not paused"),
        },
        (PaceChange::Take, Some(pace)) => match pace.stage(now) {
            Stage::Canary(_) => changed(pace.clone(), &|pace| {
                pace.taken += 1;
                pace.moved_at = now;
            }),
            Stage::Watched(_) | Stage::Asks | Stage::Braked | Stage::Ramp | Stage::Steady => {
                Err("the canary of this endpoint is sent")
            }
        },
        // Of a pace that was ordered anew meanwhile nothing is left to be given back.
        (PaceChange::GiveBack, Some(pace)) if pace.taken > pace.ended => changed(pace.clone(), &|pace| {
            pace.taken -= 1;
            pace.moved_at = now;
        }),
        (PaceChange::GiveBack, Some(_)) => Err("no request of the canary of this endpoint is under way"),
        (PaceChange::Ended, Some(pace)) => changed(pace.clone(), &|pace| {
            pace.ended += 1;
            pace.moved_at = now;
        }),
        (PaceChange::Passed, Some(pace)) if pace.may_pass(now) => changed(pace.clone(), &|pace| pass(pace, now)),
        (PaceChange::Passed, Some(_)) => Err("the canary of this endpoint is not over"),
        (PaceChange::Release, Some(pace)) if pace.brake.is_none() => Ok(None),
        (PaceChange::Release, Some(_)) => Err("this endpoint is paused"),
        (
            PaceChange::Resume
            | PaceChange::Take
            | PaceChange::GiveBack
            | PaceChange::Ended
            | PaceChange::Passed
            | PaceChange::Release,
            None,
        ) => Err(nothing),
    }
}

fn pass(pace: &mut Pace, now: Timestamp) {
    pace.passed = true;
    pace.ramp_at = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000 + seconds)
    }

    const RAMP: PaceOrder = PaceOrder {
        rate: Some(50),
        ramp: Some(Ramp {
            from: 1,
            factor: 2,
            every_s: 10,
        }),
        canary: None,
        watch_s: None,
        stop_after: Some(3),
        ends_at_rate: false,
    };

    #[test]
    fn a_ramp_doubles_until_it_reaches_its_rate_and_says_when_nothing_waits_any_more() {
        let pace = Pace::new(RAMP, None, at(0));
        let rates: Vec<_> = [0, 9, 10, 25, 50, 59, 60, 6_000]
            .map(|s| pace.rate_at(at(s)).unwrap())
            .into();
        assert_eq!(rates, [1, 1, 2, 4, 32, 32, 50, 50]);
        assert_eq!(pace.stage(at(59)), Stage::Ramp);
        assert_eq!(pace.stage(at(60)), Stage::Steady);
        // 10 + 20 + 40 + 80 in the first 40 s, the other 50 at 16 a second.
        assert_eq!(pace.takes(200, at(0)), Some(Duration::from_millis(43_125)));
        // At its rate.
        assert_eq!(pace.takes(200, at(100)), Some(Duration::from_secs(4)));
        assert_eq!(pace.takes(0, at(100)), Some(Duration::ZERO));
        assert_eq!(pace.in_words(at(30)), "ramping up: 8 a second");
    }

    #[test]
    fn a_brake_holds_everything_and_the_ramp_goes_on_where_it_was() {
        let pace = Pace::new(RAMP, None, at(0));
        let by = "ana".to_owned();
        let braked = after(Some(&pace), &braked_by(&by), at(25)).unwrap().unwrap();
        assert!(braked.is_held(at(500)) && braked.takes(1, at(500)).is_none());
        assert_eq!(braked.in_words(at(30)), "paused by ana");
        assert!(after(Some(&braked), &braked_by(&by), at(26)).is_err());
        assert!(
            after(Some(&braked), &PaceChange::Release, at(26)).is_err(),
            "who paused it has it go on"
        );
        let resumed = after(Some(&braked), &PaceChange::Resume, at(1_025)).unwrap().unwrap();
        assert_eq!(resumed.rate_at(at(1_025)), Some(4));
        // Without any limit there is nothing left after the brake.
        let alone = after(None, &braked_by(&by), at(0)).unwrap().unwrap();
        let because = PaceChange::Brake {
            by: by.clone(),
            reason: Some("freeze".to_owned()),
        };
        assert_eq!(changed(&pace, &because, at(1)).in_words(at(2)), "paused by ana: freeze");
        assert_eq!(after(Some(&alone), &PaceChange::Resume, at(1)), Ok(None));
    }

    #[test]
    fn a_ramp_that_began_anew_while_it_was_paused_begins_when_it_is_resumed() {
        let brake = braked_by("ana");
        let braked = changed(&Pace::new(RAMP, None, at(0)), &brake, at(10));
        let resumed = changed(&braked.reopened(at(90)), &PaceChange::Resume, at(100));
        assert_eq!(resumed.rate_at(at(100)), Some(1));
        assert_eq!(resumed.rate_at(at(110)), Some(2));
    }

    #[test]
    fn one_that_is_over_leaves_its_brake() {
        let pace = Pace::new(RAMP, Some("ana".to_owned()), at(0));
        assert_eq!(pace.brake_alone(), None);
        let left = changed(&pace, &braked_by("ana"), at(1)).brake_alone();
        let left = left.unwrap();
        assert!(left.is_held(at(9)) && left.order.is_none());
    }

    fn canary(watch_s: Option<u32>) -> Pace {
        let order = PaceOrder {
            canary: Some(2),
            watch_s,
            stop_after: Some(3),
            ..PaceOrder::default()
        };
        Pace::new(order, None, at(0))
    }

    fn braked_by(by: &str) -> PaceChange {
        PaceChange::Brake {
            by: by.to_owned(),
            reason: None,
        }
    }

    fn changed(pace: &Pace, change: &PaceChange, now: Timestamp) -> Pace {
        after(Some(pace), change, now).unwrap().unwrap()
    }

    #[test]
    fn a_canary_passes_after_its_watch_only_when_all_of_it_ended_well() {
        let mut pace = canary(Some(30));
        for second in [1, 2] {
            assert!(!pace.is_held(at(second)) && pace.is_canary());
            pace = changed(&pace, &PaceChange::Take, at(second));
        }
        assert!(pace.is_held(at(3)));
        assert!(after(Some(&pace), &PaceChange::Take, at(3)).is_err(), "no third one");
        assert!(!pace.may_pass(at(40)), "how they ended is not known");
        assert!(pace.may_pass(at(92)), "their daemon is gone");
        let ended = changed(&changed(&pace, &PaceChange::Ended, at(4)), &PaceChange::Ended, at(5));
        assert!(!ended.may_pass(at(34)) && ended.may_pass(at(35)));
        let passed = changed(&ended, &PaceChange::Passed, at(35));
        assert!(!passed.is_held(at(35)) && !passed.is_canary() && passed.rate_at(at(35)).is_none());
        let mut failed = changed(&pace, &PaceChange::Ended, at(4));
        assert!(!failed.failed(Request::InTurn, at(5)));
        assert!(!failed.may_pass(at(5_000)));
        assert_eq!(failed.stage(at(6)), Stage::Asks);
    }

    #[test]
    fn a_request_of_a_canary_that_was_not_begun_is_another_ones() {
        let taken = changed(&canary(None), &PaceChange::Take, at(1));
        let back = changed(&taken, &PaceChange::GiveBack, at(2));
        assert_eq!(back.stage(at(2)), Stage::Canary(2));
        assert!(
            after(Some(&back), &PaceChange::GiveBack, at(3)).is_err(),
            "nothing is under way"
        );
    }

    #[test]
    fn without_a_watch_a_person_has_the_canary_go_on() {
        let mut pace = canary(None);
        for _ in 0..2 {
            pace = changed(&pace, &PaceChange::Take, at(1));
        }
        assert_eq!(pace.stage(at(2)), Stage::Asks);
        assert!(!pace.may_pass(at(9_999)));
        assert_eq!(changed(&pace, &PaceChange::Resume, at(3)).stage(at(3)), Stage::Steady);
    }

    #[test]
    fn one_that_only_stops_after_failures_holds_nothing_back_until_then() {
        let order = PaceOrder {
            stop_after: Some(2),
            ..PaceOrder::default()
        };
        let ordered = PaceChange::Order {
            order,
            by: "ana".to_owned(),
        };
        let mut pace = after(None, &ordered, at(0)).unwrap().expect("it stops after failures");
        assert!(!pace.is_held(at(0)) && pace.rate_at(at(0)).is_none());
        assert_eq!(pace.says(Some(9), at(0)), "as fast as it goes, stops after 2 failures");
        assert!(!pace.failed(Request::InTurn, at(1)) && pace.failed(Request::InTurn, at(2)));
    }

    #[test]
    fn so_many_failures_close_it_and_each_change_is_a_revision() {
        let mut pace = Pace::new(RAMP, None, at(0));
        let mut failed = |request, second| pace.failed(request, at(second));
        let closed = [
            failed(Request::InTurn, 1),
            failed(Request::Probe, 2),
            failed(Request::InTurn, 3),
        ];
        assert_eq!((closed, pace.revision), ([false, false, true], 4));
        let mut pace = canary(None);
        pace.failed(Request::Probe, at(1));
        assert_eq!(pace.stage(at(1)), Stage::Canary(2), "a probe is none of the canary's");
        assert!(!pace.failed(Request::Probe, at(2)) && pace.failed(Request::Probe, at(3)));
    }

    #[test]
    fn probes_count_after_an_opening_at_its_pace_until_the_first_success() {
        let ordered = Pace::new(RAMP, Some("ana".to_owned()), at(0));
        let counts = |pace: &Pace, last| pace.counts(Request::Probe, last);
        assert!(
            !counts(&ordered, None) && ordered.counts(Request::InTurn, None),
            "while it is down it was ordered alone"
        );
        let opened = ordered.opened(at(10));
        assert!(counts(&opened, None) && counts(&opened, Some(at(10))));
        assert!(!counts(&opened, Some(at(12))), "it answered at this pace");
        assert!(!counts(&opened.reopened(at(20)), None), "a probe was answered");
        let order = PaceChange::Order {
            order: PaceOrder {
                stop_after: Some(1),
                ..RAMP
            },
            by: "bob".to_owned(),
        };
        let mut opened = opened;
        opened.failed(Request::Probe, at(11));
        let anew = changed(&opened, &order, at(12));
        assert!(anew.failed == 0 && !counts(&anew, None));
    }

    #[test]
    fn failures_of_a_canary_are_told_from_those_of_probes() {
        let mut pace = canary(Some(30));
        for second in [1, 2] {
            pace = changed(&pace, &PaceChange::Take, at(second));
        }
        for request in [Request::Probe, Request::InTurn, Request::Probe] {
            pace.order.stop_after = None;
            pace.failed(request, at(3));
        }
        let says = pace.in_words(at(4));
        assert!(says.contains("canary of 2 is sent, 1 failed:"), "{says}");
        // Another order does not have a canary go on that failed.
        let order = PaceChange::Order {
            order: PaceOrder {
                rate: Some(9),
                ..pace.order
            },
            by: "ana".to_owned(),
        };
        assert_eq!(changed(&pace, &order, at(5)).stage(at(5)), Stage::Asks);
    }

    #[test]
    fn what_is_out_of_bounds_names_its_field() {
        let wrong = |order: PaceOrder| order.check().unwrap_err().0;
        assert_eq!(wrong(PaceOrder { rate: Some(0), ..RAMP }), "rate");
        assert_eq!(
            wrong(PaceOrder {
                canary: Some(10_001),
                ..RAMP
            }),
            "canary"
        );
        assert_eq!(
            wrong(PaceOrder {
                watch_s: Some(5),
                ..RAMP
            }),
            "canary_watch_s"
        );
        let steep = Ramp {
            from: 1,
            factor: 1,
            every_s: 1,
        };
        assert_eq!(
            wrong(PaceOrder {
                ramp: Some(steep),
                ..RAMP
            }),
            "ramp"
        );
        assert_eq!(RAMP.check(), Ok(()));
    }

    #[test]
    fn what_is_stored_is_read_by_a_program_that_knows_less_or_more() {
        let pace = Pace::new(RAMP, Some("ana".to_owned()), at(0));
        let text = serde_json::to_string(&pace).unwrap();
        assert_eq!(serde_json::from_str::<Pace>(&text).unwrap(), pace);
        let newer = text.replace("\"order\":{", "\"later\":1,\"order\":{\"sideways\":true,");
        assert_eq!(serde_json::from_str::<Pace>(&newer).unwrap(), pace);
    }
}
