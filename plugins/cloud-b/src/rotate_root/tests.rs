//! Rotations of the method's own key, on demand and scheduled, and their recovery after a call, the
//! process or the provider fails half-way.

use crate::CloudB;
use crate::fixture::*;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::http::{Request, Response};
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::{Value, json};

/// Returns the bed's time in the provider's format.
fn rfc3339(bed: &AuthBed<CloudB>) -> String {
    let seconds = i64::try_from(now(bed)).unwrap();
    let time = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
    time.format(&time::format_description::well_known::Rfc3339).unwrap()
}

#[test]
fn new_key_replaces_old_key_that_ends_later() {
    let bed = rotating();
    assert_eq!(rotate(&bed).unwrap(), json!({ "private_key_id": "k-new" }));
    assert_eq!(in_use(&bed), "k-new");
    let requests = bed.host.requests();
    let assertion = requests.iter().rfind(|request| request.url.ends_with("/token")).unwrap();
    let form = String::from_utf8(assertion.body.clone()).unwrap();
    assert!(form.contains("assertion="), "the new key was tried");
    assert!(requests.iter().all(|request| request.method != "DELETE"));
    assert_eq!(bed.host.stored("intent/root"), None);
    end_former(&bed);
    assert_eq!(ended(&bed), ["k-own"]);
    assert_eq!((bed.host.stored("root-keys"), bed.host.timer("root-keys")), (None, None));
    assert_eq!(bed.host.timer("former-keys"), None);
    bed.host.answer(&format!("POST {}", keys_at()), answer(200, &created_key("k-3", ACCOUNT_KEY)));
    rotate(&bed).unwrap();
}

#[test]
fn there_is_nothing_to_rotate_without_credentials() {
    let bed = rotating();
    bed.write("config", &json!({ "credentials": "" })).unwrap();
    let refused = rotate(&bed).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.starts_with("configuration does not have credentials"), "{refused}");
    assert!(bed.host.requests().is_empty());
}

#[test]
fn provider_refusals_are_reported_and_leave_nothing_behind() {
    let bed = served();
    bed.host.answer(&listing(), answer(200, &list(&[])));
    let full = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "keys"}});
    bed.host.answer(&format!("POST {}", keys_at()), answer(400, &full));
    let refused = rotate(&bed).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    assert!(refused.message.contains("failed to create new key"), "{refused}");
    assert!(refused.message.contains("RESOURCE_EXHAUSTED"), "{refused}");
    assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
    assert_eq!(bed.run_guards().unwrap(), 0);
}

