//! Tests of unsealing with right and bogus shares, from a single client and from many clients.

use super::*;
use std::net::Ipv4Addr;

const HERE: u32 = 1;

fn client(number: u32) -> Client {
    Client::of(Ipv4Addr::from(0xc000_0200 + number).into())
}

fn bogus(number: u8, filler: u8) -> KeyShare {
    KeyShare::parse(&format!("{}{number:02x}", format!("{filler:02x}").repeat(32))).unwrap()
}

/// Returns a key, its shares, and an attempt to find the key.
fn split(shares: u64, threshold: u64) -> (SealKey, Vec<KeyShare>, Quorum) {
    let (config, key) = (SealConfig::new(shares, threshold).unwrap(), SealKey::generate().unwrap());
    let shares = bulkhead_store::split(&key, config).unwrap();
    (key, shares, Quorum::new(config).unwrap())
}

fn finds_from(giver: u32, attempt: &mut Quorum, share: &KeyShare, key: &SealKey) -> bool {
    let keys = attempt.add(client(giver), share).unwrap();
    keys.iter().any(|found| found.share().is_same(&key.share()))
}

fn finds(attempt: &mut Quorum, share: &KeyShare, key: &SealKey) -> bool {
    finds_from(HERE, attempt, share, key)
}

#[test]
fn threshold_of_right_shares_unseals_among_bogus_shares() {
    for bogus_first in [true, false] {
        let (key, shares, mut attempt) = split(5, 3);
        let bogus_shares = [bogus(5, 1), bogus(1, 2), bogus(4, 3)];
        assert!(!finds(&mut attempt, &shares[0], &key));
        if bogus_first {
            assert!(bogus_shares.iter().all(|share| !finds(&mut attempt, share, &key)));
            attempt.end_attempt(client(HERE)).unwrap();
        }
        assert!(!finds(&mut attempt, &shares[1], &key));
        assert!(bogus_shares.iter().all(|share| !finds(&mut attempt, share, &key)));
        assert!(finds(&mut attempt, &shares[2], &key));
    }
}

#[test]
fn endless_shares_cost_bounded_number_of_combinations() {
    for (shares, threshold) in [(255, 2), (255, 3), (255, 5), (255, 40), (255, 255), (9, 9)] {
        for clients in [1, 3, 60] {
            let (_, _, mut attempt) = split(shares, threshold);
            let most = most_sets(attempt.config);
            for round in 0..60_u32 {
                let number = u8::try_from(u64::from(round) % shares + 1).unwrap();
                let filler = u8::try_from(round).unwrap();
                let share = bogus(number, filler);
                let keys = attempt.add(client(round % clients), &share).unwrap().len();
                assert!(keys <= 3 * most, "{keys} of {threshold} by {clients}");
            }
            let least = others_needed(attempt.config).min(60 / clients as usize);
            let share_count = attempt.givers.iter().map(|giver| giver.given.len()).min().unwrap();
            assert!(share_count >= least, "{share_count} of {threshold} by {clients}");
            assert!(attempt.givers.len() <= MAX_GIVERS);
        }
    }
}

#[test]
fn latest_share_is_kept_beside_earlier_bogus_share() {
    let (key, shares, mut attempt) = split(5, 3);
    for filler in 0..60 {
        attempt.add(client(HERE), &bogus(filler % 5 + 1, filler)).unwrap();
    }
    let opened = shares[..3].iter().filter(|share| finds(&mut attempt, share, &key)).count();
    assert_eq!(opened, 1);
}

/// Gives bogus shares of all numbers from a single address.
fn flood(attempt: &mut Quorum, giver: u32, key: &SealKey) {
    for filler in 0..15 {
        assert!(!finds_from(giver, attempt, &bogus(filler % 5 + 1, filler), key));
        if attempt.is_complete(client(giver)) {
            attempt.end_attempt(client(giver)).unwrap();
        }
    }
}

