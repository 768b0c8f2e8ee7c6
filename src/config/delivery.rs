//! How notifications are delivered, and what is added for single endpoints: `[delivery]`, `[[endpoint]]`.

use std::collections::HashSet;
use std::time::Duration;

use secrecy::SecretString;

use crate::domain::egress::AllowedNetwork;
use crate::domain::naming::QueueType;
use crate::domain::pace::{RATE_MAX, SPAN_S_MAX};
use crate::domain::policy::{
    BackoffFunction, DELAY_S_MAX, OnExhausted, OnRefused, PolicyOwner, RETRIES_MAX, RetryPolicy,
};
use crate::domain::signature::SigningSecret;
use crate::domain::url::EndpointUrl;

use super::error::Problem;
use super::keys::{Facts, Keys as _, Row, keys};
use super::kind::{
    Kind, Schema, endpoint_url, headers, integer, list, number_value, one_of, parsed, required_text, seconds,
    signing_secrets, table_schema, text_value, typed,
};
use super::memory;
use super::print::Page;
use super::section::Section;
use super::tree::Node;

/// A daemon is taken for dead after this long at the least, in deadlines of a request.
const TAKE_OVER_TIMEOUTS: u32 = 4;
const TAKE_OVER_DEFAULT: Duration = Duration::from_mins(1);
const DAY_S: f64 = 86_400.0;
const MEMORY_MIB_MIN: usize = 32;
const MEMORY_MIB_MAX: usize = 1024 * 1024;

keys! {
    /// How notifications are delivered.
    #[derive(Clone, Debug)]
    pub struct DeliveryConfig {
        /// Queues worked on at once whose attempts can still proceed.
        ///
        /// Queues that are delivered at once.
        workers: usize = integer(1..=10_000).or(512);
        /// Requests at once that wait long for an answer (two seconds, or half a second where the URL has not answered this
        /// process), before URLs that gave no answer last time wait; as many as workers by default.
        ///
        /// Concurrent requests that have waited for an answer for more than two seconds (half a second where the URL has not answered
        /// this process yet): they do not count as workers. At this number (or at 256 KiB of bodies for each) URLs that gave no
        /// answer last time wait; those begun before that turn out slow may become four times as many. As many as workers by
        /// default.
        slow_requests: usize = integer(1..=10_000)
            .or(512)
            .or_with(|section| Self::workers().read(section, "workers"));
        /// Unacknowledged messages per queue; 1 with quorum queues.
        ///
        /// Unacknowledged messages per queue: more is faster, and that many may be repeated after a crash.
        /// Quorum queues need 1.
        prefetch: u16 = integer(1..=1000).or(1);
        /// Messages and request bodies in memory at one time, in MiB; a quarter of what the process may use by default.
        ///
        /// Messages and request bodies that are in memory at one time, in MiB, 32 at least: what does not fit waits in its queue,
        /// and small messages continue. By default a quarter of what the process may use (its control group's limit, or what the
        /// machine has).
        memory_mib: usize = integer(MEMORY_MIB_MIN..=MEMORY_MIB_MAX)
            .or_with(|_| Ok(memory::share_mib(MEMORY_MIB_MIN, MEMORY_MIB_MAX)))
            .example("256");
        /// Deadline of a request.
        ///
        /// Deadline of a request, from connecting to the end of the answer.
        timeout as "timeout_s": Duration = seconds(0.05..=600.0)
            .or(Duration::from_secs(15));
        /// How long a worker waits on an empty queue.
        linger as "linger_s": Duration = seconds(0.0..=3600.0).or(Duration::from_secs(5));
        /// Requests to one URL at once.
        in_flight_per_endpoint: usize = integer(1..=10_000).or(16);
        /// An empty queue that nobody ended is deleted after this time.
        idle_queue_ttl as "idle_queue_ttl_s": Duration = seconds(1.0..=365.0 * DAY_S).or(Duration::from_hours(168));
        /// Networks that are delivered to although they are not public.
        ///
        /// Networks to deliver to although they are not public, for example ["10.0.0.0/8"], or some ports: "10.0.0.0/8:8080-8090".
        allow_networks: Vec<AllowedNetwork> = list(parsed(allowed_network, AllowedNetwork::to_string), "a list of strings")
            .example("[]");
        /// Bytes kept of an answer's body.
        response_snippet_bytes: usize = integer(0..=65_536).or(2048);
        /// The most that a Retry-After counts for.
        ///
        /// The longest Retry-After that is respected.
        retry_after_cap_s: u64 = integer(0..=2_592_000).or(3600);
        /// Applies where neither the message nor the URL has a policy.
        ///
        /// Applies where neither the message nor the URL has a policy. Without it the built-in one applies, which
        /// retries for 25 hours (`redrive policy show --default`). A key that this table leaves out has the value
        /// shown here. `redrive policy preview` shows the schedule of a policy.
        retry_policy: RetryPolicy = retry_policy();
        /// Silence of a daemon that counts as death; at least four times timeout_s.
        take_over as "take_over_s": Duration = seconds(1.0..=DAY_S)
            .or(TAKE_OVER_DEFAULT)
            .or_with(|section| Ok(TAKE_OVER_DEFAULT.max(timeout_of(section)? * TAKE_OVER_TIMEOUTS)));
        /// How long a stop waits for requests in flight and handlers of events; by default timeout_s and 5.
        ///
        /// How long a stop waits for requests in flight and handlers of events.
        drain as "drain_s": Duration = seconds(0.0..=3600.0)
            .or_with(|section| Ok(timeout_of(section)? + Duration::from_secs(5)))
            .example("20");
    }
}

