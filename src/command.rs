//! Runs a handler's program: input on standard input, bounded output, a time limit, and an end of the whole
//! process group.
//!
//! Promises: the program gets nothing of our environment but what is listed here; what it prints is read to the
//! end and kept up to a bound; when it has ended, or its time is up, nothing of its group is left (SIGTERM, then
//! SIGKILL). Where the program is redrive, a second process kills the groups that are left when this one is killed.
//! Left out on purpose: deciding what its end means, and a shell.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::ambient::timeout;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ambient;

/// What of our environment a program gets.
const ENVIRONMENT: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long output is waited for once nothing of the group is left.
const OUTPUT: Duration = Duration::from_secs(1);

/// The argument of the process that watches over programs.
const WATCH: &str = "--watch-programs";
/// What watches over the programs of this process, where it is redrive.
static WATCH_KEPT: OnceLock<Mutex<Watch>> = OnceLock::new();

/// Whether this process was started to watch over the programs of another one: then that one has ended, and what it
/// left of them was killed. Else a process of that kind is started with the first program.
#[must_use]
pub fn watched_programs() -> bool {
    if std::env::args_os().nth(1).is_none_or(|argument| argument != WATCH) {
        let _ = WATCH_KEPT.set(Mutex::default());
        return false;
    }
    for group in left_of(io::stdin().lock()).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    true
}

/// The groups that were begun and not ended when nothing more is told.
fn left_of(told: impl BufRead) -> BTreeSet<i32> {
    let mut left = BTreeSet::new();
    for line in told.lines().map_while(Result::ok) {
        match line.parse::<i32>() {
            // No program has the group 1, which would stand for all processes.
            Ok(begun @ 2..) => {
                left.insert(begun);
            }
            Ok(ended) => {
                left.remove(&ended.saturating_neg());
            }
            Err(_) => {}
        }
    }
    left
}

/// The process that watches over programs. It has a group of its own and reads from a pipe, which ends with this
/// process however that ends.
#[derive(Debug, Default)]
struct Watch {
    process: Option<process::Child>,
    /// The groups at work.
    groups: BTreeSet<i32>,
}

impl Watch {
    fn start() -> io::Result<process::Child> {
        // This program, also where a newer one has its name by now.
        process::Command::new("/proc/self/exe")
            .arg0("redrive")
            .arg(WATCH)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    }

    /// Tells it of groups; whether it heard.
    fn tell(&mut self, groups: impl Iterator<Item = i32>) -> bool {
        let pipe = self.process.as_mut().and_then(|process| process.stdin.as_mut());
        let lines: Vec<String> = groups.map(|group| format!("{group}\n")).collect();
        pipe.is_some_and(|pipe| pipe.write_all(lines.concat().as_bytes()).is_ok())
    }

    /// One that was ended, or not started yet, begins with all groups at work.
    fn begun(&mut self, group: i32) {
        self.groups.insert(group);
        if self.tell([group].into_iter()) {
            return;
        }
        if let Some(mut ended) = self.process.take() {
            let _ = ended.kill().and_then(|()| ended.wait());
        }
        self.stand_by();
        self.tell(self.groups.clone().into_iter());
    }

    /// Is there before the first program is: a process takes its time to start.
    fn stand_by(&mut self) {
        if self.process.is_some() {
            return;
        }
        match Self::start() {
            Ok(process) => self.process = Some(process),
            Err(error) => {
                tracing::warn!(error = ?error, "programs of handlers would go on when this process is killed");
            }
        }
    }

    fn ended(&mut self, group: i32) {
        self.groups.remove(&group);
        self.tell([-group].into_iter());
    }
}

/// A group at work, which ends with this process.
struct Watched(i32);

impl Watched {
    fn new(group: i32) -> Self {
        with_watch(|watch| watch.begun(group));
        Self(group)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        with_watch(|watch| watch.ended(self.0));
    }
}

fn with_watch(tell: impl FnOnce(&mut Watch)) {
    if let Some(watch) = WATCH_KEPT.get() {
        tell(&mut watch.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A program that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program, and its arguments.
    pub command: Vec<String>,
    /// Where it runs; here without.
    pub directory: Option<PathBuf>,
    /// Variables beside those that every program gets.
    pub variables: Vec<(String, String)>,
    /// How long it may take.
    pub time: Duration,
    /// Bytes kept of each of its outputs.
    pub output_bytes_max: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// The beginning of its standard output (from outside).
    pub output: Vec<u8>,
    /// The beginning of its standard error (from outside).
    pub errors: Vec<u8>,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It was told to stop because we do.
    Stopped,
    /// It could not be started: why.
    NotStarted(String),
    /// The system had no room for it just then, no process or no open file: why.
    NoRoom(String),
}

impl Program {
    /// Runs it with `input`; `stop` ends it early.
    pub async fn run(&self, input: Vec<u8>, stop: &CancellationToken) -> Ran {
        with_watch(Watch::stand_by);
        let mut child = match self.start() {
            Ok(child) => child,
            Err(end) => {
                return Ran {
                    end,
                    output: Vec::new(),
                    errors: Vec::new(),
                };
            }
        };
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let _watched = group.map(|group| Watched::new(group.as_raw_nonzero().get()));
        let fed = feed(&mut child, input);
        let output = collect(child.stdout.take(), self.output_bytes_max);
        let errors = collect(child.stderr.take(), self.output_bytes_max);
        let end = tokio::select! {
            status = child.wait() => ended(status),
            () = ambient::sleep(self.time) => End::TimedOut,
            () = stop.cancelled() => End::Stopped,
        };
        finish(&mut child, group).await;
        fed.abort();
        Ran {
            end,
            output: collected(output).await,
            errors: collected(errors).await,
        }
    }

    fn start(&self) -> Result<Child, End> {
        let named = self.command.split_first();
        let (program, arguments) = named.ok_or_else(|| End::NotStarted("no program is named".to_owned()))?;
        let mut command = Command::new(program);
        let kept = ENVIRONMENT
            .iter()
            .filter_map(|name| Some((*name, std::env::var_os(name)?)))
            .collect::<Vec<(&str, OsString)>>();
        command
            .args(arguments)
            .env_clear()
            .envs(kept)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.spawn().map_err(|error| {
            let why = format!("{program:?} cannot be started: {error}");
            if is_no_room(&error) {
                End::NoRoom(why)
            } else {
                End::NotStarted(why)
            }
        })
    }
}

/// Whether a limit of ours or of the system is what it failed by.
fn is_no_room(error: &io::Error) -> bool {
    let limits = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| limits.contains(&error))
}

fn ended(status: std::io::Result<ExitStatus>) -> End {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => End::Exited(code),
            (None, signal) => End::Signalled(signal.unwrap_or_default()),
        },
        Err(error) => End::NotStarted(format!("its end cannot be seen: {error}")),
    }
}

