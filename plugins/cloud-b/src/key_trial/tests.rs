//! Writes of the configuration after a rotation, and kept keys until one of several works.

use crate::CloudB;
use crate::fixture::*;
use bulkhead_sdk::host::Clock;
use bulkhead_sdk::testbed::AuthBed;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::{Value, json};

const TRIAL: &str = "kept-keys";

/// Returns a bed after a rotation, whose former key is not removed yet.
fn rotated() -> AuthBed<CloudB> {
    let bed = rotating();
    rotate(&bed).unwrap();
    assert_eq!(in_use(&bed), "k-new");
    bed.host.requests();
    bed.host.steps();
    bed
}

/// Returns the write of a key of the own account.
fn credentials(key_id: &str) -> Value {
    json!({ "credentials": key_file(key_id, ACCOUNT_KEY).to_string() })
}

/// Returns the number of accounts with kept keys.
fn kept_count(bed: &AuthBed<CloudB>) -> usize {
    let host: &dyn Host = &bed.host;
    host.storage().keys("kept-key/", "", 10).unwrap().len()
}

/// Writes a key while the provider is down.
fn write_unproven(bed: &AuthBed<CloudB>, key_id: &str) {
    lose_request(bed);
    let written = bed.write("config", &credentials(key_id)).unwrap();
    assert!(written.warnings[0].contains("could not be tried"), "{:?}", written.warnings);
    assert_eq!((tried(bed).len(), kept_count(bed)), (0, 1), "one request, without an answer");
}

fn try_kept(bed: &AuthBed<CloudB>) {
    assert!(bed.host.timer(TRIAL).unwrap() <= bed.host.now(), "the trial is due");
    bed.wake(TRIAL, 1).unwrap();
}

fn end_former(bed: &AuthBed<CloudB>) -> Vec<String> {
    bed.host.advance(60);
    bed.host.requests();
    bed.wake("former-keys", 1).unwrap();
    ended(bed)
}

