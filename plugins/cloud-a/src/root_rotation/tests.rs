//! Rotations of the client secret: each step, an interruption at each step, and concurrent changes.

use crate::configuration::DUE;
use crate::fixture::*;
use crate::kept_secrets::TRIAL;
use crate::root_records::{PENDING, RETIRED};
use bulkhead_sdk::{Failure, FailureKind, Host};
use serde_json::{Value, json};

#[test]
fn working_new_secret_counts_then_old_is_removed() {
    let mut bed = with_new_secret();
    bed.caller.capabilities = vec!["sudo".to_owned(), "update".to_owned()];
    assert_eq!(bed.read("config").unwrap().data["client_secret"], SECRET);
    let warnings = rotate(&bed).unwrap();
    assert_eq!(warnings, ["the application has other passwords, which are kept: key-9"]);
    assert_eq!(secret(&bed), SECRET, "the old secret stays until the new secret works");
    assert!(removed(&bed).is_empty());
    bed.host.advance(60);
    ring(&bed, PENDING);
    assert_eq!(secret(&bed), NEW);
    assert!(removed(&bed).is_empty(), "nothing is removed before the secret is stored");
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-1"]);
    assert_eq!((bed.host.stored(PENDING), bed.host.stored(RETIRED)), (None, None));
    let shown = bed.read("config").unwrap().data;
    assert_eq!(shown["root_password_expiration_date"], "2030-07-02T12:00:00Z");
    assert_eq!(shown.get("client_secret"), None, "no read shows the new secret");
}

#[test]
fn a_second_rotation_waits_for_the_first() {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    let refused = rotate(&bed).unwrap_err();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.starts_with("a root rotation is already in progress"));
    bed.host.requests();
    bed.host.advance(60);
    ring(&bed, PENDING);
    bed.host.answer(LIST, listed(&json!([{"keyId": "key-2"}, {"keyId": "key-9"}])));
    assert!(rotate(&bed).is_ok());
}

/// Arranges further answers of the token endpoint; `false` refuses the secret.
fn arrange_tokens(bed: &CloudBed, works: &[bool]) {
    for works in works {
        let answered = match works {
            true => answer(200, &json!({"expires_in": 3_599, "access_token": "t-2"})),
            false => answer(401, &json!({"error": "invalid_client"})),
        };
        bed.host.answer(TOKEN, answered);
    }
}

#[test]
fn secret_not_yet_working_is_retried_every_minute() {
    let bed = with_new_secret();
    bed.write("config", &json!({"max_retries": 0})).unwrap();
    arrange_tokens(&bed, &[false, false, true]);
    rotate(&bed).unwrap();
    for _ in 0..2 {
        bed.host.advance(60);
        ring(&bed, PENDING);
        assert_eq!(secret(&bed), SECRET);
    }
    bed.host.refuse("send", Failure::new(FailureKind::Unreachable, "down"));
    bed.host.advance(60);
    assert!(bed.wake(PENDING, 1).is_err(), "a provider that is down says nothing of the secret");
    ring(&bed, PENDING);
    assert_eq!(secret(&bed), NEW);
}

#[test]
fn never_working_secret_is_removed_after_one_hour() {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    // The new secret is refused twice, and then the current one works.
    answer_tokens(&bed, &[false, false, true]);
    bed.host.advance(60);
    ring(&bed, PENDING);
    bed.host.advance(3_600);
    ring(&bed, PENDING);
    assert_eq!((secret(&bed), bed.host.stored(PENDING)), (SECRET.to_owned(), None));
    assert!(bed.host.steps().iter().any(|step| step.starts_with("log root-secret-refused")));
    assert_eq!(bed.host.stored(RETIRED).unwrap()["key_ids"], json!(["key-2"]));
}

#[test]
fn secret_written_by_operator_during_rotation_is_kept() {
    let bed = with_application();
    bed.host.answer(ADD, added());
    bed.host.answer(LIST, listed(&json!([ours(), {"keyId": "key-2"}])));
    rotate(&bed).unwrap();
    bed.write("config", &json!({"client_secret": "of-the-operator"})).unwrap();
    bed.host.advance(60);
    ring(&bed, PENDING);
    assert_eq!((secret(&bed), bed.host.stored(PENDING)), ("of-the-operator".to_owned(), None));
    bed.host.requests();
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-2"]);
}

