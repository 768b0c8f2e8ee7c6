//! Which route does what: who may, what for, and what it is answered from. What it takes and answers is told by the
//! types of its handler.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, get, on};

use crate::domain::scope::Scope;

use super::extract::LARGE;
use super::guard::{Gate, Needs};
use super::openapi::{Described, Describes};
use super::{
    Shared, alerts, attach, dead, endpoints, events, events_many, expiring, export, guard, health, jobs, notifications,
    policies, problem, queues, records, runs, stream, types,
};

// Without a token nothing but what is open is answered.
const OPEN: Needs = Needs::Nothing;
const ANY: Needs = Needs::Token;
const READ: Needs = Needs::Scope(Scope::Read);
const PUBLISH: Needs = Needs::Scope(Scope::Publish);
const OPERATE: Needs = Needs::Scope(Scope::Operate);
const ADMIN: Needs = Needs::Scope(Scope::Admin);

const BROKER: &str = "broker";
const MANAGEMENT: &str = "management";
const STORE: &str = "store";

/// All routes behind their guard.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    let served = served();
    let routes = served.routes.iter();
    let needs = routes.map(|route| ((route.method.to_uppercase(), route.path), route.needs));
    let gate = Arc::new(Gate::new(Arc::clone(&shared), needs.collect()));
    served
        .router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(DefaultBodyLimit::max(LARGE))
        .layer(axum::middleware::from_fn_with_state(gate, guard::check))
        .with_state(shared)
}

/// What is served to everybody: whether the process lives and delivers and, if so configured, its numbers.
pub(super) fn probes(shared: Arc<Shared>, metrics: bool) -> Router {
    let router = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready_or_not));
    let router = if metrics {
        router.route("/metrics", get(health::metrics))
    } else {
        router
    };
    router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .with_state(shared)
}

/// What the description says of a route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) needs: Needs,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    /// What it is answered from: what of it cannot be read makes it 503, or is in the answer's `problems`.
    pub(super) reads: &'static [&'static str],
    /// Statuses of failures that its types do not tell.
    pub(super) fails: &'static [u16],
    /// What it takes and answers; `None`: what redrive alone asks redrive is no contract.
    pub(super) describe: Option<fn(&mut Described<'_>)>,
}

/// Every route, with its part of the description.
pub(super) struct Served {
    router: Router<Arc<Shared>>,
    pub(super) tags: Vec<(&'static str, &'static str)>,
    pub(super) routes: Vec<Route>,
}

impl Served {
    /// What the following routes are about.
    fn tag(mut self, name: &'static str, about: &'static str) -> Self {
        self.tags.push((name, about));
        self
    }

