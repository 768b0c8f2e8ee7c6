//! Secrets: written in place, in an environment variable, or in a file. They never show themselves.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use super::environment::Environment;
use super::error::Problem;
use super::exposed;
use super::tree::{Node, Place, Written};

/// What stands for a secret where the configuration is shown.
pub(super) const HIDDEN: &str = "***";

/// A file with a secret is read up to this many bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A secret that knows where it was written, for errors about it.
pub(super) struct Secret {
    pub(super) text: SecretString,
    place: Place,
}

impl Secret {
    /// The secret itself.
    pub(super) fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// Something is wrong with it; `problem` must not repeat it.
    pub(super) fn problem(&self, problem: impl Into<String>) -> Problem {
        self.place.problem(problem)
    }
}

/// A URL that may hold a password.
#[derive(Clone)]
pub struct SecretUrl {
    text: SecretString,
    shown: String,
}

impl SecretUrl {
    /// Keeps `url` with its password.
    pub(super) fn new(url: &url::Url) -> Self {
        let mut shown = url.clone();
        if shown.password().is_some() {
            // Fails only for URLs that cannot have one.
            let _ = shown.set_password(Some(HIDDEN));
        }
        if shown
            .query()
            .is_some_and(|query| query.contains("password") || query.contains("sslkey"))
        {
            shown.set_query(Some(HIDDEN));
        }
        Self {
            text: url.as_str().to_owned().into(),
            shown: shown.into(),
        }
    }

    /// The URL with its password.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// The URL without its password.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl std::fmt::Debug for SecretUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.shown, formatter)
    }
}

/// Whether an @ stands behind the host: a password with a sign that ends the host early (`http://user:77/word@host`) goes on
/// there, where it would be shown. The values of parameters of these names may have one.
pub(super) fn has_stray_login(url: &url::Url, takes_an_at: impl Fn(&str) -> bool) -> bool {
    let is_parameter = |pair: &str| pair.split_once('=').is_some_and(|(key, _)| takes_an_at(key));
    let mut pairs = url.query().unwrap_or_default().split('&');
    url.path().contains('@')
        || url.fragment().is_some_and(|fragment| fragment.contains('@'))
        || pairs.any(|pair| pair.contains('@') && !is_parameter(pair))
}

/// The secret that `node` is or points to. The line end of a file does not belong to it.
pub(super) fn read(node: &Node, environment: &Environment) -> Result<Secret, Problem> {
    let secret = |text: String| Secret {
        text: text.into(),
        place: node.place(),
    };
    let missing = |problem: String| Problem::Secret {
        field: node.path.clone(),
        line: node.line,
        problem,
    };
    match (&node.written, node.entries()) {
        (Written::Text(text), _) => Ok(secret(text.clone())),
        (_, [(key, place)]) if key == "env" => match (environment.variable(text(place)?), text(place)?) {
            (Some(value), _) => Ok(secret(value.to_owned())),
            (None, name) => Err(missing(format!(
                "needs the environment variable {name:?}, which is not set"
            ))),
        },
        (_, [(key, place)]) if key == "file" => {
            let path = text(place)?;
            let unreadable = |error| missing(format!("cannot be read from file {path:?}: {error}"));
            let file = std::fs::File::open(path).map_err(unreadable)?;
            let about = file.metadata().map_err(unreadable)?;
            if let Some(refusal) = exposed::secret_refusal(place, Path::new(path), &about) {
                return Err(place.problem(refusal));
            }
            let content = read_file(&file).map_err(unreadable)?;
            Ok(secret(content.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (other, _) => Err(node.problem(format!(
            "is {}, and must be a string, {{ env = \"NAME\" }} or {{ file = \"PATH\" }}",
            other.kind()
        ))),
    }
}

fn read_file(file: &std::fs::File) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn text(node: &Node) -> Result<&str, Problem> {
    if let Written::Text(text) = &node.written
        && !text.is_empty()
    {
        return Ok(text);
    }
    let kind = node.written.kind();
    Err(node.problem(format!("is {kind}, and must be a string that is not empty")))
}
