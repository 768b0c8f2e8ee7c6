//! What can be typed about dead letters and runs over them. The comments of this file are the help that people read.

#![expect(clippy::doc_markdown, reason = "the comments are printed as they are")]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::delivery_args::Listed;

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
        /// Go on where an earlier list ended.
        #[arg(long)]
        cursor: Option<String>,
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
    #[command(flatten)]
    pub(super) properties: NewProperties,
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
    #[command(flatten)]
    pub(super) properties: NewProperties,
}

// No comment of the struct: it would stand in the help of both commands.
#[derive(Debug, Args)]
pub(super) struct NewProperties {
    /// The new content type.
    #[arg(long, value_name = "TYPE")]
    pub(super) content_type: Option<String>,
    /// A header of the message to set, or @FILE with one on each line; without a value it is removed. May be repeated. One
    /// that is there keeps its AMQP type, and a new one is a text. A notification has a header NAME of its request as x-redrive-header-NAME.
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
#[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "run", "all"])))]
pub(super) struct Discarded {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// What this run discarded, as far as it is still kept.
    #[arg(long, value_name = "ID")]
    pub(super) run: Option<String>,
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
