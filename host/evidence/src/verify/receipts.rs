//! The nodes: each signed each step that it is said to have made, and enough of them did.

use super::report::{Findings, Report};
use super::story::Story;
use crate::roots::Roots;
use crate::steps::steps;
use gateway_domain::operation::Operation;
use gateway_domain::receipt::{Chain, Deed, NodeReceipt};

const NAME: &str = "receipts";

pub(crate) fn check(story: &Story, roots: &Roots, report: &mut Report) {
    let (mut findings, mut n_signed) = (Findings::default(), 0_usize);
    let steps = steps(&story.events);
    for step in &steps {
        for (place, receipt) in step.receipts.iter().enumerate() {
            let at = format!("/events/{}/event/change/receipts/{place}", step.index);
            if let Err(what) = signed(&step.before, &step.deed, receipt, roots) {
                findings.add(at, what);
            }
        }
        n_signed = n_signed.saturating_add(step.receipts.len());
    }
    if n_signed == 0 {
        report.open(NAME, "no node had a part in it");
    } else {
        report.add(NAME, findings, format!("{n_signed} are signed by their nodes"));
    }
}

fn signed(before: &Operation, deed: &Deed, receipt: &NodeReceipt, roots: &Roots) -> Result<(), String> {
    let node = receipt.participant;
    let key = roots.nodes.get(&node).ok_or_else(|| format!("the roots have no key of node {node}"))?;
    let chain = Chain::of(before, node).ok_or_else(|| "there is no admission to act on".to_owned())?;
    let statement = chain.statement(deed).map_err(|error| error.to_string())?;
    receipt.verify(&statement, key).map_err(|error| error.to_string())
}
