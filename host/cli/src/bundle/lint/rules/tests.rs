use super::*;
use gateway_policy::BundleFiles;
use gateway_policy::bundle::MANIFEST_FILE;
use std::path::Path;

const NOW: EpochMs = EpochMs(1_700_000_000_000);
const DAY_MS: u64 = 86_400_000;

/// The manifest of the default policy, which imports no WASI and never expires.
fn manifest() -> Manifest {
    let guard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/payment-guard");
    Manifest::parse(BundleFiles::read(&guard).unwrap().get(MANIFEST_FILE).unwrap()).unwrap()
}

/// The usage of vectors that cover everything that the manifest declares.
fn usage(manifest: &Manifest) -> Usage {
    let codes = manifest.reasons.iter().chain(&manifest.obligations).map(|it| it.code.clone());
    Usage {
        n_vectors: 2,
        codes: codes.collect(),
        facts: manifest.facts.iter().cloned().collect(),
        allows: true,
        denies: true,
        ..Usage::default()
    }
}

/// Level and rule of each finding.
fn findings_of(rule: impl FnOnce(&mut Findings)) -> Vec<(Level, &'static str)> {
    let mut findings = Findings(Vec::new());
    rule(&mut findings);
    findings.0.into_iter().map(|finding| (finding.level, finding.rule)).collect()
}

#[test]
fn missing_failing_and_one_sided_vectors_are_reported() {
    let check = |change: fn(&mut Usage)| {
        let mut usage = usage(&manifest());
        change(&mut usage);
        findings_of(|findings| vectors(&usage, findings))
    };
    assert_eq!(check(|_| ()), []);
    assert_eq!(check(|usage| usage.n_vectors = 0), [(Level::Error, "no_vectors")]);
    assert_eq!(check(|usage| usage.failures.push("a: b".into())), [(Level::Error, "vector_fails")]);
    assert_eq!(check(|usage| _ = usage.faults.insert("trap".into())), [(Level::Error, "vector_faults")]);
    assert_eq!(check(|usage| usage.allows = false), [(Level::Warning, "never_allows")]);
    assert_eq!(check(|usage| usage.denies = false), [(Level::Warning, "never_denies")]);
}

#[test]
fn declared_code_or_fact_that_no_vector_covers_is_reported() {
    let mut manifest = manifest();
    assert_eq!(findings_of(|findings| codes(&manifest, &usage(&manifest), findings)), []);
    let mut shown = usage(&manifest);
    shown.codes.pop_first();
    assert_eq!(
        findings_of(|findings| codes(&manifest, &shown, findings)),
        [(Level::Warning, "code_not_shown")]
    );

    manifest.facts = vec!["time.now_ms".into(), "velocity.*".into()];
    for (asked, n_found) in [
        (&["time.now_ms", "velocity.account.24h.units"][..], 0),
        (&["velocity.account.24h.units"], 1),
        (&["time.now_ms", "velocity"], 1),
        (&["time.now_ms.x", "velocit.*"], 2),
    ] {
        shown.facts = asked.iter().map(|name| (*name).to_owned()).collect();
        let all = findings_of(|findings| facts(&manifest, &shown, findings));
        assert_eq!(all, vec![(Level::Warning, "fact_not_asked"); n_found], "{asked:?}");
    }
}

#[test]
fn fact_that_only_the_gateway_knows_is_reported() {
    let mut manifest = manifest();
    for (declared, n_found) in [("pending.submitter.count", 1), ("pending.*", 1), ("time.now_ms", 0)] {
        manifest.facts = vec![declared.to_owned()];
        let shown = usage(&manifest);
        let all = findings_of(|findings| facts(&manifest, &shown, findings));
        assert_eq!(all.iter().filter(|found| found.1 == "fact_claimed").count(), n_found, "{declared}");
    }
}

#[test]
fn missing_text_and_missing_remedy_are_reported() {
    let check = |severity: Severity, text: &str, remedy: &str| {
        let mut manifest = manifest();
        let (text, remedy) = (text.to_owned(), remedy.to_owned());
        manifest.reasons = vec![Declaration { code: "x".into(), text, severity, remedy }];
        manifest.obligations = Vec::new();
        findings_of(|findings| texts(&manifest, findings))
    };
    assert_eq!(check(Severity::Error, "No.", "Action."), []);
    assert_eq!(check(Severity::Info, "Yes.", ""), []);
    assert_eq!(check(Severity::Info, " ", ""), [(Level::Error, "text_missing")]);
    assert_eq!(check(Severity::Warning, "Soon.", " "), [(Level::Warning, "remedy_missing")]);
    assert_eq!(check(Severity::Error, "No.", ""), [(Level::Warning, "remedy_missing")]);
}

#[test]
fn limits_too_low_or_far_too_high_are_reported() {
    let check = |limit: u64, used: u64| findings_of(|findings| headroom("fuel", limit, used, findings));
    assert_eq!(check(199, 100), [(Level::Warning, "headroom_small")]);
    assert_eq!(check(200, 100), []);
    assert_eq!(check(100_000, 100), []);
    assert_eq!(check(100_001, 100), [(Level::Note, "headroom_large")]);
}

#[test]
fn missing_end_near_end_and_past_end_of_validity_are_reported() {
    let check = |not_before_ms: Option<u64>, not_after_ms: Option<u64>| {
        let manifest = Manifest { not_before_ms, not_after_ms, ..manifest() };
        findings_of(|findings| validity(&manifest, NOW, findings))
    };
    let after_days = |n: u64| Some(NOW.0 + n * DAY_MS);
    assert_eq!(check(None, None), [(Level::Note, "never_expires")]);
    assert_eq!(check(None, after_days(14)), []);
    assert_eq!(check(None, after_days(13)), [(Level::Warning, "expires_soon")]);
    assert_eq!(check(None, Some(NOW.0)), [(Level::Warning, "expires_soon")], "its last instant");
    assert_eq!(check(None, Some(NOW.0 - 1)), [(Level::Error, "expired")]);
    assert_eq!(check(after_days(20), after_days(20)), []);
    assert_eq!(check(after_days(21), after_days(20)), [(Level::Error, "never_valid")]);
}

#[test]
fn large_component_is_reported() {
    assert_eq!(findings_of(|findings| size(COMPONENT_BYTES_USUAL, findings)), []);
    assert_eq!(findings_of(|findings| size(COMPONENT_BYTES_USUAL + 1, findings)), [(Level::Warning, "size")]);
}

#[test]
fn wasi_import_is_reported() {
    let mut manifest = manifest();
    assert_eq!(findings_of(|findings| imports(&manifest, findings)), []);
    manifest.capabilities.push("wasi:cli/environment@0.2.9".into());
    assert_eq!(findings_of(|findings| imports(&manifest, findings)), [(Level::Note, "wasi")]);
}

#[test]
fn strict_fails_on_warnings() {
    let report = |level: Level| super::super::Report {
        bundle_id: String::new(),
        version: String::new(),
        sequence: 1,
        bundle_hash: gateway_domain::ids::Hex32::ZERO,
        component_bytes: 0,
        n_vectors: 0,
        limits: manifest().limits,
        used: super::super::Used { fuel: 0, memory_bytes: 0 },
        findings: vec![Finding { level, rule: "x", text: String::new() }],
    };
    for (level, passes, passes_strict) in
        [(Level::Note, true, true), (Level::Warning, true, false), (Level::Error, false, false)]
    {
        let report = report(level);
        assert_eq!((report.passed(false), report.passed(true)), (passes, passes_strict), "{level:?}");
    }
}
