//! The stored position of a migration.

use super::*;

#[test]
fn position_round_trips_and_other_forms_are_refused() {
    let mut position = MigrationPosition::of("c");
    let record = RawRecord {
        space: 2,
        key: "mount/a".to_owned(),
        stamp: vec![7; 16],
        due: None,
        lane: String::new(),
        owner: String::new(),
        created: None,
        modified: None,
        sealed: vec![1],
    };
    position.pass(&record).unwrap();
    let (_, row) = position.row();
    let row = row.unwrap();
    assert_eq!(MigrationPosition::parse(&row).unwrap(), position);
    let later = String::from_utf8(row).unwrap().replace("\"form\":1", "\"form\":2");
    for wrong in [later.as_bytes(), b"", b"{}", b"7"] {
        assert!(MigrationPosition::parse(wrong).is_err());
    }
}

#[test]
fn digest_depends_on_every_record_before() {
    let record = |key: &str| RawRecord {
        space: 2,
        key: key.to_owned(),
        stamp: vec![7; 16],
        due: None,
        lane: String::new(),
        owner: String::new(),
        created: None,
        modified: None,
        sealed: vec![1],
    };
    let of = |keys: [&str; 2]| {
        let mut position = MigrationPosition::of("c");
        keys.iter().for_each(|key| position.pass(&record(key)).unwrap());
        position
    };
    assert_eq!(of(["a", "b"]), of(["a", "b"]));
    assert_ne!(of(["a", "b"]), of(["b", "a"]));
    assert_ne!(of(["a", "b"]), of(["c", "b"]));
}
