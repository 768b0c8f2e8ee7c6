//! What this process takes of the machine, by the names that Prometheus's own clients use. Where the system does not
//! tell (anything but Linux), nothing is said.

use std::fmt::Write as _;
use std::fs;

/// The families, in the text format of Prometheus.
pub(super) fn text() -> String {
    let mut text = String::new();
    for family in FAMILIES {
        if let Some(value) = (family.read)() {
            let (name, kind, help) = (family.name, family.kind, family.help);
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n");
        }
    }
    text
}

/// One number.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    read: fn() -> Option<f64>,
}

const FAMILIES: &[Family] = &[
    Family {
        name: "process_resident_memory_bytes",
        kind: "gauge",
        help: "Memory that is in the machine's.",
        read: || Some(pages(1)? * as_number(rustix::param::page_size() as u64)),
    },
    Family {
        name: "process_virtual_memory_bytes",
        kind: "gauge",
        help: "Memory that is addressed.",
        read: || Some(pages(0)? * as_number(rustix::param::page_size() as u64)),
    },
    Family {
        name: "process_cpu_seconds_total",
        kind: "counter",
        help: "Time of the processors, of the program and of the system for it.",
        read: || Some((stat(14)? + stat(15)?) / ticks()),
    },
    Family {
        name: "process_start_time_seconds",
        kind: "gauge",
        help: "When it began, since the Unix epoch.",
        read: || Some(boot()? + stat(22)? / ticks()),
    },
    Family {
        name: "process_open_fds",
        kind: "gauge",
        help: "Open files and sockets.",
        read: || Some(as_number(fs::read_dir("/proc/self/fd").ok()?.count() as u64)),
    },
    Family {
        name: "process_max_fds",
        kind: "gauge",
        help: "Files and sockets that it may open.",
        read: max_fds,
    },
    Family {
        name: "process_threads",
        kind: "gauge",
        help: "Its threads.",
        read: || stat(20),
    },
];

/// A field of the process's line, by the number that proc(5) gives it; those before 3 are not asked for.
fn stat(field: usize) -> Option<f64> {
    let line = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may have spaces and parentheses.
    let (_, behind) = line.rsplit_once(") ")?;
    behind.split(' ').nth(field.checked_sub(3)?)?.trim().parse().ok()
}

fn pages(field: usize) -> Option<f64> {
    let line = fs::read_to_string("/proc/self/statm").ok()?;
    line.split(' ').nth(field)?.trim().parse().ok()
}

fn ticks() -> f64 {
    as_number(rustix::param::clock_ticks_per_second()).max(1.0)
}

/// When the machine began.
fn boot() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

fn max_fds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "a number that is shown")]
fn as_number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn everything_is_told_and_is_a_number() {
        let text = text();
        for family in FAMILIES {
            let prefix = format!("{} ", family.name);
            let line = text.lines().find_map(|line| line.strip_prefix(prefix.as_str()));
            let value: f64 = line.unwrap().parse().unwrap();
            assert!(value.is_finite() && value >= 0.0, "{}", family.name);
        }
        assert!(stat(22).is_some() && boot().is_some_and(|boot| boot > 1e9));
    }
}
