//! What serves those who operate it: `[janitor]`, `[metrics]`, `[console]`, and the profile's own keys.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::{Regex, RegexBuilder};
use secrecy::SecretString;

use super::error::Problem;
use super::keys::{Keys as _, keys};
use super::kind::{Kind, flag, list, map, parsed, seconds, secret, text, text_value, typed, word};
use super::print::Page;
use super::secret::{Secret, has_stray_login};
use super::section::Section;
use super::tree::Node;
use crate::domain::error_queue::{NAME_PATTERN_BYTES_MAX, PATTERNS_MAX};
use crate::domain::job::{JOB_QUEUE_TTL, LEFTOVER_PATTERN, TTL_MAX};
use crate::domain::mask::{MaskRule, MaskRules, RULES_MAX};
use crate::domain::value::Value;

/// Colours of a profile, beside `#rrggbb`.
const COLOURS: &[&str] = &["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/// A pattern has at most this many bytes, and this many once compiled.
const PATTERN_BYTES_MAX: usize = 1024;
const PATTERN_COMPILED_BYTES_MAX: usize = 1024 * 1024;

keys! {
    /// Where dead letters are.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct DeadConfig {
        /// Names of queues with dead letters that no argument, policy or known framework names; * stands for any
        /// characters.
        ///
        /// Queues with dead letters that no x-dead-letter argument, no policy and no known framework (MassTransit, NServiceBus,
        /// EasyNetQ, Sneakers) names; * stands for any characters.
        queues: Vec<String> = patterns()
            .example("[\"parked.*\"]");
    }
}

keys! {
    /// Queues that go by themselves.
    #[derive(Clone, Debug)]
    pub struct JanitorConfig {
        /// How long what was discarded or saved can be restored.
        ///
        /// How long a discarded dead letter, or a saved message, can be restored.
        discard_keep as "discard_keep_s": Duration = seconds(60.0..=31_536_000.0)
            .or(Duration::from_hours(7 * 24));
        /// Lifetime of the queues of a job.
        job_queue_ttl as "job_queue_ttl_s": Duration = seconds(0.001..=TTL_MAX.as_secs_f64()).or(JOB_QUEUE_TTL);
        /// A regular expression: queues that should have gone. A delivery queue is none.
        leftover_pattern: Regex = text()
            .or(LEFTOVER_PATTERN.to_owned())
            .and_then(
                |text, place| pattern(&text).map_err(|problem| place.problem(problem)),
                |pattern| Some(text_value(pattern.as_str())),
            )
            .bare();
        /// Whether the messages of a queue that is about to expire are moved into the store.
        save_before_expiry: bool = flag(false);
    }
}

keys! {
    /// Beside GET /metrics.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct MetricsConfig {
        /// Host and port.
        ///
        /// Beside GET /metrics.
        statsd: Option<(String, u16)> = parsed(host_and_port, shown_host_and_port)
            .optional()
            .example("\"127.0.0.1:8125\"");
        /// The original, without labels; or Datadog's, with them.
        ///
        /// "statsd" is the original: labels become parts of the name, durations are timers; "dogstatsd" takes labels.
        has_labels as "statsd_dialect": bool = word(&[("statsd", false), ("dogstatsd", true)]).or(false);
    }
}

