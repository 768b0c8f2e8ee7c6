//! Who gives a command, as far as the system knows: nothing that the caller can say of himself, such as `$USER`.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;

use nix::unistd::{Uid, User};
use rustix::system::uname;
use rustix::termios::ttyname;

/// What stands in [`LOGIN_UID`] of a process that nobody's login led to.
const NO_LOGIN: u32 = u32::MAX;
/// Who logged in, kept by Linux through `su` and `sudo`.
const LOGIN_UID: &str = "/proc/self/loginuid";

/// Who this is at which front, for the audit: `cli:ana as root@db-7 pts/3`, that is who logged in, the user of the
/// process where that is another one, the host, and the terminal if there is one.
#[must_use]
pub fn actor(front: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    let login = std::fs::read_to_string(LOGIN_UID)
        .ok()
        .and_then(|id| id.trim().parse().ok())
        .filter(|id| *id != NO_LOGIN)
        .unwrap_or(user);
    let mut actor = format!("{front}:{}", name(login));
    if login != user {
        let _ = write!(actor, " as {}", name(user));
    }
    let host = uname().nodename().to_string_lossy().into_owned();
    let _ = write!(actor, "@{}", host.split('.').next().unwrap_or_default());
    if let Some(terminal) = terminal() {
        let _ = write!(actor, " {terminal}");
    }
    actor
}

fn name(id: u32) -> String {
    match User::from_uid(Uid::from_raw(id)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => format!("uid {id}"),
    }
}

fn terminal() -> Option<String> {
    let of = |stream: &dyn AsFd| ttyname(stream.as_fd(), Vec::new()).ok();
    let path = of(&io::stdin())
        .or_else(|| of(&io::stderr()))
        .or_else(|| of(&io::stdout()))?;
    let path = path.to_string_lossy();
    Some(path.strip_prefix("/dev/").unwrap_or(&path).to_owned())
}
