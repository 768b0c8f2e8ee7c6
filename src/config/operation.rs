//! What serves those who operate it: `[janitor]`, `[metrics]`, `[console]`, and the profile's own keys.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::{Regex, RegexBuilder};
use secrecy::SecretString;

use super::error::Problem;
use super::section::Section;
use super::tree::{Node, Written};
use crate::domain::error_queue::{NAME_PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::domain::job::{JOB_QUEUE_TTL, LEFTOVER_PATTERN, TTL_MAX};
use crate::domain::mask::{MaskRule, MaskRules, RULES_MAX};

pub(super) const DEAD_KEYS: &[&str] = &["queues"];
pub(super) const JANITOR_KEYS: &[&str] = &[
    "discard_keep_s",
    "job_queue_ttl_s",
    "leftover_pattern",
    "save_before_expiry",
];
pub(super) const METRICS_KEYS: &[&str] = &["statsd", "statsd_dialect"];
pub(super) const CONSOLE_KEYS: &[&str] = &[
    "theme",
    "keys",
    "views",
    "start",
    "mouse",
    "refresh_s",
    "mask",
    "unmask",
];
/// The keys of a profile that are not sections.
pub(super) const PROFILE_KEYS: &[&str] = &["label", "colour", "protected", "read_only", "daemon", "token"];

/// Colours of a profile, beside `#rrggbb`.
const COLOURS: &[&str] = &["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/// A pattern has at most this many bytes, and this many once compiled.
const PATTERN_BYTES_MAX: usize = 1024;
const PATTERN_COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// `[dead]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadConfig {
    /// Patterns of names of queues with dead letters, beside those that arguments, policies and frameworks name.
    pub queues: Vec<String>,
}

/// `[janitor]`.
#[derive(Clone, Debug)]
pub struct JanitorConfig {
    /// How long a discarded dead letter can be restored.
    pub discard_keep: Duration,
    /// Lifetime of the queues of a job.
    pub job_queue_ttl: Duration,
    /// Which queues may be leftovers.
    pub leftover_pattern: Regex,
    /// Whether messages are saved before their queue expires.
    pub save_before_expiry: bool,
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Where statsd listens, as host and port.
    pub statsd: Option<(String, u16)>,
    /// Whether that understands labels (`statsd_dialect = "dogstatsd"`).
    pub has_labels: bool,
}

/// `[console]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleConfig {
    /// The theme's name; none is the default one.
    pub theme: Option<String>,
    /// Keys by action.
    pub keys: BTreeMap<String, String>,
    /// Views of the console by their names, a line each.
    pub views: BTreeMap<String, String>,
    /// The view to begin with.
    pub start: Option<String>,
    /// Whether the console takes the mouse.
    pub mouse: bool,
    /// How often what is shown is looked up.
    pub refresh: Duration,
    /// What is masked in payloads and headers.
    pub mask: MaskRules,
}

/// The profile in use.
#[derive(Clone, Debug, Default)]
pub struct ProfileConfig {
    /// Its name; none when there is none.
    pub name: Option<String>,
    /// What the console shows instead of the name.
    pub label: Option<String>,
    /// The colour of the label.
    pub colour: Option<String>,
    /// Whether the console starts without the right to change anything.
    pub protected: bool,
    /// Whether nothing can be changed at all.
    pub read_only: bool,
    /// The daemon that console and commands are attached to, instead of broker and store.
    pub daemon: Option<DaemonConfig>,
    /// The other profiles of the file.
    pub others: Vec<OtherProfile>,
}

/// A daemon elsewhere.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Where its API is.
    pub url: String,
    /// What it is asked with.
    pub token: Option<SecretString>,
}

/// A profile that is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProfile {
    /// Its name.
    pub name: String,
    /// What the console shows instead.
    pub label: Option<String>,
    /// Whether the console starts without the right to change anything there.
    pub protected: bool,
}

impl OtherProfile {
    /// What is known of it, for a person.
    #[must_use]
    pub fn says(&self) -> String {
        let label = self.label.as_deref().unwrap_or_default();
        let protected = if self.protected { "protected" } else { "" };
        format!("{label} {protected}").trim().to_owned()
    }
}

pub(super) fn dead(section: Section<'_>) -> Result<DeadConfig, Problem> {
    let mut queues = Vec::new();
    for (_, pattern) in section.texts("queues")? {
        let all = pattern.chars().all(|c| c == '*');
        if all || pattern.len() > NAME_PATTERN_BYTES_MAX || pattern.chars().any(char::is_control) {
            return Err(section.problem(
                "queues",
                format!(
                    "has {pattern:?}, and must have names of queues of at most {NAME_PATTERN_BYTES_MAX} bytes, with * for \
                     any characters, such as \"*_error\""
                ),
            ));
        }
        queues.push(pattern.to_owned());
    }
    if queues.len() > PATTERNS_MAX {
        return Err(section.problem("queues", format!("must have at most {PATTERNS_MAX} patterns")));
    }
    Ok(DeadConfig { queues })
}