keys! {
    /// The screen.
    pub(super) struct ConsoleKeys {
        /// A name of `redrive theme list`, or "auto".
        ///
        /// A name of `redrive theme list`; "auto", the default, follows the terminal: dark or light.
        theme: Option<String> = text()
            .or("auto".to_owned())
            .optional();
        /// Keys by action.
        keys: Vec<(String, String)> = texts_by_name("a table of actions and keys").bare().example("{ }");
        /// Views by name: view; sort COLUMN; columns NAME, NAME; filter EXPRESSION.
        ///
        /// Views with a name, as `:save NAME` in the console makes them: view; sort COLUMN; columns NAME, NAME; filter EXPRESSION.
        views: Vec<(String, String)> = texts_by_name("a table of names and views")
            .example("{ mornings = \"queues; sort -depth; filter state = parked and age > 2h\" }");
        /// The view that the console begins with.
        ///
        /// The view that the console begins with: one of these, or overview, queues, endpoints, …
        start: Option<String> = text().or("overview".to_owned()).optional();
        /// The wheel moves, a click selects, two open.
        ///
        /// The wheel scrolls, a click selects, two clicks open; the mouse changes nothing. Shift selects text as usual.
        mouse: bool = flag(false);
        /// The selected row is shown beside its list, where there is room.
        ///
        /// The selected row is shown beside its list where the terminal has room; e switches that.
        preview: bool = flag(true);
        /// How the console calls for what is new and bad.
        ///
        /// For what is new and bad: the bell and a notification of the desktop ("auto", in the form that the terminal seems to
        /// understand, or "osc9", "osc777"), the bell alone ("bell"), or nothing ("off").
        notify: NotifyChoice = word(NotifyChoice::WORDS).or(NotifyChoice::Auto);
        /// The title of the window says what is worst.
        ///
        /// The title of the window says what is worst: "▼3 PRODUCTION redrive".
        title: bool = flag(true);
        /// Between two looks.
        refresh as "refresh_s": Duration = seconds(0.1..=3600.0).or(Duration::from_secs(2)).bare();
        /// Names of keys and headers, or JSON pointers, whose values are not shown.
        ///
        /// Values that are not shown in payloads and headers, beside authorization, cookie, set-cookie,
        /// *password*, *secret*, *token, *api-key and the like (`redrive config print` has all of them): names
        /// of keys and headers, in which * stands for anything, or JSON pointers, in which it stands for any one
        /// key. M in the console reveals the shown message, and the audit says who looked.
        mask: Vec<MaskRule> = mask_rules(rule_that_hides)
            .example("[\"tax-number\", \"/account/number\", \"/people/*/birthday\"]");
        /// Names that are shown although a rule hides them.
        unmask: Vec<MaskRule> = mask_rules(rule_that_shows).example("[\"next-page-token\"]");
    }
}

keys! {
    /// Laid over the sections by --profile NAME.
    pub(super) struct ProfileKeys {
        /// Shown on the screen.
        label: Option<String> = text().optional().bare().example("\"PRODUCTION\"");
        /// black, red, green, yellow, blue, magenta, cyan, white or #rrggbb.
        colour: Option<String> = parsed(colour, String::clone).optional().bare().example("\"red\"");
        /// Starts without the right to change anything.
        ///
        /// Starts read-only, until :write allows changes for a time.
        protected: bool = flag(false)
            .example("true");
        /// Never gets it.
        ///
        /// Never allows changes.
        read_only: bool = flag(false);
        /// The address of a daemon's HTTP API: console and commands work on it instead of broker and store.
        ///
        /// Console and commands work on this daemon, by its HTTP API, and need neither broker nor store; its token is one of api.tokens
        /// there. Without a token here REDRIVE_API_TOKEN is used, and on the daemon's own machine the token that it made.
        daemon: Option<String> = parsed(daemon_url, String::clone)
            .optional()
            .example("\"https://redrive.example:8470\"");
        /// One of the daemon's api.tokens.
        token: Option<Secret> = secret()
            .optional()
            .bare()
            .example("{ file = \"/etc/redrive/api-token\" }");
    }
}

/// How the console calls the operator for what is new and bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotifyChoice {
    /// By the bell, and by what this kind of terminal understands.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// By the bell alone.
    Bell,
    /// By the bell and OSC 9.
    Osc9,
    /// By the bell and OSC 777.
    Osc777,
}

impl NotifyChoice {
    /// As configured.
    const WORDS: &[(&str, Self)] = &[
        ("auto", Self::Auto),
        ("off", Self::Off),
        ("bell", Self::Bell),
        ("osc9", Self::Osc9),
        ("osc777", Self::Osc777),
    ];
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
    /// Whether the console shows the selected row beside its list, where there is room.
    pub preview: bool,
    /// How the console calls the operator.
    pub notify: NotifyChoice,
    /// Whether the title of the window says what is worst.
    pub title: bool,
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

/// Patterns of names of queues with dead letters, beside those that arguments, policies and frameworks name.
fn patterns() -> Kind<Vec<String>> {
    let item = text()
        .with("minLength", Value::Integer(1))
        .with("maxLength", text_length(NAME_PATTERN_BYTES_MAX));
    list(item, "a list of strings")
        .or(Vec::new())
        .with("maxItems", text_length(PATTERNS_MAX))
        .unless(|patterns| {
            let is_wrong = |pattern: &&String| {
                let all = pattern.chars().all(|c| c == '*');
                all || pattern.len() > NAME_PATTERN_BYTES_MAX || pattern.chars().any(char::is_control)
            };
            if let Some(pattern) = patterns.iter().find(is_wrong) {
                return Some(format!(
                    "has {pattern:?}, and must have names of queues of at most {NAME_PATTERN_BYTES_MAX} bytes, with * for \
                     any characters, such as \"*_error\""
                ));
            }
            (patterns.len() > PATTERNS_MAX).then(|| format!("must have at most {PATTERNS_MAX} patterns"))
        })
}

fn text_length(length: usize) -> Value {
    Value::Integer(length.try_into().unwrap_or(i128::MAX))
}

fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!("must have at most {PATTERN_BYTES_MAX} bytes"));
    }
    let pattern = RegexBuilder::new(text).size_limit(PATTERN_COMPILED_BYTES_MAX).build();
    pattern.map_err(|error| format!("is no regular expression: {error}"))
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let target = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then(|| (host.to_owned(), port))
    });
    target.ok_or_else(|| format!("is {text:?}, and must be a host and a port such as 127.0.0.1:8125"))
}