#[test]
fn refused_key_does_not_replace_working_key() {
    let bed = rotated();
    let before = (bed.host.stored("config"), bed.host.stored("root-keys"));
    answer_tokens(&bed, &[false, true]);
    let refused = bed.write("config", &credentials("k-own")).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    for part in ["credentials", "rotate-root made works", "leave credentials out", "force=true"] {
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(!refused.message.contains("PRIVATE KEY"), "{refused}");
    assert_eq!(tried(&bed), ["k-own", "k-new"]);
    assert_eq!((bed.host.stored("config"), bed.host.stored("root-keys")), before);
    assert_eq!(kept_count(&bed), 0);
    assert!(!bed.host.steps().iter().any(|step| step.contains("PRIVATE KEY")));
}

#[test]
fn a_write_without_another_key_tries_nothing() {
    let bed = rotated();
    let same = json!({ "credentials": key_file("k-new", OTHER_KEY).to_string() });
    for update in [json!({"iam_alias": "unique_id"}), same, json!({})] {
        let written = bed.write("config", &update).unwrap();
        assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    }
    let operated = served();
    operated.write("config", &credentials("k-another")).unwrap();
    assert!(bed.host.requests().is_empty() && operated.host.requests().is_empty());
}

#[test]
fn a_replaced_key_proves_nothing_by_working() {
    let bed = rotated();
    let refused = bed.write("config", &credentials("k-own")).err().unwrap();
    assert!(refused.message.contains("rotate-root replaced key"), "{refused}");
    assert_eq!((tried(&bed), in_use(&bed)), (vec!["k-own".into(), "k-new".into()], json!("k-new")));
}

#[test]
fn a_key_of_an_earlier_release_is_protected() {
    let bed = rotated();
    let mut stored = bed.host.stored("config").unwrap();
    stored.as_object_mut().unwrap().remove("replaced_key_id").unwrap();
    let host: &dyn Host = &bed.host;
    host.storage().put_bytes("config", serde_json::to_vec(&stored).unwrap()).unwrap();
    bed.write("config", &json!({})).unwrap();
    answer_tokens(&bed, &[false, true]);
    assert!(bed.write("config", &credentials("k-own")).is_err());
    assert_eq!(in_use(&bed), "k-new");
}

#[test]
fn working_key_replaces_and_ends_rotated_key() {
    let bed = rotated();
    let written = bed.write("config", &credentials("k-operator")).unwrap();
    assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-operator"), 0));
    assert_eq!(tried(&bed), ["k-operator"]);
    assert_eq!(end_former(&bed), ["k-own", "k-new"]);
}

#[test]
fn force_replaces_the_key_without_a_trial() {
    let bed = rotated();
    let mut forced = credentials("k-own");
    forced["force"] = json!(true);
    let written = bed.write("config", &forced).unwrap();
    assert!(
        written.warnings[0].starts_with("key k-new of service account"),
        "{:?}",
        written.warnings
    );
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-own"), 0));
    assert!(bed.host.requests().is_empty());
    assert_eq!(bed.host.stored("config").unwrap().get("force"), None);
    assert_eq!(bed.host.stored("root-keys"), None, "the key in use is no longer to be removed");
}

#[test]
fn former_key_that_alone_works_is_spared() {
    let bed = rotated();
    answer_tokens(&bed, &[true, false, true]);
    bed.write("config", &credentials("k-own")).unwrap();
    assert_eq!(tried(&bed), ["k-own", "k-new"]);
    assert_eq!((end_former(&bed), in_use(&bed)), (vec!["k-new".to_owned()], json!("k-own")));
}

#[test]
fn two_refused_keys_are_tried_by_no_timer() {
    let bed = rotated();
    answer_tokens(&bed, &[false]);
    let written = bed.write("config", &credentials("k-mistaken")).unwrap();
    assert!(written.warnings[0].contains("refuses both"), "{:?}", written.warnings);
    assert_eq!(
        (in_use(&bed), bed.host.timer(TRIAL), kept_count(&bed)),
        (json!("k-mistaken"), None, 1)
    );
    bed.write("config", &json!({})).unwrap();
    try_kept(&bed);
    assert!(bed.host.steps().iter().any(|step| step.starts_with("log root-keys-refused")));
    assert_eq!((bed.host.timer(TRIAL), kept_count(&bed)), (None, 1));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &credentials("k-mistaken-again")).unwrap();
    try_kept(&bed);
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-new"), 0));
}

#[test]
fn unproven_key_leaves_rotated_key_as_candidate() {
    for (works, expected) in [(&[true][..], "k-operator"), (&[false, true][..], "k-new")] {
        let bed = rotated();
        write_unproven(&bed, "k-operator");
        lose_request(&bed);
        assert_eq!(bed.wake(TRIAL, 1).unwrap_err().kind, FailureKind::Unreachable);
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-operator"), 1));
        answer_tokens(&bed, works);
        bed.wake(TRIAL, 1).unwrap();
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!(expected), 0));
        assert_eq!(bed.host.timer(TRIAL), None);
        // A key that was used again is protected again.
        answer_tokens(&bed, &[false, true]);
        let again = bed.write("config", &credentials("k-third"));
        assert_eq!(again.is_err(), expected == "k-new");
    }
}

#[test]
fn answers_about_other_things_prove_nothing() {
    for status in [403, 429, 500, 302] {
        let bed = rotated();
        bed.host.answer(TOKENS, answer(status, &json!({"error": "invalid_grant"})));
        drop_token(&bed);
        let written = bed.write("config", &credentials("k-operator")).unwrap();
        assert!(written.warnings[0].contains("could not be tried"), "{:?}", written.warnings);
        assert_eq!((kept_count(&bed), bed.host.timer(TRIAL).is_some()), (1, true), "{status}");
    }
}

