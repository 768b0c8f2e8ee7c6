//! Queues: list, why, browse, and what an operator does to one.

use crate::domain::id::QueueName;
use crate::domain::naming::{Address, QueueType};
use crate::domain::queue::QueueKind;
use crate::domain::url::EndpointUrl;
use crate::engine::dead::QueueStep;
use crate::engine::query;
use crate::engine::runs::{Order, OrderKind, Selection};
use crate::engine::view::{BrowsedMessage, QueueView};
use crate::engine::{Command, QueuesQuery};
use crate::wire::input;
use crate::wire::queue::{Addressed, Browsed, Queue as QueueShape, Step, WhyAnswer};

use super::Session;
use super::args::Target;
use super::delivery_args::{Queue, Queues, SkipTo};
use super::done::{How, OfRun};
use super::exit::{Exit, Failure};
use super::named;
use super::output::{Column, Output, number, or_dash};
use super::paged::paged;
use super::when::relative_or;
use crate::domain::words::about as span;

const COLUMNS: &[Column] = &[
    Column::Text("queue"),
    Column::Text("kind"),
    Column::Number("ready"),
    Column::Number("unacked"),
    Column::Text("state"),
    Column::Number("oldest"),
    Column::Text("next attempt"),
    Column::Text("owner"),
    Column::Text("endpoint"),
    Column::Text("why"),
];

pub(super) async fn list(session: &Session<'_>, selection: &Queues) -> Result<Exit, Failure> {
    let page = |limit, cursor| {
        query::Queues(QueuesQuery {
            filter: selection.filter.clone(),
            sort: selection.sort.clone(),
            limit,
            cursor,
        })
    };
    let list = paged(
        session,
        selection.limit,
        "queues",
        "raise --limit, or use --filter",
        page,
    )
    .await?;
    let items: Vec<QueueItem<'_>> = list.items.iter().map(QueueItem::of).collect();
    session.output.problems(&list.problems);
    session.output.list(&items, COLUMNS, |item| row(item.view))?;
    Ok(Exit::Done)
}

/// Where any AMQP client publishes, as the daemon of the profile knows it: the names are not in this configuration.
pub(super) async fn address(session: &Session<'_>, target: &Target) -> Result<Exit, Failure> {
    let (execution, url) = (input::execution(&target.execution)?, input::url(&target.url)?);
    let asked = query::DeliveryAddress(execution, url.clone());
    addressed(session.output, session.engine.query(asked).await?, &url)
}

pub(super) fn addressed(output: Output, address: Address, url: &EndpointUrl) -> Result<Exit, Failure> {
    let shape = Addressed::new(address, url);
    let facts = [
        ("queue", Some(shape.queue.clone())),
        ("url", Some(shape.url.clone())),
        ("vhost", Some(shape.vhost.clone())),
        ("exchange", Some(shape.exchange.clone())),
        ("routing key", Some(shape.routing_key.clone())),
        ("wake key", Some(shape.wake_key.to_owned())),
        ("declare", Some("durable, not exclusive, not auto-delete".to_owned())),
        ("arguments", Some(shape.arguments.to_string())),
    ];
    output.facts(&shape, &facts)?;
    Ok(Exit::Done)
}

/// Printed as its shape, shown from its view.
#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct QueueItem<'a> {
    shape: QueueShape,
    #[serde(skip)]
    view: &'a QueueView,
}

impl<'a> QueueItem<'a> {
    fn of(view: &'a QueueView) -> Self {
        Self {
            shape: QueueShape::from(view),
            view,
        }
    }
}

#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct StepItem<'a> {
    shape: Step,
    #[serde(skip)]
    step: &'a QueueStep,
}

/// A delivery queue has a state, which may not be known; others have none.
fn state(view: &QueueView) -> String {
    match view.state {
        Some(state) => state.as_str().to_owned(),
        None if view.kind == QueueKind::Delivery => "?".to_owned(),
        None => "-".to_owned(),
    }
}

fn row(view: &QueueView) -> Vec<String> {
    vec![
        view.name.as_str().to_owned(),
        view.kind.as_str().to_owned(),
        number(view.ready),
        number(view.unacked),
        state(view),
        view.oldest_age.map_or_else(|| "?".to_owned(), span),
        relative_or(view.next_attempt_at, view.taken_at, "-"),
        or_dash(view.owner.as_deref()),
        or_dash(view.url.as_ref().map(crate::domain::url::EndpointUrl::as_str)),
        or_dash(view.why.as_ref().map(|why| why.text.as_str())),
    ]
}

pub(super) async fn one(session: &Session<'_>, queue: &Queue) -> Result<Exit, Failure> {
    let (Queue::Why(named)
    | Queue::Map(named)
    | Queue::Browse { named, .. }
    | Queue::Pause(named)
    | Queue::Resume(named)
    | Queue::Purge(named)
    | Queue::Delete(named)
    | Queue::Rescue(named)
    | Queue::Move { named, .. }
    | Queue::Skip { named, .. }) = queue;
    let found = named::queue(session, named).await?;
    let name = found.queue.clone();
    let (command, how) = match queue {
        Queue::Why(_) => return why(session, name).await,
        Queue::Map(_) => return map(session, name).await,
        Queue::Browse { limit, .. } => return browse(session, name, *limit).await,
        Queue::Pause(_) => (Command::PauseQueue(name), How::ONE),
        Queue::Resume(_) => (Command::ResumeQueue(name), How::ONE),
        Queue::Purge(_) => (Command::PurgeQueue(name), How::ONE),
        Queue::Delete(_) => (Command::DeleteQueue(name), How::ONE),
        Queue::Rescue(_) => (Command::RescueQueue(name), How::ONE),
        Queue::Move { to, rate, detach, .. } => {
            let order = Order {
                to: Some(input::queue(to)?),
                rate: *rate,
                ..Order::new(OrderKind::Move, Selection::Queue(name))
            };
            (Command::Run(order), How::ONE.run(OfRun::started(*detach)))
        }
        Queue::Skip { to, .. } => {
            let order = match to {
                SkipTo::Dead => Order::skip_to_dead(session.engine.naming(), name),
                SkipTo::Tail => Order::skip(name),
            };
            (Command::Run(order), How::ONE.run(OfRun::Followed))
        }
    };
    found.is_enough_for(session, &command)?;
    session.act(command, how).await
}

