//! What other users of this machine can do with the files of the configuration: what they can write is refused, since
//! it names the commands that are run; what they can read and has secrets in it is warned of.
//!
//! Files that are read are looked at as they are open: what their names lead to may change.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::error::Problem;
use super::keys::{Row, Secrecy};
use super::template::SECTIONS;
use super::tree::{Node, Written};

/// The superuser, whose files are everybody's configuration.
const ROOT: u32 = 0;

/// Who else has a hand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Nothing,
    Read,
    Write,
    /// It is theirs.
    Own(u32),
}

fn others(about: &Metadata) -> Others {
    if about.is_file() {
        others_of(about.mode(), about.uid(), rustix::process::geteuid().as_raw())
    } else {
        Others::Nothing
    }
}

/// Whether a file with the token of a daemon belongs to that daemon's user, and the superuser reads it: nothing is run by a
/// token, and a profile is how commands beside a service use its API.
fn is_of_a_service(node: &Node, mode: u32, user: u32) -> bool {
    // Nobody but its owner may do anything.
    let is_private = mode.trailing_zeros() >= 6;
    is_private && node.path.starts_with("profile.") && node.path.ends_with(".token.file") && user == ROOT
}

fn others_of(mode: u32, owner: u32, user: u32) -> Others {
    match mode {
        _ if owner != user && owner != ROOT => Others::Own(owner),
        mode if mode & 0o022 != 0 => Others::Write,
        // A group that may read is how a service gets what root owns.
        mode if mode & 0o004 != 0 => Others::Read,
        _ => Others::Nothing,
    }
}

/// Why a file cannot be trusted: others can write it, or it is theirs.
fn refusal(path: &Path, about: &Metadata) -> Option<String> {
    let path = path.display();
    match others(about) {
        Others::Write => Some(format!(
            "{path} can be written by other users, who could make this one run their commands: run chmod go-w on it"
        )),
        Others::Own(owner) => Some(format!(
            "{path} belongs to another user (number {owner}), who could make this one run their commands: \
             run chown on it, or use a copy of your own"
        )),
        Others::Read | Others::Nothing => None,
    }
}

/// The same of the file of a secret, which `node` names.
pub(super) fn secret_refusal(node: &Node, path: &Path, about: &Metadata) -> Option<String> {
    if is_of_a_service(node, about.mode(), rustix::process::geteuid().as_raw()) {
        return None;
    }
    refusal(path, about)
}

/// Why the folder of a file cannot be trusted: everybody can put another file in its place.
fn folder_refusal(path: &Path) -> io::Result<Option<String>> {
    const WORLD_WRITABLE: u32 = 0o002;
    /// As for `/tmp`: only who owns a file takes it away.
    const STICKY: u32 = 0o1000;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mode = folder.metadata()?.mode();
    Ok((mode & WORLD_WRITABLE != 0 && mode & STICKY == 0).then(|| {
        format!(
            "the folder {} can be written by everybody, who could put another file in the place of {}: run chmod o-w on it",
            folder.display(),
            path.display()
        )
    }))
}

/// A warning about the configuration's own file, which holds `document`; `about` is of the file as it was read.
pub(super) fn of_file(path: &Path, about: &Metadata, document: &Node) -> Result<Option<String>, Problem> {
    let refusal = match refusal(path, about) {
        Some(refusal) => Some(refusal),
        None if about.is_file() => folder_refusal(path).map_err(Problem::Read)?,
        None => None,
    };
    if let Some(refusal) = refusal {
        return Err(Problem::Exposed(refusal));
    }
    let is_exposed = others(about) == Others::Read && has_secret(document);
    Ok(is_exposed.then(|| {
        format!(
            "{} has secrets in it, and other users can read it: chmod 600, or keep the secrets in files of their own",
            path.display()
        )
    }))
}

