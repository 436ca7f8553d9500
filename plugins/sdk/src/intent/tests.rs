//! The intent on the test bed: an engine that changes a password, and an engine with keys made by a
//! provider, each killed at every step.

use super::{
    CandidateSearch, EarlierCandidates, Intent, IntentEndReason, IntentRecord, ProvenCandidate,
    key_of,
};
use crate::database_plugin::{CreatedUser, Credential, NewUser};
use crate::host::DatabaseConnection;
use crate::table::{Row, write};
use crate::testbed::TestBed;
use crate::{Answer, Call, Context, Failure, FailureKind, Host, MountedPlugin, SecretsEngine};
use bulkhead_wire::stored::{check_foreign, check_read};
use serde_json::{Map, Value, json};

const STEPS: [&str; 5] = ["guard", "checkpoint", "change-credential", "check-credential", "cancel"];

struct Rotation;

impl MountedPlugin for Rotation {
    const NAME: &'static str = "rotation";
    const VERSION: &'static str = "1.0.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Changes the password of one user.";
    const TABLE: &'static [Row] = &[
        write("rotate", rotate).about("Changes it."),
        write("overtaken", overtaken)
            .about("Changes it while another call finishes the same change."),
        write("hastened", hastened).about("Asks for another change beside one that is open."),
        write("removed", removed).about("Deletes the role while its change is not finished."),
    ];

    fn wake(host: &dyn Host, _: &Context, key: &str, _attempt: u32) -> Result<(), Failure> {
        assert_eq!(key_of(key), Some("app"));
        recover(host)
    }
}

impl SecretsEngine for Rotation {}

fn rotate(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    host.storage().put_plain("before", &1_u32)?;
    let intent = Intent::begin(host, "app", "orders", host.passwords().generate("")?)?;
    store(host, change(host, intent)?)?;
    Ok(Answer::nothing())
}

fn overtaken(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let intent = Intent::begin(host, "app", "orders", host.passwords().generate("")?)?;
    let proven = change(host, intent)?;
    recover(host)?;
    host.storage().checkpoint()?;
    store(host, proven)?;
    Ok(Answer::nothing())
}

fn hastened(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    assert_eq!(super::is_open(host, "app")?, super::make_due(host, "app")?);
    match super::is_open(host, "app")? {
        true => Err(Failure::new(FailureKind::Unavailable, "it goes on now")),
        false => Err(Failure::absent()),
    }
}

fn removed(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let intent = Intent::<String>::recover(host, "app")?.ok_or_else(Failure::absent)?;
    intent.abandon(host, IntentEndReason::Unwanted)?;
    Ok(Answer::nothing())
}

fn recover(host: &dyn Host) -> Result<(), Failure> {
    let Some(intent) = Intent::recover(host, "app")? else { return Ok(()) };
    let intent = match intent.find_in_force(|candidate: &String| works(host, candidate))? {
        CandidateSearch::InForce(proven) => return store(host, proven),
        CandidateSearch::Nowhere(intent) => intent,
    };
    let intent = match host.storage().get_plain::<String>("password")? {
        Some(old) if works(host, &old)? => {
            intent.restart(host, host.passwords().generate("")?, EarlierCandidates::Disproven)?
        }
        _ => intent,
    };
    store(host, change(host, intent)?)
}

fn change(host: &dyn Host, intent: Intent<String>) -> Result<ProvenCandidate<String>, Failure> {
    intent.make(
        |new| {
            host.databases().change_credential(
                &orders(),
                "app",
                &Credential::Password(new.clone()),
                None,
                &[],
            )
        },
        |new, ()| {
            if works(host, new)? {
                Ok(())
            } else {
                Err(Failure::invalid("the new password does not work"))
            }
        },
    )
}

fn store(host: &dyn Host, proven: ProvenCandidate<String>) -> Result<(), Failure> {
    proven.confirm(host, |password, ()| host.storage().put_plain("password", password))
}

fn works(host: &dyn Host, password: &str) -> Result<bool, Failure> {
    let credential = Credential::Password(password.to_owned());
    Ok(host.databases().check_credential(&orders(), "app", &credential)?.unwrap_or(false))
}

fn orders() -> DatabaseConnection {
    DatabaseConnection {
        plugin: "test".to_owned(),
        version: String::new(),
        name: "orders".to_owned(),
        generation: 1,
        settings: Map::new(),
    }
}

