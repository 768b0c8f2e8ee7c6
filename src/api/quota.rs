//! How much a token may publish: notifications and events a second, queues at once, bytes that wait. Each process counts
//! for itself.
//!
//! Queues and bytes are read again every few seconds while the token publishes; what it published since, and in the
//! seconds by which the broker's numbers lag, counts on top. So a quota is kept at once, and what was delivered
//! meanwhile counts for some seconds more.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ambient::Clock;
use crate::domain::id::QueueName;
use crate::domain::scope::{Prefix, Quota};
use crate::domain::words::{plural, plural_of};
use crate::engine::Engine;
use crate::engine::usage::{MESSAGE_BYTES, Usage};
use crate::wire::problem::Problem;

/// How long what was read counts; reading that takes long is done seldom.
const FRESH: Duration = Duration::from_secs(5);
const FRESH_TIMES: u32 = 20;
/// How long what is published counts on top of what the broker says.
const LAG: Duration = Duration::from_secs(10);

/// What one token has published, and may.
#[derive(Debug)]
pub(super) struct Account {
    name: String,
    quota: Quota,
    prefix: Option<Prefix>,
    state: Mutex<State>,
    /// Whoever holds it reads.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// When a second's publishes may be made again, all of them.
    whole_at: Duration,
    known: Usage,
    /// When `known` is to be read again; `None`: it never was.
    stale_at: Option<Duration>,
    /// What was published lately: when, to which queue where that may be a new one, how many bytes.
    lately: VecDeque<(Duration, Option<QueueName>, u64)>,
}