fn shown_host_and_port((host, port): &(String, u16)) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

pub(super) fn console(root: Section<'_>, page: &mut Page) -> Result<ConsoleConfig, Problem> {
    let mut keys = ConsoleKeys::read(root.section::<ConsoleKeys>("console")?)?;
    let mask = MaskRules::new(keys.mask, keys.unmask.clone());
    keys.mask = mask.hidden().to_vec();
    page.table("[console]", &keys);
    Ok(ConsoleConfig {
        theme: keys.theme,
        keys: keys.keys.into_iter().collect(),
        views: keys.views.into_iter().collect(),
        start: keys.start,
        mouse: keys.mouse,
        preview: keys.preview,
        notify: keys.notify,
        title: keys.title,
        refresh: keys.refresh,
        mask,
    })
}

/// A table whose values are texts.
fn texts_by_name(expected: &'static str) -> Kind<Vec<(String, String)>> {
    let value = |_: Section<'_>, _: &str, node: &Node| node.text().map(str::to_owned);
    map(typed("string"), expected, value, |text: &String| text_value(text))
}

/// Rules for what is hidden, or for what is shown although one hides it.
fn mask_rules(parse: fn(&str) -> Result<MaskRule, String>) -> Kind<Vec<MaskRule>> {
    let rules = list(
        parsed(parse, |rule: &MaskRule| rule.as_str().to_owned()),
        "a list of strings",
    );
    rules.unless(|rules| (rules.len() > RULES_MAX).then(|| format!("must have at most {RULES_MAX} rules")))
}

fn rule_that_hides(text: &str) -> Result<MaskRule, String> {
    MaskRule::parse(text).map_err(|error| error.to_string())
}

fn rule_that_shows(text: &str) -> Result<MaskRule, String> {
    let rule = rule_that_hides(text)?;
    if rule.is_pointer() {
        return Err("is a JSON pointer; only names can be shown although a rule hides them".to_owned());
    }
    Ok(rule)
}

pub(super) fn profile(name: Option<&str>, root: Section<'_>, page: &mut Page) -> Result<ProfileConfig, Problem> {
    let keys = ProfileKeys::read(root)?;
    if let (None, Some(token)) = (&keys.daemon, &keys.token) {
        let problem = "is for the daemon that daemon names: give daemon = \"https://HOST:8470\" too";
        return Err(token.problem(problem));
    }
    if let Some(name) = name {
        page.comments(name, &keys);
    }
    Ok(ProfileConfig {
        name: name.map(str::to_owned),
        label: keys.label,
        colour: keys.colour,
        protected: keys.protected,
        read_only: keys.read_only,
        daemon: keys.daemon.map(|url| DaemonConfig {
            url,
            token: keys.token.map(|token| token.text),
        }),
        others: Vec::new(),
    })
}

fn colour(text: &str) -> Result<String, String> {
    let hex = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !COLOURS.contains(&text) && !text.strip_prefix('#').is_some_and(hex) {
        return Err(format!(
            "is {text:?}, and must be #rrggbb or one of {}",
            COLOURS.join(", ")
        ));
    }
    Ok(text.to_owned())
}

fn daemon_url(text: &str) -> Result<String, String> {
    let parsed = url::Url::parse(text).ok();
    if !parsed
        .as_ref()
        .is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
    {
        return Err("must be the address of a daemon, such as https://HOST:8470".to_owned());
    }
    // Never with the password, which stays in the file.
    let has_login =
        |url: url::Url| !url.username().is_empty() || url.password().is_some() || has_stray_login(&url, |_| false);
    if parsed.is_some_and(has_login) {
        return Err("has a user or a password in it; who asks is told by token".to_owned());
    }
    Ok(text.to_owned())
}
