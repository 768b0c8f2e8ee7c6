//! Failed logins: counted per address, so that a token cannot be guessed at speed.
//!
//! A right token is never held up by the wrong ones of others at the same address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The span in which failures are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Failures of one address in a window before it is told to wait.
const FAILURES_MAX: u32 = 20;
/// Addresses that are remembered, at most.
const ADDRESSES_MAX: usize = 1024;

/// Who failed how often lately.
#[derive(Debug, Default)]
pub(super) struct FailedLogins(Mutex<HashMap<IpAddr, (Duration, u32)>>);

impl FailedLogins {
    /// Counts a failure of `address` at `now` (time since boot); for how long it should wait, if so.
    pub(super) fn count(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            failures.retain(|_, (begun, _)| now.saturating_sub(*begun) < WINDOW);
            if failures.len() >= ADDRESSES_MAX {
                return Some(WINDOW);
            }
        }
        let (begun, count) = failures.entry(address).or_insert((now, 0));
        if now.saturating_sub(*begun) >= WINDOW {
            (*begun, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        (*count > FAILURES_MAX).then(|| WINDOW.saturating_sub(now.saturating_sub(*begun)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_too_often_waits_until_its_window_is_over() {
        let logins = FailedLogins::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        for _ in 0..FAILURES_MAX {
            assert_eq!(logins.count(one, Duration::ZERO), None);
        }
        assert_eq!(logins.count(one, Duration::from_secs(4)), Some(Duration::from_secs(6)));
        assert_eq!(logins.count(other, Duration::from_secs(4)), None);
        assert_eq!(logins.count(one, WINDOW), None);
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let logins = FailedLogins::default();
        for number in 0..4 * u32::try_from(ADDRESSES_MAX).unwrap() {
            logins.count(IpAddr::from(number.to_be_bytes()), Duration::ZERO);
        }
        assert_eq!(logins.0.lock().unwrap().len(), ADDRESSES_MAX);
        assert_eq!(logins.count(IpAddr::from([255; 4]), WINDOW), None);
    }
}
