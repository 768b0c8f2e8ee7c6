//! What can be typed about events. The comments of this file are the help that people read.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(super) enum Event {
    /// Push an event; one that waits under the same type and reference is replaced.
    Push(Push),
    /// List events, newest first.
    List(Selection),
    /// Look at one event, or at those of a reference.
    Show(OneOrReference),
    /// List events that match, for example 'type = hr-import and reason ~ "timeout"'.
    Search {
        /// The expression.
        #[arg(value_name = "EXPR")]
        filter: String,
        /// Print at most this many.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// How many there are, by type and state.
    Counts,
    /// List what was handled of a type, newest first, as long as its metadata keeps it.
    History {
        /// The event type.
        #[arg(long = "type", value_name = "TYPE")]
        event_type: String,
        /// Print at most this many.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Make events due now; dead ones get all of their attempts back.
    Retry(Many),
    /// Make events due at a time.
    Reschedule {
        #[command(flatten)]
        which: Many,
        /// When: RFC 3339, or seconds since 1970.
        #[arg(long, value_name = "TIME")]
        at: String,
    },
    /// Remove events.
    Cancel(Many),
    /// Hand what is due of a type to its handler, and end when nothing is.
    Process {
        /// The event type.
        #[arg(long = "type", value_name = "TYPE")]
        event_type: String,
        /// End when nothing is due; the daemon does the same without an end.
        #[arg(long, required = true)]
        once: bool,
    },
}

impl Event {
    pub(super) const fn changes_something(&self) -> bool {
        match self {
            Self::Push(_) | Self::Retry(_) | Self::Reschedule { .. } | Self::Cancel(_) | Self::Process { .. } => true,
            Self::List(_) | Self::Show(_) | Self::Search { .. } | Self::Counts | Self::History { .. } => false,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct Push {
    /// The event type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: String,
    /// What the event is about.
    #[arg(long)]
    pub(super) reference: String,
    /// Not before this time: RFC 3339, or seconds since 1970.
    #[arg(long, value_name = "TIME")]
    pub(super) nbf: Option<String>,
    /// File with the payload, or - for standard input.
    #[arg(long, value_name = "FILE")]
    pub(super) payload_file: Option<PathBuf>,
    /// How long it lives, in seconds (60 to 1209600); for ever without.
    #[arg(long, value_name = "S")]
    pub(super) ttl: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// Only events that match.
    #[arg(long, value_name = "EXPR")]
    pub(super) filter: Option<String>,
    /// Print at most this many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
}

/// One event, or those of a reference.
#[derive(Debug, Args)]
pub(super) struct OneOrReference {
    /// Its id.
    #[arg(value_name = "ID", required_unless_present = "reference")]
    pub(super) id: Option<i64>,
    /// The type of the reference.
    #[arg(long = "type", value_name = "TYPE", requires = "reference", conflicts_with = "id")]
    pub(super) event_type: Option<String>,
    /// The events of this reference.
    #[arg(long, requires = "event_type", conflicts_with = "id")]
    pub(super) reference: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Which {
    /// Ids of events.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<i64>,
    /// The type of the reference.
    #[arg(long = "type", value_name = "TYPE", requires = "reference", conflicts_with = "ids")]
    pub(super) event_type: Option<String>,
    /// The events of this reference.
    #[arg(long, requires = "event_type", conflicts_with = "ids")]
    pub(super) reference: Option<String>,
    /// Events that match.
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["ids", "reference"])]
    pub(super) filter: Option<String>,
}

/// Which events are changed; more than 1000 become a run.
#[derive(Debug, Args)]
pub(super) struct Many {
    #[command(flatten)]
    pub(super) which: Which,
    /// Change at most so many a second; always a run.
    #[arg(long, value_name = "N", requires = "filter", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    /// Leave a run to the daemon.
    #[arg(long)]
    pub(super) detach: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum EventType {
    /// Print a type, or all of them.
    Show {
        /// Its name.
        name: Option<String>,
    },
    /// Make a type, or give it other metadata.
    Set {
        /// Its name.
        name: String,
        /// File with the metadata as JSON, or - for standard input.
        #[arg(long, value_name = "FILE")]
        metadata: PathBuf,
    },
}

impl EventType {
    pub(super) const fn changes_something(&self) -> bool {
        matches!(self, Self::Set { .. })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Subscription {
    /// List the subscriptions of a type.
    List(OfType),
    /// Send the events of a type to a URL.
    Add {
        #[command(flatten)]
        of: OfType,
        /// Where to.
        #[arg(long)]
        url: String,
        /// Options as JSON: `_retry_policy`, headers, secret, cloudevents; or @FILE with them (@- is standard input).
        #[arg(long, value_name = "JSON", default_value = "{}")]
        options: String,
    },
    /// End a subscription.
    Remove {
        #[command(flatten)]
        of: OfType,
        /// Its id.
        #[arg(required_unless_present = "url", conflicts_with = "url")]
        id: Option<i64>,
        /// Its URL.
        #[arg(long)]
        url: Option<String>,
    },
}

impl Subscription {
    pub(super) const fn changes_something(&self) -> bool {
        !matches!(self, Self::List(_))
    }
}

#[derive(Debug, Args)]
pub(super) struct OfType {
    /// The event type.
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum Claim {
    /// Claim events that are due; prints null when there are none.
    Create {
        #[command(flatten)]
        of: OfType,
        /// How long the claim holds them, in seconds (60 to 43200).
        #[arg(long, default_value_t = 300, value_name = "S")]
        ttl: u64,
        /// How much longer than the claim they live at least, in seconds (60 to 43200).
        #[arg(long, default_value_t = 60, value_name = "S")]
        grace: u64,
        /// At most this many (1 to 20).
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: u32,
    },
    /// Prolong a claim.
    Renew {
        #[command(flatten)]
        of: OfType,
        /// Its id.
        claim: String,
        /// How long from now, in seconds (60 to 43200).
        #[arg(long, default_value_t = 300, value_name = "S")]
        ttl: u64,
        /// How much longer than the claim its events live at least, in seconds (60 to 43200).
        #[arg(long, value_name = "S")]
        grace: Option<u64>,
    },
    /// Give the events of a claim back.
    Release {
        #[command(flatten)]
        of: OfType,
        /// Its id.
        claim: String,
    },
    /// A claimed event is done.
    Done {
        #[command(flatten)]
        of: OfType,
        /// Its claim.
        claim: String,
        /// What it is about.
        #[arg(long)]
        reference: String,
    },
}
