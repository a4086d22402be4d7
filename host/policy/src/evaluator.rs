//! A loaded bundle: linked once, with a fresh store and instance for every evaluation.

use crate::bindings::svc::policy::types as wit;
use crate::bindings::{Policy, PolicyPre};
use crate::bundle::{Bundle, BundleError, Declaration, Expectation, Vector, World};
use crate::convert::{self, Owned};
use crate::data::Data;
use crate::engine::Pooled;
use crate::fact_names::FactNames;
use crate::fault::{self, fault, quoted};
use crate::limits::{
    DEADLINE_TICKS, DEADLINE_TICKS_INLINE, FUEL_INLINE, FUEL_MAX, HANDLES_MAX, HOSTCALL_BYTES_MAX,
    MEMORY_BYTES_INLINE, MEMORY_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_ITEMS_MAX,
};
use crate::outcome::{RawEvaluation, Verdict};
use crate::state::{Contents, State};
use crate::{PolicyEngine, outcome, wasi};
use gateway_domain::ids::Hex32;
use gateway_domain::policy::spending::Parties;
use gateway_domain::policy::{
    Facts, Fault, FaultKind, InvalidObligation, Outcome, Request, Statement, TimeLimits,
};
use gateway_domain::time::EpochMs;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wasmtime::Store;

/// A bundle's component, compiled and linked.
pub struct Evaluator {
    engine: Pooled,
    world: World,
    pre: PolicyPre<State>,
    bundle_id: String,
    bundle_hash: Hex32,
    sequence: u64,
    reasons: BTreeMap<String, Declaration>,
    obligations: BTreeMap<String, Declaration>,
    contents: Arc<Contents>,
    fuel_max: u64,
    memory_bytes_max: usize,
    not_before: Option<EpochMs>,
    not_after: Option<EpochMs>,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { bundle_id, bundle_hash, sequence, .. } = self;
        write!(f, "Evaluator({bundle_id} {sequence} {bundle_hash})")
    }
}

impl Evaluator {
    /// Links the bundle ([`Evaluator::link`]) and runs its test vectors, as an activation requires.
    ///
    /// # Errors
    /// [`BundleError`] for the component, an import, a data file, the first vector with another verdict than expected, or a bundle
    /// without vectors.
    pub fn load(engine: &PolicyEngine, bundle: &Bundle) -> Result<Self, BundleError> {
        let loaded = Self::link(engine, bundle)?;
        self_test(&loaded, bundle)?;
        Ok(loaded)
    }

    /// Compiles and links a verified bundle, compares its imports with its manifest, parses its data, and calls `describe`. Does
    /// not run its test vectors.
    ///
    /// # Errors
    /// [`BundleError`] for the component, an import, or a data file.
    pub fn link(engine: &PolicyEngine, bundle: &Bundle) -> Result<Self, BundleError> {
        let limits = bundle.manifest().limits;
        let memory_bytes_max = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
        let engine = engine.for_memory(memory_bytes_max)?;
        let component = engine.compile(bundle.component()?)?;
        let world = World::parse(&bundle.manifest().world)?;
        check_imports(&engine.imports(&component), &bundle.manifest().capabilities, world)?;
        let pre = engine.link(&component, world).map_err(BundleError::Component)?;
        let linked = Self {
            engine,
            world,
            pre: PolicyPre::new(pre).map_err(BundleError::Component)?,
            bundle_id: bundle.manifest().bundle_id.clone(),
            bundle_hash: bundle.hash(),
            sequence: bundle.manifest().sequence,
            reasons: by_code(&bundle.manifest().reasons),
            obligations: by_code(&bundle.manifest().obligations),
            contents: Arc::new(Contents {
                data: Data::new(bundle.data()?),
                fact_names: FactNames::new(bundle.manifest().facts.clone()),
            }),
            fuel_max: limits.fuel,
            memory_bytes_max,
            not_before: bundle.manifest().not_before_ms.map(EpochMs),
            not_after: bundle.manifest().not_after_ms.map(EpochMs),
        };
        linked.describe().map_err(BundleError::Describe)?;
        Ok(linked)
    }