/// Warnings about the files that secrets are kept in.
pub(super) fn of_secrets(document: &Node) -> Result<Vec<String>, Problem> {
    let mut warnings = Vec::new();
    for node in secret_files(document) {
        let Written::Text(path) = &node.written else { continue };
        // What cannot be read is told by whoever reads it.
        let Ok(about) = Path::new(path).metadata() else {
            continue;
        };
        if let Some(refusal) = secret_refusal(node, Path::new(path), &about) {
            return Err(node.problem(refusal));
        }
        if others(&about) == Others::Read {
            warnings.push(format!(
                "{path} ({}) is a secret that other users can read: chmod 600",
                node.path
            ));
        }
    }
    Ok(warnings)
}

/// Whether a secret stands in a file.
#[cfg(any(test, feature = "internals"))]
pub(super) fn names_files(document: &Node) -> bool {
    !secret_files(document).is_empty()
}

/// The places of `{ file = "PATH" }` and of the keys of certificates.
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
    let mut secrecies = HashMap::new();
    for section in &SECTIONS {
        collect((section.rows)(), &mut secrecies);
    }
    is_open(document, &secrecies)
}

/// How much of the values of keys of each name is a secret, wherever they stand.
fn collect(rows: Vec<Row>, secrecies: &mut HashMap<&'static str, Secrecy>) {
    for row in rows {
        let known = secrecies.entry(row.key).or_default();
        *known = row.facts.secrecy.max(*known);
        if let Some(inner) = row.facts.inner {
            collect(inner(), secrecies);
        }
    }
}

fn is_open(node: &Node, secrecies: &HashMap<&'static str, Secrecy>) -> bool {
    let is_text = |node: &Node| matches!(node.written, Written::Text(_));
    let has_password = |url: &str| url::Url::parse(url).is_ok_and(|url| url.password().is_some());
    let any_text = |node: &Node| is_text(node) || children(node).into_iter().any(is_text);
    let secrecy = |key: &String| secrecies.get(key.as_str()).copied().unwrap_or_default();
    node.entries().iter().any(|(key, value)| match secrecy(key) {
        Secrecy::Open => false,
        Secrecy::Password => value.text().is_ok_and(has_password),
        Secrecy::Values => children(value).into_iter().any(is_text),
        Secrecy::Whole => !matches!(value.written, Written::Table(_)) && any_text(value),
    }) || children(node).into_iter().any(|inside| is_open(inside, secrecies))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_owners_and_roots_and_nobody_elses() {
        const USER: u32 = 1000;
        for (mode, owner, expected) in [
            (0o600, USER, Others::Nothing),
            (0o640, USER, Others::Nothing),
            (0o640, ROOT, Others::Nothing),
            (0o644, ROOT, Others::Read),
            (0o604, USER, Others::Read),
            (0o620, USER, Others::Write),
            (0o602, ROOT, Others::Write),
            (0o600, 1001, Others::Own(1001)),
            (0o444, 1001, Others::Own(1001)),
        ] {
            assert_eq!(others_of(mode, owner, USER), expected, "{mode:o} of {owner}");
        }
        assert_eq!(
            others_of(0o600, USER, ROOT),
            Others::Own(USER),
            "root runs nobody's commands"
        );
    }

    #[test]
    fn the_superuser_reads_the_token_of_a_service_and_nothing_else_of_its_user() {
        let text =
            "[profile.service]\ndaemon = \"https://a\"\ntoken = { file = \"/a\" }\n[store]\nurl = { file = \"/b\" }";
        let document = Node::parse(text).unwrap();
        let files = secret_files(&document);
        let [token, url] = files.as_slice() else {
            panic!("{files:?}")
        };
        assert!(is_of_a_service(token, 0o600, ROOT));
        assert!(!is_of_a_service(token, 0o640, ROOT) && !is_of_a_service(token, 0o600, 1000));
        assert!(!is_of_a_service(url, 0o600, ROOT));
    }

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
            "[profile.p]\ndaemon = \"https://a\"\ntoken = \"a\"",
            "[[alert]]\nslack = \"https://a\"",
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
