//! The process that reads: one reader, one input after the other, with a bound on memory.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use redrive::internals::ambient::Clock;
use redrive::internals::parsers::Parser;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::mutate::Mutator;
use crate::planted::Fault;
use crate::seeds;

/// Memory that the inputs may cost, beside what the program has from the start: thousands of times their length. Two
/// stacks are in it.
const MEMORY_BYTES: u64 = 1 << 30;
/// As the program sets for its own threads; unoptimised frames are larger.
const STACK_BYTES: usize = 256 << 20;
/// Inputs between two looks at the clock.
const LOOK_EVERY: u64 = 16;

/// Reads until the time is over, and says how many inputs there were, and how many of them were understood.
///
/// Arguments: seed, seconds, the file that each input is written to before it is read, and the planted bug.
pub fn run(parser: Parser, arguments: &[&str]) -> ExitCode {
    let [seed, seconds, trail, fault @ ..] = arguments else {
        panic!("seed, seconds, file and perhaps a planted bug, not {arguments:?}");
    };
    let fault = fault.first().map(|name| Fault::of_name(name).unwrap());
    let mutator = Mutator::new(seed.parse().unwrap(), seeds::of(parser.name), parser.bytes_max);
    let seconds = Duration::from_secs_f64(seconds.parse().unwrap());
    let trail = File::create(trail).unwrap();
    limit();
    let work = move || read_all(parser, fault, mutator, seconds, &trail);
    let reading = thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    let Ok((runs, understood)) = reading.join() else {
        return ExitCode::from(101);
    };
    println!("{runs} {understood}");
    ExitCode::SUCCESS
}

/// No more memory than what is there now and [`MEMORY_BYTES`]; no dump when it ends by a signal.
fn limit() {
    const PAGE_BYTES: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    for (resource, most) in [(Resource::As, pages * PAGE_BYTES + MEMORY_BYTES), (Resource::Core, 0)] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).unwrap();
    }
}

fn read_all(parser: Parser, fault: Option<Fault>, mut mutator: Mutator, time: Duration, trail: &File) -> (u64, u64) {
    let clock = Clock::system();
    let end = clock.uptime() + time;
    let (mut runs, mut understood) = (0, 0);
    while runs % LOOK_EVERY != 0 || clock.uptime() < end {
        let input = mutator.next();
        runs += 1;
        write_down(trail, runs, &input);
        if (parser.read)(&input) {
            understood += 1;
            if let Some(fault) = fault {
                fault.strike(parser.name, &input);
            }
            mutator.keep(input);
        }
    }
    (runs, understood)
}

/// Which input is the next, how long it is, and the input.
fn write_down(trail: &File, number: u64, input: &[u8]) {
    let mut record = Vec::with_capacity(input.len() + 16);
    record.extend(number.to_le_bytes());
    record.extend(u64::try_from(input.len()).unwrap().to_le_bytes());
    record.extend(input);
    trail.write_all_at(&record, 0).unwrap();
}
