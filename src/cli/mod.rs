//! The command line: arguments become commands and queries, answers become tables or JSON.
//!
//! Promises: standard output carries the result and nothing else, messages go to standard error;
//! the exit codes are those of docs/contract.md; a mutation is planned and confirmed; text from outside
//! cannot act on the terminal. Left out on purpose: opening store and broker, which is `app`'s.

mod alerts;
mod args;
mod attempts;
mod compare;
mod complete;
mod confirm;
mod console_args;
mod dead;
mod dead_args;
mod dead_letters;
mod delivery_args;
mod done;
mod endpoints;
mod event_args;
mod events;
mod examples;
mod exit;
mod expiring;
mod filters;
mod given;
mod handover;
mod jobs;
mod listen;
mod manual;
mod named;
mod notification;
mod offline;
mod output;
mod paged;
mod policies;
mod queues;
mod rates;
mod records;
mod registry;
mod runs;
mod services;
mod store;
mod themes;
mod types;
mod when;
mod who;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::config::ProfileConfig;
use crate::engine::view::Check;
use crate::engine::{Access, Caution, Command, EngineHandle, Plan, WriteGrant};

pub use args::Cli;
pub use exit::{Exit, Failure};
pub use listen::{AnswersAsked, ListenAsked};
#[cfg(any(test, feature = "internals"))]
#[cfg(any(test, feature = "internals"))]
pub use manual::VARIABLES;
pub use registry::{COMMANDS, Does, Prints};
pub use store::{Migrated, StoreDone, StoreWork, consents_to, consents_to_loss, print_migrated, print_store_done};
pub use themes::{ThemeFound, ThemesAsked, print_themes};

use args::{JobCommand, Policy, StoreCommand, Sub, VhostCommand};
use confirm::Consent;
use delivery_args::{Endpoint, Queue};
use done::How;
use output::{Output, note, say, shown};
pub use who::actor;

/// What the program is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The console.
    Console,
    /// The engine without a screen.
    Daemon,
    /// Everything embedded, with traffic of its own.
    Demo {
        /// Without a screen until stopped.
        daemon: bool,
    },
    /// The receiver of development.
    Listen,
    /// A command that needs neither broker nor store.
    Offline,
    /// A command on the store alone, opened by nobody else.
    Store,
    /// A command on broker and store.
    Command,
}

