//! What became of one notification, from what is on record of its id: the head of a queue, its attempts, dead letters.
//!
//! Nothing is walked: one that was never attempted is in no record, and its queue alone says what waits before it.

use std::fmt::Write as _;
use std::time::Duration;

use super::dead::{DeadListQuery, DeadSelection};
use super::view::{AttemptView, QueueView, Unread};
use super::{Engine, EngineError};
use crate::domain::dead_letter::DeadLetter;
use crate::domain::id::{NotificationId, QueueName};
use crate::domain::named::named;
use crate::domain::outcome::OutcomeClass;
use crate::domain::queue::QueueState;
use crate::domain::text::{shell_argument, show};
use crate::domain::time::Timestamp;
use crate::domain::words;
use crate::store::{AttemptQuery, QueueQuery, QueuesOnly};

/// Attempts that are told, the newest.
const ATTEMPTS: u32 = 20;
/// Dead letters of one id that are told; more are copies that somebody else made.
const LETTERS: u32 = 10;
/// Queues of which an id is the head that are looked through.
const HEADS: u32 = 10;
/// How long looks at dead letters are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of a name or an error in a sentence.
const SHOWN: usize = 200;

/// Where a notification stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum NotificationState {
    /// Its receiver answered with a 2xx.
    Delivered,
    /// It failed, is the head of its queue, and is tried again.
    Waiting,
    /// The same, and nothing is tried before a person acts.
    Parked,
    /// It is a dead letter.
    Dead,
    /// It was attempted, and is none of these at present.
    Attempted,
    /// Nothing is on record of it, and messages wait in the queue that was asked about.
    Untried,
}

named! {
    /// As printed.
    NotificationState {
        Self::Delivered => "delivered",
        Self::Waiting => "waiting",
        Self::Parked => "parked",
        Self::Dead => "dead",
        Self::Attempted => "attempted",
        Self::Untried => "untried",
    }
}

/// What became of a notification.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NotificationView {
    /// Its id.
    pub id: NotificationId,
    /// Where it stands.
    pub state: NotificationState,
    /// The same as a sentence for people.
    pub text: String,
    /// Its attempts, newest first, as far as they are told.
    pub attempts: Vec<AttemptView>,
    /// Its queue, where it waits there as the head, or may wait behind it.
    pub queue: Option<Box<QueueView>>,
    /// The dead letters that it is.
    pub letters: Vec<DeadLetter>,
    /// When it was asked for.
    pub taken_at: Timestamp,
    /// What could not be read.
    pub problems: Vec<Unread>,
}

impl NotificationView {
    /// The delivery queue, as far as anything on record names it.
    #[must_use]
    pub fn queue_name(&self) -> Option<&str> {
        let queue = self.queue.as_ref().map(|queue| queue.name.as_str());
        let attempted = || self.attempts.first().map(|attempt| attempt.queue.as_str());
        let died = || self.letters.first().and_then(|letter| letter.origin.as_deref());
        queue.or_else(attempted).or_else(died)
    }

    /// When its receiver had it.
    #[must_use]
    pub fn delivered_at(&self) -> Option<Timestamp> {
        let last = self.attempts.first()?;
        let is_delivered = self.state == NotificationState::Delivered;
        is_delivered.then(|| last.started_at.plus(Duration::from_millis(last.duration_ms)))
    }
}

/// What was found.
struct Found {
    attempts: Vec<AttemptView>,
    queue: Option<QueueView>,
    letters: Vec<DeadLetter>,
    problems: Vec<Unread>,
}

/// What became of it.
pub(super) async fn notification(
    engine: &Engine,
    id: &NotificationId,
    asked: Option<&QueueName>,
) -> Result<NotificationView, EngineError> {
    let found = find(engine, id, asked).await?;
    let taken_at = engine.0.clock.now();
    let Some((state, text)) = judged(id, &found) else {
        return Err(match found.problems.into_iter().next() {
            // It may be where nobody could look.
            Some(unread) => EngineError::Unread(Box::new(unread)),
            None => EngineError::NotFound {
                what: unknown(id, asked, engine.0.settings.retention.attempts, taken_at),
            },
        });
    };
    Ok(NotificationView {
        id: id.clone(),
        state,
        text,
        attempts: found.attempts,
        queue: found.queue.map(Box::new),
        letters: found.letters,
        taken_at,
        problems: found.problems,
    })
}

