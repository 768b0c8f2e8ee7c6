//! The calls that the driver makes, one function each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers;
use super::{ANSWER_ALL, Answer, Management, list, not_understood};
use crate::ambient::Clock;
use crate::broker::{BrokerError, BrokerNode, BrokerPolicy, ExchangeDetail, ListedQueue, QueuePage, WhichQueues};
use crate::domain::broker_rules::facts;
use crate::domain::id::QueueName;
use crate::domain::naming::Naming;
use crate::domain::on_broker::{OnBroker, QueueBinding};

/// What a listing asks for: cuts bytes, not the broker's work.
const COLUMNS: &str = "name,type,auto_delete,state,arguments,policy,consumers,messages_ready,messages_unacknowledged,message_bytes,idle_since,head_message_timestamp,message_stats.redeliver";
const PAGE_MAX: u32 = 500;
/// What is asked for of all queues at once: what is known without statistics.
const COLUMNS_FEW: &str = "name,type,state,arguments,policy,messages_ready,messages_unacknowledged";

/// Queues of a listing that are read in one go.
const READ_AT_ONCE: usize = 128;

/// How long queues are listed by pages after the one answer about all of them failed.
const PAGED_FOR: Duration = Duration::from_mins(10);
/// Pages of one listing, at most.
pub(in crate::broker::rabbitmq) const PAGES_MAX: u32 = 400;
/// How often pages are read that do not come to what the broker counts, at most.
const PASSES: u32 = 3;

/// Why the one answer about all queues did not come.
enum Whole {
    /// Smaller ones may come.
    TooMuch(BrokerError),
    /// No other way is better.
    Failed(BrokerError),
}

/// A page of the vhost's queues.
pub(in crate::broker::rabbitmq) struct Page {
    /// 1 for the first.
    pub(in crate::broker::rabbitmq) number: u32,
    named: Named,
}

/// What the queues of a page are called.
enum Named {
    Anything,
    Containing(String),
    /// The broker picks them out before it looks for their statistics, which is what a page costs.
    Matching(String),
}

impl Page {
    /// The first one of these.
    pub(in crate::broker::rabbitmq) fn first(which: &WhichQueues, naming: &Naming) -> Self {
        let named = match which {
            WhichQueues::All => Named::Anything,
            WhichQueues::Containing(part) => Named::Containing(part.clone()),
            WhichQueues::ButDelivery => Named::Matching(format!("^(?!{})", naming.delivery_queue_regex())),
        };
        Self { number: 1, named }
    }
}

/// Of a listing with elements, some have to be queues: else it is about something else.
fn some_readable(queues: &[ListedQueue], elements: usize) -> Result<(), BrokerError> {
    if queues.is_empty() && elements > 0 {
        return Err(not_understood("none of its elements is a queue"));
    }
    Ok(())
}

/// What the overview says.
#[derive(Clone, Debug, Default)]
pub(in crate::broker::rabbitmq) struct Overview {
    pub(in crate::broker::rabbitmq) version: Option<String>,
    /// What the cluster is called.
    pub(in crate::broker::rabbitmq) cluster: Option<String>,
    /// Whether queue statistics are collected.
    pub(in crate::broker::rabbitmq) statistics: bool,
    /// Whether it is counted what is done with the messages of each queue.
    pub(in crate::broker::rabbitmq) counts: bool,
}

/// Nodes that are told of.
const NODES_MAX: usize = 50;

impl Management {
    /// A page of the vhost's queues by name; a page past the end is an empty last one (docs/rabbitmq.md, *Statistics
    /// and listings*).
    pub(in crate::broker::rabbitmq) async fn queues_page(
        &self,
        page: &Page,
        clock: &Clock,
    ) -> Result<QueuePage, BrokerError> {
        let (number, size) = (page.number.to_string(), PAGE_MAX.to_string());
        let mut query = vec![
            ("page", number.as_str()),
            ("page_size", size.as_str()),
            ("columns", COLUMNS),
            ("sort", "name"),
        ];
        match &page.named {
            Named::Anything => {}
            Named::Containing(part) => query.push(("name", part)),
            Named::Matching(regex) => query.extend([("name", regex.as_str()), ("use_regex", "true")]),
        }
        let (started, taken_at) = (clock.uptime(), clock.now());
        let answer = self.send(Method::GET, &["queues", self.vhost()], &query, None).await?;
        let took = clock.uptime().saturating_sub(started);
        if answer.status == StatusCode::BAD_REQUEST
            && answer.body.get("error").and_then(Value::as_str) == Some("page_out_of_range")
        {
            return Ok(QueuePage {
                took,
                ..QueuePage::default()
            });
        }
        if !answer.status.is_success() {
            return Err(self.refusal("list queues", "access to the vhost", &answer).await);
        }
        let number = |field: &str| answer.body.get(field).and_then(Value::as_u64);
        let items = list(answer.body.get("items").unwrap_or(&Value::Null), "queues")?;
        let more = match number("page_count") {
            Some(pages) => u64::from(page.number) < pages,
            None => !items.is_empty(),
        };
        let queues: Vec<_> = items.iter().filter_map(|item| answers::queue(item, taken_at)).collect();
        some_readable(&queues, items.len())?;
        Ok(QueuePage {
            queues,
            more,
            total: number("filtered_count").or_else(|| number("total_count")),
            took,
        })
    }