    /// The bundle's id.
    #[must_use]
    pub fn bundle_id(&self) -> &str {
        &self.bundle_id
    }

    /// The bundle's hash: SHA-256 of its canonical manifest.
    #[must_use]
    pub const fn bundle_hash(&self) -> Hex32 {
        self.bundle_hash
    }

    /// The manifest's sequence.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the bundle is valid at `now`. If `now` is `None`, only a bundle without a validity period is.
    #[must_use]
    pub fn is_valid_at(&self, now: Option<EpochMs>) -> bool {
        self.not_before.is_none_or(|not_before| now.is_some_and(|now| now >= not_before))
            && self.not_after.is_none_or(|not_after| now.is_some_and(|now| now <= not_after))
    }

    /// Whether the policy may read a fact whose name begins with `prefix`.
    #[must_use]
    pub fn may_read_facts(&self, prefix: &str) -> bool {
        self.contents.fact_names.has_prefix(prefix)
    }

    /// The currencies in which the policy may read payments over time, beside that of the payment.
    #[must_use]
    pub fn currencies(&self) -> BTreeSet<String> {
        self.contents.fact_names.currencies()
    }

    /// Those of a payment's parties of whom the policy may read what they paid, and in which currencies; `None` without any.
    #[must_use]
    pub fn read_parties(&self, parties: Parties) -> Option<Parties> {
        parties.read_by(|facts| self.may_read_facts(facts), self.currencies())
    }

    /// What the manifest says of this reason, or else of this obligation; `None` if it declares neither.
    #[must_use]
    pub fn reason(&self, code: &str) -> Option<&Declaration> {
        self.reasons.get(code).or_else(|| self.obligations.get(code))
    }

    pub(crate) fn fact_names(&self) -> &FactNames {
        &self.contents.fact_names
    }

    /// The most fuel that an evaluation may use, from the manifest.
    #[must_use]
    pub const fn fuel_max(&self) -> u64 {
        self.fuel_max
    }

    /// Evaluates a request with at most `fuel`, or the manifest's fuel if that is less.
    ///
    /// The same request and facts give the same outcome and the same fuel used if `fuel` suffices, unless the evaluation has a
    /// fault [of the host](Outcome::host_fault).
    #[must_use]
    pub fn evaluate(&self, request: &Request<'_>, facts: &Facts, fuel: u64) -> Outcome {
        self.complete(request, self.evaluate_raw(request, facts, fuel))
    }

    /// Completes a raw evaluation of this request with bundle and digests.
    #[must_use]
    pub fn complete(&self, request: &Request<'_>, raw: RawEvaluation) -> Outcome {
        outcome::complete(request, &self.bundle_id, self.bundle_hash, raw)
    }

    /// The DENY for a request that this bundle was not run for, because of this fault.
    #[must_use]
    pub fn not_evaluated(&self, request: &Request<'_>, kind: FaultKind) -> Outcome {
        self.complete(request, RawEvaluation::failed(kind.into()))
    }

    /// As [`Evaluator::evaluate`], without bundle and digests.
    #[must_use]
    pub fn evaluate_raw(&self, request: &Request<'_>, facts: &Facts, fuel: u64) -> RawEvaluation {
        self.evaluate_within(request, facts, RunLimits { fuel, ..RunLimits::FULL })
    }

    /// Evaluates on the caller's thread within the inline limits. `None` if they do not suffice; always `None` in the WASI
    /// world, whose functions may block.
    #[must_use]
    pub fn evaluate_inline(&self, request: &Request<'_>, facts: &Facts) -> Option<RawEvaluation> {
        if self.world == World::Wasi {
            return None;
        }
        let raw = self.evaluate_within(request, facts, RunLimits::INLINE);
        match raw.fault_kind() {
            Some(FaultKind::OutOfFuel) if self.fuel_max > FUEL_INLINE => None,
            Some(FaultKind::Memory) if self.memory_bytes_max > MEMORY_BYTES_INLINE => None,
            Some(FaultKind::Deadline) => None,
            _ => Some(raw),
        }
    }

