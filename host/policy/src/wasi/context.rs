//! What the WASI functions of one evaluation share: a context without access, and random numbers that are computed from the hash of the
//! request.

use crate::fault::Stopped;
use crate::limits::RANDOM_BYTES_MAX;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::FaultKind;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::{WasiCliCtx, WasiCliCtxView};
use wasmtime_wasi::filesystem::{WasiFilesystemCtx, WasiFilesystemCtxView};

/// The state of the WASI functions in one evaluation.
pub(crate) struct Wasi {
    cli: WasiCliCtx,
    filesystem: WasiFilesystemCtx,
    pub(super) table: ResourceTable,
    pub(super) randomness: Randomness,
}

impl Wasi {
    /// A context without any access, with random numbers from this seed.
    pub(crate) fn seeded(seed: Hex32) -> Self {
        Self {
            cli: WasiCliCtx::default(),
            filesystem: WasiFilesystemCtx::default(),
            table: ResourceTable::new(),
            randomness: Randomness::seeded(seed),
        }
    }

    pub(super) fn cli(&mut self) -> WasiCliCtxView<'_> {
        WasiCliCtxView { ctx: &mut self.cli, table: &mut self.table }
    }

    pub(super) fn filesystem(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.filesystem, table: &mut self.table }
    }
}

const TAG: &str = "svc/policy-random/v1";

/// A generator of blocks of 32 bytes: SHA-256 over the seed and the block's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Randomness {
    seed: Hex32,
    n_blocks: u64,
    bytes_left: usize,
}

impl Randomness {
    const fn seeded(seed: Hex32) -> Self {
        Self { seed, n_blocks: 0, bytes_left: RANDOM_BYTES_MAX }
    }

    /// The next bytes. Whole blocks count towards the limit, so one byte counts as 32.
    ///
    /// # Errors
    /// [`FaultKind::Memory`] above [`RANDOM_BYTES_MAX`] in one evaluation.
    pub(super) fn bytes(&mut self, n_bytes: u64) -> Result<Vec<u8>, Stopped> {
        let too_many = Stopped::new(FaultKind::Memory, format!("more than {RANDOM_BYTES_MAX} random bytes"));
        let Ok(n_bytes) = usize::try_from(n_bytes) else { return Err(too_many) };
        let used = n_bytes.checked_next_multiple_of(32).and_then(|used| self.bytes_left.checked_sub(used));
        let Some(bytes_left) = used else { return Err(too_many) };
        self.bytes_left = bytes_left;
        let mut bytes = Vec::with_capacity(n_bytes.saturating_add(32));
        while bytes.len() < n_bytes {
            bytes.extend_from_slice(&self.block());
        }
        bytes.truncate(n_bytes);
        Ok(bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, Stopped> {
        let bytes = self.bytes(8)?;
        Ok(bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn block(&mut self) -> [u8; 32] {
        let input = [self.seed.as_bytes().as_slice(), &self.n_blocks.to_be_bytes()].concat();
        self.n_blocks = self.n_blocks.saturating_add(1);
        *canonical::digest_bytes(TAG, &input).as_bytes()
    }
}
