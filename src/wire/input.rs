//! What both fronts read: names, URLs and numbers, with the field that is wrong.

use std::time::Duration;

use crate::domain::id::{ExecutionId, IdError, NotificationId, QueueName};
use crate::domain::job::JobId;
use crate::domain::text::show;
use crate::domain::time;
use crate::domain::url::{EndpointUrl, UrlError};

use super::problem::Problem;

/// A list answers at most this many items at once.
pub const LIMIT_MAX: u32 = 1_000;
/// A span that is none is told so wide, at most.
const SPAN_WIDTH_MAX: usize = 40;

/// The URL of an endpoint.
pub fn url(text: &str) -> Result<EndpointUrl, Problem> {
    EndpointUrl::parse(text).map_err(|error: UrlError| Problem::field("url", error.to_string()))
}

/// An execution's id.
pub fn execution(text: &str) -> Result<ExecutionId, Problem> {
    ExecutionId::parse(text).map_err(|error| id_problem(&error))
}

/// A notification's id.
pub fn id(text: &str) -> Result<NotificationId, Problem> {
    NotificationId::parse(text).map_err(|error| id_problem(&error))
}

/// The same, where it is called so.
pub fn message_id(text: &str) -> Result<NotificationId, Problem> {
    id(text).map_err(|problem| problem.named("message_id"))
}

/// A queue's name.
pub fn queue(text: &str) -> Result<QueueName, Problem> {
    QueueName::parse(text).map_err(|error| id_problem(&error))
}

/// The id of a job.
pub fn job(text: &str) -> Result<JobId, Problem> {
    JobId::parse(text).map_err(|error| Problem::field(error.field, error.to_string()))
}

fn id_problem(error: &IdError) -> Problem {
    Problem::field(error.field, error.to_string())
}

/// A span with its unit: `30m`, `8h`, `2d`.
pub fn span(field: &str, text: &str) -> Result<Duration, Problem> {
    time::span(text).ok_or_else(|| {
        let is = show(text, SPAN_WIDTH_MAX);
        Problem::field(
            field,
            format!("{field} is {is:?}, and must be a span such as 30m, 8h or 2d"),
        )
    })
}

/// Takes `Content-Type` out of a list of request headers (the last one counts).
pub fn take_content_type(headers: &mut Vec<(String, String)>) -> Option<String> {
    let mut content_type = None;
    headers.retain_mut(|(name, value)| {
        let found = name.eq_ignore_ascii_case("content-type");
        if found {
            content_type = Some(std::mem::take(value));
        }
        !found
    });
    content_type
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit() {
        assert_eq!(span("since", "8h"), Ok(Duration::from_hours(8)));
        assert_eq!(span("since", "2d"), Ok(Duration::from_hours(48)));
        for wrong in ["", "8", "h", "8 h", "-1h", "99999999999999999999d", "1w"] {
            assert!(span("since", wrong).unwrap_err().detail.contains("8h"), "{wrong}");
        }
    }

    #[test]
    fn the_content_type_is_taken_out_in_any_case_of_letters() {
        let mut headers = vec![
            ("A".to_owned(), "b".to_owned()),
            ("cOntent-Type".to_owned(), "text/plain".to_owned()),
        ];
        assert_eq!(take_content_type(&mut headers).as_deref(), Some("text/plain"));
        assert_eq!(headers, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(take_content_type(&mut headers), None);
    }
}
