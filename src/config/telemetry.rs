//! `[telemetry]`: where spans and numbers go by OpenTelemetry's protocol (OTLP over HTTP).
//!
//! The program can do so where it was built with the cargo feature `otlp`. A key that cannot be followed is an error; the
//! field's variable is set for many programs at once, and is only said not to be followed.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::Url;

use super::delivery;
use super::error::Problem;
use super::section::Section;
use crate::domain::notification::{header_problem, is_reserved};

pub(super) const TELEMETRY_KEYS: &[&str] = &["otlp", "headers"];
/// The collector of every program on the machine, as OpenTelemetry names it.
pub(super) const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// What that collector wants beside, `name=value,name=value` with values as in a URL.
pub(super) const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const IS_BUILT_IN: bool = cfg!(feature = "otlp");

/// `[telemetry]`.
#[derive(Clone, Debug, Default)]
pub struct TelemetryConfig {
    /// The collector's URL, to which `/v1/traces` and `/v1/metrics` are added.
    pub otlp: Option<String>,
    /// Sent to it with each request.
    pub headers: Vec<(String, SecretString)>,
    /// What is not followed.
    pub(super) warnings: Vec<String>,
}

pub(super) fn telemetry(section: Section<'_>) -> Result<TelemetryConfig, Problem> {
    let written = delivery::headers(section)?;
    let variable = section.environment().variable(ENDPOINT_VARIABLE);
    if !IS_BUILT_IN {
        return match ["otlp", "headers"].into_iter().find(|key| section.get(key).is_some()) {
            Some(key) => Err(section.problem(
                key,
                "needs a redrive that was built with the cargo feature \"otlp\": build it with `cargo build --release \
                 --features otlp`, or leave the key out",
            )),
            None if variable.is_some() => Ok(warned(format!(
                "{ENDPOINT_VARIABLE} is set, and this redrive sends no spans: build it with the cargo feature \"otlp\", or \
                 unset the variable"
            ))),
            None => Ok(TelemetryConfig::default()),
        };
    }
    let mut warnings = Vec::new();
    let otlp = match (section.text("otlp")?, variable) {
        (Some(url), _) => Some(endpoint(url).map_err(|why| section.problem("otlp", why))?),
        (None, Some(url)) => endpoint(url)
            .map_err(|why| warnings.push(format!("{ENDPOINT_VARIABLE} {why}: no spans are sent")))
            .ok(),
        (None, None) => None,
    };
    let headers = match section.environment().variable(HEADERS_VARIABLE) {
        Some(list) if written.is_empty() && otlp.is_some() => listed(list).unwrap_or_else(|why| {
            warnings.push(format!(
                "{HEADERS_VARIABLE} {why}: the collector is told without these headers"
            ));
            Vec::new()
        }),
        Some(_) | None => written,
    };
    if otlp.is_none() && !headers.is_empty() {
        warnings.push("telemetry.headers is set, and no collector is named: set telemetry.otlp".to_owned());
    }
    Ok(TelemetryConfig {
        otlp,
        headers,
        warnings,
    })
}

/// The headers of the variable. What is wrong is named by its place: a value may be a secret.
fn listed(list: &str) -> Result<Vec<(String, SecretString)>, String> {
    let wrong = |at: usize, why: &str| format!("has a header, number {}, that {why}", at + 1);
    let header = |(at, pair): (usize, &str)| {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| wrong(at, "is not written as name=value"))?;
        let name = name.trim();
        let value = percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| wrong(at, "is not UTF-8"))?;
        if is_reserved(name) {
            return Err(wrong(at, "belongs to the connection or to the sender"));
        }
        match header_problem(name, &value) {
            Some(problem) => Err(wrong(at, &problem)),
            None => Ok((name.to_owned(), SecretString::from(value.into_owned()))),
        }
    };
    list.split(',').enumerate().map(header).collect()
}

fn warned(warning: String) -> TelemetryConfig {
    TelemetryConfig {
        warnings: vec![warning],
        ..TelemetryConfig::default()
    }
}

/// As it is used. What stands in it is shown in logs: it has no credentials.
fn endpoint(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    let url = url.ok_or("must be a URL such as http://127.0.0.1:4318, without user, password and query")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}
