//! The terminal is taken, and given back on every way out.

use std::process::Command;

use rustix::process::Signal;

use super::child;
use super::pty::{Kind, Pty};
use crate::support::daemon::Installation;

const SIZE: (u16, u16) = (80, 24);

/// The console of an embedded installation, past its first screen.
async fn console(installation: &Installation) -> Pty {
    let pty = Pty::start(&installation.program(&[]), SIZE);
    pty.shows("1 Over").await;
    pty
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_appears_and_q_gives_the_terminal_back() {
    let installation = Installation::embedded();
    let mut pty = console(&installation).await;
    assert!(pty.look(vt100::Screen::alternate_screen) && pty.look(vt100::Screen::bracketed_paste));
    assert!(!pty.is_cooked());
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_signal_that_ends_it_leaves_the_terminal_usable() {
    let installation = Installation::embedded();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut pty = console(&installation).await;
        pty.signal(signal);
        assert_eq!(pty.ended().await, 0, "{signal:?}");
        pty.assert_restored();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_gives_the_terminal_back_before_it_is_told() {
    let mut pty = Pty::start(&child::command(), SIZE);
    pty.shows("1 Over").await;
    pty.key("?");
    assert_ne!(pty.ended().await, 0);
    pty.assert_restored();
    assert!(pty.screen().contains("the painter failed"), "{}", pty.screen());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_too_small_says_so_and_comes_back() {
    let installation = Installation::embedded();
    let mut pty = console(&installation).await;
    for (columns, rows) in [(20, 5), (1, 1), (300, 100), (20, 5)] {
        pty.resize(columns, rows);
    }
    pty.shows("this is 20 × 5").await;
    pty.resize(80, 24);
    pty.shows("1 Over").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_comes_with_a_change_of_size_is_heard_at_once() {
    let installation = Installation::embedded();
    let mut pty = console(&installation).await;
    for columns in (90..).take(60) {
        pty.resize(columns, 30);
        pty.send(b"?");
        pty.shows("─ Keys ─").await;
        let written = pty.written();
        pty.resize(columns, 24);
        pty.send(b"\x1b");
        pty.hides_after(written, "─ Keys ─").await;
    }
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pasted_commands_change_nothing_and_that_is_said() {
    let installation = Installation::embedded();
    let mut pty = console(&installation).await;
    pty.paste("qRAPUTDy\r3");
    pty.until("words about the paste", |screen| {
        screen.to_lowercase().contains("paste")
    })
    .await;
    pty.shows("1 Over").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_with_key_codes_is_asked_for_them_and_gets_back_what_it_had() {
    let installation = Installation::embedded();
    let mut pty = Pty::start_on(Kind::Kitty, &installation.program(&[]), SIZE);
    pty.shows("1 Over").await;
    crate::support::wait::wait_until("key codes to be asked for", super::pty::BOUND, async || {
        String::from_utf8_lossy(&pty.bytes()).contains("\x1b[>3u").then_some(())
    })
    .await;
    // A key goes down and up: the second is not even told.
    pty.send(b"\x1b[63;1:1u\x1b[63;1:3u");
    pty.shows("─ Keys ─").await;
    pty.send(b"\x1b[27;1:1u\x1b[27;1:3u");
    pty.hides("─ Keys ─").await;
    pty.send(b"\x1b[113;1:1u");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_console_comes_back_with_fg() {
    let installation = Installation::embedded();
    let program = installation.program(&[]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "prompt> ");
    let mut pty = Pty::start(&shell, SIZE);
    pty.shows("prompt>").await;
    let words: Vec<String> = std::iter::once(program.get_program())
        .chain(program.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    pty.send(format!("clear; {}\r", words.join(" ")).as_bytes());
    pty.shows("1 Over").await;
    pty.key("\x1a");
    pty.shows("Stopped").await;
    assert!(!pty.look(vt100::Screen::alternate_screen) && !pty.look(vt100::Screen::hide_cursor));
    pty.send(b"echo $((6*7))\r");
    pty.shows("42").await;
    pty.send(b"fg\r");
    pty.shows("1 Over").await;
    assert!(pty.look(vt100::Screen::alternate_screen));
    pty.key("q");
    // What is typed before the shell asks for it is dropped with the console's own type-ahead.
    pty.until("the shell's next prompt", |screen| {
        screen.trim_end().ends_with("prompt>") && !screen.contains("1 Over")
    })
    .await;
    pty.send(b"echo left: $?; exit\r");
    pty.shows("left: 0").await;
    pty.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_terminal_the_console_names_the_commands_and_exits_2() {
    let installation = Installation::embedded();
    let outcome = installation.run(&[]).await.expect_code(2);
    assert!(outcome.stderr.contains("redrive queues"), "{outcome:?}");
    assert!(outcome.stdout.is_empty());
    // One side of it is not enough.
    let mut command = installation.program(&[]);
    let arguments: Vec<_> = command
        .get_args()
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    let program = command.get_program().to_str().unwrap().to_owned();
    command = {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!(
            "'{program}' {} </dev/null; echo ended: $?",
            arguments.join(" ")
        ));
        shell
    };
    let mut pty = Pty::start(&command, SIZE);
    pty.shows("ended: 2").await;
    pty.ended().await;
    assert!(!String::from_utf8_lossy(&pty.bytes()).contains("\x1b[?1049h"));
}
