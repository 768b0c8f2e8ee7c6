//! Intake queues: what their keys match, many messages in hand, and what comes again.

use redrive::internals::broker::{Acked, Intake, IntakeQueue, Look, Outgoing, Published, Walked};
use redrive::internals::domain::id::QueueName;
use redrive::internals::domain::message::Message;

use super::bench::{Bench, QUIET, SOON, full, numbered};
use crate::support::wait::within;

const EXCHANGE: &str = "people";

fn wanted(bench: &Bench, name: &str, keys: &[&str]) -> IntakeQueue {
    IntakeQueue {
        vhost: bench.naming.vhost.clone(),
        name: QueueName::parse(name).unwrap(),
        exchange: Some(EXCHANGE.to_owned()),
        bindings: keys.iter().map(|key| (*key).to_owned()).collect(),
    }
}

async fn publish(bench: &Bench, key: &str, message: Message) -> Published {
    let outgoing = Outgoing {
        exchange: EXCHANGE.to_owned(),
        routing_key: key.to_owned(),
        message,
    };
    bench.broker.publish_many(&[outgoing]).await.remove(0).unwrap()
}

/// The next messages until there are so many.
async fn taken(intake: &mut Box<dyn Intake>, count: usize) -> Vec<Walked> {
    let mut all = Vec::new();
    while all.len() < count {
        let next = within(SOON, intake.next(10)).await;
        all.extend(next.expect("messages come").expect("the intake lives"));
    }
    all
}

fn bodies(taken: &[Walked]) -> Vec<&str> {
    taken
        .iter()
        .map(|one| std::str::from_utf8(&one.message.body).unwrap())
        .collect()
}

pub(crate) async fn an_intake_gets_what_its_keys_match_with_where_it_came_from(bench: &Bench) {
    let mut people = bench
        .broker
        .intake(&wanted(bench, "q_people", &["person.#"]), 10)
        .await
        .unwrap();
    let everything = bench.broker.intake(&wanted(bench, "q_all", &[]), 10).await.unwrap();
    assert_eq!(publish(bench, "person.new", full()).await, Published::Accepted);
    assert_eq!(publish(bench, "house.new", numbered(1)).await, Published::Accepted);
    let got = taken(&mut people, 1).await.remove(0);
    assert_eq!(
        (got.exchange.as_str(), got.routing_key.as_str()),
        (EXCHANGE, "person.new")
    );
    let mut message = got.message;
    message.headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert_eq!(message, full());
    assert!(
        tokio::time::timeout(QUIET, people.next(10)).await.is_err(),
        "the other key is not its own"
    );
    everything.close().await;
    bench.wait_ready(&QueueName::parse("q_all").unwrap(), 2).await;
    people.close().await;
}

pub(crate) async fn what_an_intake_settles_is_gone_and_the_rest_comes_again_in_order(bench: &Bench) {
    let wanted = wanted(bench, "q_people", &["*"]);
    let mut intake = bench.broker.intake(&wanted, 4).await.unwrap();
    for number in 1..=6 {
        assert_eq!(publish(bench, "k", numbered(number)).await, Published::Accepted);
    }
    let first = taken(&mut intake, 4).await;
    assert_eq!(bodies(&first), ["1", "2", "3", "4"]);
    assert!(first.iter().all(|one| !one.redelivered));
    assert!(
        tokio::time::timeout(QUIET, intake.next(10)).await.is_err(),
        "the window is full"
    );
    let settled: Vec<_> = first[..3].iter().map(|one| one.tag).collect();
    assert_eq!(intake.settle(&settled).await, Acked::Sent);
    assert_eq!(bodies(&taken(&mut intake, 2).await), ["5", "6"]);
    intake.close().await;
    bench
        .wait_look(&wanted.name, |look| {
            matches!(look, Look::Present { ready: 3, consumers: 0 })
        })
        .await;
    let mut again = bench.broker.intake(&wanted, 10).await.unwrap();
    let rest = taken(&mut again, 3).await;
    assert_eq!(bodies(&rest), ["4", "5", "6"]);
    assert!(rest.iter().all(|one| one.redelivered));
    let settled: Vec<_> = rest.iter().map(|one| one.tag).collect();
    assert_eq!(again.settle(&settled).await, Acked::Sent);
    drop(again);
    bench
        .wait_look(&wanted.name, |look| {
            matches!(look, Look::Present { ready: 0, consumers: 0 })
        })
        .await;
}

