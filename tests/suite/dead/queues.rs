//! The queues that dead letters are in: of what kind, how many, since when, and where they come from.

use lapin::ExchangeKind;
use lapin::types::AMQPValue;
use redrive::internals::domain::dead_letter::DeadQueueKind;
use redrive::internals::engine::dead::{DeadPage, DeadQueueRow, DeadQueuesQuery};
use redrive::internals::engine::runs::{Order, OrderKind, Selection};
use redrive::internals::engine::{Command, query};
use serde_json::{Value, json};

use super::shop::{BOUND, Shop, text};
use crate::support::daemon::{Installation, Outcome};
use crate::support::servers::Vhost;
use crate::support::wait::wait_until;

impl Shop {
    async fn dead_queues(&self, filter: Option<&str>, sort: Option<&str>) -> DeadPage<DeadQueueRow> {
        let query = DeadQueuesQuery {
            filter: filter.map(str::to_owned),
            sort: sort.map(str::to_owned),
            limit: 100,
            cursor: None,
            patience: BOUND,
        };
        self.ask(query::DeadQueues(query)).await.unwrap()
    }
}

fn names(page: &DeadPage<DeadQueueRow>) -> Vec<&str> {
    page.page.items.iter().map(|row| row.queue.name.as_str()).collect()
}

/// The queues that a row's letters come from: name, exchange, whether that is certain, and how many of them were seen.
fn feeders(row: &DeadQueueRow) -> Vec<(&str, Option<&str>, bool, u64)> {
    let of = row.fed_by.iter();
    of.map(|from| {
        (
            from.queue.as_str(),
            from.exchange.as_deref(),
            from.is_certain,
            from.letters,
        )
    })
    .collect()
}

