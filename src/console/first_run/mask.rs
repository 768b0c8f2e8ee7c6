//! A URL as it may be painted: every character of a password is a dot, also while it is typed.
//!
//! As many characters as before, so that the cursor keeps its place. Hides rather too much: without a `@` what
//! stands behind a colon may be a port or half a password, and is hidden until the line is left, but for digits behind
//! what can only be a host.

use std::net::Ipv4Addr;

/// What stands for a character.
const DOT: char = '•';
/// Parameters of a URL that are secrets.
const SECRET_PARAMETERS: [&str; 2] = ["password=", "sslkey="];

/// The text with its secrets hidden; `typing`: it is not finished.
#[must_use]
pub fn masked(text: &str, typing: bool) -> String {
    let mut hidden = vec![false; text.len()];
    let login = login(text, typing);
    let parameters = SECRET_PARAMETERS.iter().flat_map(|name| parameters(text, name));
    for (from, to) in login.into_iter().chain(parameters) {
        for one in hidden.get_mut(from..to).unwrap_or_default() {
            *one = true;
        }
    }
    let hide = |(at, character)| {
        if hidden.get(at).copied().unwrap_or(true) {
            DOT
        } else {
            character
        }
    };
    text.char_indices().map(hide).collect()
}

/// From where to where the password is, as far as it can be told.
fn login(text: &str, typing: bool) -> Option<(usize, usize)> {
    let from = match text.find("://") {
        Some(at) => at + 3,
        // `user:password@host` without a scheme; the begin of `amqp://` hides two slashes, which costs nothing.
        None => 0,
    };
    let rest = text.get(from..)?;
    if let Some(at) = rest.rfind('@') {
        let user = rest.get(..at)?.find(':')? + 1;
        return Some((from + user, from + at));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = rest.get(..end)?;
    // The colons of an address in brackets are its own.
    let bracket = authority.rfind(']').unwrap_or(0);
    let colon = bracket + authority.get(bracket..)?.find(':')? + 1;
    let behind = authority.get(colon..)?;
    let host = authority.get(..colon - 1)?;
    let is_host = host == "localhost" || host.ends_with(']') || host.parse::<Ipv4Addr>().is_ok();
    let is_port = from > 0 && (!typing || is_host) && behind.bytes().all(|byte| byte.is_ascii_digit());
    (!is_port).then_some((from + colon, from + end))
}

/// From where to where the values of this parameter are.
fn parameters(text: &str, name: &str) -> Vec<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let found = lower.match_indices(name).map(|(at, _)| {
        let from = at + name.len();
        let end = text.get(from..).and_then(|rest| rest.find('&'));
        (from, end.map_or(text.len(), |end| from + end))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, typing: &str, left: &str) {
        assert_eq!(
            (masked(text, true).as_str(), masked(text, false).as_str()),
            (typing, left)
        );
    }

    #[test]
    fn a_password_is_dots_wherever_it_stands() {
        check("amqp://me:s3cret@mq", "amqp://me:••••••@mq", "amqp://me:••••••@mq");
        check("amqp://me:a/b@c@mq/v", "amqp://me:•••••@mq/v", "amqp://me:•••••@mq/v");
        check("me:s3cret@mq", "me:••••••@mq", "me:••••••@mq");
        check(
            "postgres://h/d?password=x&y=1",
            "postgres://h/d?password=•&y=1",
            "postgres://h/d?password=•&y=1",
        );
        check("amqp://me@mq", "amqp://me@mq", "amqp://me@mq");
    }

    #[test]
    fn half_a_password_is_hidden_and_a_port_is_shown_once_the_line_is_left() {
        check("amqp://me:1234", "amqp://me:••••", "amqp://me:1234");
        check("amqp://me:s3cr", "amqp://me:••••", "amqp://me:••••");
        check("amqp://[::1]:5672", "amqp://[::1]:5672", "amqp://[::1]:5672");
        check(
            "amqp://localhost:5673",
            "amqp://localhost:5673",
            "amqp://localhost:5673",
        );
        check("amqp://10.0.0.7:5673", "amqp://10.0.0.7:5673", "amqp://10.0.0.7:5673");
        check("amqp://localhost:s3", "amqp://localhost:••", "amqp://localhost:••");
        check("http://mq:15672/api", "http://mq:•••••/api", "http://mq:15672/api");
    }

    proptest! {
        #[test]
        fn no_character_of_a_password_is_painted_and_the_cursor_keeps_its_place(
            user in "[a-z]{1,8}", password in "[A-Z0-9:/?#é]{1,20}", typed in 0_usize..60,
        ) {
            let text = format!("amqp://{user}:{password}@host/vhost");
            let whole = masked(&text, false);
            prop_assert_eq!(whole.chars().count(), text.chars().count());
            prop_assert!(!whole.chars().any(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == 'é'));
            let half: String = text.chars().take(typed).collect();
            let half = masked(&half, true);
            // A slash ends the address where no `@` has come yet: what is behind it is a path as far as anybody knows.
            let known: String = half.chars().take_while(|c| *c != '?' && *c != '#').collect();
            if !password.contains(['/', '?', '#']) {
                prop_assert!(!known.chars().any(|c| c.is_ascii_uppercase() || c.is_ascii_digit()), "{half}");
            }
        }
    }
}