keys! {
    /// What is added for one URL.
    #[derive(Clone, Debug)]
    pub struct EndpointConfig {
        /// Of notifications that are published directly.
        url: EndpointUrl = required_text("\"https://example.com/hook\"")
            .and_then(
                |text, place| endpoint_url(&text).map_err(|problem| place.problem(problem)),
                |url| Some(text_value(url.redacted())),
            )
            .bare()
            .example("\"https://example.com/hook\"");
        /// Signs after Standard Webhooks; a list while secrets are being changed.
        ///
        /// Signs after Standard Webhooks; a list of secrets while they are being rotated.
        secrets as "secret": Vec<SigningSecret> = signing_secrets()
            .or_with(|_| Ok(Vec::new()))
            .example("{ env = \"EXAMPLE_SECRET\" }");
        /// Sent with each request.
        headers: Vec<(String, SecretString)> = headers()
            .bare()
            .example("{ Authorization = { file = \"/etc/redrive/example_token\" } }");
        /// A throttle.
        max_receives_per_second: Option<u32> = integer(1..=1_000_000).optional().bare().example("10");
    }
}

fn timeout_of(section: Section<'_>) -> Result<Duration, Problem> {
    DeliveryConfig::timeout().read(section, "timeout_s")
}

pub(super) fn delivery(root: Section<'_>, queue_type: QueueType, page: &mut Page) -> Result<DeliveryConfig, Problem> {
    let section = root.section::<DeliveryConfig>("delivery")?;
    let delivery = DeliveryConfig::read(section)?;
    // A returned message keeps its place in a quorum queue only when it was the only one in hand.
    if delivery.prefetch > 1 && queue_type == QueueType::Quorum {
        let prefetch = delivery.prefetch;
        let problem = format!("is {prefetch}, and must be 1 with broker.queue_type = \"quorum\", or order is lost");
        return Err(section.problem("prefetch", problem));
    }
    let least = delivery.timeout * TAKE_OVER_TIMEOUTS;
    if delivery.take_over < least {
        let problem = format!(
            "is {} seconds, and must be at least {} seconds, {TAKE_OVER_TIMEOUTS} times delivery.timeout_s",
            delivery.take_over.as_secs_f64(),
            least.as_secs_f64()
        );
        return Err(section.problem("take_over_s", problem));
    }
    page.table("[delivery]", &delivery);
    Ok(delivery)
}

/// A network; an address alone is one, too.
fn allowed_network(text: &str) -> Result<AllowedNetwork, String> {
    text.parse::<AllowedNetwork>()
        .map_err(|problem| format!("is {text:?}, and {problem}"))
}

/// Its rules are those of every policy, which `domain` reads.
fn retry_policy() -> Kind<RetryPolicy> {
    let written = |_: Section<'_>, node: &Node| match RetryPolicy::from_value(&node.to_value(), PolicyOwner::Default) {
        Ok(policy) => Ok(policy.unwrap_or_else(RetryPolicy::built_in)),
        Err(error) => {
            let field = error.field.as_deref().unwrap_or_default();
            let at = node.get(field).unwrap_or(node);
            let message = error.message.strip_prefix(field).unwrap_or(&error.message).trim_start();
            Err(at.problem(message))
        }
    };
    let shown = |policy: &RetryPolicy| Some(policy.to_value(PolicyOwner::Default));
    Kind::new(table_schema(&policy_rows()), written, shown)
        .or_with(|_| Ok(RetryPolicy::built_in()))
        .inner(policy_rows)
        .part()
}