#[test]
fn refused_rotation_is_reported_and_leaves_no_intent() {
    let bed = with_application();
    let denied = json!({"error": {"code": "Authorization_RequestDenied"}});
    bed.host.answer(ADD, answer(403, &denied));
    let refused = rotate(&bed).unwrap_err();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("403 (Authorization_RequestDenied)"), "{}", refused.message);
    assert_eq!(bed.run_guards().unwrap(), 0);
    bed.host.answer(ADD, added());
    rotate(&bed).unwrap_err();
    assert!(rotate(&bed).is_ok(), "the answer that was arranged next");
}

/// Returns the name of the password requested since the last call.
fn asked_name(bed: &CloudBed) -> Option<String> {
    bed.host.requests().into_iter().find_map(|request| {
        let body: Value = serde_json::from_slice(&request.body).ok()?;
        body["passwordCredential"]["displayName"].as_str().map(str::to_owned)
    })
}

/// Returns the passwords removed after an interrupted rotation that left `orphan`.
fn clean_up(bed: &CloudBed, orphan: Option<&str>) -> Vec<Value> {
    assert_eq!(bed.run_guards().unwrap(), 1);
    assert_eq!((secret(bed), bed.host.stored(PENDING)), (SECRET.to_owned(), None));
    let orphan = orphan.map(|name| json!({"keyId": "key-2", "displayName": name}));
    let passwords: Vec<Value> = [ours()].into_iter().chain(orphan).collect();
    bed.host.answer(LIST, listed(&json!(passwords)));
    // The list that was arranged first does not contain the orphan yet.
    ring(bed, RETIRED);
    assert!(removed(bed).is_empty());
    bed.host.advance(60);
    ring(bed, RETIRED);
    let gone = removed(bed);
    bed.host.answer(LIST, listed(&json!([ours()])));
    bed.host.advance(600);
    ring(bed, RETIRED);
    assert_eq!(bed.host.stored(RETIRED), None);
    gone
}

#[test]
fn secret_with_lost_answer_is_removed_by_name() {
    let bed = with_application();
    assert_eq!(rotate(&bed).unwrap_err().kind, FailureKind::Unreachable);
    let name = asked_name(&bed).unwrap();
    assert!(rotate(&bed).is_err(), "while it is open there is no second one");
    assert_eq!(clean_up(&bed, Some(&name)), ["key-2"]);
}

#[test]
fn process_death_leaves_one_known_secret() {
    // The process dies before the secret is created.
    let bed = with_new_secret();
    bed.host.die_after("checkpoint");
    assert!(rotate(&bed).is_err());
    assert_eq!(asked_name(&bed), None);
    assert!(clean_up(&bed, None).is_empty());
    // The process dies after the secret is created and before it is stored.
    let bed = with_new_secret();
    bed.host.die_after("schedule");
    assert!(rotate(&bed).is_err());
    let name = asked_name(&bed).unwrap();
    assert_eq!(clean_up(&bed, Some(&name)), ["key-2"]);
}

#[test]
fn secret_activation_continues_after_process_death() {
    for step in ["send", "put", "schedule", "delete", "cancel"] {
        let bed = with_new_secret();
        rotate(&bed).unwrap();
        bed.host.advance(60);
        bed.host.die_after(step);
        assert!(bed.wake(PENDING, 1).is_err(), "{step}");
        assert_eq!(secret(&bed), SECRET, "{step}");
        ring(&bed, PENDING);
        assert_eq!(secret(&bed), NEW, "{step}");
        bed.host.requests();
        bed.host.die_after("send");
        assert!(bed.wake(RETIRED, 1).is_err(), "{step}");
        ring(&bed, RETIRED);
        assert_eq!(removed(&bed), ["key-1"], "{step}");
    }
}

#[test]
fn answer_without_secret_fails_and_is_cleaned_up() {
    let bed = with_application();
    bed.host.answer(ADD, answer(200, &json!({"keyId": "key-2", "secretText": ""})));
    assert_eq!(rotate(&bed).unwrap_err().kind, FailureKind::Unreachable);
    assert_eq!(bed.run_guards().unwrap(), 1);
    assert_eq!(bed.host.stored(RETIRED).unwrap()["names"].as_array().unwrap().len(), 1);
}