/// A test bed with the user in the database, and with a password that the engine knows.
fn bed() -> TestBed<Rotation> {
    let bed = TestBed::<Rotation>::new().unwrap();
    let app = NewUser {
        username: "app".to_owned(),
        credential: Credential::Password("first".to_owned()),
        expires: 0,
    };
    bed.host.databases().create_accounts(&orders(), &app, &[], &[]).unwrap();
    bed.host.steps();
    let host: &dyn Host = &bed.host;
    host.storage().put_plain("password", "first").unwrap();
    host.storage().checkpoint().unwrap();
    bed.host.steps();
    bed
}

fn rotated(bed: &TestBed<Rotation>) -> Result<(), Failure> {
    bed.write("rotate", &json!({})).map(drop)
}

/// The password that the engine would answer, and true if the password is in force.
fn stored(bed: &TestBed<Rotation>) -> (String, bool) {
    let stored = bed.host.stored("password").unwrap().as_str().unwrap().to_owned();
    let in_force = bed.host.user("orders", "app").unwrap().credential;
    let works = in_force == Credential::Password(stored.clone());
    (stored, works)
}

fn is_open(bed: &TestBed<Rotation>) -> bool {
    let record = bed.host.stored("intent/app").is_some();
    assert_eq!(super::is_open(&bed.host, "app").ok(), Some(record));
    assert_eq!(
        record,
        bed.host.timer("intent/app").is_some(),
        "an intent and its guard come and go together"
    );
    record
}

#[test]
fn confirmed_intent_leaves_state_without_record_or_guard() {
    let bed = bed();
    rotated(&bed).unwrap();
    assert_eq!(
        bed.host.steps(),
        [
            "guard intent/app in orders",
            "checkpoint",
            "change-credential orders app",
            "check-credential orders app",
            "cancel intent/app",
        ]
    );
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
    assert!(!is_open(&bed));
    assert_eq!(bed.run_guards().unwrap(), 0);
}

#[test]
fn effect_without_recorded_intent_does_not_happen() {
    for step in ["put", "guard", "checkpoint"] {
        let bed = bed();
        bed.host.refuse(step, Failure::new(FailureKind::Conflict, "another call was faster"));
        assert_eq!(rotated(&bed).unwrap_err().kind, FailureKind::Conflict, "{step}");
        assert_eq!(stored(&bed), ("first".to_owned(), true));
        assert!(!is_open(&bed), "{step}");
        assert_eq!(bed.host.stored("before"), None);
    }
}

#[test]
fn recovery_after_any_death_stores_password_in_force() {
    for step in STEPS {
        let bed = bed();
        bed.host.die_after(step);
        assert_eq!(rotated(&bed).unwrap_err().message, "the process died", "{step}");
        assert_eq!(is_open(&bed), step != "guard", "{step}");
        let left = bed.run_guards().unwrap();
        assert_eq!(left, usize::from(step != "guard"), "{step}");
        assert!(stored(&bed).1, "{step}: {}", stored(&bed).0);
        assert!(!is_open(&bed), "{step}");
    }
}

#[test]
fn next_recovery_continues_after_any_recovery_death() {
    for first in ["checkpoint", "change-credential", "check-credential"] {
        for second in STEPS {
            let bed = bed();
            bed.host.die_after(first);
            rotated(&bed).unwrap_err();
            bed.host.die_after(second);
            // A recovery that finds its candidate in force has no effect, so the process cannot die
            // in it.
            if bed.run_guards().is_err() {
                assert!(is_open(&bed), "{first}, then {second}");
                bed.run_guards().unwrap_or_else(|again| panic!("{first}, then {second}: {again}"));
            }
            bed.run_guards().unwrap();
            assert!(stored(&bed).1, "{first}, then {second}");
            assert!(!is_open(&bed), "{first}, then {second}");
        }
    }
}

#[test]
fn lost_reply_change_is_rolled_forward_without_repetition() {
    let bed = bed();
    bed.host.lose_reply("change-credential", Failure::new(FailureKind::TimedOut, "no reply"));
    assert_eq!(rotated(&bed).unwrap_err().kind, FailureKind::TimedOut);
    assert_eq!(stored(&bed), ("first".to_owned(), false));
    bed.host.steps();
    bed.run_guards().unwrap();
    assert!(!bed.host.steps().iter().any(|step| step.starts_with("change-credential")));
    assert_eq!(stored(&bed), ("Generated-Password-1".to_owned(), true));
}

#[test]
fn refused_candidate_gives_way_while_old_state_holds() {
    let bed = bed();
    for _ in 0..2 {
        bed.host.refuse("change-credential", Failure::invalid("too short"));
    }
    rotated(&bed).unwrap_err();
    assert_eq!(bed.run_guards().unwrap_err().message, "too short");
    assert!(is_open(&bed), "a recovery that fails leaves the intent");
    bed.run_guards().unwrap();
    let (password, is_in_force) = stored(&bed);
    assert!(is_in_force);
    assert!(!["first", "Generated-Password-1"].contains(&password.as_str()), "{password}");
}