/// Reads the arguments of the process. `Err`: they are answered already, with help, completions or an error.
pub fn parse() -> Result<Cli, Exit> {
    if let Some(exit) = complete::answer() {
        return Err(exit);
    }
    let cli = Cli::typed(std::env::args_os()).map_err(|error| {
        // A broken pipe behind `--help` is no failure.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    })?;
    output::set_quiet(cli.global.quiet);
    Ok(cli)
}

/// Tells a failure on standard error, one line for each cause.
#[must_use]
pub fn report(failure: &Failure) -> Exit {
    if failure.exit() != Exit::Done {
        for (index, cause) in failure.causes().iter().enumerate() {
            let before = if index == 0 { "error" } else { "  because" };
            say(&format!("{before}: {}", shown(cause)));
        }
    }
    failure.exit()
}

/// A message on standard error, unless nobody wants any (`--quiet`).
pub fn notice(line: &str) {
    note(&shown(line));
}

/// What to use where there is no terminal for the console.
pub const NO_TERMINAL: &str =
    "the console needs a terminal: use `redrive --daemon` to deliver, `redrive queues` to look";

/// Where the console is opened on a terminal that can only print lines.
pub const DUMB_TERMINAL: &str = "the console needs a terminal that can move its cursor, and TERM is \"dumb\": use \
    `redrive queues` or `redrive endpoints` to look, or set TERM to what the terminal is";

/// Whether the terminal can only print lines, one below the other.
#[must_use]
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether a person types here and sees what is printed.
#[must_use]
pub fn on_terminal() -> bool {
    use std::io::IsTerminal as _;
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl Cli {
    /// Everything that can be typed.
    #[must_use]
    pub fn arguments() -> clap::Command {
        registry::fitted(Self::command())
    }

    fn typed(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let mut arguments = Self::arguments();
        let read = arguments.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&read).map_err(|error| error.format(&mut arguments))
    }

    /// Whether what is printed is for programs.
    #[must_use]
    pub const fn prints_json(&self) -> bool {
        self.global.json
    }

    /// What to be.
    pub fn mode(&self) -> Result<Mode, Failure> {
        match (self.daemon, self.demo, &self.command) {
            // A process that stays would show it to every user of the machine for as long.
            (_, _, None) if self.global.broker.is_some() => Err(Failure::new(
                Exit::Usage,
                "--broker is for one command; console and daemon have broker.url or REDRIVE_BROKER_URL, and the demo has a \
                 broker of its own",
            )),
            (_, _, None | Some(Sub::Attach { .. })) if self.global.dry_run => Err(Failure::new(
                Exit::Usage,
                "--dry-run is for one command: `redrive doctor` looks at what a daemon needs, and --read-only opens a console \
                 that changes nothing",
            )),
            (true, _, Some(_)) | (_, true, Some(_)) => Err(Failure::new(
                Exit::Usage,
                "--daemon and --demo stand alone; leave the command out",
            )),
            (daemon, true, None) => Ok(Mode::Demo { daemon }),
            (true, false, None) => Ok(Mode::Daemon),
            (false, false, Some(command)) if self.at.is_some() && !matches!(command, Sub::Attach { .. }) => Err(
                Failure::new(Exit::Usage, "--at is the console's; leave the command out"),
            ),
            (false, false, Some(_)) if self.work => Err(Failure::new(
                Exit::Usage,
                "--work is the console's; leave the command out",
            )),
            (false, false, None | Some(Sub::Attach { .. })) => Ok(Mode::Console),
            (false, false, Some(Sub::Listen(_))) => Ok(Mode::Listen),
            (false, false, Some(Sub::Policy(args::Policy::Preview { of, .. }))) if of.is_nothing() => Ok(Mode::Offline),
            (
                false,
                false,
                Some(
                    Sub::Config(_)
                    | Sub::Theme(_)
                    | Sub::Filters
                    | Sub::Completions { .. }
                    | Sub::Man { .. }
                    | Sub::QueueName(_)
                    | Sub::Policy(args::Policy::Show { default: true, .. })
                    | Sub::Token,
                ),
            ) => Ok(Mode::Offline),
            (false, false, Some(Sub::Store(command))) if !matches!(command, StoreCommand::Adopt) => Ok(Mode::Store),
            (false, false, Some(_)) => Ok(Mode::Command),
        }
    }

    /// The daemon that the console is to be attached to, and the file with its token.
    #[must_use]
    pub fn attaches(&self) -> Option<(&str, Option<&std::path::Path>)> {
        match &self.command {
            Some(Sub::Attach { url, token_file }) => Some((url, token_file.as_deref())),
            Some(_) | None => None,
        }
    }

    /// Where the console is to be opened.
    #[must_use]
    pub fn opens_at(&self) -> Option<&str> {
        self.at.as_deref()
    }

    /// Which configuration.
    #[must_use]
    pub fn config_choice(&self) -> crate::config::ConfigChoice {
        crate::config::ConfigChoice {
            file: self.global.config.clone(),
            profile: self.global.profile.clone(),
            broker: self.global.broker.clone().map(crate::config::BrokerUrl),
        }
    }

    /// What is logged, where neither `REDRIVE_LOG` says it nor `usual` is enough.
    #[must_use]
    pub const fn log_filter<'a>(&self, usual: Option<&'a str>) -> Option<&'a str> {
        match self.global.verbose {
            0 => usual,
            1 => Some("info"),
            _ => Some("debug"),
        }
    }

    /// Whether nothing is to be done, and only told (`--dry-run`).
    #[must_use]
    pub const fn is_dry_run(&self) -> bool {
        self.global.dry_run
    }

    /// Whether the console delivers from the start (`--work`).
    #[must_use]
    pub const fn works(&self) -> bool {
        self.work
    }

    /// Whether names on the broker are asked for, which are those of the daemon where the profile has one.
    #[must_use]
    pub const fn asks_for_names(&self) -> bool {
        matches!(self.command, Some(Sub::QueueName(_)))
    }

    /// Whether the configuration itself is what is asked about.
    #[must_use]
    pub const fn checks_configuration(&self) -> bool {
        matches!(self.command, Some(Sub::Config(args::Config::Check)))
    }

    /// Why, for the audit (`--reason`).
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.global.reason.as_deref()
    }

    /// Refuses early what a read-only process must not do.
    pub fn check_access(&self, access: Access) -> Result<(), Failure> {
        let writes = self.command.as_ref().is_some_and(changes_something);
        if writes && !self.global.dry_run && self.access(access) == Access::ReadOnly {
            return Err(Failure::refused(
                "this is read-only (--read-only, or the profile): nothing was changed",
            ));
        }
        Ok(())
    }

    /// What this process may do where the configuration allows `allowed`.
    #[must_use]
    pub fn access(&self, allowed: Access) -> Access {
        if self.global.read_only {
            Access::ReadOnly
        } else {
            allowed
        }
    }
}