#[test]
fn key_unknown_to_provider_is_used_once_known() {
    let bed = rotating();
    // The fixture's token for the old key, 5 refusals of the new key, then a token for the new key.
    let says = json!({"error": "invalid_grant"});
    let token = json!({"access_token": "t-2", "expires_in": 3599});
    for _ in 0..5 {
        bed.host.answer(TOKENS, answer(400, &says));
    }
    bed.host.answer(TOKENS, answer(200, &token));
    assert_eq!(rotate(&bed).unwrap(), json!({ "private_key_id": "k-new" }));
    assert_eq!(in_use(&bed), "k-own", "the old one still works");
    let refused = rotate(&bed).err().unwrap();
    assert!(refused.message.contains("already in progress"), "{refused}");
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    bed.wake("root-keys", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new");
    end_former(&bed);
    assert_eq!(ended(&bed), ["k-own"]);
}

#[test]
fn never_working_key_ends_and_old_key_stays() {
    let bed = rotating();
    bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
    bed.host.advance(3_600);
    bed.host.answer(TOKENS, answer(400, &json!({"error": "invalid_grant"})));
    bed.wake("rotation", 1).unwrap();
    assert_eq!(in_use(&bed), "k-own");
    assert!(bed.wake("root-keys", 1).is_err());
    // The new key is refused once more, and then the old key works.
    answer_tokens(&bed, &[false, true]);
    bed.wake("root-keys", 10).unwrap();
    end_former(&bed);
    assert_eq!((ended(&bed), in_use(&bed)), (vec!["k-new".to_owned()], json!("k-own")));
    assert!(bed.host.timer("rotation").is_some(), "the next rotation is due again");
}

#[test]
fn process_death_before_key_creation_leaves_nothing() {
    let bed = rotating();
    bed.host.die_after("checkpoint");
    assert!(rotate(&bed).is_err());
    assert!(bed.host.stored("intent/root").is_some());
    assert!(rotate(&bed).is_err(), "a second rotation at the same time is refused");
    assert_eq!(bed.run_guards().err().unwrap().kind, FailureKind::Unavailable, "the list may lag");
    bed.host.advance(31);
    bed.host.requests();
    assert_eq!(bed.run_guards().unwrap(), 1);
    assert!(ended(&bed).is_empty());
    assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
}

/// Returns a bed after a rotation whose new key was lost, and after which the keys `came` exist.
fn lose_making(making: Response, came: &[&str]) -> AuthBed<CloudB> {
    let bed = rotating_with(making);
    let mut all = vec![key("k-own", "2020-01-01T00:00:00Z"), key("k-old", "2021-01-01T00:00:00Z")];
    all.extend(came.iter().map(|id| key(id, &rfc3339(&bed))));
    bed.host.answer(&listing(), answer(200, &list(&all)));
    assert_eq!(rotate(&bed).err().unwrap().kind, FailureKind::Unreachable);
    assert!(bed.host.stored("root-keys").is_none());
    bed.host.advance(31);
    bed.host.requests();
    bed.host.steps();
    bed
}

#[test]
fn key_created_but_never_learnt_is_removed() {
    let another = created_key("k-new", ACCOUNT_KEY).to_string().into_bytes();
    for making in [
        answer(500, &json!({})),
        answer(200, &json!({"privateKeyData": "?"})),
        answer(200, &json!({"privateKeyData": BASE64_STANDARD.encode("{}")})),
        Response { status: 200, body: another[..40].to_vec(), ..Response::default() },
    ] {
        let bed = lose_making(making, &["k-new"]);
        assert_eq!(bed.run_guards().unwrap(), 1);
        assert_eq!(ended(&bed), ["k-new"], "only the new key is removed");
        assert_eq!((bed.host.stored("intent/root"), in_use(&bed)), (None, json!("k-own")));
    }
}

#[test]
fn several_new_keys_are_left_and_logged() {
    let bed = lose_making(answer(500, &json!({})), &["k-new", "k-of-others"]);
    assert_eq!(bed.run_guards().unwrap(), 1);
    let steps = bed.host.steps();
    assert!(steps.iter().any(|step| step.contains("root-key-may-remain")), "{steps:?}");
    assert!(ended(&bed).is_empty());
    assert_eq!(bed.host.stored("intent/root"), None);
}

#[test]
fn credentials_written_meanwhile_win_and_new_key_ends() {
    let bed = rotating();
    let says = json!({"error": "invalid_grant"});
    for _ in 0..5 {
        bed.host.answer(TOKENS, answer(400, &says));
    }
    bed.host.answer(TOKENS, answer(200, &json!({"access_token": "t-2", "expires_in": 3599})));
    rotate(&bed).unwrap();
    let written = key_file("k-operator", OTHER_KEY).to_string();
    bed.write("config", &json!({ "credentials": written })).unwrap();
    bed.host.requests();
    end_former(&bed);
    assert_eq!((ended(&bed), in_use(&bed)), (vec!["k-new".to_owned()], json!("k-operator")));
}

#[test]
fn unremovable_key_is_retried_and_then_named() {
    let bed = unending_with(answer(200, &created_key("k-new", OTHER_KEY)));
    let refused = answer(403, &json!({"error": {"status": "PERMISSION_DENIED"}}));
    bed.host.answer(&format!("DELETE {}/k-own", keys_at()), refused);
    rotate(&bed).unwrap();
    bed.host.steps();
    end_former(&bed);
    for _ in 1..10 {
        assert!(bed.host.stored("root-keys").is_some());
        end_former(&bed);
    }
    let steps = bed.host.steps();
    let count = |event: &str| steps.iter().filter(|step| step.contains(event)).count();
    assert_eq!(
        (count("root-key-not-removed"), count("root-key-removal-given-up")),
        (9, 1),
        "{steps:?}"
    );
    assert!(bed.host.stored("root-keys").is_none());
}

#[test]
fn unremovable_key_does_not_block_other_removals() {
    let bed = unending_with(answer(200, &created_key("k-new", OTHER_KEY)));
    ends(&bed, &["k-new"]);
    bed.host.answer(&format!("POST {}", keys_at()), answer(200, &created_key("k-3", ACCOUNT_KEY)));
    rotate(&bed).unwrap();
    bed.host.advance(30);
    rotate(&bed).unwrap();
    bed.host.advance(30);
    bed.host.requests();
    bed.wake("former-keys", 1).unwrap();
    assert!(ended(&bed).iter().all(|id| id == "k-own"));
    bed.host.advance(30);
    bed.wake("former-keys", 1).unwrap();
    assert!(ended(&bed).contains(&"k-new".to_owned()));
}

/// Returns a bed whose provider creates `k-1`, `k-2` and so on, and can remove `k-2` and later
/// keys.
fn making(keys: usize) -> AuthBed<CloudB> {
    let bed = unending_with(answer(200, &created_key("k-1", OTHER_KEY)));
    for number in 2..=keys {
        let id = format!("k-{number}");
        bed.host.answer(&format!("POST {}", keys_at()), answer(200, &created_key(&id, OTHER_KEY)));
        ends(&bed, &[&id]);
    }
    bed
}

#[test]
fn rotation_never_postpones_end_of_earlier_key() {
    let bed = making(100);
    ends(&bed, &["k-own", "k-1"]);
    bed.write("config", &json!({ "rotation_period": "10s" })).unwrap();
    bed.host.requests();
    let (mut alive, mut most, mut rotations) = (1, 1, 0);
    for _ in 0..600 {
        bed.host.advance(1);
        for timer in ["rotation", "former-keys", "root-keys"] {
            let is_due = bed.host.timer(timer).is_some_and(|at| at <= bed.host.now());
            if is_due {
                bed.wake(timer, 1).unwrap();
            }
        }
        let requests = bed.host.requests();
        let of = |method: &str, end: &str| {
            let is_of = |it: &&Request| it.method == method && it.url.contains(end);
            requests.iter().filter(is_of).count()
        };
        let (came, went) = (of("POST", "/keys"), of("DELETE", "/keys/"));
        (alive, rotations) = (alive + came - went, rotations + came);
        most = most.max(alive);
    }
    assert_eq!((rotations, most), (60, 7), "keys are {alive} now");
}

#[test]
fn rotation_stops_while_too_many_earlier_keys_remain() {
    let bed = making(20);
    for _ in 0..8 {
        rotate(&bed).unwrap();
    }
    let why = rotate(&bed).err().unwrap();
    assert_eq!(why.kind, FailureKind::InvalidRequest);
    assert!(why.message.contains("the first key ends in 60 s"), "{why}");
    bed.write("config", &json!({ "rotation_period": "10s" })).unwrap();
    let before = in_use(&bed);
    bed.host.advance(10);
    bed.wake("rotation", 1).unwrap();
    assert_eq!(in_use(&bed), before);
    assert!(bed.host.timer("rotation").unwrap() > bed.host.now(), "the next attempt is later");
    bed.host.advance(50);
    bed.wake("former-keys", 1).unwrap();
    bed.wake("rotation", 1).unwrap();
    assert_ne!(in_use(&bed), before);
}

#[test]
fn ten_keys_are_caller_error_unlike_rate_limit() {
    let full = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "keys"}});
    for (keys, kind) in [(10, FailureKind::InvalidRequest), (9, FailureKind::RateLimited)] {
        let bed = rotating_with(answer(429, &full));
        let all: Vec<Value> =
            (0..keys).map(|one| key(&format!("k{one}"), "2020-01-01T00:00:00Z")).collect();
        bed.host.answer(&listing(), answer(200, &list(&all)));
        // This rotation consumes the fixture's answer.
        assert!(rotate(&bed).is_err());
        let why = rotate(&bed).err().unwrap();
        assert_eq!(why.kind, kind, "{why}");
        assert!(why.message.contains("RESOURCE_EXHAUSTED"), "{why}");
        assert_eq!(why.message.contains("remove an unused key"), keys == 10, "{why}");
        assert_eq!(bed.host.stored("intent/root"), None);
    }
}

