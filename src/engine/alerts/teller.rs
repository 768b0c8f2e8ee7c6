//! Tells one receiver: what is to be told when is the domain's, here it is sent, and sent again until it is taken.
//!
//! One message is on its way at a time. What turns meanwhile waits, and is one message then.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::body::{Origin, document, of_chat};
use super::{AlertSettings, AlertWay, Alerts};
use crate::ambient;
use crate::command::{End, Program, Ran};
use crate::delivery::{Method, Request};
use crate::domain::id::NotificationId;
use crate::domain::outcome::{Outcome, OutcomeClass};
use crate::domain::policy::RetryPolicy;
use crate::domain::signature::SigningSecret;
use crate::domain::text::{show, show_bytes};
use crate::domain::turn::{Course, Pacer, Told, Turn};
use crate::domain::url::EndpointUrl;
use crate::engine::process::host;
use crate::telemetry::names;

/// How long a program may take.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// Bytes kept of what it prints.
const OUTPUT_BYTES_MAX: usize = 4_096;
/// How long the end of the process waits for what is to be told.
const LAST: Duration = Duration::from_secs(5);
/// Between two tries, at most: what turns meanwhile waits for them.
const AGAIN_MOST: Duration = Duration::from_mins(5);
/// What nobody took for so long is no news any more.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(24);
/// A reason is at most this wide.
const WHY_WIDTH_MAX: usize = 300;

/// What is sent, the same at every try.
pub(super) struct Message {
    id: NotificationId,
    body: Bytes,
}

/// A message that is not taken yet.
struct Outgoing {
    message: Message,
    failures: u32,
    /// When it was tried first (uptime).
    begun_at: Duration,
    /// When it is tried next (uptime).
    next_at: Duration,
}

/// Tells one receiver.
pub(super) struct Teller {
    alerts: Arc<Alerts>,
    alert: AlertSettings,
    pacer: Pacer,
    outgoing: Option<Outgoing>,
}

impl Teller {
    pub(super) fn new(alerts: Arc<Alerts>, alert: AlertSettings) -> Self {
        Self {
            pacer: Pacer::new(alert.every),
            outgoing: None,
            alerts,
            alert,
        }
    }

    pub(super) async fn run(mut self, mut turns: broadcast::Receiver<Turn>, generation: CancellationToken) {
        // A rise from nothing is none to who computes with rises.
        for result in ["told", "failed", "given_up"] {
            self.count(result, 0);
        }
        loop {
            let wake = self.wake();
            tokio::select! {
                biased;
                () = generation.cancelled() => break,
                turn = turns.recv() => match turn {
                    Ok(turn) => self.note(turn),
                    Err(RecvError::Lagged(missed)) => {
                        tracing::warn!(alert = ?self.alert.name, missed, "more turned than could be told");
                    }
                    Err(RecvError::Closed) => break,
                },
                () = ambient::sleep(wake.unwrap_or_default()), if wake.is_some() => self.go_on().await,
            }
        }
        while let Ok(turn) = turns.try_recv() {
            self.note(turn);
        }
        if self.wake().is_some_and(|wake| wake.is_zero()) {
            let _ = ambient::timeout(LAST, self.go_on()).await;
        }
    }

    fn note(&mut self, turn: Turn) {
        if turn.kind.course() == Course::Ends || self.alert.on.contains(&turn.kind) {
            self.pacer.note(turn, self.alerts.clock.uptime());
        }
    }

    /// How long there is nothing to do.
    fn wake(&self) -> Option<Duration> {
        let at = match &self.outgoing {
            Some(outgoing) => Some(outgoing.next_at),
            None => self.pacer.due(),
        };
        Some(at?.saturating_sub(self.alerts.clock.uptime()))
    }

    /// Sends what is due, once.
    async fn go_on(&mut self) {
        let now = self.alerts.clock.uptime();
        let mut outgoing = match self.outgoing.take() {
            Some(outgoing) => outgoing,
            None => match self.pacer.take(now) {
                Some(told) => Outgoing {
                    message: message(&self.alerts, &self.alert, &told, Occasion::Turn),
                    failures: 0,
                    begun_at: now,
                    next_at: now,
                },
                None => return,
            },
        };
        let why = match send(&self.alerts, &self.alert, &outgoing.message).await {
            Ok(()) => return self.count("told", 1),
            Err(why) => why,
        };
        outgoing.failures += 1;
        if now.saturating_sub(outgoing.begun_at) >= GIVEN_UP_AFTER {
            tracing::error!(alert = ?self.alert.name, why = ?why, tries = outgoing.failures, "an alert is given up: nobody takes it");
            return self.count("given_up", 1);
        }
        let again_in = again_in(outgoing.failures);
        tracing::warn!(alert = ?self.alert.name, why = ?why, again_in_s = again_in.as_secs(), "an alert is not taken yet");
        self.count("failed", 1);
        outgoing.next_at = self.alerts.clock.uptime() + again_in;
        self.outgoing = Some(outgoing);
    }

