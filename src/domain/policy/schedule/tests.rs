//! The schedule against the vectors, against the published lists, and by its properties.

use std::time::Duration;

use proptest::prelude::*;

use super::super::super::value::from_json;
use super::super::{BackoffFunction, DELAY_S_MAX, Override, PolicyOwner, RETRIES_MAX, RetryPolicy, SCHEDULE_S_MAX};
use super::{Phase, Schedule, ratio_floor, with_jitter};

const VECTORS: &str = include_str!("../../../../tests/vectors/schedules.json");

fn policy(json: &serde_json::Value) -> RetryPolicy {
    RetryPolicy::from_value(&from_json(json), PolicyOwner::Default)
        .unwrap()
        .unwrap()
}

fn backoff(function: BackoffFunction, count: Option<u32>, minimum_delay_s: u32, maximum_delay_s: u32) -> Vec<u32> {
    let policy = RetryPolicy {
        function,
        backoff_retries: count,
        minimum_delay_s,
        maximum_delay_s,
        ..RetryPolicy::default()
    };
    policy.schedule().phase_delays_s(Phase::Backoff).collect()
}

#[test]
fn schedules_are_those_of_the_vectors() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
    assert!(!cases.is_empty());
    for case in &cases {
        let schedule = policy(&case["policy"]).schedule();
        let delays: Vec<u32> = serde_json::from_value(case["delays_s"].clone()).unwrap();
        assert_eq!(schedule.delays_s().collect::<Vec<_>>(), delays, "{case}");
        assert_eq!(
            u64::from(schedule.retries()),
            case["retries"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(
            u64::from(schedule.attempts()),
            case["attempts"].as_u64().unwrap(),
            "{case}"
        );
        assert_eq!(schedule.total_s(), case["total_s"].as_u64().unwrap(), "{case}");
    }
}

#[test]
fn backoff_lists_are_the_published_ones_with_exact_ends() {
    use BackoffFunction::{Arithmetic, Exponential, Geometric, Linear};
    let check = |function, count, minimum, maximum, expected: &[u32]| {
        assert_eq!(
            backoff(function, count, minimum, maximum),
            expected,
            "{function:?} {minimum}..{maximum}"
        );
    };
    check(Arithmetic, None, 5, 15, &[5, 15]);
    check(Arithmetic, None, 5, 31, &[5, 7, 12, 20, 31]);
    check(Arithmetic, None, 7, 33, &[7, 9, 14, 22, 33]);
    check(Arithmetic, None, 5, 60, &[5, 6, 8, 11, 15, 20, 26, 33, 41, 50, 60]);
    check(
        Arithmetic,
        None,
        20,
        80,
        &[20, 20, 22, 25, 29, 33, 39, 45, 52, 60, 70, 80],
    );
    check(Geometric, None, 5, 31, &[5, 7, 12, 19, 31]);
    check(Exponential, None, 7, 33, &[7, 10, 15, 22, 33]);
    check(Geometric, None, 5, 60, &[5, 6, 8, 10, 13, 17, 22, 28, 36, 46, 60]);
    check(
        Geometric,
        None,
        30,
        100,
        &[30, 32, 36, 39, 43, 47, 52, 57, 62, 69, 75, 83, 91, 100],
    );
    check(Geometric, Some(10), 5, 260, &[5, 7, 12, 18, 28, 44, 69, 108, 167, 260]);
    check(Linear, Some(10), 1, 60, &[1, 7, 14, 20, 27, 33, 40, 46, 53, 60]);
    check(Geometric, None, 5, 14, &[5]);
    check(Arithmetic, None, 5, 9, &[]);
    check(Geometric, Some(1), 5, 60, &[5]);
    check(Geometric, Some(2), 5, 60, &[5, 60]);
}

#[test]
fn the_built_in_policy_is_dense_in_the_first_minutes_and_covers_a_day() {
    let policy = RetryPolicy::built_in();
    let schedule = policy.schedule();
    let delays: Vec<u32> = schedule.delays_s().collect();
    assert!(delays.is_sorted(), "{delays:?}");
    let within = |seconds: u32| {
        let ends = delays.iter().scan(0, |at, delay| {
            *at += delay;
            Some(*at)
        });
        ends.take_while(|at| *at <= seconds).count()
    };
    assert!(within(60) >= 7 && within(600) >= 13, "{delays:?}");
    assert!(
        (24 * 3600..30 * 3600).contains(&schedule.total_s()),
        "{}",
        schedule.total_s()
    );
    assert_eq!(delays.last(), Some(&3600));
    let written = policy.to_value(PolicyOwner::Default);
    assert_eq!(
        RetryPolicy::from_value(&written, PolicyOwner::Default),
        Ok(Some(policy))
    );
}

#[test]
fn a_retry_knows_its_phase_and_place() {
    let schedule = RetryPolicy::default().schedule();
    let phases: Vec<_> = (1..=15)
        .map(|number| schedule.delay(number).unwrap().phase.as_str())
        .collect();
    let expected = [
        &["immediate"; 3][..],
        &["pre_backoff"; 3],
        &["backoff"; 6],
        &["post_backoff"; 3],
    ]
    .concat();
    assert_eq!(phases, expected);
    let last = schedule.delay(15).unwrap();
    assert_eq!((last.delay_s, last.number, last.of), (30, 15, 15));
    assert_eq!(schedule.delay(0), None);
    assert_eq!(schedule.delay(16), None);
    assert_eq!(schedule.delay(u32::MAX), None);
}

#[test]
fn a_message_overrides_the_phases_and_leaves_the_rest_to_the_policy() {
    let policy = RetryPolicy::default();
    let delays = |polling_time_s, restart_count| {
        let schedule = policy.schedule_with(Override {
            polling_time_s,
            restart_count,
        });
        schedule.delays_s().collect::<Vec<_>>()
    };
    assert_eq!(delays(Some(7), Some(3)), [7, 7, 7]);
    assert_eq!(delays(None, Some(2)), [5, 5]);
    assert_eq!(delays(Some(0), None), [0; 15]);
    assert_eq!(delays(Some(7), Some(0)), [0; 0]);
    assert_eq!(delays(None, None), policy.schedule().delays_s().collect::<Vec<_>>());
    let one = policy.schedule_with(Override {
        polling_time_s: Some(7),
        restart_count: Some(1),
    });
    assert_eq!(
        one.delay(1).map(|retry| (retry.phase, retry.delay_s, retry.of)),
        Some((Phase::Backoff, 7, 1))
    );
}

#[test]
fn jitter_only_adds_and_stays_within_its_share() {
    let ten = Duration::from_secs(10);
    assert_eq!(with_jitter(ten, 0.0, 0.9), ten);
    assert_eq!(with_jitter(ten, 0.5, 0.0), ten);
    assert_eq!(with_jitter(ten, 0.5, 0.5), Duration::from_millis(12_500));
    assert_eq!(with_jitter(ten, 7.0, 7.0), Duration::from_secs(20));
    assert_eq!(with_jitter(ten, f64::NAN, 0.5), ten);
    assert_eq!(with_jitter(Duration::MAX, 1.0, 1.0), Duration::MAX);
}

/// A natural number in decimal, an implementation apart from the one under test.
fn power_product(factors: &[(u32, u32)]) -> Vec<u64> {
    const BASE: u64 = 1_000_000_000;
    let mut digits = vec![1_u64];
    for (factor, times) in factors {
        for _ in 0..*times {
            let mut carry = 0;
            for digit in &mut digits {
                let product = *digit * u64::from(*factor) + carry;
                *digit = product % BASE;
                carry = product / BASE;
            }
            if carry > 0 {
                digits.push(carry);
            }
        }
    }
    digits.reverse();
    digits
}

fn at_most(left: &[u64], right: &[u64]) -> bool {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right)).is_le()
}

