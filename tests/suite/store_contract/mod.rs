//! One contract for both stores: every sentence below is run on SQLite and on PostgreSQL.
//!
//! Each test owns its file or its database. A behaviour is written once, against the seam; the list at
//! the end makes it a test of each driver.

mod broker_facts;
mod dead_letters;
mod deliveries;
mod endpoints;
mod event_claims;
mod event_clock;
mod event_inside;
mod event_races;
mod event_search;
mod events;
mod fixtures;
mod incarnations;
mod leases;
mod model;
mod policies;
mod postgres_only;
mod postgres_sessions;
mod queues;
mod races;
mod records;
mod retention;
mod runs;
mod saves;
mod sqlite_only;

macro_rules! contract {
    ($($module:ident: $($name:ident)+;)+) => {
        mod sqlite {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let place = super::fixtures::Place::sqlite().await;
                    super::$module::$name(&place).await;
                    place.end().await;
                }
            )+)+
        }
        mod postgres {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let place = super::fixtures::Place::postgres().await;
                    super::$module::$name(&place).await;
                    place.end().await;
                }
            )+)+
        }
    };
}

/// What simulated runs ask of the model that stands for both databases there.
macro_rules! modelled {
    ($($module:ident: $($name:ident)+;)+) => {
        mod in_memory {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let place = super::fixtures::Place::model();
                    super::$module::$name(&place).await;
                    place.end().await;
                }
            )+)+
        }
    };
}

modelled! {
    incarnations:
        a_living_incarnation_beats_and_is_listed_with_its_leases
        one_that_was_marked_dead_is_disowned_at_its_next_heartbeat
        marking_dead_is_guarded_by_the_counter
        an_orderly_end_frees_leases_and_evidence
        a_store_has_one_identity_whoever_asks_first
        other_settings_are_refused_while_somebody_alive_or_a_queue_has_the_old_ones
        settings_that_name_every_queue_come_back;
    leases:
        a_free_lease_is_taken_with_its_row_and_one_epoch_for_the_call
        a_lease_of_the_living_is_held_and_of_the_dead_is_taken_with_their_name
        of_two_concurrent_takers_exactly_one_gets_each_queue
        delivery_respects_pause_and_wish_and_managing_does_not
        a_closing_that_was_left_is_ended_again_when_taken
        a_dead_incarnation_gets_no_lease
        a_lease_is_freed_only_under_its_epoch
        the_holder_sees_the_wishes_of_others
        a_wish_counts_while_its_incarnation_lives
        a_wish_waits_for_that_of_another_one_who_lives
        who_manages_a_queue_takes_its_lease_anew_and_who_delivers_does_not
        a_hundred_leases_are_taken_in_one_call_and_answered_in_order
        a_lease_says_how_long_its_head_still_waits;
    queues:
        learned_queues_have_rows_and_endpoints_and_keep_what_was_known
        pages_go_by_name_in_byte_order_and_by_url
        unused_queues_are_those_that_nobody_holds_and_whose_head_did_not_fail
        it_is_known_whose_queues_some_are_and_whether_that_url_answered
        of_some_names_the_rows_that_are_there_are_read
        every_mark_is_guarded_by_the_lease
        marks_are_kept
        pausing_an_unknown_queue_answers_nothing
        due_queues_are_those_that_wait_for_somebody
        waiting_heads_come_soonest_first_and_parked_last
        queues_are_found_by_the_message_at_their_head
        heads_are_reset_for_a_queue_or_a_url_but_decisions_stay
        a_queue_is_forgotten_only_under_its_lease_and_without_a_companion;
    deliveries:
        a_failure_keeps_its_attempt_its_head_and_the_time_of_the_next_attempt
        a_failure_under_a_lost_lease_keeps_only_its_attempt
        the_first_failure_of_a_head_is_remembered_until_the_head_changes
        a_failure_changes_the_endpoint_only_under_the_epoch_it_began_with
        a_failure_commits_its_decision
        a_success_settles_the_head_that_it_is_about
        a_success_of_a_forgotten_queue_makes_no_queue
        failing_heads_are_those_after_the_last_success
        a_queue_of_which_a_message_was_refused_counts_until_the_next_success
        a_decision_is_opened_and_closed_under_the_lease
        a_message_with_the_same_id_and_another_body_has_a_head_and_a_decision_of_its_own
        an_open_decision_is_not_replaced
        attempts_are_found_by_queue_url_and_message_newest_first;
    endpoints:
        closing_makes_the_failing_message_the_probe
        a_failed_probe_is_due_later_and_lets_go_of_the_claim
        the_next_message_probes_at_once_with_the_whole_policy
        parking_and_disabling_wait_for_a_person
        opening_clears_everything_and_resets_every_head_of_the_url
        a_probe_that_opens_gives_back_what_failed_by_the_url_alone
        a_pause_outlives_disabling_and_redelivering_and_the_reason_does_not
        a_change_under_an_old_epoch_is_stale
        what_it_failed_with_is_over_with_the_first_success_of_an_endpoint_that_is_available
        an_unknown_endpoint_is_unknown
        every_change_of_state_raises_epoch_and_generation
        a_url_waits_for_any_queue_when_its_probe_has_no_attempts_left
        one_of_many_claims_the_probe
        a_probe_is_claimed_only_when_it_is_due_and_for_its_queue
        a_claim_that_ran_out_is_retaken
        a_released_probe_goes_back_or_elsewhere
        endpoints_are_listed_with_the_unavailable_first_and_their_queues
        the_order_of_endpoints_tells_nothing_of_the_values_in_their_queries
        a_url_of_eight_kibibytes_is_an_endpoint
        a_pace_is_kept_counts_failures_and_closes_its_endpoint
        an_endpoint_that_opens_again_keeps_its_pace_and_a_person_ends_it;
}

