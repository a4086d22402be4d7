//! Traces: spans as OpenTelemetry, sent over OTLP (HTTP, protobuf) to a collector.
//!
//! Spans with the target [`TARGET`] are exported and never logged; all others are logged and never exported. Without a collector
//! the former are disabled where they are written.
//!
//! The SDK's thread sends them, so that a collector that is slow, down or hostile costs no request anything: the queue is bounded, and
//! spans that do not fit are dropped and counted.

use crate::Descriptions;
use crate::StartError;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use metrics::counter;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider,
    ShouldSample, Span, SpanData, SpanExporter, SpanProcessor,
};
use prost::Message as _;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of spans that are exported.
pub const TARGET: &str = "trace";

/// The counters of this module with their descriptions.
pub(crate) const DESCRIPTIONS: Descriptions = &[
    (EXPORTED, "Spans that the collector accepted"),
    (
        DROPPED,
        "Spans that were not sent, by reason: the queue was full, or the collector did not accept them",
    ),
];

const EXPORTED: &str = "operation_gateway_trace_spans_exported_total";
const DROPPED: &str = "operation_gateway_trace_spans_dropped_total";

/// Spans that wait at most: some 2 MB.
const QUEUE_MAX: usize = 4096;

/// Spans in one request.
const BATCH_MAX: usize = 512;

/// Time for which spans are collected before they are sent.
const BATCH_WITHIN: Duration = Duration::from_secs(1);

/// Time limit of one request to the collector.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);

/// Time limit for sending the last spans when the process stops.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Where spans go, and which.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The collector, `host:port`.
    pub collector: String,
    /// The share of traces that are recorded, 0 to 1.
    pub ratio: f64,
    /// The name of the process in the traces.
    pub service: String,
    /// Whether the caller decides which traces are recorded: true behind the gateway, whose certificate was verified.
    pub follows_caller: bool,
}

/// What the process exports by, once it does.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Counts from zero, so that the first loss is an increase.
pub(crate) fn start_counters() {
    counter!(EXPORTED).increment(0);
    for reason in ["queue", "collector"] {
        counter!(DROPPED, "reason" => reason).increment(0);
    }
}

/// Starts to export, and returns the tracer of the process.
pub(crate) fn start(traces: &Traces) -> Result<SdkTracer, StartError> {
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", traces.service.clone()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let waiting = Arc::new(AtomicUsize::new(0));
    let collector = Collector {
        address: traces.collector.clone(),
        resource: (&resource).into(),
        runtime: runtime.map_err(|error| StartError::new("traces", error))?,
        waiting: Arc::clone(&waiting),
        failed: AtomicBool::new(false),
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_MAX)
        .with_max_export_batch_size(BATCH_MAX)
        .with_scheduled_delay(BATCH_WITHIN);
    let sender = BatchSpanProcessor::builder(collector).with_batch_config(batches.build()).build();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(Sampler { ratio: traces.ratio, follows_caller: traces.follows_caller })
        .with_span_processor(Queue { sender, waiting })
        .build();
    Ok(PROVIDER.get_or_init(|| provider).tracer("operation-gateway"))
}

/// Sends the spans that wait, for at most two seconds. Later spans are dropped.
pub fn finish() {
    if let Some(provider) = PROVIDER.get() {
        let _late = provider.shutdown_with_timeout(FINISH_WITHIN);
    }
}

/// Passes ended spans on, and counts those that do not fit, which the SDK does not show.
#[derive(Debug)]
struct Queue {
    sender: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) < QUEUE_MAX {
            self.sender.on_end(span);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            counter!(DROPPED, "reason" => "queue").increment(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.sender.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.sender.shutdown_with_timeout(timeout)
    }
}

#[derive(Debug)]
struct Collector {
    /// `host:port`.
    address: String,
    resource: ResourceAttributesWithSchema,
    runtime: Runtime,
    /// Spans of the queue.
    waiting: Arc<AtomicUsize>,
    /// Whether it did not accept the last batch.
    failed: AtomicBool,
}

impl SpanExporter for Collector {
    /// Sends a batch. A failure is logged once until it succeeds again.
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        let n_spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let sent = self.runtime.block_on(async { timeout(EXPORT_WITHIN, self.post(body)).await });
        let has_failed = !matches!(sent, Ok(Ok(())));
        let failed_before = self.failed.swap(has_failed, Ordering::Relaxed);
        if has_failed {
            counter!(DROPPED, "reason" => "collector").increment(n_spans);
        } else {
            counter!(EXPORTED).increment(n_spans);
        }
        match (failed_before, has_failed) {
            (false, true) => {
                tracing::warn!("the trace collector does not accept spans; they are dropped and counted");
            }
            (true, false) => tracing::info!("the trace collector accepts spans again"),
            (true, true) | (false, false) => {}
        }
        Ok(())
    }
}

impl Collector {
    /// Sends a request on a connection of its own. The answer's body is not read.
    async fn post(&self, body: Vec<u8>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect(&self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::post("/v1/traces")
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::CONNECTION, "close")
            .body(Body::from(body))?;
        // Ends when the answer is here, or no longer waited for.
        tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        if answer.status().is_success() { Ok(()) } else { Err(answer.status().to_string().into()) }
    }
}

/// The `host:port` of a collector's base URL. `None` if it is not `http://HOST:PORT`.
#[must_use]
pub fn collector_address(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?;
    let is_base =
        uri.scheme_str() == Some("http") && ["", "/"].contains(&uri.path()) && uri.query().is_none();
    let has_credentials = authority.as_str().contains('@');
    let port = authority.port_u16()?;
    (is_base && !has_credentials && !authority.host().is_empty())
        .then(|| format!("{}:{port}", authority.host()))
}

