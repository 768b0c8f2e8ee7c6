//! The event table in a daemon: a consumer for each intake queue, a processor for each type with a handler, the
//! keeper, the pump; and one run of a processor for a command.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::EventTable;
use super::HandlerAction;
use super::handler::{Action, EventHandler, HandlerProgram};
use super::json::from_json;
use super::processor::{Processed, Processor};
use crate::ambient;
use crate::domain::event::{EventType, HandlingRules, Metadata};
use crate::domain::id::IncarnationId;
use crate::engine::{Engine, EngineError};
use crate::telemetry::{LoggedAt, names};

/// Between two rounds of the keeper.
const KEEP: Duration = Duration::from_secs(5);
/// Rows of one of its rounds.
const ROWS: u32 = 1_000;
/// Calls of the store in which one round removes what has outlived itself.
const ROUNDS_MAX: u32 = 200;
/// Between two tries of a processor that ended with an error.
const RETRY: Duration = Duration::from_secs(1);

/// Handlers of those who embed the library.
#[derive(Default)]
pub(super) struct EventHandlers(std::sync::Mutex<Vec<(EventType, Arc<dyn EventHandler>)>>);

impl std::fmt::Debug for EventHandlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventHandlers").finish_non_exhaustive()
    }
}

impl Engine {
    /// Hands events of a type to a handler in this process, once it delivers; in the place of a configured one.
    pub fn handle_events(&self, event_type: EventType, handler: Arc<dyn EventHandler>) {
        self.0.events.table.handle_with(event_type, handler);
    }

    /// Handles what is due of a type, and ends when nothing is, or with `stop`: what is in hand then is given back.
    ///
    /// # Errors
    /// No handler for the type, or the store.
    pub async fn process_once(
        &self,
        event_type: &EventType,
        stop: CancellationToken,
    ) -> Result<Processed, EngineError> {
        self.0.events.table.process_once(event_type, stop).await
    }
}

impl EventTable {
    fn handle_with(&self, event_type: EventType, handler: Arc<dyn EventHandler>) {
        let mut handlers = self
            .handlers
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        handlers.retain(|(known, _)| *known != event_type);
        handlers.push((event_type, handler));
    }

    /// The tasks of an incarnation that have to do with events, but for the processors.
    pub(in crate::engine) fn start_events(
        self: &Arc<Self>,
        id: IncarnationId,
        generation: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let me = || Arc::clone(self);
        let mut tasks = vec![
            ambient::spawn("event keeper", me().keep_events(generation.clone())),
            ambient::spawn("event census", me().take_census(generation.clone())),
            ambient::spawn("event outbox", me().pump(id, generation.clone())),
        ];
        for settings in &self.settings.events.consumers {
            let taking = me().take_in(id, settings.clone(), generation.clone());
            tasks.push(ambient::spawn("intake", taking));
        }
        if !self.actions().is_empty() {
            tasks.push(ambient::spawn("event signals", me().hear_of_events(generation.clone())));
        }
        tasks
    }

    /// Handles events until `stop` and until what is in hand then has ended; with `abandon` that is given up.
    pub(in crate::engine) async fn process_events(
        self: Arc<Self>,
        id: IncarnationId,
        stop: CancellationToken,
        abandon: CancellationToken,
    ) {
        let processing = self.actions().into_iter().map(|(event_type, action)| {
            let processing = Arc::clone(&self).process(id, event_type, action, stop.clone(), abandon.clone());
            ambient::spawn("event processor", processing)
        });
        for processor in processing.collect::<Vec<_>>() {
            let _ = processor.await;
        }
    }

    /// Whether this process makes notifications of events.
    pub(super) fn notifies(&self) -> bool {
        let handlers = &self.settings.events.handlers;
        handlers.iter().any(|handler| handler.action == HandlerAction::Webhook)
    }

    /// What is done with each type; the embedding program's word counts.
    fn actions(&self) -> Vec<(EventType, Action)> {
        let handlers = self
            .handlers
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut actions: Vec<(EventType, Action)> = handlers
            .iter()
            .map(|(event_type, handler)| (event_type.clone(), Action::Embedded(Arc::clone(handler))))
            .collect();
        for configured in &self.settings.events.handlers {
            if actions.iter().any(|(known, _)| *known == configured.event_type) {
                continue;
            }
            let action = match &configured.action {
                HandlerAction::Command { command, directory } => Action::Command(Arc::new(HandlerProgram {
                    command: command.clone(),
                    directory: directory.clone(),
                })),
                HandlerAction::Webhook => Action::Webhook,
            };
            actions.push((configured.event_type.clone(), action));
        }
        actions
    }

