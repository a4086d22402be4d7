//! The limits of the policy host, with their reasons.

use std::time::Duration;

/// Most fuel of one evaluation, about one unit for each wasm instruction. A manifest may set less. It takes around 50 ms, ten
/// times as long as the heaviest policy that was measured.
pub const FUEL_MAX: u64 = 50_000_000;

/// Most fuel of the initialization of a policy when its bundle is built: some seconds.
pub const FUEL_INITIALIZE: u64 = 5_000_000_000;

/// Fuel of an attempt on the caller's own thread: around 100 us, too short to delay an async runtime. The default policy uses
/// about 6,700, and 64,000 with all data files that it can have.
pub const FUEL_INLINE: u64 = 150_000;

/// Memory of the same attempt, in bytes. Fuel does not measure the allocation of pages: growing to [`MEMORY_BYTES_MAX`] takes ten
/// times as long as using [`FUEL_INLINE`].
pub const MEMORY_BYTES_INLINE: usize = 1 << 20;

/// Most linear memory of a guest, all its memories together, in bytes. A manifest may set less.
pub const MEMORY_BYTES_MAX: usize = 16 << 20;

/// The first memory of a small guest, which may have [`MEMORY_BYTES_INLINE`] at most, that is cleared by writing and not by a system call when
/// an instance ends, in bytes: all memory of the default policy. Further memory of a guest causes page faults.
pub const MEMORY_BYTES_KEPT: usize = 64 << 10;

/// The memory of a large guest that is cleared by writing, in bytes: of the pages that it wrote, which the kernel finds (Linux 6.7 and newer).
/// More than an evaluation of Cedar writes. An older kernel cannot find them: the first memory is cleared, and the evaluations of the
/// treasury's rule take twice as long.
pub const MEMORY_BYTES_KEPT_LARGE: usize = 512 << 10;

/// As [`MEMORY_BYTES_KEPT`], for tables. Without it each table costs two system calls per evaluation: 15.4 us instead of 10.8 us
/// for the default policy (with debug assertions on).
pub const TABLE_BYTES_KEPT: usize = 8 << 10;

/// Elements of one table of a guest: function pointers, of which a policy has few and a JavaScript engine 7,700. The pool
/// reserves address space for them; memory is used only for those that are written.
pub const TABLE_ELEMENTS_MAX: usize = 8_192;

/// Handles to resources that one evaluation may hold: the host keeps a slot for each.
pub const HANDLES_MAX: usize = 1_024;

/// Random bytes that one evaluation in the WASI world may read. The host computes them, which fuel does not measure.
pub const RANDOM_BYTES_MAX: usize = 64 << 10;

/// Native stack that a guest may use, in bytes. Threads of the async runtime have 2 MiB.
pub const STACK_BYTES_MAX: usize = 256 << 10;

/// Least size of the instance pool, which grows with the machine's threads.
pub const INSTANCES_MIN: u32 = 64;

/// Largest size of the instance pool: each memory reserves 4 GiB of address space.
pub const INSTANCES_MAX: u32 = 1_024;

/// Core module instances in one component: the guest, and those that a component linker adds, for example one for each WASI
/// interface.
pub const CORE_INSTANCES_PER_COMPONENT_MAX: u32 = 64;

/// Memories that one component's modules have together. The manifest's limit applies to their sum.
pub const MEMORIES_PER_COMPONENT_MAX: u32 = 2;

/// Tables that one component's modules have together.
pub const TABLES_PER_COMPONENT_MAX: u32 = 4;

/// Bytes that a guest may pass to the host in one call. Checked before memory is allocated for them.
pub const HOSTCALL_BYTES_MAX: usize = 1 << 20;

/// Bytes of text in one verdict. It is stored with the decision and shown to people.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Bytes that are kept of what a guest writes, for the fault that may follow.
pub const WRITTEN_BYTES_MAX: usize = 4 << 10;

/// Items in each list of a verdict: reasons, obligations, the operands of each, counted subjects, groups, and the people of each.
pub const OUTPUT_ITEMS_MAX: usize = 128;

/// Distinct facts that one evaluation may read: they are stored with the decision.
pub const FACTS_READ_MAX: usize = 128;

/// Bytes of all names and values in a recorded evaluation that is repeated: some ten thousand permitted recipients.
pub const FACT_VALUES_BYTES_MAX: usize = 1 << 20;

/// Length of a fact's name, in bytes.
pub const FACT_NAME_BYTES_MAX: usize = 256;

/// Names of facts in one manifest.
pub const FACT_NAMES_MAX: usize = FACTS_READ_MAX;

/// Bytes of the bundle's data and of its log that one evaluation may read and write, which fuel does not measure. A policy text of a megabyte can be read
/// completely.
pub const DATA_BYTES_READ_MAX: usize = 4 << 20;

/// Bytes that a lookup counts at least towards [`DATA_BYTES_READ_MAX`]: following a pointer takes about as long as copying them.
pub const DATA_LOOKUP_BYTES: usize = 256;

/// Time between two ticks of the backstop clock, which measures the deadline of evaluations.
pub const TICK: Duration = Duration::from_millis(10);

/// Ticks after which an evaluation is stopped, even if it has fuel left. Normally the fuel runs out long before.
pub const DEADLINE_TICKS: u64 = 200;

/// The same for an attempt on the caller's own thread. Fuel does not measure all work: for example, a long fact is copied each
/// time that the guest reads it.
pub const DEADLINE_TICKS_INLINE: u64 = 2;

/// Evaluations that may wait for a worker pool. The longest takes some 50 ms, so the last one waits a few seconds.
pub const HEAVY_EVALUATIONS_WAITING_MAX: usize = 64;

/// Evaluations that may wait for the candidate bundle, about 2 KiB each. More are dropped.
pub const SHADOW_QUEUE_MAX: usize = 1_024;

/// Decisions that are kept in memory because the candidate bundle decides otherwise, about 5 KiB each: the latest ones.
pub const SHADOW_DIFFERENCES_MAX: usize = 100;

/// Highest sequence of a bundle or an activation record: an integer that JSON and SQLite represent exactly.
pub const SEQUENCE_MAX: u64 = 1 << 53;

/// Largest activation record or file of trust roots, in bytes.
pub const SIGNED_FILE_BYTES_MAX: u64 = 256 << 10;

/// Largest file of a bundle, in bytes.
pub const BUNDLE_FILE_BYTES_MAX: u64 = 32 << 20;

/// Bytes of all files of a bundle that another party offers. The largest interpreter that was measured has 13 MB.
pub const OFFER_BYTES_MAX: usize = 64 << 20;

/// Bundles that a verifier keeps: the active one, some before it for operations in progress, and a rollback.
pub const BUNDLES_TRUSTED_MAX: usize = 8;

/// How long a bundle may still admit operations after one with a higher sequence admitted the first, in milliseconds: operations
/// that were decided before the gateway activated the new bundle reach a verifier after those that were decided under it.
pub const SUPERSEDED_BUNDLE_MS: u64 = 600_000;

/// Most files of a bundle.
pub const BUNDLE_FILES_MAX: usize = 256;
