//! [`Events`]: what happens to operations, without end.

use crate::error::Error;
use crate::gateway::Gateway;
use crate::requests::Filter;
use crate::views::Event;
use reqwest::Response;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The path of the stream.
const PATH: &str = "/v1/events";

/// A stream that is silent for longer is given up: the gateway says something every ten seconds.
const SILENT_FOR: Duration = Duration::from_secs(30);

/// The longest line that is read.
const LINE_BYTES_MAX: usize = 1 << 20;

/// The waits between two connections.
const WAIT_MIN: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A stream of events. It connects again by itself, after the last event, so that none is missed and none comes twice. If the gateway no
/// longer has the last event, since it was restored from an older copy, that is an error.
#[derive(Debug)]
pub struct Events {
    gateway: Gateway,
    filter: Vec<(&'static str, String)>,
    start: Start,
    stream: Option<Response>,
    unread: Vec<u8>,
    block: Block,
    ready: VecDeque<Event>,
    wait: Duration,
}

/// Where a stream begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what happens from now on.
    Now,
    /// With the event at this index of the log.
    At(u64),
    /// After the event of this id.
    After(String),
}

/// The lines of a block that were read.
#[derive(Debug, Default)]
struct Block {
    id: Option<String>,
    data: Option<String>,
}

impl Gateway {
    /// What happens to operations.
    #[must_use]
    pub fn events(&self, filter: &Filter, start: Start) -> Events {
        Events::new(self.clone(), filter.pairs(), start)
    }
}

impl Events {
    fn new(gateway: Gateway, filter: Vec<(&'static str, String)>, start: Start) -> Self {
        Self {
            gateway,
            filter,
            start,
            stream: None,
            unread: Vec::new(),
            block: Block::default(),
            ready: VecDeque::new(),
            wait: WAIT_MIN,
        }
    }

    /// Where a later stream goes on: after the last event that [`Self::next`] returned.
    #[must_use]
    pub const fn position(&self) -> &Start {
        &self.start
    }

    /// The next event. Waits for it, also while the gateway is away.
    ///
    /// # Errors
    /// [`Error::Refused`] if the gateway refuses the caller or the filter, or no longer has the last event (`event_not_in_log`: read again
    /// what you follow, and begin with [`Start::Now`]); and [`Error::Malformed`].
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.start = Start::After(event.id.clone());
                return Ok(event);
            }
            let Some(stream) = &mut self.stream else {
                self.connect().await?;
                continue;
            };
            match timeout(SILENT_FOR, stream.chunk()).await {
                Ok(Ok(Some(chunk))) => self.take(&chunk)?,
                // It ended, broke, or is silent: the next one goes on after the last event.
                Ok(Ok(None) | Err(_)) | Err(_) => self.drop_stream(),
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let mut query = self.filter.clone();
        let last = match &self.start {
            Start::Now => None,
            Start::At(index) => {
                query.push(("from", index.to_string()));
                None
            }
            Start::After(id) => Some(id.as_str()),
        };
        match self.gateway.open_events(PATH, &query, last).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.wait = WAIT_MIN;
            }
            Err(Error::Refused(refusal)) if refusal.status < 500 && refusal.status != 429 => {
                return Err(Error::Refused(refusal));
            }
            Err(error @ Error::Unusable(_)) => return Err(error),
            Err(_) => {
                sleep(self.wait).await;
                self.wait = (self.wait * 2).min(WAIT_MAX);
            }
        }
        Ok(())
    }

    fn drop_stream(&mut self) {
        self.stream = None;
        self.unread.clear();
        self.block = Block::default();
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.unread.extend_from_slice(chunk);
        if self.unread.len() > LINE_BYTES_MAX {
            return Err(Error::Malformed("a line of the stream is too long".to_owned()));
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\r', '\n']))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), Error> {
        if let Some(id) = line.strip_prefix("id: ") {
            self.block.id = Some(id.to_owned());
        } else if let Some(data) = line.strip_prefix("data: ") {
            self.block.data = Some(data.to_owned());
        } else if line.is_empty() {
            let Block { id, data } = std::mem::take(&mut self.block);
            match (id, data) {
                (Some(id), Some(data)) => {
                    let event: Event = serde_json::from_str(&data)
                        .map_err(|error| Error::Malformed(format!("an event: {error}")))?;
                    self.ready.push_back(Event { id, ..event });
                }
                // How far the log was read, without an event.
                (Some(id), None) if self.ready.is_empty() => self.start = Start::After(id),
                _ => {}
            }
        }
        Ok(())
    }
}
