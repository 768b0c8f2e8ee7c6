//! Commands that need neither broker nor store: configuration, queue names, policies, completions, manual.

use std::path::Path;

use serde_json::json;

use crate::ambient::Clock;
use crate::config::{self, Environment};
use crate::domain::policy::RetryPolicy;
use crate::files;
use crate::wire::{input, policy};

use super::args::{Cli, Config, Policy, Sub};
use super::exit::{Exit, Failure};
use super::output::{Output, document, note, print, say, shown};
use super::policies::previewed;

pub(super) fn run(cli: &Cli, environment: &Environment, output: Output) -> Result<Exit, Failure> {
    match &cli.command {
        Some(Sub::Config(Config::Check)) => check(cli, environment, output),
        Some(Sub::Config(Config::Print)) => effective(cli, environment, output),
        Some(Sub::Config(Config::Schema)) => schema(),
        Some(Sub::Config(Config::Init { file })) => init(file.as_deref(), cli.global.dry_run),
        Some(Sub::Completions { shell }) => {
            print(&super::complete::script(*shell)?)?;
            Ok(Exit::Done)
        }
        Some(Sub::Man { command, out }) => super::manual::manual(command, out.as_deref()),
        Some(Sub::Filters) => {
            print(super::filters::page().as_bytes())?;
            Ok(Exit::Done)
        }
        Some(Sub::Token) => token(&load(cli, environment)?.api, output),
        Some(Sub::QueueName(target)) => {
            let (execution, url) = (input::execution(&target.execution)?, input::url(&target.url)?);
            let address = load(cli, environment)?.broker.naming.address(&execution, &url);
            super::queues::addressed(output, address, &url)
        }
        Some(Sub::Policy(Policy::Show { default: true, .. })) => {
            let policy = RetryPolicy::built_in();
            previewed(output, &policy::Preview::of(&policy), &policy)?;
            Ok(Exit::Done)
        }
        Some(Sub::Policy(Policy::Preview { of, policy })) if of.is_nothing() => preview(policy, output),
        Some(
            Sub::Publish(_)
            | Sub::End(_)
            | Sub::Dead(_)
            | Sub::Run(_)
            | Sub::Queues(_)
            | Sub::Queue(_)
            | Sub::Endpoints(_)
            | Sub::Endpoint(_)
            | Sub::Redeliver(_)
            | Sub::Retries(_)
            | Sub::Rates(_)
            | Sub::Event(_)
            | Sub::EventType(_)
            | Sub::Subscription(_)
            | Sub::Claim(_)
            | Sub::Attempts(_)
            | Sub::Notification(_)
            | Sub::Audit(_)
            | Sub::Rescued(_)
            | Sub::Expiring(_)
            | Sub::Job(_)
            | Sub::Alert(_)
            | Sub::Doctor
            | Sub::Store(_)
            | Sub::Vhost(_)
            | Sub::Handover(_)
            | Sub::Theme(_)
            | Sub::Listen(_)
            | Sub::Attach { .. }
            | Sub::Policy(_),
        )
        | None => Err(Failure::new(Exit::Usage, "this command needs an engine")),
    }
}

fn load(cli: &Cli, environment: &Environment) -> Result<crate::config::Config, Failure> {
    crate::config::Config::load(&cli.config_choice(), environment)
        .map_err(|error| Failure::of(Exit::Configuration, &error))
}

fn token(api: &crate::config::ApiConfig, output: Output) -> Result<Exit, Failure> {
    if !api.tokens.is_empty() {
        let why = "api.tokens is configured: no token was made, and those are where the configuration has them";
        return Err(Failure::refused(why));
    }
    let unread = |why: String| Failure::new(Exit::Configuration, why);
    let path = api.made_token.as_ref();
    let path = path.ok_or_else(|| unread("there is no home directory of this user for a token".to_owned()))?;
    let secret = files::shown_secret(path).map_err(|error| unread(format!("{}: {error}", path.display())))?;
    let Some(secret) = secret else {
        let why = format!(
            "{} is not there: `redrive --daemon` makes it at its first start",
            path.display()
        );
        return Err(Failure::new(Exit::NotFound, why));
    };
    if output.is_json() {
        document(&json!({"token": secret}))?;
    } else {
        print(format!("{secret}\n").as_bytes())?;
    }
    Ok(Exit::Done)
}