    fn evaluate_within(&self, request: &Request<'_>, facts: &Facts, run_limits: RunLimits) -> RawEvaluation {
        let run = || {
            let mut store = self.store(facts.clone(), run_limits);
            if self.world == World::Wasi {
                store.data_mut().seed(outcome::input_hash(request));
            }
            let verdict = self.call(&mut store, request);
            let fuel_max = run_limits.fuel.min(self.fuel_max);
            let fuel_used = fuel_max.saturating_sub(store.get_fuel().unwrap_or(0));
            let mut state = store.into_data();
            let verdict = verdict
                .and_then(|verdict| self.check(verdict, request, &mut state))
                .map_err(|fault| explained(fault, fuel_max, &state));
            let memory_bytes = state.memory_bytes();
            let (facts, documents) = state.into_read();
            RawEvaluation { verdict, fuel_used, memory_bytes, facts, documents }
        };
        let run = catch_unwind(AssertUnwindSafe(|| self.run(run)));
        run.unwrap_or_else(|_| RawEvaluation::failed(FaultKind::Panicked.into()))
    }

    /// Evaluates a request and returns the instance instead of the verdict, to measure the memory of many instances.
    ///
    /// # Errors
    /// [`Fault`] when there is no verdict.
    pub fn evaluate_and_retain(
        &self,
        request: &Request<'_>,
        facts: &Facts,
    ) -> Result<RetainedInstance, Fault> {
        self.run(|| {
            let mut store = self.store(facts.clone(), RunLimits::FULL);
            self.call(&mut store, request).map(|_| RetainedInstance { _store: store })
        })
    }

    #[cfg(test)]
    pub(crate) fn unlimited_fuel_for_tests(&mut self) {
        self.fuel_max = u64::MAX;
    }

    /// Calls the policy's `describe`, which returns its name and version.
    ///
    /// # Errors
    /// [`Fault`] when the call failed.
    pub fn describe(&self) -> Result<String, Fault> {
        self.run(|| {
            let mut store = self.store(Facts::default(), RunLimits::FULL);
            let policy = self.instantiate(&mut store);
            let described =
                policy.and_then(|policy| policy.call_describe(&mut store).map_err(|error| fault::of(&error)));
            described.map_err(|fault| explained(fault, self.fuel_max, store.data()))
        })
    }

    /// Runs `work`, in the WASI world where its functions may block.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.world {
            World::Pure => work(),
            World::Wasi => wasi::run_blocking(work),
        }
    }

    /// A store with all limits set. They apply to instantiation too, which runs the guest's start functions.
    fn store(&self, facts: Facts, RunLimits { fuel, memory_bytes, ticks }: RunLimits) -> Store<State> {
        let memory_bytes_max = memory_bytes.min(self.memory_bytes_max);
        let mut store = Store::new(
            self.engine.wasmtime(),
            State::new(facts, Arc::clone(&self.contents), memory_bytes_max),
        );
        store.limiter(|state| state);
        // Fails only if fuel is disabled in the engine's configuration, which it is not.
        let _ = store.set_fuel(fuel.min(self.fuel_max));
        store.set_epoch_deadline(ticks);
        store.set_hostcall_fuel(HOSTCALL_BYTES_MAX);
        store.set_max_component_handles(HANDLES_MAX);
        store
    }

    fn instantiate(&self, store: &mut Store<State>) -> Result<Policy, Fault> {
        self.pre.instantiate(store).map_err(|error| fault::of(&error))
    }

    fn call(&self, store: &mut Store<State>, request: &Request<'_>) -> Result<wit::Verdict, Fault> {
        let owned = Owned::of(request);
        let approvals = owned.approvals(request.approvals);
        let instance = self.instantiate(store)?;
        let verdict = instance.call_evaluate(store, owned.request(request, &approvals));
        verdict.map_err(|error| fault::of(&error))
    }

    /// Checks a verdict: its size, that its codes are declared, that its quorum is possible, and the operands that the host reads.
    fn check(
        &self,
        verdict: wit::Verdict,
        request: &Request<'_>,
        state: &mut State,
    ) -> Result<Verdict, Fault> {
        check_size(&verdict)?;
        let wit::Verdict { decision, reasons, obligations, quorum } = verdict;
        let reason = reasons.iter().find(|reason| !self.reasons.contains_key(&reason.code));
        let obligation =
            obligations.iter().find(|obligation| !self.obligations.contains_key(&obligation.code));
        if let Some(undeclared) = reason.or(obligation) {
            return Err(fault(FaultKind::UndeclaredCode, quoted(&undeclared.code)));
        }
        let quorum = convert::quorum(quorum, request.approvals);
        let quorum = quorum.map_err(|what| fault(FaultKind::BadOutput, what))?;
        quorum.check().map_err(|what| fault(FaultKind::BadOutput, what))?;
        let (reasons, obligations) = (convert::statements(reasons), convert::statements(obligations));
        check_times(&obligations, state)?;
        Ok(Verdict { decision: convert::decision(decision), reasons, obligations, quorum })
    }
}

