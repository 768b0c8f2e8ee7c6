//! `[[alert]]`: who is told of bad turns, and of which.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::error::Problem;
use super::keys::{Keys as _, Secrecy, keys};
use super::kind::{
    Kind, directory, endpoint_url, required_text, seconds, secret, signing_secrets, text_value, texts, words,
};
use super::print::Page;
use super::secret::{HIDDEN, Secret, has_stray_login};
use super::section::Section;
use super::tree::Place;
use crate::domain::nearest::nearest;
use crate::domain::signature::SigningSecret;
use crate::domain::turn::{Course, TurnKind};
use crate::domain::url::EndpointUrl;
use crate::domain::value::Value;

/// The ways, of which one is chosen.
const WAYS: &[&str] = &["command", "url", "slack", "teams", "discord"];
/// Alerts, at most.
const ALERTS_MAX: usize = 50;
/// Between two messages, when nothing is said.
const EVERY: Duration = Duration::from_mins(5);
const DAY_S: f64 = 86_400.0;

/// `[[alert]]`.
#[derive(Clone, Debug)]
pub struct AlertConfig {
    /// Its name.
    pub name: String,
    /// How somebody is told.
    pub way: AlertWayConfig,
    /// Of which bad turns.
    pub on: Vec<TurnKind>,
    /// Between two messages, and how long an end has to last.
    pub every: Duration,
}

/// How somebody is told.
#[derive(Clone)]
pub enum AlertWayConfig {
    /// A program gets it.
    Command {
        /// The program, and its arguments.
        command: Vec<String>,
        /// Where it runs; where the daemon does without.
        directory: Option<PathBuf>,
    },
    /// A URL gets it, signed where there is a secret.
    Url {
        /// Where.
        url: EndpointUrl,
        /// What it is signed with.
        secrets: Vec<SigningSecret>,
    },
    /// The incoming webhook of a chat: `slack`, `teams` or `discord`.
    Chat {
        /// Whose.
        chat: &'static str,
        /// Where; it is a credential.
        url: EndpointUrl,
    },
}

/// The URL of a chat is a credential.
impl fmt::Debug for AlertWayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, .. } => f.debug_tuple("Command").field(command).finish(),
            Self::Url { url, .. } => f.debug_tuple("Url").field(url).finish(),
            Self::Chat { chat, .. } => f.debug_tuple("Chat").field(chat).finish(),
        }
    }
}

keys! {
    /// Who is told of what turns bad, and of its end.
    pub(super) struct AlertKeys {
        /// Its name.
        name: String = required_text("\"ops\"")
            .unless(|name| {
                let is_possible = name.len() <= 64 && !name.chars().any(char::is_control);
                (!is_possible).then(|| "must be at most 64 bytes without control characters".to_owned())
            })
            .bare()
            .example("\"ops\"");
        /// A program and its arguments; it gets the alert as JSON on standard input, and exit 0 takes it.
        ///
        /// A program gets the alert as JSON on its standard input; exit 0 takes it.
        command: Vec<String> = texts()
            .unless(|command| {
                let problem = "is empty; write it as [\"program\", \"argument\"]";
                command.first().is_none_or(String::is_empty).then(|| problem.to_owned())
            })
            .shown_if(|command| !command.is_empty())
            .example("[\"/usr/local/bin/page-somebody\"]");
        /// Where the program runs.
        directory: Option<PathBuf> = directory("\"/var/lib/page\"");
        /// Gets the alert as JSON, by POST.
        ///
        /// Or a URL gets it by POST, signed after Standard Webhooks.
        url: Option<EndpointUrl> = url(|url| text_value(url.redacted()))
            .unless(|url| url.as_ref().and_then(stray_login))
            .secrecy(Secrecy::Password)
            .example("\"https://ops.example/redrive\"");
        /// Signs it after Standard Webhooks; a list of secrets while they are being changed.
        secrets as "secret": Option<Vec<SigningSecret>> = signing_secrets()
            .optional()
            .bare()
            .example("{ env = \"ALERT_SECRET\" }");
        /// URL of an incoming webhook of Slack.
        ///
        /// Or a chat, by its incoming webhook, whose URL is a secret.
        slack: Option<EndpointUrl> = url(|_| text_value(HIDDEN))
            .example("{ env = \"SLACK_WEBHOOK\" }");
        /// URL of a workflow of Microsoft Teams.
        teams: Option<EndpointUrl> = url(|_| text_value(HIDDEN)).bare().example("{ env = \"TEAMS_WEBHOOK\" }");
        /// URL of a webhook of Discord.
        discord: Option<EndpointUrl> = url(|_| text_value(HIDDEN)).bare().example("{ env = \"DISCORD_WEBHOOK\" }");
        /// What it reports; without it everything. The end is reported with the beginning.
        ///
        /// What to report; without it everything. The end is reported with the beginning.
        on: Vec<TurnKind> = on();
        /// Seconds between two messages, and for how long an end has to last before it is reported.
        every as "every_s": Duration = seconds(1.0..=DAY_S).or(EVERY);
    }
}