/// Runs a command that needs neither broker nor store.
pub fn offline(cli: &Cli, environment: &crate::config::Environment) -> Result<Exit, Failure> {
    offline::run(cli, environment, Output::new(&cli.global))
}

/// Whether this is `doctor`, which answers also where store or broker cannot be opened.
#[must_use]
pub const fn is_doctor(cli: &Cli) -> bool {
    matches!(cli.command, Some(Sub::Doctor))
}

/// What `doctor` answers then: why, and what was found without an engine.
pub fn doctor_without_engine(
    cli: &Cli,
    failure: Failure,
    checks: &[Check],
    warnings: &[String],
) -> Result<Exit, Failure> {
    records::doctor_broken(Output::new(&cli.global), &failure, checks, warnings)?;
    // A store that is away is a finding as any other.
    if failure.exit() == Exit::Unreachable {
        return Ok(Exit::Failed);
    }
    Err(failure)
}

/// Runs a command on an engine; `warnings` are those of the configuration.
pub async fn run(
    cli: &Cli,
    engine: &EngineHandle,
    profile: &ProfileConfig,
    warnings: &[String],
) -> Result<Exit, Failure> {
    let session = Session {
        cli,
        engine,
        warnings,
        output: Output::new(&cli.global),
        access: cli.access(access(profile)),
        caution: if profile.protected {
            Caution::Protected
        } else {
            Caution::Usual
        },
    };
    // `doctor` tells whose the broker is, and `store adopt` changes it.
    if !matches!(cli.command, Some(Sub::Doctor | Sub::Store(_) | Sub::Vhost(_))) {
        engine.compare_owner().await?;
    }
    match &cli.command {
        Some(Sub::Publish(publish)) => services::publish(&session, publish).await,
        Some(Sub::End(target)) => services::end(&session, target).await,
        Some(Sub::Queues(selection)) => queues::list(&session, selection).await,
        Some(Sub::Queue(queue)) => queues::one(&session, queue).await,
        Some(Sub::Endpoints(selection)) => endpoints::list(&session, selection).await,
        Some(Sub::Endpoint(endpoint)) => endpoints::one(&session, endpoint).await,
        Some(Sub::Redeliver(which)) => endpoints::redeliver(&session, which).await,
        Some(Sub::Retries(which)) => records::retries(&session, which).await,
        Some(Sub::Rates(which)) => rates::rates(&session, which).await,
        Some(Sub::Attempts(which)) => attempts::attempts(&session, which).await,
        Some(Sub::Notification(which)) => notification::one(&session, which).await,
        Some(Sub::Audit(audit)) => records::audit(&session, audit).await,
        Some(Sub::Event(event)) => events::event(&session, event).await,
        Some(Sub::EventType(event_type)) => types::event_type(&session, event_type).await,
        Some(Sub::Subscription(subscription)) => types::subscription(&session, subscription).await,
        Some(Sub::Claim(claim)) => types::claim(&session, claim).await,
        Some(Sub::Expiring(expiring)) => expiring::run(&session, expiring).await,
        Some(Sub::Job(job)) => jobs::run(&session, job).await,
        Some(Sub::Handover(handover)) => handover::run(&session, handover).await,
        Some(Sub::Alert(args::Alert::Test { name })) => alerts::test(&session, name).await,
        Some(Sub::Doctor) => records::doctor(&session).await,
        Some(Sub::Store(store)) => store::run(&session, store).await,
        Some(Sub::Vhost(VhostCommand::Make)) => store::make_vhost(&session).await,
        Some(Sub::Dead(dead)) => dead_letters::one(&session, dead).await,
        Some(Sub::Rescued(rescued)) => records::rescued(&session, rescued).await,
        Some(Sub::Run(run)) => runs::one(&session, run).await,
        Some(Sub::Policy(policy)) => policies::run(&session, policy).await,
        Some(Sub::QueueName(target)) => queues::address(&session, target).await,
        Some(
            Sub::Token
            | Sub::Config(_)
            | Sub::Theme(_)
            | Sub::Listen(_)
            | Sub::Attach { .. }
            | Sub::Filters
            | Sub::Completions { .. }
            | Sub::Man { .. },
        )
        | None => Err(Failure::new(Exit::Usage, "this command needs no engine")),
    }
}

