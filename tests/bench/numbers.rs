//! What is said of a series of numbers and of the machine they come from, and the rows of the table.

use std::fmt;

/// A series by its middle and its ends.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            median: f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        }
    }

    /// Of what `part` is of `whole`, round by round.
    pub fn of_ratios(part: &[f64], whole: &[f64]) -> Self {
        let ratios: Vec<f64> = part.iter().zip(whole).map(|(part, whole)| part / whole).collect();
        Self::of(&ratios)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.min, self.max)
    }
}

/// A row of the table, as the README has it.
pub fn row(what: &str, measured: &str, goal: &str) {
    println!("| {what} | {measured} | {goal} |");
}

/// What is not in the table: single rounds, while they are measured.
pub fn aside(text: &str) {
    eprintln!("    {text}; load {}", load());
}

/// The value below which `share` of the sorted series lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a short series"
)]
pub fn share(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "nothing was measured");
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// p50 and p99 in milliseconds of latencies in microseconds.
pub fn p50_p99_ms(latencies_us: &[u64]) -> (f64, f64) {
    let mut sorted: Vec<f64> = latencies_us.iter().map(|us| *us as f64 / 1000.0).collect();
    sorted.sort_by(f64::total_cmp);
    (share(&sorted, 0.5), share(&sorted, 0.99))
}

pub fn rounds() -> usize {
    std::env::var("REDRIVE_BENCH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5)
}

pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

pub fn print_machine() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{cores} cores, {}, everything on this one machine; {} rounds; load {} before the run\n\n\
         | what | measured | goal |\n|---|---|---|",
        model.trim_start_matches(['\t', ' ', ':']),
        rounds(),
        load()
    );
}