#[test]
fn second_change_is_refused_until_first_finishes() {
    let bed = bed();
    bed.host.refuse("change-credential", Failure::new(FailureKind::Unreachable, "away"));
    rotated(&bed).unwrap_err();
    let refused = rotated(&bed).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(refused.message.contains("\"app\""), "{refused}");
    bed.run_guards().unwrap();
    rotated(&bed).unwrap();
    assert!(stored(&bed).1);
}

#[test]
fn confirm_after_change_finished_elsewhere_stores_nothing() {
    let bed = bed();
    let refused = bed.write("overtaken", &json!({})).err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unavailable);
    assert!(!refused.message.contains("Password"), "{refused}");
    assert_eq!(
        stored(&bed),
        ("Generated-Password-1".to_owned(), true),
        "the password of the other call is stored"
    );
    assert!(!is_open(&bed));
}

#[test]
fn confirm_after_change_taken_up_elsewhere_is_refused() {
    let bed = bed();
    let host: &dyn Host = &bed.host;
    let proven =
        change(host, Intent::begin(host, "app", "orders", "second".to_owned()).unwrap()).unwrap();
    let other = Intent::<String>::recover(host, "app").unwrap().unwrap();
    assert_eq!(store(host, proven).unwrap_err().kind, FailureKind::Unavailable);
    assert!(matches!(other.find_in_force(|_| Ok(true)), Ok(CandidateSearch::InForce(_))));
}

#[test]
fn hastened_unfinished_change_is_taken_up_again() {
    let bed = bed();
    assert_eq!(bed.write("hastened", &json!({})).err().unwrap().kind, FailureKind::NotFound);
    bed.host.refuse("change-credential", Failure::new(FailureKind::Unreachable, "away"));
    rotated(&bed).unwrap_err();
    bed.host.refuse("check-credential", Failure::new(FailureKind::Unreachable, "still away"));
    bed.run_guards().unwrap_err();
    bed.host.steps();
    assert_eq!(bed.write("hastened", &json!({})).err().unwrap().kind, FailureKind::Unavailable);
    assert_eq!(bed.host.steps(), ["guard intent/app in orders", "checkpoint"]);
    bed.run_guards().unwrap();
    assert!(stored(&bed).1 && !is_open(&bed));
}

#[test]
fn unwanted_intent_is_given_up_and_logged() {
    let bed = bed();
    bed.host.die_after("checkpoint");
    rotated(&bed).unwrap_err();
    bed.host.steps();
    bed.write("removed", &json!({})).unwrap();
    assert!(!is_open(&bed));
    assert_eq!(bed.host.steps().last().unwrap(), "log intent-given-up intent=app cause=unwanted");
    assert_eq!(bed.write("removed", &json!({})).err().unwrap().kind, FailureKind::NotFound);
}

#[test]
fn no_candidate_is_forgotten_before_another_is_proven() {
    let bed = bed();
    let host: &dyn Host = &bed.host;
    let mut intent = Intent::begin(host, "app", "orders", 0_u32).unwrap();
    for candidate in 1..32 {
        intent = intent.restart(host, candidate, EarlierCandidates::Kept).unwrap();
    }
    let candidates: Vec<u32> = intent.candidates().copied().collect();
    assert_eq!(candidates, (0..32).rev().collect::<Vec<_>>());
    let refused = intent.restart(host, 32, EarlierCandidates::Kept).err().unwrap();
    assert!(refused.message.contains("32 candidates"), "{refused}");

    let intent = Intent::<u32>::recover(host, "app").unwrap().unwrap();
    assert_eq!(intent.candidates().count(), 32, "the refused one changed nothing");
    let CandidateSearch::Nowhere(intent) = intent.find_in_force(|_| Ok(false)).unwrap() else {
        panic!("nothing was in force")
    };
    assert!(
        intent
            .find_in_force(|_| Err(Failure::new(FailureKind::Unreachable, "cannot tell")))
            .is_err()
    );
    let intent = Intent::<u32>::recover(host, "app").unwrap().unwrap();
    let CandidateSearch::InForce(proven) =
        intent.find_in_force(|candidate| Ok(*candidate == 7)).unwrap()
    else {
        panic!("7 is in force")
    };
    proven.confirm(host, |candidate, ()| host.storage().put_plain("number", candidate)).unwrap();
    host.storage().checkpoint().unwrap();
    assert_eq!(bed.host.stored("number"), Some(json!(7)));
    assert!(!is_open(&bed));
}

