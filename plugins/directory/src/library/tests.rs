//! The library: each state of a loan, and crashes between the states.

use crate::Directory;
use crate::fixture::{configured, dn, with_role, with_set, works};
use crate::settings::Config;
use bulkhead_sdk::testbed::{Flavour, Reply, TestBed};
use bulkhead_sdk::{Failure, FailureKind, Host, RevocationReason};
use serde_json::{Value, json};

mod whereabouts;

type Bed = TestBed<Directory>;

fn check_out(bed: &Bed) -> Reply {
    bed.write("library/team/check-out", &json!({})).unwrap()
}

fn check_in(bed: &Bed, body: Value) -> Result<Value, Failure> {
    Ok(bed.write("library/team/check-in", &body)?.data["check_ins"].clone())
}

fn forced(bed: &Bed, body: Value) -> Result<Value, Failure> {
    Ok(bed.write("library/manage/team/check-in", &body)?.data["check_ins"].clone())
}

fn status(bed: &Bed) -> Value {
    Value::Object(bed.read("library/team/status").unwrap().data)
}

fn as_caller(bed: &mut Bed, entity: &str, token: &str) {
    bed.caller.entity = entity.to_owned();
    bed.caller.id = token.to_owned();
}

const FREE: &str = r#"{"svc1":{"available":true},"svc2":{"available":true}}"#;

#[test]
fn set_reads_as_written_and_engine_owns_passwords() {
    let bed = with_set();
    let shown = Value::Object(bed.read("library/team").unwrap().data);
    let expected = json!({
        "service_account_names": ["svc1", "svc2"], "ttl": 1800, "max_ttl": 3600,
        "disable_check_in_enforcement": false,
    });
    assert_eq!(shown, expected);
    assert_eq!(bed.list("library").unwrap().data["keys"], json!(["team"]));
    assert_eq!(status(&bed).to_string(), FREE);
    assert!(!works(&bed, "svc1", &json!("first-of-svc1")));
    let day = json!({"service_account_names": ["svc3"]});
    bed.write("library/other", &day).unwrap();
    let shown = bed.read("library/other").unwrap().data;
    assert_eq!((&shown["ttl"], &shown["max_ttl"]), (&json!(86400), &json!(86400)));
}

#[test]
fn bad_set_is_refused_and_takes_no_account() {
    for (body, why) in [
        (json!({}), "service_account_names is required"),
        (json!({"service_account_names": []}), "service_account_names is required"),
        (json!({"service_account_names": ["svc3", "none"]}), "there is no account \"none\""),
        (json!({"service_account_names": ["svc3", "SVC3@corp.example"]}), "are the same account"),
        (json!({"service_account_names": ["svc3", "svc3"]}), "are the same account"),
        (json!({"service_account_names": "svc3,svc1"}), "already managed by set \"team\""),
        (json!({"service_account_names": "svc3", "ttl": "2h", "max_ttl": "1h"}), "max_ttl 1h"),
        (json!({"service_account_names": "svc3", "ttl": -1}), "ttl"),
    ] {
        let bed = with_set();
        let refused = bed.write("library/bad", &body).err().unwrap();
        assert_eq!(refused.kind, FailureKind::InvalidRequest, "{refused}");
        assert!(refused.message.contains(why), "{refused}");
        assert_eq!(bed.host.stored("set/bad"), None);
        assert!(works(&bed, "svc3", &json!("first-of-svc3")), "{body}");
    }
}

#[test]
fn account_of_unfinished_set_is_free() {
    let bed = configured(Flavour::ActiveDirectory);
    bed.host
        .lose_reply("checkpoint", Failure::new(FailureKind::Unavailable, "the store went away"));
    bed.write("library/one", &json!({"service_account_names": "svc3"})).err().unwrap();
    bed.run_guards().unwrap();
    bed.host.directory().set_password(&dn("svc3"), "by-another");
    bed.write("library/two", &json!({"service_account_names": "svc3"})).unwrap();
    let lent = bed.write("library/two/check-out", &json!({})).unwrap();
    assert!(works(&bed, "svc3", &lent.data["password"]));
}

