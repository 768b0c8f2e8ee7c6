//! A console that is attached to a daemon with 10,000 queues.
//!
//! | row | from when to when, of what |
//! |---|---|
//! | first frame with data | from the start of `redrive attach` on a pseudo-terminal to the number of queues on its screen |
//! | key → paint | from a key written to the terminal to the end mark of the next frame, in the list of queues |
//! | idle | bytes between console and daemon in both directions while nothing happens but the looks of the daemon |
//! | consoles | processor time of the daemon with 20 consoles attached, beside that of the same daemon without one |
//!
//! The far rows go through a relay: each piece arrives 75 ms late in either direction, and one in a hundred 200 ms later,
//! as a segment that was lost and sent again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::numbers::{rounds, share};
use crate::terminal::{FRAME_END, Program, scratch};

const QUEUES: usize = 10_000;
const PUBLISHERS: usize = 16;
const TOKEN: &str = "a-token-of-this-measurement-alone";
/// Half of a round trip of 150 ms.
const WAY: Duration = Duration::from_millis(75);
/// One piece in so many is lost and sent again.
const LOST: u32 = 100;
const RETRANSMITTED: Duration = Duration::from_millis(200);
const IDLE: Duration = Duration::from_secs(20);
/// As long as queues are still tried their rows change: it is quiet once no more bytes than this come in [`QUIET`].
const QUIET_BYTES: usize = 20_000;
const QUIET: Duration = Duration::from_secs(5);
/// It is measured after so many looks for quiet, whatever comes.
const LOOKS_MAX: usize = 36;
const KEYS: usize = 100;
const CONSOLES: usize = 20;

/// Prints the rows of the table.
pub fn run() {
    println!("\n| attached console, {QUEUES} queues | measured | goal |\n|---|---|---|");
    let directory = scratch();
    let daemon = Daemon::start(directory.path());
    daemon.publish();
    let alone = daemon.processor_within(IDLE);
    first_frame("loopback", &daemon.address, directory.path(), "≤ 1.5 s");
    let relay = Relay::to(&daemon.address);
    first_frame("150 ms and 1 % loss", &relay.address, directory.path(), "≤ 1.5 s");
    keys("loopback", &daemon.address, directory.path());
    keys("150 ms and 1 % loss", &relay.address, directory.path());
    idle(&relay, directory.path());
    consoles(&daemon, alone, directory.path());
}

fn row(what: &str, measured: &str, goal: &str) {
    println!("| {what} | {measured} | {goal} |");
}

/// A daemon with everything in one process.
struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(directory: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let file = directory.join("daemon.toml");
        let configuration = format!(
            "[store]\nurl = \"sqlite:{}\"\n[broker]\nurl = \"embedded:\"\n[api]\nlisten = {address:?}\ntokens = [{TOKEN:?}]\n[delivery]\nallow_networks = [\"127.0.0.1/32\"]\n",
            directory.join("store.db").display()
        );
        std::fs::write(&file, configuration).unwrap();
        let token = directory.join("token");
        std::fs::write(&token, TOKEN).unwrap();
        // What others can read is refused.
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_redrive"))
            .args(["--daemon", "--config"])
            .arg(&file)
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"].map(|home| (home, directory)))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Self { child, address };
        while daemon
            .answer("GET /readyz", "")
            .is_none_or(|answer| !answer.contains("\"ready\":true"))
        {
            thread::sleep(Duration::from_millis(50));
        }
        daemon
    }

    fn answer(&self, request: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let head = format!(
            "{request} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// A notification in each queue, to where nobody listens.
    fn publish(&self) {
        let next = AtomicUsize::new(0);
        thread::scope(|threads| {
            for _ in 0..PUBLISHERS {
                threads.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= QUEUES {
                            return;
                        }
                        let url = format!("http://127.0.0.1:9/{}", number % 100);
                        let body = format!("{{\"execution_id\":\"e-{number}\",\"url\":{url:?},\"body\":\"x\"}}");
                        let answer = self.answer("POST /v1/notifications", &body).unwrap();
                        assert!(answer.contains(" 202 "), "{answer}");
                    }
                });
            }
        });
        // Until the first attempts are over, and the daemon has looked.
        thread::sleep(Duration::from_secs(20));
    }

    /// Which share of a core it used within this time, in percent.
    fn processor_within(&self, time: Duration) -> f64 {
        let used = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
            ticks / 100.0
        };
        let before = used();
        thread::sleep(time);
        (used() - before) / time.as_secs_f64() * 100.0
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A way that is long and loses something.
struct Relay {
    address: String,
    bytes: Arc<AtomicUsize>,
}

