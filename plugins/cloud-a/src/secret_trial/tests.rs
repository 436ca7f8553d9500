//! Writes of the configuration after a rotation, and kept secrets until one of several works.

use crate::fixture::*;
use crate::kept_secrets::TRIAL;
use crate::root_records::RETIRED;
use bulkhead_sdk::{FailureKind, Host};
use serde_json::{Value, json};

/// Returns the number of applications with kept secrets.
fn kept_count(bed: &CloudBed) -> usize {
    let host: &dyn Host = &bed.host;
    host.storage().keys("kept-secret/", "", 10).unwrap().len()
}

/// Writes a secret while the provider is down.
fn write_unproven(bed: &CloudBed, secret: &str) {
    lose_request(bed);
    let written = bed.write("config", &json!({"client_secret": secret})).unwrap();
    assert!(written.warnings[0].contains("could not be tried"), "{:?}", written.warnings);
    assert_eq!((tried(bed).len(), kept_count(bed)), (0, 1), "one request, without an answer");
}

#[test]
fn refused_secret_does_not_replace_working_one() {
    let bed = rotated();
    let before = bed.host.stored("config");
    answer_tokens(&bed, &[false, true]);
    let first = json!({"client_secret": SECRET, "max_retries": 9});
    let refused = bed.write("config", &first).err().unwrap();
    assert_eq!(refused.kind, FailureKind::InvalidRequest);
    for part in ["client_secret", "rotate-root made works", "leave client_secret out", "force=true"]
    {
        assert!(refused.message.contains(part), "{refused}");
    }
    assert!(!refused.message.contains(SECRET) && !refused.message.contains(NEW), "{refused}");
    assert_eq!(tried(&bed), [SECRET, NEW]);
    assert_eq!((bed.host.stored("config"), kept_count(&bed)), (before, 0));
    assert!(!bed.host.steps().iter().any(|step| step.contains(NEW) || step.contains(SECRET)));
}

#[test]
fn a_write_without_another_secret_tries_nothing() {
    let bed = rotated();
    for update in [json!({"max_retries": 9}), json!({"client_secret": NEW}), json!({})] {
        let written = bed.write("config", &update).unwrap();
        assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    }
    assert!(bed.host.requests().is_empty());
    let bed = ready();
    bed.write("config", &json!({"client_secret": "another"})).unwrap();
    assert!(bed.host.requests().is_empty(), "the operator has the replaced secret");
}

#[test]
fn a_replaced_secret_proves_nothing_by_working() {
    let bed = with_former_secret();
    let refused = bed.write("config", &json!({"client_secret": SECRET})).err().unwrap();
    assert!(refused.message.contains("rotate-root replaced the given client_secret"), "{refused}");
    assert_eq!((tried(&bed), secret(&bed)), (vec![SECRET.to_owned(), NEW.to_owned()], NEW.into()));
}

#[test]
fn a_secret_of_an_earlier_release_is_protected() {
    let bed = rotated();
    let mut stored = bed.host.stored("config").unwrap();
    for field in ["secret_place", "former_secret"] {
        stored.as_object_mut().unwrap().remove(field).unwrap();
    }
    let host: &dyn Host = &bed.host;
    host.storage().put_bytes("config", serde_json::to_vec(&stored).unwrap()).unwrap();
    bed.write("config", &json!({})).unwrap();
    answer_tokens(&bed, &[false, true]);
    assert!(bed.write("config", &json!({"client_secret": SECRET})).is_err());
    assert_eq!(secret(&bed), NEW);
}

#[test]
fn working_secret_replaces_and_removes_rotated_one() {
    let bed = rotated();
    let written = bed.write("config", &json!({"client_secret": "of-the-operator"})).unwrap();
    assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    assert_eq!((secret(&bed).as_str(), kept_count(&bed)), ("of-the-operator", 0));
    assert_eq!(tried(&bed), ["of-the-operator"]);
    ring(&bed, RETIRED);
    assert_eq!(removed(&bed), ["key-2"]);
}

#[test]
fn force_replaces_the_secret_without_a_trial() {
    let bed = with_former_secret();
    let forced = json!({"client_secret": SECRET, "force": true});
    let written = bed.write("config", &forced).unwrap();
    assert!(
        written.warnings[0].starts_with("client secret key-2, which"),
        "{:?}",
        written.warnings
    );
    assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (SECRET, 0));
    assert!(bed.host.requests().is_empty());
    assert_eq!(bed.host.stored("config").unwrap().get("force"), None);
    assert_eq!(bed.host.stored(RETIRED), None, "the secret in use is no longer to be removed");
}

