//! Handlers: what is done with one event, and what that means for it. The meaning of a program's end is one pure
//! function.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::command::{End, Program, Ran};
use crate::domain::event::{Event, HandlingRules, check_due, due_time, next_change_reason, rfc3339};
use crate::domain::text::show;
use crate::domain::time::Timestamp;
use crate::store::Verdict;

/// An answer has at most this many bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// What of it becomes the text of an error.
const ERROR_BYTES_MAX: usize = 2048;
/// Cells of a name that an answer has by mistake.
const NAME_WIDTH_MAX: usize = 60;
/// So long after the system had no room for a program it is tried again.
const NO_ROOM: Duration = Duration::from_secs(5);
/// Before an event is handled again for which a time was asked that came meanwhile.
const SOON: Duration = Duration::from_secs(1);
/// `EX_TEMPFAIL`: later.
const LATER: i32 = 75;

/// Handles events of a type, for those who embed the library. It runs under a lease, outside of any transaction;
/// an event may come twice when a process dies in between.
#[async_trait]
pub trait EventHandler: Send + Sync {
    /// Handles one event; dropped when its lease is lost or its time is up. A panic is a failure of the event.
    async fn handle(&self, event: &Event) -> Handled;
}

/// When an event was handled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) begun: Timestamp,
    pub(super) ended: Timestamp,
}

/// What a handler came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Done.
    Done,
    /// Done for now; again at this time, for this reason.
    Requeue(Timestamp, String),
    /// It failed, with this error.
    Failed(String),
}

/// What is done with the events of a type.
#[derive(Clone)]
pub(super) enum Action {
    Command(Arc<HandlerProgram>),
    Webhook,
    Embedded(Arc<dyn EventHandler>),
}

/// A handler's program.
#[derive(Debug)]
pub(super) struct HandlerProgram {
    pub(super) command: Vec<String>,
    pub(super) directory: Option<PathBuf>,
}

/// Runs a program on an event.
pub(super) async fn run_command(
    handler: &HandlerProgram,
    event: &Event,
    time: Duration,
    stop: &CancellationToken,
) -> Ran {
    let program = Program {
        command: handler.command.clone(),
        directory: handler.directory.clone(),
        variables: vec![
            ("REDRIVE_EVENT_ID".to_owned(), event.id.to_string()),
            ("REDRIVE_EVENT_TYPE".to_owned(), event.event_type.as_str().to_owned()),
            (
                "REDRIVE_EVENT_REFERENCE".to_owned(),
                event.reference.as_str().to_owned(),
            ),
        ],
        time,
        // One byte more tells that there was more.
        output_bytes_max: ANSWER_BYTES_MAX + 1,
    };
    program.run(input(event), stop).await
}

/// An event as a program reads it.
#[derive(Serialize)]
struct Input<'a> {
    id: i64,
    r#type: &'a str,
    subtype: &'a str,
    reference: &'a str,
    nbf: String,
    created_at: String,
    attempts: u32,
    reason: Option<&'a str>,
    revision: i64,
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// The payload stands in it as it was pushed, when it is JSON.
fn input(event: &Event) -> Vec<u8> {
    let payload = event.payload.as_deref();
    let json: Option<&RawValue> = payload.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let input = Input {
        id: event.id,
        r#type: event.event_type.as_str(),
        subtype: event.subtype.as_str(),
        reference: event.reference.as_str(),
        nbf: rfc3339(event.nbf),
        created_at: rfc3339(event.created_at),
        attempts: event.attempts,
        reason: event.reason.as_deref(),
        revision: event.revision,
        payload_base64: payload.filter(|_| json.is_none()).map(|bytes| STANDARD.encode(bytes)),
        payload: json,
    };
    serde_json::to_vec(&input).unwrap_or_default()
}

/// What a program may say on its standard output.
struct Answer {
    requeue_at: Option<Timestamp>,
    reason: Option<String>,
}