/// One command at work.
/// Whether the profile may change anything.
#[must_use]
pub const fn access(profile: &ProfileConfig) -> Access {
    if profile.read_only {
        Access::ReadOnly
    } else {
        Access::Operator
    }
}

struct Session<'a> {
    cli: &'a Cli,
    engine: &'a EngineHandle,
    output: Output<'a>,
    access: Access,
    /// Whether the profile asks for more than a yes where others do not yet.
    caution: Caution,
    /// What is possible in the configuration but not advisable.
    warnings: &'a [String],
}

impl Session<'_> {
    /// The permission to change something.
    fn grant(&self) -> Result<WriteGrant, Failure> {
        let grant = self.access.grant(&actor("cli"), self.cli.global.reason.clone());
        grant.ok_or_else(|| Failure::refused("this is read-only: nothing was changed"))
    }

    /// Plans, asks, does it, and prints what came of it, or the plan where only that was wanted.
    async fn act(&self, command: Command, how: How) -> Result<Exit, Failure> {
        let plan = self.engine.plan(command).await?;
        self.carry_out(plan, how).await
    }

    /// The same for what is planned already.
    async fn carry_out(&self, plan: Plan, how: How) -> Result<Exit, Failure> {
        if confirm::consent(self, &plan)? == Consent::PlanOnly {
            return Ok(Exit::Done);
        }
        let done = self.engine.execute(&plan, &self.grant()?).await?;
        done::tell(self, &done, how).await
    }
}