async fn map(session: &Session<'_>, name: QueueName) -> Result<Exit, Failure> {
    let steps = session.engine.query(query::QueueMap(name)).await?;
    let items: Vec<StepItem<'_>> = steps
        .iter()
        .map(|step| StepItem {
            shape: Step::from(step),
            step,
        })
        .collect();
    let columns = [
        Column::Text("queue"),
        Column::Number("ready"),
        Column::Number("in flight"),
        Column::Number("consumers"),
        Column::Text("messages come by"),
        Column::Text("dead letters go by"),
    ];
    session.output.list(&items, &columns, |item| {
        let step = item.step;
        vec![
            step.name.clone(),
            number(step.ready),
            number(step.unacked),
            number(step.consumers),
            step.comes_by(),
            if step.is_there {
                step.dead_letters()
            } else {
                step.holds()
            },
        ]
    })?;
    Ok(Exit::Done)
}

async fn why(session: &Session<'_>, name: QueueName) -> Result<Exit, Failure> {
    let view = session.engine.query(query::Queue(name)).await?;
    session.output.problems(&view.problems);
    session.output.facts(&WhyAnswer::from(&view), &facts(&view))?;
    Ok(Exit::Done)
}

pub(super) fn facts(view: &QueueView) -> Vec<(&'static str, Option<String>)> {
    let now = view.taken_at;
    let mut facts = vec![
        ("queue", Some(view.name.as_str().to_owned())),
        ("state", Some(state(view)).filter(|state| state != "-")),
        (
            "why",
            view.why
                .as_ref()
                .map(|why| why.text.clone())
                .or_else(|| view.not_delivered()),
        ),
        (
            "until",
            view.why
                .as_ref()
                .and_then(|why| why.until)
                .map(|at| relative_or(Some(at), now, "")),
        ),
        ("endpoint", view.url.as_ref().map(|url| url.as_str().to_owned())),
        ("execution", view.execution.as_ref().map(|id| id.as_str().to_owned())),
        ("ready", Some(number(view.ready))),
        ("unacked", Some(number(view.unacked))),
        ("oldest", view.oldest_age.map(span)),
        ("owner", view.owner.clone()),
        (
            "next attempt",
            view.next_attempt_at.map(|at| relative_or(Some(at), now, "")),
        ),
        ("paused by", view.paused.as_ref().map(|pause| pause.by.clone())),
        ("delivered", view.delivered.map(|count| count.to_string())),
    ];
    if let Some(head) = &view.head {
        facts.push(("head", Some(head.message.as_str().to_owned())));
        facts.push((
            "attempts",
            Some(format!("{} of {}", head.failures, head.attempts_allowed)),
        ));
        facts.push(("last status", head.last_status.map(|status| status.to_string())));
        facts.push(("last error", head.last_error.clone()));
    }
    if let Some(on_broker) = &view.on_broker {
        facts.extend(on_broker.facts().into_iter().map(|(name, text)| (name, Some(text))));
    }
    facts.extend(view.warnings.iter().map(|warning| ("warning", Some(warning.clone()))));
    facts
}

const BROWSED: &[Column] = &[
    Column::Number("no"),
    Column::Text("id"),
    Column::Text("type"),
    Column::Text("content type"),
    Column::Number("bytes"),
    Column::Text("body"),
    Column::Text("problem"),
];

async fn browse(session: &Session<'_>, queue: QueueName, limit: u32) -> Result<Exit, Failure> {
    let naming = session.engine.naming();
    if naming.queue_type == QueueType::Quorum && naming.is_delivery_queue(queue.as_str()) {
        session.output.note(
            "of a delivery queue that is a quorum queue only the first message is looked at: a look at more could change its order",
        );
    }
    let messages = session.engine.query(query::Browse { queue, limit }).await?;
    let items: Vec<BrowsedItem<'_>> = messages.iter().map(BrowsedItem::of).collect();
    session.output.list(&items, BROWSED, |item| {
        let message = &item.message.message;
        vec![
            item.message.position.to_string(),
            or_dash(message.message_id.as_deref()),
            or_dash(message.kind.as_deref()),
            or_dash(message.content_type.as_deref()),
            message.body.len().to_string(),
            crate::domain::text::show_bytes(&message.body, 60),
            or_dash(item.message.foreign.as_deref()),
        ]
    })?;
    Ok(Exit::Done)
}

#[derive(schemars::JsonSchema, serde::Serialize)]
#[serde(transparent)]
struct BrowsedItem<'a> {
    shape: Browsed,
    #[serde(skip)]
    message: &'a BrowsedMessage,
}

impl<'a> BrowsedItem<'a> {
    fn of(message: &'a BrowsedMessage) -> Self {
        Self {
            shape: Browsed::from(message),
            message,
        }
    }
}
