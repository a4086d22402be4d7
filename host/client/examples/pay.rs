//! Makes a payment, approves it as two people, executes and publishes it, and writes its evidence:
//! `cargo run -p gateway-client --example pay -- http://localhost:9200 evidence.json`.

#![expect(clippy::print_stdout, reason = "an example says what it does")]
#![expect(clippy::disallowed_methods, reason = "the approvers' clock is this machine's")]

use gateway_client::{Approval, Client, Error, Gateway, Payment};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().unwrap_or_else(|| "http://localhost:9200".to_owned());
    let gateway = Gateway::builder(&base)?.build()?;
    let caller = Client::new("example", "carol");
    let payment =
        Payment::new("example-1", "acct-operating", "acct-supplier", 12_500, "EUR", &[0, 1, 2], caller);
    let operation = gateway.submit(&payment).await?;
    println!("submitted {}: {}", operation.operation_id, operation.state);

    // Someone waits for the decision while two people approve.
    let waiting = gateway.wait_until(&operation, Duration::from_secs(60), |now| now.state == "admitted");
    let approving = async {
        for subject in ["alice", "bob"] {
            let approval = Approval {
                subject_id: subject.to_owned(),
                roles: vec!["approver".to_owned()],
                approved_at_ms: now_ms(),
                signature: None,
            };
            gateway.approve(&operation, &approval).await?;
        }
        Ok::<_, Error>(())
    };
    let (admitted, approved) = tokio::join!(waiting, approving);
    approved?;
    println!("admitted with {} approvals", admitted?.approvals.approved);

    gateway.execute(&operation).await?;
    let published = gateway.publish(&operation, "signature", now_ms()).await?;
    println!("{}", published.state);
    if let (Some(path), [page]) = (arguments.next(), &gateway.evidence(&published).await?[..]) {
        std::fs::write(path, page)?;
    }
    Ok(())
}
