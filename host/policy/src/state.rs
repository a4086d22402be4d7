//! The host's state of one evaluation: the facts, those that the guest read, the bundle's data, and the remaining limits.

use crate::bindings::svc::bundle::{data, documents, log};
use crate::bindings::svc::policy::facts;
use crate::calendar;
use crate::data::{Data, value_at};
use crate::fact_names::FactNames;
use crate::fault::{Stopped, quoted};
use crate::limits::{
    DATA_BYTES_READ_MAX, DATA_LOOKUP_BYTES, FACT_NAME_BYTES_MAX, FACTS_READ_MAX, WRITTEN_BYTES_MAX,
};
use crate::wasi::Wasi;
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::{FactRead, Facts, FaultKind, document};
use std::borrow::Cow;
use std::sync::Arc;
use wasmtime::ResourceLimiter;

/// A bundle's data and declared fact names, the same for every evaluation.
pub(crate) struct Contents {
    pub(crate) data: Data,
    pub(crate) fact_names: FactNames,
}

pub(crate) struct State {
    facts: Facts,
    read: Vec<FactRead>,
    contents: Arc<Contents>,
    data_bytes_left: usize,
    memory_bytes: usize,
    memory_bytes_max: usize,
    /// What the guest wrote for people to read, at most [`WRITTEN_BYTES_MAX`].
    written: Vec<u8>,
    /// `None` in the pure world.
    wasi: Option<Box<Wasi>>,
}

impl State {
    pub(crate) const fn new(facts: Facts, contents: Arc<Contents>, memory_bytes_max: usize) -> Self {
        Self {
            facts,
            read: Vec::new(),
            contents,
            data_bytes_left: DATA_BYTES_READ_MAX,
            memory_bytes: 0,
            memory_bytes_max,
            written: Vec::new(),
            wasi: None,
        }
    }

    /// The guest's linear memory, all its memories together, in bytes. Memories do not shrink.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// How many more bytes of what the guest writes are kept.
    pub(crate) const fn room(&self) -> usize {
        WRITTEN_BYTES_MAX.saturating_sub(self.written.len())
    }

    /// Keeps the beginning of what the guest writes: a fault shows it.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let n_kept = bytes.len().min(self.room());
        self.written.extend(bytes.iter().take(n_kept));
    }

    /// What the guest wrote, on one line, without control characters.
    pub(crate) fn written(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.written);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<_> = lines.map(|line| line.escape_debug().to_string()).collect();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }

    /// Counts bytes that were copied from or to the guest.
    fn take(&mut self, n_bytes: usize, what: impl FnOnce() -> String) -> wasmtime::Result<()> {
        match self.data_bytes_left.checked_sub(n_bytes) {
            None => {
                let limit = format!("more than {DATA_BYTES_READ_MAX} bytes, {}", what());
                Err(Stopped::new(FaultKind::TooMuchData, limit).into())
            }
            Some(left) => {
                self.data_bytes_left = left;
                Ok(())
            }
        }
    }

    /// Sets the seed of this evaluation's random numbers, in the WASI world.
    pub(crate) fn seed(&mut self, seed: Hex32) {
        self.wasi = Some(Box::new(Wasi::seeded(seed)));
    }

    pub(crate) fn wasi(&mut self) -> &mut Wasi {
        self.wasi.get_or_insert_with(|| Box::new(Wasi::seeded(Hex32::ZERO)))
    }

    /// Reads the fact `time.now_ms` on behalf of the guest. 0 if there is no such fact.
    pub(crate) fn now_ms(&mut self) -> wasmtime::Result<u64> {
        let now_ms = facts::Host::get(self, calendar::NOW.to_owned())?;
        Ok(now_ms.and_then(|now_ms| now_ms.parse().ok()).unwrap_or(0))
    }

    /// The facts that the guest read, each once, in the order of reading, and the documents that some of them name.
    pub(crate) fn into_read(self) -> (Vec<FactRead>, Vec<Envelope>) {
        let found = self.read.iter().filter(|read| read.value.is_some());
        let documents = found.filter_map(|read| self.facts.document(&read.name));
        let documents = documents.map(|found| found.envelope.clone()).collect();
        (self.read, documents)
    }
}

