//! Looks up what a detail shows: each part for itself, since each can fail.

use std::time::Duration;

use super::{Link, NOT_CONNECTED, events};
use crate::console::state::detail::{
    ATTEMPTS_BRIEF, ATTEMPTS_MAX, About, Compared, DetailAnswer, DetailQuery, Extent, Subject,
};
use crate::console::state::inquire::inquire;
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::run::ItemState;
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::engine::EngineHandle;
use crate::engine::dead::{DeadCompareQuery, DeadDetail, DeadSelection};
use crate::engine::query;
use crate::engine::query::{AttemptQuery, PolicyScope};
use crate::engine::runs::{RunDetail, RunView};
use crate::engine::view::{AttemptView, BrowsedMessage, EndpointView, QueueView};

/// Items of a run that are read at once, and looked through for those that failed.
const ITEMS_PAGE: u32 = 500;
const ITEMS_MAX: usize = 5_000;
/// How long a look at the queue of a dead letter is waited for.
const LETTER_PATIENCE: Duration = Duration::from_secs(2);
/// Letters of a group that are compared.
const COMPARED_MAX: u32 = 50;
/// How long they are read; what was not read by then is not compared.
const COMPARED_PATIENCE: Duration = Duration::from_secs(8);
/// Messages that are shown from the head of a queue.
const MESSAGES_MAX: u32 = 20;

/// The answer to `query`, asked at `now`.
pub(super) async fn up(link: Option<Link>, query: DetailQuery, now: Timestamp) -> DetailAnswer {
    let Some(link) = link else {
        return not_connected(query, now);
    };
    let engine = &link.engine;
    let limit = match query.extent {
        Extent::Brief => ATTEMPTS_BRIEF,
        Extent::Whole | Extent::WithMessages | Extent::WithMap => ATTEMPTS_MAX,
    };
    match query.subject {
        Subject::Queue(name) => of_queue(engine, name, (query.extent, limit), now).await,
        Subject::Endpoint(url) => of_endpoint(engine, url, limit, now).await,
        Subject::Policy(scope) => DetailAnswer {
            about: Some(policy(engine, scope.clone()).await),
            ..DetailAnswer::nothing(Subject::Policy(scope), now)
        },
        Subject::Run(id) => DetailAnswer {
            about: Some(run(engine, &id).await.map(|run| About::Run(Box::new(run)))),
            ..DetailAnswer::nothing(Subject::Run(id), now)
        },
        Subject::Letter(id) => of_letter(engine, id, now).await,
        Subject::Compared(compared) => DetailAnswer {
            about: Some(comparison(engine, &compared).await),
            ..DetailAnswer::nothing(Subject::Compared(compared), now)
        },
        Subject::Event(id) => DetailAnswer {
            about: Some(
                events::event(engine, id)
                    .await
                    .map(|event| About::Event(Box::new(event))),
            ),
            ..DetailAnswer::nothing(Subject::Event(id), now)
        },
        Subject::EventType(name) => DetailAnswer {
            about: Some(
                events::event_type(engine, name.clone())
                    .await
                    .map(|found| About::EventType(Box::new(found))),
            ),
            ..DetailAnswer::nothing(Subject::EventType(name), now)
        },
    }
}

/// A dead letter with the attempts that its message had.
async fn of_letter(engine: &EngineHandle, id: String, now: Timestamp) -> DetailAnswer {
    let letter = letter(engine, id.clone()).await;
    let message = letter.as_ref().ok().and_then(|letter| letter.letter.message_id.clone());
    let message = message.and_then(|message| NotificationId::parse(&message).ok());
    let attempts = match message {
        Some(message) => {
            let of_this = AttemptQuery {
                queue: None,
                url: None,
                message: Some(message),
                limit: ATTEMPTS_MAX,
            };
            attempts(engine, of_this).await
        }
        None => Ok(Vec::new()),
    };
    DetailAnswer {
        attempts,
        about: Some(letter.map(About::Letter)),
        ..DetailAnswer::nothing(Subject::Letter(id), now)
    }
}

async fn letter(engine: &EngineHandle, id: String) -> Result<Box<DeadDetail>, String> {
    let query = query::OneDeadLetter {
        id,
        patience: LETTER_PATIENCE,
    };
    inquire(engine, query).await.map(Box::new)
}

async fn comparison(engine: &EngineHandle, compared: &Compared) -> Result<About, String> {
    let (ids, selection) = match compared {
        Compared::Letters(ids) => (ids.clone(), DeadSelection::default()),
        Compared::Group { fingerprint, filter } => {
            let selection = DeadSelection {
                queue: None,
                group: Some(fingerprint.clone()),
                filter: filter.clone(),
            };
            (Vec::new(), selection)
        }
    };
    let query = DeadCompareQuery {
        ids,
        selection,
        limit: COMPARED_MAX,
        patience: COMPARED_PATIENCE,
    };
    let found = inquire(engine, query::CompareDead(query)).await?;
    Ok(About::Compared(Box::new(found)))
}

