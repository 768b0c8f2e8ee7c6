//! What can be typed. The comments of this file are the help that people read, or have read to them.

#![expect(clippy::doc_markdown, reason = "the comments are printed as they are")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::dead_args::{Dead, Run};
use super::delivery_args::{
    Attempts, Endpoint, Endpoints, Listed, Notification, Queue, Queues, Rates, Redeliver, Retries,
};

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

    /// Print only these columns of a table, in this order, with commas between them: headings, or keys of what --json prints.
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
    /// What became of a notification.
    #[command(subcommand)]
    Notification(Notification),
    /// Who did what, why, with what result; newest first.
    Audit(Audit),
    /// Messages that `queue rescue` took out.
    #[command(subcommand)]
    Rescued(Rescued),
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
    /// Seconds between retries, instead of the policy's phases; while the URL is unavailable its policy alone says when it is
    /// probed.
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
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Audit {
    #[command(flatten)]
    pub(super) listed: Listed,
    #[command(subcommand)]
    pub(super) command: Option<AuditCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Rescued {
    /// List them, newest first.
    List {
        /// Only those that were in this queue.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        #[command(flatten)]
        listed: Listed,
    },
    /// Where one was, and why nobody could read it.
    Show {
        /// Its id.
        id: i64,
        /// Print its body and nothing else, byte for byte.
        #[arg(long)]
        body: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Check the chain of hashes, from the end of what retention removed to the newest line; 1 when it breaks.
    Verify,
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
        /// The version, as the history numbers it; without it the one before the newest.
        #[arg(value_name = "VERSION", value_parser = clap::value_parser!(i64).range(1..))]
        version: Option<i64>,
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