/// Decides which traces are recorded. A client's `traceparent` names the trace, but neither its flag nor its trace id, which the
/// client chose, decides at the gateway: otherwise a client could have every request recorded.
#[derive(Clone, Copy, Debug)]
struct Sampler {
    ratio: f64,
    follows_caller: bool,
}

impl ShouldSample for Sampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        _: TraceId,
        _: &str,
        _: &SpanKind,
        _: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        let parent = parent.map(|context| context.span().span_context().clone());
        let is_recorded = match parent.filter(SpanContext::is_valid) {
            Some(parent) if !parent.is_remote() || self.follows_caller => parent.is_sampled(),
            Some(_) | None => chance(self.ratio),
        };
        SamplingResult {
            decision: if is_recorded { SamplingDecision::RecordAndSample } else { SamplingDecision::Drop },
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

/// True with this probability.
fn chance(ratio: f64) -> bool {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    f64::from(random) < ratio * (f64::from(u32::MAX) + 1.0)
}

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The caller's span, from its `traceparent` (W3C Trace Context, section 3.2). `None` if the header is absent, given twice or
/// malformed. `tracestate` is not taken over.
#[must_use]
pub fn caller_span(headers: &HeaderMap) -> Option<SpanContext> {
    let mut given = headers.get_all(&TRACEPARENT).iter();
    let (Some(text), None) = (given.next(), given.next()) else { return None };
    let text = text.to_str().ok()?;
    let mut parts = text.splitn(4, '-');
    let mut hex = |len: usize| {
        let part = parts.next()?;
        let is_hex = part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then_some(part)
    };
    let (version, trace, span) = (hex(2)?, hex(32)?, hex(16)?);
    let flags = parts.next()?;
    // Version 00 has exactly these parts; later ones may have more behind a dash.
    let (flags, rest) = flags.split_at_checked(2)?;
    let is_known_form =
        if version == "00" { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
    let is_hex = flags.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if version == "ff" || !is_known_form || !is_hex {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

/// Makes the span a child of the caller's.
pub(crate) fn set_caller(span: &tracing::Span, caller: SpanContext) {
    let _not_exported = span.set_parent(Context::new().with_remote_span_context(caller));
}

/// The id of the span's trace. `None` if the span is not exported.
pub(crate) fn trace_id(span: &tracing::Span) -> Option<TraceId> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context().span().span_context().clone();
    context.is_valid().then(|| context.trace_id())
}

/// The `traceparent` of the present span, for a call to another process. `None` if it is not exported.
#[must_use]
pub fn traceparent() -> Option<(HeaderName, HeaderValue)> {
    PROVIDER.get()?;
    let context = tracing::Span::current().context().span().span_context().clone();
    let (trace, span, flags) = (context.trace_id(), context.span_id(), context.trace_flags().to_u8());
    let value = context.is_valid().then(|| format!("00-{trace}-{span}-{flags:02x}"))?;
    Some((TRACEPARENT.clone(), HeaderValue::from_str(&value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT.clone(), HeaderValue::from_str(value).unwrap());
        }
        let caller = caller_span(&headers)?;
        Some(format!("{} {} {}", caller.trace_id(), caller.span_id(), caller.is_sampled()))
    }

    #[test]
    fn malformed_traceparent_is_ignored() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let valid = format!("00-{trace}-{span}-01");
        assert_eq!(parsed(&[&valid]), Some(format!("{trace} {span} true")));
        assert_eq!(parsed(&[&format!("00-{trace}-{span}-fe")]), Some(format!("{trace} {span} false")));
        assert_eq!(parsed(&[&format!("01-{trace}-{span}-01-more")]), Some(format!("{trace} {span} true")));
        for wrong in [
            String::new(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("01-{trace}-{span}-01more"),
            format!("00-{trace}-{span}-0"),
            format!("00-{trace}-{span}-0g"),
            format!("00-{trace}-{span}"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}0-{span}-01"),
        ] {
            assert_eq!(parsed(&[&wrong]), None, "{wrong}");
        }
        assert_eq!(parsed(&[&valid, &valid]), None, "given twice");
    }

    #[test]
    fn client_cannot_decide_that_its_request_is_recorded() {
        let decision = |sampler: Sampler, flags, is_remote| {
            let caller = SpanContext::new(
                TraceId::from_bytes([1; 16]),
                SpanId::from_bytes([1; 8]),
                flags,
                is_remote,
                TraceState::default(),
            );
            let parent = Context::new().with_remote_span_context(caller);
            let kind = SpanKind::Server;
            let result =
                sampler.should_sample(Some(&parent), TraceId::from_bytes([1; 16]), "", &kind, &[], &[]);
            result.decision == SamplingDecision::RecordAndSample
        };
        let [none, all] = [0.0, 1.0].map(|ratio| Sampler { ratio, follows_caller: false });
        for flags in [TraceFlags::SAMPLED, TraceFlags::default()] {
            assert!(!decision(none, flags, true) && decision(all, flags, true), "a client's {flags:?}");
            let is_sampled = flags == TraceFlags::SAMPLED;
            assert_eq!(decision(none, flags, false), is_sampled, "a span of the trace that was decided on");
            let behind = Sampler { ratio: 0.0, follows_caller: true };
            assert_eq!(decision(behind, flags, true), is_sampled, "the gateway's decision");
        }
    }
}
