//! The event table of the demo: three types that do well, badly and later, and jobs whose results nobody fetches.
//!
//! `price-sync` has a handler that fails for some references until they are dead; `contract-end` is dated some
//! minutes ahead; `hr-import` waits for somebody who claims it. Their number is bounded by the references that
//! there are. Left out on purpose: no notification comes of an event, so that the ledger's numbers stay its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, Clock};
use crate::domain::event::{Event, EventType, NewEvent, Reference};
use crate::domain::job::{JobId, JobPart, Lifetime};
use crate::engine::events::{EventCommand, EventHandler, Handled};
use crate::engine::{Access, Command, Engine};

const PRICE: &str = "price-sync";
const CONTRACT: &str = "contract-end";
const PEOPLE: &str = "hr-import";

/// References of a type: a push of one that waits is folded into it.
const PRICES: u64 = 60;
const CONTRACTS: u64 = 24;
const EMPLOYEES: u64 = 18;
/// Every so many references fail: the first kind for good, the second the first time.
const FAILS_EVERY: u64 = 11;
const HICCUPS_EVERY: u64 = 5;
/// How far ahead contracts end.
const ENDS_AFTER: Duration = Duration::from_secs(40);
/// A job is submitted every so many steps, and its results are kept so long.
const JOB_EVERY: u64 = 25;
const JOB_LIVES: Duration = Duration::from_mins(3);

/// What is known of the types before the first event.
const TYPES: [(&str, &str); 3] = [
    (
        PRICE,
        r#"{"_cutoff":3,"_backoff_base":2,"_backoff_cap":8,"_history_ttl":3600,"owner":"pricing"}"#,
    ),
    (CONTRACT, r#"{"_history_ttl":3600}"#),
    (PEOPLE, r#"{"_coalesce_window":5,"owner":"people team"}"#),
];

/// Takes the events of the types that have a handler; before the engine runs.
pub(super) fn handle(engine: &Engine, clock: &Clock) -> anyhow::Result<()> {
    for name in [PRICE, CONTRACT] {
        let handler = Handler { clock: clock.clone() };
        engine.handle_events(event_type(name)?, Arc::new(handler));
    }
    Ok(())
}

/// Writes what is known of the types.
pub(super) async fn prepare(engine: &Engine) -> anyhow::Result<()> {
    let grant = Access::Operator.grant("demo", None).context("the demo may write")?;
    for (name, document) in TYPES {
        let command = EventCommand::SetType {
            event_type: event_type(name)?,
            document: document.to_owned(),
        };
        let plan = engine.plan(Command::Events(command)).await?;
        engine.execute(&plan, &grant).await?;
    }
    Ok(())
}

/// Pushes events and submits jobs until `quiet`.
pub(super) async fn play(engine: Engine, clock: Clock, step: Duration, quiet: CancellationToken) {
    for number in 0_u64.. {
        if quiet.is_cancelled() {
            return;
        }
        if let Err(error) = push(&engine, &clock, number).await {
            tracing::warn!(error = ?error, "a demo event is not pushed");
        }
        if number % JOB_EVERY == 3
            && let Err(error) = submit(&engine, number).await
        {
            tracing::warn!(error = ?error, "a demo job is not submitted");
        }
        ambient::wait(&quiet, step).await;
    }
}

async fn push(engine: &Engine, clock: &Clock, number: u64) -> anyhow::Result<()> {
    let price =
        json!({"sku": format!("SKU-{:03}", number % PRICES), "price_cents": 990 + number % 700, "currency": "EUR"});
    let mut events = vec![event(PRICE, &format!("sku-{:03}", number % PRICES), &price)?];
    if number.is_multiple_of(3) {
        let id = number / 3 % CONTRACTS;
        let contract = json!({"contract": id, "change": "end_date"});
        events.push(NewEvent {
            nbf: Some(clock.now().plus(ENDS_AFTER).plus(Duration::from_secs(id * 7))),
            ..event(CONTRACT, &format!("contract-{id:02}"), &contract)?
        });
    }
    if number.is_multiple_of(4) {
        let id = number / 4 % EMPLOYEES;
        let employee = json!({"employee": 4_700 + id, "change": "manager", "to": 4_700 + (id * 7) % EMPLOYEES});
        events.push(NewEvent {
            reason: Some(format!("message: queue=q_hr, jti={}", ambient::new_id())),
            ..event(PEOPLE, &format!("employee-{}", 4_700 + id), &employee)?
        });
    }
    engine.events_push(events).await?;
    Ok(())
}

/// Nobody comes for the result: it is lost when its time is over.
async fn submit(engine: &Engine, number: u64) -> anyhow::Result<()> {
    let id = JobId::parse(&ambient::new_id())?;
    engine.job_submit(id.clone(), Lifetime::of(JOB_LIVES)?).await?;
    let kind = || Some("application/json".to_owned());
    for percent in [20, 60, 100] {
        let progress = Bytes::from(json!({ "percent": percent }).to_string());
        engine.job_publish(&id, JobPart::Progress, kind(), progress).await?;
    }
    let result = Bytes::from(json!({"report": format!("sales-{number}"), "rows": 120 + number}).to_string());
    engine.job_publish(&id, JobPart::Result, kind(), result).await?;
    Ok(())
}

fn event(name: &str, reference: &str, payload: &serde_json::Value) -> anyhow::Result<NewEvent> {
    Ok(NewEvent {
        event_type: event_type(name)?,
        reference: Reference::parse(reference)?,
        nbf: None,
        reason: None,
        payload: Some(Bytes::from(payload.to_string())),
        lifetime: None,
        trace: None,
    })
}

fn event_type(name: &str) -> anyhow::Result<EventType> {
    Ok(EventType::parse(name)?)
}

/// Fails for some references, and sees some contracts again later.
struct Handler {
    clock: Clock,
}

#[async_trait]
impl EventHandler for Handler {
    async fn handle(&self, event: &Event) -> Handled {
        let digits = event.reference.as_str().rsplit('-').next().unwrap_or_default();
        let number: u64 = digits.parse().unwrap_or(0);
        let prices = event.event_type.as_str() == PRICE;
        if prices && number % FAILS_EVERY == 4 {
            return Handled::Failed(format!("no price list for sku {number}"));
        }
        if prices && number % HICCUPS_EVERY == 2 && event.attempts == 0 {
            return Handled::Failed("price service: connection refused".to_owned());
        }
        if !prices && number.is_multiple_of(6) {
            let again = self.clock.now().plus(Duration::from_mins(5));
            return Handled::Requeue(again, "end_date=2026-12-31".to_owned());
        }
        Handled::Done
    }
}
