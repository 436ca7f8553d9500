//! Password policies as written by operators and used by engines.

use crate::bed::{Bed, error};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LETTERS: &str = "length = 20\nrule \"charset\" {\n  charset = \"abcdefghij\"\n  \
                       min-chars = 1\n}\n";
const JSON: &str = r#"{"length":8,"rule":[{"charset":{"charset":"abc"}}]}"#;

const BASE: &str = "sys/policies/password";

async fn put(bed: &Bed, name: &str, text: &str) {
    let (status, refused) = bed.write(&format!("{BASE}/{name}"), json!({"policy": text})).await;
    assert_eq!(status, 204, "{text}: {refused}");
}

async fn generated(bed: &Bed, name: &str) -> String {
    let (status, answer) = bed.read(&format!("{BASE}/{name}/generate")).await;
    assert_eq!(status, 200, "{answer}");
    answer["data"]["password"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn password_policy_is_written_read_listed_used_deleted() {
    let bed = Bed::new("password-policies").await;
    let absent = (404, json!({"errors": []}));
    assert_eq!(bed.call(Verb::List, BASE, json!({})).await, absent);
    assert_eq!(bed.read(&format!("{BASE}/letters")).await, absent);
    put(&bed, "letters", LETTERS).await;
    put(&bed, "json", JSON).await;
    let (_, read) = bed.read(&format!("{BASE}/letters")).await;
    assert_eq!(read["data"], json!({ "policy": LETTERS }));
    let (_, listed) = bed.call(Verb::List, BASE, json!({})).await;
    assert_eq!(listed["data"], json!({"keys": ["json", "letters"]}));
    let page = json!({"after": "json", "limit": "1"});
    let (_, listed) = bed.call(Verb::List, BASE, page).await;
    assert_eq!(listed["data"], json!({"keys": ["letters"]}));
    let passwords = [generated(&bed, "letters").await, generated(&bed, "letters").await];
    assert_ne!(passwords[0], passwords[1]);
    for password in passwords {
        assert!(password.len() == 20 && password.bytes().all(|byte| (b'a'..=b'j').contains(&byte)));
    }
    assert_eq!(generated(&bed, "json").await.len(), 8);
    for _ in 0..2 {
        let deleted = bed.call(Verb::Delete, &format!("{BASE}/letters"), json!({})).await;
        assert_eq!(deleted.0, 204, "gone is deleted");
    }
    let (status, refused) = bed.read(&format!("{BASE}/letters/generate")).await;
    assert!(status == 404 && error(&refused).contains("no password policy \"letters\""));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn base64_password_policy_is_stored_decoded() {
    let bed = Bed::new("password-base64").await;
    put(&bed, "encoded", "bGVuZ3RoID0gOApydWxlICJjaGFyc2V0IiB7CiAgY2hhcnNldCA9ICJhYmMiCn0K").await;
    let (_, read) = bed.read(&format!("{BASE}/encoded")).await;
    let decoded = "length = 8\nrule \"charset\" {\n  charset = \"abc\"\n}\n";
    assert_eq!(read["data"]["policy"], decoded);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_password_policy_is_refused_without_change() {
    let bed = Bed::new("password-refused").await;
    put(&bed, "kept", LETTERS).await;
    for body in [
        json!({}),
        json!({"policy": ""}),
        json!({"policy": null}),
        json!({"policy": "length = 101\nrule \"charset\" { charset = \"abc\" }"}),
        json!({"policy": "length = 20"}),
        json!({"policy": "length = 4\nrule \"charset\" { charset = \"abc\"\n min-chars = 5 }"}),
        json!({"policy": "path \"x\" { capabilities = [\"read\"] }"}),
        json!({"policy": {"length": 8}}),
        json!({"policy": format!("{LETTERS}#{}", "x".repeat(70_000))}),
    ] {
        for name in ["kept", "new"] {
            let (status, refused) = bed.write(&format!("{BASE}/{name}"), body.clone()).await;
            assert!(status == 400 && !error(&refused).is_empty(), "{body}: {status} {refused}");
        }
    }
    let (_, read) = bed.read(&format!("{BASE}/kept")).await;
    assert_eq!(read["data"]["policy"], LETTERS);
    assert_eq!(bed.read(&format!("{BASE}/new")).await.0, 404);
    bed.end().await;
}

async fn generate(bed: &Bed, fields: Value) -> (u16, Value) {
    bed.write("probe/password/any", fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_generates_passwords_by_current_stored_policy() {
    let bed = Bed::new("password-engine").await;
    put(&bed, "letters", LETTERS).await;
    let by_policy = json!({"policy": "letters"});
    let (_, answer) = generate(&bed, by_policy.clone()).await;
    assert_eq!(answer["data"]["password"].as_str().unwrap().len(), 20, "{answer}");
    put(&bed, "letters", JSON).await;
    let (_, answer) = generate(&bed, by_policy.clone()).await;
    assert_eq!(answer["data"]["password"].as_str().unwrap().len(), 8, "{answer}");
    bed.call(Verb::Delete, &format!("{BASE}/letters"), json!({})).await;
    let (status, refused) = generate(&bed, by_policy).await;
    assert!(status == 404 && error(&refused).contains("\"letters\""), "{refused}");
    let (_, answer) = generate(&bed, json!({})).await;
    assert_eq!(answer["data"]["password"].as_str().unwrap().len(), 20, "the default: {answer}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn engine_generates_alphabet_passwords_within_bounds() {
    let bed = Bed::new("password-alphabet").await;
    let (_, answer) = generate(&bed, json!({"alphabet": "ABC", "length": 64})).await;
    let password = answer["data"]["password"].as_str().unwrap();
    assert_eq!(password.len(), 64);
    let used: BTreeSet<char> = password.chars().collect();
    assert_eq!(used, BTreeSet::from(['A', 'B', 'C']), "{password}");
    for (length, alphabet) in [(0, "ab"), (1_025, "ab"), (8, "a\u{0}")] {
        let (status, refused) =
            generate(&bed, json!({"alphabet": alphabet, "length": length})).await;
        assert_eq!(status, 400, "{refused}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_password_is_call_secret_with_bounded_generation() {
    let bed = Bed::new("password-secret").await;
    for how in [json!({"tell": true}), json!({"tell": true, "alphabet": "XYZ", "length": 30})] {
        let (status, refused) = generate(&bed, how).await;
        assert_eq!(status, 400);
        assert!(error(&refused).starts_with("no such option: "), "{refused}");
        assert!(!error(&refused).contains("XY") && error(&refused).len() < 40, "{refused}");
    }
    let (status, refused) = generate(&bed, json!({"times": 1_000_000})).await;
    assert_eq!(status, 500, "{refused}");
    assert!(error(&refused).contains("host-bytes"), "{refused}");
    bed.end().await;
}
