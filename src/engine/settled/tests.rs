//! What comes again is known, and what is published again is sent.

use proptest::prelude::*;

use super::*;
use crate::broker::DeliveryTag;
use crate::domain::message::Message;

fn message(n: u32) -> Message {
    Message {
        message_id: Some(format!("n-{n}")),
        timestamp_s: Some(1_000 + u64::from(n)),
        body: bytes::Bytes::from(format!("body {n}")),
        ..Message::default()
    }
}

/// Of a publisher that says no time.
fn timeless(n: u32) -> Message {
    Message {
        timestamp_s: None,
        ..message(n)
    }
}

fn settled(count: u32, made: fn(u32) -> Message) -> LastSettled {
    let mut list = LastSettled::default();
    for n in 1..=count {
        list.push(Fingerprint::of(&made(n)));
    }
    list
}

/// The channel was lost, and another one is open.
fn lost(list: &mut LastSettled) {
    list.expect_again(0);
}

fn delivery(message: Message, redelivered: bool) -> Delivery {
    Delivery {
        tag: DeliveryTag(1),
        redelivered,
        addressed_to: None,
        message,
    }
}

fn came_again(list: &mut LastSettled, message: &Message) -> bool {
    list.came_again(&delivery(message.clone(), true), Fingerprint::of(message))
}

fn came_first(list: &mut LastSettled, message: &Message) -> bool {
    list.came_again(&delivery(message.clone(), false), Fingerprint::of(message))
}

#[test]
fn what_comes_again_after_a_lost_channel_is_known_in_its_order_and_once() {
    assert!(!came_again(&mut settled(5, message), &message(3)), "nothing was lost");
    let mut list = settled(5, message);
    lost(&mut list);
    assert!(came_again(&mut list, &message(3)));
    assert!(came_again(&mut list, &message(4)));
    lost(&mut list);
    assert!(came_again(&mut list, &message(5)));
    assert!(!came_again(&mut list, &message(5)), "once");
}

#[test]
fn a_dead_letter_among_the_last_does_not_hide_those_behind_it() {
    // 2 became a dead letter: what was acked is remembered, whatever came of it.
    let mut list = settled(4, timeless);
    lost(&mut list);
    assert!((1..=4).all(|n| came_again(&mut list, &timeless(n))));
}

#[test]
fn after_a_channel_that_was_closed_in_order_nothing_comes_again_unless_a_connection_was_lost() {
    let mut list = settled(3, timeless);
    list.closed_in_order(7);
    list.expect_again(7);
    assert!(
        !came_again(&mut list, &timeless(3)),
        "it was published again, and looked at"
    );
    list.push(Fingerprint::of(&timeless(3)));
    list.closed_in_order(7);
    list.expect_again(8);
    assert!(came_again(&mut list, &timeless(3)), "the broker was killed meanwhile");
}

#[test]
fn a_channel_that_is_closed_before_anything_came_leaves_the_question_to_the_next_unless_the_queue_is_empty() {
    let mut list = settled(3, message);
    lost(&mut list);
    list.closed_in_order(0);
    list.expect_again(0);
    assert!(came_again(&mut list, &message(3)));
    lost(&mut list);
    assert!(list.is_asking());
    list.nothing_waits();
    list.closed_in_order(0);
    list.expect_again(0);
    assert!(!came_again(&mut list, &message(3)), "it was published again");
}

#[test]
fn what_was_in_hand_is_sent_again_although_an_equal_one_was_acked() {
    let mut list = settled(3, timeless);
    // Published again, and the attempt was cut off with its connection.
    assert!(!came_first(&mut list, &timeless(2)));
    lost(&mut list);
    assert!(!came_again(&mut list, &timeless(2)));
    assert!(!came_again(&mut list, &timeless(3)), "all that was acked is before it");
}

#[test]
fn an_attempt_that_was_not_a_2xx_takes_its_mark_out() {
    let mut list = settled(3, timeless);
    list.take_out(Fingerprint::of(&timeless(2)));
    lost(&mut list);
    assert!(came_again(&mut list, &timeless(1)));
    assert!(!came_again(&mut list, &timeless(2)));
}

