//! Dead letters of any RabbitMQ: found, looked at without a trace but the redelivered flag, listed.

mod browsing;
mod compared;
mod events;
mod foreign;
mod map;
pub(crate) mod queues;
pub(crate) mod shop;
mod sum;
mod untouched;

use std::time::Duration;

use lapin::options::BasicConsumeOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use redrive::internals::ambient::Clock;
use redrive::internals::broker::Look;
use redrive::internals::broker::rabbitmq::RabbitMq;
use redrive::internals::domain::dead_letter::Target;
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::dead::DeadListQuery;
use redrive::internals::engine::query;
use redrive::internals::engine::view::Source;
use redrive::internals::engine::{Engine, EngineError};
use redrive::internals::store::DeadClaim;
use serde_json::json;

use self::shop::{BOUND, Shop, query, text, view};
use crate::engine::stage::{Ground, Stage, sender};
use crate::rabbitmq::raw;
use crate::support::relay::Relay;
use crate::support::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_messages_behind_a_queue_argument_are_listed_and_stay_in_their_place() {
    for ground in [Ground::rabbit_sqlite().await, Ground::rabbit_postgres().await] {
        let shop = Shop::on(ground).await;
        let arguments = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("work.dead")),
        ];
        shop.queue("work.dead", &[]).await;
        shop.queue("work", &arguments).await;
        shop.fill("work", 3).await;
        shop.reject_all("work").await;
        let letters = shop.listed("work.dead", 3).await;
        for (letter, position) in letters.iter().zip(1..) {
            assert_eq!(
                (letter.reason.as_str(), letter.origin.as_deref()),
                ("rejected", Some("work"))
            );
            assert_eq!(
                (letter.position, letter.attempts, letter.redriven),
                (position, Some(1), 0)
            );
            assert!(letter.first_failed_at.is_some() && letter.last_failed_at.is_some());
            assert_eq!((letter.place.as_str(), letter.what.as_str()), ("work", "rejected"));
        }
        let detail = shop.show(&letters[1]).await;
        assert_eq!(detail.message.body, "2");
        assert_eq!(detail.history.deaths.len(), 1);
        let origin = Target::Exchange {
            exchange: String::new(),
            routing_key: "work".to_owned(),
        };
        assert_eq!(detail.target, Ok(origin));
        let groups = shop.groups(None).await;
        assert_eq!((groups.len(), groups[0].count, groups[0].recent), (1, 3, 3));
        assert_eq!(
            shop.list(None, Some("reason = rejected and age < 1h"))
                .await
                .page
                .items
                .len(),
            3
        );
        assert_eq!(
            shop.list(None, Some("origin ~ other or status >= 400"))
                .await
                .page
                .items
                .len(),
            0
        );
        assert_eq!(shop.drain("work.dead").await, ["1", "2", "3"]);
        assert_eq!(shop.listed("work.dead", 0).await, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_and_overflowing_messages_are_found_through_policies_and_exchanges() {
    let shop = Shop::open().await;
    let vhost = shop.stage.ground.rabbit();
    shop.exchange("graves", ExchangeKind::Fanout).await;
    shop.exchange("sorted", ExchangeKind::Topic).await;
    for name in ["expired.dead", "lost.dead", "other.dead", "fan"] {
        shop.queue(name, &[]).await;
    }
    shop.bind("expired.dead", "graves", "").await;
    shop.bind("lost.dead", "sorted", "dead.*").await;
    shop.bind("other.dead", "sorted", "alive.*").await;
    let policy = json!({"pattern": "^fan$", "definition": {"dead-letter-exchange": "graves"}, "apply-to": "queues"});
    vhost
        .manage("PUT", &format!("/api/policies/{}/graves", vhost.name), Some(&policy))
        .await;
    shop.queue(
        "short",
        &[
            ("x-max-length", AMQPValue::LongInt(1)),
            ("x-dead-letter-exchange", text("sorted")),
            ("x-dead-letter-routing-key", text("dead.long")),
        ],
    )
    .await;
    shop.fill("short", 3).await;
    let lost = shop.listed("lost.dead", 2).await;
    assert!(lost.iter().all(|letter| letter.reason == "maxlen"));
    // The policy is in force once an expired message arrives behind it.
    let expiring = BasicProperties::default().with_expiration("1".into());
    wait_until("the policy is in force", BOUND, async || {
        shop.publish("", "fan", expiring.clone(), "late").await;
        let found = shop.list(Some("expired.dead"), None).await.page.items;
        (!found.is_empty()).then_some(found)
    })
    .await;
    let expired = shop
        .list(Some("expired.dead"), Some("reason = expired and origin = fan"))
        .await;
    assert!(!expired.page.items.is_empty());
    let detail = shop.show(&expired.page.items[0]).await;
    assert_eq!(detail.history.deaths[0].original_expiration.as_deref(), Some("1"));
    assert_eq!(
        view(&expired.queues, "other.dead"),
        None,
        "its binding takes no dead letter"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_somebody_consumes_is_named_and_not_looked_at() {
    let shop = Shop::open().await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work")),
    ];
    shop.queue("work", &[]).await;
    shop.queue("retry", &arguments).await;
    let consuming = shop.channel.basic_consume(
        "work".into(),
        "worker".into(),
        lapin::options::BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let _consumer = consuming.await.unwrap();
    // The statistics lag; before they know the consumer there is nothing to look at.
    let queues = wait_until("the consumer is known", BOUND, async || {
        let queues = shop.list(None, None).await.queues;
        view(&queues, "work")?.problem.is_some().then_some(queues)
    })
    .await;
    assert!(
        view(&queues, "work")
            .unwrap()
            .problem
            .as_deref()
            .unwrap()
            .contains("consumers")
    );
}

/// A queue of dead letters with so many of them.
async fn with_dead(count: u32) -> Shop {
    let shop = Shop::open().await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &arguments).await;
    shop.fill("work", count).await;
    shop.reject_all("work").await;
    shop.listed("work.dead", count as usize).await;
    shop
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_has_in_hand_is_told_as_unread_and_never_as_nothing() {
    let shop = with_dead(3).await;
    // As a run does it: it claims the queue, and has messages in hand.
    let (name, store) = (QueueName::parse("work.dead").unwrap(), &shop.stage.store);
    let claimed = store.dead_claim(&name, "run-elsewhere", None, BOUND).await.unwrap();
    assert!(matches!(claimed, DeadClaim::Claimed(_)), "{claimed:?}");
    let options = lapin::options::BasicGetOptions::default();
    for _ in 0..2 {
        shop.channel
            .basic_get("work.dead".into(), options)
            .await
            .unwrap()
            .unwrap();
    }
    let selection = query(Some("work.dead"), None).selection;
    let mut exported = shop.stage.engine.export_dead(selection).unwrap();
    let mut count = 0;
    let unread = loop {
        match exported.recv().await.unwrap() {
            Ok(_) => count += 1,
            Err(unread) => break unread.to_string(),
        }
    };
    assert_eq!(count, 1);
    assert!(
        unread.contains("in hand") && unread.contains("run-elsewhere"),
        "{unread}"
    );
    let impatient = DeadListQuery {
        patience: Duration::from_secs(1),
        ..query(Some("work.dead"), Some("body./x = 1"))
    };
    let found = shop.ask(query::Dead(impatient)).await.unwrap();
    let told: Vec<&str> = found.problems.iter().map(|unread| unread.reason.as_str()).collect();
    assert!(
        found.page.items.is_empty() && told.len() == 1 && told[0].contains("in hand"),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_exports_at_once_the_second_says_that_it_is_not_all() {
    let shop = with_dead(300).await;
    let export = || {
        let selection = query(Some("work.dead"), None).selection;
        shop.stage.engine.export_dead(selection).unwrap()
    };
    // Nobody reads on, so that it holds what it has.
    let mut held = export();
    assert!(held.recv().await.unwrap().is_ok());
    let mut second = export();
    let (mut count, mut end) = (0, None);
    while let Some(exported) = second.recv().await {
        match exported {
            Ok(_) => count += 1,
            Err(unread) => end = Some(unread.to_string()),
        }
    }
    assert!(count < 300, "{count}");
    assert!(end.as_ref().is_some_and(|end| end.contains("in hand")), "{end:?}");
    let mut count = 1;
    while let Some(exported) = held.recv().await {
        exported.unwrap();
        count += 1;
    }
    assert_eq!(count, 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_quorum_queue_is_looked_at_rarely_and_shown_from_copies() {
    let shop = Shop::open().await;
    let quorum = [
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", AMQPValue::LongInt(3)),
    ];
    shop.queue("limited.dead", &quorum).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("limited.dead")),
    ];
    shop.queue("work", &arguments).await;
    shop.fill("work", 2).await;
    shop.reject_all("work").await;
    let letters = shop.listed("limited.dead", 2).await;
    for _ in 0..5 {
        assert_eq!(shop.show(&letters[0]).await.message.body, "1");
        shop.list(Some("limited.dead"), None).await;
    }
    shop.fill("work", 1).await;
    shop.reject_all("work").await;
    let queues = wait_until("the limit is told", BOUND, async || {
        let queues = shop.list(None, None).await.queues;
        (view(&queues, "limited.dead")?.ready == Some(3)).then_some(queues)
    })
    .await;
    let problem = view(&queues, "limited.dead").unwrap().problem.clone();
    assert!(
        problem
            .as_deref()
            .is_some_and(|problem| problem.contains("after 3 returns")),
        "{problem:?}"
    );
    assert_eq!(shop.drain("limited.dead").await.len(), 3, "no look dropped one");
}

/// All letters of a queue as they are exported, and why there are no more than these.
async fn exported(shop: &Shop, queue: &str) -> (Vec<String>, Option<EngineError>) {
    let mut reading = shop
        .stage
        .engine
        .export_dead(query(Some(queue), None).selection)
        .unwrap();
    let mut bodies = Vec::new();
    while let Some(letter) = reading.recv().await {
        match letter {
            Ok((letter, _)) => bodies.push(String::from_utf8(letter.message.body.to_vec()).unwrap()),
            Err(why) => return (bodies, Some(why)),
        }
    }
    (bodies, None)
}

/// Unknown is never zero, whether it is a dead-letter queue or any other, and whoever asks first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_was_never_looked_at_is_looked_at_before_it_is_said_to_have_nothing() {
    let shop = Shop::open().await;
    let limited = [
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", AMQPValue::LongInt(6)),
    ];
    shop.queue("work", &queues::through("", "limited.letters")).await;
    for name in ["limited.letters", "any.limited"] {
        shop.queue(name, &limited).await;
        shop.fill(name, 3).await;
        let export = wait_until("its letters", BOUND, async || {
            let (bodies, why) = exported(&shop, name).await;
            assert!(!bodies.is_empty() || why.is_some(), "{name} is not empty");
            why.is_none().then_some(bodies)
        });
        assert_eq!(export.await, ["1", "2", "3"], "{name}");
    }
    // The third look at it would be one too many.
    wait_until("another queue to be listed", BOUND, async || {
        let listed = shop.ask(query::Dead(query(Some("any.limited"), None))).await;
        (listed.ok()?.page.items.len() == 3).then_some(())
    })
    .await;
    let refused = wait_until("the limit to be told", BOUND, async || {
        let (bodies, why) = exported(&shop, "any.limited").await;
        let why = why.map(|why| why.to_string());
        assert!(!bodies.is_empty() || why.is_some(), "it is not empty");
        why.filter(|why| why.contains("after 6 returns"))
    })
    .await;
    assert!(refused.contains("any.limited"), "{refused}");
    assert_eq!(shop.drain("any.limited").await, ["1", "2", "3"], "no look dropped one");
    assert_eq!(
        shop.drain("limited.letters").await,
        ["1", "2", "3"],
        "no look dropped one"
    );
    shop.queue("consumed", &[]).await;
    shop.fill("consumed", 3).await;
    let consuming = shop.channel.basic_consume(
        "consumed".into(),
        "holder".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let _held = consuming.await.unwrap();
    let (bodies, why) = exported(&shop, "consumed").await;
    assert!(bodies.is_empty() && why.is_some_and(|why| why.to_string().contains("consumer")));
}

/// Letters of a queue that nobody limited come one by one and are looked at as they come. Where the broker limits it by
/// itself (from 4.0 on), looks stop before they cost one; what is taken out makes room for further ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_quorum_queue_shows_each_letter_that_comes_as_far_as_the_broker_allows_for() {
    let shop = Shop::open().await;
    shop.queue("plain.dead", &[("x-queue-type", text("quorum"))]).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("plain.dead")),
    ];
    shop.queue("work", &arguments).await;
    let version = shop.stage.broker.version().await.expect("a broker tells its version");
    let limit = redrive::internals::domain::broker_rules::facts(Some(version)).default_limit;
    let looks = limit.map_or(14, |limit| limit / 2);
    let limit_is_told = async || {
        let queues = shop.list(None, None).await.queues;
        let problem = view(&queues, "plain.dead").and_then(|queue| queue.problem.clone());
        problem.is_some_and(|problem| problem.contains("after 20 returns") && problem.contains("delivery-limit"))
    };
    let (mut came, mut told) = (0, false);
    // A look that finds nothing new counts as well: there may be fewer letters than looks.
    while !told && came < looks + 1 {
        shop.fill("work", 1).await;
        shop.reject_all("work").await;
        came += 1;
        told = wait_until("it is listed, or the limit is told", BOUND, async || {
            let found = shop.list(Some("plain.dead"), None).await.page.items;
            if found.len() as u64 == came {
                return Some(false);
            }
            limit_is_told().await.then_some(true)
        })
        .await;
    }
    assert_eq!(told, limit.is_some(), "after {came} of {looks} looks");
    if limit.is_some() {
        assert!(came > looks / 2, "{came} came before the limit was told");
        assert_eq!(shop.drain("plain.dead").await.len() as u64, came, "no look dropped one");
        shop.fill("work", 1).await;
        shop.reject_all("work").await;
        shop.listed("plain.dead", 1).await;
    } else {
        let queues = shop.list(None, None).await.queues;
        assert_eq!(view(&queues, "plain.dead").unwrap().problem, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_in_one_dead_letter_queue_leaves_the_others_readable() {
    let shop = Shop::open().await;
    let naming = shop.stage.settings.naming.clone();
    for (work, dead) in [("a", "a.dead"), ("b", "b.dead")] {
        let arguments = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(dead)),
        ];
        shop.queue(dead, &[]).await;
        shop.queue(work, &arguments).await;
        shop.fill(work, 2).await;
        shop.reject_all(work).await;
    }
    shop.bind("a.dead", &naming.exchange(), "a.dead").await;
    let poisonous = redrive::internals::domain::id::QueueName::parse("a.dead").unwrap();
    raw::publish(
        &naming,
        &poisonous,
        raw::header_with_content_type(1, b"text/\xff\xfe"),
        b"x",
    )
    .await;
    let queues = wait_until("the poison is told", BOUND, async || {
        let queues = shop.list(None, None).await.queues;
        view(&queues, "a.dead")?.problem.is_some().then_some(queues)
    })
    .await;
    let problem = view(&queues, "a.dead").unwrap().problem.clone().unwrap();
    assert!(problem.contains("cannot be decoded"), "{problem}");
    assert_eq!(shop.listed("b.dead", 2).await.len(), 2);
    assert_eq!(view(&queues, "b.dead").unwrap().problem, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_are_paged_through_without_gaps_and_stay_in_order() {
    const COUNT: u32 = 20_000;
    let shop = Shop::open().await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &arguments).await;
    shop.fill("work.dead", COUNT).await;
    let mut query = query(Some("work.dead"), None);
    let mut positions = Vec::new();
    loop {
        let page = shop.ask(query::Dead(query.clone())).await.unwrap();
        positions.extend(page.page.items.iter().map(|letter| letter.position));
        query.cursor = page.page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(positions, (1..=u64::from(COUNT)).collect::<Vec<_>>());
    let found = shop.list(Some("work.dead"), Some("size >= 5")).await;
    assert_eq!(found.page.items.len(), 1000);
    let bodies = shop.drain("work.dead").await;
    assert!(
        bodies
            .iter()
            .enumerate()
            .all(|(at, body)| *body == (at + 1).to_string())
    );
    assert_eq!(bodies.len(), 20_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_nobody_reads_ends_in_time_gives_its_messages_back_and_says_where_it_ended() {
    let time = Duration::from_secs(2);
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| settings.export_time = time).await;
    let shop = Shop::of(stage).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &arguments).await;
    shop.fill("work.dead", 300).await;
    let mut exported = shop
        .stage
        .engine
        .export_dead(query(Some("work.dead"), None).selection)
        .unwrap();
    let first = exported.recv().await.unwrap().unwrap();
    assert_eq!(first.0.message.body, "1");
    // Nobody reads on.
    let queue = QueueName::parse("work.dead").unwrap();
    wait_until("the messages to be back", BOUND, async || {
        let look = shop.stage.broker.look(&queue).await.ok()?;
        matches!(look, Look::Present { ready: 300, .. }).then_some(())
    })
    .await;
    let mut bodies = vec![first.0.message.body];
    let ended = loop {
        match exported.recv().await.unwrap() {
            Ok((detail, _)) => bodies.push(detail.message.body),
            Err(error) => break error,
        }
    };
    let expected: Vec<String> = (1..=bodies.len()).map(|number| number.to_string()).collect();
    assert_eq!(bodies, expected);
    assert!(bodies.len() < 300, "{}", bodies.len());
    assert_eq!(
        ended.to_string(),
        "queue work.dead could not be read: an export takes 2 s at most and this one ended here: export less at once, \
         by queue, group or filter"
    );
    assert!(exported.recv().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_in_messages_that_runs_out_of_time_is_refused_and_shows_no_part_as_if_it_were_all() {
    let stage = Stage::quiet(Ground::rabbit_sqlite().await, |settings| {
        settings.export_time = Duration::ZERO;
    })
    .await;
    let shop = Shop::of(stage).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &arguments).await;
    shop.fill("work.dead", 3).await;
    shop.listed("work.dead", 3).await;
    let search = query(None, Some("header.tenant = \"t1\""));
    let refused = shop.ask(query::Dead(search)).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Invalid { field, message } if field == "filter" && message.contains("one queue")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_messages_have_ids_of_their_own_and_export_gives_every_body() {
    let shop = Shop::open().await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work.dead", &[]).await;
    shop.queue("work", &arguments).await;
    for body in ["same", "same", "other"] {
        shop.publish("", "work.dead", BasicProperties::default(), body).await;
    }
    let letters = shop.listed("work.dead", 3).await;
    assert_ne!(letters[0].id, letters[1].id);
    assert_eq!(shop.show(&letters[1]).await.message.body, "same");
    let mut exported = shop.stage.engine.export_dead(query(None, None).selection).unwrap();
    let mut bodies = Vec::new();
    while let Some(detail) = exported.recv().await {
        bodies.push(detail.unwrap().0.message.body);
    }
    assert_eq!(bodies, ["same", "same", "other"]);
    let unknown = query::OneDeadLetter {
        id: "0".repeat(32),
        patience: BOUND,
    };
    assert!(matches!(shop.ask(unknown).await, Err(EngineError::NotFound { .. })));
    let mut wrong = query(None, Some("colour = red"));
    assert!(matches!(
        shop.ask(query::Dead(wrong.clone())).await,
        Err(EngineError::Invalid { .. })
    ));
    wrong.selection.filter = None;
    wrong.cursor = Some("x".to_owned());
    assert!(matches!(
        shop.ask(query::Dead(wrong)).await,
        Err(EngineError::Invalid { .. })
    ));
}

/// Nobody can say then which queues there are: what was seen of them is listed still, and is not forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_others_stay_listed_while_the_management_api_is_away_and_the_answer_says_what_it_lacks() {
    let shop = Shop::open().await;
    for name in ["a", "b"] {
        let key = format!("{name}.dead");
        shop.queue(&key, &[]).await;
        let arguments = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&key)),
        ];
        shop.queue(name, &arguments).await;
        shop.fill(name, 2).await;
        shop.reject_all(name).await;
        shop.listed(&key, 2).await;
    }
    wait_until("both to be among the dead-letter queues", BOUND, async || {
        (shop.list(None, None).await.page.items.len() == 4).then_some(())
    })
    .await;
    let stage = &shop.stage;
    let mut rabbit = stage.ground.place().rabbit_settings(&stage.settings.naming).unwrap();
    let relay = Relay::to(rabbit.management_url.as_deref().unwrap()).await;
    rabbit.management_url = Some(relay.through(rabbit.management_url.as_deref().unwrap()));
    relay.reset();
    let engine = Engine::new(
        stage.store.clone(),
        RabbitMq::connect(rabbit, Clock::system()).unwrap(),
        sender(&stage.settings),
        stage.settings.clone(),
        Clock::system(),
    );
    let page = engine.query(query::Dead(query(None, None))).await.unwrap();
    assert_eq!(page.page.items.len(), 4, "{:?}", page.queues);
    assert_eq!(page.problems.len(), 1, "{:?}", page.problems);
    assert_eq!(page.problems[0].source, Source::Management);
    let hidden = view(&page.queues, "a.dead").expect("its queue");
    assert!(
        hidden.problem.as_deref().is_some_and(|why| why.contains("looked for")),
        "{hidden:?}"
    );
    relay.heal();
    engine.close().await;
    let page = shop.list(None, None).await;
    assert_eq!((page.page.items.len(), page.problems), (4, Vec::new()));
}