    /// All of the vhost's queues: with their exact numbers of messages in one answer, or page by page with those of
    /// the statistics, where there are too many for one answer.
    pub(in crate::broker::rabbitmq) async fn queues_all(&self, clock: &Clock) -> Result<QueuePage, BrokerError> {
        let now = clock.uptime();
        if self.paged_until().is_none_or(|until| now >= until) {
            match self.queues_at_once(clock).await {
                Ok(all) => return Ok(all),
                Err(Whole::Failed(error)) => return Err(error),
                Err(Whole::TooMuch(error)) => {
                    tracing::debug!(error = ?error, "all queues are too many for one answer: listing them by pages");
                }
            }
        }
        let all = self.queues_by_page(clock).await?;
        if self.paged_until().is_none_or(|until| now >= until) {
            self.page_until(clock.uptime() + PAGED_FOR);
        }
        Ok(all)
    }

    /// The broker asks each queue for it, which costs less than its statistics do. A page would cost as much as the
    /// whole: all queues are asked before it is cut out.
    async fn queues_at_once(&self, clock: &Clock) -> Result<QueuePage, Whole> {
        let query = [
            ("disable_stats", "true"),
            ("enable_queue_totals", "true"),
            ("columns", COLUMNS_FEW),
        ];
        let (started, taken_at) = (clock.uptime(), clock.now());
        let path = ["queues", self.vhost()];
        let fetched = self.fetch(Method::GET, &path, &query, None, ANSWER_ALL).await;
        let (status, bytes) = fetched.map_err(Whole::TooMuch)?;
        let took = clock.uptime().saturating_sub(started);
        if !status.is_success() {
            let answer = Answer::read(&Method::GET, status, &bytes).map_err(Whole::Failed)?;
            let refusal = self.refusal("list queues", "access to the vhost", &answer).await;
            return Err(if status.is_server_error() {
                Whole::TooMuch(refusal)
            } else {
                Whole::Failed(refusal)
            });
        }
        let items: Vec<&RawValue> =
            serde_json::from_slice(&bytes).map_err(|error| Whole::Failed(not_understood(&error.to_string())))?;
        let mut queues = Vec::with_capacity(items.len());
        for part in items.chunks(READ_AT_ONCE) {
            let read = |item: &&RawValue| answers::queue(&serde_json::from_str(item.get()).ok()?, taken_at);
            queues.extend(part.iter().filter_map(read));
            // All of a large answer at once would hold up whatever else this thread delivers.
            tokio::task::yield_now().await;
        }
        some_readable(&queues, items.len()).map_err(Whole::Failed)?;
        Ok(QueuePage {
            queues,
            more: false,
            total: u64::try_from(items.len()).ok(),
            took,
        })
    }

    /// A queue that is deleted between two pages moves another one to the page before: pages that do not tell the same
    /// number, or do not come to it, are read once more.
    async fn queues_by_page(&self, clock: &Clock) -> Result<QueuePage, BrokerError> {
        let mut found: BTreeMap<QueueName, ListedQueue> = BTreeMap::new();
        let mut all = QueuePage::default();
        for _ in 0..PASSES {
            let mut request = Page {
                number: 1,
                named: Named::Anything,
            };
            found.clear();
            let mut totals = BTreeSet::new();
            loop {
                let page = self.queues_page(&request, clock).await?;
                all.took += page.took;
                all.total = page.total.or(all.total);
                totals.extend(page.total);
                found.extend(page.queues.into_iter().map(|queue| (queue.name.clone(), queue)));
                request.number += 1;
                if !page.more {
                    break;
                }
            }
            if totals.len() <= 1 && totals.first().is_none_or(|total| found.len() as u64 >= *total) {
                break;
            }
        }
        all.queues = found.into_values().collect();
        Ok(all)
    }

