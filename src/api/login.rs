//! Wrong tokens: counted per address (of IPv6 per network), so that a token cannot be guessed at speed.
//!
//! An address that has used up its tries is not compared any more until it gets new ones, but for what was right there
//! lately: whoever logs in beside a guesser is not held up, and a guess that is right is not found out.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::network::holder;
use super::settings::digest;

/// Tries at once.
const TRIES: u32 = 10;
/// For each of these spans another try.
const TRY_EVERY: Duration = Duration::from_millis(333);
/// Addresses that are remembered, at most.
const ADDRESSES_MAX: usize = 1024;
/// Tokens that were right lately, with their addresses, at most.
const KNOWN_MAX: usize = 256;
/// Between two lines about one address, and between two in all.
const TELL_EVERY: Duration = Duration::from_mins(1);
const TELL_ANY: Duration = Duration::from_secs(5);

/// Who failed how often lately, and who did not.
#[derive(Debug, Default)]
pub(super) struct Logins(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    failures: HashMap<IpAddr, Failures>,
    known: VecDeque<(IpAddr, [u8; 32])>,
    told: Option<Duration>,
}

/// One address: when all of its tries are there again, and what was not told yet.
#[derive(Debug)]
struct Failures {
    whole_at: Duration,
    untold: u64,
    told: Option<Duration>,
}

/// What a failure is to those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// They were told a moment ago.
    Known,
    /// That many were not told yet.
    Tell(u64),
}

impl Logins {
    fn lately(&self) -> MutexGuard<'_, Lately> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long `address` has to wait before `secret` is looked at, at `now` (time since boot).
    pub(super) fn must_wait(&self, address: IpAddr, secret: &str, now: Duration) -> Option<Duration> {
        let address = holder(address);
        let lately = self.lately();
        let wait = match lately.failures.get(&address) {
            Some(failures) => failures.whole_at.saturating_sub(now + TRY_EVERY * (TRIES - 1)),
            // Nobody is forgotten for another one while he guesses.
            None if lately.failures.len() >= ADDRESSES_MAX => lately.whole_soonest().saturating_sub(now),
            None => return None,
        };
        let is_known = || lately.known.contains(&(address, digest(secret)));
        (!wait.is_zero() && !is_known()).then_some(wait)
    }

    /// `secret` was right.
    pub(super) fn succeeded(&self, address: IpAddr, secret: &str, now: Duration) {
        let mut lately = self.lately();
        lately.forget(now);
        let one = (holder(address), digest(secret));
        if !lately.known.contains(&one) {
            lately.known.push_back(one);
            if lately.known.len() > KNOWN_MAX {
                lately.known.pop_front();
            }
        }
    }

    /// What `address` sent was wrong.
    pub(super) fn failed(&self, address: IpAddr, now: Duration) -> Failed {
        let mut lately = self.lately();
        lately.forget(now);
        let may_tell = lately.told.is_none_or(|told| now.saturating_sub(told) >= TELL_ANY);
        let failures = lately.failures.entry(holder(address)).or_insert(Failures {
            whole_at: now,
            untold: 0,
            told: None,
        });
        failures.whole_at = failures.whole_at.max(now) + TRY_EVERY;
        failures.untold += 1;
        if !may_tell || failures.told.is_some_and(|told| now.saturating_sub(told) < TELL_EVERY) {
            return Failed::Known;
        }
        failures.told = Some(now);
        let untold = std::mem::take(&mut failures.untold);
        lately.told = Some(now);
        Failed::Tell(untold)
    }
}

impl Lately {
    /// Those who have all of their tries again, when there are many.
    fn forget(&mut self, now: Duration) {
        if self.failures.len() >= ADDRESSES_MAX {
            self.failures.retain(|_, failures| failures.whole_at > now);
        }
    }

    fn whole_soonest(&self) -> Duration {
        let whole = self.failures.values().map(|failures| failures.whole_at);
        whole.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);
    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn an_address_that_fails_is_looked_at_a_few_times_a_second() {
        let logins = Logins::default();
        let other = IpAddr::from([127, 0, 0, 2]);
        let mut looked_at = 0;
        for step in 0..1000 {
            let now = NOW + Duration::from_millis(10) * step;
            if logins.must_wait(ONE, "wrong", now).is_none() {
                looked_at += 1;
                logins.failed(ONE, now);
            }
        }
        assert!((35..=45).contains(&looked_at), "{looked_at} in ten seconds");
        let now = NOW + Duration::from_secs(10);
        assert!(logins.must_wait(ONE, "the right one", now).is_some());
        assert_eq!(logins.must_wait(other, "wrong", now), None);
        assert_eq!(logins.must_wait(ONE, "wrong", now + Duration::from_secs(5)), None);
    }

    #[test]
    fn who_has_many_addresses_of_one_network_has_not_more_tries() {
        let logins = Logins::default();
        let guesses = (0..1000_u16).filter(|number| {
            let address = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, *number]);
            let is_looked_at = logins.must_wait(address, "wrong", NOW).is_none();
            if is_looked_at {
                logins.failed(address, NOW);
            }
            is_looked_at
        });
        assert_eq!(guesses.count(), 10);
        let beside = IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1]);
        assert_eq!(logins.must_wait(beside, "wrong", NOW), None);
    }

    #[test]
    fn who_logged_in_before_is_not_held_up_by_a_guesser_beside_him() {
        let logins = Logins::default();
        logins.succeeded(ONE, "right", NOW);
        for _ in 0..100 {
            logins.failed(ONE, NOW);
        }
        assert_eq!(logins.must_wait(ONE, "right", NOW), None);
        assert!(logins.must_wait(ONE, "wrong", NOW).is_some());
    }

    #[test]
    fn failures_are_told_at_once_and_then_together() {
        let logins = Logins::default();
        assert_eq!(logins.failed(ONE, NOW), Failed::Tell(1));
        for _ in 0..5 {
            assert_eq!(logins.failed(ONE, NOW + Duration::from_secs(10)), Failed::Known);
        }
        assert_eq!(logins.failed(ONE, NOW + TELL_EVERY), Failed::Tell(6));
        let other = IpAddr::from([127, 0, 0, 2]);
        assert_eq!(logins.failed(other, NOW + TELL_EVERY), Failed::Known);
    }

    #[test]
    fn the_memory_is_bounded() {
        let logins = Logins::default();
        for number in 0..4 * u32::try_from(ADDRESSES_MAX).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            if logins.must_wait(address, "wrong", NOW).is_none() {
                logins.failed(address, NOW);
            }
            logins.succeeded(address, "right", NOW);
        }
        let lately = logins.0.lock().unwrap();
        assert_eq!((lately.failures.len(), lately.known.len()), (ADDRESSES_MAX, KNOWN_MAX));
    }
}