/// The arguments of a queue whose dead letters go through this exchange with this key.
pub(super) fn through(exchange: &str, key: &str) -> [(&'static str, AMQPValue); 2] {
    [
        ("x-dead-letter-exchange", text(exchange)),
        ("x-dead-letter-routing-key", text(key)),
    ]
}

/// Letters of two queues, one of them behind an exchange that another one uses too, and of an application.
pub(super) async fn shop_with_letters() -> Shop {
    let shop = Shop::open().await;
    shop.exchange("graves", ExchangeKind::Topic).await;
    for name in ["orders.dead", "mails.dead", "billing_error"] {
        shop.queue(name, &[]).await;
    }
    shop.bind("orders.dead", "graves", "orders.#").await;
    shop.queue("orders", &through("graves", "orders.new")).await;
    shop.queue("returns", &through("graves", "orders.back")).await;
    let full = [
        &through("", "mails.dead")[..],
        &[("x-max-length", AMQPValue::LongInt(1))],
    ]
    .concat();
    shop.queue("mails", &full).await;
    shop.fill("orders", 3).await;
    shop.reject_all("orders").await;
    shop.fill("mails", 2).await;
    shop.fill("billing_error", 1).await;
    shop
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_queue_says_how_many_letters_it_has_since_when_and_which_queues_they_come_from() {
    let shop = shop_with_letters().await;
    let page = wait_until("all dead letters are seen", BOUND, async || {
        let page = shop.dead_queues(Some("letters > 0"), None).await;
        let seen: u64 = page.page.items.iter().filter_map(|row| row.queue.messages).sum();
        (seen == 5).then_some(page)
    })
    .await;
    assert_eq!(
        names(&page),
        ["orders.dead", "billing_error", "mails.dead"],
        "most letters first"
    );
    let [orders, billing, mails] = &page.page.items[..] else {
        panic!("three have some")
    };
    let kinds = [orders, billing, mails].map(|row| row.queue.kind.unwrap());
    assert_eq!(
        kinds,
        [
            DeadQueueKind::DeadLetter,
            DeadQueueKind::Error,
            DeadQueueKind::DeadLetter
        ]
    );
    assert_eq!(
        [orders, billing, mails].map(|row| row.queue.letters()),
        [Some(3), Some(1), Some(1)]
    );
    let graves = Some("graves");
    assert_eq!(
        feeders(orders),
        [("orders", graves, true, 3), ("returns", graves, true, 0)]
    );
    assert_eq!(feeders(mails), [("mails", Some(""), true, 1)]);
    assert_eq!(
        feeders(billing),
        [],
        "an application published it, and nothing in it says where it failed"
    );
    assert!(orders.first_failed_at.is_some() && orders.first_failed_at <= orders.last_failed_at);
    assert!(page.problems.is_empty() && page.as_of.is_some());

    let found = shop
        .dead_queues(Some("fed_by ~ returns and kind = dead_letter"), None)
        .await;
    assert_eq!(names(&found), ["orders.dead"]);
    let found = shop.dead_queues(Some("letters > 0"), Some("name")).await;
    assert_eq!(names(&found), ["billing_error", "mails.dead", "orders.dead"]);
    let own = shop.dead_queues(Some("kind = own"), None).await;
    assert_eq!(own.page.items.len(), 1, "our own is one of them, and empty: {own:?}");
    assert_eq!(own.page.items[0].queue.letters(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letter_queues_beyond_the_number_that_is_looked_at_are_said_and_can_be_named() {
    let shop = Shop::open().await;
    for number in 0..520 {
        shop.queue(&format!("shop{number}_error"), &[]).await;
    }
    let said = |page: &DeadPage<DeadQueueRow>| {
        let reasons = page.problems.iter().map(|problem| problem.reason.clone());
        reasons.collect::<Vec<_>>().join("\n")
    };
    // With our own there are 521.
    let beyond = "21 more dead-letter queues are not looked at";
    let page = wait_until("all queues are listed", BOUND, async || {
        let page = shop.dead_queues(None, None).await;
        said(&page).contains(beyond).then_some(page)
    })
    .await;
    assert_eq!((page.queues.len(), page.problems.len()), (500, 1), "{}", said(&page));
    assert!(page.queues.iter().any(|queue| queue.kind == Some(DeadQueueKind::Own)));
    let again = shop.dead_queues(None, None).await;
    assert!(
        said(&again).contains(beyond),
        "what is known still lacks them: {}",
        said(&again)
    );

    let is_looked_at = |name: &str| page.queues.iter().any(|queue| queue.name.as_str() == name);
    let mut all = (0..520).map(|number| format!("shop{number}_error"));
    let left_out = all.find(|name| !is_looked_at(name)).unwrap();
    shop.fill(&left_out, 2).await;
    let named = shop.list(Some(&left_out), None).await;
    assert_eq!(named.page.items.len(), 2, "a queue that is named is looked at");

    let fullest = wait_until("the statistics count them", BOUND, async || {
        let page = shop.dead_queues(Some("letters > 0"), None).await;
        (page.page.items.len() == 1).then_some(page)
    })
    .await;
    assert_eq!(
        names(&fullest),
        [left_out.as_str()],
        "those with the most messages are looked at"
    );
    let order = Order::new(OrderKind::Redrive, Selection::All);
    let plan = shop.stage.engine.plan(Command::Run(order)).await.unwrap();
    let warned = plan.warnings.join("\n");
    assert!(warned.contains("more dead-letter queues are not looked at"), "{warned}");
}

/// Both get the whole message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_says_which_letters_an_exchange_put_into_several_queues() {
    let shop = Shop::open().await;
    shop.exchange("graves", ExchangeKind::Fanout).await;
    for name in ["audit.dead", "orders.dead", "other.dead"] {
        shop.queue(name, &[]).await;
    }
    for name in ["audit.dead", "orders.dead"] {
        shop.bind(name, "graves", "").await;
    }
    shop.queue("orders", &through("graves", "dead")).await;
    shop.queue("other", &through("", "other.dead")).await;
    for name in ["orders", "other"] {
        shop.fill(name, 2).await;
        shop.reject_all(name).await;
    }
    for name in ["audit.dead", "orders.dead", "other.dead"] {
        shop.listed(name, 2).await;
    }
    let warned = async |selection| {
        let order = Order::new(OrderKind::Redrive, selection);
        let plan = shop.stage.engine.plan(Command::Run(order)).await.unwrap();
        (plan.messages, plan.warnings.join("\n"))
    };
    let (messages, said) = warned(Selection::All).await;
    assert_eq!(messages, Some(6));
    assert!(
        said.contains("2 messages are in queue audit.dead and in orders.dead too"),
        "{said}"
    );
    let (messages, said) = warned(Selection::Filter("queue = \"orders.dead\"".to_owned())).await;
    assert_eq!(messages, Some(2));
    assert!(!said.contains("audit.dead"), "{said}");
}

/// Two queues of others on a vhost that redrive never used, with a letter or two in each.
pub(crate) async fn foreign() -> Vhost {
    let vhost = Vhost::create().await;
    let put = async |path: &str, body: Value| {
        let (kind, name) = path.split_once('/').unwrap();
        vhost
            .manage("PUT", &format!("/api/{kind}/{}/{name}", vhost.name), Some(&body))
            .await;
    };
    put("exchanges/graves", json!({"type": "direct", "durable": true})).await;
    put("queues/orders.dead", json!({"durable": true})).await;
    put("queues/billing_error", json!({"durable": true})).await;
    let arguments = json!({"x-message-ttl": 1, "x-dead-letter-exchange": "graves", "x-dead-letter-routing-key": "o"});
    put("queues/orders", json!({"durable": true, "arguments": arguments})).await;
    let post = async |path: &str, body: Value| {
        vhost.manage("POST", path, Some(&body)).await;
    };
    let binding = format!("/api/bindings/{}/e/graves/q/orders.dead", vhost.name);
    post(&binding, json!({"routing_key": "o"})).await;
    for queue in ["orders", "orders", "billing_error"] {
        let message = json!({"routing_key": queue, "payload": "x", "payload_encoding": "string", "properties": {}});
        post(&format!("/api/exchanges/{}/amq.default/publish", vhost.name), message).await;
    }
    vhost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_asks_right_after_a_change_shows_it() {
    let (vhost, configured) = (foreign().await, Vhost::create().await);
    let mut installation = Installation::on_rabbit(&configured);
    installation.set_environment("REDRIVE_MANAGEMENT_URL", &vhost.node.management);
    let broker = vhost.amqp();
    let letters = async || -> usize {
        let arguments = [
            "dead",
            "list",
            "--queue",
            "billing_error",
            "--json",
            "--broker",
            &broker,
        ];
        let listed = installation.run(&arguments).await.expect_code(0).json();
        listed.as_array().unwrap().len()
    };
    wait_until("the first letter is listed", BOUND, async || {
        (letters().await == 1).then_some(())
    })
    .await;
    let publish = format!("/api/exchanges/{}/amq.default/publish", vhost.name);
    let message =
        json!({"routing_key": "billing_error", "payload": "y", "payload_encoding": "string", "properties": {}});
    // Each comes less than two seconds after a look that did not see it yet.
    for expected in 2..=4 {
        vhost.manage("POST", &publish, Some(&message)).await;
        assert_eq!(letters().await, expected);
    }
}

/// What was declared on a vhost, whatever is in it.
async fn declared(vhost: &Vhost) -> Vec<String> {
    let mut all = Vec::new();
    for kind in ["queues", "exchanges", "bindings", "policies"] {
        let found = vhost
            .manage("GET", &format!("/api/{kind}/{}", vhost.name), None)
            .await
            .json();
        let names = found.as_array().unwrap().iter();
        all.extend(names.map(|one| {
            let said = ["name", "source", "destination", "routing_key"].map(|key| one[key].to_string());
            format!("{kind} {}", said.join(" "))
        }));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_a_broker_that_is_typed_are_shown_and_nothing_is_declared_on_it() {
    let (vhost, configured) = (foreign().await, Vhost::create().await);
    let before = declared(&vhost).await;
    let mut installation = Installation::on_rabbit(&configured);
    installation.set_environment("REDRIVE_MANAGEMENT_URL", &vhost.node.management);
    let broker = vhost.amqp();
    let queues = async |more: &[&str]| -> Outcome {
        let arguments = [&["dead", "queues", "--broker", &broker], more].concat();
        installation.run(&arguments).await.expect_code(0)
    };
    let listed = wait_until("both letters expired", BOUND, async || {
        let outcome = queues(&["--json"]).await;
        (outcome.json()[0]["letters"] == 2 && outcome.json()[0]["messages"] == 2).then_some(outcome)
    })
    .await;
    let rows = listed.json();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(
        (&rows[0]["name"], &rows[0]["kind"]),
        (&json!("orders.dead"), &json!("dead_letter"))
    );
    let feeder = json!({"queue": "orders", "exchange": "graves", "routing_key": "o", "certain": true, "letters": 2});
    assert_eq!(rows[0]["fed_by"], json!([feeder]));
    assert!(
        rows[0]["first_failed_at"].is_string() && rows[0]["looked_at"].is_string(),
        "{rows}"
    );
    assert_eq!(
        (&rows[1]["name"], &rows[1]["kind"]),
        (&json!("billing_error"), &json!("error"))
    );
    let table = queues(&["--filter", "kind = dead_letter"]).await;
    assert!(
        table.stdout.contains("orders via graves") && !table.stdout.contains("billing"),
        "{table:?}"
    );
    for outcome in [&listed, &table] {
        let said = outcome.stderr.matches("looked without declaring anything").count();
        assert_eq!(said, 1, "{outcome:?}");
    }
    assert_eq!(declared(&vhost).await, before);
    installation
        .run(&["dead", "queues", "--sort", "size"])
        .await
        .expect_code(2);

    let daemon = Installation::on_rabbit(&vhost).daemon().await;
    let answer = daemon.get("/v1/dead/queues?sort=-letters&limit=1").await;
    let page = answer.json();
    assert_eq!(answer.status, 200, "{page}");
    assert_eq!(
        (&page["items"][0]["name"], &page["items"][0]["letters"]),
        (&json!("orders.dead"), &json!(2))
    );
    assert_eq!(
        (&page["total"]["letters"], page["items"].as_array().unwrap().len()),
        (&json!(3), 1)
    );
    assert!(
        page["taken_at"].is_string() && page["next_cursor"].is_string(),
        "{page}"
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = daemon
        .get(&format!("/v1/dead/queues?sort=-letters&limit=1&cursor={cursor}"))
        .await;
    assert_eq!(next.json()["items"][0]["name"], "billing_error");
}
