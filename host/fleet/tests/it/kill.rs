//! SIGKILL at failpoints, in a child process. Needs `--features failpoints`.

use crate::support::{KEY, SUCCESSOR, World, check_signature, operation};
use gateway_domain::ids::KeyRef;
use gateway_domain::intent::Intent;
use gateway_domain::key::CustodyKey;
use gateway_domain::operation::{KeySlot, Operation, Outcome, Phase};
use gateway_node::testing::{SUITES, asset_action, key_create, recover, refresh, reshare, rotate};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The environment variable that is set in the child process: the folder of the deployment.
const CHILD: &str = "GATEWAY_RUNTIME_TEST_CHILD";

/// Performs the operation's effect in a child process, and kills the child when it stops at this failpoint.
async fn killed_at(world: &mut World, operation: &Operation, point: &str) {
    world.fleet.close().await;
    let key = world.keys.get(&operation.key.key_id);
    fs::write(world.folder.join("operation.json"), serde_json::to_vec(&(operation, key)).unwrap()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child_performs_until_killed", "--nocapture"])
        .env(CHILD, &world.folder)
        .env("SVC_FAILPOINT", format!("{point}:1"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, &format!("failpoint {point}"));
    child.kill().unwrap();
    child.wait().unwrap();
    world.restart().await;
}

fn wait_for(child: &mut Child, line: &str) {
    let mut seen = Vec::new();
    for read in BufReader::new(child.stderr.take().unwrap()).lines() {
        let read = read.unwrap();
        if read == line {
            return;
        }
        seen.push(read);
    }
    panic!("the child ended before `{line}`: {seen:#?}");
}

/// Runs in the child process. Does nothing when it is run as a test.
#[tokio::test(flavor = "multi_thread")]
async fn child_performs_until_killed() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let (operation, world) = open(&folder);
    let outcome = world.perform_pending(&operation).await;
    panic!("the child was not stopped: {outcome:?}");
}

/// The operation that the parent process wrote, and the deployment in the folder.
fn open(folder: &Path) -> (Operation, World) {
    let bytes = fs::read(folder.join("operation.json")).unwrap();
    let (operation, key): (Operation, Option<CustodyKey>) = serde_json::from_slice(&bytes).unwrap();
    let mut world = World::open(folder);
    world.keys.extend(key.map(|key| (key.key_id, key)));
    (operation, world)
}

#[tokio::test]
async fn next_attempt_signs_after_a_kill_between_two_shares() {
    let mut world = World::with_key(3, 2, SUITES[1]).await;
    let signing = world.until_ceremony(operation(1, asset_action(&[0, 1, 2], 7))).await;
    killed_at(&mut world, &signing, "mid-execute").await;
    let lost = world.perform_pending(&signing).await.unwrap();
    assert!(matches!(lost, Outcome::AttemptLost { .. }), "{lost:?}");
    world.signed(signing).await;
}

#[tokio::test]
async fn operation_completes_after_a_kill_between_two_nodes_at_any_step() {
    let steps = [
        ("mid-admission", Phase::Admitting),
        ("mid-policy-receipt", Phase::IssuingReceipt),
        ("mid-commitments", Phase::Executing { attempt: 1 }),
        ("mid-publish", Phase::Publishing),
    ];
    let mut world = World::with_key(3, 2, SUITES[0]).await;
    for (id, (point, phase)) in (1..).zip(steps) {
        let submitted = operation(id, asset_action(&[0, 1, 2], 7));
        let reached = world.drive(submitted, |operation| operation.phase == phase).await.unwrap();
        killed_at(&mut world, &reached, point).await;
        let signed = world.complete(reached).await;
        assert_eq!(signed.phase, Phase::Published, "{point}");
        check_signature(signed.signature.as_ref().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_change_completes_after_a_kill_at_any_point() {
    let changes = [
        (key_create(&[0, 1, 2], 2, SUITES[0]), KEY, [0, 1]),
        (refresh("2"), KEY, [0, 2]),
        (reshare("2", &[1, 2, 3], 2), KEY, [1, 3]),
        (recover("2", 2, &[0, 1]), KEY, [0, 2]),
        (rotate("2", &[1, 2, 3], 2), SUCCESSOR, [1, 3]),
    ];
    let points = ["mid-ceremony-start", "mid-ceremony", "mid-execute", "mid-commit-epoch", "mid-publish"];
    for (change, makes, signers) in changes {
        for point in points {
            let mut world = match change {
                Intent::KeyCreate(_) => World::new(),
                _ => World::with_key(3, 2, SUITES[0]).await,
            };
            let before = world.keys.get(&KEY).and_then(|key| key.public.clone());
            let reached = world
                .drive(operation(1, change.clone()), |operation| match point {
                    "mid-commit-epoch" => matches!(operation.phase, Phase::CommittingEpoch { .. }),
                    "mid-publish" => operation.phase == Phase::Publishing,
                    _ => matches!(operation.phase, Phase::Executing { .. }),
                })
                .await
                .unwrap();
            killed_at(&mut world, &reached, point).await;
            let made = world.complete(reached).await;
            assert_eq!(made.phase, Phase::Published, "{point} of {change:?}: {:?}", made.failure);
            if let (Some(before), KEY) = (before, makes) {
                assert_eq!(world.keys[&KEY].public.clone().unwrap().public_key_hex, before.public_key_hex);
            }
            let mut signing = operation(2, asset_action(&signers, 7));
            if makes == SUCCESSOR {
                signing.key = KeySlot { key_ref: KeyRef("successor".into()), key_id: SUCCESSOR };
            }
            let signed = world.complete(signing).await;
            assert_eq!(signed.phase, Phase::Published, "{point} of {change:?}: {:?}", signed.failure);
            check_signature(signed.signature.as_ref().unwrap());
        }
    }
}
