//! Counters of the whole process, as Prometheus reads them.

use metrics::{describe_counter, describe_gauge, set_global_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

static COUNTED: OnceLock<PrometheusHandle> = OnceLock::new();

/// Starts counting. A second call changes nothing.
pub(crate) fn start() {
    COUNTED.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let _already_set = set_global_recorder(recorder);
        let described =
            gateway_api::counters::DESCRIPTIONS.iter().chain(gateway_policy::counters::DESCRIPTIONS);
        let described = described.chain(crate::transport::DESCRIPTIONS);
        for (name, text) in described {
            describe_counter!(*name, *text);
        }
        for (name, text) in crate::nodes::DESCRIPTIONS {
            describe_gauge!(*name, *text);
        }
        handle
    });
}

/// Everything counted so far.
pub(crate) fn text() -> String {
    COUNTED.get().map(PrometheusHandle::render).unwrap_or_default()
}