#[test]
fn check_out_lends_first_account_without_directory_request() {
    let bed = with_set();
    let lent = check_out(&bed);
    assert_eq!(lent.data["service_account_name"], "svc1");
    assert!(works(&bed, "svc1", &lent.data["password"]));
    assert_eq!((lent.ttl, lent.max_ttl), (1_800, 3_600));
    assert!(!bed.host.steps().iter().any(|step| step.starts_with("ldap")));
    assert_eq!(check_out(&bed).data["service_account_name"], "svc2");
    let none = bed.write("library/team/check-out", &json!({})).err().unwrap();
    assert_eq!(none.kind, FailureKind::InvalidRequest);
    let unknown = bed.write("library/none/check-out", &json!({})).err().unwrap();
    assert!(unknown.message.contains("there is no set \"none\""), "{unknown}");
}

#[test]
fn loan_ttl_is_minimum_of_set_and_request() {
    for (set, body, ttl) in [
        (json!({"ttl": 1800, "max_ttl": 3600}), json!({"ttl": "5h"}), 1_800),
        (json!({"ttl": 1800, "max_ttl": 3600}), json!({"ttl": 60}), 60),
        (json!({"ttl": 1800, "max_ttl": 3600}), json!({"ttl": 0}), 1_800),
        (json!({"ttl": 0, "max_ttl": 3600}), json!({}), 3_600),
        (json!({"ttl": 0, "max_ttl": 0}), json!({"ttl": 60}), 60),
        (json!({"ttl": 0, "max_ttl": 0}), json!({}), 2_764_800),
    ] {
        let bed = with_set();
        bed.write("library/team", &set).unwrap();
        let lent = bed.write("library/team/check-out", &body).unwrap();
        assert_eq!(lent.ttl, ttl, "{set} {body}");
        assert!(lent.warnings.is_empty(), "{:?}", lent.warnings);
    }
    let mut bed = with_set();
    bed.mount.longest_lease = 60;
    let lent = check_out(&bed);
    assert_eq!((lent.ttl, lent.warnings.len()), (60, 1));
}

#[test]
fn check_in_changes_password_frees_account_ends_lease() {
    let mut bed = with_set();
    as_caller(&mut bed, "alice", "token-1");
    let lent = check_out(&bed);
    let expected = json!({"svc1": {"available": false, "borrower_client_token": "token-1",
        "borrower_entity_id": "alice"}, "svc2": {"available": true}});
    assert_eq!(status(&bed), expected);
    assert_eq!(check_in(&bed, json!({})).unwrap(), json!(["svc1"]));
    assert_eq!(status(&bed).to_string(), FREE);
    assert!(!works(&bed, "svc1", &lent.data["password"]));
    assert!(bed.host.lease_tags().is_empty(), "the lease is over");
    assert_eq!(check_in(&bed, json!({"service_account_names": "svc1"})).unwrap(), json!([]));
    assert_eq!(check_in(&bed, json!({})).unwrap(), json!([]));
    assert!(works(&bed, "svc1", &check_out(&bed).data["password"]));
}

#[test]
fn only_the_borrower_may_check_in() {
    for (entity, token, may) in [
        ("alice", "token-1", true),
        ("alice", "token-2", true),
        ("", "token-1", true),
        ("bob", "token-2", false),
        ("", "token-2", false),
        ("", "", false),
    ] {
        let mut bed = with_set();
        as_caller(&mut bed, "alice", "token-1");
        let lent = check_out(&bed);
        as_caller(&mut bed, entity, token);
        let named = check_in(&bed, json!({"service_account_names": ["SVC1"]}));
        match may {
            true => assert_eq!(named.unwrap(), json!(["svc1"])),
            false => {
                assert!(named.unwrap_err().message.contains("is not checked out by this caller"));
                assert_eq!(check_in(&bed, json!({})).unwrap(), json!([]));
                assert!(works(&bed, "svc1", &lent.data["password"]), "nothing was done");
                assert_eq!(forced(&bed, json!({})).unwrap(), json!(["svc1"]));
            }
        }
    }
}

#[test]
fn anonymous_loan_is_not_checked_in_under_enforcement() {
    let mut bed = with_set();
    as_caller(&mut bed, "", "");
    check_out(&bed);
    let named = json!({"service_account_names": "svc1"});
    assert!(check_in(&bed, named.clone()).is_err());
    bed.write("library/team", &json!({"disable_check_in_enforcement": true})).unwrap();
    assert_eq!(check_in(&bed, named).unwrap(), json!(["svc1"]));
}

