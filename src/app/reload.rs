//! `:reload`: the configuration is read again, and compared with what holds.
//!
//! What the console alone uses holds at once; everything else was handed to store, broker and sender when they were
//! opened, so it holds once they are opened anew, which is asked for and never done unasked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use toml::Value;

use super::console::{label, notify, other_profile};
use crate::config::{BrokerKind, Config, ConfigChoice, Environment, StoreConfig};
use crate::console::state::keymap::Keymap;
use crate::console::state::settings::{Reload, Reloaded};
use crate::console::theme::{AUTO, Sources};
use crate::domain::text::show;

/// Columns of what is wrong.
const PROBLEM_MAX: usize = 400;

/// Reads what was read at the start once more, whenever it is asked.
pub(super) fn reload(choice: ConfigChoice, environment: Environment, config: &Config) -> Reload {
    let opened = config.clone();
    let shown = Mutex::new(config.clone());
    Reload::new(move || {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Config::load(&choice, &environment).map_err(|error| show(&error.to_string(), PROBLEM_MAX))?;
        if read.file.is_none() {
            return Err("there is no configuration file".to_owned());
        }
        let reloaded = compare(&opened, &shown, &read)?;
        *shown = read;
        Ok(reloaded)
    })
}

/// `opened` is what store and broker were opened with, `shown` what the console used up to now.
fn compare(opened: &Config, shown: &Config, read: &Config) -> Result<Reloaded, String> {
    let keymap = Keymap::from_config(&read.console.keys).map_err(|error| error.to_string())?;
    let theme = read.console.theme.as_deref();
    if let Some(name) = theme.filter(|name| *name != AUTO) {
        let found = Sources::of_user().find(name);
        found.map_err(|error| format!("console.theme: {error}"))?;
    }
    let is_new_theme = read.console.theme != shown.console.theme;
    Ok(Reloaded {
        theme: is_new_theme.then(|| theme.unwrap_or(AUTO).to_owned()),
        keys: Arc::new(keymap),
        refresh: read.console.refresh,
        mouse: read.console.mouse,
        notify: notify(read.console.notify),
        titles: read.console.title,
        preview: (read.console.preview != shown.console.preview).then_some(read.console.preview),
        mask: Arc::new(read.console.mask.clone()),
        label: label(read),
        colour: read.profile.colour.clone(),
        profiles: read.profile.others.iter().map(other_profile).collect(),
        applied: applied(shown, read),
        waits: waits(opened, read),
    })
}

fn applied(shown: &Config, read: &Config) -> Vec<String> {
    let mut applied = differing(shown, read, |section| section == "console");
    let (before, now) = (&shown.profile, &read.profile);
    for (name, differs) in [
        ("label", before.label != now.label),
        ("colour", before.colour != now.colour),
        ("profiles", before.others != now.others),
    ] {
        if differs {
            applied.push(name.to_owned());
        }
    }
    applied
}

fn waits(opened: &Config, read: &Config) -> Vec<String> {
    let mut waits: BTreeSet<String> = differing(opened, read, |section| section != "console")
        .into_iter()
        .collect();
    // Where only a password is another one, what is printed of both is the same.
    let (before, now) = (secrets(opened), secrets(read));
    let differs = before.iter().zip(&now).filter(|(one, other)| one != other);
    let mut differing: Vec<&str> = differs.map(|((name, _), _)| *name).collect();
    if differing.contains(&"broker.url") {
        // Without a login of its own it has that of AMQP, and follows it.
        differing.retain(|name| *name != "broker.management_url");
    }
    waits.extend(differing.into_iter().map(str::to_owned));
    for (name, differs) in [
        ("protected", opened.profile.protected != read.profile.protected),
        ("read_only", opened.profile.read_only != read.profile.read_only),
    ] {
        if differs {
            waits.insert(name.to_owned());
        }
    }
    waits.into_iter().collect()
}