impl Answer {
    /// Output that is no JSON object, and has none as its last line, says nothing; a time that cannot be read is an error. So is a name that was
    /// surely meant as `requeue_at`, and an object of which the end is missing: the event would be gone.
    fn read(output: &[u8]) -> Result<Self, String> {
        if output.len() > ANSWER_BYTES_MAX && is_cut_within_an_object(output) {
            return Err(format!("the answer has more than {} KiB", ANSWER_BYTES_MAX / 1024));
        }
        let json = object_in(output);
        let mut names = json.as_object().into_iter().flat_map(serde_json::Map::keys);
        if let Some(name) = names.find(|name| *name != "requeue_at" && name.to_lowercase().starts_with("requeue")) {
            let name = show(name, NAME_WIDTH_MAX);
            return Err(format!("the answer has {name}, which is none of requeue_at and reason"));
        }
        let requeue_at = match &json["requeue_at"] {
            serde_json::Value::Null if asks_for_a_time(output) => {
                return Err(
                    "the answer asks for a time, and is not one JSON object with requeue_at: print it on a line of its own, \
                     the last one"
                        .to_owned(),
                );
            }
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(due_time(text)),
            other @ (serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_)) => Some(due_time(&other.to_string())),
        };
        let requeue_at = requeue_at
            .transpose()
            .map_err(|_| "the answer's requeue_at is not a time".to_owned())?;
        Ok(Self {
            requeue_at,
            reason: json["reason"].as_str().map(str::to_owned),
        })
    }
}

impl Answer {
    /// It asks for no time at which nobody would be there to handle the event.
    fn within(self, now: Timestamp) -> Result<Self, String> {
        match self.requeue_at {
            Some(at) => is_within(at, now).map(|()| self),
            None => Ok(self),
        }
    }
}

/// What is over is a time to come, in a moment.
fn is_within(at: Timestamp, now: Timestamp) -> Result<(), String> {
    check_due("requeue_at", at.max(now), now).map_err(|error| format!("the answer's {error}"))
}

/// The object that the output is, or its last line.
fn object_in(output: &[u8]) -> serde_json::Value {
    let object = |text| serde_json::from_slice(text).ok().filter(serde_json::Value::is_object);
    let last_line = || output.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    object(output).or_else(|| object(last_line()?)).unwrap_or_default()
}

/// Whether a key that begins with `requeue` and has a value stands anywhere in it, in any encoding that a program may use.
fn asks_for_a_time(output: &[u8]) -> bool {
    let text: Vec<u8> = output.iter().filter(|byte| **byte != 0).copied().collect();
    let text = String::from_utf8_lossy(&text).to_lowercase();
    text.split("\"requeue").skip(1).any(|rest| {
        let end = rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter));
        let value = end
            .strip_prefix('"')
            .and_then(|after| after.trim_start().strip_prefix(':'));
        value.is_some_and(|value| !value.trim_start().starts_with("null"))
    })
}

/// Whether the output begins with an object that has no end in it. Lines of which each is JSON are none.
fn is_cut_within_an_object(output: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(output).into_iter::<IgnoredAny>();
    output.trim_ascii_start().starts_with(b"{") && matches!(values.next(), Some(Err(error)) if error.is_eof())
}

/// 1. Exit 0 is done, or done for now when the answer asks for another time.
/// 2. Exit 75 is later: at the time that is asked for, or after the first delay of the backoff. So is a time that is over.
/// 3. A program that we stopped was not tried, whatever it said before.
/// 4. One for which the system had no room was not tried either: again in a moment.
/// 5. Everything else failed, with what it said as the error.
pub(super) fn verdict_of(ran: &Ran, event: &Event, rules: &HandlingRules, times: Times) -> Verdict {
    let now = times.ended;
    match &ran.end {
        End::Exited(code @ (0 | LATER)) => match Answer::read(&ran.output).and_then(|answer| answer.within(now)) {
            Ok(answer) => verdict_of_answer(*code, &answer, rules, times),
            Err(error) => failed(&error, event, rules, now),
        },
        End::Stopped => Verdict::Release,
        End::Exited(code) => failed(&format!("exit {code}: {}", said(ran)), event, rules, now),
        End::Signalled(signal) => failed(&format!("signal {signal}: {}", said(ran)), event, rules, now),
        End::TimedOut => failed(&format!("timeout: {}", said(ran)), event, rules, now),
        End::NotStarted(why) => failed(why, event, rules, now),
        // It is not the event's fault.
        End::NoRoom(why) => Verdict::Requeue {
            at: now.plus(NO_ROOM),
            reason: next_change_reason(why),
        },
    }
}

/// Of a program that did what it should, or wants to be asked later.
fn verdict_of_answer(code: i32, answer: &Answer, rules: &HandlingRules, times: Times) -> Verdict {
    let reason = answer.reason.as_deref();
    match (code, answer.requeue_at) {
        (_, Some(at)) => {
            let said = if is_over(at, times) {
                "the time that its handler asked for was over"
            } else {
                "asked for by its handler"
            };
            Verdict::Requeue {
                at: to_come(at, rules, times),
                reason: next_change_reason(reason.unwrap_or(said)),
            }
        }
        (LATER, None) => Verdict::Requeue {
            at: times.ended.plus(rules.backoff.base),
            reason: next_change_reason(reason.unwrap_or("its handler said later")),
        },
        (_, None) => Verdict::Done(Vec::new()),
    }
}