#[test]
fn several_loans_need_names_and_refusal_ends_none() {
    let mut bed = with_set();
    as_caller(&mut bed, "alice", "token-1");
    check_out(&bed);
    as_caller(&mut bed, "bob", "token-2");
    check_out(&bed);
    let both = json!({"service_account_names": "svc2,svc1"});
    assert!(check_in(&bed, both.clone()).unwrap_err().message.contains("\"svc1\""));
    assert!(forced(&bed, json!({})).unwrap_err().message.contains("several accounts"));
    assert_eq!(status(&bed)["svc2"]["available"], false, "nothing was checked in");
    assert_eq!(forced(&bed, both).unwrap(), json!(["svc2", "svc1"]));
    let elsewhere = forced(&bed, json!({"service_account_names": "svc3"})).unwrap_err();
    assert!(elsewhere.message.contains("not an account of this set"), "{elsewhere}");
}

#[test]
fn set_cannot_end_loans_of_another_set() {
    let bed = with_set();
    let free_for_all =
        json!({"service_account_names": "svc3", "disable_check_in_enforcement": true});
    bed.write("library/other", &free_for_all).unwrap();
    let lent = check_out(&bed);
    for path in ["library/other/check-in", "library/manage/other/check-in"] {
        let body = json!({"service_account_names": "svc1"});
        assert!(bed.write(path, &body).is_err());
    }
    assert!(works(&bed, "svc1", &lent.data["password"]));
}

#[test]
fn a_lease_that_ends_checks_in() {
    for reason in [
        RevocationReason::Expired,
        RevocationReason::Requested,
        RevocationReason::TokenEnded,
        RevocationReason::Undo,
    ] {
        let bed = with_set();
        let lent = check_out(&bed);
        let lease = lent.lease.unwrap();
        bed.revoke(&lease, reason).unwrap();
        assert_eq!(status(&bed).to_string(), FREE, "{reason:?}");
        assert!(!works(&bed, "svc1", &lent.data["password"]));
        assert!(bed.host.lease_tags().is_empty());
    }
}

#[test]
fn a_stale_lease_never_touches_the_next_borrower() {
    let bed = with_set();
    let first = check_out(&bed);
    let stale = bed.lease(first.lease.as_deref().unwrap()).unwrap();
    check_in(&bed, json!({"service_account_names": "svc1"})).unwrap_err();
    forced(&bed, json!({})).unwrap();
    let second = check_out(&bed);
    assert_eq!(second.data["service_account_name"], "svc1");
    let context = bulkhead_sdk::Context {
        mount: bed.mount.clone(),
        deadline: u64::MAX,
        ..Default::default()
    };
    for reason in
        [RevocationReason::Expired, RevocationReason::Requested, RevocationReason::TokenEnded]
    {
        super::revoke(&bed.host, &context.mount, &stale, reason).unwrap();
    }
    let refused = super::renew(&bed.host, &context.mount, &stale, 60).unwrap_err();
    assert!(refused.message.contains("checked in already"), "{refused}");
    assert!(works(&bed, "svc1", &second.data["password"]));
    assert_eq!(status(&bed)["svc1"]["available"], false);
}

#[test]
fn renewal_uses_present_set_limits() {
    let bed = with_set();
    let lease = check_out(&bed).lease.unwrap();
    let granted = |increment| {
        let renewal = bed.renew(&lease, increment).unwrap();
        (renewal.ttl, renewal.max_ttl)
    };
    assert_eq!(granted(0), (1_800, 3_600));
    assert_eq!(granted(60), (60, 3_600));
    bed.write("library/team", &json!({"ttl": "10m", "max_ttl": "2h"})).unwrap();
    assert_eq!(granted(0), (600, 7_200));
}

#[test]
fn loan_without_end_outlives_lease_but_not_token() {
    let bed = with_set();
    bed.write("library/team", &json!({"ttl": 0, "max_ttl": 0})).unwrap();
    let lent = check_out(&bed);
    let lease = lent.lease.clone().unwrap();
    assert_eq!(bed.renew(&lease, 0).unwrap().ttl, 2_764_800);
    bed.revoke(&lease, RevocationReason::Expired).unwrap();
    assert!(works(&bed, "svc1", &lent.data["password"]), "the loan goes on");
    assert_eq!(forced(&bed, json!({})).unwrap(), json!(["svc1"]));
    let lease = check_out(&bed).lease.unwrap();
    bed.revoke(&lease, RevocationReason::TokenEnded).unwrap();
    assert_eq!(status(&bed).to_string(), FREE);
}