    fn count(&self, result: &'static str, more: u64) {
        metrics::counter!(names::ALERTS, "alert" => self.alert.name.clone(), "result" => result).increment(more);
    }
}

/// Until the next try, after so many that failed.
fn again_in(failures: u32) -> Duration {
    let scheduled = RetryPolicy::built_in().schedule().delay(failures);
    scheduled.map_or(AGAIN_MOST, |retry| {
        Duration::from_secs(u64::from(retry.delay_s)).min(AGAIN_MOST)
    })
}

/// Why somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Something turned.
    Turn,
    /// A person tries whether it arrives.
    Test,
}

/// What `alert` gets.
#[expect(clippy::expect_used, reason = "letters, digits and dashes")]
pub(super) fn message(alerts: &Alerts, alert: &AlertSettings, told: &Told, occasion: Occasion) -> Message {
    let host = host();
    let origin = Origin {
        alert: &alert.name,
        host: &host,
        vhost: &alerts.settings.naming.vhost,
        profile: alert.profile.as_deref(),
        test: occasion == Occasion::Test,
        at: alerts.clock.now(),
    };
    let body = match &alert.way {
        AlertWay::Command { .. } | AlertWay::Url { .. } => document(&origin, told),
        AlertWay::Chat { chat, .. } => of_chat(*chat, &origin, told),
    };
    Message {
        id: NotificationId::parse(&ambient::new_id()).expect("a generated id is an id"),
        body: body.into(),
    }
}

/// One try; an error says why it was not taken.
pub(super) async fn send(alerts: &Alerts, alert: &AlertSettings, message: &Message) -> Result<(), String> {
    match &alert.way {
        AlertWay::Command { command, directory } => {
            let program = Program {
                command: command.clone(),
                directory: directory.clone(),
                variables: vec![("REDRIVE_ALERT".to_owned(), alert.name.clone())],
                time: COMMAND_TIME,
                output_bytes_max: OUTPUT_BYTES_MAX,
            };
            let ran = program.run(message.body.to_vec(), &CancellationToken::new()).await;
            ended(&ran)
        }
        AlertWay::Url { url, secrets } => post(alerts, url, secrets, message).await,
        AlertWay::Chat { url, .. } => post(alerts, url, &[], message).await,
    }
}

fn ended(ran: &Ran) -> Result<(), String> {
    let how = match &ran.end {
        End::Exited(0) => return Ok(()),
        End::Exited(code) => format!("exit {code}"),
        End::Signalled(signal) => format!("signal {signal}"),
        End::TimedOut => format!("it took more than {} s", COMMAND_TIME.as_secs()),
        End::Stopped => "stopped".to_owned(),
        End::NotStarted(why) | End::NoRoom(why) => format!("it cannot be started: {}", show(why, WHY_WIDTH_MAX)),
    };
    let said = show_bytes(ran.errors.trim_ascii(), WHY_WIDTH_MAX);
    Err(if said.is_empty() { how } else { format!("{how}: {said}") })
}

async fn post(alerts: &Alerts, url: &EndpointUrl, secrets: &[SigningSecret], message: &Message) -> Result<(), String> {
    if let Some(why) = alerts.sender.refusal(url) {
        return Err(why);
    }
    let request = Request {
        url: url.clone(),
        headers: Vec::new(),
        content_type: Some("application/json".to_owned()),
        body: message.body.clone(),
        id: message.id.clone(),
        origin: None,
        secrets: secrets.to_vec(),
        method: Method::Post,
    };
    let sent = alerts.sender.send(request).await;
    if sent.outcome.class() == OutcomeClass::Delivered {
        return Ok(());
    }
    let said = sent.response.as_deref().unwrap_or_default();
    let why = match (sent.outcome, sent.error) {
        (Outcome::Status(status), None) => format!("it answered {status}"),
        (Outcome::Status(status), Some(error)) => format!("it answered {status}: {error}"),
        (Outcome::Failure(_), Some(error)) => error,
        (Outcome::Failure(kind), None) => format!("no answer ({})", kind.as_str()),
    };
    let said = show_bytes(said.trim_ascii(), WHY_WIDTH_MAX);
    let why = show(&why, WHY_WIDTH_MAX);
    Err(if said.is_empty() { why } else { format!("{why}: {said}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_is_back_is_told_within_minutes_however_long_it_was_away() {
        let waits: Vec<u64> = (1..=300).map(|failures| again_in(failures).as_secs()).collect();
        assert_eq!(waits.first(), Some(&0));
        assert!(waits.is_sorted() && waits.last() == Some(&300), "{waits:?}");
        assert!(waits.iter().sum::<u64>() > GIVEN_UP_AFTER.as_secs() / 2, "{waits:?}");
    }
}
