//! Asks for one event, or one type.

use crate::console::state::detail::{EventDetail, TypeDetail};
use crate::console::state::inquire::{inquire, question, unexpected};
use crate::domain::event::EventType;
use crate::engine::events::{EventAnswer, EventQuestion};
use crate::engine::policies::PolicyView;
use crate::engine::query::PolicyScope;
use crate::engine::{Answer, Engine, Query};

/// Handled events that are shown.
const HANDLED_MAX: u32 = 200;

/// An event with what else is known of its key.
pub(super) async fn event(engine: &Engine, id: i64) -> Result<EventDetail, String> {
    let EventAnswer::One(event) = question(engine, EventQuestion::One(id)).await? else {
        return Err(unexpected());
    };
    let of_key = EventQuestion::Of(event.event_type.clone(), event.reference.clone());
    let handled = EventQuestion::History {
        event_type: event.event_type.clone(),
        limit: HANDLED_MAX,
    };
    let (of_key, handled) = tokio::try_join!(question(engine, of_key), question(engine, handled))?;
    let (EventAnswer::Of(mut others), EventAnswer::History(mut handled)) = (of_key, handled) else {
        return Err(unexpected());
    };
    others.retain(|other| other.id != event.id);
    handled.retain(|one| one.reference == event.reference);
    Ok(EventDetail {
        event: *event,
        others,
        handled,
    })
}

/// A type with its subscriptions, its policy and what was handled of it.
pub(super) async fn event_type(engine: &Engine, name: EventType) -> Result<TypeDetail, String> {
    let scope = PolicyScope {
        event_type: Some(name.as_str().to_owned()),
        url: None,
    };
    let handled = EventQuestion::History {
        event_type: name.clone(),
        limit: HANDLED_MAX,
    };
    let (record, subscriptions, handled, policy) = tokio::try_join!(
        question(engine, EventQuestion::Type(name.clone())),
        question(engine, EventQuestion::Subscriptions(name)),
        question(engine, handled),
        policy(engine, scope),
    )?;
    match (record, subscriptions, handled) {
        (EventAnswer::Type(record), EventAnswer::Subscriptions(subscriptions), EventAnswer::History(handled)) => {
            Ok(TypeDetail {
                record,
                subscriptions,
                handled,
                policy,
            })
        }
        _ => Err(unexpected()),
    }
}

async fn policy(engine: &Engine, scope: PolicyScope) -> Result<Box<PolicyView>, String> {
    let Answer::Policy(view) = inquire(engine, Query::Policy(scope)).await? else {
        return Err(unexpected());
    };
    Ok(view)
}