/// Each name once.
pub(super) fn alerts(root: Section<'_>, page: &mut Page) -> Result<Vec<AlertConfig>, Problem> {
    let mut names = HashSet::new();
    let mut alerts = Vec::new();
    for section in root.sections::<AlertKeys>("alert")? {
        let way = one_way(section)?;
        let mut keys = AlertKeys::read(section)?;
        let way = keys.way(way);
        if !names.insert(keys.name.clone()) {
            return Err(section.problem("name", "is that of another [[alert]]; give each its own"));
        }
        if alerts.len() >= ALERTS_MAX {
            return Err(section.problem(
                "name",
                format!("is one too many: at most {ALERTS_MAX} alerts are possible"),
            ));
        }
        page.table("[[alert]]", &keys);
        alerts.push(AlertConfig {
            name: keys.name,
            way,
            on: keys.on,
            every: keys.every,
        });
    }
    Ok(alerts)
}

/// The key of the way that is chosen.
fn one_way(section: Section<'_>) -> Result<&'static str, Problem> {
    let given: Vec<&'static str> = WAYS.iter().copied().filter(|key| section.get(key).is_some()).collect();
    let [way] = given.as_slice() else {
        let problem = match given.last() {
            None => "is missing; give one of command, url, slack, teams and discord".to_owned(),
            Some(_) => format!("and others exclude each other: give one of {}", given.join(", ")),
        };
        return Err(section.problem(given.last().copied().unwrap_or("command"), problem));
    };
    for (key, of) in [("directory", "command"), ("secret", "url")] {
        if section.get(key).is_some() && *way != of {
            return Err(section.problem(key, format!("goes with {of}; leave it out")));
        }
    }
    Ok(way)
}

impl AlertKeys {
    fn way(&mut self, way: &'static str) -> AlertWayConfig {
        if let Some(url) = &self.url {
            return AlertWayConfig::Url {
                url: url.clone(),
                secrets: self.secrets.get_or_insert_default().clone(),
            };
        }
        let chats = [&self.slack, &self.teams, &self.discord];
        match chats.into_iter().flatten().next() {
            Some(url) => AlertWayConfig::Chat {
                chat: way,
                url: url.clone(),
            },
            None => AlertWayConfig::Command {
                command: self.command.clone(),
                directory: self.directory.clone(),
            },
        }
    }
}

/// It may stand elsewhere, as any secret: whoever knows the URL of a chat can write there.
fn url(shown: impl Fn(&EndpointUrl) -> Value + 'static) -> Kind<Option<EndpointUrl>> {
    let read = |secret: Secret, _: &Place| endpoint_url(secret.expose()).map_err(|problem| secret.problem(problem));
    secret().and_then(read, move |url| Some(shown(url))).optional()
}

/// Without a port no password can have ended the host early.
fn stray_login(url: &EndpointUrl) -> Option<String> {
    let url = Url::parse(url.as_str()).ok()?;
    let problem =
        "has an @ behind its port: a user or a password cannot stand in it, and any other @ is written as %40";
    (url.port().is_some() && has_stray_login(&url, |_| true)).then(|| problem.to_owned())
}

/// Ends are told with what they end.
fn on() -> Kind<Vec<TurnKind>> {
    let possible = || TurnKind::ALL.into_iter().filter(|kind| kind.course() != Course::Ends);
    let known: Vec<&'static str> = possible().map(TurnKind::as_str).collect();
    let kinds = known.clone();
    let kind = move |text: &str| {
        possible().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let meant = nearest(text, known.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant:?}?)"));
            format!("is {text:?}{meant}, and must be one of {}", known.join(", "))
        })
    };
    words(kinds, kind, |kind: &TurnKind| kind.as_str())
        .unless(|on| {
            let problem = "is empty; leave it out to be told of everything";
            on.is_empty().then(|| problem.to_owned())
        })
        .or_with(move |_| Ok(possible().collect()))
        .example(
            "[\"endpoint_parked\", \"endpoint_disabled\", \"queue_quarantined\", \"dead_letters\", \"broker_alarm\", \
             \"messages_lost\"]",
        )
}
