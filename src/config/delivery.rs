//! How notifications are delivered, and what is added for single endpoints: `[delivery]`, `[[endpoint]]`.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;

use crate::domain::egress::AllowedNetwork;
use crate::domain::naming::QueueType;
use crate::domain::notification::{header_problem, is_reserved};
use crate::domain::policy::{PolicyOwner, RetryPolicy};
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;

use super::error::Problem;
use super::memory;
use super::section::Section;
use super::tree::{Node, Written};

pub(super) const DELIVERY_KEYS: &[&str] = &[
    "workers",
    "slow_requests",
    "prefetch",
    "memory_mib",
    "timeout_s",
    "linger_s",
    "in_flight_per_endpoint",
    "idle_queue_ttl_s",
    "allow_networks",
    "response_snippet_bytes",
    "retry_after_cap_s",
    "retry_policy",
    "take_over_s",
    "drain_s",
];
pub(super) const ENDPOINT_KEYS: &[&str] = &["url", "secret", "headers", "max_receives_per_second"];

/// A daemon is taken for dead after this long at the least, in deadlines of a request.
const TAKE_OVER_TIMEOUTS: u32 = 4;
const TAKE_OVER_DEFAULT: Duration = Duration::from_mins(1);
const DAY_S: f64 = 86_400.0;
const MEMORY_MIB_MIN: usize = 32;
const MEMORY_MIB_MAX: usize = 1024 * 1024;

/// `[delivery]`.
#[derive(Clone, Debug)]
pub struct DeliveryConfig {
    /// Queues worked on at once whose attempts can still proceed.
    pub workers: usize,
    /// Requests at once that have waited for an answer for long.
    pub slow_requests: usize,
    /// Messages in hand per queue.
    pub prefetch: u16,
    /// Messages and bodies in memory at one time, in MiB.
    pub memory_mib: usize,
    /// The deadline of a request.
    pub timeout: Duration,
    /// How long a worker waits on an empty queue.
    pub linger: Duration,
    /// Requests to one URL at once.
    pub in_flight_per_endpoint: usize,
    /// An empty queue without an end mark is deleted after this idle time.
    pub idle_queue_ttl: Duration,
    /// Networks that are delivered to although they are not public.
    pub allow_networks: Vec<AllowedNetwork>,
    /// Bytes kept of an answer's body.
    pub response_snippet_bytes: usize,
    /// The most that a `Retry-After` counts for, in seconds.
    pub retry_after_cap_s: u64,
    /// Applies where no other policy does.
    pub retry_policy: RetryPolicy,
    /// Silence of a daemon that counts as death.
    pub take_over: Duration,
    /// How long a stop waits for what is in flight.
    pub drain: Duration,
}

/// `[[endpoint]]`: what is added for one URL.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Which URL.
    pub url: EndpointUrl,
    /// Every one signs.
    pub secrets: Vec<SigningSecret>,
    /// Headers of each request.
    pub headers: Vec<(String, SecretString)>,
    /// Requests a second at the most.
    pub max_receives_per_second: Option<u32>,
}

pub(super) fn delivery(section: Section<'_>, queue_type: QueueType) -> Result<DeliveryConfig, Problem> {
    let timeout = section.seconds("timeout_s", 0.05..=600.0, Duration::from_secs(15))?;
    let workers = section.integer("workers", 1..=10_000, 512)?;
    Ok(DeliveryConfig {
        workers,
        slow_requests: section.integer("slow_requests", 1..=10_000, workers)?,
        prefetch: prefetch(section, queue_type)?,
        memory_mib: section.integer(
            "memory_mib",
            MEMORY_MIB_MIN..=MEMORY_MIB_MAX,
            memory::share_mib(MEMORY_MIB_MIN, MEMORY_MIB_MAX),
        )?,
        timeout,
        linger: section.seconds("linger_s", 0.0..=3600.0, Duration::from_secs(5))?,
        in_flight_per_endpoint: section.integer("in_flight_per_endpoint", 1..=10_000, 16)?,
        idle_queue_ttl: section.seconds("idle_queue_ttl_s", 1.0..=365.0 * DAY_S, Duration::from_hours(168))?,
        allow_networks: allowed(section)?,
        response_snippet_bytes: section.integer("response_snippet_bytes", 0..=65_536, 2048)?,
        retry_after_cap_s: section.integer("retry_after_cap_s", 0..=2_592_000, 3600)?,
        retry_policy: retry_policy(section)?,
        take_over: take_over(section, timeout)?,
        drain: section.seconds("drain_s", 0.0..=3600.0, timeout + Duration::from_secs(5))?,
    })
}

/// A returned message keeps its place in a quorum queue only when it was the only one in hand.
fn prefetch(section: Section<'_>, queue_type: QueueType) -> Result<u16, Problem> {
    let prefetch = section.integer("prefetch", 1..=1000, 1)?;
    if prefetch > 1 && queue_type == QueueType::Quorum {
        let problem = format!("is {prefetch}, and must be 1 with broker.queue_type = \"quorum\", or order is lost");
        return Err(section.problem("prefetch", problem));
    }
    Ok(prefetch)
}

