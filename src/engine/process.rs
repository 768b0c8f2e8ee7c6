//! Processes of this machine: what tells this one from all others, and whether another one is gone for certain.
//!
//! Promises: *gone* is said only of a process that could be seen from here if it were there. A process id means the
//! same process only within one boot of one machine and one namespace of ids, which containers on one machine do
//! not share; an id that was given away again is told by the time at which its process started.
//!
//! Left out on purpose: guesses. What the system does not tell is unknown, and time decides.

use std::fs;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::store::{Incarnation, ProcessMark};

/// What an incarnation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The first of a process that takes part in delivery.
    Delivers,
    /// A later one of it.
    DeliversAgain,
    /// Holds leases for a moment, for somebody's command.
    Manages,
}

/// The mark of this process.
pub(super) fn own_mark() -> ProcessMark {
    static OWN: OnceLock<ProcessMark> = OnceLock::new();
    let mark = OWN.get_or_init(|| ProcessMark {
        machine: machine(),
        started: state_of("self").map(|state| state.started),
    });
    mark.clone()
}

/// The name of this host.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What this machine knows of the process of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// It is gone for certain.
    Gone,
    /// Nothing says that it is.
    Unknown,
}

/// Whether the process of `one` is gone, as far as this machine knows.
pub(super) fn liveness(one: &Incarnation) -> Liveness {
    if is_gone(one) {
        Liveness::Gone
    } else {
        Liveness::Unknown
    }
}

/// Whether the process of `one` is gone for certain: it ran under the same boot of this machine, and its id is free
/// or belongs to another process by now.
fn is_gone(one: &Incarnation) -> bool {
    let own = own_mark();
    if own.machine.is_none() || own.machine != one.process.machine || one.host != host() {
        return false;
    }
    let Some(pid) = i32::try_from(one.pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    // Where the system hides the processes of others, this one may be what it was.
    state_of(&one.pid.to_string()).is_some_and(|found| found.is_over() || differs(one.process.started, found.started))
}

fn differs(expected: Option<i64>, found: i64) -> bool {
    expected.is_some_and(|expected| expected != found)
}

/// One boot of one machine, and one namespace of process ids in it.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let ids = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), ids.display()))
}

/// What the system says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessState {
    letter: char,
    threads: u64,
    /// When it started, in ticks since the boot.
    started: i64,
}

impl ProcessState {
    /// It ended, all its threads did, and only nobody asked for its exit code yet: what it had open is closed.
    fn is_over(self) -> bool {
        matches!(self.letter, 'Z' | 'X') && self.threads <= 1
    }
}

fn state_of(pid: &str) -> Option<ProcessState> {
    parsed(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `proc_pid_stat(5)`: the name in parentheses may hold anything, what follows the last one is numbers.
fn parsed(stat: &str) -> Option<ProcessState> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    Some(ProcessState {
        letter: fields.first()?.chars().next()?,
        threads: fields.get(17)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::domain::id::IncarnationId;
    use crate::domain::time::Timestamp;

    fn incarnation(pid: u32, process: ProcessMark) -> Incarnation {
        Incarnation {
            id: IncarnationId(1),
            name: "daemon".to_owned(),
            host: host(),
            pid,
            process,
            counter: 0,
            alive: true,
            delivers: true,
            take_over: Duration::from_mins(1),
            deadline: None,
            started_at: Timestamp::from_seconds(1),
            beat_at: Timestamp::from_seconds(1),
            leases: 0,
        }
    }

    fn other(change: impl FnOnce(&mut ProcessMark)) -> ProcessMark {
        let mut mark = own_mark();
        change(&mut mark);
        mark
    }

    #[test]
    fn this_process_is_not_gone() {
        assert!(!is_gone(&incarnation(std::process::id(), own_mark())));
    }

    #[test]
    fn one_whose_id_is_another_process_by_now_is_gone() {
        let before = other(|mark| mark.started = mark.started.map(|started| started - 1));
        assert!(is_gone(&incarnation(std::process::id(), before)));
    }

    #[test]
    fn one_that_ended_is_gone_before_and_after_its_parent_asks_for_it() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let started = state_of(&pid.to_string()).map(|state| state.started);
        let ended = incarnation(pid, other(|mark| mark.started = started));
        assert!(!is_gone(&ended), "it lives");
        child.kill().unwrap();
        let looks = (0..10_000_000).find(|_| is_gone(&ended));
        assert!(looks.is_some(), "nobody asked for its exit code yet");
        child.wait().unwrap();
        assert!(is_gone(&ended));
    }

    #[test]
    fn nothing_is_known_of_other_machines_boots_and_namespaces() {
        let free = u32::try_from(i32::MAX).unwrap();
        let mark = other(|mark| mark.started = Some(1));
        assert!(is_gone(&incarnation(free, mark.clone())), "here it would be");
        let elsewhere = Incarnation {
            host: "elsewhere".to_owned(),
            ..incarnation(free, mark)
        };
        assert!(!is_gone(&elsewhere));
        let rebooted = other(|mark| mark.machine = Some("another boot".to_owned()));
        assert!(!is_gone(&incarnation(free, rebooted)));
        assert!(!is_gone(&incarnation(free, ProcessMark::default())));
    }

    #[test]
    fn a_process_is_read_past_any_name() {
        let stat = "7 (a) b) Z 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let state = parsed(stat).unwrap();
        assert_eq!((state.letter, state.threads, state.started), ('Z', 1, 4711));
        assert!(state.is_over());
        assert_eq!(parsed("7 (a"), None);
    }
}
