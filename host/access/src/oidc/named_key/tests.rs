//! Tests of `named_key.rs`: the published keys over time, and the due time of rotations.

use super::*;

const DAY: u64 = 86_400_000;

fn signing_key() -> TokenSigningKey {
    TokenSigningKey::make(TokenAlgorithm::EdDsa).unwrap()
}

fn settings(rotation_period: u64, verification_ttl: u64) -> KeySettings {
    KeySettings { rotation_period, verification_ttl, ..KeySettings::default_settings("team") }
}

fn key(rotation_period: u64, verification_ttl: u64) -> NamedKey {
    NamedKey::new(settings(rotation_period, verification_ttl), [signing_key(), signing_key()], 0)
}

fn kids(key: &NamedKey, now: u64) -> Vec<String> {
    key.published(now).map(|key| key.kid.clone()).collect()
}

#[test]
fn next_and_previous_keys_are_published_around_rotation() {
    let mut key = key(86_400, 86_400);
    let first = kids(&key, 0);
    assert_eq!((first.len(), &first[0]), (2, &key.signing().published.kid));
    assert_eq!(key.next_rotation(), DAY);
    key.rotate(signing_key(), 86_400, DAY).unwrap();
    assert_eq!(key.signing().published.kid, first[1]);
    let second = kids(&key, DAY);
    assert!(second.len() == 3 && first.iter().all(|kid| second.contains(kid)), "{second:?}");
    assert!(kids(&key, 2 * DAY - 1).contains(&first[0]));
    assert!(!kids(&key, 2 * DAY).contains(&first[0]));
    assert_eq!(key.next_rotation(), 2 * DAY);
}

#[test]
fn withdrawn_key_is_no_longer_published() {
    let mut key = key(60, 60);
    let withdrawn = key.signing().published.kid.clone();
    key.rotate(signing_key(), 0, 1).unwrap();
    assert!(!kids(&key, 1).contains(&withdrawn));
}

#[test]
fn algorithm_change_signs_at_once_and_keeps_verification() {
    let mut key = key(60, 60);
    let (before, unused) = (key.signing.published.kid.clone(), key.next.published.kid.clone());
    let keys = [TokenAlgorithm::Es256; 2].map(|alg| TokenSigningKey::make(alg).unwrap());
    key.replace(keys, 1).unwrap();
    assert_eq!(key.signing().published.alg, TokenAlgorithm::Es256);
    let published = kids(&key, 1);
    assert!(published.contains(&before) && !published.contains(&unused), "{published:?}");
}

#[test]
fn rotation_at_earlier_key_limit_withdraws_no_key() {
    let mut key = key(60, 600);
    for turn in 0..16 {
        key.rotate(signing_key(), 600, turn).unwrap();
    }
    let refused = key.rotate(signing_key(), 600, 16).unwrap_err();
    assert!(refused.message.contains("16 earlier keys"), "{refused}");
    assert_eq!(kids(&key, 16).len(), 18);
    assert_eq!(key.next_rotation(), 600_000, "when the first of them ends");
    key.rotate(signing_key(), 600, key.next_rotation()).unwrap();
    assert!(key.next_rotation() > 600_000);
}

#[test]
fn times_are_a_minute_at_least_and_agree() {
    for (period, ttl) in [(60, 60), (60, 600), (86_400, 60), (u64::MAX, u64::MAX)] {
        settings(period, ttl).check().unwrap();
    }
    for (period, ttl, why) in [
        (59, 60, "rotation_period of 59s"),
        (0, 60, "rotation_period of 0s"),
        (60, 59, "verification_ttl of 59s"),
        (60, 601, "10m1s is longer than 10 times the rotation_period of 1m"),
    ] {
        let refused = settings(period, ttl).check().unwrap_err();
        assert!(refused.message.contains(why), "{refused}");
    }
}