#[test]
fn bogus_shares_of_other_addresses_spoil_no_unsealing() {
    for operators in [[0, 0, 0], [0, 0, 1], [0, 1, 2]] {
        let (key, shares, mut attempt) = split(5, 3);
        for (share, operator) in shares.iter().zip(operators) {
            (10..13).for_each(|address| flood(&mut attempt, address, &key));
            let is_last = share.is_same(&shares[2]);
            assert_eq!(finds_from(operator, &mut attempt, share, &key), is_last, "{operators:?}");
        }
    }
}

#[test]
fn one_address_with_all_shares_unseals_among_crowd() {
    for threshold in [2, 3, 6] {
        let (key, shares, mut attempt) = split(6, threshold);
        let needed = usize::try_from(threshold).unwrap();
        for (index, share) in shares[..needed].iter().enumerate() {
            (100..120).for_each(|address| {
                finds_from(address, &mut attempt, &bogus(6, u8::try_from(address).unwrap()), &key);
            });
            assert_eq!(finds(&mut attempt, share, &key), index + 1 == needed, "{threshold}");
        }
    }
}

#[test]
fn crowd_of_addresses_delays_but_never_prevents_unsealing() {
    let (key, shares, mut attempt) = split(5, 3);
    let opened = (0..2_000_u32).any(|round| {
        for address in 0..20 {
            let filler = u8::try_from(address).unwrap();
            finds_from(100 + address, &mut attempt, &bogus(filler % 5 + 1, filler), &key);
        }
        let operator = round % 3;
        finds_from(operator, &mut attempt, &shares[operator as usize], &key)
    });
    assert!(opened, "three operators among twenty addresses");
}

#[test]
fn reset_forgets_only_shares_of_own_address() {
    let (key, shares, mut attempt) = split(5, 3);
    attempt.add(client(1), &shares[0]).unwrap();
    attempt.add(client(2), &shares[1]).unwrap();
    let nonce = attempt.nonce.clone();
    assert_eq!(attempt.forget(client(3)).unwrap(), 0);
    attempt.add(client(3), &bogus(5, 1)).unwrap();
    assert_eq!(attempt.forget(client(3)).unwrap(), 1);
    assert_eq!((attempt.progress(), &attempt.nonce), (2, &nonce));
    assert_eq!(attempt.forget(client(1)).unwrap(), 1);
    assert_eq!(attempt.progress(), 1);
    assert!(
        !finds_from(2, &mut attempt, &shares[2], &key),
        "the share of the oldest client was dropped"
    );
    attempt.forget(client(2)).unwrap();
    assert_eq!(attempt.progress(), 0);
    assert_ne!(attempt.nonce, nonce, "each attempt has a new nonce");
}

#[test]
fn a_share_counts_once_an_attempt() {
    let (_, shares, mut attempt) = split(5, 3);
    let here = client(HERE);
    for _ in 0..3 {
        attempt.add(here, &shares[0]).unwrap();
        attempt.add(client(2), &shares[0]).unwrap();
        assert_eq!((attempt.progress(), attempt.is_complete(here)), (1, false));
    }
    attempt.forget(client(2)).unwrap();
    attempt.end_attempt(here).unwrap();
    assert_eq!(attempt.progress(), 0);
    attempt.add(here, &shares[0]).unwrap();
    assert_eq!(attempt.progress(), 1);
    assert!(
        attempt.add(here, &SealKey::generate().unwrap().share()).is_err(),
        "a share without a number is refused"
    );
}

#[test]
fn bogus_shares_of_another_client_leave_attempt_open() {
    let (_, shares, mut attempt) = split(5, 3);
    (1..=3).for_each(|number| drop(attempt.add(client(9), &bogus(number, 7)).unwrap()));
    attempt.add(client(HERE), &shares[4]).unwrap();
    assert!(!attempt.is_complete(client(HERE)) && attempt.is_complete(client(9)));
    assert_eq!((attempt.progress(), attempt.has_wrong_share()), (2, true));
    attempt.end_attempt(client(9)).unwrap();
    assert_eq!((attempt.progress(), attempt.has_wrong_share()), (1, false));
}