/// When an event is handled again of which its handler asks for this time. At a time that is over it would be handled
/// without a pause, for as long as its handler asks for that; one that was still to come when the handler began is meant.
fn to_come(at: Timestamp, rules: &HandlingRules, times: Times) -> Timestamp {
    if at > times.ended {
        at
    } else if is_over(at, times) {
        times.ended.plus(rules.backoff.base)
    } else {
        times.ended.plus(SOON)
    }
}

/// Whether a time was over before the handler began. Many handlers know the time in whole seconds: the second in which
/// it began was not over.
fn is_over(at: Timestamp, times: Times) -> bool {
    at <= times.begun && at != Timestamp::from_seconds(times.begun.seconds())
}

/// What an embedded handler came to.
pub(super) fn verdict_of_handled(handled: Handled, event: &Event, rules: &HandlingRules, times: Times) -> Verdict {
    match handled {
        Handled::Done => Verdict::Done(Vec::new()),
        Handled::Requeue(at, reason) => match is_within(at, times.ended) {
            Ok(()) => Verdict::Requeue {
                at: to_come(at, rules, times),
                reason: next_change_reason(&reason),
            },
            Err(error) => failed(&error, event, rules, times.ended),
        },
        Handled::Failed(error) => failed(&error, event, rules, times.ended),
    }
}