#[test]
fn force_elsewhere_keeps_the_rotated_secret() {
    let bed = rotated();
    let forced = json!({"client_id": APP, "client_secret": "any", "force": true});
    let written = bed.write("config", &forced).unwrap();
    assert!(written.warnings[0].contains("is kept"), "{:?}", written.warnings);
    assert_eq!((kept_count(&bed), bed.host.timer(TRIAL)), (1, None));
    bed.write("config", &json!({"client_id": CLIENT, "client_secret": SECRET})).unwrap();
    answer_tokens(&bed, &[false, true]);
    ring(&bed, TRIAL);
    assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (NEW, 0));
}

#[test]
fn force_gives_up_kept_secrets_and_names_them() {
    for forced in ["another", "third"] {
        let bed = rotated();
        write_unproven(&bed, "another");
        assert!(bed.host.timer(TRIAL).is_some());
        let write = json!({"client_secret": forced, "force": true});
        let written = bed.write("config", &write).unwrap();
        let [warning] = written.warnings.as_slice() else { panic!("{:?}", written.warnings) };
        assert!(warning.starts_with("client secret key-2, which"), "{warning}");
        assert_eq!((kept_count(&bed), bed.host.timer(TRIAL)), (0, None), "{forced}");
        assert!(tried(&bed).is_empty());
        assert_eq!(secret(&bed), forced);
    }
}

#[test]
fn only_copy_note_names_kept_secrets() {
    let bed = rotated();
    let host: &dyn Host = &bed.host;
    let noted = || host.storage().keys("only-copy/", "", 10).unwrap();
    write_unproven(&bed, "another");
    let [name] = &noted()[..] else { panic!("{:?}", noted()) };
    let note = bed.host.stored(&format!("only-copy/{name}")).unwrap();
    let description = format!("a client secret of application \"{CLIENT}\" (key id \"key-2\")");
    assert_eq!(note["secret"], description);
    ring(&bed, TRIAL);
    assert_eq!((kept_count(&bed), noted()), (0, Vec::new()));
}

#[test]
fn former_secret_is_spared_if_alone_working() {
    let bed = with_former_secret();
    answer_tokens(&bed, &[true, false, true]);
    bed.write("config", &json!({"client_secret": SECRET})).unwrap();
    assert_eq!(tried(&bed), [SECRET, NEW]);
    ring(&bed, RETIRED);
    assert_eq!((removed(&bed), secret(&bed)), (vec![json!("key-2")], SECRET.to_owned()));
}

#[test]
fn two_refused_secrets_are_tried_by_no_timer() {
    let bed = rotated();
    answer_tokens(&bed, &[false]);
    let written = bed.write("config", &json!({"client_secret": "mistyped"})).unwrap();
    assert!(written.warnings[0].contains("refuses both"), "{:?}", written.warnings);
    assert_eq!(
        (secret(&bed).as_str(), bed.host.timer(TRIAL), kept_count(&bed)),
        ("mistyped", None, 1)
    );
    bed.write("config", &json!({"max_retries": 1})).unwrap();
    ring(&bed, TRIAL);
    assert!(bed.host.steps().iter().any(|step| step.starts_with("log root-secrets-refused")));
    assert_eq!((bed.host.timer(TRIAL), kept_count(&bed)), (None, 1));
    answer_tokens(&bed, &[false, true]);
    bed.write("config", &json!({"client_secret": "mistyped again"})).unwrap();
    ring(&bed, TRIAL);
    assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (NEW, 0));
}

#[test]
fn unproven_secret_leaves_rotated_one_as_candidate() {
    for (works, expected) in [(&[true][..], "of-the-operator"), (&[false, true][..], NEW)] {
        let mut bed = rotated();
        write_unproven(&bed, "of-the-operator");
        lose_request(&bed);
        assert_eq!(bed.wake(TRIAL, 1).unwrap_err().kind, FailureKind::Unreachable);
        assert_eq!((secret(&bed).as_str(), kept_count(&bed)), ("of-the-operator", 1));
        answer_tokens(&bed, works);
        ring(&bed, TRIAL);
        assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (expected, 0));
        assert_eq!(bed.host.timer(TRIAL), None);
        bed.caller.capabilities = vec!["sudo".to_owned()];
        let shown = bed.read("config").unwrap().data;
        assert_eq!(shown.contains_key("client_secret"), expected != NEW, "decision A18");
    }
}

#[test]
fn answers_about_other_things_prove_nothing() {
    for status in [403, 429, 500, 302] {
        let bed = rotated();
        bed.host.answer(TOKEN, answer(status, &json!({"error": "invalid_client"})));
        drop_answer(&bed, TOKEN);
        let written = bed.write("config", &json!({"client_secret": "another"})).unwrap();
        assert!(written.warnings[0].contains("could not be tried"), "{:?}", written.warnings);
        assert_eq!((kept_count(&bed), bed.host.timer(TRIAL).is_some()), (1, true), "{status}");
    }
}

