//! Dead letters side by side.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use redrive::internals::engine::EngineError;
use redrive::internals::engine::dead::{Comparison, DeadCompareQuery, DeadComparison, DeadSelection};
use redrive::internals::engine::query;

use super::shop::{BOUND, Shop, text};
use crate::engine::stage::Ground;

async fn refused(shop: &Shop, bodies: &[&str]) {
    shop.queue("work.dead", &[]).await;
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("work.dead")),
    ];
    shop.queue("work", &arguments).await;
    for (number, body) in bodies.iter().enumerate() {
        let mut headers = FieldTable::default();
        headers.insert("tenant".into(), text("t1"));
        headers.insert("number".into(), AMQPValue::LongInt(i32::try_from(number).unwrap()));
        let properties = BasicProperties::default().with_headers(headers).with_delivery_mode(2);
        shop.publish("", "work", properties, body).await;
    }
    shop.reject_all("work").await;
}

async fn compared(shop: &Shop, query: DeadCompareQuery) -> Result<DeadComparison, EngineError> {
    let query = DeadCompareQuery {
        patience: BOUND,
        ..query
    };
    shop.ask(query::CompareDead(query)).await
}

/// The values at a place with how many have each; `None` instead of a number: it is hidden.
fn at(comparison: &Comparison, place: &str) -> (Option<u64>, Vec<(String, u64)>) {
    let found = comparison.places.iter().find(|found| found.place == place);
    let found = found.unwrap_or_else(|| panic!("no {place} in {comparison:#?}"));
    let values = found
        .values
        .iter()
        .map(|shared| (shared.value.clone().unwrap_or_default(), shared.messages));
    (found.different, values.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_alike_in_dead_letters_is_told_and_they_stay_in_their_place() {
    for ground in [Ground::rabbit_sqlite().await, Ground::rabbit_postgres().await] {
        let shop = Shop::on(ground).await;
        let bodies = [
            r#"{"order":1,"currency":"XXX","password":"one"}"#,
            r#"{"order":2,"currency":"XXX","password":"two"}"#,
            r#"{"order":3,"currency":"EUR","password":"two"}"#,
        ];
        refused(&shop, &bodies).await;
        let letters = shop.listed("work.dead", 3).await;
        let group = letters[0].fingerprint.clone();
        let of_group = |limit| DeadCompareQuery {
            selection: DeadSelection {
                group: Some(group.clone()),
                ..DeadSelection::default()
            },
            limit,
            ..DeadCompareQuery::default()
        };
        let found = compared(&shop, of_group(10)).await.unwrap();
        let ids: Vec<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
        assert_eq!(
            (found.letters.iter().map(String::as_str).collect::<Vec<_>>(), found.more),
            (ids, false)
        );
        let values = |values: &[(&str, u64)]| {
            values
                .iter()
                .map(|(value, count)| ((*value).to_owned(), *count))
                .collect()
        };
        let currency = (Some(2), values(&[("\"XXX\"", 2), ("\"EUR\"", 1)]));
        assert_eq!(at(&found.comparison, "body /currency"), currency);
        assert_eq!(at(&found.comparison, "header tenant"), (Some(1), values(&[("t1", 3)])));
        assert_eq!(at(&found.comparison, "reason"), (Some(1), values(&[("rejected", 3)])));
        assert_eq!(
            at(&found.comparison, "goes back to"),
            (Some(1), values(&[("queue work", 3)]))
        );
        assert_eq!(at(&found.comparison, "header number").0, Some(3));
        assert_eq!(
            at(&found.comparison, "body /password"),
            (None, values(&[("\"***\"", 3)]))
        );
        let first = compared(&shop, of_group(2)).await.unwrap();
        assert_eq!((first.letters.len(), first.more), (2, true));
        let ids = letters[1..]
            .iter()
            .map(|letter| letter.id.as_str().to_owned())
            .collect();
        let two = compared(
            &shop,
            DeadCompareQuery {
                ids,
                ..DeadCompareQuery::default()
            },
        )
        .await
        .unwrap();
        let differ: Vec<&str> = two.comparison.different().map(|place| place.place.as_str()).collect();
        assert_eq!(differ, ["header number", "body /currency", "body /order"]);
        assert_eq!(at(&two.comparison, "body /order").1, values(&[("2", 1), ("3", 1)]));
        assert_eq!(shop.drain("work.dead").await, bodies);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_compared_is_said() {
    let shop = Shop::open().await;
    refused(&shop, &["a", "b"]).await;
    let letters = shop.listed("work.dead", 2).await;
    let one = letters[0].id.as_str().to_owned();
    let nobody = "0".repeat(32);
    for (ids, says) in [
        (vec![one.clone()], "2 to 20 ids"),
        (vec![one.clone(), one.clone()], "named twice"),
        (vec![one; 21], "2 to 20 ids"),
        (vec![letters[1].id.as_str().to_owned(), nobody], "0000"),
    ] {
        let error = compared(
            &shop,
            DeadCompareQuery {
                ids,
                ..DeadCompareQuery::default()
            },
        )
        .await
        .unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let nothing = DeadCompareQuery {
        selection: DeadSelection {
            filter: Some("reason = none".to_owned()),
            ..DeadSelection::default()
        },
        limit: 10,
        ..DeadCompareQuery::default()
    };
    let found = compared(&shop, nothing).await.unwrap();
    assert_eq!((found.letters.len(), found.more), (0, false));
    let at_once = DeadCompareQuery {
        limit: 10,
        ..DeadCompareQuery::default()
    };
    let error = shop.ask(query::CompareDead(at_once)).await.unwrap_err();
    assert!(matches!(error, EngineError::Unread(_)), "nothing came in time: {error}");
}