/// What a handler in this process said when it panicked.
pub(super) fn panicked(said: &(dyn std::any::Any + Send)) -> String {
    let text = said.downcast_ref::<&str>().copied();
    let text = text.or_else(|| said.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or_default();
    let end = text.floor_char_boundary(ERROR_BYTES_MAX);
    format!("panic: {}", text.get(..end).unwrap_or_default())
}

/// The end of a failed attempt.
pub(super) fn failed(error: &str, event: &Event, rules: &HandlingRules, now: Timestamp) -> Verdict {
    rules.after_failure(event.attempts, error.trim(), now).into()
}

/// The end of its standard error, or of its output when that is empty.
fn said(ran: &Ran) -> String {
    let bytes = if ran.errors.trim_ascii().is_empty() {
        &ran.output
    } else {
        &ran.errors
    };
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let start = text.ceil_char_boundary(text.len().saturating_sub(ERROR_BYTES_MAX));
    text.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::{Backoff, fixture};

    fn verdict(end: End, output: &str, errors: &str) -> Verdict {
        let ran = Ran {
            end,
            output: output.into(),
            errors: errors.into(),
        };
        let backoff = Backoff {
            base: Duration::from_secs(10),
            cap: Duration::from_secs(10),
        };
        let rules = HandlingRules { cutoff: 5, backoff };
        let times = Times {
            begun: Timestamp::from_micros(90_400_000),
            ended: Timestamp::from_seconds(100),
        };
        verdict_of(&ran, &fixture::event(1), &rules, times)
    }

    #[test]
    fn an_answer_counts_only_of_a_program_that_ended_by_itself_and_well() {
        let nonsense = r#"{"requeue_at": "soon"}"#;
        assert_eq!(
            verdict(End::Stopped, nonsense, ""),
            Verdict::Release,
            "it was not tried"
        );
        let error = |end, part: &str| {
            let verdict = verdict(end, nonsense, "no luck");
            let Verdict::Retry {
                attempts: 1, reason, ..
            } = &verdict
            else {
                panic!("{verdict:?}")
            };
            assert!(reason.contains(part), "{reason}");
        };
        let no_room = verdict(End::NoRoom("no process".to_owned()), "", "");
        assert!(
            matches!(&no_room, Verdict::Requeue { at, .. } if *at == Timestamp::from_seconds(105)),
            "{no_room:?}"
        );
        error(End::Exited(1), "exit 1: no luck");
        error(End::TimedOut, "timeout: no luck");
        error(End::Exited(0), "requeue_at is not a time");
        let never = verdict(End::Exited(0), r#"{"requeue_at": 999999999999}"#, "");
        let Verdict::Retry { reason, .. } = &never else {
            panic!("{never:?}")
        };
        assert!(reason.contains("requeue_at must be within a hundred years"), "{reason}");
        let at = r#"{"requeue_at": 200, "reason": "then"}"#;
        for end in [End::Exited(0), End::Exited(LATER)] {
            let asked = Verdict::Requeue {
                at: Timestamp::from_seconds(200),
                reason: next_change_reason("then"),
            };
            assert_eq!(verdict(end, at, ""), asked);
        }
        let done = [
            "",
            "ok",
            r#"{"requeue_at": null}"#,
            r#"{"rows": 3, "reason": "x"}"#,
            r#"["requeue"]"#,
        ];
        for output in done {
            assert_eq!(
                verdict(End::Exited(0), output, ""),
                Verdict::Done(Vec::new()),
                "{output}"
            );
        }
    }

    #[test]
    fn an_answer_that_asks_by_a_wrong_name_for_another_time_is_a_failure_and_not_done() {
        for name in ["requeue", "requeueAt", "requeue-at", "Requeue_At", "requeue_in"] {
            let answer = format!(r#"{{"{name}": 200}}"#);
            let Verdict::Retry { reason, .. } = verdict(End::Exited(0), &answer, "") else {
                panic!("{name} is no failure")
            };
            assert!(
                reason.contains(&format!(
                    "the answer has {name}, which is none of requeue_at and reason"
                )),
                "{reason}"
            );
        }
    }

    #[test]
    fn an_answer_is_the_last_line_and_one_that_asks_for_a_time_otherwise_is_a_failure() {
        let asks = r#"{"requeue_at": 1893456000}"#;
        for output in [
            format!("importing 3 rows\n{asks}\n"),
            format!("{{\"level\": 1}}\n{asks}"),
        ] {
            let found = verdict(End::Exited(0), &output, "");
            assert!(matches!(found, Verdict::Requeue { .. }), "{output}");
        }
        let wide: String = asks.chars().flat_map(|letter| [letter, '\0']).collect();
        let others = [
            format!("{asks}\n3 rows"),
            format!("[{asks}]"),
            format!(r#"{{"result": {asks}}}"#),
            format!("\u{feff}{asks}"),
            r#"{"requeue_at": 1893456000, "rea"#.to_owned(),
            wide,
        ];
        for output in others {
            let Verdict::Retry { reason, .. } = verdict(End::Exited(0), &output, "") else {
                panic!("the event would be gone: {output}")
            };
            assert!(reason.contains("on a line of its own"), "{reason}");
        }
        for output in [r#"{"requeue_at": null}"#, r#"told "requeue" nothing"#, "3 rows"] {
            assert_eq!(
                verdict(End::Exited(0), output, ""),
                Verdict::Done(Vec::new()),
                "{output}"
            );
        }
    }

    #[test]
    fn an_answer_of_which_the_end_is_missing_is_a_failure_and_not_done() {
        let log = "x".repeat(ANSWER_BYTES_MAX);
        let answer = format!(r#" {{"requeue_at": 200, "log": "{log}"}}"#);
        let kept = &answer[..=ANSWER_BYTES_MAX];
        let Verdict::Retry { reason, .. } = verdict(End::Exited(0), kept, "") else {
            panic!("the event would be gone")
        };
        assert!(reason.contains("the answer has more than 64 KiB"), "{reason}");
        for other in [format!("{{}}\n{{\"log\": \"{log}"), format!("{{ {log}"), log] {
            let done = verdict(End::Exited(0), &other, "");
            assert_eq!(done, Verdict::Done(Vec::new()), "{other:.20}");
        }
    }

    #[test]
    fn a_time_that_is_over_is_after_the_first_delay_and_not_at_once() {
        for (code, at, expected) in [
            (0, 89, 110),
            (LATER, 5, 110),
            (0, 90, 101),
            (LATER, 90, 101),
            (0, 91, 101),
            (LATER, 100, 101),
            (0, 109, 109),
        ] {
            let answer = format!(r#"{{"requeue_at": {at}}}"#);
            let Verdict::Requeue { at, reason } = verdict(End::Exited(code), &answer, "") else {
                panic!("{answer}")
            };
            assert_eq!(at, Timestamp::from_seconds(expected), "{answer}");
            assert_eq!(reason.contains("was over"), expected == 110, "{answer}: {reason}");
        }
    }

    #[test]
    fn what_a_panic_said_is_its_error_in_bounds() {
        assert_eq!(panicked(&"no luck"), "panic: no luck");
        assert_eq!(
            panicked(&"é".repeat(ERROR_BYTES_MAX)).len(),
            "panic: ".len() + ERROR_BYTES_MAX
        );
        assert_eq!(panicked(&7), "panic: ");
    }
}