    fn route<H, T, D>(self, method: &'static str, path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Arc<Shared>> + Describes<D>,
        T: 'static,
    {
        let mut served = self.unlisted(method, path, needs, handler);
        if let Some(route) = served.routes.last_mut() {
            route.describe = Some(<H as Describes<D>>::describe);
        }
        served
    }

    fn unlisted<H, T>(mut self, method: &'static str, path: &'static str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Arc<Shared>>,
        T: 'static,
    {
        self.router = self.router.route(path, on(filter_of(method), handler));
        self.note(method, path, needs);
        self
    }

    fn note(&mut self, method: &'static str, path: &'static str, needs: Needs) {
        self.routes.push(Route {
            method,
            path,
            needs,
            tag: self.tags.last().map_or("", |(name, _)| name),
            summary: "",
            reads: &[],
            fails: &[],
            describe: None,
        });
    }

    /// What the last route is for.
    fn says(mut self, summary: &'static str) -> Self {
        if let Some(route) = self.routes.last_mut() {
            route.summary = summary;
        }
        self
    }

    /// What the last route is answered from.
    fn reads(mut self, sources: &'static [&'static str]) -> Self {
        if let Some(route) = self.routes.last_mut() {
            route.reads = sources;
        }
        self
    }

    /// Statuses of the last route's failures that its types do not tell.
    fn fails(mut self, statuses: &'static [u16]) -> Self {
        if let Some(route) = self.routes.last_mut() {
            route.fails = statuses;
        }
        self
    }
}

fn filter_of(method: &str) -> MethodFilter {
    match method {
        "get" => MethodFilter::GET,
        "delete" => MethodFilter::DELETE,
        "patch" => MethodFilter::PATCH,
        "put" => MethodFilter::PUT,
        _ => MethodFilter::POST,
    }
}

/// Everything that is served.
pub(super) fn served() -> Served {
    let none = Served {
        router: Router::new(),
        tags: Vec::new(),
        routes: Vec::new(),
    };
    let parts = [
        about_publishing,
        about_queues,
        about_endpoints,
        about_policies,
        about_expiring,
        about_dead_letters,
        about_runs,
        about_jobs,
        about_events,
        about_types,
        about_records,
        about_daemon,
    ];
    parts.into_iter().fold(none, |served, part| part(served))
}

fn about_publishing(served: Served) -> Served {
    served
        .tag("publishing", "Notifications, and the end of a sequence.")
        .route("post", "/v1/notifications", PUBLISH, notifications::publish)
        .says("Publish a notification; answered after the broker's confirm. 503 carries the id to repeat with.")
        .fails(&[422])
        .route("get", "/v1/notifications/{id}", READ, notifications::show)
        .says(
            "What became of a notification, from what is on record of its id: delivered, waiting, parked, a dead letter. No \
             queue is walked; with `queue` what waits there is told of one that was never attempted.",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("post", "/v1/executions/{id}/end", PUBLISH, notifications::end)
        .says("Mark the end of an execution's sequence to a URL.")
}

fn about_queues(served: Served) -> Served {
    served
        .tag("queues", "Delivery queues, and every other queue of the vhost.")
        .route("get", "/v1/queues", READ, queues::list)
        .says("Queues, filtered and sorted.")
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/queues/{name}", READ, queues::show)
        .says("One queue.")
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("delete", "/v1/queues/{name}", OPERATE, queues::delete)
        .says("Delete a queue with everything in it.")
        .route("get", "/v1/queues/{name}/why", READ, queues::why)
        .says("Why a queue moves or does not.")
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/queues/{name}/map", READ, queues::map)
        .says(
            "What brings messages into a queue, and where those go that die in it: the queue itself first, then \
             queue by queue.",
        )
        .reads(&[MANAGEMENT])
        .route("post", "/v1/queues/{name}/pause", OPERATE, queues::pause)
        .says("Stop delivering from a queue.")
        .route("post", "/v1/queues/{name}/resume", OPERATE, queues::resume)
        .says("Go on delivering from a queue.")
        .route("post", "/v1/queues/{name}/purge", OPERATE, queues::purge)
        .says("Remove every message of a queue.")
        .route("post", "/v1/queues/{name}/rescue", OPERATE, queues::rescue)
        .says("Take the undecodable head of a quarantined queue out, into the store.")
        .route("post", "/v1/queues/{name}/browse", OPERATE, queues::browse)
        .says(
            "Look at the messages at a queue's head; refused near a delivery limit, and while somebody consumes \
             it.",
        )
        .fails(&[409])
        .route("get", "/v1/queue-name", READ, queues::named)
        .says("The delivery queue of an execution and URL, and how any AMQP client publishes to it.")
        .route("post", "/v1/vhost/make", ADMIN, queues::make_vhost)
        .says(
            "Make the vhost where it is missing, with every right on it for the user of `broker.url`; a daemon \
             does so by itself.",
        )
        .route("post", "/v1/queues/{name}/move", OPERATE, runs::move_queue)
        .says("Move every message that is in a queue now to another queue.")
        .route("post", "/v1/queues/{name}/skip", OPERATE, runs::skip)
        .says("Take the head of a delivery queue to the dead letters, or to the queue's end.")
}

fn about_endpoints(served: Served) -> Served {
    served
        .tag("endpoints", "Where notifications go, and how fast.")
        .route("post", "/v1/redeliver", OPERATE, endpoints::redeliver)
        .says("Make an endpoint available again; its queues continue where they stopped.")
        .route("get", "/v1/endpoints", READ, endpoints::list)
        .says("Endpoints; with `url` that one alone, as an object.")
        .reads(&[MANAGEMENT, STORE])
        .fails(&[404])
        .route("post", "/v1/endpoints/test", OPERATE, endpoints::test)
        .says("Send a request to an endpoint, never a queued message.")
        .route("get", "/v1/endpoints/disable", READ, endpoints::disable_plan)
        .says("What disabling an endpoint would do.")
        .reads(&[STORE])
        .fails(&[404])
        .route("post", "/v1/endpoints/disable", OPERATE, endpoints::disable)
        .says("Send nothing to a URL until somebody redelivers.")
        .route("post", "/v1/endpoints/pace", OPERATE, endpoints::pace)
        .says("Change how fast an endpoint goes while it does; what is not given stays.")
        .route("post", "/v1/endpoints/pause", OPERATE, endpoints::pause)
        .says("Send nothing to an endpoint until somebody resumes it, no probe either.")
        .route("post", "/v1/endpoints/resume", OPERATE, endpoints::resume)
        .says("Go on after a pause of an endpoint, or after its canary.")
}

fn about_policies(served: Served) -> Served {
    served
        .tag("policies", "Retry policies.")
        .route("get", "/v1/policies", READ, policies::show)
        .says("Retry policies that are set; with `url`, `type` or both that one alone, and what applies there.")
        .reads(&[STORE])
        .route("put", "/v1/policies", ADMIN, policies::set)
        .says("Set a retry policy, also for what waits; with `version` only in the place of that one.")
        .route("delete", "/v1/policies", ADMIN, policies::unset)
        .says("Unset a retry policy: the next one in precedence applies.")
        .route("get", "/v1/policies/history", READ, policies::history)
        .says("Every version of a retry policy with its author, newest first.")
        .reads(&[STORE])
        .route("post", "/v1/policies/preview", READ, policies::preview)
        .says("The schedule that a retry policy makes; with `url` or `type` also what it would do to what waits.")
        .route("post", "/v1/policies/restore", ADMIN, policies::restore)
        .says("Save what an earlier version said as a new one.")
}

fn about_expiring(served: Served) -> Served {
    served
        .tag(
            "expiring",
            "Queues that the broker deletes when nobody uses them, and what was saved from them.",
        )
        .route("get", "/v1/expiring", READ, expiring::list)
        .says("Queues that the broker deletes when nobody uses them, and leftovers; those that lose messages first.")
        .reads(&[MANAGEMENT, STORE])
        .route("get", "/v1/expiring/saves", READ, expiring::saves)
        .says("Messages that were saved from such queues, newest first.")
        .reads(&[STORE])
        .route("post", "/v1/expiring/save", OPERATE, expiring::save)
        .says("Move the messages of queues into the store.")
        .route("post", "/v1/expiring/purge", OPERATE, expiring::purge)
        .says(
            "Delete queues that nobody uses, by default those that outlived their time; messages are saved \
             unless `drop`.",
        )
        .route("post", "/v1/expiring/restore", OPERATE, expiring::restore)
        .says("Put saved messages back, or into another queue.")
        .route("post", "/v1/expiring/extend", OPERATE, expiring::extend)
        .says("Restart the lifetime of queues.")
}

fn about_dead_letters(served: Served) -> Served {
    served
        .tag("dead", "Dead letters.")
        .route("get", "/v1/dead", READ, dead::list)
        .says(
            "Dead letters of every dead-letter queue of the vhost. A queue that is looked at for the first \
             time, or again, is listed as far as it was seen within 5 s.",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/dead/groups", READ, dead::groups)
        .says("Dead letters in groups of those that failed alike, the largest first.")
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/dead/queues", READ, dead::queues)
        .says(
            "The queues that dead letters are in, the one with the most first: how many, since when, and which \
             queues they come from.",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/dead/compare", READ, dead::compare)
        .says(
            "What is alike in dead letters and what is not: of two to twenty by their `ids`, with commas \
             between them, or of the first `limit` (50, at most 200) of a queue, group or filter. Values that \
             the masks name are hidden.",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .fails(&[404])
        .route("get", "/v1/dead/export", READ, export::dead)
        .says(
            "Dead letters with their messages, a line of JSON each, as many as there are. Behind the last one a \
             line with `problems` says what could not be read, also where the export ended because it took 15 \
             minutes, and one with `problem` why it was broken off.",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/dead/{id}", READ, dead::show)
        .says("One dead letter with headers, death history, target and body.")
        .reads(&[BROKER, MANAGEMENT, STORE])
        .fails(&[409])
        .route("post", "/v1/dead/redrive", OPERATE, runs::redrive)
        .says("Send dead letters back where they came from, or elsewhere.")
        .route("post", "/v1/dead/discard", OPERATE, runs::discard)
        .says("Take dead letters out; they can be restored for a while.")
        .route("post", "/v1/dead/restore", OPERATE, runs::restore)
        .says("Put discarded messages back into their dead-letter queue.")
        .route("post", "/v1/dead/patch", OPERATE, runs::patch)
        .says(
            "Change many dead letters in the same way, by a JSON patch of their bodies (RFC 6902), a content \
             type or headers: what is sent when they are redriven. All of them, or none.",
        )
        .route("patch", "/v1/dead/{id}", OPERATE, runs::edit)
        .says("Change what is sent instead of a dead letter when it is redriven.")
}

fn about_runs(served: Served) -> Served {
    served
        .tag("runs", "Commands over many messages.")
        .route("get", "/v1/runs", READ, runs::list)
        .says("Runs, newest first.")
        .reads(&[STORE])
        .route("get", "/v1/runs/{id}", READ, runs::show)
        .says("One run, with a page of its items.")
        .reads(&[STORE])
        .route("post", "/v1/runs/{id}/pause", OPERATE, runs::pause)
        .says("Stop a run after the window in flight.")
        .route("post", "/v1/runs/{id}/resume", OPERATE, runs::resume)
        .says("Continue a run.")
        .route("post", "/v1/runs/{id}/cancel", OPERATE, runs::cancel)
        .says("End a run; what is done stays done.")
}

fn about_jobs(served: Served) -> Served {
    served
        .tag("jobs", "Jobs and their queues.")
        .route("get", "/v1/jobs", READ, jobs::list)
        .says("Jobs whose queues are there.")
        .reads(&[MANAGEMENT])
        .route("post", "/v1/jobs", OPERATE, jobs::submit)
        .says("Declare the queues of a new job.")
        .fails(&[409])
        .route("get", "/v1/jobs/{id}", READ, jobs::show)
        .says("Whether a job is there; its queues are not used by it.")
        .reads(&[MANAGEMENT])
        .route("post", "/v1/jobs/{id}/messages", OPERATE, jobs::publish)
        .says("A worker's message about its job; answered after the broker's confirm.")
}

fn about_events(served: Served) -> Served {
    served
        .tag("events", "The event table.")
        .route("post", "/v1/types/{type}/events", PUBLISH, events::push)
        .says("Push an event, or a list of them under `events`: wholly or not at all.")
        .fails(&[422])
        .route("get", "/v1/types/{type}/events", READ, events::list)
        .says("Events of a type, newest first.")
        .reads(&[STORE])
        .route("get", "/v1/types/{type}/events/{reference}", READ, events::show)
        .says("The events of a reference.")
        .reads(&[STORE])
        .route("delete", "/v1/types/{type}/events/{reference}", OPERATE, events::remove)
        .says("With `claim_id` the claimed event is done; without it the events of the reference are removed.")
        .route(
            "post",
            "/v1/types/{type}/events/{reference}/retry",
            OPERATE,
            events::retry,
        )
        .says("Make it due now; a dead one gets all of its attempts back.")
        .route(
            "post",
            "/v1/types/{type}/events/{reference}/reschedule",
            OPERATE,
            events::reschedule,
        )
        .says("Make it due at a time.")
        .route("get", "/v1/events", READ, events::search)
        .says("Events of all types, newest first.")
        .reads(&[STORE])
        .route("get", "/v1/events/counts", READ, events::counts)
        .says("How many events there are, by type and state.")
        .reads(&[STORE])
        .route("post", "/v1/events/retry", OPERATE, events_many::retry)
        .says(
            "Make events due now: by ids, or all that a filter finds. More than 1000, or with a rate, become a \
             run.",
        )
        .route("post", "/v1/events/reschedule", OPERATE, events_many::reschedule)
        .says("Make events due at a time, as for retry.")
        .route("post", "/v1/events/cancel", OPERATE, events_many::cancel)
        .says("Remove events, as for retry.")
}

fn about_types(served: Served) -> Served {
    served
        .tag("types", "Event types, subscriptions and claims.")
        .route("get", "/v1/types", READ, types::list)
        .says("Event types.")
        .reads(&[STORE])
        .route("get", "/v1/types/{type}", READ, types::show)
        .says("An event type with its metadata.")
        .reads(&[STORE])
        .route("put", "/v1/types/{type}", ADMIN, types::set)
        .says("Make an event type, or give it other metadata: the body.")
        .route("get", "/v1/types/{type}/history", READ, types::history)
        .says("What was handled of an event type, newest first, where its `_history_ttl` keeps it.")
        .reads(&[STORE])
        .route("get", "/v1/types/{type}/subscriptions", READ, types::subscriptions)
        .says("Who gets the events of a type.")
        .reads(&[STORE])
        .route("post", "/v1/types/{type}/subscriptions", ADMIN, types::subscribe)
        .says("Send the events of a type to a URL.")
        .route("delete", "/v1/types/{type}/subscriptions", ADMIN, types::unsubscribe)
        .says("End a subscription.")
        .route("post", "/v1/types/{type}/claims", OPERATE, types::claim)
        .says("Claim events: ttl and grace 60 to 43200 seconds, limit 1 to 20; 204 when there is nothing.")
        .route("get", "/v1/types/{type}/claims/{claim}", READ, types::claimed)
        .says("A claim with its events.")
        .reads(&[STORE])
        .route("patch", "/v1/types/{type}/claims/{claim}", OPERATE, types::renew)
        .says("Prolong a claim.")
        .route("delete", "/v1/types/{type}/claims/{claim}", OPERATE, types::release)
        .says("Give the events of a claim back.")
}

fn about_records(served: Served) -> Served {
    served
        .tag("records", "What happened, and what will.")
        .route("get", "/v1/retries", READ, records::retries)
        .says("What is tried when; `within` in seconds.")
        .reads(&[STORE])
        .route("get", "/v1/rates", READ, records::rates)
        .says(
            "How queues or endpoints move, as this daemon knows it; with `queue` or `url` the series of that \
             one alone: an hour by the minute, with `week` a week by four hours.",
        )
        .reads(&[STORE])
        .fails(&[404])
        .route("get", "/v1/attempts", READ, records::attempts)
        .says("The attempt log, newest first; a filter looks at the newest 1000 of them.")
        .reads(&[STORE])
        .route("get", "/v1/rescued", READ, records::rescued)
        .says("Messages that were taken out of quarantined queues, newest first.")
        .reads(&[STORE])
        .route("get", "/v1/rescued/{id}", OPERATE, records::rescued_one)
        .says("One of them, byte for byte: masks find nothing in it, and so `read` does not suffice.")
        .reads(&[STORE])
        .route("get", "/v1/audit", READ, records::audit)
        .says("Who did what, why, with what result; newest first.")
        .reads(&[STORE])
        .route("get", "/v1/audit/verify", READ, records::audit_verify)
        .says("Whether the audit is what was written: its chain of hashes, checked.")
        .reads(&[STORE])
        .route("get", "/v1/handover", READ, records::handover)
        .says(
            "What the next shift has to know: what is wrong, open runs, and what was done in the span `since` \
             (8h).",
        )
        .reads(&[BROKER, MANAGEMENT, STORE])
        .route("get", "/v1/events/stream", READ, stream::follow)
        .says("What this daemon does and sees, while it happens, as server-sent events; `kind` and `filter` choose.")
}

fn about_daemon(served: Served) -> Served {
    served
        .tag("daemon", "The daemon itself.")
        .route("get", "/v1/doctor", READ, records::doctor)
        .says("What a daemon finds of broker, rights, plugins, store and clock, each with its fix.")
        .route("post", "/v1/alerts/{name}/test", OPERATE, alerts::test)
        .says("Send a test message to the receiver of this alert.")
        .fails(&[409])
        .route("get", "/healthz", OPEN, health::alive)
        .says("The process answers; needs no token.")
        .route("get", "/readyz", OPEN, health::ready)
        .says("Whether broker and store can be reached and this process delivers.")
        .reads(&[BROKER, STORE])
        .route("get", "/metrics", READ, health::metrics)
        .says("Metrics as Prometheus text.")
        .route("get", "/openapi.json", READ, health::describe)
        .says("This description.")
        .unlisted("post", "/v1/attach/ask", READ, attach::ask)
        .unlisted("post", "/v1/attach/call", ANY, attach::call)
        .unlisted("post", "/v1/attach/export", READ, attach::export)
        .unlisted("post", "/v1/attach/plan", READ, attach::plan)
        .unlisted("post", "/v1/attach/execute", OPERATE, attach::execute)
        .unlisted("post", "/v1/attach/reveal", OPERATE, attach::reveal)
        .unlisted("post", "/v1/attach/look", READ, attach::look)
        .unlisted("get", "/v1/attach/stream", ANY, attach::follow)
}
