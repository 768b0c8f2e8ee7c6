//! What operators change: events, types, subscriptions. A plan names each event with its revision; what was
//! pushed since is skipped, and said to be.

use std::sync::Arc;

use super::EventOperations;
use super::documents::{options_to_save, shown, shown_options};
use super::json::from_json;
use super::look::{EventPages, parse};
use super::service::unknown_type;
use super::{EventCommand, EventSelection, EventsDone, Subscription, SubscriptionChoice};
use crate::domain::event::{Event, EventError, EventType, Metadata, check_due, rfc3339};
use crate::domain::time::Timestamp;
use crate::domain::url::EndpointUrl;
use crate::domain::value::Value;
use crate::domain::words::plural_of;
use crate::engine::command::{hash, simple};
use crate::engine::operation::{About, Friction, Operation, Subject, each_once};
use crate::engine::{Command, Danger, Done, EngineError, Plan, PlanLine, WriteGrant};
use crate::store::{Acted, EventAct, NewEventType, NewSubscription, TypePut};

/// Events of one plan.
const EVENTS_MAX: usize = 1_000;

impl Operation<EventOperations> for EventCommand {
    fn about(&self) -> About {
        let name = match self {
            Self::Retry(_) => "event retry",
            Self::Reschedule(..) => "event reschedule",
            Self::Cancel(_) => "event cancel",
            Self::SetType { .. } => "event-type set",
            Self::Subscribe { .. } => "subscription add",
            Self::Unsubscribe { .. } => "subscription remove",
        };
        About {
            name,
            subject: Subject::Words(name),
            friction: Friction::Events,
            undo: Err("what was done with events is not taken back from here"),
        }
    }

    /// Of a type or a subscription itself; the other lines say what follows from that.
    fn changes(&self, plan: &Plan) -> Vec<String> {
        let named = match self {
            Self::SetType { .. } | Self::Subscribe { .. } => 1,
            Self::Retry(_) | Self::Reschedule(..) | Self::Cancel(_) | Self::Unsubscribe { .. } => plan.lines.len(),
        };
        plan.lines.iter().take(named).map(|line| line.target.clone()).collect()
    }

    async fn plan(&self, table: &Arc<EventOperations>) -> Result<Plan, EngineError> {
        let mut draft = table.plan_events(self).await?;
        if draft.run.is_none() {
            draft.hash = hash(&draft);
        }
        table.with_policy(draft, self).await
    }

    async fn perform(&self, table: &Arc<EventOperations>, _: &Plan, grant: &WriteGrant) -> Result<Done, EngineError> {
        Ok(Done::Events(table.perform_on_events(self, grant).await?))
    }
}

impl EventOperations {
    async fn plan_events(&self, command: &EventCommand) -> Result<Plan, EngineError> {
        match command {
            EventCommand::Retry(selection) => {
                self.plan_change(selection, ("retry", "due now"), None, EventCommand::Retry)
                    .await
            }
            EventCommand::Reschedule(selection, at) => {
                check_due("at", *at, self.clock.now())?;
                let (at, effect) = (*at, format!("due at {}", rfc3339(*at)));
                let named = |rows| EventCommand::Reschedule(rows, at);
                self.plan_change(selection, ("reschedule", &effect), Some(at), named)
                    .await
            }
            EventCommand::Cancel(selection) => {
                let mut plan = self
                    .plan_change(selection, ("cancel", "removed"), None, EventCommand::Cancel)
                    .await?;
                plan.danger = Danger::Destroys;
                plan.messages = u64::try_from(plan.lines.len()).ok();
                Ok(plan)
            }
            EventCommand::SetType { event_type, document } => self.plan_type(command, event_type, document).await,
            EventCommand::Subscribe {
                event_type,
                url,
                options,
            } => self.plan_subscribe(command, event_type, url, options).await,
            EventCommand::Unsubscribe { event_type, which } => {
                let found = self.chosen(event_type, which).await?;
                let title = format!(
                    "end the subscription of {} to {:?}",
                    found.url.redacted(),
                    event_type.as_str()
                );
                let mut plan = simple(
                    title,
                    found.url.redacted(),
                    "gets no more events of the type".to_owned(),
                );
                plan.lines[0].now = format!("subscription {}", found.id);
                plan.warnings
                    .push("what already waits for it is still sent, and signed as before".to_owned());
                plan.command = Command::Events(EventCommand::Unsubscribe {
                    event_type: event_type.clone(),
                    which: SubscriptionChoice::Id(found.id),
                });
                Ok(plan)
            }
        }
    }