#[test]
fn a_message_that_is_published_again_a_second_later_is_another() {
    let mut list = settled(3, message);
    lost(&mut list);
    let later = Message {
        timestamp_s: Some(2_000),
        ..message(2)
    };
    assert!(!came_again(&mut list, &later));
}

#[test]
fn a_stranger_is_sent_and_forgets_nothing() {
    let mut list = settled(5, message);
    lost(&mut list);
    assert!(came_again(&mut list, &message(3)));
    assert!(
        !came_again(&mut list, &message(9)),
        "another process acked it in between"
    );
    list.push(Fingerprint::of(&message(9)));
    assert!(came_again(&mut list, &message(4)));
    assert!(
        !came_again(&mut list, &message(9)),
        "it was acked since: this one was published again"
    );
    lost(&mut list);
    assert!(came_again(&mut list, &message(5)), "a later loss finds the whole list");
}

#[test]
fn behind_a_stranger_a_message_without_a_time_is_sent() {
    let mut list = settled(5, timeless);
    lost(&mut list);
    assert!(!came_again(&mut list, &timeless(9)));
    assert!(
        !came_again(&mut list, &timeless(5)),
        "it could as well be published again"
    );
}

#[test]
fn a_delivery_that_is_not_flagged_is_sent_and_ends_the_question() {
    let mut list = settled(5, message);
    lost(&mut list);
    assert!(!came_first(&mut list, &message(1)));
    assert!(!came_again(&mut list, &message(5)), "it is over");
    list.push(Fingerprint::of(&message(5)));
    lost(&mut list);
    assert!(
        came_again(&mut list, &message(5)),
        "a broker that is killed later may have lost its ack"
    );
}

#[test]
fn what_is_older_than_a_full_list_is_sent_and_pushes_nothing_out_of_it() {
    let count = u32::try_from(QUEUE_MAX).unwrap() + 100;
    for made in [message, timeless] {
        let mut list = settled(count, made);
        lost(&mut list);
        for n in 1..=100 {
            assert!(!came_again(&mut list, &made(n)));
            list.push(Fingerprint::of(&made(n)));
        }
        assert!((101..=count).all(|n| came_again(&mut list, &made(n))));
    }
}

#[test]
fn a_list_rests_between_two_workers_and_an_empty_or_forgotten_one_does_not() {
    let (resting, queue) = (Resting::default(), QueueName::parse("q").unwrap());
    resting.put(&queue, settled(2, message));
    resting.put(&queue, settled(3, message));
    assert_eq!(resting.lock().young.weight, 3 + LIST_WEIGHT);
    let mut list = resting.take(&queue);
    lost(&mut list);
    assert!(came_again(&mut list, &message(3)));
    assert_eq!(resting.lock().young.weight, 0);
    resting.put(&queue, LastSettled::default());
    resting.put(&QueueName::parse("gone").unwrap(), settled(1, message));
    resting.forget(&QueueName::parse("gone").unwrap());
    assert!(resting.lock().young.by_queue.is_empty());
}

#[test]
fn lists_without_number_stay_within_the_bound_and_the_youngest_are_kept() {
    let resting = Resting::default();
    let name = |n: usize| QueueName::parse(&format!("q{n}")).unwrap();
    let count = RESTING_MAX / LIST_WEIGHT * 2;
    for n in 0..count {
        resting.put(&name(n), settled(1, message));
    }
    let (young, old) = {
        let lists = resting.lock();
        (lists.young.weight, lists.old.weight)
    };
    assert!(young + old <= RESTING_MAX, "{young} + {old}");
    assert!(!resting.take(&name(count - 1)).settled.is_empty());
    assert!(resting.take(&name(0)).settled.is_empty());
}

