//! A place of the console as a word: what an alert ends with, and what `--at` opens.
//!
//! ```text
//! queue/redrive.order-18.9bbb34aa…    endpoint/https://stock.example/changed    run/01a1…    letter/3efb…    event/17
//! dead_letters
//! ```

use crate::console::state::View;
use crate::domain::id::QueueName;
use crate::domain::nearest::nearest;
use crate::domain::text::show;

/// What was written is shown at most this wide.
const SHOWN_MAX: usize = 80;
/// Kinds of rows that have a place.
const KINDS: [&str; 5] = ["queue", "endpoint", "run", "letter", "event"];

/// A place of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// A view.
    View(View),
    /// A queue.
    Queue(QueueName),
    /// An endpoint, by its URL or by what is shown of it.
    Endpoint(String),
    /// A run, by its id.
    Run(String),
    /// A dead letter, by its id.
    Letter(String),
    /// An event, by its id.
    Event(i64),
}

impl At {
    /// Reads a place.
    ///
    /// # Errors
    /// What is wrong with it, and what may be written. Safe to show.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((kind, name)) = text.split_once('/') else {
            return Self::view(text);
        };
        let bad = |why: &str| format!("{:?} {why}", show(text, SHOWN_MAX));
        if name.is_empty() {
            return Err(bad("names nothing behind the slash"));
        }
        match kind {
            "queue" => QueueName::parse(name)
                .map(Self::Queue)
                .map_err(|_| bad("names no queue that can exist")),
            "endpoint" => Ok(Self::Endpoint(name.to_owned())),
            "run" => Ok(Self::Run(name.to_owned())),
            "letter" => Ok(Self::Letter(name.to_owned())),
            "event" => name
                .parse()
                .map(Self::Event)
                .map_err(|_| bad("has no number for its event")),
            _ => Err(bad(&format!(
                "is no place: write {}, or a view such as queues",
                KINDS.map(|kind| format!("{kind}/…")).join(", ")
            ))),
        }
    }

    fn view(text: &str) -> Result<Self, String> {
        let name = |view: View| view.screen().about().go.name;
        if let Some(view) = View::ALL.into_iter().find(|view| name(*view) == text) {
            return Ok(Self::View(view));
        }
        let names = View::ALL.map(name);
        let meant = nearest(text, names).map_or_else(String::new, |near| format!("; {near} is one"));
        let kinds = KINDS.map(|kind| format!("{kind}/…")).join(", ");
        Err(format!(
            "{:?} is no place: write {kinds}, or a view{meant}",
            show(text, SHOWN_MAX)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_view_or_one_row_of_it() {
        let url = "https://stock.example/changed?a=b/c";
        let endpoint = format!("endpoint/{url}");
        for (text, at) in [
            ("dead_letters", At::View(View::Dead)),
            ("queue/redrive.a", At::Queue(QueueName::parse("redrive.a").unwrap())),
            (endpoint.as_str(), At::Endpoint(url.to_owned())),
            ("run/r-1", At::Run("r-1".to_owned())),
            ("letter/abc", At::Letter("abc".to_owned())),
            ("event/17", At::Event(17)),
        ] {
            assert_eq!(At::parse(text), Ok(at), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_told_what_one_is() {
        for (text, says) in [
            ("queuse", "queues is one"),
            ("queue/", "behind the slash"),
            ("event/x", "number"),
            ("moon/1", "queue/…"),
            ("\u{1b}[2J", "no place"),
        ] {
            let why = At::parse(text).unwrap_err();
            assert!(why.contains(says) && !why.contains('\u{1b}'), "{why}");
        }
    }
}
