//! Unknown is never zero: each source is cut in turn, and every route, command and metric that there is, as the
//! registries name them, says what it could not read. A new one has to say what it is answered from.

mod commands;
mod numbers;
mod parts;
mod routes;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, Installation};
use crate::support::management::{Gate, Lie};
use crate::support::relay::Relay;
use crate::support::servers::{Database, Vhost};
use crate::support::wait::wait_until;

const BOUND: Duration = Duration::from_mins(1);
/// Nothing listens there: what is sent there waits.
const DEAD_URL: &str = "http://127.0.0.1:9/hook";
const TYPE: &str = "hr-import";

/// What is cut, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Broker,
    Management(Lie),
    Store,
}

impl Cut {
    const fn source(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Management(_) => "management",
            Self::Store => "store",
        }
    }
}

/// An installation whose ways to all three can be cut, with something in each of them.
struct Site {
    installation: Installation,
    daemon: Daemon,
    broker: Relay,
    management: Gate,
    store: Relay,
    _vhost: Vhost,
    _database: Database,
    /// A delivery queue with a message in it.
    queue: String,
}

impl Site {
    async fn open() -> Self {
        let (vhost, database) = (Vhost::create().await, Database::create().await);
        let broker = Relay::to(&vhost.node.amqp).await;
        let management = Gate::to(&vhost.node.management).await;
        let store = Relay::to(&database.url()).await;
        let mut installation = Installation::on_servers(&vhost, &store.through(&database.url()));
        installation.set("broker", "url", broker.through(&vhost.node.amqp));
        installation.set("broker", "management_url", management.through(&vhost.node.management));
        let policy = json!({"retries_with_no_delay": 0, "minimum_delay": 600, "maximum_delay": 600});
        installation.set("delivery", "retry_policy", policy);
        let daemon = installation.daemon().await;
        until_it_delivers(&daemon).await;
        let published = daemon
            .post("/v1/notifications", &json!({"execution_id": "run-1", "url": DEAD_URL}))
            .await;
        assert_eq!(published.status, 202, "{}", published.text());
        wait_until("the endpoint is known to be away", BOUND, async || {
            let endpoints = daemon.get("/v1/endpoints").await.json();
            (endpoints["items"][0]["state"] == "unavailable").then_some(())
        })
        .await;
        let put = daemon
            .request("PUT", &format!("/v1/types/{TYPE}"))
            .json(&json!({}))
            .send()
            .await;
        assert_eq!(put.status, 200, "{}", put.text());
        Self {
            queue: published.json()["queue"].as_str().unwrap().to_owned(),
            installation,
            daemon,
            broker,
            management,
            store,
            _vhost: vhost,
            _database: database,
        }
    }

    fn cut(&self, cut: Cut) {
        match cut {
            Cut::Broker => self.broker.reset(),
            Cut::Management(lie) => self.management.tells(Some(lie)),
            Cut::Store => self.store.reset(),
        }
    }

    async fn mend(&self) {
        self.broker.heal();
        self.management.tells(None);
        self.store.heal();
        until_it_delivers(&self.daemon).await;
        wait_until("every source answers", BOUND, async || {
            let ready = self.daemon.get("/readyz").await.json();
            let is_ok = |part: &str| ready[part]["ok"] == true;
            let lists = async |path: &str| {
                let answer = self.daemon.get(path).await;
                answer.status == 200 && answer.json()["problems"].is_null()
            };
            let all = is_ok("broker") && is_ok("management") && is_ok("store");
            (all && lists("/v1/queues").await).then_some(())
        })
        .await;
    }

    /// `redrive_source_up` of each source, as the daemon tells it.
    async fn is_up(&self, source: &str) -> Option<f64> {
        let numbers = self.daemon.get("/metrics").await.text();
        let name = format!("redrive_source_up{{source=\"{source}\"}} ");
        numbers.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
    }
}

async fn until_it_delivers(daemon: &Daemon) {
    wait_until("a daemon that delivers", BOUND, async || {
        (daemon.get("/readyz").await.json()["delivering"]["ok"] == true).then_some(())
    })
    .await;
}

fn names(problems: &Value) -> Vec<String> {
    let problems = problems.as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |problem: &Value| {
        assert!(
            problem["reason"].as_str().is_some_and(|reason| !reason.is_empty()) && problem["since"].is_string(),
            "{problem}"
        );
        problem["source"].as_str().unwrap().to_owned()
    };
    problems.iter().map(name).collect()
}