    async fn process(
        self: Arc<Self>,
        incarnation: IncarnationId,
        event_type: EventType,
        action: Action,
        stop: CancellationToken,
        abandon: CancellationToken,
    ) {
        while !stop.is_cancelled() {
            let processor = Processor {
                engine: Arc::clone(&self),
                incarnation,
                event_type: event_type.clone(),
                action: action.clone(),
                stop: stop.clone(),
                abandon: abandon.clone(),
                once: false,
                unheard: LoggedAt::never(),
            };
            if let Err(error) = processor.run().await {
                tracing::warn!(error = ?error, event_type = ?event_type, "events are not handled");
                ambient::wait(&stop, RETRY).await;
            }
        }
    }

    /// Ends lost leases and what has outlived itself.
    async fn keep_events(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.keep_events_once().await {
                tracing::debug!(error = ?error, "the keeper of events waits for the store");
            }
            ambient::wait(&stop, KEEP).await;
        }
    }

    async fn keep_events_once(&self) -> Result<(), EngineError> {
        let reaped = self.store.events_reap(ROWS, self.settings.events.rules).await?;
        for lost in &reaped {
            if lost.claimed {
                tracing::info!(
                    event = lost.id, event_type = ?lost.event_type,
                    "a claim on an event ended before its consumer was done: it can be claimed again"
                );
                continue;
            }
            tracing::warn!(
                event = lost.id, event_type = ?lost.event_type, attempts = lost.attempts, how = lost.how.as_str(),
                "the lease on an event ended before its handler did"
            );
            let label = self.meters.label(&lost.event_type);
            counter!(names::EVENTS_LOST, "type" => label).increment(1);
        }
        self.wakes.wake(reaped.iter().map(|lost| &lost.event_type));
        let mut ended = 0;
        for _ in 0..ROUNDS_MAX {
            let expired = self.store.events_expire(ROWS).await?;
            ended += expired.events;
            if expired.events.max(expired.history) < u64::from(ROWS) {
                break;
            }
        }
        if ended > 0 {
            tracing::warn!(events = ended, "events ended by their own lifetime");
            counter!(names::EVENTS_EXPIRED).increment(ended);
        }
        Ok(())
    }

    /// The rules of a type over those of the configuration.
    pub(super) async fn handling_rules(&self, event_type: &EventType) -> Result<HandlingRules, EngineError> {
        let configured = self.settings.events.rules;
        let Some(record) = self.store.event_type_get(event_type).await? else {
            return Ok(configured);
        };
        let document: serde_json::Value = serde_json::from_str(&record.document).unwrap_or_default();
        let metadata = Metadata::from_value(&from_json(&document), event_type);
        Ok(metadata.map_or(configured, |metadata| metadata.rules(configured)))
    }

    async fn process_once(
        self: &Arc<Self>,
        event_type: &EventType,
        stop: CancellationToken,
    ) -> Result<Processed, EngineError> {
        let found = self.actions().into_iter().find(|(known, _)| known == event_type);
        let Some((_, action)) = found else {
            return Err(EngineError::NotFound {
                what: format!("[[handler]] for type {:?}", event_type.as_str()),
            });
        };
        let manager = self.begin_managing("process").await?;
        let webhook = matches!(action, Action::Webhook);
        let processor = Processor {
            engine: Arc::clone(self),
            incarnation: manager.id(),
            event_type: event_type.clone(),
            action,
            abandon: stop.clone(),
            stop,
            once: true,
            unheard: LoggedAt::never(),
        };
        let mut result = self.keep_events_once().await;
        let processed = processor.run().await;
        if webhook && result.is_ok() {
            result = self.pump_all(manager.id()).await;
        }
        manager.end().await;
        result?;
        processed
    }

    /// Publishes what is stored, unless somebody else does.
    async fn pump_all(&self, me: IncarnationId) -> Result<(), EngineError> {
        let Some(guard) = self.take_pump(me).await else {
            return Ok(());
        };
        while self.pump_once(&guard, || true).await?.is_some_and(|moved| moved > 0) {}
        self.store.named_lease_free(&guard.name, guard.epoch).await?;
        Ok(())
    }
}
