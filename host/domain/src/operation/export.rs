//! External export: records what a caller reports about the settlement of a published result on an external rail. The first
//! report may have any state; later ones only go forward, from Submitted to Accepted to Settled.

use super::command::Refusal;
use super::event::Change;
use super::event::ExternalExport;
use super::phase::Phase;
use super::state::Operation;

pub(super) fn decide(
    operation: &Operation,
    publication_receipt: &str,
    export: &ExternalExport,
) -> Result<Vec<Change>, Refusal> {
    match &operation.phase {
        Phase::Published => {}
        Phase::DiscardingRest { .. } | Phase::Failed => {
            return Err(Refusal::Failed(operation.reason_of_failure()));
        }
        Phase::Submitted
        | Phase::PendingApproval
        | Phase::Deciding
        | Phase::Postponed { .. }
        | Phase::Admitting
        | Phase::Admitted
        | Phase::IssuingReceipt
        | Phase::ReceiptMaterialized
        | Phase::Executing { .. }
        | Phase::CommittingEpoch { .. }
        | Phase::Discarding
        | Phase::Executed
        | Phase::Publishing => {
            let missing = format!("its state is `{}`, not `published`", operation.state().as_str());
            return Err(Refusal::NotExecuted { missing });
        }
    }
    if operation.publication_receipt.as_deref() != Some(publication_receipt) {
        return Err(Refusal::PublicationReceiptMismatch);
    }
    let Some(known) = &operation.export else {
        return Ok(vec![Change::ExternallyExported(export.clone())]);
    };
    let is_same = known.rail == export.rail && known.external_id == export.external_id;
    if is_same && known.state < export.state {
        return Ok(vec![Change::ExternallyExported(export.clone())]);
    }
    // A repeat, even with another `exported_at_ms`.
    if is_same && known.state == export.state && known.export_ref == export.export_ref {
        return Ok(Vec::new());
    }
    Err(Refusal::ExportConflict(known.clone()))
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Command, ExportState, State, decide, evolve, open, replay};
    use super::*;
    use crate::intent::PublicationMode;
    use crate::testing::samples::{Kind, hex32, intent, submission};
    use crate::time::EpochMs;

    fn published_operation() -> Operation {
        let intent = intent(Kind::AssetAction, PublicationMode::Manual);
        let mut operation = replay(&open(submission(intent, 1), EpochMs(1))).unwrap();
        operation.phase = Phase::Published;
        operation.publication_receipt = Some("receipt".into());
        operation
    }

    fn export(state: ExportState) -> ExternalExport {
        let external_id = "ext-1".to_owned();
        ExternalExport { rail: "swift".into(), export_ref: hex32(1), state, external_id, exported_at_ms: 5 }
    }

    fn record_export(
        operation: &Operation,
        receipt: &str,
        export: &ExternalExport,
    ) -> Result<Operation, Refusal> {
        let action = Action::Export { publication_receipt: receipt.into(), export: export.clone() };
        let events = decide(operation, &Command { at: EpochMs(2), action })?;
        Ok(events.iter().fold(operation.clone(), evolve))
    }

    #[test]
    fn export_only_goes_forward_and_a_repeat_changes_nothing() {
        use ExportState::{Accepted, Settled, Submitted};
        for (from, to, is_allowed) in [
            (Submitted, Accepted, true),
            (Submitted, Settled, true),
            (Accepted, Settled, true),
            (Submitted, Submitted, true),
            (Settled, Settled, true),
            (Accepted, Submitted, false),
            (Settled, Accepted, false),
            (Settled, Submitted, false),
        ] {
            let known = record_export(&published_operation(), "receipt", &export(from)).unwrap();
            let later = ExternalExport { exported_at_ms: 6, ..export(to) };
            match record_export(&known, "receipt", &later) {
                Ok(after) if from == to => assert_eq!(after, known),
                Ok(after) => assert!(is_allowed && after.export == Some(later), "{from:?} {to:?}"),
                Err(refusal) => {
                    assert!(
                        !is_allowed && refusal == Refusal::ExportConflict(export(from)),
                        "{from:?} {to:?}"
                    )
                }
            }
        }
    }

    #[test]
    fn rail_and_external_id_never_change_and_the_ref_only_with_the_state() {
        let known =
            record_export(&published_operation(), "receipt", &export(ExportState::Submitted)).unwrap();
        let next = || export(ExportState::Accepted);
        let same = || export(ExportState::Submitted);
        for other in [
            ExternalExport { external_id: "ext-2".into(), ..next() },
            ExternalExport { rail: "sepa".into(), ..next() },
            ExternalExport { external_id: "ext-2".into(), ..same() },
            ExternalExport { export_ref: hex32(2), ..same() },
        ] {
            assert_eq!(
                record_export(&known, "receipt", &other),
                Err(Refusal::ExportConflict(same())),
                "{other:?}"
            );
        }
        assert!(record_export(&known, "receipt", &ExternalExport { export_ref: hex32(2), ..next() }).is_ok());
    }

    #[test]
    fn export_needs_a_published_operation_and_its_publication_receipt() {
        let export = export(ExportState::Settled);
        let refused = record_export(&published_operation(), "another", &export);
        assert_eq!(refused, Err(Refusal::PublicationReceiptMismatch));
        let executed = Operation { phase: Phase::Executed, ..published_operation() };
        assert!(matches!(record_export(&executed, "receipt", &export), Err(Refusal::NotExecuted { .. })));
        let failed = Operation { phase: Phase::Failed, ..published_operation() };
        assert!(matches!(record_export(&failed, "receipt", &export), Err(Refusal::Failed(_))));
    }

    #[test]
    fn external_export_is_a_next_action_until_it_is_settled() {
        let names = |operation: &Operation| {
            operation.next_actions().iter().map(|action| action.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&published_operation()), published_operation().state()),
            (vec!["external-export"], State::Published)
        );
        let accepted =
            record_export(&published_operation(), "receipt", &export(ExportState::Accepted)).unwrap();
        assert_eq!(names(&accepted), ["external-export"]);
        let settled = record_export(&accepted, "receipt", &export(ExportState::Settled)).unwrap();
        assert_eq!(names(&settled), Vec::<&str>::new());
    }
}