    async fn plan_change(
        &self,
        selection: &EventSelection,
        (verb, effect): (&str, &str),
        due: Option<Timestamp>,
        named: impl Fn(EventSelection) -> EventCommand,
    ) -> Result<Plan, EngineError> {
        let (events, more) = match selection {
            EventSelection::Paced(_, 0) => return Err(EventError::of("rate", "must be 1 or more a second").into()),
            EventSelection::Paced(..) => (Vec::new(), true),
            EventSelection::Ids(_)
            | EventSelection::Rows(_)
            | EventSelection::Reference(..)
            | EventSelection::Filter(_) => self.selected(selection).await?,
        };
        if more && let Some(many) = selection.many() {
            return self.plan_many((verb, effect), many, named(selection.clone())).await;
        }
        let rows = events.iter().map(|event| (event.id, event.revision)).collect();
        let mut plan = simple(
            format!("{verb} {}", plural_of(events.len(), "event", "events")),
            String::new(),
            String::new(),
        );
        plan.lines = events.iter().map(|event| line(event, effect, due)).collect();
        plan.command = Command::Events(named(EventSelection::Rows(rows)));
        Ok(plan)
    }

    async fn selected(&self, selection: &EventSelection) -> Result<(Vec<Event>, bool), EngineError> {
        let ids: Vec<i64> = match selection {
            EventSelection::Ids(ids) => each_once(ids),
            EventSelection::Rows(rows) => rows.iter().map(|(id, _)| *id).collect(),
            EventSelection::Reference(event_type, reference) => {
                return Ok((self.events_of(event_type, reference).await?, false));
            }
            EventSelection::Filter(filter) | EventSelection::Paced(filter, _) => return self.matching(filter).await,
        };
        if ids.len() > EVENTS_MAX {
            return Err(EventError::of("ids", "must be at most 1,000").into());
        }
        let mut events = Vec::with_capacity(ids.len());
        for id in ids {
            events.push(self.event(id).await?);
        }
        Ok((events, false))
    }

    async fn matching(&self, filter: &str) -> Result<(Vec<Event>, bool), EngineError> {
        parse(filter)?;
        let mut events = Vec::new();
        let mut pages = EventPages::of(filter);
        while events.len() < EVENTS_MAX
            && let Some(page) = self.events_next(&mut pages).await?
        {
            events.extend(page);
        }
        let more = events.len() > EVENTS_MAX || pages.has_more();
        events.truncate(EVENTS_MAX);
        Ok((events, more))
    }

    async fn plan_type(
        &self,
        command: &EventCommand,
        event_type: &EventType,
        document: &str,
    ) -> Result<Plan, EngineError> {
        metadata(event_type, document)?;
        let before = self.store.event_type_get(event_type).await?;
        let title = format!("set the metadata of event type {:?}", event_type.as_str());
        let mut plan = simple(title, event_type.as_str().to_owned(), document.to_owned());
        plan.lines[0].now = before.map_or_else(|| "unknown".to_owned(), |before| before.document);
        plan.command = Command::Events(command.clone());
        Ok(plan)
    }

    async fn plan_subscribe(
        &self,
        command: &EventCommand,
        event_type: &EventType,
        url: &EndpointUrl,
        options: &str,
    ) -> Result<Plan, EngineError> {
        self.publisher.check_url(url)?;
        let known = self.store.event_type_get(event_type).await?;
        known.ok_or_else(|| unknown_type(event_type))?;
        let title = format!("subscribe {} to {:?}", url.redacted(), event_type.as_str());
        let mut plan = simple(title, url.redacted(), "gets every event of the type".to_owned());
        let before = self.store.subscriptions(event_type).await?;
        let found = before.iter().find(|subscription| subscription.url == *url);
        options_to_save(options, found.map(|found| found.options.as_str()))?;
        plan.lines[0].now = found.map_or_else(|| "not subscribed".to_owned(), |found| shown_options(&found.options));
        plan.command = Command::Events(command.clone());
        Ok(plan)
    }

    pub(super) async fn chosen(
        &self,
        event_type: &EventType,
        which: &SubscriptionChoice,
    ) -> Result<Subscription, EngineError> {
        let all = self.store.subscriptions(event_type).await?;
        let found = all.into_iter().find(|subscription| match which {
            SubscriptionChoice::Id(id) => subscription.id == *id,
            SubscriptionChoice::Url(url) => subscription.url == *url,
        });
        found.ok_or_else(|| EngineError::NotFound {
            what: format!("subscription to {:?}", event_type.as_str()),
        })
    }

