//! The checker on broken histories: each breach must be named, and nothing else.

use super::{History, Left, Publish, Seen, Violation, body_hash, violations};

/// Two queues of three notifications, delivered in order; the second of `a` at its second attempt.
fn kept() -> History {
    let mut history = History::default();
    for (queue, id) in [
        ("a", "a0"),
        ("a", "a1"),
        ("a", "a2"),
        ("b", "b0"),
        ("b", "b1"),
        ("b", "b2"),
    ] {
        history.publish(queue, id, id.as_bytes(), Publish::Confirmed);
    }
    let log = [
        ("a0", 200),
        ("b0", 204),
        ("a1", 500),
        ("a1", 200),
        ("b1", 200),
        ("a2", 200),
        ("b2", 200),
    ];
    for (at, (id, status)) in log.into_iter().enumerate() {
        history.seen.push(seen(id, at as u64 * 10, status));
    }
    history
}

fn seen(id: &str, start: u64, status: u16) -> Seen {
    Seen {
        queue: id[..1].to_owned(),
        id: id.to_owned(),
        epoch: Some(1),
        start,
        end: Some(start + 5),
        status: Some(status),
        body_hash: body_hash(id.as_bytes()),
    }
}

/// Applies `breaking` to a good history and compares what is found.
#[track_caller]
fn check(breaking: impl FnOnce(&mut History), expected: &[Violation]) {
    let mut history = kept();
    breaking(&mut history);
    assert_eq!(violations(&history), expected);
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_history_that_keeps_the_promises_passes() {
    check(|_| {}, &[]);
    kept().assert_kept();
}

#[test]
#[should_panic(expected = "1 broken promises:\n  Lost")]
fn a_broken_promise_panics_with_its_name() {
    let mut history = kept();
    history.seen.retain(|seen| seen.id != "b2");
    history.assert_kept();
}

#[test]
fn a_dropped_notification_is_a_loss() {
    let lost = Violation::Lost {
        queue: text("b"),
        id: text("b1"),
    };
    check(|history| history.seen.retain(|seen| seen.id != "b1"), &[lost]);
    // Acknowledged before it was sent: the attempt is there, its success is not.
    let unsent = Violation::Lost {
        queue: text("a"),
        id: text("a2"),
    };
    check(|history| history.seen[5].status = Some(500), &[unsent]);
}

#[test]
fn what_is_dead_waiting_or_never_confirmed_is_no_loss() {
    let dead = |history: &mut History| {
        history.seen[4].status = Some(400);
        history.left.insert(text("b1"), Left::Dead);
    };
    check(dead, &[]);
    let waiting = |history: &mut History| {
        history.seen.retain(|seen| seen.id != "b2");
        history.left.insert(text("b2"), Left::Waiting);
        history.depth.insert(text("b"), 1);
    };
    check(waiting, &[]);
    let unknown = |history: &mut History| {
        history.seen.retain(|seen| seen.id != "b1");
        history.published[4].outcome = Publish::Unknown;
    };
    check(unknown, &[]);
}

#[test]
fn swapped_deliveries_are_out_of_order() {
    let swap = |history: &mut History| {
        let (first, second) = (history.seen[4].start, history.seen[6].start);
        for (at, start) in [(4, second), (6, first)] {
            history.seen[at].start = start;
            history.seen[at].end = Some(start + 5);
        }
    };
    let violation = Violation::OutOfOrder {
        queue: text("b"),
        id: text("b2"),
        unsettled: text("b1"),
    };
    check(swap, &[violation]);
}

#[test]
fn an_attempt_before_the_one_ahead_is_settled_is_out_of_order() {
    // a2 goes out between the two attempts of a1, and in vain; it succeeds at its turn.
    let early = |history: &mut History| {
        history.seen.push(Seen {
            end: Some(28),
            ..seen("a2", 26, 503)
        });
    };
    let violation = Violation::OutOfOrder {
        queue: text("a"),
        id: text("a2"),
        unsettled: text("a1"),
    };
    check(early, &[violation]);
}

#[test]
fn passing_by_what_still_waits_is_out_of_order() {
    let pass_by = |history: &mut History| {
        history.seen.retain(|seen| seen.id != "b1");
        history.left.insert(text("b1"), Left::Waiting);
        history.depth.insert(text("b"), 1);
    };
    let violation = Violation::OutOfOrder {
        queue: text("b"),
        id: text("b2"),
        unsettled: text("b1"),
    };
    check(pass_by, &[violation]);
}

#[test]
fn a_repeat_without_a_fault_is_too_many() {
    let repeat = |history: &mut History| history.seen.push(seen("a1", 100, 200));
    let violation = Violation::TooManyDuplicates {
        queue: text("a"),
        extra: 1,
        allowed: 0,
    };
    check(repeat, std::slice::from_ref(&violation));
    let wrong_queue = |history: &mut History| {
        repeat(history);
        history.faults.insert(text("b"), 1);
    };
    check(wrong_queue, &[violation]);
}

#[test]
fn faults_times_prefetch_and_repeated_publishing_explain_repeats() {
    let crash = |history: &mut History| {
        history.seen.extend([seen("a1", 100, 200), seen("a2", 110, 200)]);
        history.faults.insert(text("a"), 1);
        history.prefetch = 2;
    };
    check(crash, &[]);
    let everywhere = |history: &mut History| {
        history.seen.push(seen("b2", 100, 200));
        history.faults_of_all = 1;
    };
    check(everywhere, &[]);
    let published_twice = |history: &mut History| {
        history.seen.push(seen("b2", 100, 200));
        history.published[5].publishes = 2;
    };
    check(published_twice, &[]);
}

#[test]
fn two_attempts_at_once_overlap() {
    let longer = |history: &mut History| history.seen[2].end = Some(32);
    let violation = Violation::Overlap {
        queue: text("a"),
        first: text("a1"),
        second: text("a1"),
    };
    check(longer, &[violation]);
    let open = |history: &mut History| {
        history.seen[2].end = None;
        history.seen[2].status = None;
    };
    let violation = Violation::Overlap {
        queue: text("a"),
        first: text("a1"),
        second: text("a1"),
    };
    check(open, &[violation]);
}

#[test]
fn an_attempt_left_hanging_by_a_dead_owner_is_excused_by_its_fault() {
    let taken_over = |history: &mut History| {
        history.seen[2].end = Some(34);
        for at in [3, 5] {
            history.seen[at].epoch = Some(2);
        }
    };
    let violation = Violation::Overlap {
        queue: text("a"),
        first: text("a1"),
        second: text("a1"),
    };
    check(taken_over, &[violation]);
    let after_a_fault = |history: &mut History| {
        taken_over(history);
        history.faults.insert(text("a"), 1);
    };
    check(after_a_fault, &[]);
}

#[test]
fn an_owner_that_goes_on_after_its_successor_began_is_stale() {
    let zombie = |history: &mut History| {
        history.seen[3].epoch = Some(2);
        history.faults.insert(text("a"), 1);
    };
    let violation = Violation::StaleEpoch {
        queue: text("a"),
        id: text("a2"),
        epoch: 1,
        newer: 2,
    };
    check(zombie, &[violation]);
}

#[test]
fn what_nobody_published_is_a_phantom() {
    let phantom = |id: &str| Violation::Phantom {
        queue: text(&id[..1]),
        id: text(id),
    };
    check(|history| history.seen.push(seen("b9", 100, 200)), &[phantom("b9")]);
    let refused = |history: &mut History| history.published[5].outcome = Publish::Refused;
    check(refused, &[phantom("b2")]);
}

#[test]
fn a_changed_body_is_named() {
    let violation = Violation::ChangedBody {
        queue: text("b"),
        id: text("b0"),
    };
    check(|history| history.seen[1].body_hash += 1, &[violation]);
}

#[test]
fn messages_left_in_the_broker_are_named() {
    let violation = Violation::WrongDepth {
        queue: text("a"),
        depth: 2,
        waiting: 0,
    };
    check(|history| history.depth = [(text("a"), 2)].into(), &[violation]);
    let violation = Violation::WrongDepth {
        queue: text("c"),
        depth: 1,
        waiting: 0,
    };
    check(|history| history.depth = [(text("c"), 1)].into(), &[violation]);
}
