//! A bundle as the gateway runs it: a fresh instance for each evaluation, with fuel, clock and memory limits.

use crate::case::Case;
use crate::{Answer, Judge};
use gateway_domain::policy::Decision;
use gateway_domain::time::EpochMs;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use std::error::Error;
use std::path::Path;

pub(crate) struct Isolated(Evaluator);

impl Isolated {
    /// Loads the bundle of this name: verifies it and runs its vectors.
    pub(crate) fn load(engine: &PolicyEngine, name: &str) -> Result<Self, Box<dyn Error>> {
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
        let trust = TrustPolicy::parse(&std::fs::read(bundles.join("trust-development.json"))?)?;
        let files = BundleFiles::read(&bundles.join(name))?;
        let bundle = Bundle::verify(files, &trust, &Pins::default(), EpochMs(1))?;
        Ok(Self(Evaluator::load(engine, &bundle)?))
    }
}

impl Judge for Isolated {
    fn name(&self) -> String {
        format!("{}, isolated", self.0.bundle_id())
    }

    fn judge(&self, case: &Case) -> Answer {
        let judged = self.0.judge(&case.request(), &case.facts, u64::MAX);
        let decision = judged.decision().map_err(|fault| fault.kind())?;
        Ok(decision == Decision::Allow)
    }
}