/// Checks the times in the host's own obligations. One that is too far away is known by `time.now_ms`, which counts as read then, so that
/// a repetition has the same fault.
fn check_times(obligations: &[Statement], state: &mut State) -> Result<(), Fault> {
    let invalid = |error: InvalidObligation| fault(FaultKind::BadOutput, error.to_string());
    let limits = TimeLimits::parse(obligations).map_err(invalid)?;
    if limits.admit_not_before.is_none() {
        return Ok(());
    }
    let now_ms = state.now_ms().map_err(|error| fault::of(&error))?;
    limits.check_wait(EpochMs(now_ms)).map_err(invalid)
}

/// What one evaluation may use, if the manifest does not allow less.
#[derive(Clone, Copy, Debug)]
struct RunLimits {
    fuel: u64,
    memory_bytes: usize,
    ticks: u64,
}

impl RunLimits {
    /// As much as any manifest can allow.
    const FULL: Self = Self { fuel: FUEL_MAX, memory_bytes: MEMORY_BYTES_MAX, ticks: DEADLINE_TICKS };
    /// So little that the evaluation may run on a thread of the async runtime.
    const INLINE: Self =
        Self { fuel: FUEL_INLINE, memory_bytes: MEMORY_BYTES_INLINE, ticks: DEADLINE_TICKS_INLINE };
}

/// An instance after its evaluation, with its memory.
pub struct RetainedInstance {
    _store: Store<State>,
}

impl std::fmt::Debug for RetainedInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetainedInstance").finish_non_exhaustive()
    }
}

fn by_code(declarations: &[Declaration]) -> BTreeMap<String, Declaration> {
    declarations.iter().map(|declaration| (declaration.code.clone(), declaration.clone())).collect()
}

/// Checks that the component imports exactly what its manifest declares, and nothing that its world does not provide.
fn check_imports(imports: &[String], declared: &[String], world: World) -> Result<(), BundleError> {
    if let Some(import) = imports.iter().find(|import| !declared.contains(import)) {
        return Err(BundleError::UndeclaredImport(import.clone()));
    }
    if let Some(capability) = declared.iter().find(|capability| !imports.contains(capability)) {
        return Err(BundleError::UnusedCapability(capability.clone()));
    }
    match imports.iter().find(|import| !world.provides(import)) {
        Some(import) if World::Wasi.provides(import) => Err(BundleError::NeedsWasi(import.clone())),
        Some(import) => Err(BundleError::UnknownCapability(import.clone())),
        None => Ok(()),
    }
}

