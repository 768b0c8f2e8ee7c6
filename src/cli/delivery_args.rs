//! What can be typed about queues, endpoints and attempts. The comments of this file are the help that people read.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
pub(super) struct Listed {
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
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
    /// Only those that are not available, are paused, or wait for a person after their canary.
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
    /// Send it nothing for the time being, no probe either.
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
    /// Of the queue or endpoint the last week instead, by four hours.
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
pub(super) enum Notification {
    /// Whether it was delivered, waits, is parked or a dead letter, from what is on record of its id; no queue is walked.
    Show {
        /// Its id, as its publisher was answered.
        id: String,
        /// Only what is known of it in this queue, as its publisher was answered; and what waits there, where nothing is.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
    },
}
