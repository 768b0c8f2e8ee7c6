//! A patch of JSON (RFC 6902) and a body that it is applied to.
//!
//! A body is read and written anew, so what reading cannot keep is refused instead of changed by the way: a number with
//! more digits than a program's number has. Space, and the order of the keys of an object, are not kept.

use json_patch::PatchErrorKind;
use serde_json::Value;

use crate::domain::text::show;

/// Significant digits of a number with a fraction or an exponent that are kept for sure.
const DIGITS_MAX: usize = 15;
/// Operations of one patch.
const OPERATIONS_MAX: usize = 1_000;
/// Cells of what is quoted from outside.
const QUOTED_MAX: usize = 60;

/// Operations on a JSON body, in their order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct JsonPatch(json_patch::Patch);

/// Why a patch does not apply to a letter.
#[derive(Debug, PartialEq, Eq)]
pub struct NotPatched {
    /// For people.
    pub why: String,
    /// Whether a test of the patch says that the letter is not meant.
    pub is_test: bool,
}

impl NotPatched {
    pub(in crate::engine) const fn refused(why: String) -> Self {
        Self { why, is_test: false }
    }
}

impl JsonPatch {
    /// Reads the document of a patch: an array of `{"op": …, "path": …, "value": …}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let patch: json_patch::Patch = serde_json::from_str(text).map_err(|error| {
            format!(
                "it is no JSON patch (RFC 6902), for example [{{\"op\": \"replace\", \"path\": \"/currency\", \"value\": \
                 \"EUR\"}}]: {error}"
            )
        })?;
        match patch.0.len() {
            0 => Err("the patch has no operations".to_owned()),
            1..=OPERATIONS_MAX => Ok(Self(patch)),
            many => Err(format!(
                "the patch has {many} operations, and at most {OPERATIONS_MAX} are possible"
            )),
        }
    }

    /// The body as the patch makes it.
    ///
    /// # Errors
    /// Why it does not apply: nothing of it is done then.
    pub fn apply(&self, body: &[u8]) -> Result<Vec<u8>, NotPatched> {
        let no_json = || NotPatched::refused("its body is no JSON".to_owned());
        let text = std::str::from_utf8(body).map_err(|_| no_json())?;
        let mut value: Value = serde_json::from_str(text).map_err(|_| no_json())?;
        if let Some(number) = numbers(text).find(|number| !is_kept(number)) {
            let number = show(number, QUOTED_MAX);
            let why = format!("its body has the number {number}, which would not be kept");
            return Err(NotPatched::refused(why));
        }
        json_patch::patch(&mut value, &self.0).map_err(|error| {
            let place = show(error.path.as_str(), QUOTED_MAX);
            let is_test = matches!(error.kind, PatchErrorKind::TestFailed);
            let why = if is_test {
                format!("the test at {place:?} fails")
            } else if matches!(error.kind, PatchErrorKind::InvalidPointer) {
                format!("there is nothing at {place:?}")
            } else {
                format!("operation {} does not apply at {place:?}", error.operation + 1)
            };
            NotPatched { why, is_test }
        })?;
        serde_json::to_vec(&value).map_err(|error| NotPatched::refused(format!("it cannot be written: {error}")))
    }
}

/// The numbers of a JSON text, as they are written.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let begin = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = rest.get(begin..)?;
            if rest.starts_with('"') {
                rest = rest.get(string_end(rest)..)?;
                continue;
            }
            let is_of_number = |c: char| matches!(c, '-' | '+' | '.' | 'e' | 'E') || c.is_ascii_digit();
            let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            rest = behind;
            return Some(number);
        }
    })
}

/// Where the string that the text begins with ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a number is the same after it was read and written.
fn is_kept(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return number != "-0";
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let significant = digits.trim_start_matches('0').len();
    significant <= DIGITS_MAX && number.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(patch: &str, body: &str) -> Result<String, String> {
        let patch = JsonPatch::parse(patch).unwrap();
        let body = patch.apply(body.as_bytes()).map_err(|not| not.why)?;
        Ok(String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_where_it_does_not_apply() {
        let replace = r#"[{"op":"replace","path":"/currency","value":"EUR"}]"#;
        let body = r#"{"order": 7, "currency": "XXX", "total": 12.50}"#;
        assert_eq!(
            patched(replace, body).unwrap(),
            r#"{"currency":"EUR","order":7,"total":12.5}"#
        );
        assert_eq!(patched(replace, "{}").unwrap_err(), "there is nothing at \"/currency\"");
        assert_eq!(patched(replace, "no JSON").unwrap_err(), "its body is no JSON");
        let tested = r#"[{"op":"test","path":"/order","value":8},{"op":"remove","path":"/order"}]"#;
        assert_eq!(patched(tested, body).unwrap_err(), "the test at \"/order\" fails");
    }

    #[test]
    fn what_is_no_patch_is_refused_with_an_example() {
        for text in [
            "",
            "{}",
            "[]",
            r#"[{"op":"renew","path":"/a"}]"#,
            r#"[{"op":"remove"}]"#,
        ] {
            assert!(JsonPatch::parse(text).is_err(), "{text}");
        }
        assert!(JsonPatch::parse("{}").unwrap_err().contains("\"op\": \"replace\""));
        let many = format!("[{}]", vec![r#"{"op":"remove","path":"/a"}"#; 1_001].join(","));
        assert!(JsonPatch::parse(&many).unwrap_err().contains("1001 operations"));
    }

    #[test]
    fn a_number_that_would_become_another_one_is_refused() {
        let remove = r#"[{"op":"remove","path":"/a"}]"#;
        for (number, kept) in [
            ("18446744073709551615", true),
            ("-9223372036854775808", true),
            ("18446744073709551616", false),
            ("12345678901234567890123", false),
            ("0.1", true),
            ("1.5e10", true),
            ("0.1234567890123456789", false),
            ("1e400", false),
            ("-0", false),
        ] {
            let body = format!("{{\"a\":\"12345678901234567890123 \\\" 1\",\"n\":{number}}}");
            assert_eq!(patched(remove, &body).is_ok(), kept, "{number}");
        }
    }
}