/// What is never printed, by the name of its key.
fn secrets(config: &Config) -> [(&'static str, String); 4] {
    let (amqp, management) = match &config.broker.kind {
        BrokerKind::Embedded => (String::new(), String::new()),
        BrokerKind::RabbitMq {
            amqp_url,
            management_url,
        } => (amqp_url.expose().to_owned(), management_url.expose().to_owned()),
    };
    let store = match &config.store {
        StoreConfig::Sqlite { path, .. } => path.display().to_string(),
        StoreConfig::Postgres { url } => url.expose().to_owned(),
    };
    [
        ("broker.url", amqp),
        ("broker.management_url", management),
        ("broker.url_hash_key", config.broker.naming.url_hash_key.clone()),
        ("store.url", store),
    ]
}

/// The keys of these sections that are not the same in both.
fn differing(before: &Config, now: &Config, wanted: fn(&str) -> bool) -> Vec<String> {
    let (before, now) = (keys(before), keys(now));
    let all: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let named = all
        .into_iter()
        .filter(|key| wanted(key.split('.').next().unwrap_or(key)));
    named.filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
}

/// Every key as `config print` has it.
fn keys(config: &Config) -> BTreeMap<String, Value> {
    let printed: toml::Table = config.print().parse().unwrap_or_default();
    let mut keys = BTreeMap::new();
    for (section, value) in printed {
        if let Value::Table(table) = value {
            let named = |(key, value)| (format!("{section}.{key}"), value);
            keys.extend(table.into_iter().map(named));
        } else {
            keys.insert(section, value);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let environment = Environment {
            data_home: Some("/data".into()),
            ..Environment::default()
        };
        Config::resolve(text, Some("live"), &environment).unwrap()
    }

    const BEFORE: &str = "[broker]\nurl = \"amqp://me:old@mq\"\n[profile.live]\nlabel = \"LIVE\"\ncolour = \"red\"\n";

    #[track_caller]
    fn check(after: &str, applied: &[&str], waits: &[&str]) {
        let before = config(BEFORE);
        let found = compare(&before, &before, &config(after)).unwrap();
        assert_eq!((found.applied, found.waits), (owned(applied), owned(waits)), "{after}");
    }

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_the_console_alone_uses_holds_at_once() {
        check(BEFORE, &[], &[]);
        let with = |more: &str| format!("{BEFORE}{more}");
        check(
            &with("[console]\nrefresh_s = 5\nmouse = true\n"),
            &["console.mouse", "console.refresh_s"],
            &[],
        );
        check(
            &with("[console]\ntheme = \"nord\"\nkeys = { purge = \"F9\" }\n"),
            &["console.keys", "console.theme"],
            &[],
        );
        check(&with("[profile.test]\n"), &["profiles"], &[]);
        check(&BEFORE.replace("red", "blue"), &["colour"], &[]);
    }

    #[test]
    fn what_store_and_broker_were_opened_with_waits_and_is_named() {
        check(&BEFORE.replace("old", "new"), &[], &["broker.url"]);
        check(&BEFORE.replace("LIVE", "PROD"), &["label"], &[]);
        check(&format!("{BEFORE}protected = true\n"), &[], &["protected"]);
        // The bound of slow requests is that of workers where nothing else is said.
        check(
            &format!("{BEFORE}[delivery]\nworkers = 3\n"),
            &[],
            &["delivery.slow_requests", "delivery.workers"],
        );
    }

    #[test]
    fn keys_and_themes_that_cannot_be_used_are_refused_with_their_field() {
        let before = config(BEFORE);
        for (text, field) in [
            ("[console]\nkeys = { purge = \"q\" }\n", "console.keys"),
            ("[console]\ntheme = \"nrd\"\n", "console.theme"),
        ] {
            let why = compare(&before, &before, &config(&format!("{BEFORE}{text}"))).unwrap_err();
            assert!(why.contains(field), "{why}");
        }
    }

    #[test]
    fn a_theme_that_is_not_configured_any_more_follows_the_terminal_again() {
        let before = config(&format!("{BEFORE}[console]\ntheme = \"nord\"\n"));
        let found = compare(&before, &before, &config(BEFORE)).unwrap();
        assert_eq!(found.theme.as_deref(), Some(AUTO));
        let found = compare(&before, &before, &before).unwrap();
        assert_eq!(found.theme, None, "what `:theme` chose stays");
    }
}