fn check_size(verdict: &wit::Verdict) -> Result<(), Fault> {
    let wit::Verdict { reasons, obligations, quorum: wit::Quorum { subjects, groups, .. }, .. } = verdict;
    let statements = || reasons.iter().chain(obligations);
    let operands = statements().flat_map(|it| &it.operands).flat_map(|it| [&it.name, &it.value]);
    let in_groups = groups.iter().flat_map(|it| std::iter::once(&it.name).chain(&it.have));
    let texts = statements().map(|it| &it.code).chain(operands).chain(subjects).chain(in_groups);
    let n_bytes = texts.map(String::len).fold(0, usize::saturating_add);
    if n_bytes > OUTPUT_BYTES_MAX {
        let detail = format!("{n_bytes} bytes of text, {OUTPUT_BYTES_MAX} are allowed");
        return Err(fault(FaultKind::OutputTooLarge, detail));
    }
    let lists = [reasons.len(), obligations.len(), subjects.len(), groups.len()];
    let of_statements = statements().map(|it| it.operands.len());
    let n_items = lists.into_iter().chain(of_statements).chain(groups.iter().map(|it| it.have.len()));
    match n_items.into_iter().find(|n_items| *n_items > OUTPUT_ITEMS_MAX) {
        None => Ok(()),
        Some(n_items) => {
            let detail = format!("{n_items} items in a list, {OUTPUT_ITEMS_MAX} are allowed");
            Err(fault(FaultKind::OutputTooLarge, detail))
        }
    }
}

/// The fault of a guest with what it had, and what it wrote.
fn explained(Fault { kind, detail }: Fault, fuel_max: u64, state: &State) -> Fault {
    let detail = match kind {
        FaultKind::OutOfFuel => format!("{fuel_max} fuel, all that is allowed"),
        _ => detail,
    };
    let written = state.written().map(|written| format!("the policy wrote: {written}"));
    let detail = [Some(detail).filter(|detail| !detail.is_empty()), written];
    Fault { kind, detail: detail.into_iter().flatten().collect::<Vec<_>>().join("; ") }
}

impl Evaluator {
    /// The policy's verdict on a vector, with the manifest's limits. `file` is the vector's file, for errors.
    ///
    /// # Errors
    /// [`BundleError`] for a vector that is not a valid request to this bundle.
    pub fn answer(&self, file: &str, vector: &Vector) -> Result<Expectation, BundleError> {
        self.outcome(file, vector).map(Expectation::from)
    }

    /// As [`Evaluator::answer`], with texts, facts and fault.
    pub fn outcome(&self, file: &str, vector: &Vector) -> Result<Outcome, BundleError> {
        let (request, facts) = (vector.request(file)?, self.facts_of(file, vector)?);
        Ok(self.evaluate(&request, &facts, self.fuel_max()))
    }

    /// The first fact that the vector sets and this policy may not read, so that the policy cannot answer the vector.
    #[must_use]
    pub fn undeclared_fact(&self, vector: &Vector) -> Option<String> {
        vector.undeclared_fact(self.fact_names())
    }

    /// The facts that a vector sets. `file` is the vector's file, for errors.
    ///
    /// # Errors
    /// [`BundleError::Json`] for a fact that this policy may not read.
    pub fn facts_of(&self, file: &str, vector: &Vector) -> Result<Facts, BundleError> {
        vector.facts(file, self.fact_names())
    }
}

/// Runs all vectors with the manifest's limits.
///
/// # Errors
/// [`BundleError::NoVectors`] if there are none; [`BundleError::Vector`] for the first vector with another verdict than expected.
fn self_test(evaluator: &Evaluator, bundle: &Bundle) -> Result<(), BundleError> {
    let vectors = bundle.vectors()?;
    if vectors.is_empty() {
        return Err(BundleError::NoVectors);
    }
    for (file, vector) in vectors {
        let outcome = evaluator.outcome(&file, &vector)?;
        let fault = outcome.fault.as_ref().map(|fault| format!("the fault {fault}"));
        let actual = Expectation::from(outcome);
        if actual != vector.expect {
            return Err(BundleError::Vector {
                file,
                name: vector.name,
                expected: vector.expect.to_string(),
                actual: fault.unwrap_or_else(|| actual.to_string()),
            });
        }
    }
    Ok(())
}