impl Account {
    /// `None` where nothing is bounded.
    pub(super) fn of(name: &str, quota: Quota, prefix: Option<Prefix>) -> Option<Self> {
        (quota != Quota::default()).then(|| Self {
            name: name.to_owned(),
            quota,
            prefix,
            state: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses events where queues or bytes are bounded: an event goes to as many queues as its type has subscriptions,
    /// once it is handled.
    pub(super) fn may_push(&self) -> Result<(), Problem> {
        let bounds = [
            ("queues", self.quota.queues.is_some()),
            ("bytes_waiting", self.quota.bytes_waiting.is_some()),
        ];
        match bounds.into_iter().find(|(_, is_bounded)| *is_bounded) {
            None => Ok(()),
            Some((key, _)) => Err(Problem::new(
                403,
                format!(
                    "{} pushes no events: its quota {key} in api.tokens cannot be kept for what they send; \
                     give who pushes events a token with publishes_per_second alone",
                    self.name
                ),
            )),
        }
    }

    /// Counts `count` publishes at `now` (time since boot), or refuses them all.
    pub(super) fn publishes(&self, count: usize, now: Duration) -> Result<(), Problem> {
        let Some(most) = self.quota.publishes_per_second else {
            return Ok(());
        };
        let most_at_once = usize::try_from(most).unwrap_or(usize::MAX);
        if count > most_at_once {
            let why = format!(
                "the list has {}, and {} may publish {most} a second (publishes_per_second): send fewer at once",
                plural_of(count, "event", "events"),
                self.name
            );
            return Err(Problem::new(422, why));
        }
        let span = Duration::from_secs(1) / most * u32::try_from(count).unwrap_or(u32::MAX);
        let mut state = self.state();
        let whole_at = state.whole_at.max(now) + span;
        if whole_at > now + Duration::from_secs(1) {
            return Err(self.refusal(
                &format!(
                    "{} a second (publishes_per_second)",
                    plural(most.into(), "publish", "publishes")
                ),
                1,
            ));
        }
        state.whole_at = whole_at;
        Ok(())
    }

    /// Counts a message with headers and a body of `bytes`, or refuses it; `queue` may be made for it.
    pub(super) async fn message(
        &self,
        engine: &Engine,
        queue: Option<&QueueName>,
        bytes: u64,
        clock: &Clock,
    ) -> Result<(), Problem> {
        if self.quota.queues.is_some() || self.quota.bytes_waiting.is_some() {
            self.read_again(engine, clock).await;
            self.takes(queue, bytes.saturating_add(MESSAGE_BYTES), clock.uptime())?;
        }
        Ok(())
    }

    /// What cannot be read counts as before; the first read is waited for.
    async fn read_again(&self, engine: &Engine, clock: &Clock) {
        let now = clock.uptime();
        let is_stale = || self.state().stale_at.is_none_or(|at| now >= at);
        if !is_stale() {
            return;
        }
        let first = self.state().stale_at.is_none();
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(_) if first => self.reading.lock().await,
            Err(_) => return,
        };
        if !is_stale() {
            return;
        }
        let counted = |execution: &_, url: &_| self.prefix.as_ref().is_none_or(|prefix| prefix.covers(execution, url));
        let reading = async {
            let usage = engine.usage(counted).await?;
            match self.quota.bytes_waiting {
                Some(_) => usage.with_bytes(engine).await,
                None => Ok(usage),
            }
        };
        let usage = reading.await;
        let took = clock.uptime().saturating_sub(now);
        let mut state = self.state();
        match usage {
            Ok(usage) => state.known = usage,
            Err(error) => {
                tracing::warn!(token = %self.name, error = ?error, "what a token takes cannot be read: its quotas go by what was read before");
            }
        }
        state.stale_at = Some(now + took + FRESH.max(took * FRESH_TIMES));
    }

    fn takes(&self, queue: Option<&QueueName>, bytes: u64, now: Duration) -> Result<(), Problem> {
        let mut state = self.state();
        while state.lately.front().is_some_and(|(at, ..)| *at + LAG < now) {
            state.lately.pop_front();
        }
        let new: HashSet<&QueueName> = state
            .lately
            .iter()
            .filter_map(|(_, queue, _)| queue.as_ref())
            .chain(queue)
            .filter(|queue| !state.known.queues.contains(*queue))
            .collect();
        if let Some(most) = self.quota.queues
            && queue.is_some_and(|queue| new.contains(queue))
            && state.known.queues.len() + new.len() > usize::try_from(most).unwrap_or(usize::MAX)
        {
            return Err(self.refusal(
                &format!(
                    "{} at once (queues); a queue goes when its execution ends",
                    plural(most.into(), "queue", "queues")
                ),
                5,
            ));
        }
        let lately: u64 = state.lately.iter().map(|(_, _, bytes)| bytes).sum();
        if let Some(most) = self.quota.bytes_waiting
            && state.known.bytes.saturating_add(lately).saturating_add(bytes) > most
        {
            return Err(self.refusal(
                &format!("{} that wait (bytes_waiting)", plural(most, "byte", "bytes")),
                5,
            ));
        }
        state.lately.push_back((now, queue.cloned(), bytes));
        Ok(())
    }

    fn refusal(&self, what: &str, retry_after_s: u32) -> Problem {
        Problem {
            retry_after_s: Some(retry_after_s),
            ..Problem::new(
                429,
                format!(
                    "the quota of {} is used up: {what}; repeat later, or raise it in api.tokens",
                    self.name
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(quota: Quota) -> Account {
        Account::of("token-1", quota, None).unwrap()
    }

    fn queue(name: &str) -> QueueName {
        QueueName::parse(name).unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn so_many_publishes_go_in_a_second_and_then_as_many_as_time_gives() {
        let of = account(Quota {
            publishes_per_second: Some(10),
            ..Quota::default()
        });
        let begin = Duration::from_hours(1);
        let taken = (0..20).filter(|_| of.publishes(1, begin).is_ok()).count();
        assert_eq!(taken, 10);
        assert_eq!(of.publishes(1, begin).unwrap_err().status, 429);
        let later = begin + SECOND / 2;
        assert_eq!((0..20).filter(|_| of.publishes(1, later).is_ok()).count(), 5);
        assert_eq!(of.publishes(11, begin + SECOND * 60).unwrap_err().status, 422);
        of.publishes(10, begin + SECOND * 60).unwrap();
    }

    #[test]
    fn events_are_pushed_where_nothing_is_bounded_that_they_could_pass_by() {
        let of = |queues, bytes_waiting| {
            let quota = Quota {
                publishes_per_second: Some(1),
                queues,
                bytes_waiting,
            };
            account(quota).may_push().map_err(|problem| problem.status)
        };
        assert_eq!(of(None, None), Ok(()));
        assert_eq!((of(Some(1), None), of(None, Some(1))), (Err(403), Err(403)));
    }

    #[test]
    fn a_quota_of_one_is_said_in_the_singular_and_with_the_mend() {
        let of = account(Quota {
            queues: Some(1),
            publishes_per_second: Some(1),
            ..Quota::default()
        });
        let now = Duration::from_hours(1);
        of.takes(Some(&queue("a")), 10, now).unwrap();
        of.publishes(1, now).unwrap();
        let (queues, publishes) = (of.takes(Some(&queue("b")), 1, now), of.publishes(1, now));
        for (refused, said) in [(queues, "1 queue at once"), (publishes, "1 publish a second")] {
            let problem = refused.unwrap_err();
            assert!(
                problem.detail.contains(said) && problem.detail.contains("raise it in api.tokens"),
                "{problem:?}"
            );
            assert_eq!(problem.title, "There are too many requests");
        }
    }

    #[test]
    fn queues_and_bytes_are_counted_with_what_was_published_lately() {
        let of = account(Quota {
            queues: Some(3),
            bytes_waiting: Some(100),
            ..Quota::default()
        });
        of.state().known = Usage {
            queues: [queue("a"), queue("b")].into_iter().collect(),
            bytes: 60,
        };
        let now = Duration::from_hours(1);
        of.takes(Some(&queue("a")), 10, now).unwrap();
        of.takes(Some(&queue("c")), 10, now).unwrap();
        of.takes(Some(&queue("c")), 10, now).unwrap();
        let fourth = of.takes(Some(&queue("d")), 1, now).unwrap_err();
        assert!(fourth.status == 429 && fourth.detail.contains("3 queues"), "{fourth:?}");
        let over = of.takes(Some(&queue("b")), 11, now).unwrap_err();
        assert!(over.detail.contains("100 bytes"), "{over:?}");
        assert_eq!(of.takes(None, 11, now).unwrap_err().status, 429);
        of.takes(None, 10, now).unwrap();
        // The broker's numbers have it by then.
        of.takes(Some(&queue("b")), 40, now + LAG + SECOND).unwrap();
    }
}