/// What the store has answers first: dead letters may have to be looked at, and the queue only says what is before it.
async fn find(engine: &Engine, id: &NotificationId, asked: Option<&QueueName>) -> Result<Found, EngineError> {
    let query = AttemptQuery {
        queue: asked.cloned(),
        url: None,
        message: Some(id.clone()),
        limit: ATTEMPTS,
    };
    // An attempt and what follows from it are written together: the head that is read first has its attempt in the log.
    let mut found = Found {
        queue: queue_that_it_heads(engine, id, asked).await?,
        attempts: engine.0.daemon.delivery.attempts(query).await?.items,
        letters: Vec::new(),
        problems: Vec::new(),
    };
    let last = found.attempts.first().map(|attempt| attempt.class);
    if last == Some(OutcomeClass::Delivered) {
        // It was the head when that was read, and is none any more.
        found.queue = None;
        return Ok(found);
    }
    if found.queue.is_none() && last.is_some() {
        // It may have failed in between.
        found.queue = queue_that_it_heads(engine, id, asked).await?;
    }
    if found.queue.is_some() {
        return Ok(found);
    }
    match letters_of(engine, id).await {
        Ok((letters, problems)) => (found.letters, found.problems) = (letters, problems),
        Err(error) => found.problems.push(engine.unread(error)?),
    }
    if let Some(name) = asked.filter(|_| last.is_none() && found.letters.is_empty()) {
        match engine.0.queues.queue(name).await {
            Ok(view) => found.queue = Some(view),
            Err(EngineError::NotFound { .. }) => {}
            Err(error) => found.problems.push(engine.unread(error)?),
        }
    }
    Ok(found)
}

async fn queue_that_it_heads(
    engine: &Engine,
    id: &NotificationId,
    asked: Option<&QueueName>,
) -> Result<Option<QueueView>, EngineError> {
    let query = QueueQuery {
        only: QueuesOnly::WithHead(id.clone()),
        ..QueueQuery::first(HEADS)
    };
    let records = engine.0.store.queues_page(&query).await?;
    let record = records
        .into_iter()
        .find(|record| asked.is_none_or(|name| *name == record.name));
    let Some(record) = record else { return Ok(None) };
    let view = engine.0.queues.queue(&record.name).await?;
    // It may have moved meanwhile.
    Ok(Some(view).filter(|view| view.head.as_ref().is_some_and(|head| head.message == *id)))
}

async fn letters_of(engine: &Engine, id: &NotificationId) -> Result<(Vec<DeadLetter>, Vec<Unread>), EngineError> {
    let quoted = id.as_str().replace('\\', "\\\\").replace('"', "\\\"");
    let query = DeadListQuery {
        selection: DeadSelection {
            filter: Some(format!("message_id = \"{quoted}\"")),
            ..DeadSelection::default()
        },
        sort: None,
        limit: LETTERS,
        cursor: None,
        patience: PATIENCE,
    };
    let found = engine.0.dead_letters.dead_list(&query).await?;
    Ok((found.page.items, found.problems))
}

/// The answer; `None`: nothing says that it is anywhere.
///
/// 1. A head that failed waits, whatever was before: the same id may have been published again.
/// 2. What was delivered last is delivered, and nobody looked for its dead letters.
/// 3. A dead letter waits for a person.
/// 4. An attempt alone: it is tried at present, or was taken out.
/// 5. Nothing at all, and something waits in its queue.
fn judged(id: &NotificationId, found: &Found) -> Option<(NotificationState, String)> {
    let last = found.attempts.first();
    let queue = found.queue.as_ref();
    if let Some(queue) = queue.filter(|queue| queue.head.as_ref().is_some_and(|head| head.message == *id)) {
        return Some(at_the_head(queue));
    }
    if let Some(last) = last.filter(|last| last.class == OutcomeClass::Delivered) {
        let text = format!("attempt {} was answered with {}", last.number, answered(last));
        return Some((NotificationState::Delivered, text));
    }
    if let Some(letter) = found.letters.first() {
        return Some((NotificationState::Dead, died(letter, found.letters.len())));
    }
    if let Some(last) = last {
        return Some((NotificationState::Attempted, attempted(last)));
    }
    let queue = queue.filter(|queue| queue.depth() != Some(0))?;
    Some((NotificationState::Untried, untried(queue)))
}

