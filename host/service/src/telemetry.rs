//! The log and the metrics of the process. Bodies, secrets and credentials are never logged.

pub use crate::Descriptions;

use crate::log_queue::{LinesLost, LogQueue};
use crate::output;
use crate::traces::{self, Traces};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, set_global_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

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

/// The counter of the log.
const DESCRIPTIONS: Descriptions = &[(
    DROPPED,
    "Lines of the log that were lost, by reason: the queue was full, or they could not be written",
)];

const DROPPED: &str = "operation_gateway_log_lines_dropped_total";

/// Interval between two times that the values of histograms are sorted into buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

static METRICS: OnceLock<PrometheusHandle> = OnceLock::new();

/// The target of panics, which no filter leaves out.
const PANIC: &str = "panic";

/// Starts the log, which goes to standard error, and the export of traces. A second call has no effect.
///
/// # Errors
/// A message when the filter is invalid, standard error is closed, or traces cannot be sent.
pub fn start_log(filter: &str, format: LogFormat, traces: Option<&Traces>) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| format!("setting `log` is not a valid filter: {error}"))?
        .or(filter_fn(|metadata| metadata.target() == PANIC))
        .and(filter_fn(|metadata| !is_exported(metadata)));
    let pretty = match format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => output::tells_terminal(),
    };
    let queue = output::start_log().map_err(|error| format!("standard error cannot be written: {error}"))?;
    let escape = if pretty { output::escape } else { output::escape_json };
    // Colours are sequences that a terminal interprets, as are those which a message of others may have.
    let log = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(LogLines { queue, escape });
    let log: Box<dyn Layer<Registry> + Send + Sync> =
        if pretty { log.boxed() } else { log.json().flatten_event(true).boxed() };
    let exporting = match traces {
        Some(traces) => {
            let tracer = traces::start(traces).map_err(|error| error.to_string())?;
            let layer = tracing_opentelemetry::layer().with_tracer(tracer);
            let layer = layer.with_location(false).with_threads(false).with_target(false).with_level(false);
            Some(layer.with_tracked_inactivity(false).with_filter(filter_fn(is_exported)))
        }
        None => None,
    };
    let _already_started =
        tracing_subscriber::registry().with(log.with_filter(filter)).with(exporting).try_init();
    Ok(())
}

/// Escapes each line of the log, which is one event.
#[derive(Clone)]
struct LogLines {
    queue: Arc<LogQueue>,
    escape: fn(&str) -> String,
}

impl Write for LogLines {
    /// Takes a whole event with its line feed, as the subscriber writes it.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = (self.escape)(text.trim_end_matches('\n')) + "\n";
        self.queue.add(line);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogLines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Logs a panic, with the calls that led to it. Returns false if the log is not started.
pub(crate) fn log_panic(text: &str, place: &str, calls: Option<&str>) -> bool {
    let is_started = output::lines_lost().is_some();
    if is_started {
        tracing::error!(target: PANIC, place, calls, "panicked: {text}");
    }
    is_started
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == traces::TARGET
}

/// The metrics of a process, each with its description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics<'a> {
    /// Counters.
    pub counters: &'a [Descriptions],
    /// Gauges.
    pub gauges: &'a [Descriptions],
    /// Histograms of durations, seconds, with the upper bounds of their buckets.
    pub histograms: &'a [(Descriptions, &'static [f64])],
}

/// Buckets for work that takes microseconds: from 5 us to 0.1 s, seconds.
pub const MICROSECONDS: &[f64] =
    &[5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1];

/// Buckets for work that takes milliseconds: from 0.5 ms to 30 s, seconds.
pub const MILLISECONDS: &[f64] =
    &[5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];

/// Starts the metrics, with the process's own. A second call has no effect.
pub fn start_metrics(own: Metrics<'_>) {
    METRICS.get_or_init(|| {
        let ours = [
            DESCRIPTIONS,
            crate::layers::DESCRIPTIONS,
            crate::quota::DESCRIPTIONS,
            crate::traces::DESCRIPTIONS,
            crate::transport::DESCRIPTIONS,
        ];
        let histograms = own.histograms.iter().chain([&(crate::layers::HISTOGRAMS, MILLISECONDS)]);
        let histograms = histograms
            .flat_map(|(all, buckets)| all.iter().map(move |(name, text)| (*name, *text, *buckets)));
        let recorder = histograms.clone().fold(PrometheusBuilder::new(), with_buckets).build_recorder();
        let handle = recorder.handle();
        let _already_set = set_global_recorder::<PrometheusRecorder>(recorder);
        for (name, text) in ours.iter().chain(own.counters).copied().flatten() {
            describe_counter!(*name, *text);
        }
        for (name, text) in own.gauges.iter().chain([&crate::transport::GAUGES]).copied().flatten() {
            describe_gauge!(*name, *text);
        }
        for (name, text, _) in histograms {
            describe_histogram!(name, Unit::Seconds, text);
        }
        traces::start_counters();
        count_lines_lost();
        // Without it, the values of histograms take memory until the next scrape, which may never come.
        let upkept = handle.clone();
        let upkeep = move || {
            loop {
                std::thread::sleep(UPKEEP_EVERY);
                upkept.run_upkeep();
            }
        };
        let _without_thread = std::thread::Builder::new().name("metrics".into()).spawn(upkeep);
        handle
    });
}

/// A histogram without buckets of its own would be a summary, which cannot be added up over processes.
fn with_buckets(builder: PrometheusBuilder, (name, _, buckets): (&str, &str, &[f64])) -> PrometheusBuilder {
    let full = Matcher::Full(name.to_owned());
    // Fails only for a list without buckets, and consumes the builder.
    builder.set_buckets_for_metric(full, buckets).unwrap_or_default()
}

/// All metrics, in the text format of Prometheus.
#[must_use]
pub fn metrics() -> String {
    count_lines_lost();
    METRICS.get().map(PrometheusHandle::render).unwrap_or_default()
}

fn count_lines_lost() {
    let LinesLost { queue, write } = output::lines_lost().unwrap_or_default();
    for (reason, n_lost) in [("queue", queue), ("write", write)] {
        counter!(DROPPED, "reason" => reason).absolute(n_lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _};

    #[test]
    fn an_event_is_one_line_of_visible_characters() {
        for (escape, event, expected) in [
            (
                output::escape as fn(&str) -> String,
                "ERROR bad\nFAKE\u{1b}[2J\u{202e}\n",
                "ERROR bad\\u{a}FAKE\\u{1b}[2J\\u{202e}\n",
            ),
            (
                output::escape_json,
                "{\"error\":\"\\n\u{9b}2J\u{202e}\"}\n",
                "{\"error\":\"\\n\\u009b2J\\u202e\"}\n",
            ),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            let queue = LogQueue::start(file.try_clone().unwrap()).unwrap();
            LogLines { queue: Arc::clone(&queue), escape }.write_all(event.as_bytes()).unwrap();
            queue.finish(Duration::from_secs(60));
            let mut written = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut written).unwrap();
            assert_eq!(written, expected);
        }
    }
}
