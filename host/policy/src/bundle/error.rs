//! Why a bundle is refused: one variant per cause.

use gateway_domain::canonical::CanonicalError;
use gateway_domain::dsse::EnvelopeError;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::Fault;

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The configuration is invalid, or the pool's address space cannot be reserved.
    #[error("the policy engine cannot start")]
    Wasmtime(#[source] wasmtime::Error),
    /// The thread whose ticks stop evaluations at their deadline cannot be started.
    #[error("the thread for the deadlines of policy evaluations cannot start")]
    Clock(#[source] std::io::Error),
}

/// Why a bundle, an activation record or a file of trust roots is refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message describes it; the fields are values in the message")]
pub enum BundleError {
    #[error("bundle file `{path}` cannot be read")]
    Read { path: String, source: std::io::Error },
    #[error(
        "`{path}` is not a bundle's folder, and not an archive that `operation-gateway bundle pack` wrote"
    )]
    Archive { path: String, source: std::io::Error },
    #[error("the name `{0}` is too long for an archive: at most 100 characters after the folder")]
    ArchiveName(String),
    #[error("bundle file name `{0}` is not allowed")]
    FileName(String),
    #[error("bundle entry `{0}` is neither a regular file nor a known folder")]
    NotAFile(String),
    #[error("bundle file `{file}` is larger than {bytes_max} bytes")]
    FileTooLarge { file: String, bytes_max: u64 },
    #[error("the bundle has more than {0} files")]
    TooManyFiles(usize),
    #[error(
        "the folder has the sources of a policy: name the folder `{}` in it, once `operation-gateway bundle build` and `bundle sign` \
         have completed it",
        super::SOURCE_BUNDLE
    )]
    SourceFolder,
    #[error("bundle file `{0}` is missing")]
    MissingFile(String),
    #[error("bundle file `{0}` is not in the manifest")]
    UnknownFile(String),
    #[error("bundle file `{file}` was changed: its hash is `{actual}`, and the manifest has `{expected}`")]
    Tampered { file: String, expected: Hex32, actual: Hex32 },

    #[error("`{file}` is not valid: {fault}")]
    Json { file: String, fault: String },
    #[error("`{0}` is not UTF-8 text")]
    NotText(String),
    #[error("`{file}` contains the key `{key}` twice in one object")]
    DuplicateKey { file: String, key: String },
    #[error("`{file}` has an unknown member, a null, or a list in place of an object at `{pointer}`")]
    NotStrict { file: String, pointer: String },
    #[error("`{file}` has no canonical form")]
    Canonical { file: String, source: CanonicalError },
    #[error(
        "the manifest is for world `{found}`, but this gateway runs only `{}` and `{}`",
        super::WORLD,
        super::WASI_WORLD
    )]
    World { found: String },
    #[error("bundle id or version `{0}` is not allowed")]
    Name(String),
    #[error(
        "code `{0}` is not allowed: use lower case letters, digits and `_`, and no code that begins with `policy_fault`"
    )]
    Code(String),
    #[error("code `{0}` is declared twice")]
    DuplicateCode(String),
    #[error(
        "fact name `{0}` is not allowed: use words of lower case letters, digits and `_`, joined by dots; the last may be `*`"
    )]
    FactName(String),
    #[error("there is no fact `{0}`: `wit/policy.wit` lists those that a deployment offers")]
    UnknownFact(String),
    #[error("fact `{0}` is out of order: the manifest lists each fact once, in ascending order")]
    FactOrder(String),
    #[error("the manifest lists more than {0} facts")]
    TooManyFacts(usize),
    #[error("the manifest requests {requested} {what}; at least 1 and at most {max} are allowed")]
    Limit { what: &'static str, requested: u64, max: u64 },

    #[error("trust roots: {0}")]
    TrustRoots(String),
    #[error("the signature in `{file}` is not valid")]
    Signature { file: String, source: EnvelopeError },
    #[error("`manifest.json` differs from the content that `{file}` signs")]
    ManifestChanged { file: String },
    #[error(
        "role `{role}` has {have} of {need} signatures by trusted keys{}{}",
        unsatisfiable(*.need, *.n_unrevoked),
        not_counted(.ignored)
    )]
    RoleUnmet { role: String, have: usize, need: usize, n_unrevoked: usize, ignored: Vec<String> },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("there are no trust roots: the file cannot be read, or has none")]
    NoTrustRoots,
    #[error(
        "the activation record {sequence} that activated the bundle no longer has enough trusted signatures"
    )]
    ActivationUnconfirmed { sequence: u64, source: Box<BundleError> },
    #[error("bundle `{0}` is not among the pinned ones")]
    NotPinned(Hex32),
    #[error("bundle is not valid before {not_before_ms} ms; the time is {now_ms} ms")]
    NotYetValid { not_before_ms: u64, now_ms: u64 },
    #[error("bundle expired at {not_after_ms} ms; the time is {now_ms} ms")]
    Expired { not_after_ms: u64, now_ms: u64 },
    #[error(
        "bundle sequence {offered} is not above {reached}, which has been activated already: raise `sequence` in `manifest.json`, \
         or return to an earlier bundle with `bundle rollback`"
    )]
    Rollback { offered: u64, reached: u64 },

    #[error("sequence {offered} is above the limit of {max}", max = crate::limits::SEQUENCE_MAX)]
    Sequence { offered: u64 },
    #[error("no bundle `{0}` is in the store or in the folder")]
    UnknownBundle(Hex32),
    #[error("the gateway failed while it checked the bundle")]
    Panicked,
    #[error("the activation record's reason must be 1 to {max} bytes", max = super::REASON_BYTES_MAX)]
    Reason,
    #[error("the activation record expired at {not_after_ms} ms; the time is {now_ms} ms")]
    ActivationExpired { not_after_ms: u64, now_ms: u64 },

    #[error("the component imports `{0}`, which the manifest does not declare")]
    UndeclaredImport(String),
    #[error("the manifest declares `{0}`, which the component does not import")]
    UnusedCapability(String),
    #[error("the component imports `{0}`, which its world does not provide")]
    UnknownCapability(String),
    #[error(
        "the component imports `{0}`, which only the world `{wasi}` provides: name it as `world` in `manifest.json`, or build the \
         component without WASI",
        wasi = super::WASI_WORLD
    )]
    NeedsWasi(String),
    #[error("`policy.wasm` is not a component of the manifest's world")]
    Component(#[source] wasmtime::Error),
    #[error(
        "`policy.wasm` is a core module of WebAssembly, not a component: build it with `operation-gateway bundle build` from sources \
         with the SDK, or for the target `wasm32-wasip2`, or turn it into one with `wasm-tools component new`"
    )]
    CoreModule,
    #[error("calling `describe` of `policy.wasm` failed: {0}")]
    Describe(Fault),
    #[error(
        "the bundle has no test vectors: add at least one to `tests/`, with the verdict that it must give"
    )]
    NoVectors,
    #[error("test vector `{name}` of `{file}` gives {actual}, and not {expected}")]
    Vector { file: String, name: String, expected: String, actual: String },
}

fn unsatisfiable(need: usize, n_unrevoked: usize) -> String {
    if n_unrevoked < need {
        format!("; {n_unrevoked} of its keys are not revoked, so no bundle can satisfy it")
    } else {
        String::new()
    }
}

fn not_counted(files: &[String]) -> String {
    if files.is_empty() {
        String::new()
    } else {
        format!("; not counted, as their keys are unknown or revoked: `{}`", files.join("`, `"))
    }
}
