//! Tests of `redaction.rs`.

use super::*;
use bulkhead_wire::description::{Field, FieldKind, Route, Verb};
use serde_json::json;

fn table() -> RouteTable {
    let aliased = Field::new("password", FieldKind::Any, "").secret();
    let fields = vec![
        Field { aliases: vec!["bindpass".to_owned()], ..aliased },
        Field::new("ttl", FieldKind::Duration, ""),
        Field::new("username", FieldKind::String, ""),
    ];
    RouteTable::new(vec![Route { fields, ..Route::new(Verb::Write, "config", "") }]).unwrap()
}

/// Returns the line's form of `data`, with `h:` in front of hashed texts.
fn shown(data: &Value, described: bool, clear: &[&str], raw: bool) -> Value {
    let (hashing, table) = (HashingKey::new(b"key"), table());
    let clear: Vec<String> = clear.iter().map(|name| (*name).to_owned()).collect();
    let redaction = RedactionRules {
        hashing: &hashing,
        table: described.then_some(&table),
        names: MemberNames::Shown,
        clear: &clear,
        raw,
    };
    let mut out = Vec::new();
    assert_eq!(redaction.object(data.as_object().unwrap(), usize::MAX, &mut out).members, 0);
    serde_json::from_slice(&out).unwrap()
}

/// Returns the rules for data whose names are all shown.
fn rules<'a>(hashing: &'a HashingKey, table: &'a RouteTable, raw: bool) -> RedactionRules<'a> {
    let (table, names) = (Some(table), MemberNames::Shown);
    RedactionRules { hashing, table, names, clear: &[], raw }
}

fn hash(text: &str) -> Value {
    json!(HashingKey::new(b"key").hash(text))
}

#[test]
fn texts_are_hashed_but_numbers_and_times_shown() {
    let data = json!({
        "username": "root", "ttl": 60, "on": true, "none": null, "at": "2026-11-21T17:33:56.5Z",
        "deep": [{ "a": ["b", 2, [["c"]]] }], "empty": "",
    });
    let seen = json!({
        "username": hash("root"), "ttl": 60, "on": true, "none": null,
        "at": "2026-11-21T17:33:56.5Z",
        "deep": [{ "a": [hash("b"), 2, [[hash("c")]]] }], "empty": hash(""),
    });
    assert_eq!(shown(&data, true, &[], false), seen);
}

#[test]
fn secret_fields_show_shape_only() {
    for name in ["password", "bindpass"] {
        let at = "2026-11-21T17:33:56Z";
        let data = json!({ name: [4711, true, { at: at, "k": null }] });
        let time = HashingKey::new(b"key").hash("2026-11-21T17:33:56Z");
        let key = HashingKey::new(b"key").hash("k");
        let seen = json!({ name: [hash("4711"), hash("true"), { &time: time, key: null }] });
        for (clear, raw) in [(&[][..], false), (&[name][..], false), (&[][..], true)] {
            assert_eq!(shown(&data, true, clear, raw), seen);
        }
    }
}

#[test]
fn secret_members_are_found_below_other_members() {
    let data =
        json!({ "details": { "password": 1234, "host": "h", "inner": [{ "bindpass": "p" }] } });
    let inner = json!([{ "bindpass": hash("p") }]);
    let seen = json!({
        "details": { "password": hash("1234"), "host": "h", "inner": inner }
    });
    assert_eq!(shown(&data, true, &["details"], false), seen);
    assert_eq!(shown(&data, true, &[], true), seen);
}

#[test]
fn mount_shows_named_members_and_raw_device_all() {
    let data = json!({ "username": "root", "unknown": { "a": "b" } });
    let named = json!({ "username": "root", "unknown": { "a": hash("b") } });
    assert_eq!(shown(&data, true, &["username", "a"], false), named);
    assert_eq!(shown(&data, true, &[], true), data);
}

#[test]
fn undescribed_data_is_hashed_on_every_device() {
    let data = json!({ "pin": 1234, "password": "p", "list": [{ "k": false }] });
    let hashed = |text: &str| HashingKey::new(b"key").hash(text);
    let seen = json!({
        hashed("pin"): hash("1234"), hashed("password"): hash("p"),
        hashed("list"): [{ hashed("k"): hash("false") }],
    });
    for raw in [false, true] {
        assert_eq!(shown(&data, false, &["pin"], raw), seen);
    }
}

