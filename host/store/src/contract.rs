//! The test suite that every backend must pass.
//!
//! A backend's tests implement [`Deployment`] and run every case with `contract_cases!`.

pub(crate) mod commits;
pub(crate) mod decisions;
pub(crate) mod fsck;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod log;
pub(crate) mod paid;
pub(crate) mod policies;
pub(crate) mod queries;
pub(crate) mod quota;
pub(crate) mod retention;
pub(crate) mod samples;
pub(crate) mod spending;
pub(crate) mod webhooks;

use crate::{Decisions, Fsck, Store};
use std::sync::Arc;

/// A database for one test, empty when first opened.
pub(crate) trait Deployment {
    fn location(&self) -> String;

    async fn open(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.location()).await.unwrap())
    }

    /// Opens the decision records as a tool does. The store may be open.
    async fn decisions(&self) -> Decisions {
        Decisions::open(&self.location()).await.unwrap()
    }

    /// Opens the check as a tool does. The store may be open.
    async fn fsck(&self) -> Fsck {
        Fsck::open(&self.location()).await.unwrap()
    }

    /// Ends the time for which operations were given to replicas, if the store does that.
    async fn return_work(&self) {}

    /// Runs a statement beside the store, as another program could.
    async fn tamper(&self, sql: &str);
}

/// Expands to one test per case. `$deployment` is evaluated for each.
macro_rules! contract_cases {
    ($deployment:expr) => {
        crate::contract::contract_cases! { $deployment;
            commits::new_operation_is_read_back
            commits::commits_build_on_each_other
            commits::replayed_claim_is_a_conflict
            commits::claims_are_scoped_by_tenant_family_and_custody_key
            spending::longest_texts_are_stored
            commits::stale_revision_is_a_conflict_and_writes_nothing
            commits::operation_cannot_be_created_twice
            commits::wrong_previous_record_root_is_a_conflict
            commits::one_of_32_concurrent_commits_wins_each_revision
            commits::inconsistent_commit_is_an_error
            fsck::store_larger_than_a_page_has_no_findings
            keys::key_is_created_with_its_operation
            keys::one_commit_may_advance_a_key_by_several_revisions
            keys::stale_key_is_a_conflict_and_writes_nothing
            keys::key_cannot_be_created_twice
            keys::rotation_changes_both_keys_in_one_commit
            keys::one_of_two_operations_on_a_key_executes
            log::ledger_roots_follow_rfc_6962
            log::ledger_roots_survive_reopening
            log::events_chain_to_the_record_root
            log::every_kind_of_change_is_read_back
            log::every_event_has_an_inclusion_proof_in_every_log
            log::every_log_is_consistent_with_every_earlier_log
            log::events_are_named_by_their_place_and_hash
            log::nonexistent_entries_and_sizes_have_no_proof
            log::proofs_are_consistent_while_the_log_grows
            queries::owing_operations_are_listed_by_the_time_since_when_they_owe
            queries::each_tenant_has_its_share_of_the_work
            queries::wait_ends_with_a_change_or_a_clock_that_was_set_back
            queries::pending_operations_are_listed_by_submission
            queries::postponed_operations_are_listed_from_their_time_on
            queries::admitted_operations_are_listed_by_admission
            queries::unknown_records_are_none
            queries::operation_is_found_only_by_its_tenant
            queries::another_tenants_operation_takes_the_reads_of_an_unknown_one
            queries::key_operations_are_listed_newest_first
            queries::keys_are_found_by_name_across_tenants
            lists::operations_are_listed_newest_first_for_their_tenant
            lists::operations_are_found_by_all_that_is_asked_for
            lists::operation_is_found_by_its_idempotency_key
            lists::search_over_many_rows_is_continued
            lists::keys_are_listed_newest_first
            keys::each_distinct_quorum_of_signing_keys_is_listed_once
            decisions::every_decision_is_found_once_with_its_input
            decisions::repeated_admission_decision_is_stored_once
            decisions::cursor_of_another_history_is_unknown
            decisions::only_the_newest_previews_are_kept
            decisions::latest_decisions_are_merged_from_all_lists
            decisions::search_finds_what_fits_in_all_lists
            spending::admitted_payments_are_summed_by_party_and_window
            spending::payment_counts_from_its_decision_until_it_fails
            spending::only_payments_are_summed
            spending::negative_amounts_count_as_zero_and_sums_saturate
            spending::payments_after_now_are_counted
            spending::only_parties_that_are_asked_for_are_summed
            spending::decision_on_outdated_totals_is_a_conflict
            paid::payment_is_proved_from_its_publication_on
            paid::oldest_payments_come_first
            paid::altered_row_of_a_paid_recipient_is_found
            quota::token_is_taken_with_its_operation_and_survives_reopening
            quota::conflict_takes_no_token
            quota::refusal_takes_a_token_with_its_record
            quota::only_the_burst_of_200_concurrent_submissions_is_written
            quota::quota_arithmetic_matches_the_engine
            retention::payment_without_a_row_is_told_from_a_missing_one
            retention::rows_that_a_limit_may_need_stay
            retention::payment_may_fail_after_its_row_was_deleted
            retention::old_refusals_are_deleted_in_small_transactions
            retention::size_counts_rows_without_those_that_were_deleted
            policies::high_water_mark_only_rises
            policies::rollback_is_an_activation_with_a_higher_sequence
            policies::bundle_is_read_back_with_the_latest_signatures
            policies::one_of_16_concurrent_activations_of_a_sequence_is_recorded
            policies::sequence_too_large_for_a_column_is_an_error
            webhooks::webhook_begins_at_the_end_of_the_log
            webhooks::webhook_is_advanced_only_by_the_process_that_has_it
            webhooks::process_does_not_advance_a_webhook_that_was_set_back
            webhooks::dead_letters_and_failures_are_read_back
            webhooks::newest_dead_letters_of_the_present_tenant_are_kept
            policies::write_probe_fails_when_the_store_is_closed
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
