//! Rows that were written while the clock of the store was ahead: what waits by them waits for a time that is far.

use std::time::Duration;

use crate::domain::endpoint::Endpoint;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::endpoint::EndpointState;
    use crate::domain::url::EndpointUrl;

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
