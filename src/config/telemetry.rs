//! `[telemetry]`: where spans and numbers go by OpenTelemetry's protocol (OTLP over HTTP).
//!
//! The program can do so where it was built with the cargo feature `otlp`. A key that cannot be followed is an error; the
//! field's variable is set for many programs at once, and is only said not to be followed.

use url::Url;

use super::error::Problem;
use super::section::Section;

pub(super) const TELEMETRY_KEYS: &[&str] = &["otlp"];
/// The collector of every program on the machine, as OpenTelemetry names it.
pub(super) const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const IS_BUILT_IN: bool = cfg!(feature = "otlp");

/// `[telemetry]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The collector's URL, to which `/v1/traces` and `/v1/metrics` are added.
    pub otlp: Option<String>,
    /// What is not followed.
    pub(super) warnings: Vec<String>,
}

pub(super) fn telemetry(section: Section<'_>) -> Result<TelemetryConfig, Problem> {
    let variable = section.environment().variable(ENDPOINT_VARIABLE);
    match (section.text("otlp")?, variable) {
        (Some(_), _) if !IS_BUILT_IN => Err(section.problem(
            "otlp",
            "needs a redrive that was built with the cargo feature \"otlp\": build it with `cargo build --release \
             --features otlp`, or leave the key out",
        )),
        (Some(url), _) => Ok(TelemetryConfig {
            otlp: Some(endpoint(url).map_err(|why| section.problem("otlp", why))?),
            warnings: Vec::new(),
        }),
        (None, Some(_)) if !IS_BUILT_IN => Ok(warned(format!(
            "{ENDPOINT_VARIABLE} is set, and this redrive sends no spans: build it with the cargo feature \"otlp\", or \
             unset the variable"
        ))),
        (None, Some(url)) => Ok(match endpoint(url) {
            Ok(url) => TelemetryConfig {
                otlp: Some(url),
                warnings: Vec::new(),
            },
            Err(why) => warned(format!("{ENDPOINT_VARIABLE} {why}: no spans are sent")),
        }),
        (None, None) => Ok(TelemetryConfig::default()),
    }
}

fn warned(warning: String) -> TelemetryConfig {
    TelemetryConfig {
        otlp: None,
        warnings: vec![warning],
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