contract! {
    incarnations:
        a_living_incarnation_beats_and_is_listed_with_its_leases
        a_living_incarnation_is_listed_behind_any_number_that_ended
        one_that_was_marked_dead_is_disowned_at_its_next_heartbeat
        marking_dead_is_guarded_by_the_counter
        evidence_says_no_more_than_it_proves
        an_orderly_end_frees_leases_and_evidence
        a_store_has_one_identity_whoever_asks_first
        other_settings_are_refused_while_somebody_alive_or_a_queue_has_the_old_ones
        settings_that_name_every_queue_come_back
        a_store_that_demands_a_newer_program_refuses_an_older_one
        a_store_of_a_newer_schema_is_refused_with_both_versions
        dead_incarnations_are_forgotten_after_a_day_unless_they_own_queues;
    leases:
        a_free_lease_is_taken_with_its_row_and_one_epoch_for_the_call
        a_lease_of_the_living_is_held_and_of_the_dead_is_taken_with_their_name
        epochs_never_go_back_and_begin_at_the_clock
        of_two_concurrent_takers_exactly_one_gets_each_queue
        delivery_respects_pause_and_wish_and_managing_does_not
        a_closing_that_was_left_is_ended_again_when_taken
        a_dead_incarnation_gets_no_lease
        a_lease_is_freed_only_under_its_epoch
        the_holder_sees_the_wishes_of_others
        a_wish_counts_while_its_incarnation_lives
        a_wish_waits_for_that_of_another_one_who_lives
        who_manages_a_queue_takes_its_lease_anew_and_who_delivers_does_not
        a_hundred_leases_are_taken_in_one_call_and_answered_in_order
        a_lease_says_how_long_its_head_still_waits;
    queues:
        learned_queues_have_rows_and_endpoints_and_keep_what_was_known
        pages_go_by_name_in_byte_order_and_by_url
        unused_queues_are_those_that_nobody_holds_and_whose_head_did_not_fail
        it_is_known_whose_queues_some_are_and_whether_that_url_answered
        of_some_names_the_rows_that_are_there_are_read
        every_mark_is_guarded_by_the_lease
        marks_are_kept
        pausing_an_unknown_queue_answers_nothing
        due_queues_are_those_that_wait_for_somebody
        waiting_heads_come_soonest_first_and_parked_last
        queues_are_found_by_the_message_at_their_head
        heads_are_reset_for_a_queue_or_a_url_but_decisions_stay
        a_queue_is_forgotten_only_under_its_lease_and_without_a_companion;
    deliveries:
        a_failure_keeps_its_attempt_its_head_and_the_time_of_the_next_attempt
        a_failure_under_a_lost_lease_keeps_only_its_attempt
        the_first_failure_of_a_head_is_remembered_until_the_head_changes
        a_failure_changes_the_endpoint_only_under_the_epoch_it_began_with
        a_failure_commits_its_decision
        successes_count_all_and_keep_the_last_few
        a_success_settles_the_head_that_it_is_about
        a_success_of_a_forgotten_queue_makes_no_queue
        failing_heads_are_those_after_the_last_success
        a_queue_of_which_a_message_was_refused_counts_until_the_next_success
        a_refusal_of_before_a_success_goes_with_the_attempts
        a_decision_is_opened_and_closed_under_the_lease
        a_message_with_the_same_id_and_another_body_has_a_head_and_a_decision_of_its_own
        a_head_from_before_fingerprints_is_matched_by_its_id
        an_open_decision_is_not_replaced
        attempts_are_found_by_queue_url_and_message_newest_first
        the_attempt_log_is_trimmed_by_age_and_by_rows
        text_with_a_zero_byte_is_kept_readable;
    endpoints:
        closing_makes_the_failing_message_the_probe
        a_failed_probe_is_due_later_and_lets_go_of_the_claim
        the_next_message_probes_at_once_with_the_whole_policy
        parking_and_disabling_wait_for_a_person
        opening_clears_everything_and_resets_every_head_of_the_url
        a_probe_that_opens_gives_back_what_failed_by_the_url_alone
        a_pause_outlives_disabling_and_redelivering_and_the_reason_does_not
        a_change_under_an_old_epoch_is_stale
        what_it_failed_with_is_over_with_the_first_success_of_an_endpoint_that_is_available
        an_unknown_endpoint_is_unknown
        every_change_of_state_raises_epoch_and_generation
        numbers_that_guard_never_go_back_even_with_a_store_that_does
        a_url_waits_for_any_queue_when_its_probe_has_no_attempts_left
        one_of_many_claims_the_probe
        a_probe_is_claimed_only_when_it_is_due_and_for_its_queue
        a_claim_that_ran_out_is_retaken
        a_released_probe_goes_back_or_elsewhere
        endpoints_are_listed_with_the_unavailable_first_and_their_queues
        urls_that_answered_are_remembered_without_a_queue_the_latest_first
        the_order_of_endpoints_tells_nothing_of_the_values_in_their_queries
        a_url_of_eight_kibibytes_is_an_endpoint
        a_pace_is_kept_counts_failures_and_closes_its_endpoint
        an_endpoint_that_opens_again_keeps_its_pace_and_a_person_ends_it;
    records:
        the_audit_is_a_chain_of_hashes
        concurrent_appends_to_the_audit_do_not_fork_the_chain
        the_audit_refuses_to_be_changed
        a_policy_has_versions_and_can_be_unset
        policies_of_different_scopes_stand_beside_each_other
        the_order_of_policies_tells_nothing_of_the_values_in_queries
        concurrent_saves_of_a_policy_get_versions_of_their_own
        a_rescued_message_keeps_its_exact_bytes;
    retention:
        a_trim_of_the_audit_leaves_its_end_and_the_chain_goes_on
        what_the_trim_of_the_audit_has_not_anchored_cannot_be_deleted
        attempts_go_a_page_at_a_time
        a_run_that_is_removed_counts_as_gone_from_the_first_page_on
        a_plan_that_is_removed_cannot_be_started_nor_frozen_any_more
        a_save_that_is_removed_cannot_be_restored_any_more
        an_endpoint_is_forgotten_only_when_nothing_needs_it
        an_endpoint_that_comes_back_does_not_get_an_older_epoch
        older_versions_of_a_policy_go_and_the_one_that_holds_stays
        an_edit_goes_when_its_dead_letter_is_long_gone
        rescued_messages_go_after_their_time
        a_subscription_that_ended_goes_when_nothing_waits_for_its_url
        an_event_type_goes_when_nothing_is_there_of_it_and_nobody_used_it
        an_event_type_that_went_comes_back_with_the_next_push
        nothing_goes_by_its_age_while_the_clock_may_be_ahead;
    broker_facts:
        the_brokers_policies_are_kept_with_their_age
        of_two_who_look_at_the_same_time_one_reads_anew
        a_store_says_whose_it_is_and_so_do_the_lines_of_its_audit;
    runs:
        a_plan_is_frozen_once_and_started_only_with_its_hash
        of_two_concurrent_takers_of_a_run_exactly_one_gets_it
        a_run_of_the_dead_is_open_and_taken_over
        a_stale_epoch_changes_nothing
        a_person_changes_a_run_only_from_where_that_makes_sense
        items_keep_their_journal_and_are_paged
        marks_reach_their_items_in_any_order_and_no_others
        runs_that_are_not_over_are_listed_without_their_plans
        a_source_is_one_runs_at_a_time
        kept_messages_are_kept_until_their_time
        the_history_of_runs_is_bounded
        a_thousand_items_move_on_in_one_call;
    policies:
        the_newest_versions_are_found_by_scope_unset_ones_too
        a_version_is_saved_only_over_the_one_that_it_was_made_for
        heads_that_wait_are_listed_with_their_terms_and_the_url_that_waits_for_them
        a_head_moves_only_while_it_waits_as_it_was_read
        a_url_moves_with_the_head_that_it_waits_for_and_not_while_somebody_probes
        a_parked_url_goes_on_and_parks_again
        a_dead_letter_is_decided_only_where_nobody_holds_the_queue;
    dead_letters:
        a_letter_that_no_queue_takes_is_kept_once_and_listed_without_its_body
        one_look_at_a_time_and_a_silent_one_is_taken_over
        what_a_whole_look_does_not_see_is_removed
        a_row_is_read_as_it_was_written
        copies_in_one_batch_are_one_row
        pages_follow_the_order_without_gaps
        letters_are_found_by_queue_and_group
        letters_are_found_by_their_exact_texts
        groups_are_counted_with_their_times_and_trend
        each_queue_has_the_times_of_its_letters_and_the_queues_that_they_died_in
        what_a_run_changed_is_as_if_nobody_had_looked
        a_queue_that_is_gone_is_forgotten_unless_somebody_has_it
        taken_out_letters_are_removed_by_id;
    races:
        several_processes_may_open_a_new_store_at_once
        mixed_work_of_several_processes_does_not_wait_in_a_circle;
    events:
        a_pushed_event_is_kept_byte_for_byte_and_due_at_once
        a_push_of_a_key_that_waits_replaces_it
        dated_events_stand_beside_each_other_and_only_an_equal_one_is_replaced
        a_dated_event_that_is_rescheduled_has_its_new_date_as_its_key
        each_push_makes_notification_ids_that_nobody_knows_before
        a_batch_is_answered_in_its_order
        a_batch_keeps_every_payload_byte_for_byte
        pushes_that_come_at_once_are_each_answered_for_itself
        due_events_are_taken_soonest_first_and_once
        of_one_reference_only_one_is_taken_dated_ones_included
        claims_of_both_halves_at_once_take_every_event_once
        a_requeued_event_waits_for_its_time_with_its_reason
        ends_of_one_call_are_each_done_and_told_for_itself
        a_released_event_is_ready_as_it_was
        a_dead_event_is_not_taken_and_comes_back_to_life_by_a_push
        events_over_a_lowered_cutoff_are_given_up
        a_lease_of_the_dead_and_one_that_ran_out_are_ended_as_failures
        a_prolonged_lease_is_not_ended
        a_busy_key_waits_for_quiet_and_no_longer_than_its_bound
        events_with_a_lifetime_end_by_themselves
        a_lifetime_that_is_over_by_a_leap_of_the_clock_alone_ends_a_day_later
        handled_events_are_remembered_where_the_type_says_so
        events_are_listed_newest_first_by_their_conditions
        a_persons_change_is_guarded_by_the_revision
        a_dead_event_that_is_retried_gets_its_whole_budget
        a_batch_under_a_lost_lease_changes_nothing;
    event_races:
        updated_outside_and_handled_well_the_newer_one_runs_again
        removed_outside_and_handled_well_it_is_gone
        updated_outside_and_failed_the_newer_one_stands_without_backoff
        removed_outside_and_failed_it_is_not_brought_back
        what_is_cancelled_in_hand_keeps_its_reference_until_its_handler_has_ended
        a_lost_lease_finishes_nothing
        who_took_an_event_before_a_restore_ends_none_of_after
        a_push_that_commits_while_a_finish_waits_on_the_row_supersedes_it;
    event_search:
        an_error_is_found_by_any_part_of_its_text_in_any_letter_case
        an_error_that_is_no_longer_there_is_not_found
        conditions_hold_together
        pages_of_a_search_have_no_gaps
        a_push_of_another_process_is_heard_of
        the_next_due_event_is_known
        pushes_at_once_are_all_answered_and_counted
        a_window_of_a_run_changes_its_events_and_journals_each
        a_window_moves_dated_events_to_one_date
        a_window_under_a_lost_or_stopped_run_changes_nothing;
    event_claims:
        a_claim_holds_its_events_until_it_ends
        a_claim_that_ran_out_is_told_from_a_handler_that_was_lost
        a_claimed_event_is_done_only_by_its_claim
        what_a_claim_finished_is_remembered_where_the_type_says_so
        a_handler_and_a_claim_do_not_share_an_event
        an_unknown_type_cannot_be_claimed
        the_claim_after_the_last_allowed_one_moves_the_event_with_its_history
        with_one_allowed_claim_the_second_one_moves
        without_both_count_and_type_nothing_is_moved
        an_event_that_is_done_in_time_is_never_moved
        a_moved_event_lives_as_long_as_the_type_says_and_then_ends
        a_dead_letter_that_is_tried_again_does_not_end_as_one
        a_claim_keeps_an_event_alive_for_its_grace
        nothing_coalesces_into_a_dead_letter_type_and_a_push_to_the_origin_starts_anew
        a_dead_letter_type_must_exist_and_make_no_chain
        subscriptions_belong_to_a_type_and_are_one_for_each_url
        notifications_are_stored_with_the_finish_or_not_at_all
        a_notification_that_waits_holds_only_its_own_queue
        large_bodies_come_a_few_at_a_time_and_all_of_them_come;
    saves:
        messages_are_kept_in_their_order_until_they_are_put_back
        one_takes_the_messages_of_a_queue_at_a_time_and_the_dead_are_told
        what_a_dead_one_left_unbound_is_taken_over
        what_a_sweep_does_not_see_is_gone_and_what_is_lost_first_comes_first;
}