/// floor^last ≤ minimum^(last−index) · maximum^index < (floor+1)^last.
fn assert_floor(floor: u32, minimum: u32, maximum: u32, index: u32, last: u32) {
    let exact = power_product(&[(minimum, last - index), (maximum, index)]);
    let context = format!("{floor} for {minimum}..{maximum} at {index} of {last}");
    assert!(at_most(&power_product(&[(floor, last)]), &exact), "too high: {context}");
    assert!(
        !at_most(&power_product(&[(floor + 1, last)]), &exact),
        "too low: {context}"
    );
}

#[test]
fn exact_powers_are_not_missed_by_one() {
    for base in 2_u32..40 {
        for last in 2_u32..12 {
            let Some(maximum) = base.checked_pow(last).filter(|maximum| *maximum <= DELAY_S_MAX) else {
                continue;
            };
            for index in 1..last {
                assert_eq!(ratio_floor(1, maximum, index, last), base.pow(index));
                assert_floor(ratio_floor(1, maximum - 1, index, last), 1, maximum - 1, index, last);
            }
        }
    }
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let function = proptest::sample::select(BackoffFunction::ALL.to_vec());
    let count = prop_oneof![0_u32..1_100, any::<u32>()];
    let counts = (count.clone(), count.clone(), count.clone(), proptest::option::of(count));
    let delay = prop_oneof![0_u32..100, 0_u32..=DELAY_S_MAX, any::<u32>()];
    (function, counts, delay.clone(), delay).prop_map(|(function, counts, minimum_delay_s, maximum_delay_s)| {
        RetryPolicy {
            function,
            retries_with_no_delay: counts.0,
            minimum_delay_retries: counts.1,
            maximum_delay_retries: counts.2,
            backoff_retries: counts.3,
            minimum_delay_s,
            maximum_delay_s,
            ..RetryPolicy::default()
        }
    })
}