/// A key of a policy, for documents: name, description, schema and example; the domain reads it.
type PolicyKey = (&'static str, &'static str, fn() -> Schema, &'static str);

const POLICY: [PolicyKey; 14] = [
    ("retries_with_no_delay", "Tries that follow at once.", retries, "3"),
    ("minimum_delay_retries", "Tries after the minimum delay.", retries, "3"),
    ("minimum_delay", "Seconds.", delay, "5"),
    ("maximum_delay", "Seconds.", delay, "30"),
    ("maximum_delay_retries", "Tries after the maximum delay.", retries, "3"),
    (
        "retry_backoff_function",
        "How the delay grows between the two.\n\nlinear, arithmetic, geometric or exponential.",
        || one_of(BackoffFunction::ALL.map(BackoffFunction::as_str)),
        "\"linear\"",
    ),
    (
        "backoff_retries",
        "Tries while it grows; by default it follows from the two delays.\n\n\
         Length of the backoff; by default it follows from the two delays.",
        retries,
        "5",
    ),
    (
        "jitter",
        "A share of each delay that is added at random.\n\n\
         A share of each delay, 0 to 1, that is added at random.",
        share,
        "0.0",
    ),
    (
        "on_exhausted",
        "Wait for a person, or continue with the next message.\n\n\
         \"park\" waits for a person, \"dead_letter\" continues with the next message.",
        || one_of(OnExhausted::ALL.map(OnExhausted::as_str)),
        "\"park\"",
    ),
    (
        "on_refused",
        "What a refusal means.\n\n\
         What a refusal (most of 3xx and 4xx) means: \"dead_letter\", \"accept\" or \"retry\".",
        || one_of(OnRefused::ALL.map(OnRefused::as_str)),
        "\"dead_letter\"",
    ),
    (
        "slow_start",
        "Messages a second with which an endpoint begins that is available again by itself; 0: all at once.\n\n\
         Messages a second with which an endpoint begins that is available again by itself; 0, the default: all at once.",
        || whole(0, RATE_MAX),
        "1",
    ),
    (
        "slow_start_interval",
        "Seconds until that rate doubles.\n\nSeconds until that rate doubles.",
        || whole(1, SPAN_S_MAX),
        "10",
    ),
    (
        "slow_start_maximum",
        "Messages a second at which nothing is held back any more.\n\n\
         Messages a second at which nothing is held back any more.",
        || whole(1, RATE_MAX),
        "1000",
    ),
    (
        "ignore_subscription_override",
        "Policies of subscriptions do not count.",
        || typed("boolean"),
        "false",
    ),
];

fn retries() -> Schema {
    whole(0, RETRIES_MAX)
}

fn delay() -> Schema {
    whole(0, DELAY_S_MAX)
}

fn whole(least: u32, most: u32) -> Schema {
    let bounds = [("minimum", least), ("maximum", most)].map(|(key, bound)| (key, number_value(bound.into())));
    [typed("integer"), bounds.to_vec()].concat()
}

fn share() -> Schema {
    let bounds = vec![("minimum", number_value(0.0)), ("maximum", number_value(1.0))];
    [typed("number"), bounds].concat()
}

fn policy_rows() -> Vec<Row> {
    let row = |(key, comment, schema, example): PolicyKey| {
        let facts = Facts {
            schema: schema(),
            example: Some(example),
            is_bare: !comment.contains("\n\n"),
            ..Facts::default()
        };
        Row::of(key, comment, facts)
    };
    POLICY.into_iter().map(row).collect()
}

pub(super) fn endpoints(root: Section<'_>, page: &mut Page) -> Result<Vec<EndpointConfig>, Problem> {
    let mut seen = HashSet::new();
    let mut endpoints = Vec::new();
    for section in root.sections::<EndpointConfig>("endpoint")? {
        let endpoint = EndpointConfig::read(section)?;
        if !seen.insert(endpoint.url.clone()) {
            return Err(section.problem(
                "url",
                "is configured twice; put everything for a URL into one [[endpoint]]",
            ));
        }
        page.table("[[endpoint]]", &endpoint);
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}