fn take_over(section: Section<'_>, timeout: Duration) -> Result<Duration, Problem> {
    let least = timeout * TAKE_OVER_TIMEOUTS;
    let take_over = section.seconds("take_over_s", 1.0..=DAY_S, TAKE_OVER_DEFAULT.max(least))?;
    if take_over < least {
        let problem = format!(
            "is {} seconds, and must be at least {TAKE_OVER_TIMEOUTS} times delivery.timeout_s, which is {} seconds",
            take_over.as_secs_f64(),
            least.as_secs_f64()
        );
        return Err(section.problem("take_over_s", problem));
    }
    Ok(take_over)
}

/// A list of networks; an address alone is one, too.
fn allowed(section: Section<'_>) -> Result<Vec<AllowedNetwork>, Problem> {
    let network = |(node, text): (&Node, &str)| {
        text.parse()
            .map_err(|problem| node.problem(format!("is {text:?}, and {problem}")))
    };
    section.texts("allow_networks")?.into_iter().map(network).collect()
}

pub(super) fn networks(section: Section<'_>, key: &str) -> Result<Vec<IpNet>, Problem> {
    let network = |(node, text): (&Node, &str)| {
        text.parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map(|network| network.trunc())
            .map_err(|_| {
                node.problem(format!(
                    "is {text:?}, and must be a network such as 10.0.0.0/8 or fd00::/8"
                ))
            })
    };
    section.texts(key)?.into_iter().map(network).collect()
}

fn retry_policy(section: Section<'_>) -> Result<RetryPolicy, Problem> {
    let Some(node) = section.get("retry_policy") else {
        return Ok(RetryPolicy::built_in());
    };
    match RetryPolicy::from_value(&node.to_value(), PolicyOwner::Default) {
        Ok(policy) => Ok(policy.unwrap_or_else(RetryPolicy::built_in)),
        Err(error) => {
            let field = error.field.as_deref().unwrap_or_default();
            let at = node.get(field).unwrap_or(node);
            let message = error.message.strip_prefix(field).unwrap_or(&error.message).trim_start();
            Err(at.problem(message))
        }
    }
}

pub(super) fn endpoints(root: Section<'_>) -> Result<Vec<EndpointConfig>, Problem> {
    let mut seen = HashSet::new();
    let mut endpoints = Vec::new();
    for section in root.sections("endpoint", ENDPOINT_KEYS)? {
        let endpoint = endpoint(section)?;
        if !seen.insert(endpoint.url.clone()) {
            return Err(section.problem(
                "url",
                "is configured twice; put everything for a URL into one [[endpoint]]",
            ));
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn endpoint(section: Section<'_>) -> Result<EndpointConfig, Problem> {
    let written = section.required_text("url", "\"https://example.com/hook\"")?;
    let url = EndpointUrl::parse(written).map_err(|error| {
        let message = error.to_string();
        section.problem("url", message.strip_prefix("url ").unwrap_or(&message))
    })?;
    let rate = section
        .get("max_receives_per_second")
        .map(|_| section.integer("max_receives_per_second", 1..=1_000_000, 1));
    Ok(EndpointConfig {
        url,
        secrets: secrets(section)?,
        headers: headers(section)?,
        max_receives_per_second: rate.transpose()?,
    })
}

/// One secret, or a list of them while they are being changed.
pub(super) fn secrets(section: Section<'_>) -> Result<Vec<SigningSecret>, Problem> {
    let nodes = match section.get("secret") {
        None => return Ok(Vec::new()),
        Some(node) => match &node.written {
            Written::List(items) => items.as_slice(),
            Written::Text(_)
            | Written::Integer(_)
            | Written::Number(_)
            | Written::Bool(_)
            | Written::Date(_)
            | Written::Table(_) => std::slice::from_ref(node),
        },
    };
    let secret = |node| {
        let secret = section.secret_of(node)?;
        SigningSecret::parse(secret.expose()).map_err(|error| secret.problem(error.to_string()))
    };
    nodes.iter().map(secret).collect()
}

/// Headers that are sent with each request.
pub(super) fn headers(section: Section<'_>) -> Result<Vec<(String, SecretString)>, Problem> {
    let Some(node) = section.get("headers") else {
        return Ok(Vec::new());
    };
    if !matches!(node.written, Written::Table(_)) {
        return Err(node.problem(format!(
            "is {}, and must be a table of names and values",
            node.written.kind()
        )));
    }
    let header = |(name, node): &(String, Node)| {
        if is_reserved(name) {
            return Err(node.problem("belongs to the connection or to the sender; leave it out"));
        }
        let secret = section.secret_of(node)?;
        match header_problem(name, secret.expose()) {
            Some(problem) => Err(node.problem(problem)),
            None => Ok((name.clone(), secret.text)),
        }
    };
    node.entries().iter().map(header).collect()
}
