//! What can be typed. The comments of this file are the help that people read, or have read to them.

#![expect(clippy::doc_markdown, reason = "the comments are printed as they are")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  redrive --daemon
  redrive publish --execution run-17 --url https://example.com/hook --body-file order.json
  redrive queues --filter 'depth > 100 and state = endpoint_unavailable'
  redrive queue why redrive.run-17.0cc175b9c0f1b6a831c399e269772661
  redrive redeliver https://example.com/hook

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly done, 4 not found or expired, 5 refused,
69 broker or store unreachable, 78 invalid configuration.";

/// Where the options of every command stand in its help.
const GLOBAL: &str = "Global options";

/// Delivers every notification, in order, and shows what is stuck and why.
///
/// Without a command redrive is the console. With --daemon it is the engine without a screen,
/// with the HTTP API. Every command below works on the same broker and store.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub(super) global: Global,

    /// Deliver without a screen, with the HTTP API, until stopped.
    #[arg(long)]
    pub(super) daemon: bool,

    /// Show everything at work with a broker, a store and receivers of its own, in a scratch directory.
    #[arg(long)]
    pub(super) demo: bool,

    /// The console delivers too.
    #[arg(long, conflicts_with = "daemon")]
    pub(super) work: bool,

    /// Open the console there: queue/NAME, endpoint/URL, run/ID, letter/ID, event/ID, or a view such as dead_letters. Alerts
    /// end with it.
    #[arg(long, value_name = "PLACE", conflicts_with = "daemon")]
    pub(super) at: Option<String>,

    #[command(subcommand)]
    pub(super) command: Option<Sub>,
}

/// Flags of every command, before or after its name.
#[derive(Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that is typed or not")]
pub(super) struct Global {
    /// Configuration file, instead of the usual one.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Profile of the configuration that is laid over its sections.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME")]
    pub(super) profile: Option<String>,

    /// Broker of this one call, such as amqp://user@host/vhost, instead of the configured one; its management API is
    /// expected on the same host, unless REDRIVE_MANAGEMENT_URL says where. Other users of this machine can read what is
    /// typed: a password belongs into REDRIVE_BROKER_URL.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(super) broker: Option<String>,

    /// Print one JSON document for programs instead of a table.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) json: bool,

    /// Print what would be done and change nothing.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) dry_run: bool,

    /// Do not ask before changing something.
    #[arg(long, short = 'y', global = true, help_heading = GLOBAL)]
    pub(super) yes: bool,

    /// Why; goes into the audit.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "TEXT")]
    pub(super) reason: Option<String>,

    /// Refuse every command that changes something.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) read_only: bool,

    /// Colours: when standard output is a terminal, always, or never.
    #[arg(long, global = true, help_heading = GLOBAL, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(super) color: Color,

    /// Print only these columns of a table, in this order, with commas between them.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAMES", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub(super) columns: Vec<String>,

    /// Print a table without its headings.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) no_headers: bool,

