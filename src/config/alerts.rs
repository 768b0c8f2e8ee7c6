//! `[[alert]]`: who is told of bad turns, and of which.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::delivery::secrets;
use super::error::Problem;
use super::section::Section;
use super::tree::Node;
use crate::domain::nearest::nearest;
use crate::domain::signature::SigningSecret;
use crate::domain::turn::{Course, TurnKind};
use crate::domain::url::EndpointUrl;

pub(super) const ALERT_KEYS: &[&str] = &[
    "name",
    "command",
    "directory",
    "url",
    "secret",
    "slack",
    "teams",
    "discord",
    "on",
    "every_s",
];
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

/// Each name once.
pub(super) fn alerts(root: Section<'_>) -> Result<Vec<AlertConfig>, Problem> {
    let mut names = HashSet::new();
    let mut alerts = Vec::new();
    for section in root.sections("alert", ALERT_KEYS)? {
        let alert = alert(section)?;
        if !names.insert(alert.name.clone()) {
            return Err(section.problem("name", "is that of another [[alert]]; give each its own"));
        }
        if alerts.len() >= ALERTS_MAX {
            return Err(section.problem(
                "name",
                format!("is one too many: at most {ALERTS_MAX} alerts are possible"),
            ));
        }
        alerts.push(alert);
    }
    Ok(alerts)
}

fn alert(section: Section<'_>) -> Result<AlertConfig, Problem> {
    let name = section.required_text("name", "\"ops\"")?;
    if name.len() > 64 || name.chars().any(char::is_control) {
        return Err(section.problem("name", "must be at most 64 bytes without control characters"));
    }
    Ok(AlertConfig {
        name: name.to_owned(),
        way: way(section)?,
        on: on(section)?,
        every: section.seconds("every_s", 1.0..=DAY_S, EVERY)?,
    })
}

fn way(section: Section<'_>) -> Result<AlertWayConfig, Problem> {
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
    Ok(match *way {
        "command" => AlertWayConfig::Command {
            command: command(section)?,
            directory: super::events::directory(section)?,
        },
        "url" => AlertWayConfig::Url {
            url: url(section, "url")?,
            secrets: secrets(section)?,
        },
        chat => AlertWayConfig::Chat {
            chat,
            url: url(section, chat)?,
        },
    })
}

fn command(section: Section<'_>) -> Result<Vec<String>, Problem> {
    let command: Vec<String> = section
        .texts("command")?
        .into_iter()
        .map(|(_, part)| part.to_owned())
        .collect();
    if command.first().is_none_or(String::is_empty) {
        return Err(section.problem("command", "is empty; write it as [\"program\", \"argument\"]"));
    }
    Ok(command)
}

/// It may stand elsewhere, as any secret: whoever knows the URL of a chat can write there.
fn url(section: Section<'_>, key: &str) -> Result<EndpointUrl, Problem> {
    let Some(secret) = section.secret(key)? else {
        return Err(section.problem(key, "is missing; write it as \"https://example.com/alerts\""));
    };
    EndpointUrl::parse(secret.expose()).map_err(|error| {
        let message = error.to_string();
        secret.problem(message.strip_prefix("url ").unwrap_or(&message))
    })
}

/// Ends are told with what they end.
fn on(section: Section<'_>) -> Result<Vec<TurnKind>, Problem> {
    let possible = || TurnKind::ALL.into_iter().filter(|kind| kind.course() != Course::Ends);
    let chosen = section.texts("on")?;
    if section.get("on").is_none() {
        return Ok(possible().collect());
    }
    let kind = |(node, text): (&Node, &str)| {
        possible().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = possible().map(TurnKind::as_str).collect();
            let meant = nearest(text, known.iter().copied());
            let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant:?}?)"));
            node.problem(format!("is {text:?}{meant}, and must be one of {}", known.join(", ")))
        })
    };
    let on = chosen.into_iter().map(kind).collect::<Result<Vec<_>, _>>()?;
    if on.is_empty() {
        return Err(section.problem("on", "is empty; leave it out to be told of everything"));
    }
    Ok(on)
}