    /// One queue; `None` when the API does not know it.
    pub(in crate::broker::rabbitmq) async fn queue(
        &self,
        vhost: &str,
        queue: &QueueName,
        clock: &Clock,
    ) -> Result<Option<ListedQueue>, BrokerError> {
        let path = ["queues", vhost, queue.as_str()];
        let taken_at = clock.now();
        let Some(body) = self
            .find("show queue", "access to the vhost", &path, &[("columns", COLUMNS)])
            .await?
        else {
            return Ok(None);
        };
        let found = answers::queue(&body, taken_at);
        let mut found = found.ok_or_else(|| not_understood("it is no queue"))?;
        // What never happened is not named, and neither is what is not counted.
        let is_told = body.get("message_stats").is_some();
        if !is_told && self.told(clock).await.is_some_and(|told| told.counts) {
            found.redelivered = Some(0);
        }
        Ok(Some(found))
    }

    /// A queue with its consumers, its rates and what is bound to it; `None` when the API does not know it.
    pub(in crate::broker::rabbitmq) async fn queue_on_broker(
        &self,
        queue: &QueueName,
    ) -> Result<Option<OnBroker>, BrokerError> {
        let path = ["queues", self.vhost(), queue.as_str()];
        let Some(body) = self.find("show queue", "access to the vhost", &path, &[]).await? else {
            return Ok(None);
        };
        let mut found = answers::on_broker(&body);
        found.bindings = self.queue_bindings(queue).await?;
        Ok(Some(found))
    }

