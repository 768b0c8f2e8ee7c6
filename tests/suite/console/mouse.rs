//! The mouse on a real terminal: off unless it is wanted, and given back.

use serde_json::json;

use rustix::process::Signal;

use super::pty::Pty;
use crate::faults::scene::Scene;
use crate::support::daemon::Installation;

const SIZE: (u16, u16) = (120, 40);
const ON: &str = "\x1b[?1000h";

fn writes(pty: &Pty, sequence: &str) -> bool {
    String::from_utf8_lossy(&pty.bytes()).contains(sequence)
}

/// Presses and lets go, as terminals tell it (SGR, cells counted from 1).
fn click(pty: &Pty, column: u16, row: u16) {
    pty.send(format!("\x1b[<0;{};{}M\x1b[<0;{};{}m", column + 1, row + 1, column + 1, row + 1).as_bytes());
}

/// The line and column at which a text stands.
fn place(pty: &Pty, text: &str) -> (u16, u16) {
    let screen = pty.screen();
    let (row, line) = screen
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(text))
        .expect(text);
    let column = line[..line.find(text).expect(text)].chars().count();
    (u16::try_from(column).unwrap(), u16::try_from(row).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_wish_the_terminal_keeps_its_mouse() {
    let installation = Installation::embedded();
    let mut pty = Pty::start(&installation.program(&[]), SIZE);
    pty.shows("live").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    assert!(!writes(&pty, "\x1b[?1000"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_selects_opens_and_moves_and_confirms_nothing() {
    let mut scene = Scene::embedded().await;
    scene.installation.set("console", "mouse", json!(true));
    scene.installation.set("console", "refresh_s", json!(1));
    for execution in ["first", "second", "third"] {
        scene.publish(execution, "/hook", 1).await;
    }
    let mut pty = Pty::start(&scene.installation.program(&["--read-only"]), SIZE);
    pty.shows("live").await;
    assert!(writes(&pty, ON));
    let (column, row) = place(&pty, "Queues");
    click(&pty, column, row);
    // All rows are there: none moves under the hand.
    pty.shows("1–4 of 4").await;
    let (column, row) = place(&pty, "second");
    click(&pty, column, row);
    pty.until("the second row to be selected", |screen| selected(screen, "second"))
        .await;
    pty.send(b"\x1b[<64;10;10M");
    pty.until("another row to be selected", |screen| !selected(screen, "second"))
        .await;
    click(&pty, column, row);
    click(&pty, column, row);
    pty.shows("Tab turns").await;
    pty.key("\x1b");
    pty.hides("Tab turns").await;
    pty.key("?");
    pty.shows("─ Keys ─").await;
    // The help looks for what one types.
    for letter in ["d", "r", "a", "g"] {
        pty.key(letter);
    }
    pty.shows("Shift+drag").await;
    pty.key("\x1b");
    pty.hides("Shift+drag").await;
    // The first takes back what was typed, the second closes.
    pty.key("\x1b");
    pty.hides("Look for").await;
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

fn selected(screen: &str, text: &str) -> bool {
    screen.lines().any(|line| line.contains('▌') && line.contains(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_given_back_when_a_signal_ends_the_console() {
    let mut installation = Installation::embedded();
    installation.set("console", "mouse", json!(true));
    for signal in [Signal::TERM, Signal::HUP] {
        let mut pty = Pty::start(&installation.program(&[]), SIZE);
        pty.shows("live").await;
        assert!(writes(&pty, ON));
        pty.signal(signal);
        assert_eq!(pty.ended().await, 0);
        pty.assert_restored();
        assert!(writes(&pty, "\x1b[?1000l"));
    }
}
