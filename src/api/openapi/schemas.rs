//! The documents that are sent and answered, as a table.

/// Name, and keys with their types. `?` may be null, `[x]` is a list, a capital letter begins a
/// schema's name, `*` is a required key of an input.
pub(super) const SCHEMAS: &[(&str, &str)] = &[
    (
        "NewNotification",
        "execution_id:string* url:string* headers:object body:any body_base64:string polling_time:integer \
         restart_count:integer id:string",
    ),
    ("Published", "id:string queue:string warning:string"),
    ("Ended", "id:string? queue:string marked:boolean warning:string"),
    ("Url", "url:string*"),
    ("Browse", "limit:integer"),
    (
        "Browsed",
        "position:integer message_id:string? type:string? execution_id:string? url:string? content_type:string? \
         timestamp:time? headers:[any] body_bytes:integer body_truncated:boolean body:string? body_base64:string? \
         foreign:string? redelivered:boolean",
    ),
    ("BrowsedList", "items:[Browsed] taken_at:time?"),
    (
        "Addressed",
        "queue:string url:string vhost:string exchange:string routing_key:string wake_key:string declare:object \
         arguments:object",
    ),
    (
        "AuditVerified",
        "intact:boolean lines:integer newest:integer removed:integer removed_to:integer? removed_at:time? \
         broken_at:integer? problem:string?",
    ),
    ("Check", "name:string result:string found:string mend:string?"),
    ("CheckList", "items:[Check] taken_at:time?"),
    ("NewJob", "id:string ttl_s:number?"),
    ("JobQueues", "result:string progress:string status:string"),
    ("Job", "id:string queues:JobQueues ttl_s:number?"),
    (
        "JobListed",
        "id:string queues:JobQueues ttl_s:number? messages:integer? consumers:integer idle_s:number? parts:[string]",
    ),
    ("JobList", "items:[JobListed] taken_at:time?"),
    (
        "JobMessage",
        "part:string* content_type:string body:any body_base64:string",
    ),
    ("JobMessageSent", "id:string queue:string"),
    ("Because", "reason:string"),
    ("AlertTested", "alert:string taken:boolean"),
    (
        "Handover",
        "since:time? taken_at:time? endpoints:[Endpoint]? queues:[Queue]? dead:DeadTotal? dead_groups:[DeadGroup]? \
         runs:[Run]? audit:[Audit]? problems:[Unread]",
    ),
    (
        "Redeliver",
        "url:string all:boolean reason:string rate:integer canary:integer canary_watch_s:integer ramp:integer \
         ramp_every_s:integer stop_after:integer",
    ),
    (
        "Pace",
        "url:string reason:string release:boolean rate:integer canary:integer canary_watch_s:integer ramp:integer \
         ramp_every_s:integer stop_after:integer",
    ),
    ("Test", "url:string method:string reason:string"),
    (
        "Redelivered",
        "url:string was_unavailable:boolean before:string queues:integer",
    ),
    (
        "Queue",
        "name:string kind:string execution_id:string? url:string? ready:integer? unacked:integer? \
         state:string? why:Why? owner:string? oldest_age_s:integer? next_attempt_at:time? paused:boolean \
         pause:Pause? head:Head? delivered:integer? warnings:[string] findings:[Finding] \
         broker:OnBroker taken_at:time? problems:[Unread]",
    ),
    ("Why", "code:string text:string until:time?"),
    (
        "Expiring",
        "name:string ttl_s:number? idle_s:number? expires_at:time? estimated:boolean consumers:integer? \
         messages:integer? bytes:integer? kind:string over:boolean extends:string? extends_not:string? seen_at:time?",
    ),
    (
        "ExpiringOrder",
        "queue:string queues:[string] reason:string drop:boolean ttl_s:number save:string saves:[string] to:string",
    ),
    (
        "ExpiringOutcome",
        "name:string result:string why:string? save:string? messages:integer bytes:integer expires_at:time?",
    ),
    (
        "Save",
        "id:string queue:string cause:string state:string actor:string reason:string? messages:integer bytes:integer \
         left:integer at:time? until:time?",
    ),
    (
        "SaveList",
        "items:[Save] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "OnBroker",
        "type:string? state:string? node:string? consumers:integer? consumer_list:[QueueConsumer] in_a_second:number? \
         out_a_second:number? settled_a_second:number? idle_since:time? arguments:object policy:string? \
         operator_policy:string? in_force:object bindings:[QueueBinding]",
    ),
    (
        "QueueConsumer",
        "tag:string connection:string? prefetch:integer? settles:boolean? active:boolean?",
    ),
    ("QueueBinding", "exchange:string key:string"),
    ("Finding", "code:string effect:string mend:string"),
    ("Pause", "by:string reason:string? at:time?"),
    (
        "Head",
        "message_id:string attempts:integer of:integer phase:string? first_failed_at:time? \
         last_failed_at:time? status:integer? error:string? next_attempt_at:time? parked:boolean",
    ),
    (
        "WhyAnswer",
        "name:string state:string? why:Why? code:string? text:string? until:time? url:string? \
         owner:string? next_attempt_at:time? head:Head? warnings:[string] broker:OnBroker taken_at:time? problems:[Unread]",
    ),
    ("Purged", "name:string purged:boolean messages:integer"),
    ("Deleted", "name:string deleted:boolean messages:integer"),
    ("VhostMade", "vhost:string made:boolean"),
    ("Rescued", "name:string rescued:boolean id:integer"),
    (
        "Endpoint",
        "url:string state:string since:time? attempts:integer next_attempt_at:time? last_status:integer? \
         last_error:string? last_success_at:time? probe_queue:string? probe_message_id:string? \
         queues:integer waiting:integer? pace:EndpointPace problems:[Unread]",
    ),
    (
        "EndpointPace",
        "stage:string text:string rate:integer? rate_now:integer? ramp:integer? ramp_every_s:integer? canary:integer? \
         canary_watch_s:integer? stop_after:integer? failed:integer by:string? paused_by:string? since:time? \
         empty_in_s:integer?",
    ),
    (
        "Tested",
        "url:string method:string class:string status:integer? error:string? duration_ms:integer",
    ),
    (
        "Rate",
        "queue:string? url:string? waiting:integer? in_per_s:number out_per_s:number failed_share:number? p50_ms:integer? \
         p95_ms:integer? p99_ms:integer? empty_in_s:integer? out_by_minute:[integer]",
    ),
    (
        "RateList",
        "items:[Rate] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "RatePoint",
        "at:time? depth:integer? in:integer out:integer failed:integer p50_ms:integer? p95_ms:integer? p99_ms:integer?",
    ),
    ("RateSeries", "step_s:integer taken_at:time? points:[RatePoint]"),
    (
        "Retry",
        "at:time? queue:string? url:string? message_id:string? phase:string? attempt:integer of:integer",
    ),
    (
        "Attempt",
        "message_id:string queue:string url:string attempt:integer started_at:time? duration_ms:integer \
         class:string status:integer? error:string? response:string? counted:boolean epoch:integer",
    ),
    (
        "Audit",
        "id:integer at:time? actor:string command:string target:string reason:string? plan:string? \
         result:string detail:string broker:string? hash:string",
    ),
    (
        "Event",
        "id:integer type:string subtype:string shown_type:string reference:string nbf:time? created_at:time? \
         first_at:time? attempts:integer reason:string? state:string revision:integer merged:integer payload:any \
         payload_base64:string properties:any expires_at:time? claim_count:integer claim_history:[string] \
         origin:string? first_failed_at:time? last_failed_at:time? lease:EventLease?",
    ),
    ("EventFinished", "reference:string result:string"),
    ("EventsChanged", "events:[Event] skipped:[EventSkipped]"),
    ("EventSkipped", "id:integer why:string"),
    ("EventLease", "owner:integer? claim_id:string? until:time?"),
    (
        "NewEvent",
        "reference:string nbf:any reason:string payload:any payload_base64:string ttl:integer events:[NewEvent]",
    ),
    (
        "Pushed",
        "id:integer type:string subtype:string reference:string revision:integer result:string items:[Pushed]",
    ),
    (
        "EventCount",
        "type:string state:string count:integer due:integer first_nbf:time? oldest_created_at:time?",
    ),
    (
        "EventType",
        "name:string metadata:object created_at:time? updated_at:time?",
    ),
    (
        "Metadata",
        "_max_claim_count:integer _dead_letter_queue:string _dead_letter_queue_messages_ttl:integer \
         _retry_policy:object _cutoff:integer _backoff_base:integer _backoff_cap:integer \
         _coalesce_window:integer _coalesce_window_max:integer _history_ttl:integer",
    ),
    ("NewSubscription", "url:string* options:object reason:string"),
    (
        "Subscription",
        "id:integer type:string url:string options:object created_at:time?",
    ),
    ("NewClaim", "ttl:integer grace:integer limit:integer"),
    ("Claim", "id:string type:string expires_at:time? events:[Event]"),
    ("Released", "id:string released:integer"),
    ("Reschedule", "at:any nbf:any reason:string"),
    (
        "EventList",
        "items:[Event] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "EventCountList",
        "items:[EventCount] next_cursor:string? taken_at:time?",
    ),
    ("EventTypeList", "items:[EventType] next_cursor:string? taken_at:time?"),
    (
        "SubscriptionList",
        "items:[Subscription] next_cursor:string? taken_at:time?",
    ),
    (
        "QueueList",
        "items:[Queue] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "EndpointList",
        "items:[Endpoint] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "ExpiringList",
        "items:[Expiring] next_cursor:string? taken_at:time? total:integer soon_queues:integer soon_messages:integer",
    ),
    (
        "RetryList",
        "items:[Retry] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "AttemptList",
        "items:[Attempt] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "AuditList",
        "items:[Audit] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "RetryPolicy",
        "retries_with_no_delay:integer minimum_delay_retries:integer minimum_delay:integer \
         maximum_delay:integer maximum_delay_retries:integer retry_backoff_function:string \
         backoff_retries:integer jitter:number on_exhausted:string on_refused:string \
         slow_start:integer slow_start_interval:integer slow_start_maximum:integer \
         ignore_subscription_override:boolean",
    ),
    (
        "Policy",
        "type:string? url:string? version:integer? author:string? at:time? policy:RetryPolicy? source:string \
         effective:RetryPolicy retries:integer attempts:integer total_s:integer",
    ),
    (
        "PolicyList",
        "items:[Policy] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "PolicyVersion",
        "version:integer author:string at:time? policy:RetryPolicy? attempts:integer? total_s:integer?",
    ),
    (
        "PolicyHistory",
        "items:[PolicyVersion] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    ("RestorePolicy", "version:integer* reason:string"),
    (
        "PolicyPreview",
        "delays_s:[integer] retries:integer attempts:integer total_s:integer phases:[PolicyPhase] \
         policy:RetryPolicy before:PolicyTotals backlog:PolicyBacklog",
    ),
    ("PolicyPhase", "phase:string retries:integer delays_s:[integer]"),
    ("PolicyTotals", "retries:integer attempts:integer total_s:integer"),
    (
        "PolicyBacklog",
        "waiting:integer sooner:integer later:integer unchanged:integer going_on:integer parked:integer \
         dead_lettered:integer in_attempt:integer items:[PolicyBacklogItem]",
    ),
    (
        "PolicyBacklogItem",
        "queue:string url:string probes:boolean attempt:integer of_before:integer of:integer \
         next_attempt_at_before:time? next_attempt_at:time? then:string",
    ),
    (
        "Plan",
        "command:string title:string lines:[PlanLine] warnings:[string] messages:integer? \
         destroys:boolean hash:string run:RunPlan plan_id:string expires_at:time?",
    ),
    (
        "DeadLetter",
        "id:string home:string queue:string position:integer origin:string? message_id:string? url:string? \
         execution_id:string? reason:string class:string? status:integer? error:string? attempts:integer? \
         first_failed_at:time? last_failed_at:time? expires_at:time? redriven:integer fingerprint:string \
         where:string what:string size_bytes:integer begins:string? redelivered:boolean broker:string?",
    ),
    (
        "DeadLetterDetail",
        "id:string home:string queue:string position:integer origin:string? message_id:string? url:string? \
         execution_id:string? reason:string class:string? status:integer? error:string? attempts:integer? \
         first_failed_at:time? last_failed_at:time? expires_at:time? redriven:integer fingerprint:string \
         where:string what:string size_bytes:integer begins:string? redelivered:boolean broker:string? deaths:[Death] target:DeadTarget policy:string? \
         response:string? content_type:string? type:string? timestamp:time? correlation_id:string? \
         reply_to:string? app_id:string? headers:[Any] whole:boolean body:string? body_base64:string?",
    ),
    (
        "Death",
        "queue:string? reason:string? count:integer? exchange:string? routing_keys:[string] at:time? \
         original_expiration:string?",
    ),
    (
        "DeadTarget",
        "queue:string? exchange:string? routing_key:string? problem:string?",
    ),
    (
        "DeadGroup",
        "fingerprint:string where:string what:string count:integer first_failed_at:time? last_failed_at:time? \
         last_hour:integer hour_before:integer trend:string",
    ),
    (
        "DeadComparison",
        "letters:[string] more:boolean places:[DeadPlace] left_out:integer problems:[Unread]",
    ),
    ("DeadPlace", "place:string different:integer? values:[DeadValue]"),
    ("DeadValue", "value:string? letters:integer"),
    (
        "DeadQueue",
        "name:string kind:string? consumed:boolean ready:integer? messages:integer? looked_at:time? looking:boolean \
         seen:integer? expected:integer? problem:string?",
    ),
    (
        "DeadQueueRow",
        "name:string kind:string? consumed:boolean ready:integer? messages:integer? looked_at:time? looking:boolean \
         seen:integer? expected:integer? problem:string? letters:integer? first_failed_at:time? last_failed_at:time? \
         fed_by:[DeadFeeder]",
    ),
    (
        "DeadFeeder",
        "queue:string exchange:string? routing_key:string? certain:boolean letters:integer",
    ),
    (
        "DeadQueueList",
        "items:[DeadQueueRow] next_cursor:string? taken_at:time? as_of:time? total:DeadTotal problems:[Unread]",
    ),
    (
        "DeadLetterList",
        "items:[DeadLetter] next_cursor:string? taken_at:time? as_of:time? queues:[DeadQueue] total:DeadTotal problems:[Unread]",
    ),
    (
        "DeadGroupList",
        "items:[DeadGroup] next_cursor:string? taken_at:time? as_of:time? queues:[DeadQueue] total:DeadTotal problems:[Unread]",
    ),
    ("DeadTotal", "letters:integer? queues:integer events:integer?"),
    ("Unread", "source:string reason:string since:time?"),
    ("PlanLine", "target:string now:string effect:string"),
    (
        "Edit",
        "body:any body_base64:string content_type:string headers:object reason:string",
    ),
    (
        "Patch",
        "ids:[string] group:string filter:string patch:[Any] content_type:string headers:object reason:string",
    ),
    ("Patched", "patched:integer"),
    ("Edited", "id:string queue:string edited:boolean size_bytes:integer"),
    ("Move", "to:string* rate:integer reason:string"),
    ("Skip", "to:string reason:string"),
    (
        "EventsOrder",
        "ids:[integer] filter:string rate:integer at:string reason:string",
    ),
    (
        "Order",
        "ids:[string] group:string filter:string all:boolean rate:integer to:string via:string canary:integer canary_watch_s:integer ramp:integer head:boolean reason:string",
    ),
    (
        "Run",
        "id:string command:string state:string phase:string done:integer failed:integer skipped:integer total:integer \
         rate:integer? canary:integer? actor:string reason:string? note:string? owner:string? broker:string? eta_s:integer? \
         created_at:time? started_at:time? updated_at:time? ended_at:time?",
    ),
    (
        "RunWithItems",
        "id:string command:string state:string phase:string done:integer failed:integer skipped:integer total:integer \
         rate:integer? canary:integer? actor:string reason:string? note:string? owner:string? broker:string? eta_s:integer? \
         created_at:time? started_at:time? updated_at:time? ended_at:time? \
         plan:any items:[RunItem] next_cursor:string?",
    ),
    (
        "RunItem",
        "id:string queue:string target:string? state:string reason:string? dropped:any",
    ),
    (
        "RunList",
        "items:[Run] next_cursor:string? taken_at:time? problems:[Unread]",
    ),
    (
        "RunPlan",
        "id:string total:integer refused:integer size_bytes:integer oldest_at:time? newest_at:time? \
         dropped_headers:[string] samples:[string] estimated_s:integer? receivers:[Receivers]",
    ),
    (
        "Receivers",
        "exchange:string routing_key:string keys:integer messages:integer via:string bound:[string] get:[string] \
         says:string",
    ),
    ("Alive", "status:string"),
    ("Part", "ok:boolean problem:string? since:time?"),
    ("Degraded", "part:string problem:string since:time?"),
    (
        "Readiness",
        "ready:boolean broker:Part store:Part delivering:Part management:Part degraded:[Degraded]",
    ),
    (
        "Problem",
        "type:string title:string status:integer detail:string field:string nearest:string id:string \
         retry_after_s:integer",
    ),
];