/// What happens to a queue whose publishers use ids again.
#[derive(Clone, Debug)]
enum Step {
    /// One of a few messages, at this second; none where its publisher says no time.
    Publish(u32, Option<u64>),
    /// The next message is delivered to the worker, which acks it or not.
    Deliver {
        acks: bool,
    },
    /// The worker closes its channel; or loses it, and the broker forgets so many acks.
    Close,
    Lose {
        forgotten: usize,
    },
}

fn steps(timed: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u32..3).prop_map(|n| Step::Publish(n, None)),
        4 => any::<bool>().prop_map(|acks| Step::Deliver { acks }),
        1 => Just(Step::Close),
        1 => (0_usize..4).prop_map(|forgotten| Step::Lose { forgotten }),
    ];
    proptest::collection::vec(step, 0..60).prop_map(move |mut steps| {
        for (second, step) in (0_u64..).zip(&mut steps) {
            if let Step::Publish(_, at) = step {
                *at = timed.then_some(second);
            }
        }
        steps
    })
}

/// A queue as a broker keeps it, with prefetch 1.
#[derive(Default)]
struct Queue {
    /// Each with its number and whether it was delivered before.
    waiting: VecDeque<(usize, Message, bool)>,
    acked: Vec<(usize, Message)>,
    published: usize,
}

/// Plays the steps; answers the numbers that were acked unsent and never sent, and how often each was sent and acked.
fn play(steps: &[Step], forgets: bool) -> (Vec<usize>, HashMap<usize, u32>) {
    let (mut queue, mut list) = (Queue::default(), LastSettled::default());
    let (mut losses, mut at_attach) = (0, 0);
    let (mut sent, mut swallowed) = (HashMap::<usize, u32>::default(), Vec::new());
    list.expect_again(losses);
    for step in steps {
        match step {
            Step::Publish(n, second) => {
                let message = Message {
                    timestamp_s: *second,
                    ..message(*n)
                };
                queue.waiting.push_back((queue.published, message, false));
                queue.published += 1;
            }
            Step::Deliver { acks } => {
                let Some((number, message, redelivered)) = queue.waiting.pop_front() else {
                    continue;
                };
                let fingerprint = Fingerprint::of(&message);
                if list.came_again(&delivery(message.clone(), redelivered), fingerprint) {
                    if !sent.contains_key(&number) {
                        swallowed.push(number);
                    }
                    queue.acked.push((number, message));
                } else if *acks {
                    *sent.entry(number).or_default() += 1;
                    list.push(fingerprint);
                    queue.acked.push((number, message));
                } else {
                    list.take_out(fingerprint);
                    queue.waiting.push_front((number, message, true));
                    // Whoever fails lets go.
                    list.closed_in_order(at_attach);
                    at_attach = losses;
                    list.expect_again(losses);
                }
            }
            Step::Close => {
                list.closed_in_order(at_attach);
                at_attach = losses;
                list.expect_again(losses);
            }
            Step::Lose { forgotten } => {
                losses += 1;
                if forgets {
                    for _ in 0..*forgotten {
                        let Some((number, message)) = queue.acked.pop() else {
                            break;
                        };
                        queue.waiting.push_front((number, message, true));
                    }
                    for (_, _, redelivered) in &mut queue.waiting {
                        *redelivered = true;
                    }
                }
                queue.acked.clear();
                at_attach = losses;
                list.expect_again(losses);
            }
        }
    }
    (swallowed, sent)
}

proptest! {
    #[test]
    fn a_message_with_a_time_is_never_swallowed_and_never_sent_twice_by_a_killed_broker(steps in steps(true)) {
        let (swallowed, sent) = play(&steps, true);
        prop_assert!(swallowed.is_empty(), "never sent: {swallowed:?}");
        prop_assert!(sent.values().all(|times| *times == 1), "sent twice: {sent:?}");
    }

    #[test]
    fn a_message_without_a_time_is_never_swallowed_where_connections_are_lost_and_acks_are_not(steps in steps(false)) {
        let (swallowed, _) = play(&steps, false);
        prop_assert!(swallowed.is_empty(), "never sent: {swallowed:?}");
    }
}
