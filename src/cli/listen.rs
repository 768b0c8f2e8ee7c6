//! What can be typed about the receiver of development, and what it means.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::domain::signature::SigningSecret;
use crate::domain::time::span;

use super::args::{Cli, Sub};
use super::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  redrive listen 9000
  redrive listen 9000 --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
  redrive listen 9000 --fail 3 --delay 2s
  redrive listen 0 --json --count 10 | jq .body

A script has an answer on each line: a status, a delay if there is to be one, and how often. The last
line holds for all that follows.
  503 x5      # five requests fail
  200 2s x2   # two are slow
  200

A daemon delivers to your own machine only where its configuration allows that:
  [delivery]
  allow_networks = [\"127.0.0.0/8\"]";

/// How long an answer may take.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// A receiver for development.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Listen {
    /// Port to listen on; 0 takes a free one.
    #[arg(default_value_t = 9000)]
    port: u16,
    /// Address to listen on; 0.0.0.0 is open to the network.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// Answer with this status; with --fail the status of the attempts that fail.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    status: Option<u16>,
    /// Let the first N attempts of each message fail, with 503 unless --status says otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    fail: Option<u32>,
    /// Answer after this time, such as 500ms or 2s.
    #[arg(long, value_name = "SPAN", value_parser = delay, default_value = "0s")]
    delay: Duration,
    /// Answer as this file says.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["status", "fail", "delay"])]
    script: Option<PathBuf>,
    /// Check signatures with this secret; may be repeated while secrets are being changed.
    #[arg(
        long = "secret",
        value_name = "SECRET",
        env = "REDRIVE_LISTEN_SECRET",
        hide_env_values = true
    )]
    secrets: Vec<String>,
    /// End after N requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

fn delay(text: &str) -> Result<Duration, String> {
    let span = span(text).filter(|span| *span <= DELAY_MAX);
    span.ok_or_else(|| "must be a span of at most 1h such as 500ms or 2s".to_owned())
}

/// How to listen.
#[derive(Clone, Debug)]
pub struct ListenAsked {
    /// Where.
    pub address: SocketAddr,
    /// What is answered.
    pub answers: AnswersAsked,
    /// Who may have signed.
    pub secrets: Vec<SigningSecret>,
    /// After how many requests it ends.
    pub count: Option<u64>,
    /// One JSON object for each request.
    pub is_json: bool,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswersAsked {
    /// The same to all.
    Always {
        /// The status.
        status: u16,
        /// Before the answer.
        delay: Duration,
    },
    /// The first attempts of each message get another status than 200.
    FailingFirst {
        /// How many.
        attempts: u32,
        /// The status.
        status: u16,
        /// Before each answer.
        delay: Duration,
    },
    /// What a file says.
    Script(PathBuf),
}

impl Cli {
    /// How to listen, when that is what was asked for.
    pub fn listens(&self) -> Result<Option<ListenAsked>, Failure> {
        let Some(Sub::Listen(listen)) = &self.command else {
            return Ok(None);
        };
        let wrong = |error| Failure::new(Exit::Usage, format!("--secret {error}"));
        let secrets = listen.secrets.iter().map(|secret| SigningSecret::parse(secret));
        Ok(Some(ListenAsked {
            address: SocketAddr::new(listen.bind, listen.port),
            answers: answers(listen)?,
            secrets: secrets.collect::<Result<_, _>>().map_err(wrong)?,
            count: listen.count,
            is_json: self.global.json,
        }))
    }
}

fn answers(listen: &Listen) -> Result<AnswersAsked, Failure> {
    let delay = listen.delay;
    match (&listen.script, listen.fail) {
        (Some(file), _) => Ok(AnswersAsked::Script(file.clone())),
        (None, None) => Ok(AnswersAsked::Always {
            status: listen.status.unwrap_or(200),
            delay,
        }),
        (None, Some(attempts)) => {
            let status = listen.status.unwrap_or(503);
            if (200..=299).contains(&status) {
                let why = format!("--fail needs a --status that fails, such as 503; {status} is a success");
                return Err(Failure::new(Exit::Usage, why));
            }
            Ok(AnswersAsked::FailingFirst {
                attempts,
                status,
                delay,
            })
        }
    }
}
