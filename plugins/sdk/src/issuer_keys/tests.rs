//! Key sets that change, are requested often, lose keys, or are too large.

use super::*;
use crate::testbed::TestHost;
use bulkhead_wire::failure::FailureKind;
use std::cell::{Cell, RefCell};

const ENDPOINT: &str = "https://issuer.example/keys";

/// An issuer that counts its requests.
#[derive(Default)]
struct Issuer {
    keys: RefCell<BTreeMap<String, String>>,
    lifetime: Cell<Option<u64>>,
    is_down: Cell<bool>,
    asked: Cell<u32>,
}

impl Issuer {
    fn with(ids: &[&str]) -> Self {
        let issuer = Self::default();
        issuer.publish(ids);
        issuer
    }

    fn publish(&self, ids: &[&str]) {
        let key = |id: &&str| ((*id).to_owned(), format!("key {id}"));
        *self.keys.borrow_mut() = ids.iter().map(key).collect();
    }

    fn fetch(&self) -> Result<FetchedKeys, Failure> {
        self.asked.set(self.asked.get() + 1);
        match self.is_down.get() {
            true => Err(Failure::new(FailureKind::Unreachable, "down")),
            false => {
                Ok(FetchedKeys { keys: self.keys.borrow().clone(), lifetime: self.lifetime.get() })
            }
        }
    }

    fn find(&self, host: &TestHost, id: &str) -> Option<String> {
        find(host, ENDPOINT, id, || self.fetch()).unwrap()
    }
}

#[test]
fn key_set_is_fetched_once_per_endpoint() {
    let (host, issuer) = (TestHost::default(), Issuer::with(&["k1"]));
    for _ in 0..3 {
        assert_eq!(issuer.find(&host, "k1").as_deref(), Some("key k1"));
    }
    assert_eq!(issuer.asked.get(), 1);
    let other = Issuer::with(&["k1"]);
    assert!(find(&host, "https://other.example/keys", "k1", || other.fetch()).unwrap().is_some());
    assert_eq!(other.asked.get(), 1, "a key of one issuer is none of another");
}

#[test]
fn unknown_ids_cost_minutely_request_besides_first_set() {
    let (host, issuer) = (TestHost::default(), Issuer::with(&["k1"]));
    assert_eq!(issuer.find(&host, "forged-0"), None);
    assert_eq!(issuer.asked.get(), 1);
    for number in 1..50 {
        assert_eq!(issuer.find(&host, &format!("forged-{number}")), None);
    }
    assert_eq!(issuer.asked.get(), 2);
    issuer.publish(&["k1", "k2"]);
    assert_eq!(issuer.find(&host, "k2"), None, "within the minute");
    assert_eq!(issuer.find(&host, "k1").as_deref(), Some("key k1"));
    host.advance(60);
    assert_eq!(issuer.find(&host, "k2").as_deref(), Some("key k2"), "a new key is learnt");
    assert_eq!(issuer.asked.get(), 3);
}

#[test]
fn withdrawn_key_is_trusted_for_half_set_lifetime() {
    for (said, lifetime) in
        [(None, 3_600), (Some(0), 300), (Some(7_200), 7_200), (Some(u64::MAX), 86_400)]
    {
        let (host, issuer) = (TestHost::default(), Issuer::with(&["k1"]));
        issuer.lifetime.set(said);
        assert!(issuer.find(&host, "k1").is_some());
        issuer.publish(&["k2"]);
        host.advance(lifetime / 2 - 1);
        assert!(issuer.find(&host, "k1").is_some(), "{said:?}");
        assert_eq!(issuer.asked.get(), 1);
        host.advance(1);
        assert!(issuer.find(&host, "k1").is_none(), "{said:?}");
        assert_eq!(issuer.asked.get(), 2);
    }
}

#[test]
fn issuer_outage_keeps_keys_until_end_asking_minutely() {
    let (host, issuer) = (TestHost::default(), Issuer::with(&["k1"]));
    issuer.lifetime.set(Some(86_400));
    assert!(issuer.find(&host, "k1").is_some());
    host.advance(43_200);
    issuer.is_down.set(true);
    for _ in 0..9 {
        assert!(issuer.find(&host, "k1").is_some());
    }
    assert_eq!(issuer.asked.get(), 2);
    assert!(host.steps().iter().any(|step| step.starts_with("log issuer-keys-not-refreshed")));
    host.advance(43_199);
    assert!(issuer.find(&host, "k1").is_some());
    host.advance(1);
    let over = find(&host, ENDPOINT, "k1", || issuer.fetch());
    assert_eq!(over.unwrap_err().kind, FailureKind::Unreachable);
    issuer.is_down.set(false);
    assert!(issuer.find(&host, "k1").is_some());
}

#[test]
fn issuer_outage_adds_no_requests_for_unknown_ids() {
    let (host, issuer) = (TestHost::default(), Issuer::with(&["k1"]));
    assert!(issuer.find(&host, "k1").is_some());
    issuer.is_down.set(true);
    let ask = |id: &str| find(&host, ENDPOINT, id, || issuer.fetch());
    assert_eq!(ask("k2").unwrap_err().kind, FailureKind::Unreachable);
    for _ in 0..9 {
        assert_eq!(ask("k2"), Ok(None));
    }
    assert_eq!(issuer.asked.get(), 2);
    assert!(issuer.find(&host, "k1").is_some(), "known keys are served during an outage");
}

#[test]
fn oversized_sets_are_refused_and_not_kept() {
    let host = TestHost::default();
    let large = FetchedKeys {
        keys: (0..101).map(|number| (number.to_string(), "x".to_owned())).collect(),
        lifetime: None,
    };
    let refused = find(&host, ENDPOINT, "0", || Ok(large.clone()));
    assert_eq!(refused.unwrap_err().kind, FailureKind::Unreachable);
    let long = FetchedKeys {
        keys: BTreeMap::from([("0".to_owned(), "x".repeat(MAX_SET_BYTES))]),
        lifetime: None,
    };
    assert!(find(&host, ENDPOINT, "0", || Ok(long.clone())).is_err());
    assert!(Issuer::with(&["0"]).find(&host, "0").is_some());
}

#[test]
fn answer_lifetime_is_its_max_age() {
    let of = |control: &str| {
        let headers = vec![("cache-control".to_owned(), control.to_owned())];
        lifetime(&Response { headers, ..Response::default() })
    };
    assert_eq!(of("public, max-age=24045, must-revalidate, no-transform"), Some(24_045));
    assert_eq!(of("max-age=0"), Some(0));
    for none in ["private", "max-age=", "max-age=-1", "s-maxage=3"] {
        assert_eq!(of(none), None, "{none}");
    }
    assert_eq!(lifetime(&Response::default()), None);
}
