//! The counts as a file, and the page `host/docs/faults.md` that is made of them.

use crate::faults::{Counts, Ends, Fault};
use crate::gaps::Gap;
use crate::mutants::{MUTANTS, Mutant};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Counts with the seeds that they are of. A run that was interrupted continues after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// First seeds, each with the first seed that was not run.
    pub(crate) seeds: Vec<(u64, u64)>,
    /// Orders of each run.
    pub(crate) n_orders: usize,
    pub(crate) counts: Counts,
}

fn numbers(of: &BTreeMap<String, u64>) -> Value {
    of.iter().map(|(name, n)| (name.clone(), json!(n))).collect::<serde_json::Map<_, _>>().into()
}

fn read_numbers(from: &Value) -> BTreeMap<String, u64> {
    from.as_object().unwrap().iter().map(|(name, n)| (name.clone(), n.as_u64().unwrap())).collect()
}

impl Report {
    /// The report in this file; `None` if the file does not exist.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let json: Value = serde_json::from_slice(&std::fs::read(path).ok()?).unwrap();
        let mut counts = Counts::default();
        for (name, n) in counts.totals() {
            *n = json["totals"][name].as_u64().unwrap();
        }
        counts.violations = read_numbers(&json["violations"]);
        counts.failures = read_numbers(&json["failures"]);
        counts.gaps = read_numbers(&json["gaps"]);
        for (at, ends) in json["faults"].as_object().unwrap() {
            let (fault, point) = at.split_once(' ').unwrap();
            let [n_published, n_failed, n_none] = [0, 1, 2].map(|index| ends[index].as_u64().unwrap());
            counts
                .faults
                .insert((fault.to_owned(), point.to_owned()), Ends { n_published, n_failed, n_none });
        }
        let seed = |value: &Value| value.as_u64().unwrap();
        let seeds = json["seeds"].as_array().unwrap().iter().map(|range| (seed(&range[0]), seed(&range[1])));
        let n_orders = usize::try_from(seed(&json["orders"])).unwrap();
        Some(Self { seeds: seeds.collect(), n_orders, counts })
    }

    /// Replaces the file at once, so that an interrupted run leaves a whole one.
    pub(crate) fn write(&self, path: &Path) {
        let mut counts = self.counts.clone();
        let totals: BTreeMap<String, u64> =
            counts.totals().into_iter().map(|(name, n)| (name.to_owned(), *n)).collect();
        let faults: serde_json::Map<_, _> = counts
            .faults
            .iter()
            .map(|((fault, point), ends)| {
                let ends = json!([ends.n_published, ends.n_failed, ends.n_none]);
                (format!("{fault} {point}"), ends)
            })
            .collect();
        let json = json!({
            "seeds": self.seeds,
            "orders": self.n_orders,
            "totals": numbers(&totals),
            "violations": numbers(&counts.violations),
            "failures": numbers(&counts.failures),
            "gaps": numbers(&counts.gaps),
            "faults": faults,
        });
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, serde_json::to_string_pretty(&json).unwrap() + "\n").unwrap();
        std::fs::rename(unfinished, path).unwrap();
    }

    /// The sum of the reports in a folder, which have different seeds.
    pub(crate) fn sum(folder: &Path) -> Self {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut sum = Self::default();
        for report in files.iter().filter_map(|path| Self::read(path)) {
            sum.seeds.extend(report.seeds);
            assert!([0, report.n_orders].contains(&sum.n_orders), "runs of different lengths");
            sum.n_orders = report.n_orders;
            sum.counts.add(report.counts);
        }
        sum.seeds.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, end) in sum.seeds {
            match joined.last_mut() {
                Some((_, before)) if first < *before => panic!("seeds from {first} are counted twice"),
                Some((_, before)) if first == *before => *before = end,
                _ => joined.push((first, end)),
            }
        }
        Self { seeds: joined, ..sum }
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let mut page = INTRODUCTION.to_owned();
        self.write_totals(&mut page);
        self.write_faults(&mut page);
        self.write_gaps(&mut page);
        page.push_str("\n## Changed code\n\n");
        page.push_str("The product was changed by hand, one line of the table at a time, and seeds were run from 0.\n\n");
        page.push_str("| change | found as | by seed |\n|---|---|---|\n");
        for Mutant { change, found, seed } in MUTANTS {
            let _ = writeln!(page, "| {change} | {found} | {seed} |");
        }
        page
    }

    fn write_totals(&self, page: &mut String) {
        let Counts { n_runs, n_operations, n_messages, cpu_ms, .. } = self.counts;
        let seeds: Vec<String> = self.seeds.iter().map(|(from, to)| format!("{from}..{to}")).collect();
        let _ = writeln!(page, "\n## Counts\n");
        let _ = writeln!(
            page,
            "{n_runs} runs of {} orders, seeds {}, in {} s of processor time in release: {:.2} ms an operation, {:.0} operations a \
             second of one core, {:.1} messages an operation.\n",
            self.n_orders,
            seeds.join(", "),
            cpu_ms / 1000,
            ratio(cpu_ms, n_operations),
            1000.0 / ratio(cpu_ms, n_operations),
            ratio(n_messages, n_operations),
        );
        let Counts { n_published, n_failed, n_shares, n_key_changes, n_keys, .. } = self.counts;
        let _ = writeln!(page, "| | |\n|---|---:|");
        let rows = [
            ("operations", n_operations),
            ("of them published", n_published),
            ("of them failed", n_failed),
            ("of them operations on keys", n_key_changes),
            ("signature shares that nodes released", n_shares),
            ("keys that signed at the end", n_keys),
        ];
        for (name, n) in rows {
            let _ = writeln!(page, "| {name} | {n} |");
        }
        let _ = writeln!(page, "\nViolations, which must all be 0:\n\n| | |\n|---|---:|");
        for (kind, what) in VIOLATIONS {
            let n = self.counts.violations.get(*kind).copied().unwrap_or_default();
            let _ = writeln!(page, "| `{kind}`: {what} | {n} |");
        }
        let codes: Vec<String> =
            self.counts.failures.iter().map(|(code, n)| format!("`{code}` {n}")).collect();
        let _ = writeln!(page, "\nFailed operations by code: {}.", codes.join(", "));
    }

    fn write_faults(&self, page: &mut String) {
        let _ = writeln!(page, "\n## Faults\n\n| fault | what happens |\n|---|---|");
        for fault in Fault::ALL {
            let _ = writeln!(page, "| `{}` | {} |", fault.name(), fault.text());
        }
        let _ = writeln!(
            page,
            "\nHow the operation ended that met the fault at this point. Faults without an operation (a process that crashed while idle, a \
             request that created none) are in the last column; after them, too, everything else came to rest.\n"
        );
        page.push_str("| fault | point | published | failed | no operation |\n|---|---|---:|---:|---:|\n");
        for fault in Fault::ALL {
            for ((name, point), ends) in &self.counts.faults {
                if Fault::named(name) == Some(fault) {
                    let Ends { n_published, n_failed, n_none } = ends;
                    let _ = writeln!(page, "| `{name}` | {point} | {n_published} | {n_failed} | {n_none} |");
                }
            }
        }
    }

    fn write_gaps(&self, page: &mut String) {
        page.push_str(
            "\n## Known gaps\n\nFound by the simulation, not corrected, and counted separately. [ADR 56](adr/0056-what-cannot-be-decided-stays-open.md) says why.\n\n",
        );
        page.push_str("| gap | what happens | cases |\n|---|---|---:|\n");
        for gap in Gap::ALL {
            let n = self.counts.gaps.get(gap.name()).copied().unwrap_or_default();
            let _ = writeln!(page, "| `{}` | {} | {n} |", gap.name(), gap.text());
        }
        let is_fixed = |name: &&String| Gap::ALL.iter().all(|gap| gap.name() != name.as_str());
        for name in self.counts.gaps.keys().filter(is_fixed) {
            let n = self.counts.gaps.get(name).copied().unwrap_or_default();
            let _ = writeln!(
                page,
                "\nCounted before it was fixed: `{name}` {n} times. Since then it would be a violation."
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "rounded for a page")]
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

/// The kinds of violations, each with what it means.
pub(crate) const VIOLATIONS: &[(&str, &str)] = &[
    ("unapproved", "S1, a share without the approvals, the decision and the policy's `ALLOW`"),
    ("nonce-reuse", "S2, nonces used for two packages"),
    ("second-share", "S2, two packages of one attempt signed by one node"),
    ("second-signature", "S2, two packages of one operation completed, and a node signed both"),
    ("retired-epoch", "S2, a share under an epoch that the node has left"),
    ("early-erasure", "S3, shares promoted or erased before the new ones are at all receivers"),
    ("lost-key", "S3, a key that does not sign when the faults are over"),
    ("hidden-share", "S4, a released share that no event explains"),
    ("unlogged-share", "S4, a share that left a node whose log does not have it"),
    ("rollback", "S2, a step of a restored node that was shown a later receipt of its own"),
    ("unknown", "S4, a step in a node's log of an operation that the gateway does not have"),
    ("fold", "an operation that is not the fold of its events"),
    ("store", "a store that differs from what was written, or that `ledger fsck` finds damaged"),
    ("stuck", "an operation that does not come to rest when the faults are over"),
    ("deadlock", "requests without an end"),
    ("error", "a request that ended with an internal error or a damaged record"),
];

const INTRODUCTION: &str = "# Faults, simulated

This page is generated: `scripts/torture simulation` runs the simulation and `scripts/torture page` writes the page from its counts, which are
kept in `tests/simulation/counts.json`. The test `page_has_the_form_that_the_generator_gives` compares them.

The simulation (`tests/simulation`) runs two gateway replicas over one store, the authority, the policy, and five nodes, all of them the real
ones, in one process. Only the network, the disks, the clocks and the crashes are simulated. Every call from a replica to a node, to the store
or to the authority is a message, and each message is handled in one go when the schedule delivers it; the schedule, the clients' requests
and the faults follow from one seed. Keys, nonces and salts are random, and do not influence the order: the same seed gives the same trace
(`same_seed_gives_the_same_trace`). Clients order payments, signatures with derived keys, key creations, refreshes, reshares between two of
three and three of five, rotations and recoveries, approve them or leave them to expire, send what the policy denies, and repeat requests.
After every step the node's log and the store's commit are judged; at the end all faults are healed, every operation must come to rest, and
every key must sign.

Replay one seed, with its trace:

```sh by-hand
SVC_SIMULATION_TRACE=1 SVC_SIMULATION_SEEDS=4..5 cargo test --release -p gateway-tests --test simulation -- --exact seeds_hold_every_invariant --nocapture
```

The counts below are sums: each version of the code since commit cc3245f ran seeds that no version before it had run. The history of the file
of counts tells which. The changes of the last table were tried before the rule of `host/docs/adr/0038-attempts-are-discarded.md`.

Not simulated: a full disk (a failing write gives an I/O error; `host/docs/operations.md` names the tests with full disks), a torn page below
SQLite, a failing sync, a crash between two transactions of one step, and the time that calls take. At the end an
approver aborts the changes of keys that wait for a restored node, and a recovery makes its share again.
";