fn check(cli: &Cli, environment: &Environment, output: Output) -> Result<Exit, Failure> {
    let config = load(cli, environment)?;
    let file = config.file.as_ref().map(|file| file.display().to_string());
    if let Some(problem) = unreadable(&config) {
        return Err(Failure::new(Exit::Configuration, problem));
    }
    let mut warnings = config.warnings();
    warnings.extend(of_other_profiles(cli, environment, &config)?);
    let ending = config.certificates().ending(Clock::system().now()).into_iter();
    warnings.extend(ending.map(|ending| ending.said));
    for warning in &warnings {
        say(&format!("warning: {}", shown(warning)));
    }
    let facts = [
        ("configuration", Some("fine".to_owned())),
        (
            "file",
            Some(
                file.clone()
                    .unwrap_or_else(|| "none: everything is embedded".to_owned()),
            ),
        ),
    ];
    output.facts(&json!({"valid": true, "file": file, "warnings": warnings}), &facts)?;
    Ok(Exit::Done)
}

/// What is wrong in a profile that is not in use is found before the day on which it is needed. A secret that is kept elsewhere
/// may be only where that profile is used.
fn of_other_profiles(cli: &Cli, environment: &Environment, config: &config::Config) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for other in &config.profile.others {
        let choice = config::ConfigChoice {
            profile: Some(other.name.clone()),
            ..cli.config_choice()
        };
        match config::Config::load(&choice, environment) {
            Err(error) if matches!(error.problem, config::Problem::Secret { .. }) => {
                warnings.push(format!("profile {}: {}", other.name, error.problem));
            }
            Err(error) => return Err(Failure::of(Exit::Configuration, &error)),
            Ok(_) => {}
        }
    }
    Ok(warnings)
}

/// A file of a certificate that a daemon of this user could not read.
fn unreadable(config: &config::Config) -> Option<String> {
    let api = config.api.tls.as_ref().map(|tls| {
        [
            ("api.tls.certificate", Some(&tls.certificate)),
            ("api.tls.key", Some(&tls.key)),
        ]
    });
    let broker = config.broker.tls.as_ref().map(|tls| {
        [
            ("broker.tls.certificate", Some(&tls.certificate)),
            ("broker.tls.key", Some(&tls.key)),
            ("broker.tls.authority", tls.authority.as_ref()),
        ]
    });
    let named = api.into_iter().flatten().chain(broker.into_iter().flatten());
    named
        .filter_map(|(field, path)| Some((field, path?)))
        .find_map(|(field, path)| {
            let error = std::fs::File::open(path).err()?;
            Some(format!(
                "configuration: {field} is {:?}, which cannot be read: {error}; give the path of a PEM file that this user \
                 can read",
                path.to_string_lossy()
            ))
        })
}

fn effective(cli: &Cli, environment: &Environment, output: Output) -> Result<Exit, Failure> {
    let text = load(cli, environment)?.print();
    if !output.is_json() {
        print(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let read: serde_json::Value = toml::from_str(&text).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("the configuration cannot be printed as JSON: {error}"),
        )
    })?;
    document(&read)?;
    Ok(Exit::Done)
}

fn schema() -> Result<Exit, Failure> {
    print(config::schema().as_bytes())?;
    Ok(Exit::Done)
}

/// Never over a file that exists, and readable by its owner alone: secrets may be written into it.
fn init(file: Option<&Path>, dry_run: bool) -> Result<Exit, Failure> {
    let Some(file) = file.filter(|_| !dry_run) else {
        print(config::template().as_bytes())?;
        return Ok(Exit::Done);
    };
    crate::files::write_new(file, config::template().as_bytes())
        .map_err(|error| Failure::new(Exit::Failed, format!("{} cannot be written: {error}", file.display())))?;
    note(&format!("written: {}", shown(&file.display().to_string())));
    Ok(Exit::Done)
}

fn preview(json: &str, output: Output) -> Result<Exit, Failure> {
    match policy::preview(json) {
        Ok(policy) => {
            previewed(output, &policy::Preview::of(&policy), &policy)?;
            Ok(Exit::Done)
        }
        Err(invalid) => {
            document(&invalid)?;
            Ok(Exit::Failed)
        }
    }
}
