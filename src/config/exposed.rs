//! What other users of this machine can do with the files of the configuration: what they can write is refused, since
//! it names the commands that are run; what they can read and has secrets in it is warned of.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::error::Problem;
use super::tree::{Node, Written};

/// Who else has a hand in a file.
enum Others {
    Nothing,
    Read,
    Write,
}

fn others(path: &Path) -> io::Result<Others> {
    let about = path.metadata()?;
    if !about.is_file() {
        return Ok(Others::Nothing);
    }
    Ok(match about.mode() {
        mode if mode & 0o022 != 0 => Others::Write,
        // A group that may read is how a service gets what root owns.
        mode if mode & 0o004 != 0 => Others::Read,
        _ => Others::Nothing,
    })
}

fn writable(path: &Path) -> String {
    format!(
        "{} can be written by other users, who could make this one run their commands: run chmod go-w on it",
        path.display()
    )
}

/// A warning about the configuration's own file, which holds `document`.
pub(super) fn of_file(path: &Path, document: &Node) -> Result<Option<String>, Problem> {
    match others(path).map_err(Problem::Read)? {
        Others::Write => Err(Problem::Exposed(writable(path))),
        Others::Read if has_secret(document) => Ok(Some(format!(
            "{} has secrets in it, and other users can read it: chmod 600, or keep the secrets in files of their own",
            path.display()
        ))),
        Others::Read | Others::Nothing => Ok(None),
    }
}

/// Warnings about the files that secrets are kept in.
pub(super) fn of_secrets(document: &Node) -> Result<Vec<String>, Problem> {
    let mut warnings = Vec::new();
    for node in secret_files(document) {
        let Written::Text(path) = &node.written else { continue };
        // What cannot be read is told by whoever reads it.
        match others(Path::new(path)) {
            Ok(Others::Write) => return Err(node.problem(writable(Path::new(path)))),
            Ok(Others::Read) => warnings.push(format!(
                "{path} ({}) is a secret that other users can read: chmod 600",
                node.path
            )),
            Ok(Others::Nothing) | Err(_) => {}
        }
    }
    Ok(warnings)
}

/// The places of `{ file = "PATH" }`, and of the keys of certificates.
fn secret_files(node: &Node) -> Vec<&Node> {
    let own = node
        .entries()
        .iter()
        .filter(|(key, value)| key == "file" && matches!(value.written, Written::Text(_)))
        .map(|(_, value)| value);
    let keys = node.get("tls").and_then(|tls| tls.get("key"));
    let inside = children(node).into_iter().flat_map(secret_files);
    own.chain(keys).chain(inside).collect()
}

fn children(node: &Node) -> Vec<&Node> {
    match &node.written {
        Written::Table(entries) => entries.iter().map(|(_, value)| value).collect(),
        Written::List(items) => items.iter().collect(),
        Written::Text(_) | Written::Integer(_) | Written::Number(_) | Written::Bool(_) | Written::Date(_) => Vec::new(),
    }
}

/// Whether a secret is written in place: a token, a key, a header, a URL with a password.
fn has_secret(document: &Node) -> bool {
    const KEYS: &[&str] = &["tokens", "value", "secret", "url_hash_key"];
    let text = |node: &Node| {
        let Written::Text(text) = &node.written else {
            return None;
        };
        Some(text.clone())
    };
    let has_password = |url: String| url::Url::parse(&url).is_ok_and(|url| url.password().is_some());
    let any_text = |node: &Node| text(node).is_some() || children(node).into_iter().any(|item| text(item).is_some());
    document.entries().iter().any(|(key, value)| match key.as_str() {
        "url" | "management_url" => text(value).is_some_and(has_password),
        "headers" => children(value).into_iter().any(|header| text(header).is_some()),
        key if KEYS.contains(&key) && !matches!(value.written, Written::Table(_)) => any_text(value),
        _ => false,
    }) || children(document).into_iter().any(has_secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_place_is_seen_and_one_that_is_elsewhere_is_none() {
        let has = |text: &str| has_secret(&Node::parse(text).unwrap());
        for secret in [
            "[api]\ntokens = [\"a\"]",
            "[api]\ntokens = [{ value = \"a\", scopes = [\"read\"] }]",
            "[store]\nurl = \"postgres://a:b@c\"",
            "[[endpoint]]\nurl = \"http://a\"\nsecret = \"whsec_a\"",
            "[[endpoint]]\nheaders = { Authorization = \"a\" }",
            "[profile.p]\nbroker = { url_hash_key = \"a\" }",
        ] {
            assert!(has(secret), "{secret}");
        }
        for none in [
            "[api]\ntokens = [{ env = \"A\" }, { file = \"/a\", scopes = [\"read\"] }]",
            "[store]\nurl = \"postgres://a@c\"",
            "[[endpoint]]\nheaders = { Authorization = { file = \"/a\" } }",
            "[broker]\nurl = \"amqp://c\"\nurl_hash_key = { env = \"K\" }",
        ] {
            assert!(!has(none), "{none}");
        }
    }
}
