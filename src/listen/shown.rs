//! A request as text for people, or as one JSON object for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::domain::event::rfc3339;
use crate::domain::mask::{MASK, MaskRules};
use crate::domain::text::{show, show_bytes};
use crate::wire::set_out::set_out;
use crate::wire::{json, text_or_base64, time};

use super::answers::Answer;
use super::ledger::{Noted, Order};
use super::received::{Received, Signature};

/// Lines of a body that are shown to people.
const LINES_MAX: usize = 200;
/// Headers that are shown.
const HEADERS_MAX: usize = 100;
/// A line is at most this wide.
const WIDTH_MAX: usize = 1_000;
/// Set out, a body has at most this many bytes.
const SET_OUT_BYTES_MAX: usize = 1024 * 1024;
/// Before what goes on from the line above.
const INDENT: &str = "\n           ";

/// What is told of a request.
pub(super) fn told(request: &Received, noted: Noted, answer: Answer, is_json: bool) -> Vec<u8> {
    if is_json {
        let mut line = json::compact(&object(request, noted, answer));
        line.push(b'\n');
        return line;
    }
    text(request, noted, answer).into_bytes()
}

fn text(request: &Received, noted: Noted, answer: Answer) -> String {
    let mut text = format!(
        "#{} {} {} at {}, answered {}",
        noted.number,
        show(&request.method, WIDTH_MAX),
        show(&request.target, WIDTH_MAX),
        rfc3339(request.at),
        answer.status,
    );
    if !answer.delay.is_zero() {
        let _ = write!(text, " after {} ms", answer.delay.as_millis());
    }
    let mut line = |name: &str, value: &str| {
        let _ = write!(text, "\n{name:<9}  {value}");
    };
    if let Some(id) = &request.id_text {
        line("message", &format!("{}, {}", show(id, WIDTH_MAX), message(noted)));
    }
    if let (Some(place), Some(order)) = (&request.place, noted.order) {
        let queue = show(place.queue.as_str(), WIDTH_MAX);
        line(
            "queue",
            &format!("{queue}, {}", said(order, place.epoch, place.sequence)),
        );
    }
    if request.id_text.is_some() || request.signature != (Signature::NotChecked { is_there: false }) {
        line("signature", &request.said_of_signature());
    }
    let headers: Vec<String> = headers(request)
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    if !headers.is_empty() {
        line("headers", &headers.join(INDENT));
    }
    line("body", &body(request).join(INDENT));
    text.push_str("\n\n");
    text
}

fn message(noted: Noted) -> String {
    match noted.attempt {
        None => "which is no id of redrive's".to_owned(),
        Some(1) => "first time".to_owned(),
        Some(attempt) if noted.was_accepted => format!("repeated (attempt {attempt}) although it was accepted"),
        Some(attempt) => format!("repeated (attempt {attempt})"),
    }
}

fn said(order: Order, epoch: u64, sequence: u64) -> String {
    let place = format!("epoch {epoch}, sequence {sequence}");
    match order {
        Order::First => format!("the first of it here ({place})"),
        Order::Next => format!("in order ({place})"),
        Order::Again => format!("in order, the same message again ({place})"),
        Order::Returned => format!("in order, an earlier message again ({place})"),
        Order::Stale { newest } => {
            format!("OUT OF ORDER: {place} came after epoch {newest}; a receiver refuses a lower epoch")
        }
        Order::Overtaken { newest } => format!("OUT OF ORDER: {place} came after sequence {newest}"),
    }
}

/// Without the values of credentials.
fn headers(request: &Received) -> impl Iterator<Item = (String, String)> {
    let rules = MaskRules::usual();
    let shown = request.headers.iter().take(HEADERS_MAX);
    shown.map(move |(name, value)| {
        let value = if rules.hides_header(name) {
            MASK.to_owned()
        } else {
            show_bytes(value, WIDTH_MAX)
        };
        (show(name, WIDTH_MAX), value)
    })
}

fn body(request: &Received) -> Vec<String> {
    let mut lines = vec![format!("{} bytes", request.body_bytes)];
    let text = String::from_utf8_lossy(&request.body);
    let set_out = if request.is_cut() {
        None
    } else {
        set_out(&text, SET_OUT_BYTES_MAX)
    };
    let mut all = set_out.as_deref().unwrap_or(&text).lines();
    lines.extend(all.by_ref().take(LINES_MAX).map(|line| show(line, WIDTH_MAX)));
    if request.is_cut() || all.next().is_some() {
        lines.push("… and more, which is not shown".to_owned());
    }
    lines
}

fn object(request: &Received, noted: Noted, answer: Answer) -> Value {
    let mut text = text_or_base64(&request.body);
    if request.is_cut() {
        // Where it was cut may be inside a character.
        text = (Some(String::from_utf8_lossy(&request.body).into_owned()), None);
    }
    let as_json = text.0.as_deref().filter(|_| !request.is_cut());
    let as_json: Option<Value> = as_json.and_then(|text| serde_json::from_str(text).ok());
    let why = match &request.signature {
        Signature::Invalid(why) => Some(why),
        Signature::NotChecked { .. } | Signature::Valid | Signature::Absent => None,
    };
    let headers: Vec<(String, String)> = headers(request).collect();
    json!({
        "number": noted.number,
        "received_at": time(request.at),
        "method": request.method,
        "path": request.target,
        "id": request.id_text,
        "attempt": noted.attempt,
        "repeated": noted.attempt > Some(1),
        "accepted_before": noted.was_accepted,
        "queue": request.place.as_ref().map(|place| place.queue.as_str()),
        "epoch": request.place.as_ref().map(|place| place.epoch),
        "sequence": request.place.as_ref().map(|place| place.sequence),
        "order": noted.order.map(Order::name),
        "in_order": noted.order.map(Order::is_kept),
        "signature": request.signature.name(),
        "signature_problem": why,
        "headers": headers,
        "body": as_json.or_else(|| text.0.map(Value::from)),
        "body_base64": text.1,
        "body_bytes": request.body_bytes,
        "body_cut": request.is_cut(),
        "status": answer.status,
        "delay_s": answer.delay.as_secs_f64(),
    })
}