#[test]
fn rotated_key_with_unknown_answer_is_kept() {
    // A refused key, and one that the rotation replaced and that works.
    for (written, first) in [("k-operator", 400), ("k-own", 200)] {
        let bed = rotated();
        let body = json!({"error": "invalid_grant", "access_token": "t", "expires_in": 3_599});
        bed.host.answer(TOKENS, answer(first, &body));
        bed.host.answer(TOKENS, answer(503, &json!({})));
        drop_token(&bed);
        bed.write("config", &credentials(written)).unwrap();
        assert_eq!(
            (tried(&bed), kept_count(&bed)),
            (vec![written.to_owned(), "k-new".to_owned()], 1)
        );
        assert!(bed.host.timer(TRIAL).is_some(), "the keys are tried again");
    }
}

#[test]
fn nothing_is_removed_while_no_key_is_proven() {
    let bed = rotated();
    write_unproven(&bed, "k-operator");
    assert!(end_former(&bed).is_empty());
    answer_tokens(&bed, &[false, true]);
    try_kept(&bed);
    assert_eq!((end_former(&bed), in_use(&bed)), (vec!["k-own".to_owned()], json!("k-new")));
}

#[test]
fn spared_key_ends_after_rotated_key_works() {
    let bed = rotated();
    write_unproven(&bed, "k-own");
    assert_eq!(bed.host.stored("root-keys"), None);
    answer_tokens(&bed, &[true, true]);
    try_kept(&bed);
    assert_eq!((end_former(&bed), in_use(&bed)), (vec!["k-own".to_owned()], json!("k-new")));
}

#[test]
fn a_kept_key_goes_to_no_other_place() {
    let other = key_of("other@home.iam.gserviceaccount.com", "k-other").to_string();
    let first = key_file("k-own", ACCOUNT_KEY).to_string();
    for elsewhere in [
        json!({"custom_endpoint": {"iam": "https://iam.evil.example"}, "credentials": first}),
        json!({"credentials": other}),
        json!({"credentials": ""}),
        json!({
            "credentials": "", "identity_token_audience": "//iam.googleapis.com/x",
            "service_account_email": OWN,
        }),
    ] {
        let bed = rotated();
        let written = bed.write("config", &elsewhere).unwrap();
        assert!(
            written.warnings.iter().any(|one| one.contains("is kept")),
            "{:?}",
            written.warnings
        );
        assert_eq!((bed.host.timer(TRIAL), kept_count(&bed)), (None, 1), "{elsewhere}");
        assert!(tried(&bed).is_empty(), "{elsewhere}");
        answer_tokens(&bed, &[false, true]);
        let back = json!({
            "credentials": first, "custom_endpoint": {"iam": ""}, "identity_token_audience": "",
        });
        bed.write("config", &back).unwrap();
        try_kept(&bed);
        assert_eq!(tried(&bed), ["k-own", "k-new"], "{elsewhere}");
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-new"), 0), "{elsewhere}");
    }
}

/// The attack: the owner of another account points the endpoints at their own server, and then
/// names the account of the kept key with a key that does not work.
#[test]
fn kept_key_follows_no_detour_to_other_endpoints() {
    let bed = rotated();
    let detour = key_of("thief@evil.iam.gserviceaccount.com", "k-thief").to_string();
    let evil = json!({"iam": "https://iam.evil.example"});
    bed.write("config", &json!({ "credentials": detour, "custom_endpoint": evil })).unwrap();
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &credentials("k-forged")).unwrap();
    bed.ring_due();
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-forged"), 1));
    assert!(!tried(&bed).contains(&"k-new".to_owned()));
}

#[test]
fn only_copy_note_names_kept_keys() {
    let bed = rotated();
    let host: &dyn Host = &bed.host;
    let noted = || host.storage().keys("only-copy/", "", 10).unwrap();
    write_unproven(&bed, "k-operator");
    let [name] = &noted()[..] else { panic!("{:?}", noted()) };
    let note = bed.host.stored(&format!("only-copy/{name}")).unwrap();
    assert_eq!(note["secret"], format!("a key of \"{OWN}\" (id \"k-new\")"));
    try_kept(&bed);
    assert_eq!((kept_count(&bed), noted()), (0, Vec::new()));
}

