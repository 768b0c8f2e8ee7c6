//! The parent: starts a reader's process, watches it, and says how it ended.

use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use redrive::internals::parsers::Parser;

use crate::planted::Fault;

/// Computing so long over one input is a hang.
const HANG_CPU_MS: u64 = 2_000;
/// So is standing still so long: a busy machine gives even a quick one no processor for a while.
const HANG_WAIT_MS: u64 = 60_000;
const LOOK_EVERY_MS: u64 = 50;
/// Bytes of an input and of what a process said that are printed.
const SHOWN_BYTES: usize = 512;

/// A reader, how long it is tried, and where chance begins.
#[derive(Clone, Copy)]
pub struct Run {
    pub parser: Parser,
    pub fault: Option<Fault>,
    pub seconds: f64,
    pub seed: u64,
}

/// How it ended.
pub enum Ended {
    /// When its time was over.
    Quietly {
        runs: u64,
        understood: u64,
    },
    Found(Finding),
}

/// What was found, and with which input.
pub struct Finding {
    pub kind: &'static str,
    pub runs: u64,
    said: String,
    input: Vec<u8>,
    file: PathBuf,
}

/// Tries the reader until it is over.
pub fn watch(run: &Run) -> Ended {
    let fault = run.fault.map_or("none", Fault::name);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let trail = folder.join(format!("fuzz-{}-{fault}-{}.trail", run.parser.name, run.seed));
    let mut child = start(run, &trail);
    let out = read_on(child.stdout.take().unwrap());
    let said = read_on(child.stderr.take().unwrap());
    let hangs = !wait(child.id(), &trail, &out.1);
    if hangs {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let (out, said) = (out.0.join().unwrap(), said.0.join().unwrap());
    let (runs, input) = last(&trail);
    std::fs::remove_file(&trail).unwrap();
    if status.success() && !hangs {
        let mut numbers = out.split_whitespace().map(|number| number.parse().unwrap());
        let (runs, understood) = (numbers.next().unwrap(), numbers.next().unwrap());
        return Ended::Quietly { runs, understood };
    }
    let file = folder.join(format!("fuzz-{}-{}.input", run.parser.name, run.seed));
    if run.fault.is_none() {
        std::fs::write(&file, &input).unwrap();
    }
    Ended::Found(Finding {
        kind: if hangs { "hang" } else { kind(status, &said) },
        runs,
        said,
        input,
        file,
    })
}

fn start(run: &Run, trail: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--child",
        run.parser.name,
        &run.seed.to_string(),
        &run.seconds.to_string(),
    ]);
    command.arg(trail).args(run.fault.map(Fault::name));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What is read up to its end, and a channel that closes at the end.
fn read_on(mut from: impl Read + Send + 'static) -> (thread::JoinHandle<String>, mpsc::Receiver<()>) {
    let (open, closes) = mpsc::channel();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        drop(open);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    (reading, closes)
}

/// Until the process ends, or hangs: whether it ends.
fn wait(process: u32, trail: &Path, ends: &mpsc::Receiver<()>) -> bool {
    let (mut seen, mut since_ms, mut waited_ms) = (0, 0, 0);
    loop {
        match ends.recv_timeout(Duration::from_millis(LOOK_EVERY_MS)) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let (runs, _) = last(trail);
        let computed_ms = computed_ms(process);
        if runs != seen || runs == 0 {
            (seen, since_ms, waited_ms) = (runs, computed_ms, 0);
        }
        waited_ms += LOOK_EVERY_MS;
        if computed_ms.saturating_sub(since_ms) >= HANG_CPU_MS || waited_ms >= HANG_WAIT_MS {
            return false;
        }
    }
}

/// Processor time that the process has had.
fn computed_ms(process: u32) -> u64 {
    /// Linux counts in hundredths of a second here.
    const TICK_MS: u64 = 10;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which may have blanks in it, the state is the first field, user and system time are 12 and 13.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks * TICK_MS
}

/// The number of the last input and the input.
fn last(trail: &Path) -> (u64, Vec<u8>) {
    let record = std::fs::read(trail).unwrap_or_default();
    let number = |place: usize| {
        let bytes = record.get(place..place + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    };
    let length = number(8).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let input = record.get(16..).unwrap_or_default();
    (number(0).unwrap_or(0), input[..length.min(input.len())].to_vec())
}

/// What the end of a process tells.
fn kind(status: ExitStatus, said: &str) -> &'static str {
    let says = |text: &str| said.contains(text);
    if says("memory allocation of") || says("capacity overflow") {
        "bomb"
    } else if says("with overflow") || says("overflowed its stack") {
        "overflow"
    } else if status.signal().is_some() {
        "a signal"
    } else {
        "a panic"
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: String = self.said.chars().take(SHOWN_BYTES).collect();
        writeln!(f, "  {} with input {}: {}", self.kind, self.runs, said.trim())?;
        let beginning = &self.input[..self.input.len().min(SHOWN_BYTES)];
        write!(f, "  {} bytes, in hexadecimal: ", self.input.len())?;
        for byte in beginning {
            write!(f, "{byte:02x}")?;
        }
        writeln!(f)?;
        writeln!(f, "  as text: {:?}", String::from_utf8_lossy(beginning))?;
        write!(f, "  kept in {}: see --replay", self.file.display())
    }
}
