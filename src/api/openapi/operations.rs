//! What may be asked of each path, as a table.

/// What may be asked of a path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters: name and type.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// Schema of the request's body.
    pub(super) body: Option<&'static str>,
    /// Status of success, and the schema of its answer.
    pub(super) answer: (u16, &'static str),
    /// Statuses of the failures beside 400, 401, 403 and 503.
    pub(super) failures: &'static [u16],
}

const PAGE: &[(&str, &str)] = &[("limit", "integer"), ("cursor", "string")];
const DEAD: &[(&str, &str)] = &[
    ("queue", "string"),
    ("group", "string"),
    ("filter", "string"),
    ("sort", "string"),
    ("limit", "integer"),
    ("cursor", "string"),
];
const LISTED: &[(&str, &str)] = &[
    ("filter", "string"),
    ("sort", "string"),
    ("limit", "integer"),
    ("cursor", "string"),
];
const ACT: &[(&str, &str)] = &[("dry_run", "boolean"), ("plan", "string"), ("reason", "string")];
const ACT_URL: &[(&str, &str)] = &[
    ("url", "string"),
    ("dry_run", "boolean"),
    ("plan", "string"),
    ("reason", "string"),
];
const FILTERED: &[(&str, &str)] = &[("filter", "string"), ("limit", "integer"), ("cursor", "string")];
const TEST: &[(&str, &str)] = &[
    ("url", "string"),
    ("method", "string"),
    ("dry_run", "boolean"),
    ("plan", "string"),
    ("reason", "string"),
];

const SCOPE: &[(&str, &str)] = &[("type", "string"), ("url", "string")];
const ACT_SCOPE: &[(&str, &str)] = &[
    ("type", "string"),
    ("url", "string"),
    ("version", "integer"),
    ("dry_run", "boolean"),
    ("plan", "string"),
    ("reason", "string"),
];

const fn get(path: &'static str, summary: &'static str, answer: &'static str) -> Operation {
    Operation {
        method: "get",
        path,
        summary,
        query: &[],
        body: None,
        answer: (200, answer),
        failures: &[],
    }
}

const fn post(path: &'static str, summary: &'static str, body: &'static str, answer: &'static str) -> Operation {
    Operation {
        method: "post",
        path,
        summary,
        query: ACT,
        body: Some(body),
        answer: (200, answer),
        failures: &[404, 409, 413, 415],
    }
}

const BROKER: &str = "broker";
const MANAGEMENT: &str = "management";
const STORE: &str = "store";

