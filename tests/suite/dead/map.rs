//! The way of dead letters from a queue on: what brings messages into it, and where those go that die in it.

use lapin::ExchangeKind;
use redrive::internals::domain::id::QueueName;
use redrive::internals::engine::dead::QueueStep;
use redrive::internals::engine::{EngineError, query};
use serde_json::json;

use super::queues::{foreign, shop_with_letters, through};
use super::shop::{BOUND, Shop};
use crate::support::daemon::Installation;
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

impl Shop {
    async fn map(&self, queue: &str) -> Result<Vec<QueueStep>, EngineError> {
        self.ask(query::QueueMap(QueueName::parse(queue).unwrap())).await
    }
}

fn names(steps: &[QueueStep]) -> Vec<&str> {
    steps.iter().map(|step| step.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_of_dead_letters_is_told_queue_by_queue_to_its_end() {
    let shop = shop_with_letters().await;
    shop.exchange("events", ExchangeKind::Topic).await;
    shop.bind("orders", "events", "order.#").await;
    let steps = wait_until("the broker to list the letters", BOUND, async || {
        let steps = shop.map("orders").await.unwrap();
        (steps[1].ready == Some(3) && steps[1].consumers.is_some()).then_some(steps)
    })
    .await;
    assert_eq!(names(&steps), ["orders", "orders.dead"]);
    assert_eq!(steps[0].comes_by(), "events (key \"order.#\")");
    assert_eq!(steps[0].dead_letters(), "graves (key \"orders.new\") to orders.dead");
    assert_eq!(steps[1].dead_letters(), "nowhere: what dies in it is gone");
    assert_eq!(steps[1].holds(), "3 ready, 0 in flight, nobody consumes it");
    assert!(steps.iter().all(|step| !step.loses()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_that_loses_letters_says_so_and_one_that_goes_in_a_circle_ends() {
    let shop = Shop::open().await;
    shop.exchange("graves", ExchangeKind::Topic).await;
    shop.queue("lost", &through("graves", "mails.new")).await;
    shop.queue("nowhere", &through("", "nobody")).await;
    shop.queue("once", &through("", "again")).await;
    shop.queue("again", &through("", "once")).await;

    let lost = shop.map("lost").await.unwrap();
    assert_eq!(names(&lost), ["lost"]);
    assert!(
        lost[0].loses() && lost[0].dead_letters().contains("they are gone"),
        "{lost:?}"
    );
    let nowhere = shop.map("nowhere").await.unwrap();
    assert_eq!(names(&nowhere), ["nowhere", "nobody"]);
    assert!(
        nowhere[1].loses() && nowhere[1].holds().contains("no such queue"),
        "{nowhere:?}"
    );
    assert_eq!(names(&shop.map("once").await.unwrap()), ["once", "again"]);
    let error = shop.map("never-declared").await.unwrap_err();
    assert!(matches!(error, EngineError::NotFound { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_and_the_route_tell_the_way() {
    let vhost = foreign().await;
    let installation = Installation::on_rabbit(&vhost);
    let table = installation.run(&["queue", "map", "orders"]).await.expect_code(0);
    let text = table.stdout;
    assert!(
        text.contains("orders.dead") && text.contains("graves (key \"o\") to orders.dead"),
        "{text}"
    );
    let steps = installation
        .run(&["queue", "map", "orders", "--json"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(steps[0]["dies_to"]["queues"], json!(["orders.dead"]), "{steps}");
    assert_eq!(
        (&steps[1]["name"], &steps[1]["dies_to"]),
        (&json!("orders.dead"), &json!(null))
    );
    installation
        .run(&["queue", "map", "never-declared"])
        .await
        .expect_code(4);

    let daemon = installation.daemon().await;
    let answer = daemon.get("/v1/queues/orders/map").await.json();
    let there = answer["items"][0]["dies_to"].clone();
    assert_eq!(there, steps[0]["dies_to"], "{answer}");
    assert!(answer["taken_at"].is_string());
    assert_eq!(daemon.get("/v1/queues/never-declared/map").await.status, 404);
}

/// The embedded broker knows no dead-letter exchange; redrive itself moves what dies.
#[tokio::test(flavor = "multi_thread")]
async fn what_dies_of_a_delivery_queue_goes_to_the_dead_letters_of_redrive_on_either_broker() {
    let embedded = Installation::embedded();
    let vhost = Vhost::create().await;
    let rabbit = Installation::on_rabbit(&vhost);
    for installation in [embedded, rabbit] {
        let _daemon = installation.daemon().await;
        let line = ["publish", "--execution", "a", "--url", "http://127.0.0.1:9/", "--json"];
        let published = installation.run(&line).await.expect_code(0).json();
        let queue = published["queue"].as_str().unwrap();
        let steps = installation
            .run(&["queue", "map", queue, "--json"])
            .await
            .expect_code(0)
            .json();
        assert_eq!(steps[0]["dies_to"]["queues"], json!(["redrive.dead"]), "{steps}");
        assert_eq!(steps[1]["name"], "redrive.dead", "{steps}");
    }
}
