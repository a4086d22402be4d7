//! What looking at the policy bundle costs: every `policy_watch_ms` with nothing changed, and on SIGHUP.

use crate::{Measured, median, world};
use gateway_policy::lifecycle::Cause;
use std::time::Instant;

const N_LOOKS: usize = 201;

pub(crate) async fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    println!("looking at the default bundle, {N_LOOKS} times (medians)");
    for (name, cause) in [("nothing changed", Cause::Watch), ("SIGHUP", Cause::Requested)] {
        let mut looks = Vec::new();
        for _ in 0..N_LOOKS {
            let began = Instant::now();
            gateway.policies.reload(cause).await;
            looks.push(began.elapsed().as_secs_f64() * 1e3);
        }
        println!("  {name:<16} {:8.3} ms", median(&mut looks));
    }
    Ok(())
}