impl Relay {
    fn to(far: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (far, bytes) = (far.to_owned(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&bytes);
        thread::spawn(move || {
            for near in listener.incoming().filter_map(Result::ok) {
                let Ok(far) = TcpStream::connect(&far) else { continue };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                late(
                    near.try_clone().unwrap(),
                    far.try_clone().unwrap(),
                    Arc::clone(&counted),
                );
                late(far, near, Arc::clone(&counted));
            }
        });
        Self { address, bytes }
    }
}

/// What one side writes comes to the other one late, in its order.
fn late(mut from: TcpStream, mut to: TcpStream, bytes: Arc<AtomicUsize>) {
    let (pieces, delayed) = channel::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            bytes.fetch_add(count, Ordering::Relaxed);
            let _ = pieces.send((Instant::now(), buffer[..count].to_vec()));
        }
    });
    thread::spawn(move || {
        for (came, piece) in delayed {
            let lost = fastrand::u32(0..LOST) == 0;
            let due = came + WAY + if lost { RETRANSMITTED } else { Duration::ZERO };
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn attach(address: &str, directory: &Path) -> Program {
    let token = directory.join("token").display().to_string();
    Program::start(
        directory,
        "",
        &["attach", &format!("http://{address}"), "--token-file", &token],
    )
}

fn first_frame(way: &str, address: &str, directory: &Path, goal: &str) {
    let mut times = Vec::new();
    for _ in 0..rounds().max(5) {
        let begin = Instant::now();
        let mut program = attach(address, directory);
        let at = program.until(b"10,000");
        times.push(at.duration_since(begin).as_secs_f64());
        program.quit();
    }
    times.sort_by(f64::total_cmp);
    let measured = format!("p50 {:.2} s, most {:.2} s", share(&times, 0.5), share(&times, 1.0));
    row(&format!("first frame with data, {way}"), &measured, goal);
}

fn keys(way: &str, address: &str, directory: &Path) {
    let mut program = attach(address, directory);
    program.until(b"10,000");
    program.input.write_all(b"2").unwrap();
    program.bytes_within(Duration::from_secs(3));
    let mut times = Vec::new();
    for _ in 0..KEYS {
        let begin = Instant::now();
        program.input.write_all(b"j").unwrap();
        let at = program.until(FRAME_END);
        times.push(at.duration_since(begin).as_secs_f64() * 1_000.0);
    }
    program.quit();
    times.sort_by(f64::total_cmp);
    let measured = format!("p50 {:.1} ms, p99 {:.1} ms", share(&times, 0.5), share(&times, 0.99));
    row(&format!("key → paint, {way}"), &measured, "the same");
}

fn idle(relay: &Relay, directory: &Path) {
    let mut program = attach(&relay.address, directory);
    program.until(b"10,000");
    program.input.write_all(b"2").unwrap();
    let bytes_within = |time| {
        let before = relay.bytes.load(Ordering::Relaxed);
        program.bytes_within(time);
        relay.bytes.load(Ordering::Relaxed) - before
    };
    for _ in 0..LOOKS_MAX {
        if bytes_within(QUIET) <= QUIET_BYTES {
            break;
        }
    }
    let bytes = bytes_within(IDLE);
    program.quit();
    let measured = format!("{:.0} bytes a second", bytes as f64 / IDLE.as_secs_f64());
    row("idle, list of queues", &measured, "≤ 1 kB a second");
}

fn consoles(daemon: &Daemon, alone: f64, directory: &Path) {
    let mut programs: Vec<Program> = (0..CONSOLES).map(|_| attach(&daemon.address, directory)).collect();
    for program in &mut programs {
        program.until(b"10,000");
    }
    let used = daemon.processor_within(IDLE);
    programs.into_iter().for_each(Program::quit);
    let measured = format!(
        "{used:.1} % of a core, {alone:.1} % without one: {:.1} % more",
        used - alone
    );
    row(&format!("{CONSOLES} consoles on one daemon"), &measured, "≤ 3 % more");
}
