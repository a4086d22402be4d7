//! `runtime-node selftest`: known attacks on threshold protocols, each played against honest nodes of this program.
//!
//! Participants 0 and 1 are honest: real [`Node`](gateway_node::Node)s with databases in a temporary folder. Participant 2 is the
//! attacker. It has an identity that they pinned and a share of the key, and it is also the relay, the coordinator of signatures
//! and the authority. It reads each round of the honest nodes before it sends its own. The attack fails if the honest nodes refuse
//! what the row of the attack says they must, and no share is made or released by it.
//!
//! Reading order: `deployment` (the honest nodes), `operation` (what they admit), `attacker` (its messages, and the relay), then
//! the attacks: `tricks` and `making_shares`, `signing`.

mod attacker;
mod deployment;
mod making_shares;
mod operation;
mod report;
mod signing;
mod tricks;

use deployment::Deployment;
use gateway_service::output::{self, EXIT_FAILED};
use gateway_service::process::Fault;
use gateway_threshold::SignatureProfile;
use report::Report;
use std::process::ExitCode;

/// Plays all attacks and prints one line for each.
pub(crate) async fn run(json: bool) -> Result<ExitCode, Fault> {
    let mut report = Report::default();
    for profile in SignatureProfile::ALL {
        let mut deployment = Deployment::open(profile).await?;
        making_shares::attack_key_generation(&mut deployment, &mut report).await?;
        signing::attack(&deployment, &mut report).await?;
        making_shares::attack_changes(&deployment, &mut report).await?;
        deployment.close().await;
    }
    output::print(&report.lines(json)?)?;
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}
