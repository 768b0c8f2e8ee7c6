//! What is different between two bodies, for people: values by their places where both are JSON, else lines.

use serde_json::Value;

use super::edit::cut;
use crate::engine::command::PlanLine;
use crate::engine::dead::comparison;

/// Differences that are told one by one; more are counted.
const DIFFERENCES_MAX: usize = 200;
/// What of a value is not there.
const ABSENT: &str = "absent";
const REMOVED: &str = "removed";

/// A line for each difference; none where the bodies are equal.
pub(super) fn of_bodies(before: &[u8], after: &[u8]) -> Vec<PlanLine> {
    if before == after {
        return Vec::new();
    }
    let mut found = Differences::default();
    match (serde_json::from_slice(before), serde_json::from_slice(after)) {
        (Ok(before), Ok(after)) => found.values("body", &before, &after),
        _ => {
            if let (Ok(before), Ok(after)) = (std::str::from_utf8(before), std::str::from_utf8(after)) {
                found.lines_of(before, after);
            }
        }
    }
    if found.lines.is_empty() {
        let size = |body: &[u8]| format!("{} bytes", body.len());
        found.add(
            "body".to_owned(),
            Some(size(before)),
            Some(format!("{}, written otherwise", size(after))),
        );
    }
    if found.more > 0 {
        let text = format!("{} more differences", found.more);
        found.lines.push(PlanLine {
            target: "body".to_owned(),
            now: "…".to_owned(),
            effect: text,
        });
    }
    found.lines
}

#[derive(Default)]
struct Differences {
    lines: Vec<PlanLine>,
    more: usize,
}

impl Differences {
    fn add(&mut self, target: String, now: Option<String>, then: Option<String>) {
        if self.lines.len() == DIFFERENCES_MAX {
            self.more += 1;
            return;
        }
        self.lines.push(PlanLine {
            target,
            now: now.map_or_else(|| ABSENT.to_owned(), |text| cut(&text)),
            effect: then.map_or_else(|| REMOVED.to_owned(), |text| cut(&text)),
        });
    }

    /// `place`: `body`, then a JSON pointer. As deep as the reader of JSON goes, which is bounded.
    fn values(&mut self, place: &str, before: &Value, after: &Value) {
        let below = |key: &str| comparison::below(place, key);
        let text = |value: Option<&Value>| value.map(Value::to_string);
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => {
                for (key, value) in before {
                    match after.get(key) {
                        Some(then) => self.values(&below(key), value, then),
                        None => self.add(below(key), text(Some(value)), None),
                    }
                }
                for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                    self.add(below(key), None, text(Some(value)));
                }
            }
            (Value::Array(before), Value::Array(after)) => {
                for at in 0..before.len().max(after.len()) {
                    let place = below(&at.to_string());
                    match (before.get(at), after.get(at)) {
                        (Some(value), Some(then)) => self.values(&place, value, then),
                        (value, then) => self.add(place, text(value), text(then)),
                    }
                }
            }
            (before, after) if before != after => self.add(place.to_owned(), text(Some(before)), text(Some(after))),
            _ => {}
        }
    }

    /// Lines between those that are equal at the beginning and at the end.
    fn lines_of(&mut self, before: &str, after: &str) {
        let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
        let same = |(one, other): &(&&str, &&str)| one == other;
        let begin = before.iter().zip(&after).take_while(same).count();
        let (before, after) = (&before[begin..], &after[begin..]);
        let end = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
        let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
        for at in 0..before.len().max(after.len()) {
            let line = |lines: &[&str]| lines.get(at).map(|line| (*line).to_owned());
            self.add(format!("body line {}", begin + at + 1), line(before), line(after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &[(&str, &str, &str)]) {
        let found = of_bodies(before.as_bytes(), after.as_bytes());
        let found: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|line| (line.target.as_str(), line.now.as_str(), line.effect.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn values_are_told_by_their_places() {
        check(
            r#"{"currency":"XXX","lines":[{"sku":"A","count":2}],"old":1,"same":[1,2]}"#,
            r#"{"currency":"EUR","lines":[{"sku":"A","count":3},{"sku":"B"}],"same":[1,2],"a/b":null}"#,
            &[
                ("body /currency", "\"XXX\"", "\"EUR\""),
                ("body /lines/0/count", "2", "3"),
                ("body /lines/1", "absent", "{\"sku\":\"B\"}"),
                ("body /old", "1", "removed"),
                ("body /a~1b", "absent", "null"),
            ],
        );
        check("1", "4711", &[("body", "1", "4711")]);
        check(
            "{\"a\":1}",
            "{ \"a\": 1 }",
            &[("body", "7 bytes", "10 bytes, written otherwise")],
        );
        check("{}", "{}", &[]);
    }

    #[test]
    fn of_a_text_the_lines_between_those_that_are_equal() {
        check(
            "a\nb\nc\nd",
            "a\nB\nd",
            &[("body line 2", "b", "B"), ("body line 3", "c", "removed")],
        );
        check("a", "a\nb", &[("body line 2", "absent", "b")]);
        let found = of_bodies(b"\xff", b"\xff\x00");
        assert_eq!(found[0].effect, "2 bytes, written otherwise");
    }

    #[test]
    fn very_many_differences_are_counted() {
        let (before, after) = ("a\n".repeat(1_000), "b\n".repeat(1_000));
        let found = of_bodies(before.as_bytes(), after.as_bytes());
        assert_eq!(found.len(), DIFFERENCES_MAX + 1);
        assert_eq!(found[DIFFERENCES_MAX].effect, "800 more differences");
    }
}
