//! The table of bad input: a description and the functions that send the input and check the
//! result.
//!
//! All rows run, and a failure lists all failed rows with their descriptions. A row is a function
//! that creates a world and panics. To add a test, add a line here instead of a `#[test]`.

use crate::{
    approle, bad_components, bad_input, foreign_files, full_disk, hostile_callers, hostile_names,
    jwt, mounts, secrecy, targets, tokens, unseal, userpass,
};
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Number of concurrent rows. A row mostly waits for its processes.
const SIDE_BY_SIDE: usize = 3;

/// Longest duration of a row, including its servers and waits, on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

type Row = (&'static str, &'static str, fn());

/// `"words" => function, function;` becomes a row per function.
macro_rules! bad_input {
    ($($words:literal => $($row:path),+;)+) => {
        const TABLE: &[Row] = &[$($(($words, stringify!($row), $row)),+),+];
    };
}

bad_input! {
    "malformed JSON" => bad_input::bodies_other_than_one_json_object_are_refused;
    "wrong types" => bad_input::values_of_the_wrong_type_are_refused_by_name;
    "unknown mounts and fields" => bad_input::paths_without_a_route_are_refused,
        bad_input::unknown_fields_are_ignored_with_a_warning_and_kept_for_a_plugin;
    "missing roles and connections" => bad_input::roles_that_lack_what_they_need_are_refused,
        bad_input::credentials_of_missing_roles_and_leases_are_refused,
        bad_input::connections_of_unknown_plugins_and_versions_are_refused;
    "bad durations and URLs" => bad_input::malformed_durations_are_refused_with_the_value,
        bad_input::addresses_that_cannot_be_dialled_are_refused_by_name;
    "statements that do not lex" =>
        bad_input::statements_that_do_not_lex_are_refused_when_the_role_is_written,
        bad_input::statements_that_do_not_lex_are_refused_when_the_connection_came_after_the_role,
        bad_input::statements_that_the_database_refuses_leave_nothing;
    "a database that is down, slow or refuses" =>
        targets::a_connection_to_a_database_that_is_down_is_502_and_not_stored,
        targets::a_database_that_went_down_is_502_for_every_use_of_it,
        targets::a_database_that_does_not_answer_is_502_within_the_connections_timeout,
        targets::a_wrong_root_password_is_400_and_names_the_connection;
    "display names built to break SQL" => hostile_names::the_default_names_of_users_are_harmless,
        hostile_names::names_from_an_operators_template_are_harmless,
        hostile_names::names_stay_harmless_in_every_kind_of_quote,
        hostile_names::hostile_names_of_connections_and_roles_are_refused;
    "nonsense about users and roles of logins" =>
        userpass::bad_user_settings_are_refused_and_not_stored,
        approle::bad_role_settings_are_refused_and_not_stored,
        jwt::bad_settings_and_tokens_are_refused_and_not_stored;
    "passwords with quotes" => secrecy::a_root_password_full_of_quotes_works_and_shows_nowhere,
        secrecy::a_refused_connection_never_shows_its_password;
    "a second process on the directory" =>
        foreign_files::a_second_process_on_the_same_folder_is_refused_and_the_first_goes_on;
    "a database file of another cluster or format" =>
        foreign_files::the_database_of_another_cluster_is_refused_and_the_own_one_opens_again,
        foreign_files::a_foreign_database_file_is_refused;
    "swapped or flipped rows" =>
        foreign_files::a_flipped_byte_damages_only_its_record,
        foreign_files::swapped_rows_are_both_refused;
    "a full disk" =>
        full_disk::a_full_disk_refuses_writes_with_a_reason_until_there_is_space;
    "wrong, repeated or foreign shares" => unseal::a_repeated_share_makes_no_progress,
        unseal::a_wrong_share_ends_the_attempt_at_the_threshold,
        unseal::a_share_of_another_cluster_ends_the_attempt_at_the_threshold,
        unseal::all_shares_of_another_cluster_are_refused,
        unseal::malformed_shares_are_not_repeated_and_cost_no_progress;
    "forged, truncated, 8 KB and other-cluster tokens" =>
        tokens::a_forged_or_overlong_token_is_refused_as_any_unknown_one;
    "policies with unknown keys" => bad_input::policies_that_do_not_parse_are_not_stored;
    "HCL bombs" => bad_input::policies_made_to_cost_time_or_memory_are_refused;
    "1 MB" => bad_input::policies_of_a_million_bytes_are_refused_with_the_limit;
    "paths with `..`, `//`, NUL, encoded slashes" =>
        bad_input::ambiguous_paths_are_refused_for_every_caller;
    "mounts over mounts and reserved paths" =>
        mounts::bad_mount_settings_are_refused_and_change_nothing;
    "negative and overflowing TTLs" =>
        bad_input::negative_and_overflowing_times_are_refused_in_every_field;
    "a body that is too large" => bad_input::a_body_that_is_too_large_is_refused_before_it_is_read;
    "components that are truncated" => bad_components::components_cut_short_are_refused;
    "modules" => bad_components::uploads_other_than_components_are_refused_with_their_kind;
    "components of the wrong world" =>
        bad_components::components_of_another_world_are_refused_with_the_type_to_register;
    "components with unknown imports" =>
        bad_components::unknown_imports_are_refused_with_their_list;
    "a component of a later contract" =>
        bad_components::a_component_of_a_later_contract_is_refused_with_both_versions;
    "components of 100 MB" => bad_components::a_hundred_megabytes_are_refused_in_bounded_memory;
    "components with a million functions" =>
        bad_components::a_million_functions_are_refused_before_they_are_compiled;
    "route tables that collide or claim `sys`" =>
        bad_components::tables_that_collide_are_refused_with_their_row,
        bad_components::tables_that_claim_reserved_paths_are_refused;
    "JSON nested 10,000 deep" => bad_input::objects_nested_ten_thousand_deep_are_refused;
    "a million keys" => bad_input::a_million_keys_are_refused;
    "duplicate keys" => bad_input::keys_that_are_given_twice_are_refused_by_name;
    "invalid UTF-8" => bad_input::bytes_that_are_not_text_are_refused;
    "1,000 headers" => hostile_callers::heads_that_are_too_large_are_refused_with_the_limit;
    "a body that never ends" =>
        hostile_callers::unfinished_bodies_share_a_memory_bound_and_time_out;
}

/// Runs the row and returns its failure, if any.
fn failure((words, name, run): &Row) -> Option<String> {
    let start = Instant::now();
    let ended = catch_unwind(run);
    let took = start.elapsed();
    println!("{took:>8.1?} {name}");
    let complaint = match ended {
        Err(why) => why.downcast::<String>().map_or_else(|_| "it panicked".to_owned(), |why| *why),
        Ok(()) if took > LONGEST => format!("it took {took:?}"),
        Ok(()) => return None,
    };
    Some(format!("{words} ({name}): {complaint}"))
}

#[test]
fn bad_input_is_refused_row_by_row() {
    let (rows, failures) = (Mutex::new(TABLE.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let Some(row) = rows.lock().expect("no row panics with it").next() else {
                        break;
                    };
                    // The row runs before the lock is taken. Inside the lock, rows would run one
                    // after another.
                    let failed = failure(row);
                    failures.lock().expect("no row panics with it").extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("all rows have ended");
    assert!(
        failures.is_empty(),
        "{} rows of the table fail:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}
