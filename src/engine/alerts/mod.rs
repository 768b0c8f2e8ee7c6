//! Bad turns are heard: each is in the log, counted, an [`Event`], and told where that is configured.
//!
//! What stands and can be read again (endpoints, queues, dead letters, runs, the broker) is watched by one daemon at a
//! time, under a lease, so that it is said once however many daemons there are; what happens in one process (a daemon
//! found dead, messages lost) is said by that one. Alerts are kept in memory: what is still bad after a restart is told
//! again, what was over is not.

mod body;
mod teller;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::core::{Core, over_core};
use super::dead::DeadIndex;
use super::observe::Observation;
use super::{Engine, EngineError, EngineSettings, Event, WriteGrant};
use crate::ambient;
use crate::delivery::SenderHandle;
use crate::domain::id::IncarnationId;
use crate::domain::nearest::nearest;
use crate::domain::signature::SigningSecret;
use crate::domain::text::show;
use crate::domain::turn::{Item, Severity, Told, Turn, TurnKind};
use crate::domain::url::EndpointUrl;
use crate::store::NewAudit;
use crate::telemetry::names;

use self::teller::Teller;

/// A sentence is at most this wide.
const TEXT_WIDTH_MAX: usize = 500;

/// Who is told, and of what.
#[derive(Clone, Debug)]
pub struct AlertSettings {
    /// Its name.
    pub name: String,
    /// How.
    pub way: AlertWay,
    /// Of which bad turns; their ends are told with them.
    pub on: Vec<TurnKind>,
    /// Between two messages, and how long an end has to last.
    pub every: Duration,
    /// The profile of the configuration, for the command that opens the console.
    pub profile: Option<String>,
}

/// How somebody is told.
#[derive(Clone)]
pub enum AlertWay {
    /// A program gets it.
    Command {
        /// The program, and its arguments.
        command: Vec<String>,
        /// Where it runs.
        directory: Option<PathBuf>,
    },
    /// A URL gets it, signed.
    Url {
        /// Where.
        url: EndpointUrl,
        /// What it is signed with.
        secrets: Vec<SigningSecret>,
    },
    /// A chat's incoming webhook.
    Chat {
        /// Whose.
        chat: Chat,
        /// Where; whoever knows it can write there.
        url: EndpointUrl,
    },
}

/// Chats whose webhooks are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chat {
    /// Slack, and what understands its incoming webhooks (Mattermost, Rocket.Chat).
    Slack,
    /// Microsoft Teams, by a workflow.
    Teams,
    /// Discord.
    Discord,
}

impl Chat {
    /// As configured.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Teams => "teams",
            Self::Discord => "discord",
        }
    }
}

/// The URL of a chat is a credential.
impl fmt::Debug for AlertWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, .. } => f.debug_tuple("Command").field(&command.first()).finish(),
            Self::Url { .. } => f.write_str("Url"),
            Self::Chat { chat, .. } => f.debug_tuple("Chat").field(chat).finish(),
        }
    }
}

impl EngineSettings {
    /// The alert of this name; the error names those that there are.
    pub(super) fn alert(&self, name: &str) -> Result<&AlertSettings, EngineError> {
        let named = self.alerts.iter().find(|alert| alert.name == name);
        named.ok_or_else(|| EngineError::NotFound {
            what: no_such(name, &self.alerts),
        })
    }
}

impl Engine {
    /// Tells whoever `name` is that this is a test, once; what came of it is in the audit.
    ///
    /// # Errors
    /// There is no such alert, it was not taken, or the store cannot be written.
    pub async fn alert_test(&self, name: &str, grant: &WriteGrant) -> Result<(), EngineError> {
        let alert = self.0.settings.alert(name)?;
        let turn = Turn {
            kind: TurnKind::RunEnded,
            subject: "test".to_owned(),
            text: "this is a test of the alert, nothing happened".to_owned(),
            count: None,
            at: self.0.clock.now(),
        };
        let told = Told {
            items: vec![Item { turn, times: 1 }],
            more: 0,
        };
        let message = teller::message(&self.0.daemon.alerts, alert, &told, teller::Occasion::Test);
        let sent = teller::send(&self.0.daemon.alerts, alert, &message).await;
        let (result, detail) = match &sent {
            Ok(()) => ("done", "it was taken".to_owned()),
            Err(why) => ("failed", show(why, TEXT_WIDTH_MAX)),
        };
        let entry = NewAudit {
            actor: grant.actor().to_owned(),
            command: "alert test".to_owned(),
            target: format!("alert {name}"),
            reason: grant.reason().map(ToOwned::to_owned),
            plan: None,
            result: result.to_owned(),
            detail,
        };
        self.0.store.audit_append(&entry).await?;
        sent.map_err(|why| EngineError::Refused {
            why: format!("alert {name:?} was not taken: {why}"),
        })
    }
}

fn no_such(name: &str, alerts: &[AlertSettings]) -> String {
    let known = || alerts.iter().map(|alert| alert.name.as_str());
    match nearest(name, known()) {
        Some(nearest) => format!("alert {name:?} (did you mean {nearest:?}?)"),
        None if alerts.is_empty() => format!("no [[alert]] is configured: alert {name:?}"),
        None => format!("alert {name:?} (there are {})", known().collect::<Vec<_>>().join(", ")),
    }
}

impl Core {
    /// Says that something turned: to the log, to the numbers, to whoever looks, and to whoever is told.
    pub(super) fn tell_turn(&self, mut turn: Turn) {
        turn.text = show(&turn.text, TEXT_WIDTH_MAX);
        let (kind, subject, text) = (turn.kind.as_str(), &turn.subject, &turn.text);
        match turn.kind.severity() {
            Severity::Info => tracing::info!(kind, subject = ?subject, count = ?turn.count, what = ?text, "turned"),
            Severity::Warning => tracing::warn!(kind, subject = ?subject, count = ?turn.count, what = ?text, "turned"),
            Severity::Error => tracing::error!(kind, subject = ?subject, count = ?turn.count, what = ?text, "turned"),
        }
        metrics::counter!(names::TURNS, "kind" => kind).increment(1);
        self.tell(Event::Turned(Box::new(turn.clone())));
        // Without anybody who is told there is no receiver.
        let _ = self.news.turned.send(turn);
    }
}

/// Watches what can turn bad, and tells of it.
#[derive(Debug)]
pub(super) struct Alerts {
    core: Arc<Core>,
    observation: Arc<Observation>,
    dead_index: Arc<DeadIndex>,
    sender: SenderHandle,
}

over_core!(Alerts);

impl Alerts {
    pub(super) fn new(
        core: &Arc<Core>,
        observation: &Arc<Observation>,
        dead_index: &Arc<DeadIndex>,
        sender: &SenderHandle,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            observation: Arc::clone(observation),
            dead_index: Arc::clone(dead_index),
            sender: SenderHandle::clone(sender),
        }
    }

    /// Watches, and tells, as long as `generation` lives.
    pub(super) fn start_alerts(
        self: &Arc<Self>,
        me: IncarnationId,
        generation: &CancellationToken,
    ) -> Vec<JoinHandle<()>> {
        let teller = |alert: &AlertSettings| {
            let teller = Teller::new(Arc::clone(self), alert.clone());
            ambient::spawn("alert", teller.run(self.news.turned.subscribe(), generation.clone()))
        };
        let mut tasks: Vec<_> = self.settings.alerts.iter().map(teller).collect();
        let watch = Arc::clone(self).watch_turns(me, generation.clone());
        tasks.push(ambient::spawn("watch turns", watch));
        tasks
    }
}