#[test]
fn force_elsewhere_keeps_the_rotated_key() {
    let bed = rotated();
    let mut forced = credentials("k-own");
    forced["custom_endpoint"] = json!({"iam": "https://iam.evil.example"});
    forced["force"] = json!(true);
    let written = bed.write("config", &forced).unwrap();
    assert!(written.warnings[0].contains("is kept"), "{:?}", written.warnings);
    assert_eq!((kept_count(&bed), bed.host.timer(TRIAL)), (1, None));
    let mut back = credentials("k-own");
    back["custom_endpoint"] = json!({"iam": ""});
    bed.write("config", &back).unwrap();
    answer_tokens(&bed, &[false, true]);
    try_kept(&bed);
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-new"), 0));
}

#[test]
fn force_gives_up_kept_keys_and_names_them() {
    for forced in ["k-operator", "k-third"] {
        let bed = rotated();
        write_unproven(&bed, "k-operator");
        assert!(bed.host.timer(TRIAL).is_some());
        let mut write = credentials(forced);
        write["force"] = json!(true);
        let written = bed.write("config", &write).unwrap();
        let [warning] = written.warnings.as_slice() else { panic!("{:?}", written.warnings) };
        assert!(warning.starts_with("key k-new of service account"), "{warning}");
        assert_eq!((kept_count(&bed), bed.host.timer(TRIAL)), (0, None), "{forced}");
        assert!(tried(&bed).is_empty());
        assert_eq!(in_use(&bed), forced);
    }
}

/// The attack: the configuration names other endpoints, with the same key, before a new key is in
/// use.
#[test]
fn a_new_key_goes_to_no_other_endpoints() {
    let evil = json!({"iam": "https://iam.evil.example"});
    for is_written in [true, false] {
        let bed = rotating();
        answer_tokens(&bed, &[true, false]);
        rotate(&bed).unwrap();
        assert_eq!(in_use(&bed), "k-own", "the new key does not work yet");
        if is_written {
            let mut write = credentials("k-own");
            write["custom_endpoint"] = evil.clone();
            bed.write("config", &write).unwrap();
            assert_eq!((kept_count(&bed), bed.host.stored("root-keys")), (1, None));
            continue;
        }
        // An earlier release left the new key in place at such a write.
        let mut stored = bed.host.stored("config").unwrap();
        stored["custom_endpoint"] = evil.clone();
        let host: &dyn Host = &bed.host;
        host.storage().put_bytes("config", serde_json::to_vec(&stored).unwrap()).unwrap();
        answer_tokens(&bed, &[true]);
        bed.wake("root-keys", 1).unwrap();
        assert!(tried(&bed).is_empty());
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-own"), 1));
    }
}

#[test]
fn secret_trial_continues_after_process_death() {
    for step in ["send", "put", "delete", "schedule", "cancel"] {
        let bed = rotated();
        write_unproven(&bed, "k-operator");
        answer_tokens(&bed, &[false, true, false, true]);
        bed.host.die_after(step);
        assert!(bed.wake(TRIAL, 1).is_err(), "{step}");
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-operator"), 1), "{step}");
        if step == "send" {
            // The answer to the rotated key, which the dead call did not ask for.
            drop_token(&bed);
        }
        try_kept(&bed);
        assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-new"), 0), "{step}");
    }
}

#[test]
fn rotation_settles_kept_keys() {
    let bed = rotated();
    write_unproven(&bed, "k-operator");
    let third = answer(200, &created_key("k-3", ACCOUNT_KEY));
    bed.host.answer(&format!("POST {}", keys_at()), third);
    let host: &dyn Host = &bed.host;
    host.http().send(&bulkhead_sdk::http::Request::post(&keys_at())).unwrap();
    rotate(&bed).unwrap();
    assert_eq!((in_use(&bed), kept_count(&bed)), (json!("k-3"), 0));
    ends(&bed, &["k-operator"]);
    let ended = end_former(&bed);
    for id in ["k-own", "k-operator", "k-new"] {
        assert!(ended.contains(&id.to_owned()), "{ended:?}");
    }
}
