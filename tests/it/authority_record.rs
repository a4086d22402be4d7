//! Limits of amounts over time against gateways that lie: the authority, in a process of its own, remembers what it admitted.
//!
//! The gateway is a real one whose own record of payments is emptied before each payment. The policy `bundles/payment-guard-strict`
//! permits 100 `XTS` a day to leave an account and 150 to reach a recipient.

use crate::harness::bundles::{key as bundle_key, release, write_folder};
use crate::harness::cluster::Cluster;
use crate::harness::process::{EXECUTE, Process, SIGN, drive, post, request};
use crate::harness::samples::{approval, payment, with};
use crate::harness::strace::Faults;
use gateway_domain::dsse::Role;
use gateway_domain::ids::Hex32;
use gateway_policy::TrustPolicy;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use std::fs;
use std::path::Path;

const STRICT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");
const RECIPIENTS: [&str; 3] = ["acct-2", "acct-3", "acct-supplier-0042"];

/// A payment of some `XTS` by these signers, to a recipient that changes, so that only the account's limit counts.
fn xts(nth: usize, amount: i64, signers: &[u16]) -> Value {
    let body = with(payment(&format!("p-{nth}")), "/payment/currency", json!("XTS"));
    let body = with(body, "/payment/amount_minor", json!(amount));
    let body = with(body, "/payment/to_account", json!(RECIPIENTS[nth % RECIPIENTS.len()]));
    with(body, "/requested_participants", json!(signers))
}

/// A cluster under the policy with limits. Its key `treasury-1` is held by all nodes, two of which sign.
fn limited(n: u16, (n_authorities, threshold): (u16, u16)) -> Cluster {
    let mut cluster = Cluster::prepare_with_authorities(n, n_authorities, threshold);
    cluster.gateway_settings.insert("policy_bundle", STRICT.to_owned());
    (0..n).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    let all: Vec<_> = (0..n).collect();
    let first = with(xts(99, 1, &all), "/payment/from_account", json!("acct-other"));
    drive(cluster.address(), SIGN, &first, &[EXECUTE]).unwrap();
    cluster
}

/// Empties the gateway's own record of payments, which its facts are made from.
fn forget_payments(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", folder.join("gateway.db").display());
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query("DELETE FROM spending").execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    });
}

/// Submits and approves a payment, and executes it if it is admitted. Returns the status and the last answer.
fn attempt(address: &str, body: &Value) -> (u16, Value) {
    let submitted = post(address, SIGN, Some(body)).unwrap();
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
    let approve =
        |subject| request(address, "POST", &format!("{path}/approve"), Some(&approval(subject))).unwrap();
    assert_eq!(approve("alice").0, 200);
    let (status, answer) = approve("bob");
    if status != 200 {
        return (status, answer);
    }
    request(address, "POST", &format!("{path}/execute"), None).unwrap()
}

/// The policy denied the payment because of a limit, as it denies one that the gateway itself knows to be beyond it.
#[track_caller]
fn assert_denied((status, answer): &(u16, Value)) {
    assert_eq!((*status, answer["error"].as_str()), (403, Some("policy_rejected")), "{answer}");
    let reasons = answer["reasons"].to_string();
    assert!(reasons.contains("velocity_exceeded") && reasons.contains("account_day_max"), "{answer}");
}

/// Each node admits 100 from the account: the pairs (0, 1), (1, 2), (2, 3), (3, 4) and (4, 0) would sign 50 each.
#[test]
fn gateway_that_forgets_payments_spends_no_more_than_the_limit_over_all_pairs_of_nodes() {
    let cluster = limited(5, (1, 1));
    let mut executed = 0;
    for nth in 0..5_u16 {
        forget_payments(cluster.folder());
        let attempted = attempt(cluster.address(), &xts(nth.into(), 50, &[nth, (nth + 1) % 5]));
        if attempted.0 == 200 {
            assert_eq!(attempted.1["state"], "executed", "{}", attempted.1);
            executed += 50;
        } else {
            assert_denied(&attempted);
        }
    }
    assert_eq!(executed, 100);
    cluster.stop();
}

/// The nodes of one key do not know what those of the other one signed.
#[test]
fn gateway_that_forgets_payments_spends_no_more_with_keys_of_one_account_on_disjoint_rosters() {
    let cluster = limited(4, (1, 1));
    let pay = |key: &str, nth, amount, signers: &[u16]| {
        forget_payments(cluster.folder());
        attempt(cluster.address(), &with(xts(nth, amount, signers), "/key_ref", json!(key)))
    };
    let (status, paid) = pay("left", 1, 60, &[0, 1]);
    assert_eq!((status, &paid["state"]), (200, &json!("executed")), "{paid}");
    assert_denied(&pay("right", 2, 60, &[2, 3]));
    let (status, paid) = pay("right", 3, 40, &[2, 3]);
    assert_eq!((status, &paid["state"]), (200, &json!("executed")), "{paid}");
    assert_denied(&pay("left", 4, 1, &[0, 1]));
    cluster.stop();
}

