//! Tests of stored records: records of other releases, and the mistakes found by the checks.

use super::{Stored, UnreadableRecord, check_foreign, check_read};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Loan {
    borrower: String,
    #[serde(default)]
    extensions: Vec<u32>,
}

crate::stored!(Loan, "test-loan", reads_stored_loans);

/// The same kind of record after a change of meaning: `who` replaces `borrower`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NewLoan {
    who: String,
}

crate::stored!(NewLoan, "test-new-loan", reads_stored_new_loans, 3, |version, record| {
    let field = if version == 1 { "borrower" } else { "reader" };
    Some(serde_json::json!({ "who": record.get(field)? }))
});

fn loan(borrower: &str) -> Loan {
    Loan { borrower: borrower.to_owned(), extensions: Vec::new() }
}

#[test]
fn first_version_record_is_plain_json() {
    let bytes = loan("ann").to_bytes().unwrap();
    assert_eq!(bytes, br#"{"borrower":"ann","extensions":[]}"#);
    assert_eq!(Loan::from_bytes(&bytes), Ok(loan("ann")));
    assert_eq!(Loan::from_bytes(br#" {"borrower":"ann","other":{}}"#), Ok(loan("ann")));
}

#[test]
fn marked_later_version_is_refused_by_earlier_release() {
    let bytes = NewLoan { who: "ann".to_owned() }.to_bytes().unwrap();
    assert_eq!(bytes, br#"v3 {"who":"ann"}"#);
    assert_eq!(NewLoan::from_bytes(&bytes).unwrap().who, "ann");
    assert!(serde_json::from_slice::<Value>(&bytes).is_err());
    let newer = Loan::from_bytes(&bytes).unwrap_err();
    assert_eq!(newer, UnreadableRecord::Newer { version: 3, known: 1 });
    let refusal = newer.of("the record of a loan").message;
    assert!(refusal.starts_with("the record of a loan has format version 3"), "{refusal}");
}

#[test]
fn an_earlier_version_is_carried_over() {
    for (stored, who) in [
        (r#"{"borrower":"ann"}"#, Ok("ann")),
        (r#"v1 {"borrower":"ann"}"#, Ok("ann")),
        (r#"v2 {"reader":"bob"}"#, Ok("bob")),
        (r#"v2 {"borrower":"ann"}"#, Err(UnreadableRecord::Garbled)),
        (r#"v2 {"reader":7}"#, Err(UnreadableRecord::Garbled)),
    ] {
        let read = NewLoan::from_bytes(stored.as_bytes()).map(|loan| loan.who);
        assert_eq!(read, who.map(str::to_owned), "{stored}");
    }
}

#[test]
fn an_invalid_record_is_refused_without_its_text() {
    for bytes in ["", "null", "{}", "v", "v2", "v {}", "vv {}", "v-1 {}", "v99999999999 {}", "v1"] {
        let refused = Loan::from_bytes(bytes.as_bytes()).unwrap_err();
        assert_eq!(refused, UnreadableRecord::Garbled, "{bytes}");
    }
    let refused = Loan::from_bytes(br#"{"borrower":{"password":"hunter2"}}"#).unwrap_err();
    assert_eq!(refused.of("the record of a loan").message, "the record of a loan does not parse");
}

/// The type after a careless change of a field.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hasty {
    #[serde(skip_serializing)]
    borrower: String,
    #[serde(default)]
    extensions: Vec<u32>,
}

impl Stored for Hasty {
    const KIND: &'static str = "test-loan";
}

#[test]
fn stored_record_check_finds_lost_fields() {
    let loans = "{\"borrower\":\"ann\",\"extensions\":[1,2]}\n";
    assert_eq!(check_read::<Loan>(loans), Ok(()));
    assert_eq!(Hasty::from_bytes(br#"{"borrower":"ann"}"#).unwrap().borrower, "ann");
    assert_eq!(check_foreign::<Loan>(loans), Ok(()));
    for (written, why) in [
        (loans, "test-loan, line 1: /borrower is lost"),
        ("{\"extensions\":[]}", "test-loan, line 1: does not parse"),
        ("", "no record of version 1"),
    ] {
        let refusal = check_read::<Hasty>(written).unwrap_err();
        assert!(refusal.contains(why) || refusal.contains("written again"), "{refusal}");
    }
    assert!(check_read::<NewLoan>("{\"borrower\":\"ann\"}").unwrap_err().contains("version 3"));
    assert!(check_foreign::<Hasty>(loans).unwrap_err().contains("line 1: refuses unknown fields"));
}