#[test]
fn keys_stored_by_earlier_release_end_by_timer() {
    let bed = rotating();
    rotate(&bed).unwrap();
    let mut stored = bed.host.stored("root-keys").unwrap();
    stored["former"][0].as_object_mut().unwrap().remove("ends");
    stored["former"][0].as_object_mut().unwrap().remove("refusals");
    stored["former"][0].as_object_mut().unwrap().remove("place");
    let host: &dyn Host = &bed.host;
    host.storage().put_bytes("root-keys", serde_json::to_vec(&stored).unwrap()).unwrap();
    host.clock().cancel("former-keys").unwrap();
    host.clock().schedule("root-keys", bed.host.now(), "root-keys").unwrap();
    bed.write("config", &json!({})).unwrap();
    bed.wake("root-keys", 1).unwrap();
    bed.wake("former-keys", 1).unwrap();
    assert_eq!(ended(&bed), ["k-own"]);
}

#[test]
fn rotation_runs_when_due_and_within_window() {
    let bed = rotating();
    bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
    let due = bed.host.timer("rotation").unwrap();
    bed.wake("rotation", 1).unwrap();
    assert_eq!((in_use(&bed), bed.host.timer("rotation")), (json!("k-own"), Some(due)));
    bed.host.advance(3_600);
    bed.wake("rotation", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new");
    let next = bed.host.timer("rotation").unwrap();
    assert!(next > due, "{next}");
    bed.write("config", &json!({ "rotation_schedule": "0 * * * *", "rotation_window": "1h" }))
        .unwrap();
    bed.host.advance(2 * 3_600 + 1_800);
    bed.host.requests();
    bed.wake("rotation", 1).unwrap();
    assert!(bed.host.requests().is_empty(), "the window is over");
}

#[test]
fn every_scheduled_rotation_outcome_sets_next_time() {
    let lost = || answer(500, &json!({}));
    let refused = || answer(403, &json!({"error": {"status": "PERMISSION_DENIED"}}));
    let useful = || answer(200, &created_key("k-new", OTHER_KEY));
    let nonsense = || answer(200, &json!({"privateKeyData": "?"}));
    let steps = ["", "checkpoint", "send", "put"];
    for making in [lost, refused, useful, nonsense] {
        for step in steps {
            let bed = rotating_with(making());
            bed.host.answer(&format!("POST {}", keys_at()), useful());
            bed.write("config", &json!({ "rotation_period": "1h" })).unwrap();
            bed.host.advance(3_600);
            if !step.is_empty() {
                bed.host.die_after(step);
            }
            for _ in 0..1_800 {
                bed.ring_due();
                let case = format!("{:?}, death after {step:?}", making().status);
                assert!(bed.host.timer("rotation").is_some(), "no next time: {case}");
                bed.host.advance(5);
            }
            assert_eq!(in_use(&bed), "k-new", "death after {step:?}");
        }
    }
}

#[test]
fn a_late_key_is_kept_without_another() {
    let bed = rotating();
    answer_tokens(&bed, &[true, false]);
    rotate(&bed).unwrap();
    // The new key is refused, and the old key gets no answer.
    bed.host.answer(TOKENS, answer(400, &json!({"error": "invalid_grant"})));
    bed.host.answer(TOKENS, answer(503, &json!({})));
    drop_token(&bed);
    bed.wake("root-keys", 10).unwrap_err();
    assert!(bed.host.stored("root-keys").is_some(), "an answer of this kind proves nothing");
    answer_tokens(&bed, &[false]);
    bed.wake("root-keys", 10).unwrap();
    assert_eq!((in_use(&bed), bed.host.stored("root-keys")), (json!("k-own"), None));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({})).unwrap();
    bed.wake("kept-keys", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new", "the key was kept");
}

#[test]
fn a_new_key_outlives_an_operators_refused_key() {
    let pending = || {
        let bed = rotating();
        answer_tokens(&bed, &[true, false]);
        rotate(&bed).unwrap();
        bed.host.requests();
        bed
    };
    let written = json!({ "credentials": key_file("k-operator", OTHER_KEY).to_string() });
    let bed = pending();
    answer_tokens(&bed, &[false, true]);
    let refused = bed.write("config", &written).err().unwrap();
    assert!(refused.message.contains("rotate-root made works"), "{refused}");
    let bed = pending();
    bed.write("config", &written).unwrap();
    assert_eq!((in_use(&bed), bed.host.stored("root-keys")), (json!("k-operator"), None));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({})).unwrap();
    bed.wake("kept-keys", 1).unwrap();
    assert_eq!(in_use(&bed), "k-new");
}

#[test]
fn a_former_key_ends_at_its_own_endpoints() {
    let bed = rotating();
    rotate(&bed).unwrap();
    let elsewhere = json!({
        "credentials": key_of("thief@evil.iam.gserviceaccount.com", "k-thief").to_string(),
        "custom_endpoint": {"iam": "https://iam.evil.example"},
    });
    bed.write("config", &elsewhere).unwrap();
    bed.host.requests();
    end_former(&bed);
    let urls: Vec<String> = bed.host.requests().into_iter().map(|request| request.url).collect();
    assert!(urls.iter().any(|url| url.ends_with("/k-own")), "{urls:?}");
    assert!(urls.iter().all(|url| !url.contains("evil.example")), "{urls:?}");
}