pub(super) fn janitor(section: Section<'_>) -> Result<JanitorConfig, Problem> {
    let pattern = section.text("leftover_pattern")?.unwrap_or(LEFTOVER_PATTERN);
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(section.problem(
            "leftover_pattern",
            format!("must have at most {PATTERN_BYTES_MAX} bytes"),
        ));
    }
    Ok(JanitorConfig {
        discard_keep: section.seconds("discard_keep_s", 60.0..=31_536_000.0, Duration::from_hours(7 * 24))?,
        job_queue_ttl: section.seconds("job_queue_ttl_s", 0.001..=TTL_MAX.as_secs_f64(), JOB_QUEUE_TTL)?,
        leftover_pattern: RegexBuilder::new(pattern)
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| section.problem("leftover_pattern", format!("is no regular expression: {error}")))?,
        save_before_expiry: section.flag("save_before_expiry", false)?,
    })
}

pub(super) fn metrics(section: Section<'_>) -> Result<MetricsConfig, Problem> {
    let has_labels = match section.text("statsd_dialect")? {
        None | Some("statsd") => false,
        Some("dogstatsd") => true,
        Some(other) => {
            let problem = format!("is {other:?}, and must be \"statsd\" or \"dogstatsd\"");
            return Err(section.problem("statsd_dialect", problem));
        }
    };
    let Some(text) = section.text("statsd")? else {
        return Ok(MetricsConfig {
            statsd: None,
            has_labels,
        });
    };
    let target = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| (host.to_owned(), port))
    });
    match target {
        Some(target) => Ok(MetricsConfig {
            statsd: Some(target),
            has_labels,
        }),
        None => Err(section.problem(
            "statsd",
            format!("is {text:?}, and must be a host and a port such as 127.0.0.1:8125"),
        )),
    }
}

pub(super) fn console(section: Section<'_>) -> Result<ConsoleConfig, Problem> {
    Ok(ConsoleConfig {
        theme: section.text("theme")?.map(str::to_owned),
        keys: texts_by_name(section, "keys", "a table of actions and keys")?,
        views: texts_by_name(section, "views", "a table of names and views")?,
        start: section.text("start")?.map(str::to_owned),
        mouse: section.flag("mouse", false)?,
        refresh: section.seconds("refresh_s", 0.1..=3600.0, Duration::from_secs(2))?,
        mask: MaskRules::new(mask_rules(section, "mask")?, mask_rules(section, "unmask")?),
    })
}

/// A table whose values are texts.
fn texts_by_name(section: Section<'_>, key: &str, expected: &str) -> Result<BTreeMap<String, String>, Problem> {
    let Some(node) = section.get(key) else {
        return Ok(BTreeMap::new());
    };
    if !matches!(node.written, Written::Table(_)) {
        return Err(node.problem(format!("is {}, and must be {expected}", node.written.kind())));
    }
    let mut texts = BTreeMap::new();
    for (name, node) in node.entries() {
        let Written::Text(text) = &node.written else {
            return Err(node.problem(format!("is {}, and must be a string", node.written.kind())));
        };
        texts.insert(name.clone(), text.clone());
    }
    Ok(texts)
}

fn mask_rules(section: Section<'_>, key: &str) -> Result<Vec<MaskRule>, Problem> {
    let written = section.texts(key)?;
    if written.len() > RULES_MAX {
        return Err(section.problem(key, format!("must have at most {RULES_MAX} rules")));
    }
    let rule = |(node, text): (&Node, &str)| {
        let rule = MaskRule::parse(text).map_err(|error| node.problem(error.to_string()))?;
        if key == "unmask" && rule.is_pointer() {
            return Err(node.problem("is a JSON pointer; only names can be shown although a rule hides them"));
        }
        Ok(rule)
    };
    written.into_iter().map(rule).collect()
}

pub(super) fn profile(name: Option<&str>, section: Section<'_>) -> Result<ProfileConfig, Problem> {
    let colour = section.text("colour")?;
    if let Some(colour) = colour {
        let hex = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !COLOURS.contains(&colour) && !colour.strip_prefix('#').is_some_and(hex) {
            let problem = format!("is {colour:?}, and must be #rrggbb or one of {}", COLOURS.join(", "));
            return Err(section.problem("colour", problem));
        }
    }
    Ok(ProfileConfig {
        name: name.map(str::to_owned),
        label: section.text("label")?.map(str::to_owned),
        colour: colour.map(str::to_owned),
        protected: section.flag("protected", false)?,
        read_only: section.flag("read_only", false)?,
        daemon: daemon(section)?,
        others: Vec::new(),
    })
}

fn daemon(section: Section<'_>) -> Result<Option<DaemonConfig>, Problem> {
    let token = section.secret("token")?;
    let Some(url) = section.text("daemon")? else {
        return match token {
            Some(token) => {
                Err(token.problem("is for the daemon that daemon names: give daemon = \"https://HOST:8470\" too"))
            }
            None => Ok(None),
        };
    };
    let parsed = url::Url::parse(url).ok();
    if !parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some()) {
        return Err(section.problem("daemon", "must be the address of a daemon, such as https://HOST:8470"));
    }
    Ok(Some(DaemonConfig {
        url: url.to_owned(),
        token: token.map(|token| token.text),
    }))
}
