//! The log and the metrics of the process. Bodies, secrets and credentials are never logged.

use metrics::{describe_counter, describe_gauge, set_global_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty in a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Names of metrics, each with its description.
pub type Descriptions = &'static [(&'static str, &'static str)];

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// Starts the log, which goes to standard error. A second call has no effect.
///
/// # Errors
/// A message when the filter is invalid.
pub fn start_log(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let pretty = match format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    };
    let _already_started =
        if pretty { builder.try_init() } else { builder.json().flatten_event(true).try_init() };
    Ok(())
}

/// Starts the metrics, with the descriptions of the process's own. A second call has no effect.
pub fn start_metrics(counters: &[Descriptions], gauges: Descriptions) {
    METRICS.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let _already_set = set_global_recorder(recorder);
        let ours = [crate::layers::DESCRIPTIONS, crate::quota::DESCRIPTIONS, crate::transport::DESCRIPTIONS];
        for (name, text) in ours.iter().chain(counters).copied().flatten() {
            describe_counter!(*name, *text);
        }
        for (name, text) in gauges {
            describe_gauge!(*name, *text);
        }
        handle
    });
}

/// All metrics, in the text format of Prometheus.
#[must_use]
pub fn metrics() -> String {
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}
