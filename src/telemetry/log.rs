//! The log: to standard error or a file, for people or for programs.
//!
//! Text from outside has to be logged with `?`: the writer passes the control characters of a field
//! that is logged with `%`. Colours are left out for the same reason that times are UTC: a log is read
//! elsewhere.

use std::fs::File;
use std::io;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::TelemetryError;
use super::json::Objects;

/// What is logged when nobody says: our own information, and only warnings of what we are built of.
/// The AMQP client logs returned messages with their bodies, and as errors what is found and told here.
const FILTER_DEFAULT: &str = "warn,redrive=info";

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Where lines go.
#[derive(Debug, Default)]
pub enum LogTarget {
    /// Standard error.
    #[default]
    StandardError,
    /// A file; while the console has the terminal.
    File(File),
}

/// Sets the process's log. `filter` is in the syntax of `RUST_LOG`.
///
/// # Errors
/// A filter that cannot be read, or a log that is set already.
pub fn log_to(target: LogTarget, format: LogFormat, filter: Option<&str>) -> Result<(), TelemetryError> {
    let filter = parse(filter.unwrap_or(FILTER_DEFAULT))?;
    match target {
        LogTarget::StandardError => set(subscriber(io::stderr, format, filter)),
        LogTarget::File(file) => set(subscriber(Mutex::new(file), format, filter)),
    }
}

/// A word alone that is no level would be the name of a part that logs nothing, and all others would be silent.
fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    let is_plain = !filter.contains('[');
    let mut words = filter.split(',').map(str::trim).filter(|_| is_plain);
    let is_known =
        |word: &str| word.is_empty() || word.contains('=') || word == "redrive" || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words.find(|word| !is_known(word)) {
        return Err(TelemetryError::Level {
            filter: filter.to_owned(),
            word: word.to_owned(),
        });
    }
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| TelemetryError::Filter {
            filter: filter.to_owned(),
            source,
        })
}

type Subscriber = Box<dyn tracing::Subscriber + Send + Sync>;

fn subscriber<W>(writer: W, format: LogFormat, filter: EnvFilter) -> Subscriber
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        // A line that cannot be written is told to nobody: the way to tell it is standard error, whose failure is a panic
        // of whatever was logging. A full disk or a reader that is gone stops no delivery.
        .log_internal_errors(false)
        .with_env_filter(filter);
    match format {
        LogFormat::Human => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.event_format(Objects).finish()),
    }
}

fn set(subscriber: Subscriber) -> Result<(), TelemetryError> {
    tracing::subscriber::set_global_default(subscriber).map_err(|_| TelemetryError::Twice { what: "the log" })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    /// What one event with text from outside looks like.
    fn logged(format: LogFormat, filter: &str) -> String {
        let file = tempfile::tempfile().unwrap();
        let mut reader = file.try_clone().unwrap();
        let subscriber = subscriber(Mutex::new(file), format, parse(filter).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(name = ?"a\u{1b}[2J\r\nb", "constant");
            tracing::debug!("left out");
        });
        let mut text = String::new();
        reader.rewind().unwrap();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn text_from_outside_is_one_line_without_control_characters() {
        for format in [LogFormat::Human, LogFormat::Json] {
            let text = logged(format, "info");
            let line = text.strip_suffix('\n').unwrap();
            assert!(
                line.contains("constant") && !line.chars().any(char::is_control),
                "{line:?}"
            );
        }
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "info")).unwrap();
        assert_eq!(
            (&line["name"], &line["level"]),
            (&"a\u{1b}[2J\r\nb".into(), &"WARN".into())
        );
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        let error = parse("redrive=loud").unwrap_err().to_string();
        assert!(
            error.contains("redrive=loud") && error.contains("redrive=debug"),
            "{error}"
        );
        for filter in [
            FILTER_DEFAULT,
            "WARN",
            "off",
            "redrive",
            "redrive::engine=debug,sqlx=warn",
        ] {
            assert!(parse(filter).is_ok(), "{filter}");
        }
        for (filter, word) in [("warning", "warning"), ("info,verbose", "verbose")] {
            let error = parse(filter).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{word:?} is no level")) && error.contains("warn, info"),
                "{error}"
            );
        }
    }
}