/// What each question is answered from: what of it cannot be read makes it 503, or is in the answer's `problems`.
const READS: &[(&str, &[&str])] = &[
    ("/v1/queues", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/queues/{name}", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/queues/{name}/why", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/endpoints", &[MANAGEMENT, STORE]),
    ("/v1/endpoints/disable", &[STORE]),
    ("/v1/policies", &[STORE]),
    ("/v1/policies/history", &[STORE]),
    ("/v1/expiring", &[MANAGEMENT, STORE]),
    ("/v1/expiring/saves", &[STORE]),
    ("/v1/retries", &[STORE]),
    ("/v1/rates", &[STORE]),
    ("/v1/attempts", &[STORE]),
    ("/v1/audit", &[STORE]),
    ("/v1/audit/verify", &[STORE]),
    // It tells of each source by itself.
    ("/v1/doctor", &[]),
    ("/v1/handover", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/queue-name", &[]),
    ("/v1/jobs", &[MANAGEMENT]),
    ("/v1/jobs/{id}", &[MANAGEMENT]),
    ("/v1/dead", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/dead/groups", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/dead/queues", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/dead/compare", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/dead/export", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/dead/{id}", &[BROKER, MANAGEMENT, STORE]),
    ("/v1/runs", &[STORE]),
    ("/v1/runs/{id}", &[STORE]),
    ("/v1/types/{type}/events", &[STORE]),
    ("/v1/types/{type}/events/{reference}", &[STORE]),
    ("/v1/events", &[STORE]),
    ("/v1/events/counts", &[STORE]),
    // It tells what happens, and not what is.
    ("/v1/events/stream", &[]),
    ("/v1/types", &[STORE]),
    ("/v1/types/{type}", &[STORE]),
    ("/v1/types/{type}/subscriptions", &[STORE]),
    ("/v1/types/{type}/claims/{claim}", &[STORE]),
    ("/healthz", &[]),
    // What was found last, which is told for each source by itself.
    ("/readyz", &[BROKER, STORE]),
    ("/metrics", &[]),
    ("/openapi.json", &[]),
];

/// What a question is answered from; `None` for what changes something.
pub(super) fn reads(operation: &Operation) -> Option<&'static [&'static str]> {
    let (_, sources) = READS.iter().find(|(path, _)| *path == operation.path)?;
    (operation.method == "get").then_some(sources)
}

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        query: &[],
        answer: (202, "Published"),
        failures: &[413, 415, 422, 429],
        ..post(
            "/v1/notifications",
            "Publish a notification; answered after the broker's confirm. 503 carries the id to repeat with.",
            "NewNotification",
            "Published",
        )
    },
    Operation {
        query: &[],
        answer: (202, "Ended"),
        failures: &[413, 415],
        ..post(
            "/v1/executions/{id}/end",
            "Mark the end of an execution's sequence to a URL.",
            "Url",
            "Ended",
        )
    },
    post(
        "/v1/redeliver",
        "Make an endpoint available again; its queues continue where they stopped.",
        "Redeliver",
        "Redelivered",
    ),
    Operation {
        query: LISTED,
        ..get("/v1/queues", "Queues, filtered and sorted.", "QueueList")
    },
    Operation {
        failures: &[404],
        ..get("/v1/queues/{name}", "One queue.", "Queue")
    },
    Operation {
        method: "delete",
        ..post(
            "/v1/queues/{name}",
            "Delete a queue with everything in it.",
            "Because",
            "Deleted",
        )
    },
    Operation {
        failures: &[404],
        ..get("/v1/queues/{name}/why", "Why a queue moves or does not.", "WhyAnswer")
    },
    post(
        "/v1/queues/{name}/pause",
        "Stop delivering from a queue.",
        "Because",
        "Queue",
    ),
    post(
        "/v1/queues/{name}/resume",
        "Go on delivering from a queue.",
        "Because",
        "Queue",
    ),
    post(
        "/v1/queues/{name}/purge",
        "Remove every message of a queue.",
        "Because",
        "Purged",
    ),
    post(
        "/v1/queues/{name}/rescue",
        "Take the undecodable head of a quarantined queue out, into the store.",
        "Because",
        "Rescued",
    ),
    post(
        "/v1/vhost/make",
        "Make the vhost where it is missing, with every right on it for the user of `broker.url`; a daemon does so by itself.",
        "Because",
        "VhostMade",
    ),
    Operation {
        query: &[
            ("url", "string"),
            ("unavailable", "boolean"),
            ("limit", "integer"),
            ("cursor", "string"),
        ],
        failures: &[404],
        ..get(
            "/v1/endpoints",
            "Endpoints; with `url` that one alone, as an object.",
            "EndpointList",
        )
    },
    Operation {
        query: TEST,
        ..post(
            "/v1/endpoints/test",
            "Send a request to an endpoint, never a queued message.",
            "Test",
            "Tested",
        )
    },
    Operation {
        query: ACT_URL,
        failures: &[404],
        ..get("/v1/endpoints/disable", "What disabling an endpoint would do.", "Plan")
    },
    Operation {
        query: ACT_URL,
        ..post(
            "/v1/endpoints/disable",
            "Send nothing to a URL until somebody redelivers.",
            "Url",
            "Endpoint",
        )
    },
    Operation {
        query: ACT_URL,
        ..post(
            "/v1/endpoints/pace",
            "Change how fast an endpoint goes while it does; what is not given stays.",
            "Pace",
            "Endpoint",
        )
    },
    Operation {
        query: ACT_URL,
        ..post(
            "/v1/endpoints/pause",
            "Send nothing to an endpoint until somebody resumes it; it stays available.",
            "Url",
            "Endpoint",
        )
    },
    Operation {
        query: ACT_URL,
        ..post(
            "/v1/endpoints/resume",
            "Go on after a pause of an endpoint, or after its canary.",
            "Url",
            "Endpoint",
        )
    },
    Operation {
        query: SCOPE,
        ..get(
            "/v1/policies",
            "Retry policies that are set; with `url`, `type` or both that one alone, and what applies there.",
            "PolicyList",
        )
    },
    Operation {
        method: "put",
        query: ACT_SCOPE,
        ..post(
            "/v1/policies",
            "Set a retry policy, also for what waits; with `version` only in the place of that one.",
            "RetryPolicy",
            "Policy",
        )
    },
    Operation {
        method: "delete",
        query: ACT_SCOPE,
        ..post(
            "/v1/policies",
            "Unset a retry policy: the next one in precedence applies.",
            "Because",
            "Policy",
        )
    },
    Operation {
        query: SCOPE,
        ..get(
            "/v1/policies/history",
            "Every version of a retry policy with its author, newest first.",
            "PolicyHistory",
        )
    },
    Operation {
        query: SCOPE,
        failures: &[413, 415],
        ..post(
            "/v1/policies/preview",
            "The schedule that a retry policy makes; with `url` or `type` also what it would do to what waits.",
            "RetryPolicy",
            "PolicyPreview",
        )
    },
    Operation {
        query: ACT_SCOPE,
        ..post(
            "/v1/policies/restore",
            "Save what an earlier version said as a new one.",
            "RestorePolicy",
            "Policy",
        )
    },
    Operation {
        query: PAGE,
        ..get(
            "/v1/expiring",
            "Queues that the broker deletes when nobody uses them, and leftovers; those that lose messages first.",
            "ExpiringList",
        )
    },
    Operation {
        query: PAGE,
        ..get(
            "/v1/expiring/saves",
            "Messages that were saved from such queues, newest first.",
            "SaveList",
        )
    },
    post(
        "/v1/expiring/save",
        "Move the messages of queues into the store.",
        "ExpiringOrder",
        "[ExpiringOutcome]",
    ),
    post(
        "/v1/expiring/purge",
        "Delete queues that nobody uses, by default those that outlived their time; messages are saved unless `drop`.",
        "ExpiringOrder",
        "[ExpiringOutcome]",
    ),
    post(
        "/v1/expiring/restore",
        "Put saved messages back, or into another queue.",
        "ExpiringOrder",
        "[ExpiringOutcome]",
    ),
    post(
        "/v1/expiring/extend",
        "Restart the lifetime of queues.",
        "ExpiringOrder",
        "[ExpiringOutcome]",
    ),
    Operation {
        query: &[("within", "integer"), ("limit", "integer")],
        ..get("/v1/retries", "What is tried when; `within` in seconds.", "RetryList")
    },
    Operation {
        query: &[
            ("endpoints", "boolean"),
            ("queue", "string"),
            ("url", "string"),
            ("week", "boolean"),
            ("limit", "integer"),
        ],
        ..get(
            "/v1/rates",
            "How queues or endpoints move, as this daemon knows it; with `queue` or `url` the series of that one alone: an hour by the minute, with `week` a week by four hours.",
            "RateList|RateSeries",
        )
    },
    Operation {
        query: &[
            ("queue", "string"),
            ("url", "string"),
            ("message_id", "string"),
            ("filter", "string"),
            ("limit", "integer"),
        ],
        ..get(
            "/v1/attempts",
            "The attempt log, newest first; a filter looks at the newest 1000 of them.",
            "AttemptList",
        )
    },
    Operation {
        query: PAGE,
        ..get(
            "/v1/audit",
            "Who did what, why, with what result; newest first.",
            "AuditList",
        )
    },
    Operation {
        query: &[],
        answer: (201, "Pushed"),
        failures: &[413, 415],
        ..post(
            "/v1/types/{type}/events",
            "Push an event, or a list of them under `events`: wholly or not at all.",
            "NewEvent",
            "Pushed",
        )
    },
    Operation {
        query: FILTERED,
        failures: &[404],
        ..get(
            "/v1/types/{type}/events",
            "Events of a type, newest first.",
            "EventList",
        )
    },
    Operation {
        failures: &[404],
        ..get(
            "/v1/types/{type}/events/{reference}",
            "The events of a reference.",
            "EventList",
        )
    },
    Operation {
        method: "delete",
        query: &[
            ("claim_id", "string"),
            ("dry_run", "boolean"),
            ("plan", "string"),
            ("reason", "string"),
        ],
        body: None,
        ..post(
            "/v1/types/{type}/events/{reference}",
            "With `claim_id` the claimed event is done; without it the events of the reference are removed.",
            "Because",
            "EventFinished|Event|EventsChanged",
        )
    },
    post(
        "/v1/types/{type}/events/{reference}/retry",
        "Make it due now; a dead one gets all of its attempts back.",
        "Because",
        "Event",
    ),
    post(
        "/v1/types/{type}/events/{reference}/reschedule",
        "Make it due at a time.",
        "Reschedule",
        "Event",
    ),
    Operation {
        query: FILTERED,
        ..get("/v1/events", "Events of all types, newest first.", "EventList")
    },
    Operation {
        query: &[
            ("kind", "string"),
            ("queue", "string"),
            ("url", "string"),
            ("message_id", "string"),
            ("filter", "string"),
        ],
        ..get(
            "/v1/events/stream",
            "What this daemon does and sees, while it happens, as server-sent events; `kind` and `filter` choose.",
            "EventStream",
        )
    },
    get(
        "/v1/events/counts",
        "How many events there are, by type and state.",
        "EventCountList",
    ),
    post(
        "/v1/events/retry",
        "Make events due now: by ids, or all that a filter finds. More than 1000, or with a rate, become a run.",
        "EventsOrder",
        "EventsChanged|Run",
    ),
    post(
        "/v1/events/reschedule",
        "Make events due at a time, as for retry.",
        "EventsOrder",
        "EventsChanged|Run",
    ),
    post(
        "/v1/events/cancel",
        "Remove events, as for retry.",
        "EventsOrder",
        "EventsChanged|Run",
    ),
    get("/v1/types", "Event types.", "EventTypeList"),
    Operation {
        failures: &[404],
        ..get("/v1/types/{type}", "An event type with its metadata.", "EventType")
    },
    Operation {
        method: "put",
        ..post(
            "/v1/types/{type}",
            "Make an event type, or give it other metadata: the body.",
            "Metadata",
            "EventType",
        )
    },
    Operation {
        failures: &[404],
        ..get(
            "/v1/types/{type}/subscriptions",
            "Who gets the events of a type.",
            "SubscriptionList",
        )
    },
    Operation {
        failures: &[404, 409, 413, 415, 422],
        ..post(
            "/v1/types/{type}/subscriptions",
            "Send the events of a type to a URL.",
            "NewSubscription",
            "Subscription",
        )
    },
    Operation {
        method: "delete",
        query: &[
            ("id", "integer"),
            ("url", "string"),
            ("dry_run", "boolean"),
            ("plan", "string"),
            ("reason", "string"),
        ],
        body: None,
        ..post(
            "/v1/types/{type}/subscriptions",
            "End a subscription.",
            "Because",
            "Subscription",
        )
    },
    Operation {
        query: &[],
        answer: (201, "Claim"),
        failures: &[404, 415],
        ..post(
            "/v1/types/{type}/claims",
            "Claim events: ttl and grace 60 to 43200 seconds, limit 1 to 20; 204 when there is nothing.",
            "NewClaim",
            "Claim",
        )
    },
    Operation {
        failures: &[404],
        ..get("/v1/types/{type}/claims/{claim}", "A claim with its events.", "Claim")
    },
    Operation {
        method: "patch",
        query: &[],
        failures: &[404, 415],
        ..post(
            "/v1/types/{type}/claims/{claim}",
            "Prolong a claim.",
            "NewClaim",
            "Claim",
        )
    },
    Operation {
        method: "delete",
        query: &[],
        body: None,
        failures: &[404, 415],
        ..post(
            "/v1/types/{type}/claims/{claim}",
            "Give the events of a claim back.",
            "Because",
            "Released",
        )
    },
    Operation {
        query: DEAD,
        ..get(
            "/v1/dead",
            "Dead letters of every dead-letter queue of the vhost. A queue that is looked at for the first time, or again, \
             is listed as far as it was seen within 5 s.",
            "DeadLetterList",
        )
    },
    Operation {
        query: DEAD,
        ..get(
            "/v1/dead/groups",
            "Dead letters in groups of those that failed alike, the largest first.",
            "DeadGroupList",
        )
    },
    Operation {
        query: LISTED,
        ..get(
            "/v1/dead/queues",
            "The queues that dead letters are in, the one with the most first: how many, since when, and which queues they \
             come from.",
            "DeadQueueList",
        )
    },
    Operation {
        query: &[
            ("ids", "string"),
            ("queue", "string"),
            ("group", "string"),
            ("filter", "string"),
            ("limit", "integer"),
        ],
        failures: &[404],
        ..get(
            "/v1/dead/compare",
            "What is alike in dead letters and what is not: of two to twenty by their `ids`, with commas between them, or of \
             the first `limit` (50, at most 200) of a queue, group or filter. Values that the masks name are hidden.",
            "DeadComparison",
        )
    },
    Operation {
        query: &[("queue", "string"), ("group", "string"), ("filter", "string")],
        ..get(
            "/v1/dead/export",
            "Dead letters with their messages, a line of JSON each, as many as there are. Behind the last one a line with \
             `problems` says what could not be read, also where the export ended because it took 15 minutes, and one with \
             `problem` why it was broken off.",
            "DeadLetterLine",
        )
    },
    Operation {
        query: &[("since", "string")],
        ..get(
            "/v1/handover",
            "What the next shift has to know: what is wrong, open runs, and what was done in the span `since` (8h).",
            "Handover",
        )
    },
    Operation {
        query: &[("reason", "string")],
        failures: &[404, 409],
        ..post(
            "/v1/alerts/{name}/test",
            "Send a test message to the receiver of this alert.",
            "Because",
            "AlertTested",
        )
    },
    Operation {
        failures: &[404, 409],
        ..get(
            "/v1/dead/{id}",
            "One dead letter with headers, death history, target and body.",
            "DeadLetterDetail",
        )
    },
    post(
        "/v1/dead/redrive",
        "Send dead letters back where they came from, or elsewhere.",
        "Order",
        "Run",
    ),
    post(
        "/v1/dead/discard",
        "Take dead letters out; they can be restored for a while.",
        "Order",
        "Run",
    ),
    post(
        "/v1/dead/restore",
        "Put discarded messages back into their dead-letter queue.",
        "Order",
        "Run",
    ),
    post(
        "/v1/dead/patch",
        "Change many dead letters in the same way, by a JSON patch of their bodies (RFC 6902), a content type or headers: \
         what is sent when they are redriven. All of them, or none.",
        "Patch",
        "Patched",
    ),
    Operation {
        method: "patch",
        ..post(
            "/v1/dead/{id}",
            "Change what is sent instead of a dead letter when it is redriven.",
            "Edit",
            "Edited",
        )
    },
    Operation {
        query: &[],
        failures: &[404, 409, 413, 415],
        ..post(
            "/v1/queues/{name}/browse",
            "Look at the messages at a queue's head; refused near a delivery limit, and while somebody consumes it.",
            "Browse",
            "BrowsedList",
        )
    },
    Operation {
        query: &[("execution_id", "string"), ("url", "string")],
        ..get(
            "/v1/queue-name",
            "The delivery queue of an execution and URL, and how any AMQP client publishes to it.",
            "Addressed",
        )
    },
    get(
        "/v1/audit/verify",
        "Whether the audit is what was written: its chain of hashes, checked.",
        "AuditVerified",
    ),
    get(
        "/v1/doctor",
        "What a daemon finds of broker, rights, plugins, store and clock, each with its fix.",
        "CheckList",
    ),
    get("/v1/jobs", "Jobs whose queues are there.", "JobList"),
    Operation {
        query: &[],
        answer: (201, "Job"),
        failures: &[409, 413, 415],
        ..post("/v1/jobs", "Declare the queues of a new job.", "NewJob", "Job")
    },
    Operation {
        failures: &[404],
        ..get(
            "/v1/jobs/{id}",
            "Whether a job is there; its queues are not used by it.",
            "Job",
        )
    },
    Operation {
        query: &[],
        answer: (202, "JobMessageSent"),
        failures: &[404, 413, 415],
        ..post(
            "/v1/jobs/{id}/messages",
            "A worker's message about its job; answered after the broker's confirm.",
            "JobMessage",
            "JobMessageSent",
        )
    },
    post(
        "/v1/queues/{name}/move",
        "Move every message that is in a queue now to another queue.",
        "Move",
        "Run",
    ),
    post(
        "/v1/queues/{name}/skip",
        "Take the head of a delivery queue to the dead letters, or to the queue's end.",
        "Skip",
        "Run",
    ),
    Operation {
        query: PAGE,
        ..get("/v1/runs", "Runs, newest first.", "RunList")
    },
    Operation {
        query: PAGE,
        failures: &[404],
        ..get("/v1/runs/{id}", "One run, with a page of its items.", "RunWithItems")
    },
    post(
        "/v1/runs/{id}/pause",
        "Stop a run after the window in flight.",
        "Because",
        "Run",
    ),
    post("/v1/runs/{id}/resume", "Continue a run.", "Because", "Run"),
    post(
        "/v1/runs/{id}/cancel",
        "End a run; what is done stays done.",
        "Because",
        "Run",
    ),
    get("/healthz", "The process answers; needs no token.", "Alive"),
    get(
        "/readyz",
        "Whether broker and store can be reached and this process delivers.",
        "Readiness",
    ),
    get("/metrics", "Metrics as Prometheus text.", "Text"),
    get("/openapi.json", "This description.", "Any"),
];