#[test]
fn set_change_takes_nothing_from_borrower() {
    let bed = with_set();
    let lent = check_out(&bed);
    for change in [
        bed.write("library/team", &json!({"service_account_names": "svc2"})),
        bed.delete("library/team"),
    ] {
        let refused = change.err().unwrap();
        assert!(refused.message.contains("\"svc1\" cannot be removed"), "{refused}");
    }
    let more = json!({"service_account_names": ["svc3", "svc1", "svc2"]});
    bed.write("library/team", &more).unwrap();
    assert!(works(&bed, "svc1", &lent.data["password"]), "members keep their passwords");
    assert_eq!(check_out(&bed).data["service_account_name"], "svc3", "in the order of names");
    forced(&bed, json!({"service_account_names": "svc1,svc3"})).unwrap();
    bed.write("library/team", &json!({"service_account_names": "svc2"})).unwrap();
    bed.write("roles/build", &json!({"service_account_name": "svc1"})).unwrap();
    bed.delete("library/team").unwrap();
    bed.delete("library/team").unwrap();
    assert!(bed.read("library/team").is_err());
}

#[test]
fn interrupted_check_in_keeps_account_and_password_known() {
    for step in ["guard", "checkpoint", "ldap-modify", "ldap-bind", "end-issued", "cancel"] {
        let bed = with_set();
        let lent = check_out(&bed);
        bed.host.die_after(step);
        forced(&bed, json!({})).unwrap_err();
        bed.run_guards().unwrap();
        let is_home = status(&bed)["svc1"]["available"] == true;
        assert_eq!(is_home, !works(&bed, "svc1", &lent.data["password"]), "{step}");
        assert_eq!(bed.host.lease_tags().is_empty(), is_home, "{step}");
        if !is_home {
            assert_eq!(forced(&bed, json!({})).unwrap(), json!(["svc1"]), "{step}");
        }
        let again = check_out(&bed);
        assert_eq!(again.data["service_account_name"], "svc1", "{step}");
        assert!(works(&bed, "svc1", &again.data["password"]), "{step}");
    }
}

#[test]
fn interrupted_check_out_neither_loses_nor_doubles_account() {
    for step in ["reserve", "put", "checkpoint"] {
        let bed = with_set();
        bed.host.die_after(step);
        bed.write("library/team/check-out", &json!({})).err().unwrap();
        bed.run_guards().unwrap();
        assert_eq!(status(&bed).to_string(), FREE, "{step}");
        assert!(bed.host.lease_tags().is_empty(), "{step}");
        let (one, other) = (check_out(&bed), check_out(&bed));
        assert_ne!(one.data["service_account_name"], other.data["service_account_name"]);
        assert!(works(&bed, "svc1", &one.data["password"]), "{step}");
    }
}

#[test]
fn directory_outage_keeps_account_lent() {
    let bed = with_set();
    let lent = check_out(&bed);
    let lease = lent.lease.unwrap();
    bed.host.directory().take_down("ldaps://dc1.corp.example");
    assert_eq!(
        bed.revoke(&lease, RevocationReason::Expired).unwrap_err().kind,
        FailureKind::Unreachable
    );
    assert_eq!(status(&bed)["svc1"]["available"], false);
    bed.host.directory().bring_up("ldaps://dc1.corp.example");
    bed.revoke(&lease, RevocationReason::Expired).unwrap();
    assert_eq!(status(&bed).to_string(), FREE);
}

#[test]
fn check_out_lease_without_configuration_waits_with_remedy() {
    let bed = with_set();
    let lease = check_out(&bed).lease.unwrap();
    let refused = bed.delete("config").err().unwrap();
    assert!(refused.message.contains("lent accounts to be returned: 1"), "{refused}");
    assert!(bed.read("config").is_ok(), "a refusal changes nothing");
    Config::remove(&bed.host).unwrap();
    (&bed.host as &dyn Host).storage().checkpoint().unwrap();
    let waiting = bed.revoke(&lease, RevocationReason::Expired).unwrap_err();
    assert_eq!(waiting.kind, FailureKind::Unreachable);
    assert!(waiting.message.contains("write directory/config first"), "{waiting}");
}

#[test]
fn an_account_of_a_role_cannot_be_lent() {
    let bed = with_role(Flavour::ActiveDirectory);
    let set = json!({"service_account_names": [dn("svc1")]});
    let refused = bed.write("library/team", &set).err().unwrap();
    assert!(refused.message.contains("already managed by role \"build\""), "{refused}");
}