/// Ends what is left of the group: politely while the program runs, at once when only its children do.
async fn finish(child: &mut Child, group: Option<Pid>) {
    let Some(group) = group else { return };
    if child.id().is_some() {
        // A group that is gone already is what is wanted.
        let _ = kill_process_group(group, Signal::TERM);
        let _ = timeout(GRACE, child.wait()).await;
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = timeout(GRACE, child.wait()).await;
}

/// In a task of its own: a program that does not read must not keep us from reading what it prints.
fn feed(child: &mut Child, input: Vec<u8>) -> JoinHandle<()> {
    let pipe = child.stdin.take();
    ambient::spawn("command input", async move {
        if let Some(mut pipe) = pipe {
            // A program may end without reading all of it.
            let _ = pipe.write_all(&input).await;
            let _ = pipe.shutdown().await;
        }
    })
}

/// What is read, shared with its task: a reader that is given up leaves what it has.
type Kept = std::sync::Arc<Mutex<Vec<u8>>>;

fn collect<R: AsyncRead + Unpin + Send + 'static>(pipe: Option<R>, bytes_max: usize) -> (Kept, JoinHandle<()>) {
    let kept = Kept::default();
    let shared = Kept::clone(&kept);
    let task = ambient::spawn("command output", async move {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let room = bytes_max.saturating_sub(kept.len()).min(read);
            kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
        }
    });
    (kept, task)
}

async fn collected((kept, mut task): (Kept, JoinHandle<()>)) -> Vec<u8> {
    if timeout(OUTPUT, &mut task).await.is_err() {
        task.abort();
    }
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        Program {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            directory: None,
            variables: vec![("REDRIVE_EVENT_TYPE".to_owned(), "t".to_owned())],
            time: Duration::from_secs(20),
            output_bytes_max: 1024,
        }
    }

    async fn run(program: &Program, input: &str) -> Ran {
        program.run(input.as_bytes().to_vec(), &CancellationToken::new()).await
    }

    #[tokio::test]
    async fn a_program_gets_its_input_and_says_its_exit_code_and_output() {
        let ran = run(&shell("cat; echo no >&2; exit 75"), "{\"a\":1}").await;
        assert_eq!(ran.end, End::Exited(75));
        assert_eq!((&ran.output[..], &ran.errors[..]), (&b"{\"a\":1}"[..], &b"no\n"[..]));
    }

    #[tokio::test]
    async fn a_program_gets_nothing_of_our_environment_but_the_list() {
        let ran = run(&shell("env | cut -d= -f1 | sort"), "").await;
        let names = String::from_utf8(ran.output).unwrap();
        let known = |name: &str| {
            ENVIRONMENT.contains(&name) || ["REDRIVE_EVENT_TYPE", "PWD", "SHLVL", "_", "OLDPWD"].contains(&name)
        };
        assert!(names.lines().all(known), "{names}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_and_its_children_are_ended_when_the_time_is_up() {
        let program = Program {
            time: Duration::from_millis(300),
            ..shell("sleep 1000 & echo $!; trap '' TERM; wait; sleep 1000")
        };
        let ran = run(&program, "").await;
        assert_eq!(ran.end, End::TimedOut);
        assert!(is_gone(&ran.output).await, "its child is left");
    }

    #[tokio::test]
    async fn what_a_program_leaves_behind_does_not_keep_it_from_ending() {
        let ran = run(&shell("sleep 1000 & echo $!"), "").await;
        assert_eq!(ran.end, End::Exited(0));
        assert!(is_gone(&ran.output).await, "its child is left");
    }

    /// A process that was killed is no more, or waits for its parent to look; the signal takes a moment.
    async fn is_gone(printed: &[u8]) -> bool {
        let id = String::from_utf8_lossy(printed).trim().to_owned();
        let gone = async {
            while std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), gone).await.is_ok()
    }

    #[tokio::test]
    async fn a_hundred_megabytes_of_output_are_read_and_not_kept() {
        let ran = run(&shell("head -c 100000000 /dev/zero; exit 3"), "").await;
        assert_eq!((ran.end, ran.output.len()), (End::Exited(3), 1024));
    }

    #[test]
    fn what_was_begun_and_not_ended_is_left() {
        assert_eq!(left_of(&b"7\n8\n-7\nx\n1\n9\n"[..]), [8, 9].into());
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_says_so() {
        let program = Program {
            command: vec!["/no/such/program".to_owned()],
            ..shell("")
        };
        assert!(matches!(run(&program, "").await.end, End::NotStarted(_)));
    }
}
