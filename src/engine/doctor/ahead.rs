//! A clock of the store that was ahead: what waits by rows of then waits for a time that is far, and while it may still
//! be ahead nothing is removed by its age.

use std::time::Duration;

use crate::domain::endpoint::Endpoint;
use crate::domain::retention::Ages;
use crate::domain::time::Timestamp;
use crate::domain::words::{lasts, plural};
use crate::engine::view::Check;

/// Rows are at most so much ahead where nobody set a clock.
const AHEAD: Duration = Duration::from_mins(1);

/// Of endpoints that are not available, at `now` of the store's clock.
pub(super) fn check(endpoints: &[Endpoint], now: Timestamp) -> Option<Check> {
    let ahead = endpoints.iter().map(|endpoint| endpoint.since.since(now));
    let ahead: Vec<Duration> = ahead.filter(|by| *by > AHEAD).collect();
    let most = ahead.iter().max()?;
    let found = format!(
        "{} became unavailable up to {} from now, as the store has it: its clock was ahead and was set back, and they are \
         not tried before the times that were written then",
        plural(ahead.len() as u64, "endpoint", "endpoints"),
        lasts(*most)
    );
    Some(Check::broken(
        "clock",
        found,
        "`redrive redeliver --all` has them tried at once",
    ))
}

/// That nothing is removed by its age for a while.
pub(super) fn doubt(ages: Ages, now: Timestamp) -> Option<Check> {
    let (leapt, until) = ages.leapt_at.zip(ages.doubted_until())?;
    let ahead = ages.counted_at.map_or(Duration::ZERO, |counted| leapt.since(counted));
    let found = format!(
        "the clock of the store went ahead by {}, or no daemon ran for so long: nothing is removed by its age for another \
         {}, in which a clock that is wrong can be set right",
        lasts(ahead),
        lasts(until.since(now))
    );
    Some(Check::fine("retention", found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::EndpointState;
    use crate::domain::url::EndpointUrl;

    #[test]
    fn ages_that_do_not_count_are_told_with_their_end() {
        let begun = Timestamp::from_seconds(1_000_000);
        let fine = Ages::default().at(begun);
        assert_eq!(doubt(fine, begun), None);
        let later = begun.plus(Duration::from_hours(9));
        let told = format!(
            "{:?}",
            doubt(fine.at(later), later.plus(Duration::from_hours(4))).unwrap()
        );
        assert!(
            told.contains("went ahead by 9 h") && told.contains("for another 20 h"),
            "{told}"
        );
    }

    #[test]
    fn an_endpoint_that_is_unavailable_since_tomorrow_is_told() {
        let now = Timestamp::from_seconds(1_000_000);
        let endpoint = |since| {
            let url = EndpointUrl::parse("http://example.com/").unwrap();
            Endpoint::of(url, EndpointState::Unavailable, since)
        };
        let near = endpoint(now.plus(Duration::from_secs(5)));
        assert_eq!(check(&[endpoint(now), near.clone()], now), None);
        let far = endpoint(now.plus(Duration::from_hours(8)));
        let told = format!("{:?}", check(&[near, far], now).unwrap());
        assert!(
            told.contains("1 endpoint became unavailable up to 8 h from now"),
            "{told}"
        );
    }
}
