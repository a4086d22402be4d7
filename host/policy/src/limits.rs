//! Every limit of the policy host, with its reason.

use std::time::Duration;

/// Fuel (about one unit a wasm instruction) that any evaluation may use at most; a manifest may ask for less.
/// Around 50 ms of work: an order of magnitude above the heaviest rule set that was measured.
pub const FUEL_MAX: u64 = 50_000_000;

/// Fuel for the attempt that runs on the caller's own thread: around 100 us, too short to stall an async runtime.
/// The default policy needs about 6 700, and 64 000 with every data file it can have.
pub const FUEL_INLINE: u64 = 150_000;

/// Memory for the same attempt. Fuel does not measure page allocation: growing to [`MEMORY_BYTES_MAX`] takes ten times as
/// long as [`FUEL_INLINE`].
pub const MEMORY_BYTES_INLINE: usize = 1 << 20;

/// Most linear memory of a guest, all its memories together. A manifest may ask for less.
pub const MEMORY_BYTES_MAX: usize = 16 << 20;

/// Memory cleared by writing rather than by a system call when an instance ends: the default policy's whole memory.
/// A guest with more pays page faults for the rest.
pub const MEMORY_BYTES_KEPT: usize = 64 << 10;

/// As [`MEMORY_BYTES_KEPT`], for the tables a component's plumbing has. Without it every evaluation pays two system
/// calls a table: 15.4 us instead of 10.8 us for one evaluation of the default policy (with debug assertions on).
pub const TABLE_BYTES_KEPT: usize = 8 << 10;

/// Elements of one table of a guest: function pointers, of which a policy has few and a JavaScript engine 7,700. The pool
/// reserves address space for them, and pays only for what is written.
pub const TABLE_ELEMENTS_MAX: usize = 8_192;

/// Handles to resources that one evaluation may hold: the host keeps a slot for each.
pub const HANDLES_MAX: usize = 1_024;

/// Random bytes that one evaluation in the WASI world may request. The host computes them, which fuel does not measure.
pub const RANDOM_BYTES_MAX: usize = 64 << 10;

/// Native stack a guest may use; runtime threads have 2 MiB.
pub const STACK_BYTES_MAX: usize = 256 << 10;

/// Instances of one kind that exist at once at least; the pool grows with the machine's threads.
pub const INSTANCES_MIN: u32 = 64;

/// Instances that may exist at once at most, on however large a machine: each reserves 4 GiB of address space.
pub const INSTANCES_MAX: u32 = 1_024;

/// Core modules in one component: the guest, and what a component linker puts around it. A guest that imports WASI has
/// one for every interface; only the modules count that are really there.
pub const CORE_INSTANCES_PER_COMPONENT_MAX: u32 = 64;

/// Memories that one component's modules have together: a language runtime, and what was put around it. What they hold
/// together is held to the manifest's limit.
pub const MEMORIES_PER_COMPONENT_MAX: u32 = 2;

/// Tables that one component's modules have together.
pub const TABLES_PER_COMPONENT_MAX: u32 = 4;

/// Bytes a guest may pass to the host in one call, before anything is allocated for them.
pub const HOSTCALL_BYTES_MAX: usize = 1 << 20;

/// Text in one verdict. It is stored with every decision and shown to people.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Reasons, obligations, and counted subjects in one verdict, each.
pub const OUTPUT_ITEMS_MAX: usize = 128;

/// Distinct facts that one evaluation may read: they are stored with the decision.
pub const FACTS_READ_MAX: usize = 128;

/// Length of the name of a fact.
pub const FACT_NAME_BYTES_MAX: usize = 256;

/// Names of facts in one manifest.
pub const FACT_NAMES_MAX: usize = FACTS_READ_MAX;

/// Bytes of its own data that one evaluation may look up. Fuel does not measure lookups, so they have a limit of
/// their own. A policy text of a megabyte can still be read whole.
pub const DATA_BYTES_READ_MAX: usize = 4 << 20;

/// What the shortest lookup takes from [`DATA_BYTES_READ_MAX`]: walking a pointer costs about as much as copying this.
pub const DATA_LOOKUP_BYTES: usize = 256;

/// Time between two ticks of the backstop clock.
pub const TICK: Duration = Duration::from_millis(10);

/// Ticks after which an evaluation is stopped whatever fuel it has left. Fuel decides first on any machine that
/// works; this is for the one that does not.
pub const DEADLINE_TICKS: u64 = 200;

/// The same for the attempt on the caller's own thread. Fuel does not see everything: a long fact is copied again
/// each time it is asked for.
pub const DEADLINE_TICKS_INLINE: u64 = 2;

/// Evaluations that may wait for the worker pool. The longest takes some 50 ms, so the last one waits a few seconds, which
/// is less than a caller's timeout.
pub const HEAVY_EVALUATIONS_WAITING_MAX: usize = 64;

/// Evaluations that wait for the candidate bundle: a burst of submissions, about 2 KiB each. More are dropped.
pub const SHADOW_QUEUE_MAX: usize = 1_024;

/// Highest sequence of a bundle or an activation record: enough for any deployment, and within a database's integers.
pub const SEQUENCE_MAX: u64 = 1 << 53;

/// An activation record or trust roots, bytes.
pub const SIGNED_FILE_BYTES_MAX: u64 = 256 << 10;

/// One file of a bundle.
pub const BUNDLE_FILE_BYTES_MAX: u64 = 32 << 20;

/// Files of a bundle.
pub const BUNDLE_FILES_MAX: usize = 256;
