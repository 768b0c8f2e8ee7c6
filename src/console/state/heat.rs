//! Attempts as a map: a line for each endpoint, a cell for each few seconds, and how long all of them took.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::console::state::tail::ended_at;
use crate::domain::series::{BUCKETS, bucket, quantile};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::view::AttemptView;

/// How long a cell of the map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zoom {
    /// Five seconds.
    Near,
    /// Half a minute.
    Middle,
    /// Five minutes.
    Far,
}

impl Zoom {
    /// From the list to the nearest map, further away, and back to the list.
    #[must_use]
    pub const fn after(zoom: Option<Self>) -> Option<Self> {
        match zoom {
            None => Some(Self::Near),
            Some(Self::Near) => Some(Self::Middle),
            Some(Self::Middle) => Some(Self::Far),
            Some(Self::Far) => None,
        }
    }

    /// What a cell is of.
    #[must_use]
    pub const fn step(self) -> Duration {
        match self {
            Self::Near => Duration::from_secs(5),
            Self::Middle => Duration::from_secs(30),
            Self::Far => Duration::from_mins(5),
        }
    }
}

/// What happened in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Attempts that were delivered.
    pub delivered: u32,
    /// Attempts that failed, whatever way.
    pub failed: u32,
}

/// An endpoint in the map.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatRow {
    /// It.
    pub url: EndpointUrl,
    /// All of its cells together.
    pub all: Spot,
    /// Its cells, oldest first.
    pub spots: Vec<Spot>,
}

/// The map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Endpoints, those with the most failures first.
    pub rows: Vec<HeatRow>,
    /// How many attempts took so long: see [`bucket`].
    pub took: [u16; BUCKETS],
}

impl Heat {
    /// Of these attempts, as seen at `now`, in so many cells.
    pub fn of<'a>(
        attempts: impl Iterator<Item = &'a AttemptView>,
        now: Timestamp,
        step: Duration,
        columns: usize,
    ) -> Self {
        let mut rows: BTreeMap<&EndpointUrl, HeatRow> = BTreeMap::new();
        let mut took = [0_u16; BUCKETS];
        for attempt in attempts {
            let Some(has_failed) = attempt.class.has_failed() else {
                continue;
            };
            let age = now.since(ended_at(attempt)).as_secs() / step.as_secs().max(1);
            let back = usize::try_from(age).unwrap_or(usize::MAX);
            let Some(place) = columns.checked_sub(back.saturating_add(1)) else {
                continue;
            };
            let row = rows.entry(&attempt.url).or_insert_with(|| HeatRow {
                url: attempt.url.clone(),
                all: Spot::default(),
                spots: vec![Spot::default(); columns],
            });
            for spot in [Some(&mut row.all), row.spots.get_mut(place)].into_iter().flatten() {
                spot.failed += u32::from(has_failed);
                spot.delivered += u32::from(!has_failed);
            }
            let count = &mut took[bucket(attempt.duration_ms)];
            *count = count.saturating_add(1);
        }
        let mut rows: Vec<HeatRow> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse((row.all.failed, row.all.delivered)), row.url.clone()));
        Self { rows, took }
    }

    /// Milliseconds within which `share` of the attempts ended; `None`: there are none.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<u64> {
        Some(quantile(&self.took, share)).filter(|millis| *millis > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::{Epoch, NotificationId, QueueName};
    use crate::domain::outcome::OutcomeClass;

    fn attempt(host: &str, second: i64, class: OutcomeClass) -> AttemptView {
        AttemptView {
            message_id: NotificationId::parse("m").unwrap(),
            queue: QueueName::parse("q").unwrap(),
            url: EndpointUrl::parse(&format!("http://{host}.example/")).unwrap(),
            number: 1,
            epoch: Epoch::default(),
            started_at: Timestamp::from_seconds(second),
            duration_ms: 100,
            class,
            status: None,
            error: None,
            response: None,
            counted: true,
        }
    }

    #[test]
    fn a_cell_counts_what_ended_in_its_time_and_what_is_older_than_the_map_is_not_in_it() {
        let made = [
            attempt("fine", 99, OutcomeClass::Delivered),
            attempt("down", 98, OutcomeClass::Failed),
            attempt("down", 91, OutcomeClass::Refused),
            attempt("down", 90, OutcomeClass::Interrupted),
            attempt("down", 10, OutcomeClass::Failed),
        ];
        let heat = Heat::of(made.iter(), Timestamp::from_seconds(100), Duration::from_secs(5), 3);
        let spot = |delivered, failed| Spot { delivered, failed };
        assert_eq!(heat.rows[0].url.as_str(), "http://down.example/");
        assert_eq!(heat.rows[0].spots, [spot(0, 0), spot(0, 1), spot(0, 1)]);
        assert_eq!(heat.rows[1].spots, [spot(0, 0), spot(0, 0), spot(1, 0)]);
        assert_eq!((heat.rows[0].all, heat.rows.len()), (spot(0, 2), 2));
        assert!(heat.within(0.5).is_some_and(|millis| (80..=120).contains(&millis)));
        let nothing = Heat::of([].into_iter(), Timestamp::EPOCH, Duration::from_secs(5), 3);
        assert_eq!((nothing.rows.len(), nothing.within(0.5)), (0, None));
    }

    #[test]
    fn the_key_goes_away_from_the_map_and_back_to_the_list() {
        let mut zoom = None;
        let mut steps = Vec::new();
        for _ in 0..4 {
            zoom = Zoom::after(zoom);
            steps.push(zoom.map(|zoom| zoom.step().as_secs()));
        }
        assert_eq!(steps, [Some(5), Some(30), Some(300), None]);
    }
}
