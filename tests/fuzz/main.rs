//! Feeds every reader of foreign bytes (`redrive::internals::parsers`) with bytes that nobody would write in earnest.
//!
//! ```text
//! cargo test --test fuzz                         every reader for a second (REDRIVE_FUZZ_SECONDS), as a part of the tests
//! cargo test --test fuzz -- frames toml          only these
//! cargo test --test fuzz -- --planted            shows that a bug is found: 30 planted ones, each within a minute
//! cargo test --test fuzz -- --replay NAME FILE   once more the input that a run left behind
//! ```
//!
//! Each reader runs in a process of its own (this program once more), which may take so much memory and no more, and
//! which writes down each input before it is read. Its parent watches: whoever ends by a panic or a signal has found
//! an overflow, a broken rule or an allocation bomb, and whoever computes two seconds over one input hangs. The input
//! is kept in a file and printed. Inputs are made from seeds by chance; the number that chance begins with is printed,
//! and `REDRIVE_FUZZ_SEED` sets it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on says why by panicking, and what it found by printing"
)]
#![allow(
    unreachable_pub,
    reason = "what a module offers to the others of this program is `pub`"
)]

mod child;
mod mutate;
mod planted;
mod seeds;
mod watch;

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use redrive::internals::ambient;
use redrive::internals::parsers::{PARSERS, Parser};

use planted::{FAULTS, Fault};
use watch::{Ended, Run};

/// Each reader is tried so long.
const SECONDS: f64 = 1.0;
/// A planted bug is found in this time.
const PLANTED_SECONDS: f64 = 60.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--child", name, rest @ ..] => child::run(parser(name), rest),
        ["--replay", name, file] => {
            let understood = (parser(name).read)(&std::fs::read(file).unwrap());
            println!("{name}: {}", if understood { "understood" } else { "refused" });
            ExitCode::SUCCESS
        }
        ["--planted"] => find_planted(),
        _ if words.contains(&"--list") => ExitCode::SUCCESS,
        _ => fuzz(&chosen(&words)),
    }
}

fn parser(name: &str) -> Parser {
    let found = PARSERS.into_iter().find(|parser| parser.name == name);
    found.unwrap_or_else(|| panic!("there is no reader {name}"))
}

/// Those that are named, as in other tests: a name or a part of one; all of them where none is.
fn chosen(words: &[&str]) -> Vec<Parser> {
    let names: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_named = |parser: &Parser| names.is_empty() || names.iter().any(|name| parser.name.contains(**name));
    PARSERS.into_iter().filter(is_named).collect()
}

fn fuzz(parsers: &[Parser]) -> ExitCode {
    let seconds = number_of("REDRIVE_FUZZ_SECONDS").unwrap_or(SECONDS);
    let runs: Vec<Run> = parsers
        .iter()
        .map(|parser| Run {
            parser: *parser,
            fault: None,
            seconds,
            seed: seed(),
        })
        .collect();
    let ended = all(&runs);
    let mut failed = 0;
    for (run, ended) in runs.iter().zip(&ended) {
        let name = run.parser.name;
        match ended {
            Ended::Quietly { runs, understood } if *understood > 0 => {
                let share = 100 * understood / runs;
                println!(
                    "fuzz {name} ... ok ({runs} inputs, {share} % understood, seed {})",
                    run.seed
                );
            }
            Ended::Quietly { runs, .. } => {
                failed += 1;
                println!("fuzz {name} ... FAILED: none of {runs} inputs was understood: its seeds are of no use");
            }
            Ended::Found(finding) => {
                failed += 1;
                // The script that runs the tests tries nothing again where it reads these two words.
                println!("fuzz {name} ... FAILED: broken promises (seed {})\n{finding}", run.seed);
            }
        }
    }
    result(parsers.len(), failed)
}

/// Every planted bug is found, as what it is, and not by the seeds alone.
fn find_planted() -> ExitCode {
    let runs: Vec<Run> = PARSERS
        .into_iter()
        .flat_map(|parser| FAULTS.map(|fault| (parser, fault)))
        .map(|(parser, fault)| Run {
            parser,
            fault: Some(fault),
            seconds: PLANTED_SECONDS,
            seed: seed(),
        })
        .collect();
    let ended = all(&runs);
    let mut failed = 0;
    for (run, ended) in runs.iter().zip(&ended) {
        let (name, fault) = (run.parser.name, run.fault.map_or("", Fault::name));
        let seeds = u64::try_from(seeds::of(name).len()).unwrap();
        let missed = match ended {
            Ended::Quietly { runs, .. } => format!("not found with {runs} inputs"),
            Ended::Found(finding) if finding.runs <= seeds => "a seed has it: it shows nothing".to_owned(),
            Ended::Found(finding) if finding.kind != fault => {
                format!("taken for {}\n{finding}", finding.kind)
            }
            Ended::Found(finding) => {
                println!("planted {fault} in {name} ... found with {} inputs", finding.runs);
                continue;
            }
        };
        failed += 1;
        println!("planted {fault} in {name} ... FAILED: {missed} (seed {})", run.seed);
    }
    result(runs.len(), failed)
}

fn result(count: usize, failed: usize) -> ExitCode {
    println!("\nfuzz result: {} passed; {failed} failed", count - failed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What becomes of each run, as many at once as there are processors.
fn all(runs: &[Run]) -> Vec<Ended> {
    let next = Mutex::new(0..runs.len());
    let ended = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(place) = { next.lock().unwrap().next() } {
                    let one = watch::watch(&runs[place]);
                    ended.lock().unwrap().push((place, one));
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap();
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, one)| one).collect()
}

fn seed() -> u64 {
    number_of("REDRIVE_FUZZ_SEED").unwrap_or_else(ambient::random)
}

fn number_of<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    Some(number.unwrap_or_else(|| panic!("{variable} is {text:?}, and must be a number")))
}