impl facts::Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        let known = self.read.iter().find(|read| read.name == name);
        if let Some(read) = known {
            return Ok(read.value.clone());
        }
        let needs_time = calendar::is_offered(&name) || name.starts_with(document::PREFIX);
        let n_read = self.read.len().saturating_add(usize::from(needs_time));
        if n_read >= FACTS_READ_MAX || name.len() > FACT_NAME_BYTES_MAX {
            let limits = format!(
                "at most {FACTS_READ_MAX} facts, with names of at most {FACT_NAME_BYTES_MAX} bytes, not {}",
                quoted(&name)
            );
            return Err(Stopped::new(FaultKind::TooManyFacts, limits).into());
        }
        if !self.contents.fact_names.contains(&name) {
            // Recorded too, so that the decision record shows the name.
            let undeclared = Stopped::new(FaultKind::UndeclaredFact, quoted(&name));
            self.read.push(FactRead { name, value: None });
            return Err(undeclared.into());
        }
        // Recorded before it, so that everybody can compute a calendar, and compare the time with that of a document.
        let now_ms = if needs_time { facts::Host::get(self, calendar::NOW.to_owned())? } else { None };
        let of_calendar = calendar::value(&name, now_ms.as_deref());
        let value = of_calendar.or_else(|| self.facts.get(&name).map(str::to_owned));
        self.read.push(FactRead { name, value: value.clone() });
        Ok(value)
    }
}

impl data::Host for State {
    fn get(&mut self, file: String, pointer: String) -> wasmtime::Result<Option<String>> {
        let value = self.contents.data.get(&file, &pointer);
        // File name and pointer were copied from the guest.
        let n_argument_bytes = file.len().saturating_add(pointer.len()).max(DATA_LOOKUP_BYTES);
        let n_bytes = value.as_deref().map_or(0, str::len).saturating_add(n_argument_bytes);
        let value = value.map(Cow::into_owned);
        self.take(n_bytes, || format!("at last from {}", quoted(&file)))?;
        Ok(value)
    }
}

impl documents::Host for State {
    fn get(&mut self, name: String, pointer: String) -> wasmtime::Result<Option<String>> {
        let fact = format!("{}{name}", document::PREFIX);
        facts::Host::get(self, fact.clone())?;
        let found = self.facts.document(&fact).map(Arc::clone);
        let value = found.as_ref().and_then(|found| value_at(&found.document.content, &pointer));
        let value = value.map(Cow::into_owned);
        // Name and pointer were copied from the guest.
        let n_argument_bytes = name.len().saturating_add(pointer.len()).max(DATA_LOOKUP_BYTES);
        let n_bytes = value.as_deref().map_or(0, str::len).saturating_add(n_argument_bytes);
        self.take(n_bytes, || format!("at last from {}", quoted(&fact)))?;
        Ok(value)
    }
}

impl log::Host for State {
    fn write(&mut self, text: String) -> wasmtime::Result<()> {
        self.take(text.len().max(DATA_LOOKUP_BYTES), || "at last to its log".to_owned())?;
        Self::write(self, text.as_bytes());
        Ok(())
    }
}

/// Stops a guest that exceeds its limits. If `memory.grow` only failed, the guest could continue, and its verdict would depend on
/// the limits.
impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A guest may have several memories; `current` is of one of them.
        let memory_bytes = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        if memory_bytes > self.memory_bytes_max {
            let limit = format!("{memory_bytes} bytes, {} are allowed", self.memory_bytes_max);
            return Err(Stopped::new(FaultKind::Memory, limit).into());
        }
        self.memory_bytes = memory_bytes;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(Stopped::new(FaultKind::Memory, error.to_string()).into())
    }

    /// The pool limits the size of tables to [`crate::limits::TABLE_ELEMENTS_MAX`].
    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(Stopped::new(FaultKind::Memory, error.to_string()).into())
    }
}
