//! One suite for all stores. A further store adds one line at the end.

#[path = "conformance/budgets.rs"]
mod budgets;
#[path = "conformance/claims.rs"]
mod claims;
#[path = "conformance/keys.rs"]
mod keys;
#[path = "conformance/questions.rs"]
mod questions;
#[path = "conformance/sweeps.rs"]
mod sweeps;
#[path = "conformance/trees.rs"]
mod trees;
#[path = "conformance/waits.rs"]
mod waits;

/// Runs every case with the stores that a function creates.
macro_rules! conformance_suite {
    ($store:ident: $($part:ident { $($case:ident),+ $(,)? })+) => {
        mod $store {
            $(mod $part {
                $(
                    #[tokio::test]
                    async fn $case() {
                        let store = crate::fixture::StoreFixture::$store();
                        crate::conformance::$part::$case(&store).await;
                    }
                )+
            })+
        }
    };
}

/// Runs every case with a schema of its own, those of a part on one server.
#[cfg(feature = "postgres")]
macro_rules! postgres_suite {
    ($($part:ident { $($case:ident),+ $(,)? })+) => {
        mod postgres {
            $(
                #[tokio::test]
                async fn $part() {
                    let Some(server) = test_support::PostgresServer::start() else { return };
                    $(
                        // Named where a case fails.
                        eprintln!("{}::{}", stringify!($part), stringify!($case));
                        let address = server.url();
                        let store =
                            crate::fixture::StoreFixture::postgres(&address, stringify!($case));
                        crate::conformance::$part::$case(&store.await).await;
                    )+
                }
            )+
        }
    };
}

/// Ignores the cases in a program without the store.
#[cfg(not(feature = "postgres"))]
macro_rules! postgres_suite {
    ($($cases:tt)+) => {};
}

/// Lists the cases once, for each store.
macro_rules! conformance_suites {
    ($($store:ident),+ $(,)?) => {
        list_cases! { postgres_suite! {} }
        $(list_cases! { conformance_suite! { $store: } })+
    };
}

/// Gives the cases to a macro, after its own arguments.
macro_rules! list_cases {
    ($suite:ident! { $($store:ident:)? }) => {
        $suite! { $($store:)?
            budgets {
                child_reserves_and_returns,
                child_exceeding_rest_is_refused,
                spent_amounts_add_up,
                zero_budget_is_refused,
                child_of_unlimited_parent_reserves,
            }
            claims {
                claim_order_follows_priority_and_time,
                filter_limits_claims,
                lane_runs_in_order,
                lane_waits_for_parked_task,
                stale_claim_is_refused_everywhere,
                heartbeat_reports_each_claim,
                future_task_is_not_due,
                release_after_error_pauses,
                orderly_stop_is_uncounted,
                lines_continue_after_lost_worker,
                attempts_record_their_end,
            }
            keys {
                same_key_returns_same_task,
                other_input_conflicts,
                key_returns_newest_retry,
                retry_copies_lines,
                retry_requires_terminal_task,
                task_is_retried_once,
                scopes_separate_keys,
                known_id_conflicts,
                large_input_is_refused,
                outbox_numbers_are_unique,
                handle_comes_with_its_task,
                handle_requires_its_principal,
                lists_filter_and_page,
            }
            questions {
                decision_wakes_its_task,
                changed_digest_decides_nothing,
                second_decision_names_the_first,
                wrong_option_is_refused,
                question_is_not_repeated,
                changed_subject_replaces_question,
                old_question_expires,
                thread_questions_are_withdrawn,
                end_withdraws_questions,
                asking_again_returns_decision,
            }
            sweeps {
                expired_lease_frees_task,
                third_loss_fails_task,
                new_process_frees_all,
                deadline_fails_every_state,
                clock_jump_forward_frees_lease,
                clock_jump_back_frees_lease,
                clock_jump_back_ends_pause,
                waiting_time_wakes,
                many_rows_are_swept,
            }
            trees {
                cancel_ends_open_tree,
                cancel_marks_running_tree,
                end_of_parent_cancels_children,
                marked_task_ends_on_release,
                cancelled_terminal_task_stays,
                depth_is_limited,
                open_tasks_are_limited,
                child_of_ended_parent_is_refused,
            }
            waits {
                all_waits_for_every_end,
                any_wakes_at_first_end,
                ended_tasks_satisfy_at_once,
                cycle_is_refused,
                dependency_starts_after_completion,
                failed_dependency_fails_chain,
                dependency_on_ancestor_is_refused,
                unknown_task_is_refused,
                many_waiters_wake,
            }
        }
    };
}

conformance_suites!(memory, sqlite);
