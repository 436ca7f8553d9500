//! Filters, entries and the mapping of refusals.

use super::*;
use bulkhead_wire::failure::{Failure, FailureKind};

#[test]
fn filter_contains_its_conditions_unescaped() {
    let filter = Filter::equal("objectClass", "user").and_any(&[("cn", "*"), ("uid", "a)(b=*")]);
    let texts: Vec<Vec<(String, Vec<u8>)>> = filter
        .all_of
        .into_iter()
        .map(|any_of| {
            any_of.into_iter().map(|one| (one.attribute, one.value.unwrap_or_default())).collect()
        })
        .collect();
    let condition = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    assert_eq!(
        texts,
        [
            vec![condition("objectClass", "user")],
            vec![condition("cn", "*"), condition("uid", "a)(b=*")],
        ]
    );
    assert_eq!(Filter::present("cn").all_of[0][0].value, None);
}

#[test]
fn entry_attributes_ignore_case_and_text_is_single() {
    let entry = LdapEntry {
        dn: "cn=a".to_owned(),
        attributes: vec![
            ("pwdLastSet".to_owned(), vec![b"1".to_vec()]),
            ("mail".to_owned(), vec![b"a@b".to_vec(), b"c@d".to_vec()]),
            ("objectGUID".to_owned(), vec![vec![0xff]]),
        ],
    };
    assert_eq!(entry.text("PWDLASTSET"), Some("1"));
    assert_eq!(entry.text("mail"), None, "which one?");
    assert_eq!(entry.texts("mail").collect::<Vec<_>>(), ["a@b", "c@d"]);
    assert_eq!((entry.text("objectGUID"), entry.values("objectGUID").len()), (None, 1));
    assert!(entry.values("cn").is_empty());
}

#[test]
fn directory_refusals_are_caller_errors() {
    for (code, kind) in [
        ("unreachable", FailureKind::Unreachable),
        ("timed-out", FailureKind::TimedOut),
        ("permission-denied", FailureKind::PermissionDenied),
        ("refused", FailureKind::InvalidRequest),
        ("refused-change", FailureKind::InvalidRequest),
        ("not-found", FailureKind::InvalidRequest),
        ("a word of a later host", FailureKind::Unreachable),
    ] {
        let failure = Failure::from(LdapFault::new(LdapFaultCode::of_word(code), "why"));
        assert_eq!((failure.kind, failure.message.as_str()), (kind, "why"), "{code}");
    }
}
