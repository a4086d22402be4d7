//! Prints the median time of sealing and opening: `cargo bench -p gateway-seal --bench seal -- [REPEATS]`. Single-threaded; only the calls are timed.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use gateway_seal::at_rest::{Kek, SecretId, Stretching, open_share, seal_share};
use gateway_seal::node_key::{Identities, NodeSecret};
use gateway_seal::relay::{Header, open, seal, verify_complaint};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;
use zeroize::Zeroizing;

/// The body of a private message: a scalar takes 32 bytes.
const MESSAGE: [u8; 40] = [7; 40];
/// About as long as a stored key share.
const SHARE: [u8; 134] = [7; 134];

fn main() -> Result<(), Box<dyn Error>> {
    let repeats =
        std::env::args().nth(1).filter(|arg| arg != "--bench").map_or(Ok(2000), |text| text.parse())?;
    let node = |index: u16, seed| NodeSecret::from_seed(index, &Zeroizing::new([seed; 32]));
    let (alice, bob) = (node(0, 1), node(1, 2));
    let nodes = Identities::new([alice.identity().clone(), bob.identity().clone()])?;
    let ceremony = [9; 32];
    for (name, to) in [("broadcast", None), ("private", Some(1))] {
        let header = Header { ceremony, from: 0, to, round: 1 };
        let envelope = seal(&alice, &nodes, header, &MESSAGE)?;
        measure(&format!("seal, {name}"), repeats, || seal(&alice, &nodes, header, &MESSAGE).is_ok());
        measure(&format!("open, {name}"), repeats, || open(&bob, &nodes, &ceremony, &envelope).is_ok());
        if let Some(complaint) = open(&bob, &nodes, &ceremony, &envelope)?.complaint() {
            measure("verify a complaint", repeats, || verify_complaint(alice.identity(), &complaint).is_ok());
        }
    }
    let kek = Kek::new(Zeroizing::new([3; 32]));
    let id = SecretId { node: "node-0", key_id: "key", epoch: "e1", index: 0 };
    let sealed = seal_share(&kek, &id, &SHARE)?;
    measure("seal a share", repeats, || seal_share(&kek, &id, &SHARE).is_ok());
    measure("open a share", repeats, || open_share(&kek, &id, &sealed).is_ok());
    let stretching = Stretching::fresh()?;
    measure("stretch a passphrase", 5, || {
        Kek::from_passphrase("a passphrase of some length", &stretching).is_ok()
    });
    Ok(())
}

fn measure(name: &str, repeats: usize, mut call: impl FnMut() -> bool) {
    let mut nanos = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let started = Instant::now();
        assert!(black_box(call()), "{name} failed");
        nanos.push(started.elapsed().as_nanos());
    }
    nanos.sort_unstable();
    let median = nanos.get(repeats / 2).copied().unwrap_or_default();
    println!("{name:22} {:>10} µs", median / 1000);
}