#[test]
fn unknown_answer_keeps_rotated_secret() {
    // A refused secret, and one that the rotation replaced and that works.
    for (written, first) in [("another", 401), (SECRET, 200)] {
        let bed = rotated();
        let body = json!({"error": "invalid_client", "access_token": "t", "expires_in": 3_599});
        bed.host.answer(TOKEN, answer(first, &body));
        bed.host.answer(TOKEN, answer(503, &json!({})));
        drop_answer(&bed, TOKEN);
        bed.write("config", &json!({"client_secret": written})).unwrap();
        assert_eq!((tried(&bed), kept_count(&bed)), (vec![written.to_owned(), NEW.to_owned()], 1));
        assert!(bed.host.timer(TRIAL).is_some(), "the secrets are tried again");
    }
}

#[test]
fn nothing_is_removed_while_no_secret_is_proven() {
    let bed = with_former_secret();
    write_unproven(&bed, "another");
    ring(&bed, RETIRED);
    assert!(removed(&bed).is_empty());
    answer_tokens(&bed, &[false, true]);
    ring(&bed, TRIAL);
    ring(&bed, RETIRED);
    assert_eq!((removed(&bed), secret(&bed)), (vec![json!("key-1")], NEW.to_owned()));
}

#[test]
fn a_kept_secret_goes_to_no_other_place() {
    for elsewhere in [
        json!({"client_id": APP, "client_secret": "any"}),
        json!({"tenant_id": "contoso.onmicrosoft.com", "client_secret": "any"}),
        json!({"environment": "AzureChinaCloud", "client_secret": "any"}),
        json!({"client_secret": "", "identity_token_audience": "api://Exchange"}),
    ] {
        let bed = rotated();
        let written = bed.write("config", &elsewhere).unwrap();
        assert!(written.warnings[0].contains("is kept"), "{:?}", written.warnings);
        bed.ring_due();
        assert_eq!((tried(&bed), kept_count(&bed)), (Vec::<String>::new(), 1), "{elsewhere}");
        answer_tokens(&bed, &[false, true]);
        let back = json!({
            "client_id": CLIENT, "tenant_id": TENANT, "environment": "", "client_secret": SECRET,
            "identity_token_audience": "",
        });
        bed.write("config", &back).unwrap();
        ring(&bed, TRIAL);
        assert_eq!(tried(&bed), [SECRET, NEW], "{elsewhere}");
        assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (NEW, 0), "{elsewhere}");
    }
}

#[test]
fn another_spelling_of_the_tenant_shows_no_secret() {
    let mut bed = rotated();
    bed.caller.capabilities = vec!["sudo".to_owned(), "update".to_owned()];
    let written =
        bed.write("config", &json!({"tenant_id": "contoso.onmicrosoft.com"})).unwrap().warnings;
    assert!(written[0].contains("is kept"), "{written:?}");
    assert_eq!(bed.read("config").unwrap().data.get("client_secret"), None);
    bed.write("config", &json!({"tenant_id": TENANT})).unwrap();
    bed.ring_due();
    assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (NEW, 0));
    assert_eq!(bed.host.stored(RETIRED), None, "the secret in use is not removed");
}

#[test]
fn a_removed_configuration_names_kept_secrets() {
    let bed = rotated();
    write_unproven(&bed, "another");
    let warnings = bed.delete("config").unwrap().warnings;
    assert!(warnings[0].ends_with("the passwords key-2"), "{warnings:?}");
    assert_eq!((kept_count(&bed), bed.host.timer(TRIAL)), (0, None));
    let host: &dyn Host = &bed.host;
    assert!(host.storage().keys("only-copy/", "", 10).unwrap().is_empty());
}

#[test]
fn secret_trial_continues_after_process_death() {
    for step in ["send", "put", "delete", "schedule", "cancel"] {
        let bed = rotated();
        write_unproven(&bed, "another");
        answer_tokens(&bed, &[false, true, false, true]);
        bed.host.die_after(step);
        assert!(bed.wake(TRIAL, 1).is_err(), "{step}");
        assert_eq!((secret(&bed).as_str(), kept_count(&bed)), ("another", 1), "{step}");
        if step == "send" {
            // The answer to the rotated secret, which the dead call did not ask for.
            drop_answer(&bed, TOKEN);
        }
        ring(&bed, TRIAL);
        assert_eq!((secret(&bed).as_str(), kept_count(&bed)), (NEW, 0), "{step}");
    }
}

#[test]
fn rotation_settles_kept_secrets() {
    let bed = rotated();
    write_unproven(&bed, "of-the-operator");
    bed.host.answer(ADD, answer(200, &json!({"keyId": "key-3", "secretText": "third"})));
    drop_answer(&bed, ADD);
    rotate(&bed).unwrap();
    bed.host.advance(60);
    bed.wake("root-pending", 1).unwrap();
    assert_eq!(kept_count(&bed), 0);
    let retired = bed.host.stored(RETIRED).unwrap();
    let ids: Vec<&Value> = retired["key_ids"].as_array().unwrap().iter().collect();
    assert!(ids.contains(&&json!("key-2")), "{ids:?}");
}
