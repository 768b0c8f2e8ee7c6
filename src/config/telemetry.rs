//! `[telemetry]`: where spans and numbers go by OpenTelemetry's protocol (OTLP over HTTP).
//!
//! The program can do so where it was built with the cargo feature `otlp`. A key that cannot be followed is an error; the
//! field's variable is set for many programs at once, and is only said not to be followed.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::Url;

use super::error::Problem;
use super::keys::{Keys as _, keys};
use super::kind::{headers, parsed, text_value};
use super::print::Page;
use super::section::Section;
use crate::domain::notification::{header_problem, is_reserved};

/// The collector of every program on the machine, as OpenTelemetry names it.
pub(super) const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// What that collector wants beside, `name=value,name=value` with values as in a URL.
pub(super) const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const IS_BUILT_IN: bool = cfg!(feature = "otlp");

keys! {
    /// Spans and numbers for OpenTelemetry.
    #[derive(Clone, Debug, Default)]
    pub struct TelemetryConfig {
        /// URL of a collector (OTLP over HTTP); needs a build with the cargo feature otlp.
        ///
        /// An OpenTelemetry collector (OTLP over HTTP) that gets the daemon's spans and metrics; else the one that the variable
        /// OTEL_EXPORTER_OTLP_ENDPOINT names. Needs a redrive built with the cargo feature "otlp".
        otlp: Option<String> = parsed(endpoint, String::clone)
            .with("format", text_value("uri"))
            .optional()
            .example("\"http://127.0.0.1:4318\"");
        /// Sent to the collector with each request.
        ///
        /// Sent to it with each request; else those of OTEL_EXPORTER_OTLP_HEADERS (name=value,name=value).
        headers: Vec<(String, SecretString)> = headers()
            .shown_if(|headers| !headers.is_empty())
            .example("{ Authorization = { file = \"/etc/redrive/collector_token\" } }");
    }
    beside {
        /// What is not followed.
        warnings: Vec<String> = |_: Section<'_>| Ok(Vec::new());
    }
}

pub(super) fn telemetry(root: Section<'_>, page: &mut Page) -> Result<TelemetryConfig, Problem> {
    let section = root.section::<TelemetryConfig>("telemetry")?;
    let telemetry = if IS_BUILT_IN {
        followed(section)
    } else {
        refused(section)
    }?;
    page.table("[telemetry]", &telemetry);
    Ok(telemetry)
}

fn refused(section: Section<'_>) -> Result<TelemetryConfig, Problem> {
    if let Some(key) = TelemetryConfig::KEYS.iter().find(|key| section.get(key).is_some()) {
        return Err(section.problem(
            key,
            "needs a redrive that was built with the cargo feature \"otlp\": build it with `cargo build --release \
             --features otlp`, or leave the key out",
        ));
    }
    let warning = section.environment().variable(ENDPOINT_VARIABLE).map(|_| {
        format!(
            "{ENDPOINT_VARIABLE} is set, and this redrive sends no spans: build it with the cargo feature \"otlp\", or \
             unset the variable"
        )
    });
    Ok(TelemetryConfig {
        warnings: warning.into_iter().collect(),
        ..TelemetryConfig::default()
    })
}

fn followed(section: Section<'_>) -> Result<TelemetryConfig, Problem> {
    let mut telemetry = TelemetryConfig::read(section)?;
    let warnings = &mut telemetry.warnings;
    if let (None, Some(url)) = (&telemetry.otlp, section.environment().variable(ENDPOINT_VARIABLE)) {
        telemetry.otlp = endpoint(url)
            .map_err(|why| warnings.push(format!("{ENDPOINT_VARIABLE} {why}: no spans are sent")))
            .ok();
    }
    if let Some(list) = section.environment().variable(HEADERS_VARIABLE)
        && telemetry.headers.is_empty()
        && telemetry.otlp.is_some()
    {
        telemetry.headers = listed(list).unwrap_or_else(|why| {
            warnings.push(format!(
                "{HEADERS_VARIABLE} {why}: the collector is told without these headers"
            ));
            Vec::new()
        });
    }
    if telemetry.otlp.is_none() && !telemetry.headers.is_empty() {
        warnings.push("telemetry.headers is set, and no collector is named: set telemetry.otlp".to_owned());
    }
    Ok(telemetry)
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
