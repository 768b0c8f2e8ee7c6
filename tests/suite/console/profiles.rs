//! Profiles and the configuration while the console is open: another profile, and the file read again.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::pty::Pty;
use crate::support::daemon::Installation;

const SIZE: (u16, u16) = (160, 40);
const PROFILES: &str = "[profile.test]\nlabel = \"TEST BENCH\"\ncolour = \"green\"\n\
    [profile.live]\nlabel = \"PRODUCTION\"\ncolour = \"red\"\nprotected = true\n";

/// The ground behind a text in the first line.
fn ground(pty: &Pty, text: &str) -> vt100::Color {
    pty.look(|screen| {
        let line = screen.contents_between(0, 0, 0, SIZE.0);
        let at = line.find(text).expect(text);
        let column = u16::try_from(line[..at].chars().count()).unwrap();
        screen.cell(0, column).unwrap().bgcolor()
    })
}

fn config_of(program: &Command) -> PathBuf {
    let words: Vec<_> = program.get_args().collect();
    let at = words.iter().position(|word| *word == "--config").expect("--config");
    PathBuf::from(words[at + 1])
}

async fn leave(mut pty: Pty) {
    pty.key("q");
    assert_eq!(pty.ended().await, 0);
    pty.assert_restored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_profile_is_gone_to_by_name_and_shows_where_it_is() {
    let mut installation = Installation::embedded();
    installation.append(PROFILES);
    let torn = installation.path("torn.db");
    fs::write(&torn, "no page of a database".repeat(1_000)).unwrap();
    installation.append(&format!(
        "[profile.torn]\nstore = {{ url = \"sqlite:{}\" }}\n",
        torn.display()
    ));
    let pty = Pty::start(&installation.program(&["--profile", "test"]), SIZE);
    pty.shows("live").await;
    pty.shows("TEST BENCH").await;
    assert!(!pty.screen().contains("READ-ONLY"));
    let green = ground(&pty, "TEST BENCH");
    pty.command("profile live").await;
    pty.shows("PRODUCTION").await;
    pty.shows("READ-ONLY").await;
    pty.hides("TEST BENCH").await;
    assert_ne!(ground(&pty, "PRODUCTION"), green, "another colour");
    pty.shows("live").await;
    pty.command("profile test").await;
    pty.shows("TEST BENCH").await;
    pty.hides("READ-ONLY").await;
    pty.shows("live").await;
    // One whose store cannot be opened is said to be so, and not gone to.
    pty.command("profile torn").await;
    pty.shows("profile torn cannot be opened").await;
    pty.shows("TEST BENCH").await;
    leave(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_profile_is_changed_in_a_window_only_and_shows_it() {
    let mut installation = Installation::embedded();
    installation.append(PROFILES);
    let pty = Pty::start(&installation.program(&["--profile", "live"]), SIZE);
    pty.shows("READ-ONLY").await;
    pty.shows("live").await;
    pty.command("write 15m INC-42 a test").await;
    pty.shows("CHANGES ALLOWED").await;
    pty.hides("READ-ONLY").await;
    pty.command("read-only").await;
    pty.shows("READ-ONLY").await;
    leave(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_is_read_again_and_what_is_wrong_changes_nothing() {
    let mut installation = Installation::embedded();
    installation.append(PROFILES);
    let program = installation.program(&["--profile", "test"]);
    let file = config_of(&program);
    let before = fs::read_to_string(&file).unwrap();
    let pty = Pty::start(&program, SIZE);
    pty.shows("live").await;
    fs::write(&file, format!("{before}\n[console]\nkeys = {{ help = \"q\" }}\n")).unwrap();
    pty.command("reload").await;
    pty.shows("nothing is changed").await;
    pty.shows("console.keys").await;
    let renamed = before.replace("TEST BENCH", "STAGING");
    fs::write(
        &file,
        format!("{renamed}\n[console]\nmouse = true\nkeys = {{ help = \"F5\" }}\n"),
    )
    .unwrap();
    pty.command("reload").await;
    pty.shows("configuration read again").await;
    pty.shows("STAGING").await;
    assert!(
        String::from_utf8_lossy(&pty.bytes()).contains("\x1b[?1000h"),
        "the mouse is wanted now"
    );
    pty.key("\x1b[15~");
    pty.shows("─ Keys ─").await;
    pty.key("\x1b");
    pty.hides("─ Keys ─").await;
    leave(pty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_a_new_connection_is_named_and_asked_for() {
    let installation = Installation::embedded();
    let program = installation.program(&[]);
    let file = config_of(&program);
    let before = fs::read_to_string(&file).unwrap();
    let pty = Pty::start(&program, SIZE);
    pty.shows("live").await;
    let other = installation.path("other.db");
    fs::write(&file, before.replace("store.db", "other.db")).unwrap();
    pty.command("reload").await;
    pty.shows("the connection has to be opened again").await;
    pty.shows("store.url").await;
    pty.key("\x1b");
    pty.hides("has to be opened again").await;
    assert!(!other.exists(), "a no is a no");
    pty.command("reload").await;
    pty.until("an armed question", |screen| {
        screen.contains("y  restart") && !screen.contains("in a moment")
    })
    .await;
    pty.key("y");
    pty.shows("other.db").await;
    pty.shows("live").await;
    assert!(other.exists());
    leave(pty).await;
}