#[test]
fn failed_later_rotation_prolongs_no_earlier_name_search() {
    let bed = with_application();
    bed.host.answer(ADD, answer(200, &json!({"keyId": "key-2", "secretText": ""})));
    let names = |bed: &CloudBed| {
        let stored = bed.host.stored(RETIRED);
        stored.map_or(0, |stored| stored["names"].as_array().unwrap().len())
    };
    for minute in 0..30 {
        assert!(rotate(&bed).is_err());
        assert_eq!(bed.run_guards().unwrap(), 1);
        bed.wake(RETIRED, 1).unwrap();
        assert!(names(&bed) <= 10, "{minute}: {}", names(&bed));
        bed.host.advance(60);
    }
    bed.host.advance(600);
    bed.wake(RETIRED, 1).unwrap();
    assert_eq!(names(&bed), 0);
}

#[test]
fn rotation_without_secret_is_refused() {
    let bed = ready();
    for (update, why) in [
        (json!({"client_secret": ""}), "no client_secret to rotate"),
        (json!({"identity_token_audience": "api://x"}), "no client_secret to rotate"),
        (
            json!({"identity_token_audience": "", "client_secret": "x", "client_id": "a' or 1"}),
            "client_id is not the GUID",
        ),
    ] {
        bed.write("config", &update).unwrap();
        let refused = rotate(&bed).unwrap_err();
        assert!(refused.message.contains(why), "{}", refused.message);
    }
    bed.delete("config").unwrap();
    assert!(rotate(&bed).unwrap_err().message.starts_with("config is nil"));
}

