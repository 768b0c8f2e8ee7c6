//! Asks for one event, or one type.

use crate::console::state::detail::{EventDetail, TypeDetail};
use crate::console::state::inquire::inquire;
use crate::domain::event::EventType;
use crate::engine::EngineHandle;
use crate::engine::policies::PolicyView;
use crate::engine::query;
use crate::engine::query::PolicyScope;

/// Handled events that are shown.
const HANDLED_MAX: u32 = 200;

/// An event with what else is known of its key.
pub(super) async fn event(engine: &EngineHandle, id: i64) -> Result<EventDetail, String> {
    let event = inquire(engine, query::OneEvent(id)).await?;
    let of_key = query::EventsOf(event.event_type.clone(), event.reference.clone());
    let handled = query::EventHistory {
        event_type: event.event_type.clone(),
        limit: HANDLED_MAX,
    };
    let (mut others, mut handled) = tokio::try_join!(inquire(engine, of_key), inquire(engine, handled))?;
    others.retain(|other| other.id != event.id);
    handled.retain(|one| one.reference == event.reference);
    Ok(EventDetail { event, others, handled })
}

/// A type with its subscriptions, its policy and what was handled of it.
pub(super) async fn event_type(engine: &EngineHandle, name: EventType) -> Result<TypeDetail, String> {
    let scope = PolicyScope {
        event_type: Some(name.as_str().to_owned()),
        url: None,
    };
    let handled = query::EventHistory {
        event_type: name.clone(),
        limit: HANDLED_MAX,
    };
    let (record, subscriptions, handled, policy) = tokio::try_join!(
        inquire(engine, query::OneEventType(name.clone())),
        inquire(engine, query::Subscriptions(name)),
        inquire(engine, handled),
        policy(engine, scope),
    )?;
    Ok(TypeDetail {
        record,
        subscriptions,
        handled,
        policy,
    })
}

async fn policy(engine: &EngineHandle, scope: PolicyScope) -> Result<Box<PolicyView>, String> {
    inquire(engine, query::Policy(scope)).await.map(Box::new)
}