#[test]
fn names_are_shown_as_fields_ask_for_names() {
    let (hashing, table) = (HashingKey::new(b"key"), table());
    let setting = |name: &str| Field::new(name, FieldKind::String, "");
    let fields = [
        Field::new("text", FieldKind::String, ""),
        Field { aliases: vec!["other".to_owned()], ..Field::new("list", FieldKind::TextList, "") },
        Field::new("map", FieldKind::Map, ""),
        Field::new("any", FieldKind::Any, ""),
        Field { members: vec![setting("known")], ..Field::new("config", FieldKind::Any, "") },
    ];
    let shown = |names: MemberNames<'_>, data: &Value| -> Value {
        let redaction = RedactionRules { names, ..rules(&hashing, &table, false) };
        let mut out = Vec::new();
        redaction.object(data.as_object().unwrap(), usize::MAX, &mut out);
        serde_json::from_slice(&out).unwrap()
    };
    let key = |text: &str| HashingKey::new(b"key").hash(text);
    let declared = MemberNames::Declared { fields: &fields, is_open: false };
    for (data, seen) in [
        (json!({ "text": { "k": 1 } }), json!({ "text": { key("k"): hash("1") } })),
        (json!({ "text": [[{ "k": 1 }], 2] }), json!({ "text": [[{ key("k"): hash("1") }], 2] })),
        (json!({ "other": [{ "k": true }] }), json!({ "other": [{ key("k"): hash("true") }] })),
        (json!({ "map": { "owner": 1 } }), json!({ "map": { "owner": 1 } })),
        (
            json!({ "map": { "owner": { "k": 1 } } }),
            json!({ "map": { "owner": { key("k"): hash("1") } } }),
        ),
        (json!({ "map": [{ "k": 1 }] }), json!({ "map": [{ key("k"): hash("1") }] })),
        (json!({ "any": [{ "a": { "b": 1 } }] }), json!({ "any": [{ "a": { "b": 1 } }] })),
        (
            json!({ "config": { "known": 1, "k": 2 } }),
            json!({ "config": { "known": 1, key("k"): hash("2") } }),
        ),
        (json!({ "k": { "l": 1 } }), json!({ key("k"): { key("l"): hash("1") } })),
    ] {
        assert_eq!(shown(declared, &data), seen, "{data}");
    }
    let open = MemberNames::Declared { fields: &fields, is_open: true };
    assert_eq!(shown(open, &json!({ "k": { "l": 1 } })), json!({ "k": { key("l"): hash("1") } }));
    let hidden = shown(MemberNames::Hidden, &json!({ "text": 5, "list": [] }));
    assert_eq!(hidden, json!({ key("text"): hash("5"), key("list"): [] }));
}

#[test]
fn text_resembling_time_is_hashed() {
    for text in [
        "2026-11-21",
        "2026-13-21T17:33:56Z",
        "2026-11-21T17:33:56Z and more",
        "abcd-ef-ghTij:kl:mnZ",
    ] {
        assert_eq!(
            shown(&json!({ "at": text }), true, &[], false),
            json!({ "at": hash(text) }),
            "{text}"
        );
    }
}

#[test]
fn long_members_become_one_digest_and_rest_counted() {
    let (hashing, table) = (HashingKey::new(b"key"), table());
    let redaction = rules(&hashing, &table, false);
    let zeros = Value::Array(vec![json!(""); 10_000]);
    let deep = json!({ "b": zeros, "c": {} });
    let name = "n".repeat(10_000);
    let digest =
        |value: &Value| json!({ "digest": hash(&value.to_string()), "values": count(value) });
    for (most, data, members, shown, digested) in [
        (
            1 << 10,
            json!({ "a": 1, "b": zeros, "c": 2 }),
            0,
            json!({ "a": 1, "c": 2 }),
            json!({ "b": digest(&zeros) }),
        ),
        (1 << 10, json!({ "a": deep }), 0, json!({}), json!({ "a": digest(&deep) })),
        (99, json!({ "a": 1, "b": zeros, "c": 2 }), 2, json!({ "a": 1 }), Value::Null),
        (
            1 << 10,
            json!({ name.as_str(): { name.as_str(): 1 } }),
            0,
            json!({ hash(&name).as_str().unwrap(): { hash(&name).as_str().unwrap(): 1 } }),
            Value::Null,
        ),
        (
            1 << 10,
            json!({ "a": 1, "b": "x".repeat(10_000) }),
            0,
            json!({ "a": 1, "b": hash(&"x".repeat(10_000)) }),
            Value::Null,
        ),
    ] {
        let mut out = Vec::new();
        let left_out = redaction.object(data.as_object().unwrap(), most, &mut out);
        assert_eq!(left_out.members, members);
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), shown);
        assert!(out.len() + left_out.digests.written() <= most);
        assert!(out.capacity() < 4 << 10, "{}", out.capacity());
        let mut text = Vec::new();
        let mut object = json::JsonObject::begin(&mut text);
        left_out.digests.write(&mut object);
        object.end();
        let written: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(written.get("digested").cloned().unwrap_or_default(), digested);
    }
}

#[test]
fn long_text_on_raw_device_becomes_hash() {
    let (hashing, table) = (HashingKey::new(b"key"), table());
    let redaction = rules(&hashing, &table, true);
    let (data, mut out) = (json!({ "a": "x".repeat(100_000), "b": "y" }), Vec::new());
    let left_out = redaction.object(data.as_object().unwrap(), 9_000, &mut out);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), json!({ "b": "y" }));
    let (mut text, hash) = (Vec::new(), hash(&"x".repeat(100_000)));
    let mut object = json::JsonObject::begin(&mut text);
    left_out.digests.write(&mut object);
    object.end();
    assert_eq!(
        serde_json::from_slice::<Value>(&text).unwrap(),
        json!({ "digested": { "a": { "digest": hash, "values": 1 } } })
    );
}

#[test]
fn hostile_keys_and_texts_cannot_leave_their_place() {
    let data = json!({
        "a\"},\"type\":\"response": 1, "line\nbreak": "\u{0}\u{2028}\"", "\u{7f}": {}
    });
    let (hashing, table) = (HashingKey::new(b"key"), table());
    let redaction = rules(&hashing, &table, true);
    let mut out = Vec::new();
    redaction.object(data.as_object().unwrap(), usize::MAX, &mut out);
    assert!(!out.contains(&b'\n'));
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), data);
}