#[test]
fn application_must_be_unique_and_as_requested() {
    for (body, kind) in [
        (json!({"value": []}), FailureKind::InvalidRequest),
        (json!({"value": [{"id": "a", "appId": "other"}]}), FailureKind::Unreachable),
        (
            json!({"value": [{"id": "a", "appId": CLIENT}, {"id": "b", "appId": CLIENT}]}),
            FailureKind::InvalidRequest,
        ),
    ] {
        let bed = ready();
        bed.host.answer(LIST, answer(200, &body));
        assert_eq!(rotate(&bed).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn a_scheduled_rotation_comes_by_itself_and_again() {
    let bed = with_new_secret();
    bed.write("config", &json!({"rotation_period": "1h"})).unwrap();
    bed.host.advance(3_600);
    ring(&bed, DUE);
    bed.host.advance(60);
    ring(&bed, PENDING);
    assert_eq!(secret(&bed), NEW);
    let now = bed.host.clock().now();
    assert_eq!(bed.host.timer(DUE), Some(now + 3_600_000));
}

#[test]
fn config_deletion_warns_of_secrets_left_at_provider() {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    let warnings = bed.delete("config").unwrap().warnings;
    assert!(warnings[0].ends_with("the passwords key-2"), "{warnings:?}");
    assert_eq!((bed.host.stored(PENDING), bed.host.timer(PENDING)), (None, None));
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.host.advance(60);
    ring(&bed, PENDING);
    let warnings = bed.delete("config").unwrap().warnings;
    assert!(warnings[0].starts_with("client secret key-2 was made by a rotation"), "{warnings:?}");
    assert!(warnings[1].ends_with("the passwords key-1"), "{warnings:?}");
}

#[test]
fn every_scheduled_rotation_outcome_sets_next_time() {
    let lost = || answer(500, &json!({}));
    let refused = || answer(403, &json!({"error": {"code": "Authorization_RequestDenied"}}));
    let nonsense = || answer(200, &json!({"keyId": "key-2"}));
    for adding in [lost, refused, added, nonsense] {
        for step in ["", "checkpoint", "send", "put"] {
            let bed = with_application();
            bed.host.answer(ADD, adding());
            bed.host.answer(ADD, added());
            bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
            bed.host.advance(3_600);
            if !step.is_empty() {
                bed.host.die_after(step);
            }
            for _ in 0..1_800 {
                bed.ring_due();
                let case = format!("{:?}, death after {step:?}", adding().status);
                // The end of a pending secret sets the time of the next rotation.
                let next = bed.host.timer(DUE).or(bed.host.timer(PENDING));
                assert!(next.is_some(), "no next time: {case}");
                bed.host.advance(5);
            }
            assert_eq!(secret(&bed), NEW, "death after {step:?}");
        }
    }
}

/// Returns a bed with a pending secret, after whose creation the operator wrote another secret.
fn superseded() -> CloudBed {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.write("config", &json!({"client_secret": "of-the-operator"})).unwrap();
    bed.host.advance(60);
    bed
}

#[test]
fn a_pending_secret_outlives_an_operators_refused_secret() {
    let bed = superseded();
    answer_tokens(&bed, &[false, true]);
    ring(&bed, PENDING);
    assert_eq!(tried(&bed), ["of-the-operator", NEW]);
    assert_eq!((secret(&bed).as_str(), bed.host.stored(PENDING)), (NEW, None));
    let bed = superseded();
    answer_tokens(&bed, &[false]);
    ring(&bed, PENDING);
    assert_eq!((secret(&bed).as_str(), bed.host.stored(RETIRED)), ("of-the-operator", None));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({"client_secret": "mistyped"})).unwrap();
    ring(&bed, TRIAL);
    assert_eq!(secret(&bed), NEW, "the secret was kept");
}

#[test]
fn a_pending_secret_waits_while_nothing_is_proven() {
    let bed = superseded();
    lose_request(&bed);
    assert_eq!(bed.wake(PENDING, 1).unwrap_err().kind, FailureKind::Unreachable);
    assert!(bed.host.stored(PENDING).is_some() && bed.host.stored(RETIRED).is_none());
    ring(&bed, PENDING);
    assert_eq!(bed.host.stored(RETIRED).unwrap()["key_ids"], json!(["key-2"]));
}

#[test]
fn a_pending_secret_goes_to_no_other_application() {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.write("config", &json!({"client_id": APP, "client_secret": "of-another"})).unwrap();
    bed.host.advance(60);
    bed.host.requests();
    ring(&bed, PENDING);
    assert!(bed.host.requests().is_empty());
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({"client_id": CLIENT, "client_secret": "mistyped"})).unwrap();
    ring(&bed, TRIAL);
    assert_eq!(secret(&bed), NEW);
}

#[test]
fn a_late_secret_is_kept_without_another() {
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.host.advance(3_600);
    answer_tokens(&bed, &[false]);
    ring(&bed, PENDING);
    assert_eq!((bed.host.stored(PENDING), bed.host.stored(RETIRED)), (None, None));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({})).unwrap();
    ring(&bed, TRIAL);
    assert_eq!(secret(&bed), NEW);
    let bed = with_new_secret();
    rotate(&bed).unwrap();
    bed.host.advance(3_600);
    // The new secret is refused, and the current one gets no answer.
    bed.host.answer(TOKEN, answer(401, &json!({"error": "invalid_client"})));
    bed.host.answer(TOKEN, answer(503, &json!({})));
    drop_answer(&bed, TOKEN);
    assert!(bed.wake(PENDING, 1).is_err());
    assert!(bed.host.stored(PENDING).is_some());
}

#[test]
fn retired_passwords_wait_for_their_own_application() {
    let bed = with_former_secret();
    bed.write("config", &json!({"client_id": APP, "client_secret": "of-another"})).unwrap();
    ring(&bed, RETIRED);
    assert!(bed.host.requests().is_empty());
    assert_eq!(bed.host.stored(RETIRED).unwrap()["key_ids"], json!(["key-1"]));
    bed.write("config", &json!({"client_id": CLIENT, "client_secret": "of-the-operator"})).unwrap();
    ring(&bed, TRIAL);
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-1", "key-2"]);
    assert_eq!(bed.host.stored(RETIRED), None);
}

#[test]
fn an_interrupted_creation_outlives_the_configuration() {
    let bed = with_application();
    rotate(&bed).unwrap_err();
    let name = asked_name(&bed).unwrap();
    bed.delete("config").unwrap();
    assert_eq!(bed.run_guards().unwrap(), 1);
    ring(&bed, RETIRED);
    assert!(bed.host.requests().is_empty(), "there is no access");
    let config = json!({
        "tenant_id": TENANT, "resource": RESOURCE, "client_id": CLIENT, "client_secret": SECRET,
    });
    bed.write("config", &config).unwrap();
    let orphan = json!({"keyId": "key-2", "displayName": name});
    bed.host.answer(LIST, listed(&json!([ours(), orphan])));
    ring(&bed, RETIRED);
    bed.host.advance(60);
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-2"]);
}
