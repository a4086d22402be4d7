//! Bundles swapped back and forth under load: no request fails, and each decision is made under one bundle.

use crate::harness::alarm::Alarm;
use crate::harness::bundles::{Site, hash, key, release, wait_until_active};
use crate::harness::process::{SIGN, drive, post, request};
use crate::harness::samples::{path, payment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_policy::BundleFiles;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const N_CLIENTS: usize = 4;
/// The minimum number of operations. Each is a preview, a submission and two approvals.
const N_OPERATIONS: usize = 250;
/// The minimum number of swaps. If swaps take long, more operations run, up to this maximum.
const N_SWAPS_MIN: usize = 4;
const N_OPERATIONS_MAX: usize = 2_000;

/// Previews a payment and has it admitted; returns the bundle hash of the preview, and the admitted view.
fn preview_and_admit(address: &str, name: &str) -> (String, Value) {
    let intent = json!({ "intent": payment(name) });
    let preview = post(address, "/v1/policy/preview", Some(&intent)).unwrap();
    let admitted = drive(address, SIGN, &payment(name), &[]).unwrap();
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    (preview["bundle_hash"].as_str().unwrap().to_owned(), admitted)
}

/// The bundle hashes of the policy outcome and of the signed decision, in an operation's event `decision_signed`.
fn decision_hashes(address: &str, path: &str) -> [String; 2] {
    let (_, evidence) = request(address, "GET", &format!("{path}/evidence"), None).unwrap();
    let outcomes = evidence["policy"].as_array().unwrap();
    let admission = outcomes.iter().find(|outcome| outcome["moment"] == "admission").unwrap();
    let payload = evidence["decision"]["envelope"]["payload"].as_str().unwrap();
    let decision: Value = serde_json::from_slice(&STANDARD.decode(payload).unwrap()).unwrap();
    [&admission["bundle_hash"], &decision["bundle_hash"]].map(|hash| hash.as_str().unwrap().to_owned())
}

/// State that the threads of the test share.
#[derive(Default)]
struct Run {
    is_over: AtomicBool,
    n_swaps: AtomicUsize,
    /// Hashes of the bundles that operations were admitted under.
    bundles: Mutex<BTreeSet<String>>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn has_enough_swaps(&self) -> bool {
        self.n_swaps.load(Ordering::SeqCst) >= N_SWAPS_MIN && self.bundles.lock().unwrap().len() == 2
    }

    /// Runs every `N_CLIENTS`th operation until there are enough operations and swaps. Returns the bundle hash of each preview,
    /// and the operation's path.
    fn run_operations(&self, address: &str, client: usize) -> Vec<(String, String)> {
        let _alarm = Alarm(&self.is_over);
        let mut operations = Vec::new();
        for n in (client..N_OPERATIONS_MAX).step_by(N_CLIENTS) {
            if self.is_over() || n >= N_OPERATIONS && self.has_enough_swaps() {
                break;
            }
            let (previewed, admitted) = preview_and_admit(address, &format!("load-{n}"));
            let bundle_hash = admitted["policy"]["bundle_hash"].as_str().unwrap().to_owned();
            self.bundles.lock().unwrap().insert(bundle_hash);
            operations.push((previewed, path(&admitted, "")));
        }
        operations
    }

    /// Activates the two bundles in turns until the run is over. The second is active at the beginning.
    fn swap_bundles(&self, site: &Site, address: &str, [one, two]: [&BundleFiles; 2]) {
        let _alarm = Alarm(&self.is_over);
        for sequence in 3.. {
            if self.is_over() {
                break;
            }
            let next = if sequence % 2 == 1 { one } else { two };
            site.write_record(sequence, next);
            wait_until_active(address, next);
            self.n_swaps.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn swapping_bundles_under_load_fails_no_request() {
    let site = Site::new();
    let (one, two) = (release(1, &key(1)), release(2, &key(1)));
    site.offer(&one);
    let process = site.start(10, None);
    site.offer(&two);
    wait_until_active(&process.address, &two);
    // Creates the key now, so that the clients do not race for it.
    preview_and_admit(&process.address, "load-first");
    let (run, address) = (Run::default(), process.address.as_str());
    let operations: Vec<(String, String)> = thread::scope(|scope| {
        let _alarm = Alarm(&run.is_over);
        let run = &run;
        let clients: Vec<_> =
            (0..N_CLIENTS).map(|client| scope.spawn(move || run.run_operations(address, client))).collect();
        let swapper = scope.spawn(|| run.swap_bundles(&site, address, [&one, &two]));
        let operations = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        run.is_over.store(true, Ordering::SeqCst);
        swapper.join().unwrap();
        operations
    });
    assert!(operations.len() >= N_OPERATIONS && run.has_enough_swaps(), "{:?}", run.n_swaps);
    let mut admissions: BTreeMap<String, usize> = BTreeMap::new();
    for (previewed, path) in &operations {
        assert!([hash(&one), hash(&two)].contains(previewed), "{previewed} is neither of the two");
        let [evaluated, signed] = decision_hashes(address, path);
        assert_eq!(evaluated, signed, "{path}: one decision, one bundle");
        *admissions.entry(evaluated).or_default() += 1;
    }
    let both = [hash(&one), hash(&two)].iter().all(|hash| admissions.contains_key(hash));
    assert!(both && admissions.len() == 2, "{admissions:?}");
}