    /// What is bound to a queue; nothing when the API does not know it.
    pub(in crate::broker::rabbitmq) async fn queue_bindings(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<QueueBinding>, BrokerError> {
        let path = ["queues", self.vhost(), queue.as_str(), "bindings"];
        let Some(body) = self.find("list bindings", "the tag `management`", &path, &[]).await? else {
            return Ok(Vec::new());
        };
        Ok(answers::bound_to(list(&body, "bindings")?))
    }

    /// How many messages of a queue are delivered and not settled, as exactly as this version counts them.
    pub(in crate::broker::rabbitmq) async fn in_hand(
        &self,
        queue: &QueueName,
        clock: &Clock,
    ) -> Result<Option<u64>, BrokerError> {
        if !facts(self.version(clock).await).counts_one_exactly {
            return Ok(self
                .queue(self.vhost(), queue, clock)
                .await?
                .and_then(|found| found.unacked));
        }
        let path = ["queues", self.vhost(), queue.as_str()];
        let query = [("disable_stats", "true"), ("enable_queue_totals", "true")];
        let answer = self.send(Method::GET, &path, &query, None).await?;
        if !answer.status.is_success() {
            return Ok(None);
        }
        Ok(answers::queue(&answer.body, clock.now()).and_then(|found| found.unacked))
    }

    /// An exchange and its bindings; `None` when the API does not know it.
    pub(in crate::broker::rabbitmq) async fn exchange(
        &self,
        exchange: &str,
    ) -> Result<Option<ExchangeDetail>, BrokerError> {
        let path = ["exchanges", self.vhost(), exchange];
        let columns = [("columns", "type,policy,arguments")];
        let Some(body) = self
            .find("show exchange", "access to the vhost", &path, &columns)
            .await?
        else {
            return Ok(None);
        };
        let path = ["exchanges", self.vhost(), exchange, "bindings", "source"];
        let bindings = self
            .call("list bindings", "the tag `management`", Method::GET, &path, None)
            .await?;
        let kind = body.get("type").and_then(Value::as_str);
        Ok(Some(ExchangeDetail {
            kind: kind
                .ok_or_else(|| not_understood("an exchange has no type"))?
                .to_owned(),
            alternate: self.alternate_of(&body).await?,
            policy: answers::policy_in_force(&body),
            bindings: list(&bindings, "bindings")?
                .iter()
                .filter_map(answers::binding)
                .collect(),
        }))
    }

    /// The alternate exchange of an exchange: an argument wins over a policy.
    async fn alternate_of(&self, exchange: &Value) -> Result<Option<String>, BrokerError> {
        const NAME: &str = "alternate-exchange";
        let arguments = exchange.get("arguments").and_then(|all| all.get(NAME));
        if let Some(named) = arguments.and_then(Value::as_str) {
            return Ok(Some(named.to_owned()));
        }
        let Some(policy) = answers::policy_in_force(exchange) else {
            return Ok(None);
        };
        let policies = self.policies().await?;
        let in_force = policies.into_iter().find(|one| !one.operator && one.name == policy);
        let definition = in_force.map(|policy| policy.definition).unwrap_or_default();
        Ok(definition
            .into_iter()
            .find(|(key, _)| key == NAME)
            .map(|(_, value)| value))
    }

    /// An argument of an exchange, as text.
    pub(in crate::broker::rabbitmq) async fn exchange_argument(
        &self,
        exchange: &str,
        argument: &str,
    ) -> Result<Option<String>, BrokerError> {
        let path = ["exchanges", self.vhost(), exchange];
        let found = self
            .call("show exchange", "access to the vhost", Method::GET, &path, None)
            .await?;
        let value = found.get("arguments").and_then(|all| all.get(argument));
        Ok(value.and_then(Value::as_str).map(str::to_owned))
    }

    /// Policies and operator policies of the vhost.
    pub(in crate::broker::rabbitmq) async fn policies(&self) -> Result<Vec<BrokerPolicy>, BrokerError> {
        let mut policies = self.policies_at("policies", answers::policy).await?;
        policies.extend(self.policies_at("operator-policies", answers::operator_policy).await?);
        Ok(policies)
    }

    async fn policies_at(
        &self,
        path: &str,
        read: fn(&Value) -> Option<BrokerPolicy>,
    ) -> Result<Vec<BrokerPolicy>, BrokerError> {
        let path = [path, self.vhost()];
        let listed = self
            .call("list policies", "the tag `management`", Method::GET, &path, None)
            .await?;
        // One that is left out could be the one that destroys what waits.
        let read = |item| read(item).ok_or_else(|| not_understood("a policy has no pattern"));
        list(&listed, "policies")?.iter().map(read).collect()
    }

    /// Sets a policy; one of that name is replaced whole (docs/rabbitmq.md, *Events and policies of the broker*).
    pub(in crate::broker::rabbitmq) async fn policy_put(&self, policy: &BrokerPolicy) -> Result<(), BrokerError> {
        let path = ["policies", self.vhost(), policy.name.as_str()];
        let definition: serde_json::Map<String, Value> = policy
            .definition
            .iter()
            .map(|(key, value)| (key.clone(), definition_value(key, value)))
            .collect();
        let body = json!({
            "pattern": policy.pattern,
            "definition": definition,
            "priority": policy.priority,
            "apply-to": policy.applies_to,
        });
        self.call("set policy", "the tag `policymaker`", Method::PUT, &path, Some(&body))
            .await?;
        Ok(())
    }

    /// Removes a policy.
    pub(in crate::broker::rabbitmq) async fn policy_remove(&self, name: &str) -> Result<(), BrokerError> {
        let path = ["policies", self.vhost(), name];
        let answer = self.send(Method::DELETE, &path, &[], None).await?;
        if answer.status.is_success() || (answer.status == StatusCode::NOT_FOUND && !answer.body.is_null()) {
            return Ok(());
        }
        Err(self.refusal("remove policy", "the tag `policymaker`", &answer).await)
    }

    pub(in crate::broker::rabbitmq) async fn overview(&self) -> Result<Overview, BrokerError> {
        let body = self
            .call("overview", "the tag `management`", Method::GET, &["overview"], None)
            .await?;
        let version = body.get("rabbitmq_version").and_then(Value::as_str).map(str::to_owned);
        if version.is_none() {
            return Err(not_understood("the overview has no version"));
        }
        let statistics = body.get("disable_stats").and_then(Value::as_bool) != Some(true);
        let rates = body.get("rates_mode").and_then(Value::as_str);
        Ok(Overview {
            version,
            cluster: body.get("cluster_name").and_then(Value::as_str).map(str::to_owned),
            statistics,
            counts: statistics && rates.is_some_and(|mode| mode != "none"),
        })
    }

    /// Whether the user may make vhosts and give rights.
    pub(in crate::broker::rabbitmq) async fn is_administrator(&self) -> Result<bool, BrokerError> {
        let me = self
            .call("ask who we are", "the tag `management`", Method::GET, &["whoami"], None)
            .await?;
        // A list since 3.9, one text with commas before.
        let tags = me.get("tags").unwrap_or(&Value::Null);
        let listed = tags.as_array().map(Vec::as_slice).unwrap_or_default();
        let listed = listed.iter().filter_map(Value::as_str);
        let written = tags.as_str().unwrap_or_default().split(',');
        Ok(listed.chain(written).any(|tag| tag.trim() == "administrator"))
    }

    /// Makes the vhost; an existing one is left as it is.
    pub(in crate::broker::rabbitmq) async fn vhost_create(&self) -> Result<(), BrokerError> {
        let path = ["vhosts", self.vhost()];
        let body = json!({"description": "delivery queues"});
        self.call(
            "create vhost",
            "the tag `administrator`",
            Method::PUT,
            &path,
            Some(&body),
        )
        .await?;
        Ok(())
    }

    /// Grants `user` everything on the vhost, which is ours.
    pub(in crate::broker::rabbitmq) async fn permissions_grant(&self, user: &str) -> Result<(), BrokerError> {
        let path = ["permissions", self.vhost(), user];
        let body = json!({"configure": ".*", "write": ".*", "read": ".*"});
        self.call(
            "grant permissions",
            "the tag `administrator`",
            Method::PUT,
            &path,
            Some(&body),
        )
        .await?;
        Ok(())
    }

    /// The names of the alarms in force, where the user may ask.
    pub(in crate::broker::rabbitmq) async fn alarms(&self) -> Result<Option<String>, BrokerError> {
        let answer = self
            .send(Method::GET, &["health", "checks", "alarms"], &[], None)
            .await?;
        if answer.status != StatusCode::SERVICE_UNAVAILABLE {
            return Ok(None);
        }
        // What stands between answers 503 as well, and knows nothing of alarms.
        let Some(alarms) = answer.body.get("alarms").and_then(Value::as_array) else {
            return Ok(None);
        };
        let names: Vec<_> = alarms
            .iter()
            .filter_map(|alarm| alarm.get("resource").and_then(Value::as_str))
            .collect();
        Ok(Some(if names.is_empty() {
            "alarm".to_owned()
        } else {
            format!("alarm: {}", names.join(", "))
        }))
    }

    /// The nodes of the cluster; none where the user may not ask (the tag `monitoring`).
    pub(in crate::broker::rabbitmq) async fn nodes(&self) -> Result<Vec<BrokerNode>, BrokerError> {
        let answer = self.send(Method::GET, &["nodes"], &[], None).await?;
        if !answer.status.is_success() {
            return Ok(Vec::new());
        }
        let nodes = list(&answer.body, "nodes")?.iter().take(NODES_MAX);
        Ok(nodes.filter_map(answers::node).collect())
    }

    /// The connections to the vhost that the broker lets send nothing, as far as the user may see them.
    pub(in crate::broker::rabbitmq) async fn blocked_connections(&self) -> Result<Vec<String>, BrokerError> {
        let listed = self.connections().await?;
        let connections = list(&listed, "connections")?.iter();
        Ok(connections.filter_map(answers::blocked_connection).collect())
    }

    /// The connections to the vhost.
    async fn connections(&self) -> Result<Value, BrokerError> {
        let path = ["vhosts", self.vhost(), "connections"];
        self.call("list connections", "the tag `management`", Method::GET, &path, None)
            .await
    }

    /// Closes the connections whose given name is `name` or begins with it and a space.
    pub(in crate::broker::rabbitmq) async fn connections_close(&self, name: &str) -> Result<u32, BrokerError> {
        let listed = self.connections().await?;
        let mut closed = 0;
        for connection in list(&listed, "connections")? {
            let Some(given) = answers::given_name(connection) else {
                continue;
            };
            let ours = given
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
            let Some(id) = connection.get("name").and_then(Value::as_str).filter(|_| ours) else {
                continue;
            };
            let answer = self.send(Method::DELETE, &["connections", id], &[], None).await?;
            if answer.status.is_success() {
                closed += 1;
            } else if answer.status != StatusCode::NOT_FOUND {
                return Err(self
                    .refusal("close connection", "the tag `monitoring` or the same user", &answer)
                    .await);
            }
        }
        Ok(closed)
    }
}

/// A policy's value as JSON; what is text stays text even if it looks like a number.
fn definition_value(key: &str, value: &str) -> Value {
    let is_text = key.starts_with("dead-letter-") || key == "overflow" || key == "queue-mode";
    match serde_json::from_str(value) {
        Ok(read) if !is_text => read,
        Ok(_) | Err(_) => json!(value),
    }
}