#[test]
fn payment_that_the_authorities_deny_by_their_records_is_rejected_by_the_policy() {
    let mut cluster = limited(3, (3, 2));
    let pay = |cluster: &Cluster, nth, amount| {
        forget_payments(cluster.folder());
        attempt(cluster.address(), &xts(nth, amount, &[0, 1]))
    };
    let (status, paid) = pay(&cluster, 1, 60);
    assert_eq!(status, 200, "{paid}");
    assert_denied(&pay(&cluster, 2, 60));
    assert_eq!(pay(&cluster, 3, 40).0, 200);
    // While one authority is down, the other two decide, by their records.
    cluster.authorities[1].kill();
    assert_denied(&pay(&cluster, 4, 1));
    let other = with(xts(5, 1, &[0, 1]), "/payment/from_account", json!("acct-other"));
    assert_eq!(attempt(cluster.address(), &other).0, 200);
}

/// The file with the number of decisions is written after the commit, and before the process signs and answers. (A sync would not do: the
/// first one may be of a log that begins anew, and has nothing of the decision.)
#[test]
fn authority_killed_between_record_and_answer_counts_the_payment_once() {
    let mut cluster = limited(3, (1, 1));
    let pid = cluster.authorities[0].pid();
    let faults = Faults::begin_at(&cluster.authority_size_file(0), pid, "pwrite64", "signal=SIGKILL");
    let (status, failed) = attempt(cluster.address(), &xts(1, 60, &[0, 1]));
    assert_eq!(status, 503, "{failed}");
    assert!(!failed.to_string().contains("localhost"), "callers learn no address: {failed}");
    faults.end();
    cluster.restart_authority(0);
    forget_payments(cluster.folder());
    assert_denied(&attempt(cluster.address(), &xts(2, 41, &[0, 1])));
    let (status, paid) = attempt(cluster.address(), &xts(1, 60, &[0, 1]));
    assert_eq!(status, 200, "{paid}");
    forget_payments(cluster.folder());
    assert_eq!(attempt(cluster.address(), &xts(3, 40, &[0, 1])).0, 200);
    assert_denied(&attempt(cluster.address(), &xts(4, 1, &[0, 1])));
}

/// A gateway that has not activated the newer bundle offers the older one to the authority, which has forgotten the files of both.
#[test]
fn restarted_authority_decides_nothing_by_a_bundle_older_than_the_one_that_decided() {
    let mut cluster = Cluster::prepare(3, |port| port);
    let folder = cluster.folder().to_owned();
    let author = Hex32::new(bundle_key(1).verifying_key().to_bytes());
    let role = Role { role: "author".into(), threshold: 1, keys: [author].into() };
    let trust = TrustPolicy { documents: Vec::new(), roles: vec![role], revoked: [].into() };
    fs::write(folder.join("trust.json"), serde_json::to_vec(&trust).unwrap()).unwrap();
    for sequence in [8, 9] {
        write_folder(&folder.join(format!("bundle-{sequence}")), &release(sequence, &bundle_key(1)));
    }
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    cluster.set_everywhere(&[("policy_trust_roots", &path("trust.json"))]);
    cluster.gateway_settings.insert("policy_bundle", path("bundle-9"));
    (0..3).for_each(|index| cluster.start_node(index));
    cluster.start_gateway();
    let pay = |address: &str, key: &str| attempt(address, &with(payment(key), "/key_ref", json!(key)));
    assert_eq!(pay(cluster.address(), "new").0, 200);
    cluster.authorities[0].kill();
    cluster.restart_authority(0);
    // Nodes have marks too, and would show the other gateway that it lacks operations.
    (0..3).for_each(|index| cluster.node(index).kill());
    let newer = cluster.gateway_settings.insert("policy_bundle", path("bundle-8")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let second = Process::start_command(cluster.gateway_command_in(other.path()));
    let (status, refused) = request(&second.address, "POST", SIGN, Some(&payment("old"))).unwrap();
    assert_eq!(status, 503, "{refused}");
    assert!(refused.to_string().contains("sequence 8 is not above 9"), "{refused}");
    assert!(!refused.to_string().contains("localhost"), "callers learn no address: {refused}");
    second.terminate();
    cluster.gateway_settings.insert("policy_bundle", newer);
    (0..3).for_each(|index| cluster.start_node(index));
    assert_eq!(pay(cluster.address(), "again").0, 200);
}
