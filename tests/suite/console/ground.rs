//! Dark or light by the terminal's own ground: answers in time, late, wrong, and none.

use std::time::{Duration, Instant};

use super::pty::{BOUND, GROUND, Kind, Pty};
use crate::support::daemon::Installation;
use crate::support::wait::wait_until;

/// The head of the list of queues.
const QUEUES: &str = "Waiting  Endpoint";
const SIZE: (u16, u16) = (80, 24);
/// Longer than an answer is waited for.
const LATE: Duration = Duration::from_millis(1_500);

/// The ground of the first cell below the tabs, as red, green and blue.
fn ground(pty: &Pty) -> Option<(u8, u8, u8)> {
    pty.look(|screen| match screen.cell(10, 5)?.bgcolor() {
        vt100::Color::Rgb(red, green, blue) => Some((red, green, blue)),
        vt100::Color::Default | vt100::Color::Idx(_) => None,
    })
}

async fn is_light(pty: &Pty, light: bool) {
    wait_until("the ground of the theme", BOUND, async || {
        let (red, green, blue) = ground(pty)?;
        let bright = u16::from(red) + u16::from(green) + u16::from(blue) > 384;
        (bright == light).then_some(())
    })
    .await;
}

fn console(kind: Kind, theme: Option<&str>, environment: &[(&str, &str)]) -> Pty {
    let mut installation = Installation::embedded();
    if let Some(theme) = theme {
        installation.set("console", "theme", theme);
    }
    let mut command = installation.program(&[]);
    command.env("COLORTERM", "truecolor");
    command.envs(environment.iter().copied());
    let pty = Pty::start_on(kind, &command, SIZE);
    // The files are read by then: the directory may go.
    std::mem::forget(installation);
    pty
}

fn asked(pty: &Pty) -> usize {
    pty.bytes().windows(GROUND.len()).filter(|part| *part == GROUND).count()
}

async fn leaves(mut pty: Pty) {
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_says_light_gets_the_light_theme_and_one_that_says_dark_the_dark_one() {
    for (kind, light) in [(Kind::Light, true), (Kind::Dark, false)] {
        let pty = console(kind, None, &[]);
        pty.shows("live").await;
        is_light(&pty, light).await;
        assert_eq!(asked(&pty), 1, "{kind:?}");
        leaves(pty).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_frame_comes_before_the_question() {
    let pty = console(Kind::Light, None, &[]);
    pty.shows("live").await;
    let bytes = pty.bytes();
    let text = String::from_utf8_lossy(&bytes);
    let (frame, question) = (text.find("\x1b[?2026l").unwrap(), text.find("\x1b]11;?").unwrap());
    assert!(frame < question);
    leaves(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_nobody_understands_is_no_key_and_changes_nothing() {
    let pty = console(Kind::Garbage, None, &[]);
    pty.shows("live").await;
    is_light(&pty, false).await;
    // Had `R`, `X`, `D` or the digits become keys, another view or a refusal would be on the screen.
    pty.key("?");
    pty.shows("─ Keys ─").await;
    pty.key("\x1b");
    pty.hides("─ Keys ─").await;
    pty.shows("Over").await;
    assert!(!pty.screen().contains("is for:"), "{}", pty.screen());
    leaves(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_is_no_key_and_turns_no_screen_over() {
    let pty = console(Kind::Plain, None, &[]);
    pty.shows("live").await;
    wait_until("the question", BOUND, async || (asked(&pty) == 1).then_some(())).await;
    let asked_at = Instant::now();
    wait_until("it to be late", BOUND, async || {
        (asked_at.elapsed() > LATE).then_some(())
    })
    .await;
    pty.send(b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\");
    pty.key("2");
    pty.shows(QUEUES).await;
    is_light(&pty, false).await;
    leaves(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_never_answers_has_what_the_environment_says() {
    for (variable, light) in [("0;15", true), ("15;0", false)] {
        let pty = console(Kind::Plain, None, &[("COLORFGBG", variable)]);
        pty.shows("live").await;
        is_light(&pty, light).await;
        pty.key("2");
        pty.shows(QUEUES).await;
        leaves(pty).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_chose_a_theme_or_has_a_mute_terminal_is_not_asked() {
    for (theme, environment) in [
        (Some("nord"), ("TERM", "xterm-256color")),
        (None, ("TERM", "linux")),
        (None, ("NO_COLOR", "1")),
    ] {
        let pty = console(Kind::Light, theme, &[environment]);
        pty.shows("live").await;
        pty.key("2");
        pty.shows(QUEUES).await;
        assert_eq!(asked(&pty), 0, "{theme:?} {environment:?}");
        leaves(pty).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn auto_can_be_written_and_chosen() {
    let pty = console(Kind::Light, Some("auto"), &[]);
    pty.shows("live").await;
    is_light(&pty, true).await;
    pty.command("theme dark").await;
    is_light(&pty, false).await;
    pty.command("theme auto").await;
    is_light(&pty, true).await;
    leaves(pty).await;
}