    async fn perform_on_events(&self, command: &EventCommand, grant: &WriteGrant) -> Result<EventsDone, EngineError> {
        match command {
            EventCommand::Retry(selection) => self.change(selection, EventAct::Retry).await,
            EventCommand::Reschedule(selection, at) => self.change(selection, EventAct::Reschedule(*at)).await,
            EventCommand::Cancel(selection) => self.change(selection, EventAct::Cancel).await,
            EventCommand::SetType { event_type, document } => {
                let policy = self.written_policy(command).await?;
                let done = self.set_type(event_type, document).await?;
                self.save_policy(policy, grant).await?;
                Ok(done)
            }
            EventCommand::Subscribe {
                event_type,
                url,
                options,
            } => {
                let policy = self.written_policy(command).await?;
                let done = self.subscribe(event_type, url, options).await?;
                self.save_policy(policy, grant).await?;
                Ok(done)
            }
            EventCommand::Unsubscribe { event_type, which } => {
                let policy = self.written_policy(command).await?;
                let found = self.chosen(event_type, which).await?;
                self.store.subscription_remove(event_type, found.id).await?;
                self.table.forget_secrets();
                self.save_policy(policy, grant).await?;
                Ok(EventsDone::Unsubscribed(shown(found)))
            }
        }
    }

    async fn change(&self, selection: &EventSelection, act: EventAct) -> Result<EventsDone, EngineError> {
        let EventSelection::Rows(rows) = selection else {
            return Err(EngineError::Refused {
                why: "events are changed by a plan that names them".to_owned(),
            });
        };
        let (mut events, mut skipped) = (Vec::new(), Vec::new());
        for (id, revision) in rows {
            let acted = self.store.event_act(*id, *revision, act).await?;
            if let Some(why) = acted.why_not() {
                skipped.push((*id, why.to_owned()));
            } else if let Acted::Done(event) = acted {
                events.push(*event);
            }
        }
        self.table.wake(events.iter().map(|event| &event.event_type));
        match skipped.as_slice() {
            [(id, why)] if events.is_empty() => Err(EngineError::Refused {
                why: format!("event {id}: {why}"),
            }),
            _ => Ok(EventsDone::Changed { events, skipped }),
        }
    }

    async fn set_type(&self, event_type: &EventType, document: &str) -> Result<EventsDone, EngineError> {
        let metadata = metadata(event_type, document)?;
        let new = NewEventType {
            name: event_type.clone(),
            document: document.to_owned(),
            metadata,
        };
        match self.store.event_type_put(&new).await? {
            TypePut::Saved(record) => Ok(EventsDone::Type(record)),
            TypePut::MissingTarget(target) => {
                let problem = format!("names {:?}, which does not exist", target.as_str());
                Err(EventError::of("_dead_letter_queue", &problem).into())
            }
            TypePut::Chain(types) => {
                let names: Vec<&str> = types.iter().map(EventType::as_str).collect();
                Err(EngineError::Refused {
                    why: format!("_dead_letter_queue would make a chain: {}", names.join(" → ")),
                })
            }
        }
    }

    async fn subscribe(
        &self,
        event_type: &EventType,
        url: &EndpointUrl,
        options: &str,
    ) -> Result<EventsDone, EngineError> {
        let before = self.store.subscriptions(event_type).await?;
        let before = before.iter().find(|subscription| subscription.url == *url);
        let new = NewSubscription {
            event_type: event_type.clone(),
            url: url.clone(),
            options: options_to_save(options, before.map(|before| before.options.as_str()))?,
        };
        let saved = self.store.subscription_put(&new).await?;
        let saved = saved.ok_or_else(|| unknown_type(event_type))?;
        self.table.forget_secrets();
        Ok(EventsDone::Subscribed(shown(saved)))
    }
}

fn line(event: &Event, effect: &str, due: Option<Timestamp>) -> PlanLine {
    // The lifetime that was given with a push is not changed by this; that of a dead letter ends with it.
    let lifetime = event.expires_at.filter(|_| event.origin.is_none());
    let ends_before = lifetime.zip(due).filter(|(ends, due)| ends <= due);
    let removed =
        ends_before.map(|(ends, _)| format!("{effect}, but removed by its own lifetime at {}", rfc3339(ends)));
    let attempts = event.attempts;
    let (state, revision) = (event.state.as_str(), event.revision);
    PlanLine {
        target: format!("{} {} ({})", event.shown_type(), event.reference.as_str(), event.id),
        now: format!(
            "{state}, due {}, {attempts} attempts, revision {revision}",
            rfc3339(event.nbf)
        ),
        effect: removed.unwrap_or_else(|| effect.to_owned()),
    }
}

fn metadata(event_type: &EventType, document: &str) -> Result<Metadata, EngineError> {
    Ok(Metadata::from_value(&value("metadata", document)?, event_type)?)
}

fn value(field: &str, document: &str) -> Result<Value, EngineError> {
    let json: Result<serde_json::Value, _> = serde_json::from_str(document);
    json.map(|json| from_json(&json)).map_err(|error| EngineError::Invalid {
        field: field.to_owned(),
        message: format!("{field} is not JSON: {error}"),
    })
}
