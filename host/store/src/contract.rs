//! What every backend must keep to, whatever it is made of.
//!
//! A backend's tests implement [`Deployment`] and run every case with `contract_cases!`.

pub(crate) mod commits;
pub(crate) mod decisions;
pub(crate) mod evidence;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod policies;
pub(crate) mod queries;
pub(crate) mod quota;
pub(crate) mod samples;
pub(crate) mod spending;

use crate::Decisions;
use gateway_engine::ports::{CommitOperations, KeepPolicies, ReadLog, ReadOperations};
use std::sync::Arc;

/// All ports at once.
pub(crate) trait Ports: CommitOperations + ReadOperations + ReadLog + KeepPolicies + 'static {}

impl<T: CommitOperations + ReadOperations + ReadLog + KeepPolicies + 'static> Ports for T {}

/// A database of a test's own, empty when first opened.
pub(crate) trait Deployment {
    type Store: Ports;

    async fn open(&self) -> Arc<Self::Store>;

    /// As a tool beside whoever has the database open.
    async fn decisions(&self) -> Decisions;

    /// Ends the process as far as the database can tell.
    async fn close(&self, store: Arc<Self::Store>);
}

/// Makes a test of every case. `$deployment` is evaluated once for each.
macro_rules! contract_cases {
    ($deployment:expr) => {
        crate::contract::contract_cases! { $deployment;
            commits::a_new_operation_is_read_back
            commits::a_commit_follows_a_commit
            commits::a_replayed_claim_is_raced
            commits::claims_of_other_scopes_are_other_claims
            commits::a_stale_revision_is_raced_and_writes_nothing
            commits::an_operation_is_not_made_twice
            commits::an_event_hashed_onto_another_is_raced
            commits::of_32_concurrent_commits_one_wins_each_revision
            commits::a_commit_that_does_not_add_up_is_an_error
            keys::a_key_is_made_with_its_operation
            keys::one_commit_may_move_a_key_by_several_revisions
            keys::a_stale_key_is_raced_and_moves_no_operation
            keys::a_key_is_not_made_twice
            keys::one_commit_moves_both_keys_of_a_rotation
            keys::of_two_operations_that_saw_the_key_free_one_executes
            evidence::ledger_roots_are_rfc_6962
            evidence::ledger_roots_survive_reopening
            evidence::events_chain_to_the_record_root
            evidence::every_change_is_read_back
            log::every_event_of_every_log_is_proved
            log::a_log_begins_with_every_log_before
            log::what_was_never_there_has_no_proof
            log::proofs_while_the_log_grows_are_of_one_log
            queries::owing_operations_longest_untouched_first
            queries::pending_operations_submitted_before
            queries::what_is_unknown_is_none
            queries::an_operation_is_found_by_its_tenant_alone
            queries::a_keys_operations_newest_first
            queries::keys_by_name_alone
            keys::what_keys_that_sign_need_is_found_once
            decisions::every_decision_is_found_once_with_what_was_asked
            decisions::what_the_gateway_repeats_is_kept_once
            decisions::the_newest_previews_are_kept
            decisions::the_latest_of_all_places
            spending::admitted_payments_are_summed_by_party_and_window
            spending::a_payment_counts_from_its_decision_to_its_failure
            spending::only_payments_spend
            spending::no_amount_makes_room_and_no_sum_wraps
            spending::a_clock_put_back_frees_nothing
            quota::a_charge_is_made_with_its_operation_and_kept
            quota::what_is_raced_costs_nothing
            quota::a_refusal_is_charged_with_its_record
            quota::of_200_concurrent_submissions_the_burst_is_written
            quota::every_budget_is_as_computed
            policies::the_high_water_mark_only_rises
            policies::a_rollback_is_an_activation_with_a_higher_sequence
            policies::bundles_are_read_back_with_the_signatures_offered_last
            policies::of_16_concurrent_activations_of_one_sequence_one_is_recorded
            policies::a_sequence_that_cannot_be_kept_is_an_error
            policies::a_probe_writes
        }
    };
    ($deployment:expr; $($module:ident :: $case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::contract::$module::$case(&$deployment).await;
            }
        )*
    };
}
pub(crate) use contract_cases;