#[test]
fn proven_old_state_leaves_only_new_candidate() {
    let bed = bed();
    let host: &dyn Host = &bed.host;
    let intent = Intent::begin(host, "app", "orders", 1_u32).unwrap();
    let intent = intent
        .restart(host, 2, EarlierCandidates::Kept)
        .unwrap()
        .restart(host, 3, EarlierCandidates::Disproven)
        .unwrap();
    assert_eq!(intent.candidates().copied().collect::<Vec<_>>(), [3]);
}

#[test]
fn intent_of_other_shape_is_kept_and_hidden() {
    let bed = bed();
    bed.host.die_after("checkpoint");
    rotated(&bed).unwrap_err();
    let fault = Intent::<Vec<u64>>::recover(&bed.host, "app").err().unwrap();
    assert_eq!(fault.kind, FailureKind::Internal);
    assert!(!fault.message.contains("Generated"), "{fault}");
    assert!(is_open(&bed));
}

#[test]
fn an_engines_own_timer_is_not_an_intent() {
    assert_eq!(key_of("intent/roles/a"), Some("roles/a"));
    assert_eq!(key_of("rotate/intent/a"), None);
    assert_eq!(key_of("intent"), None);
}

/// An engine for secrets that the provider makes: the candidate is the list of the keys that
/// existed before.
struct Keys;

impl MountedPlugin for Keys {
    const NAME: &'static str = "keys";
    const VERSION: &'static str = "1.0.0";
    const SCHEMA: u32 = 1;
    const ABOUT: &'static str = "Asks a provider for a new key.";
    const TABLE: &'static [Row] = &[write("renew", renew).about("Replaces the key.")];

    fn wake(host: &dyn Host, _: &Context, _key: &str, _attempt: u32) -> Result<(), Failure> {
        let Some(intent) = Intent::<Vec<String>>::recover(host, "key")? else { return Ok(()) };
        let before: Vec<String> = intent.candidates().next().cloned().unwrap_or_default();
        for new in ours(host)?.into_iter().filter(|key| !before.contains(key)) {
            host.databases().remove_accounts(&orders(), &CreatedUser::named(&new), &[])?;
        }
        replace(host, intent)
    }
}

impl SecretsEngine for Keys {}

fn renew(host: &dyn Host, _call: &Call) -> Result<Answer, Failure> {
    let intent = Intent::begin(host, "key", "orders", ours(host)?)?;
    replace(host, intent)?;
    Ok(Answer::nothing())
}

fn replace(host: &dyn Host, intent: Intent<Vec<String>>) -> Result<(), Failure> {
    let proven = intent.make(|_| provider_makes_a_key(host), |_, _| Ok(()))?;
    proven.confirm(host, |_, (name, secret)| {
        host.storage().put_plain("name", &name)?;
        host.storage().put_plain("secret", &secret)
    })
}

/// The provider chooses name and secret, and shows the secret once.
fn provider_makes_a_key(host: &dyn Host) -> Result<(String, String), Failure> {
    let username = host.databases().plan_accounts(&orders(), "key", "of-ours", &[])?.username;
    let secret = format!("secret of {username}");
    let user = NewUser {
        username: username.clone(),
        credential: Credential::Password(secret.clone()),
        expires: 0,
    };
    host.databases().create_accounts(&orders(), &user, &[], &[])?;
    Ok((username, secret))
}

/// The provider's list of our keys.
fn ours(host: &dyn Host) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for number in 1..9 {
        let name = format!("v-key-of-ours-{number}");
        let secret = Credential::Password(format!("secret of {name}"));
        if host.databases().check_credential(&orders(), &name, &secret)? == Some(true) {
            found.push(name);
        }
    }
    Ok(found)
}

#[test]
fn recovery_replaces_key_with_lost_secret() {
    let bed = TestBed::<Keys>::new().unwrap();
    bed.write("renew", &json!({})).unwrap();
    bed.host.die_after("create-accounts");
    bed.write("renew", &json!({})).err().unwrap();
    assert_eq!(bed.host.stored("name"), Some(json!("v-key-of-ours-1")));
    assert_eq!(bed.host.user_count(), 2, "a key that the store does not know");
    bed.run_guards().unwrap();
    assert_eq!(bed.host.stored("name"), Some(json!("v-key-of-ours-3")));
    assert_eq!(bed.host.stored("secret"), Some(json!("secret of v-key-of-ours-3")));
    assert_eq!(bed.host.user_count(), 2, "the one before, and the one that is stored");
}

#[test]
fn intents_that_earlier_releases_wrote_are_read() -> Result<(), String> {
    let written = include_str!("../../fixtures/records/intent.jsonl");
    check_read::<IntentRecord<Value>>(written)?;
    check_foreign::<IntentRecord<Value>>(written)
}