/// A run without its items.
pub(super) async fn outcome(engine: &EngineHandle, id: &str) -> Result<RunView, String> {
    let query = query::Run {
        id: id.to_owned(),
        after: None,
        limit: 1,
    };
    Ok(inquire(engine, query).await?.run)
}

/// A run with its first items; where some failed, those stand before the others.
async fn run(engine: &EngineHandle, id: &str) -> Result<RunDetail, String> {
    let page = async |after| {
        let query = query::Run {
            id: id.to_owned(),
            after,
            limit: ITEMS_PAGE,
        };
        inquire(engine, query).await
    };
    let mut found = page(None).await?;
    let counts = found.run.record.counts;
    let mut next = found.next_after.filter(|_| counts.failed + counts.skipped > 0);
    while let Some(after) = next.filter(|_| found.items.len() < ITEMS_MAX) {
        let more = page(Some(after)).await?;
        next = more.next_after;
        found.items.extend(more.items);
        found.next_after = next;
    }
    // What did not go well stands first.
    found.items.sort_by_key(|item| {
        !matches!(
            item.item.state,
            ItemState::Failed | ItemState::Returned | ItemState::Skipped
        )
    });
    Ok(found)
}

async fn policy(engine: &EngineHandle, scope: PolicyScope) -> Result<About, String> {
    let view = inquire(engine, query::Policy(scope.clone()));
    // The configuration's own has no versions.
    let versions = async {
        if scope == PolicyScope::default() {
            return Ok(Vec::new());
        }
        let page = inquire(engine, query::PolicyHistory(scope.clone())).await?;
        Ok(page.items)
    };
    let (view, history) = tokio::try_join!(view, versions)?;
    let view = Box::new(view);
    Ok(About::Policy { view, history })
}

async fn of_queue(
    engine: &EngineHandle,
    name: QueueName,
    (extent, limit): (Extent, u32),
    now: Timestamp,
) -> DetailAnswer {
    let with_endpoint = async {
        let queue = queue(engine, name.clone()).await;
        let url = queue.as_ref().ok().and_then(|queue| queue.url.clone());
        let endpoint = match url {
            Some(url) => Some(endpoint(engine, url).await),
            None => None,
        };
        (queue, endpoint)
    };
    let of_this = AttemptQuery {
        queue: Some(name.clone()),
        url: None,
        message: None,
        limit,
    };
    let head = async {
        if extent == Extent::WithMessages {
            Some(messages(engine, name.clone()).await)
        } else {
            None
        }
    };
    let way = async {
        if extent == Extent::WithMap {
            Some(inquire(engine, query::QueueMap(name.clone())).await)
        } else {
            None
        }
    };
    let ((queue, endpoint), attempts, messages, map) =
        tokio::join!(with_endpoint, attempts(engine, of_this), head, way);
    DetailAnswer {
        subject: Subject::Queue(name),
        taken_at: now,
        queue: Some(queue),
        endpoint,
        attempts,
        messages,
        map,
        about: None,
    }
}

async fn of_endpoint(engine: &EngineHandle, url: EndpointUrl, limit: u32, now: Timestamp) -> DetailAnswer {
    let of_this = AttemptQuery {
        queue: None,
        url: Some(url.clone()),
        message: None,
        limit,
    };
    let (endpoint, attempts) = tokio::join!(endpoint(engine, url.clone()), attempts(engine, of_this));
    DetailAnswer {
        subject: Subject::Endpoint(url),
        taken_at: now,
        queue: None,
        endpoint: Some(endpoint),
        attempts,
        messages: None,
        map: None,
        about: None,
    }
}

async fn queue(engine: &EngineHandle, name: QueueName) -> Result<QueueView, String> {
    inquire(engine, query::Queue(name)).await
}

async fn endpoint(engine: &EngineHandle, url: EndpointUrl) -> Result<EndpointView, String> {
    inquire(engine, query::Endpoint(url)).await
}

async fn attempts(engine: &EngineHandle, query: AttemptQuery) -> Result<Vec<AttemptView>, String> {
    let page = inquire(engine, query::Attempts(query)).await?;
    Ok(page.items)
}

async fn messages(engine: &EngineHandle, queue: QueueName) -> Result<Vec<BrowsedMessage>, String> {
    let limit = MESSAGES_MAX;
    inquire(engine, query::Browse { queue, limit }).await
}

fn not_connected(query: DetailQuery, now: Timestamp) -> DetailAnswer {
    let why = || NOT_CONNECTED.to_owned();
    let is_queue = matches!(query.subject, Subject::Queue(_));
    let is_endpoint = matches!(query.subject, Subject::Endpoint(_));
    DetailAnswer {
        queue: is_queue.then(|| Err(why())),
        endpoint: is_endpoint.then(|| Err(why())),
        attempts: Err(why()),
        messages: (is_queue && query.extent == Extent::WithMessages).then(|| Err(why())),
        about: (!is_queue && !is_endpoint).then(|| Err(why())),
        ..DetailAnswer::nothing(query.subject, now)
    }
}