fn assert_monotone_and_bounded(schedule: &Schedule) {
    for phase in Phase::ALL {
        let delays: Vec<u32> = schedule.phase_delays_s(phase).collect();
        assert!(delays.is_sorted(), "{phase:?} {delays:?}");
        assert!(delays.len() <= RETRIES_MAX as usize);
        assert!(delays.iter().all(|delay_s| *delay_s <= DELAY_S_MAX));
    }
}

proptest! {
    #[test]
    fn every_schedule_is_total_monotone_within_a_phase_and_bounded(policy in any_policy()) {
        let schedule = policy.schedule();
        assert_monotone_and_bounded(&schedule);
        prop_assert_eq!(schedule.delays_s().count(), schedule.retries() as usize);
        prop_assert_eq!(schedule.delay(schedule.retries() + 1), None);
        for (number, delay_s) in (1..).zip(schedule.delays_s()) {
            prop_assert_eq!(schedule.delay(number).map(|retry| retry.delay_s), Some(delay_s));
        }
    }

    #[test]
    fn a_policy_that_was_accepted_keeps_its_bounds_and_its_ends(policy in any_policy()) {
        let written = policy.to_value(PolicyOwner::Queue);
        let Ok(Some(policy)) = RetryPolicy::from_value(&written, PolicyOwner::Queue) else { return Ok(()) };
        let schedule = policy.schedule();
        prop_assert!(schedule.total_s() <= SCHEDULE_S_MAX);
        let backoff: Vec<u32> = schedule.phase_delays_s(Phase::Backoff).collect();
        if let [first, .., last] = backoff[..] {
            prop_assert_eq!((first, last), (policy.minimum_delay_s, policy.maximum_delay_s));
        }
    }

    #[test]
    fn geometric_delays_are_exact_floors(
        minimum in 1_u32..=DELAY_S_MAX,
        above in 0_u32..=DELAY_S_MAX,
        last in 2_u32..RETRIES_MAX,
        place in any::<u32>(),
    ) {
        let maximum = minimum.saturating_add(above).min(DELAY_S_MAX);
        let index = 1 + place % (last - 1);
        assert_floor(ratio_floor(minimum, maximum, index, last), minimum, maximum, index, last);
    }

    #[test]
    fn near_integers_are_decided_exactly(minimum in 1_u32..3_000, factor in 1_u32..800, off in -1_i32..=1) {
        // The geometric mean of a and a·f² is a·f; one more or less in the maximum comes close to it.
        let square = u64::from(minimum) * u64::from(factor) * u64::from(factor);
        let Ok(maximum) = u32::try_from(square) else { return Ok(()) };
        let maximum = maximum.saturating_add_signed(off).clamp(minimum, DELAY_S_MAX);
        assert_floor(ratio_floor(minimum, maximum, 1, 2), minimum, maximum, 1, 2);
    }
}