const fn changes_something(command: &Sub) -> bool {
    match command {
        Sub::Publish(_) | Sub::End(_) | Sub::Redeliver(_) | Sub::Claim(_) | Sub::Vhost(VhostCommand::Make) => true,
        Sub::Store(store) => !matches!(store, StoreCommand::Backup { .. }),
        Sub::Queue(queue) => !matches!(queue, Queue::Why(_) | Queue::Map(_) | Queue::Browse { .. }),
        Sub::Dead(dead) => dead::changes_something(dead),
        Sub::Run(run) => !matches!(run, dead_args::Run::List(_) | dead_args::Run::Show { .. }),
        Sub::Endpoint(endpoint) => !matches!(endpoint, Endpoint::Show { .. }),
        Sub::Event(event) => event.changes_something(),
        Sub::EventType(event_type) => event_type.changes_something(),
        Sub::Subscription(subscription) => subscription.changes_something(),
        Sub::Job(job) => match job {
            JobCommand::Submit(_) | JobCommand::Publish(_) => true,
            // To follow is to consume.
            JobCommand::Connect(connect) => !connect.check,
            JobCommand::List => false,
        },
        Sub::Policy(policy) => matches!(policy, Policy::Set { .. } | Policy::Unset(_) | Policy::Restore { .. }),
        Sub::Expiring(expiring) => expiring.changes_something(),
        Sub::Queues(_)
        | Sub::Endpoints(_)
        | Sub::Retries(_)
        | Sub::Rates(_)
        | Sub::Attempts(_)
        | Sub::Notification(_)
        | Sub::Audit(_)
        | Sub::Rescued(_)
        | Sub::Alert(_)
        | Sub::Doctor
        | Sub::Handover(_)
        | Sub::Theme(_)
        | Sub::Listen(_)
        | Sub::Attach { .. }
        | Sub::Filters
        | Sub::QueueName(_)
        | Sub::Config(_)
        | Sub::Token
        | Sub::Completions { .. }
        | Sub::Man { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Cli {
        Cli::typed(line.split_whitespace().map(Into::into)).unwrap()
    }

    #[test]
    fn the_arguments_are_consistent() {
        Cli::arguments().debug_assert();
    }

    #[test]
    fn global_flags_work_before_and_after_the_command() {
        for line in ["redrive --json --read-only queues", "redrive queues --json --read-only"] {
            let cli = parsed(line);
            assert!(cli.global.json && cli.global.read_only, "{line}");
        }
        assert!(parsed("redrive queue purge q --dry-run").global.dry_run);
    }

    #[test]
    fn the_mode_follows_from_what_was_typed() {
        assert_eq!(parsed("redrive").mode().unwrap(), Mode::Console);
        assert_eq!(parsed("redrive --work").mode().unwrap(), Mode::Console);
        assert_eq!(parsed("redrive --daemon").mode().unwrap(), Mode::Daemon);
        assert_eq!(
            parsed("redrive --demo --daemon").mode().unwrap(),
            Mode::Demo { daemon: true }
        );
        assert_eq!(parsed("redrive config check").mode().unwrap(), Mode::Offline);
        assert_eq!(parsed("redrive queues").mode().unwrap(), Mode::Command);
        for line in [
            "redrive --daemon queues",
            "redrive --work queues",
            "redrive --demo man",
            "redrive --daemon --dry-run",
            "redrive --dry-run",
            "redrive attach http://127.0.0.1:1 --dry-run",
        ] {
            assert_eq!(parsed(line).mode().unwrap_err().exit(), Exit::Usage, "{line}");
        }
    }

    #[test]
    fn a_read_only_process_refuses_what_services_and_operators_change() {
        for line in [
            "redrive publish --execution a --url b",
            "redrive end --execution a --url b",
            "redrive queue pause q",
            "redrive endpoint test u",
            "redrive redeliver --all",
        ] {
            let cli = parsed(&format!("{line} --read-only"));
            assert_eq!(
                cli.check_access(Access::Operator).unwrap_err().exit(),
                Exit::Refused,
                "{line}"
            );
            assert!(parsed(line).check_access(Access::Operator).is_ok());
            assert!(parsed(line).check_access(Access::ReadOnly).is_err());
        }
        assert!(
            parsed("redrive queues --read-only")
                .check_access(Access::Operator)
                .is_ok()
        );
        assert!(
            parsed("redrive queue purge q --dry-run")
                .check_access(Access::ReadOnly)
                .is_ok()
        );
    }
}
