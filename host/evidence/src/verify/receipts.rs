//! The nodes: each signed each step that it is said to have made, and enough of them did.

use super::report::{Findings, Report};
use super::story::Story;
use crate::roots::Roots;
use gateway_domain::operation::{Operation, evolve, replay};
use gateway_domain::receipt::{Chain, Deed, NodeReceipt, attested};

const NAME: &str = "receipts";

pub(crate) fn check(story: &Story, roots: &Roots, report: &mut Report) {
    let (mut findings, mut n_signed) = (Findings::default(), 0_usize);
    let Some(mut before) = story.events.get(..1).and_then(replay) else { return };
    for (index, event) in story.events.iter().enumerate().skip(1) {
        if let Some((deed, receipts)) = attested(&before, event) {
            for (place, receipt) in receipts.iter().enumerate() {
                let at = format!("/events/{index}/event/change/receipts/{place}");
                if let Err(what) = signed(&before, &deed, receipt, roots) {
                    findings.add(at, what);
                }
            }
            n_signed = n_signed.saturating_add(receipts.len());
        }
        before = evolve(before, event);
    }
    if n_signed == 0 && story.operation.admission.is_none() {
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