    /// Say nothing on standard error but errors, warnings, plans and questions.
    #[arg(long, short = 'q', global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    /// Say more on standard error; twice for everything. REDRIVE_LOG says it exactly.
    #[arg(long, short = 'v', global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

/// Without the broker's URL, which may have a password in it.
impl std::fmt::Debug for Global {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Global").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// When standard output is a terminal and NO_COLOR is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Sub {
    /// Publish a notification; done only after the broker's confirm.
    Publish(Publish),
    /// Mark the end of an execution's sequence to a URL.
    End(Target),
    /// List queues.
    Queues(Queues),
    /// Look at one queue, or act on it.
    #[command(subcommand)]
    Queue(Queue),
    /// List endpoints, those that are not available first.
    Endpoints(Endpoints),
    /// Look at one endpoint, or act on it.
    #[command(subcommand)]
    Endpoint(Endpoint),
    /// Make endpoints available again; their queues continue where they stopped.
    Redeliver(Redeliver),
    /// What is tried when.
    Retries(Retries),
    /// How queues or endpoints move: in and out a second, failures, times of attempts, time to empty.
    Rates(Rates),
    /// Push events, look at them, act on them.
    #[command(subcommand)]
    Event(super::event_args::Event),
    /// Event types and their metadata.
    #[command(subcommand)]
    EventType(super::event_args::EventType),
    /// Who gets the events of a type.
    #[command(subcommand)]
    Subscription(super::event_args::Subscription),
    /// Claim events, as a consumer that pulls.
    #[command(subcommand)]
    Claim(super::event_args::Claim),
    /// The attempt log, newest first.
    Attempts(Attempts),
    /// Who did what, why, with what result; newest first.
    Audit(Audit),
    /// Dead letters of every dead-letter queue of the vhost: look at them, send them back, discard them.
    #[command(subcommand)]
    Dead(Dead),
    /// Long operations over many messages.
    #[command(subcommand)]
    Run(Run),
    /// Queues that the broker deletes when nobody uses them.
    #[command(subcommand)]
    Expiring(ExpiringCommand),
    /// Submit a job's queues, follow a job to its result, list jobs.
    #[command(subcommand)]
    Job(JobCommand),
    /// What the next shift has to know, as Markdown: what is wrong, what runs, what was done.
    Handover(super::console_args::Handover),
    /// Themes of the console.
    #[command(subcommand)]
    Theme(super::console_args::ThemeCommand),
    /// Who is told of bad turns.
    #[command(subcommand)]
    Alert(Alert),
    /// Check broker, rights, plugins, store, clock and terminal, and say how to fix what is wrong.
    Doctor,
    /// The store, and the broker that its daemons deliver.
    #[command(subcommand)]
    Store(StoreCommand),
    /// The virtual host of this configuration on the broker.
    #[command(subcommand)]
    Vhost(VhostCommand),
    /// Retry policies.
    #[command(subcommand)]
    Policy(Policy),
    /// Print the delivery queue of an execution and URL, and how any AMQP client publishes to it.
    QueueName(Target),
    /// Print the token of the HTTP API that a daemon of this user made, where none is configured.
    Token,
    /// Receive what redrive sends, on your own machine: shows each request, checks its signature, answers as told.
    Listen(super::listen::Listen),
    /// The console on a daemon elsewhere, over its HTTP API: neither broker nor store is needed here. A profile with `daemon`
    /// does the same, for every command.
    Attach {
        /// The daemon's address, such as https://redrive.example:8470.
        url: String,
        /// File with one of the daemon's api.tokens. Without it the token is that of REDRIVE_API_TOKEN, on the daemon's own
        /// machine the one that it made, or asked for.
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Print what can be written after --filter, and the fields of each list.
    #[command(after_help = super::filters::page())]
    Filters,
    /// The configuration.
    #[command(subcommand)]
    Config(Config),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page of redrive or of a command, or write those of all commands.
    Man {
        /// Of this command, such as queue why.
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
        /// Write a page for every command into this directory, which exists.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        out: Option<PathBuf>,
    },
}

/// The virtual host of this configuration on the broker.
#[derive(Debug, Subcommand)]
pub(super) enum VhostCommand {
    /// Make the vhost where it is missing, with every right on it for the user of broker.url; a daemon does so by itself.
    Make,
}

/// The store, and the broker that its daemons deliver.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Give the broker to the store of this configuration, where it was another store's: that one's daemons stop.
    Adopt,
    /// Write the SQLite file of the store into a new file, whole, while daemons work.
    Backup {
        /// The new file.
        file: PathBuf,
    },
    /// Put a backup in the place of the SQLite file of the store; no daemon may run.
    Restore {
        /// The backup.
        file: PathBuf,
    },
    /// Fill an empty PostgreSQL database with all that a SQLite file holds; no daemon may run.
    Copy {
        /// The SQLite file, instead of that of the configuration: sqlite:PATH.
        #[arg(long, value_name = "URL")]
        from: Option<String>,
        /// The database: postgres://USER:PASSWORD@HOST/DATABASE.
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Make the store's tables, or bring them to this program's version; the daemon does so by itself.
    Migrate,
}

/// One sequence: an execution and the URL that it notifies.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// What the notifications of one sequence belong to.
    #[arg(long, value_name = "ID")]
    pub(super) execution: String,
    /// Where they go.
    #[arg(long)]
    pub(super) url: String,
}

#[derive(Debug, Args)]
pub(super) struct Publish {
    #[command(flatten)]
    pub(super) target: Target,
    /// A request header, or @FILE with one on each line (@- is standard input); may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// Seconds between retries, instead of the policy's phases.
    #[arg(long, value_name = "S")]
    pub(super) polling_time: Option<u32>,
    /// Number of retries, instead of the policy's phases.
    #[arg(long, value_name = "N")]
    pub(super) restart_count: Option<u32>,
    /// File with the body, or - for standard input; without it the body is empty.
    #[arg(long, value_name = "FILE")]
    pub(super) body_file: Option<PathBuf>,
    /// The notification's id; generated when absent.
    #[arg(long)]
    pub(super) id: Option<String>,
}

/// What is done with queues that the broker deletes when nobody uses them.
#[derive(Debug, Subcommand)]
pub(super) enum ExpiringCommand {
    /// List them, those that lose messages first; looking renews nothing.
    List {
        /// Print at most this many.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Move the messages of queues into the store, from where they can be restored.
    Save {
        /// The queues.
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Delete queues that nobody uses: those that outlived their time, or these; their messages are saved.
    Purge {
        /// Only these queues.
        #[arg(value_name = "QUEUE")]
        queues: Vec<String>,
        /// Lose the messages instead of saving them.
        #[arg(long)]
        drop: bool,
    },
    /// List what was saved, newest first.
    Saves(Listed),
    /// Put saved messages back into their queue, which is declared again where it is gone.
    Restore {
        /// The ids of the saves.
        #[arg(required = true, value_name = "SAVE")]
        saves: Vec<String>,
        /// Into this queue instead.
        #[arg(long, value_name = "QUEUE")]
        to: Option<String>,
    },
    /// Restart the lifetime of queues.
    Extend {
        /// The queues.
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
        /// Seconds that they live unused from now on, where a policy can say that.
        #[arg(long, value_name = "S")]
        ttl: Option<f64>,
    },
}

impl ExpiringCommand {
    pub(super) const fn changes_something(&self) -> bool {
        match self {
            Self::List { .. } | Self::Saves(_) => false,
            Self::Save { .. } | Self::Purge { .. } | Self::Restore { .. } | Self::Extend { .. } => true,
        }
    }
}

/// What is done with a job's queues.
#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Declare the result, progress and status queues of a new job; prints its id and their names.
    Submit(JobSubmit),
    /// Follow a submitted job to its result; its queues are removed then.
    Connect(JobConnect),
    /// List jobs with what waits in their queues; looking renews nothing.
    List,
    /// The worker's side: publish a message to one of a job's queues.
    Publish(JobPublish),
}

#[derive(Debug, Args)]
pub(super) struct JobSubmit {
    /// Seconds that the queues live unused, or never; 48 hours unless configured otherwise.
    #[arg(long, value_name = "S|never", allow_hyphen_values = true)]
    pub(super) ttl: Option<String>,
    /// The job's id, a UUID; generated when absent.
    #[arg(long, value_name = "UUID")]
    pub(super) id: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct JobConnect {
    /// The job's id.
    #[arg(value_name = "UUID")]
    pub(super) id: String,
    /// Only say whether it is there (exit code 0 or 4); its queues live no longer for it.
    #[arg(long)]
    pub(super) check: bool,
    /// The lifetime that is expected; another one is explained.
    #[arg(long, value_name = "S|never", allow_hyphen_values = true)]
    pub(super) ttl: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct JobPublish {
    /// The job's id.
    #[arg(value_name = "UUID")]
    pub(super) id: String,
    /// progress, status or result.
    pub(super) part: String,
    /// File with the body, or - for standard input; without it the body is empty.
    #[arg(long, value_name = "FILE")]
    pub(super) body_file: Option<PathBuf>,
    /// MIME type of the body.
    #[arg(long, value_name = "TYPE")]
    pub(super) content_type: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Listed {
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Audit {
    #[command(flatten)]
    pub(super) listed: Listed,
    #[command(subcommand)]
    pub(super) command: Option<AuditCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Check the chain of hashes, from the end of what retention removed to the newest line; 1 when it breaks.
    Verify,
}

#[derive(Debug, Args)]
pub(super) struct Queues {
    /// Only queues that match, for example 'depth > 100 and state = parked'.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
    /// Sort by this column; with a minus before it the largest first.
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(super) sort: Option<String>,
    /// Print at most this many.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(super) enum Queue {
    /// Why it moves or does not.
    Why(Named),
    /// What brings messages into it, and where those go that die in it, queue by queue.
    Map(Named),
    /// Look at the messages at its head; nothing is reordered or lost. Refused while somebody consumes the queue, and
    /// where a look could be the last that the broker allows for.
    Browse {
        #[command(flatten)]
        named: Named,
        /// Look at most at this many.
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Stop delivering from it after the attempt in flight.
    Pause(Named),
    /// Go on delivering from it.
    Resume(Named),
    /// Remove every message; they are lost.
    Purge(Named),
    /// Remove it with everything in it.
    Delete(Named),
    /// Take the undecodable head of a quarantined queue out, byte for byte, into the store.
    Rescue(Named),
    /// Move every message that is in it now to another queue.
    Move {
        #[command(flatten)]
        named: Named,
        /// The other queue.
        #[arg(long, value_name = "QUEUE")]
        to: String,
        /// At most this many a second.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// Do not wait for its end, where a daemon works on it.
        #[arg(long)]
        detach: bool,
    },
    /// Take its first message, which waits or is parked, out of the way.
    Skip {
        #[command(flatten)]
        named: Named,
        /// To the dead letters, or to the end of the queue.
        #[arg(long, value_enum, default_value_t = SkipTo::Dead)]
        to: SkipTo,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SkipTo {
    /// To the dead letters.
    Dead,
    /// To the end of its queue.
    Tail,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The queue's name on the broker, the beginning of it that no other queue has, or the id of an execution, with
    /// its URL behind it.
    #[arg(value_name = "NAME|EXECUTION")]
    pub(super) name: String,
    /// The URL of that execution.
    pub(super) url: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Endpoints {
    /// Only those that are not available.
    #[arg(long)]
    pub(super) unavailable: bool,
    /// Print at most this many.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(super) enum Endpoint {
    /// Its state, since when, attempts, last error, and what waits for it.
    Show {
        /// The URL.
        url: String,
    },
    /// Send it a HEAD, never a queued message.
    Test {
        /// The URL.
        url: String,
        /// GET, OPTIONS or POST instead of HEAD.
        #[arg(long)]
        method: Option<String>,
    },
    /// Send it nothing until somebody redelivers.
    Disable {
        /// The URL.
        url: String,
    },
    /// Change how fast it goes, while it does; what is not given stays.
    Pace {
        /// The URL.
        url: String,
        #[command(flatten)]
        pace: EndpointPace,
        /// Hold nothing back any more.
        #[arg(long, conflicts_with_all = ["rate", "canary", "ramp", "ramp_every", "stop_after"])]
        release: bool,
    },
    /// Send it nothing for the time being; it stays available.
    Pause {
        /// The URL.
        url: String,
    },
    /// Go on after a pause, or after the canary.
    Resume {
        /// The URL.
        url: String,
    },
}

/// How fast an endpoint goes that is available again.
#[derive(Debug, Args)]
pub(super) struct EndpointPace {
    /// At most this many messages a second, until nothing waits any more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rate: Option<u32>,
    /// This many messages first; then it waits for `endpoint resume`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) canary: Option<u32>,
    /// Watch them for so many seconds, and continue when none of them failed.
    #[arg(long, value_name = "S", requires = "canary", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) canary_watch: Option<u32>,
    /// Begin with 1 a second, and multiply that by this number every 10 seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(super) ramp: Option<u32>,
    /// Multiply the rate every so many seconds instead.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) ramp_every: Option<u32>,
    /// Close the endpoint again after this many failed attempts (default 5; 0: never).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) stop_after: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct Redeliver {
    /// The URLs.
    #[arg(value_name = "URL", required_unless_present = "all", conflicts_with = "all")]
    pub(super) urls: Vec<String>,
    /// Every endpoint that is not available.
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) pace: EndpointPace,
}

#[derive(Debug, Args)]
pub(super) struct Rates {
    /// Endpoints instead of queues.
    #[arg(long, conflicts_with_all = ["queue", "url"])]
    pub(super) endpoints: bool,
    /// The last hour of this queue, by the minute.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pub(super) queue: Option<String>,
    /// The last hour of this endpoint, by the minute.
    #[arg(long)]
    pub(super) url: Option<String>,
    /// The last week instead, by four hours.
    #[arg(long)]
    pub(super) week: bool,
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct Retries {
    /// Only what is due within this many seconds.
    #[arg(long, value_name = "S")]
    pub(super) within: Option<u64>,
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
}

#[derive(Debug, Args)]
pub(super) struct Attempts {
    /// Only of this queue.
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,
    /// Only to this URL.
    #[arg(long)]
    pub(super) url: Option<String>,
    /// Only of this notification.
    #[arg(long, value_name = "ID")]
    pub(super) message_id: Option<String>,
    /// Only those that match, for example 'outcome = failed and status >= 500'; without --follow, of the newest 1000.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
    /// Then print each attempt when it is known, until Ctrl-C; with --json one document a line.
    #[arg(long)]
    pub(super) follow: bool,
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(super) enum Dead {
    /// List them, those that failed last first.
    List {
        #[command(flatten)]
        selected: DeadSelected,
        /// Sort by last_failed_at, first_failed_at, attempts, redriven, size_bytes or position.
        #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
        sort: Option<String>,
        /// Print at most this many.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
        /// Go on where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Group those that failed alike, the largest group first.
    Groups {
        #[command(flatten)]
        selected: DeadSelected,
        /// Print at most this many.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// List the queues that they are in, the one with the most first: how many, since when, and which queues they come
    /// from.
    Queues {
        /// Only queues that match, for example 'kind = error and letters > 100'.
        #[arg(long, value_name = "EXPR")]
        filter: Option<String>,
        /// Sort by name, kind, letters, first_failed_at or last_failed_at; with a minus before it the largest first.
        #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
        sort: Option<String>,
        /// Print at most this many.
        #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// One with its headers, death history, target and body.
    Show {
        /// Its id.
        id: String,
    },
    /// Show what is alike in some and what is not: in two to twenty by their ids, or in the first of a queue, group or
    /// filter. Values that the masks name are hidden.
    Compare(DeadCompared),
    /// Write them to a file or standard output; they stay where they are.
    Export(DeadExport),
    /// Send them back where they came from, or elsewhere.
    Redrive {
        #[command(flatten)]
        selected: Selected,
        #[command(flatten)]
        way: Way,
    },
    /// Take them out; they can be restored for a while.
    Discard(Selected),
    /// Put discarded ones back into their dead-letter queue.
    Restore(Discarded),
    /// Change what is sent when it is redriven; without options in $EDITOR.
    Edit(DeadEdit),
    /// Change what is sent when many are redriven, in the same way: all of them, or none.
    Patch(DeadPatch),
}

#[derive(Debug, Args)]
pub(super) struct DeadEdit {
    /// Its id.
    pub(super) id: String,
    /// File with the new body, or - for standard input.
    #[arg(long, value_name = "FILE")]
    pub(super) body_file: Option<PathBuf>,
    /// The new content type.
    #[arg(long, value_name = "TYPE")]
    pub(super) content_type: Option<String>,
    /// A header to set, or @FILE with one on each line; without a value it is removed. May be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "group", "filter"])))]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["patch_file", "content_type", "headers"])))]
pub(super) struct DeadPatch {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Those of a group.
    #[arg(long, value_name = "FINGERPRINT")]
    pub(super) group: Option<String>,
    /// Those that match, for example 'reason = rejected and age > 2h'.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
    /// File with a JSON patch of their bodies (RFC 6902), or - for standard input, for example
    /// [{"op": "replace", "path": "/currency", "value": "EUR"}].
    #[arg(long, value_name = "FILE")]
    pub(super) patch_file: Option<PathBuf>,
    /// The new content type.
    #[arg(long, value_name = "TYPE")]
    pub(super) content_type: Option<String>,
    /// A header to set, or @FILE with one on each line; without a value it is removed. May be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
}

/// Which dead letters, and how.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "group", "filter", "all"])))]
pub(super) struct Selected {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Those of a group, by its fingerprint.
    #[arg(long, value_name = "FINGERPRINT")]
    pub(super) group: Option<String>,
    /// Those that match, for example 'reason ~ "timeout" and age > 2h'.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
    /// Every one, but for those that died again after a redrive.
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) pace: Pace,
}

/// Which discarded messages, and how.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub(super) struct Discarded {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Every one that is kept.
    #[arg(long)]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) pace: Pace,
}

/// How fast a run goes, and where it stops to look.
#[derive(Debug, Args)]
pub(super) struct Pace {
    /// At most this many a second; without it as fast as it can.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// Stop after this many and wait for `run resume`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) canary: Option<u64>,
    /// Watch them for so many seconds, and continue when none died again and no endpoint of theirs failed.
    /// The rest is watched too: where it comes to grief, the run stops and asks.
    #[arg(long, value_name = "S", requires = "canary", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) canary_watch: Option<u64>,
    /// Then go to this many times what is done, watch again, and so on, instead of all the rest at once.
    #[arg(long, value_name = "N", requires = "canary_watch", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub(super) ramp: Option<u32>,
    /// Do not wait for its end, where a daemon works on it.
    #[arg(long)]
    pub(super) detach: bool,
}

/// Where dead letters are sent.
#[derive(Debug, Default, Args)]
pub(super) struct Way {
    /// Into this queue, instead of where they came from.
    #[arg(long, value_name = "QUEUE")]
    pub(super) to: Option<String>,
    /// Back through the exchange that they came by, or straight to the queue that they died in. By default through
    /// the exchange where that queue alone is bound to it, else straight to the queue; the plan says which.
    #[arg(long, value_name = "WAY", value_parser = ["exchange", "queue"], conflicts_with = "to")]
    pub(super) via: Option<String>,
    /// Before everything that waits in their delivery queues, instead of behind it.
    #[arg(long)]
    pub(super) head: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Run {
    /// List runs, newest first.
    List(Listed),
    /// One run, with its items.
    Show {
        /// Its id.
        id: String,
        /// Print at most this many items.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Stop after the window in flight.
    Pause {
        /// Its id.
        id: String,
    },
    /// Go on, and follow it.
    Resume {
        /// Its id.
        id: String,
    },
    /// End it; what is done stays done.
    Cancel {
        /// Its id.
        id: String,
    },
}

/// Which dead letters.
#[derive(Debug, Args)]
pub(super) struct DeadSelected {
    /// Only in this dead-letter queue.
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,
    /// Only of this group.
    #[arg(long, value_name = "FINGERPRINT")]
    pub(super) group: Option<String>,
    /// Only those that match, for example 'reason = rejected and age > 2h'.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct DeadCompared {
    /// These, two to twenty.
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "group", "filter"])]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) selected: DeadSelected,
    /// Compare at most this many of a queue, group or filter.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=200))]
    pub(super) limit: u32,
    /// Only the places that differ.
    #[arg(long)]
    pub(super) different: bool,
}

#[derive(Debug, Args)]
pub(super) struct DeadExport {
    /// Only these.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    #[command(flatten)]
    pub(super) selected: DeadSelected,
    /// As JSON lines with everything, as CSV without bodies, or as the raw bodies (a directory gets a file each).
    #[arg(long, value_enum, default_value_t = DeadForm::Jsonl)]
    pub(super) format: DeadForm,
    /// File that does not exist yet (raw: a directory), or - for standard output.
    #[arg(long, short = 'o', value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DeadForm {
    /// One JSON document a line.
    Jsonl,
    /// Comma-separated values with a heading.
    Csv,
    /// The bodies.
    Raw,
}

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// What is set, and what applies; without --url and --type every policy that is set.
    Show {
        #[command(flatten)]
        of: PolicyOf,
        /// The built-in policy instead: what holds where nobody wrote any.
        #[arg(long, conflicts_with_all = ["type", "url"])]
        default: bool,
    },
    /// Set a policy; it applies to what waits already.
    Set {
        #[command(flatten)]
        of: PolicyOf,
        /// The policy, for example '{"maximum_delay": 60}'.
        #[arg(value_name = "JSON")]
        policy: String,
    },
    /// Unset it: the next one in precedence applies.
    Unset(PolicyOf),
    /// Every version with its author, newest first.
    History(PolicyOf),
    /// Save what an earlier version said as a new one.
    Restore {
        #[command(flatten)]
        of: PolicyOf,
        /// The version, as the history numbers it.
        #[arg(value_parser = clap::value_parser!(i64).range(1..))]
        version: i64,
    },
    /// Print the schedule that a policy makes, or what is wrong with it; with --url or --type also what
    /// it would do to what waits there.
    Preview {
        #[command(flatten)]
        of: PolicyOf,
        /// The policy, for example '{"maximum_delay": 60}'.
        #[arg(value_name = "JSON")]
        policy: String,
    },
}

/// Whose policy.
#[derive(Debug, Args)]
pub(super) struct PolicyOf {
    /// Of this event type; with --url, of its subscription to that URL.
    #[arg(long = "type", value_name = "NAME")]
    pub(super) r#type: Option<String>,
    /// Of this URL.
    #[arg(long)]
    pub(super) url: Option<String>,
}

impl PolicyOf {
    pub(super) const fn is_nothing(&self) -> bool {
        self.r#type.is_none() && self.url.is_none()
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Alert {
    /// Tell one [[alert]] of the configuration that this is a test; it is not tried again.
    Test {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Read the configuration and say what is wrong with it.
    Check,
    /// Print the configuration in effect, with defaults and without secrets.
    Print,
    /// Print a commented template, or write it to a file that does not exist yet.
    Init {
        /// Write it there; without it the template is printed.
        file: Option<PathBuf>,
    },
    /// Print a JSON schema of the configuration, for editors that complete and check TOML.
    Schema,
}
