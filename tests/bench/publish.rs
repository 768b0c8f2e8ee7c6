//! Notifications over HTTP, each confirmed by the broker before its answer: the daemon against a service that only publishes.
//!
//! 64 clients with a connection each send one after the other, each to an execution of its own. The service (`publisher`
//! below) is what a team writes first: axum takes the JSON, lapin publishes the body with its id on one channel in confirm
//! mode, and 202 goes out after the confirm; its queues are there already. The daemon makes its queues itself, before the
//! time is taken, and delivers nothing, because the endpoint is disabled. The sides take turns; the time is from the first
//! request to the last answer.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::ground::{BODY_BYTES, Ground};
use crate::numbers::{Spread, aside, rounds, row};
use crate::process::Side;
use crate::program::{Backing, Program};
use crate::support::servers::{Database, variable};

const CLIENTS: usize = 64;
const PER_CLIENT: usize = 300;
const URL: &str = "http://127.0.0.1:9/hook";

pub async fn run() {
    let (mut services, mut daemons) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..rounds() {
        services.push(service().await);
        for (at, is_postgres) in [false, true].into_iter().enumerate() {
            daemons[at].push(daemon(is_postgres).await);
        }
        aside(&format!(
            "publish, round {round}: service {:.0}/s, daemon {:.0}/s (SQLite), {:.0}/s (PostgreSQL)",
            services[round], daemons[0][round], daemons[1][round]
        ));
    }
    for (name, rates) in ["SQLite", "PostgreSQL"].iter().zip(&daemons) {
        row(
            &format!("publish over HTTP, confirmed, {CLIENTS} clients, {name}: of an axum service that only publishes"),
            &format!(
                "{}; {:.0}/s of {:.0}/s",
                Spread::of_ratios(rates, &services),
                Spread::of(rates).median,
                Spread::of(&services).median
            ),
            "0.90",
        );
    }
}

/// The service, over queues that are there.
async fn service() -> f64 {
    let ground = Ground::prepare().await;
    let queues = ground.queues(CLIENTS, |_| URL.to_owned());
    ground.create(&queues, &[]).await;
    let mut side = Side::start(
        "publisher",
        &[ground.vhost.amqp(), ground.naming.exchange().as_str().to_owned()],
    );
    for queue in &queues {
        side.tell(&format!("{} {}", queue.execution.as_str(), queue.name.as_str()))
            .await;
    }
    side.tell("go").await;
    let base = format!("http://127.0.0.1:{}", side.line().await);
    publish(&base, "", 5).await;
    let rate = publish(&base, "", PER_CLIENT).await;
    side.finish().await;
    rate
}

async fn daemon(is_postgres: bool) -> f64 {
    let ground = Ground::prepare().await;
    let database = if is_postgres {
        Some(Database::create().await)
    } else {
        None
    };
    let backing = Backing {
        store: database.as_ref().map(Database::url),
        broker: ground.vhost.amqp(),
        management: variable("REDRIVE_TEST_MANAGEMENT"),
    };
    let program = Program::backed(&backing).await;
    publish(program.api(), program.token(), 1).await;
    program.disable(URL).await;
    publish(program.api(), program.token(), 5).await;
    publish(program.api(), program.token(), PER_CLIENT).await
}

/// Each client publishes `count`; accepted a second.
async fn publish(base: &str, token: &str, count: usize) -> f64 {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for number in 0..CLIENTS {
        let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector.clone());
        let body = "x".repeat(BODY_BYTES);
        let document = json!({"execution_id": execution(number), "url": URL, "body": body}).to_string();
        let (target, token) = (format!("{base}/v1/notifications"), format!("Bearer {token}"));
        clients.spawn(async move {
            for _ in 0..count {
                let request = Request::post(&target)
                    .header("content-type", "application/json")
                    .header("authorization", &token)
                    .body(Full::new(Bytes::from(document.clone())))
                    .unwrap();
                let answer = client.request(request).await.unwrap();
                assert_eq!(answer.status(), 202);
                answer.into_body().collect().await.unwrap();
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    (CLIENTS * count) as f64 / began.elapsed().as_secs_f64()
}

/// As [`Ground::queues`] names them.
fn execution(client: usize) -> String {
    format!("run-{client}")
}

#[derive(Deserialize)]
struct Notification {
    execution_id: String,
    #[expect(dead_code, reason = "read as the daemon reads it")]
    url: String,
    body: String,
}

struct Service {
    channel: Channel,
    exchange: String,
    queues: std::collections::HashMap<String, String>,
}

/// The service. Arguments: the virtual host's URL and the exchange. Input: a line `EXECUTION QUEUE` for each queue, then
/// `go`; says its port.
pub async fn run_side(arguments: &[String]) {
    let [amqp, exchange] = arguments else {
        panic!("amqp and exchange")
    };
    let mut input = crate::process::input();
    let mut queues = std::collections::HashMap::new();
    while let Some(line) = input.recv().await.filter(|line| line != "go") {
        let (execution, queue) = line.split_once(' ').unwrap();
        queues.insert(execution.to_owned(), queue.to_owned());
    }
    let connection = Connection::connect(amqp, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let service = Arc::new(Service {
        channel,
        exchange: exchange.clone(),
        queues,
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let app = Router::new()
        .route("/v1/notifications", post(accept))
        .with_state(service);
    let served = axum::serve(listener, app);
    tokio::select! {
        ended = served => ended.unwrap(),
        _ = input.recv() => {}
    }
}

async fn accept(
    State(service): State<Arc<Service>>,
    Json(one): Json<Notification>,
) -> (StatusCode, Json<serde_json::Value>) {
    let id = redrive::internals::ambient::new_id();
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(id.as_str().into());
    let sent = service.channel.basic_publish(
        service.exchange.as_str().into(),
        service.queues[&one.execution_id].as_str().into(),
        BasicPublishOptions::default(),
        one.body.as_bytes(),
        properties,
    );
    assert!(sent.await.unwrap().await.unwrap().is_ack());
    (StatusCode::ACCEPTED, Json(json!({"id": id})))
}
