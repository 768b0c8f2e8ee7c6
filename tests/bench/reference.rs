//! The ratios of a quick look beside those of an earlier one.
//!
//! `reference.txt` holds the earlier ones, a line each. One round on a machine that does other things too is noisy: what is
//! below its reference by more than the noise is said, and fails nothing. `REDRIVE_BENCH_REFERENCE=write` keeps the new ones.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::numbers::row;
use crate::throughput::Ratio;

/// Behind the reference by this share: a step back.
const STEP_BACK: f64 = 0.15;

/// Prints each ratio beside its reference.
pub fn compare(ratios: &[Ratio]) {
    let path = path();
    if std::env::var("REDRIVE_BENCH_REFERENCE").is_ok_and(|asked| asked == "write") {
        let mut text = String::new();
        for one in ratios {
            writeln!(text, "{:.2}\t{}", one.spread.median, one.what).unwrap();
        }
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    for one in ratios {
        let ratio = one.spread.median;
        let reference = known.lines().find_map(|line| {
            let (ratio, what) = line.split_once('\t')?;
            (what == one.what).then(|| ratio.parse::<f64>().unwrap())
        });
        let said = match reference {
            Some(reference) if ratio < reference * (1.0 - STEP_BACK) => {
                format!("{ratio:.2}, **a step back** from {reference:.2}")
            }
            Some(reference) => format!("{ratio:.2}, as {reference:.2} before"),
            None => format!("{ratio:.2}, never measured before"),
        };
        row(&one.what, &said, "");
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bench/reference.txt")
}
