//! The demo without a screen: what happens is told line by line, and at the end comes the report.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::report::minutes;
use super::{Behaviour, Demo, DemoReport};
use crate::ambient;
use crate::domain::endpoint::EndpointState;
use crate::domain::id::QueueName;
use crate::domain::text;
use crate::domain::url::EndpointUrl;
use crate::engine::Event;
use crate::engine::query;

/// Between two looks whether everything is delivered.
const SETTLED_LOOK: Duration = Duration::from_millis(100);
const ERROR_WIDTH_MAX: usize = 120;
/// Dead letters that are told one by one; the lines of numbers count the others.
const DEAD_TOLD_MAX: u64 = 3;

/// Plays `demo` to the end of its plan, or until `stop`, telling what happens; then stops it.
///
/// # Errors
/// The engine ended early, what is left cannot be counted, or nobody reads `out` any more (the demo is
/// stopped in order in that case too).
pub async fn run(demo: Demo, out: &mut (dyn Write + Send), stop: CancellationToken) -> anyhow::Result<DemoReport> {
    let told = Play::new(&demo).tell(out, &stop).await;
    let report = demo.stop().await?;
    told?;
    Ok(report)
}

struct Play<'a> {
    demo: &'a Demo,
    events: broadcast::Receiver<Event>,
    states: HashMap<EndpointUrl, EndpointState>,
    dead: u64,
}

impl<'a> Play<'a> {
    fn new(demo: &'a Demo) -> Self {
        Self {
            events: demo.engine.events(),
            states: HashMap::new(),
            dead: 0,
            demo,
        }
    }

    async fn tell(mut self, out: &mut (dyn Write + Send), stop: &CancellationToken) -> io::Result<()> {
        self.introduce(out)?;
        let (mut progress, mut look) = (
            ambient::interval(self.demo.plan.progress),
            ambient::interval(SETTLED_LOOK),
        );
        progress.tick().await;
        while !self.is_over() {
            let line = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.demo.tasks.over.cancelled() => return Ok(()),
                event = self.events.recv() => match event {
                    Ok(event) => self.line_of(event).await,
                    Err(RecvError::Lagged(_)) => None,
                    Err(RecvError::Closed) => return Ok(()),
                },
                _ = progress.tick() => Some(self.numbers()),
                _ = look.tick() => None,
            };
            if let Some(line) = line {
                writeln!(out, "{:>5}  {line}", minutes(self.demo.elapsed()))?;
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Past the duration, and either everything is delivered that can be or patience is over.
    fn is_over(&self) -> bool {
        let (plan, elapsed) = (&self.demo.plan, self.demo.elapsed());
        if plan.quiet_after().is_some_and(|quiet| elapsed >= quiet) {
            self.demo.quieten();
        }
        plan.duration.is_some_and(|whole| {
            elapsed >= whole && (self.demo.is_settled() || elapsed >= whole.saturating_add(plan.patience))
        })
    }

    fn introduce(&self, out: &mut dyn Write) -> io::Result<()> {
        let plan = &self.demo.plan;
        let span = plan.duration.map_or_else(
            || "until it is stopped".to_owned(),
            |whole| format!("for {} s", whole.as_secs()),
        );
        writeln!(
            out,
            "redrive demo: {} executions publish to six endpoints on this machine, {span}\n",
            plan.executions
        )?;
        for endpoint in self.demo.endpoints() {
            let (name, url) = (endpoint.behaviour.name(), endpoint.url.as_str());
            writeln!(out, "  {name:<8}  {url:<32}  {}", endpoint.behaviour.description(plan))?;
        }
        writeln!(out)?;
        out.flush()
    }

    fn numbers(&self) -> String {
        let tallies = Behaviour::ALL.map(|behaviour| self.demo.ledger.tally(behaviour));
        let sum = |number: fn(&super::ledger::Tally) -> u64| tallies.iter().map(number).sum::<u64>();
        let waiting = Behaviour::ALL
            .iter()
            .zip(&tallies)
            .filter(|(_, tally)| tally.waiting > 0)
            .map(|(behaviour, tally)| format!("{} {}", behaviour.name(), tally.waiting))
            .collect::<Vec<_>>();
        format!(
            "published {}, delivered {}, dead {}, waiting {} ({})",
            sum(|tally| tally.published),
            sum(|tally| tally.delivered),
            self.dead,
            sum(|tally| tally.waiting).saturating_sub(self.dead.saturating_sub(sum(|tally| tally.dead))),
            waiting.join(", ")
        )
    }

    async fn line_of(&mut self, event: Event) -> Option<String> {
        match event {
            Event::EndpointChanged { url, state } => {
                let before = self.states.insert(url.clone(), state).unwrap_or_default();
                if before == state {
                    return None;
                }
                let name = self.name_of(&url);
                Some(format!(
                    "{name} is {}{}",
                    state.as_str(),
                    self.detail(&url, state).await
                ))
            }
            Event::DeadLettered { queue, reason } => {
                self.dead += 1;
                if self.dead > DEAD_TOLD_MAX {
                    return None;
                }
                let reason = text::show(&reason, ERROR_WIDTH_MAX);
                Some(format!("dead letter of {}: {reason}", self.place_of(&queue)))
            }
            Event::QueueRefused { queue, reason } => {
                let reason = text::show(&reason, ERROR_WIDTH_MAX);
                Some(format!("{} needs a person: {reason}", self.place_of(&queue)))
            }
            Event::Connection { part, up } => Some(format!("{part} is {}", if up { "back" } else { "away" })),
            Event::Attempted(_)
            | Event::QueueEnded(_)
            | Event::QueueGone { .. }
            | Event::Incident(_)
            | Event::Turned(_) => None,
        }
    }

    /// Why, and when it is tried next.
    async fn detail(&self, url: &EndpointUrl, state: EndpointState) -> String {
        let waiting = self
            .behaviour_of(url)
            .map_or(0, |behaviour| self.demo.ledger.tally(behaviour).waiting);
        match (state, self.demo.engine.query(query::Endpoint(url.clone())).await) {
            (EndpointState::Available, _) => format!(" again, and its messages continue: {waiting}"),
            (_, Ok(view)) => {
                let endpoint = &view.endpoint;
                let why = endpoint.last_status.map(|status| status.to_string());
                let why = why.or_else(|| {
                    endpoint
                        .last_error
                        .as_deref()
                        .map(|error| text::show(error, ERROR_WIDTH_MAX))
                });
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let next = endpoint.next_attempt_at.map_or_else(
                    || "waits for a person".to_owned(),
                    |at| format!("next attempt in {:.0} s", at.since(self.demo.clock.now()).as_secs_f64()),
                );
                format!("{why}, {next}, {waiting} waiting")
            }
            (_, _) => String::new(),
        }
    }

    fn behaviour_of(&self, url: &EndpointUrl) -> Option<Behaviour> {
        let endpoint = self.demo.endpoints().iter().find(|endpoint| endpoint.url == *url)?;
        Some(endpoint.behaviour)
    }

    fn name_of(&self, url: &EndpointUrl) -> String {
        let shown = || text::show(&url.redacted(), ERROR_WIDTH_MAX);
        self.behaviour_of(url)
            .map_or_else(shown, |behaviour| behaviour.name().to_owned())
    }

    fn place_of(&self, queue: &QueueName) -> String {
        let shown = || text::show(queue.as_str(), ERROR_WIDTH_MAX);
        self.demo
            .ledger
            .endpoint_of(queue)
            .map_or_else(shown, |behaviour| behaviour.name().to_owned())
    }
}