fn at_the_head(queue: &QueueView) -> (NotificationState, String) {
    let (state, how) = match queue.state {
        Some(QueueState::Parked | QueueState::EndpointDisabled) => (NotificationState::Parked, "stands"),
        Some(_) | None => (NotificationState::Waiting, "waits"),
    };
    let text = format!("{how} as the first of queue {}{}", name(queue), because(queue));
    (state, text)
}

fn died(letter: &DeadLetter, letters: usize) -> String {
    let mut text = format!(
        "a dead letter ({}) in queue {}: look at it with `redrive dead show {}`",
        show(&letter.reason, SHOWN),
        show(letter.queue.as_str(), SHOWN),
        letter.id.as_str()
    );
    if letters > 1 {
        let _ = write!(
            text,
            "; there are {letters} of this id: `redrive dead list --filter 'message_id = …'`"
        );
    }
    text
}

fn attempted(last: &AttemptView) -> String {
    let queue = shell_argument(&show(last.queue.as_str(), SHOWN));
    let then = match last.class {
        OutcomeClass::Refused | OutcomeClass::Gone => {
            "its policy accepts that, or its dead letter was sent back, discarded or has expired (`redrive audit`)"
                .to_owned()
        }
        OutcomeClass::Failed | OutcomeClass::Interrupted | OutcomeClass::Delivered => {
            format!("it is tried at present, or was taken out (`redrive queue why {queue}`, `redrive audit`)")
        }
    };
    format!(
        "attempt {} ended with {}, and it is neither the head of a queue nor a dead letter: {then}",
        last.number,
        answered(last)
    )
}

fn untried(queue: &QueueView) -> String {
    format!(
        "no attempt at it is on record: where queue {} has it, it waits there for those before it{}; `redrive queue browse \
         {}` looks at the first of them",
        name(queue),
        because(queue),
        shell_argument(&name(queue))
    )
}

fn name(queue: &QueueView) -> String {
    show(queue.name.as_str(), SHOWN)
}

fn because(queue: &QueueView) -> String {
    let why = queue.why.as_ref();
    why.map_or_else(String::new, |why| format!(" ({})", why.text))
}

fn answered(attempt: &AttemptView) -> String {
    match (attempt.status, attempt.error.as_deref()) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => show(error, SHOWN),
        (None, None) => attempt.class.as_str().to_owned(),
    }
}

/// What can be said of an id that is in no record: whether it is too old for one, where the id tells its age.
fn unknown(id: &NotificationId, asked: Option<&QueueName>, kept: Duration, now: Timestamp) -> String {
    let kept_for = words::lasts(kept);
    let made = id.made_at().filter(|made| *made <= now).map(|made| now.since(made));
    let mut why = match made {
        Some(age) if age > kept => format!(
            "by its id it is {} old, and attempts are kept for {kept_for} (store.retention.attempts_s)",
            words::about(age)
        ),
        Some(age) => format!(
            "by its id it is {} old, and attempts are kept for {kept_for}: it was not attempted yet, or its queue was so busy \
             that not each of its deliveries was kept",
            words::about(age)
        ),
        None => format!(
            "no attempt at it, no head of a queue and no dead letter is on record; attempts are kept for {kept_for} \
             (store.retention.attempts_s), and not each one of a busy queue"
        ),
    };
    match asked {
        Some(queue) => {
            let _ = write!(why, "; nothing waits in queue {}", show(queue.as_str(), SHOWN));
        }
        None => why += "; name the queue that its publisher was answered, to see whether it may wait there",
    }
    format!("notification {:?} ({why})", show(id.as_str(), SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_id_in_no_record_its_age_says_whether_it_may_have_been_in_one() {
        let now = Timestamp::from_seconds(1_700_000_000);
        let kept = Duration::from_hours(24 * 14);
        let say = |id: &str, asked: Option<&QueueName>| unknown(&NotificationId::parse(id).unwrap(), asked, kept, now);
        // 2023-01-01 and a second before.
        let old = say("01856aa0-c800-7000-8000-000000000000", None);
        assert!(
            old.contains("old, and attempts are kept for") && old.contains("attempts_s"),
            "{old}"
        );
        let new = say("018bcfe5-6418-7000-8000-000000000000", None);
        assert!(
            new.contains("it was not attempted yet") && new.contains("name the queue"),
            "{new}"
        );
        let queue = QueueName::parse("redrive.a.00").unwrap();
        let foreign = say("order-18", Some(&queue));
        assert!(
            foreign.contains("no dead letter") && foreign.ends_with("nothing waits in queue redrive.a.00)"),
            "{foreign}"
        );
    }
}