/// A daemon that begins again begins with a small window, and the one before may have had a large one.
pub(crate) async fn an_intake_with_a_smaller_window_than_the_one_before_changes_no_order(bench: &Bench) {
    const MESSAGES: u32 = 120;
    let wanted = wanted(bench, "q_people", &["*"]);
    let mut intake = bench.broker.intake(&wanted, 100).await.unwrap();
    for number in 1..=MESSAGES {
        assert_eq!(publish(bench, "k", numbered(number)).await, Published::Accepted);
    }
    taken(&mut intake, 100).await;
    for settled in [5, 0, 7] {
        intake.close().await;
        intake = bench.broker.intake(&wanted, 10).await.unwrap();
        let tags: Vec<_> = taken(&mut intake, 10).await.iter().map(|one| one.tag).collect();
        assert_eq!(intake.settle(&tags[..settled]).await, Acked::Sent);
    }
    drop(intake);
    bench
        .wait_look(&wanted.name, |look| matches!(look, Look::Present { ready: 108, .. }))
        .await;
    let mut again = bench.broker.intake(&wanted, 1).await.unwrap();
    let mut got = Vec::new();
    while got.len() < 108 {
        let next = taken(&mut again, 1).await;
        got.extend(bodies(&next).into_iter().map(str::to_owned));
        let tags: Vec<_> = next.iter().map(|one| one.tag).collect();
        assert_eq!(again.settle(&tags).await, Acked::Sent);
    }
    let rest: Vec<String> = (13..=MESSAGES).map(|number| number.to_string()).collect();
    assert_eq!(got, rest);
}

/// Some brokers count what they get back, and drop it at the limit.
pub(crate) async fn an_intake_that_ceases_hands_out_what_came_and_gives_nothing_back(bench: &Bench) {
    let wanted = wanted(bench, "q_people", &["*"]);
    let mut intake = bench.broker.intake(&wanted, 4).await.unwrap();
    for number in 1..=9 {
        assert_eq!(publish(bench, "k", numbered(number)).await, Published::Accepted);
    }
    let mut got = taken(&mut intake, 1).await;
    intake.cease().await;
    loop {
        let next = within(SOON, intake.next(2)).await.expect("it ends").expect("it lives");
        if next.is_empty() {
            break;
        }
        got.extend(next);
    }
    assert!(got.len() <= 4, "{got:?}");
    let tags: Vec<_> = got.iter().map(|one| one.tag).collect();
    assert_eq!(intake.settle(&tags).await, Acked::Sent);
    intake.close().await;
    let mut again = bench.broker.intake(&wanted, 10).await.unwrap();
    let rest = taken(&mut again, 9 - got.len()).await;
    assert!(rest.iter().all(|one| !one.redelivered), "{rest:?}");
    let all: Vec<String> = (1..=9).map(|number: u32| number.to_string()).collect();
    assert_eq!([bodies(&got), bodies(&rest)].concat(), all);
}

pub(crate) async fn an_intake_binds_again_what_somebody_unbound(bench: &Bench) {
    let wanted = wanted(bench, "q_people", &["*"]);
    let mut intake = bench.broker.intake(&wanted, 4).await.unwrap();
    if !bench.broker.is_embedded() {
        let (vhost, queue) = (&bench.naming.vhost, wanted.name.as_str());
        let binding = ["bindings", vhost, "e", EXCHANGE, "q", queue, "*"];
        crate::rabbitmq::bench::call(reqwest::Method::DELETE, &binding, None).await;
        assert_eq!(publish(bench, "k", numbered(1)).await, Published::Returned);
    }
    intake.bind_again().await.unwrap();
    assert_eq!(publish(bench, "k", numbered(2)).await, Published::Accepted);
    assert_eq!(bodies(&taken(&mut intake, 1).await), ["2"]);
    intake.close().await;
}

pub(crate) async fn an_intake_whose_queue_is_deleted_says_so(bench: &Bench) {
    let wanted = wanted(bench, "q_people", &["*"]);
    let mut intake = bench.broker.intake(&wanted, 4).await.unwrap();
    bench.broker.delete_whole(&wanted.name).await.unwrap();
    let next = within(SOON, intake.next(10)).await.expect("it is noticed");
    assert!(next.is_err(), "{next:?}");
}
