//! The cubbyhole: a token's own values, which nobody else sees and which end with the token.

use crate::bed::{Bed, error};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

async fn child(bed: &Bed, fields: Value) -> String {
    let (status, answer) = bed.write("auth/token/create", fields).await;
    assert_eq!(status, 200, "{answer}");
    answer["auth"]["client_token"].as_str().unwrap().to_owned()
}

async fn names(bed: &Bed, path: &str, query: Value) -> Value {
    bed.call(Verb::List, path, query).await.1["data"]["keys"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn cubbyhole_value_is_written_read_listed_deleted_unchanged() {
    let bed = Bed::new("cubbyhole").await;
    let fields = json!({ "k": "v", "n": 1, "list": ["a", null, { "b": 2.5 }], "path": "own" });
    assert_eq!(bed.write("cubbyhole/a", fields.clone()).await.0, 204);
    let (status, answer) = bed.read("cubbyhole/a").await;
    assert_eq!(
        (status, &answer["data"], &answer["mount_type"]),
        (200, &fields, &json!("cubbyhole"))
    );
    for path in ["cubbyhole/d/e", "cubbyhole/d/f", "cubbyhole/d/g/h", "cubbyhole/z"] {
        assert_eq!(bed.write(path, json!({ "k": "w" })).await.0, 204, "{path}");
    }
    assert_eq!(names(&bed, "cubbyhole", json!({})).await, json!(["a", "d/", "z"]));
    assert_eq!(names(&bed, "cubbyhole/d", json!({})).await, json!(["e", "f", "g/"]));
    assert_eq!(names(&bed, "cubbyhole", json!({ "limit": "1" })).await, json!(["a"]));
    assert_eq!(names(&bed, "cubbyhole", json!({ "after": "d/" })).await, json!(["z"]));
    assert_eq!(bed.write("cubbyhole/a", json!({ "other": true })).await.0, 204);
    assert_eq!(bed.read("cubbyhole/a").await.1["data"], json!({ "other": true }));
    assert_eq!(bed.call(Verb::Delete, "cubbyhole/a", json!({})).await.0, 204);
    assert_eq!(bed.call(Verb::Delete, "cubbyhole/a", json!({})).await.0, 204);
    assert_eq!(bed.read("cubbyhole/a").await, (404, json!({ "errors": [] })));
    assert_eq!(bed.call(Verb::List, "cubbyhole/none", json!({})).await.0, 404);
    let (status, answer) = bed.write("cubbyhole/a", json!({})).await;
    assert!(status == 400 && error(&answer).contains("missing data fields"), "{answer}");
    let mount = bed.read("sys/mounts").await.1["cubbyhole/"].clone();
    assert_eq!(mount["type"], "cubbyhole");
    assert!(mount["accessor"].as_str().unwrap().starts_with("cubbyhole_"), "{mount}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cubbyhole_value_is_private_and_ends_with_token() {
    let bed = Bed::new("cubbyhole-own").await;
    let fields = json!({ "policies": ["default"], "id": "chosen" });
    let token = child(&bed, fields.clone()).await;
    let own = json!({ "k": "v" });
    assert_eq!(bed.call_as(&token, Verb::Write, "cubbyhole/a", own.clone()).await.0, 204);
    assert_eq!(bed.read("cubbyhole/a").await.0, 404, "root sees its own values alone");
    assert_eq!(bed.call_as(&token, Verb::Read, "cubbyhole/a", json!({})).await.1["data"], own);
    let other = child(&bed, json!({ "policies": ["default"] })).await;
    assert_eq!(bed.call_as(&other, Verb::List, "cubbyhole", json!({})).await.0, 404);
    assert_eq!(bed.write("auth/token/revoke", json!({ "token": token })).await.0, 204);
    // The same text becomes a token again once the ended token is cleared away.
    let began = std::time::Instant::now();
    while bed.write("auth/token/create", fields.clone()).await.0 != 200 {
        assert!(began.elapsed() < crate::bed::PATIENCE, "the token is never cleared away");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(bed.call_as(&token, Verb::Read, "cubbyhole/a", json!({})).await.0, 404);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cubbyhole_separates_create_from_update_excluding_batch_tokens() {
    let bed = Bed::new("cubbyhole-policies").await;
    let rules = r#"path "cubbyhole/*" { capabilities = ["create", "read"] }"#;
    bed.write("sys/policies/acl/create-only", json!({ "policy": rules })).await;
    let fields = json!({ "policies": ["create-only"], "no_default_policy": true });
    let token = child(&bed, fields).await;
    let write =
        async || bed.call_as(&token, Verb::Write, "cubbyhole/a/b", json!({ "k": 1 })).await.0;
    assert_eq!((write().await, write().await), (204, 403));
    let batch = child(&bed, json!({ "policies": ["default"], "type": "batch" })).await;
    for (verb, path) in
        [(Verb::Read, "cubbyhole/a"), (Verb::Write, "cubbyhole/a"), (Verb::List, "cubbyhole")]
    {
        let (status, answer) = bed.call_as(&batch, verb, path, json!({ "k": "v" })).await;
        assert!(status == 400 && error(&answer).contains("non-batch tokens"), "{answer}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cubbyhole_bytes_of_a_token_are_bounded() {
    let bed = Bed::new("cubbyhole-bytes").await;
    let token = child(&bed, json!({ "policies": ["default"] })).await;
    let large = json!({ "k": "x".repeat(1_000_000) });
    let write = async |number: u32| {
        bed.call_as(&token, Verb::Write, &format!("cubbyhole/{number}"), large.clone()).await
    };
    for number in 0..4 {
        assert_eq!(write(number).await.0, 204);
    }
    assert_eq!(write(3).await.0, 204, "a value is replaced in a full cubbyhole");
    let (status, answer) = write(4).await;
    let said = error(&answer);
    assert!(status == 429 && said.contains("the cubbyhole of this token stores 4"), "{said}");
    assert_eq!(bed.write("cubbyhole/a", large.clone()).await.0, 204, "another token has room");
    assert_eq!(bed.call_as(&token, Verb::Delete, "cubbyhole/0", json!({})).await.0, 204);
    assert_eq!(write(4).await.0, 204);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_draw_random_bytes_and_hash() {
    let bed = Bed::new("tools").await;
    for (path, fields, length) in [
        ("sys/tools/random", json!({}), 44),
        ("sys/tools/random", json!({ "bytes": 8, "format": "hex" }), 16),
        ("sys/tools/random/24", json!({}), 32),
        ("sys/tools/random/platform/16", json!({}), 24),
        ("sys/tools/random/all", json!({}), 44),
    ] {
        let (status, answer) = bed.write(path, fields).await;
        let bytes = answer["data"]["random_bytes"].as_str().unwrap_or_default().to_owned();
        assert_eq!((status, bytes.len()), (200, length), "{path}: {answer}");
        assert_ne!(bed.write(path, json!({})).await.1["data"]["random_bytes"], bytes);
    }
    for fields in [
        json!({ "bytes": 0 }),
        json!({ "bytes": -1 }),
        json!({ "bytes": 1_000_000 }),
        json!({ "format": "zzz" }),
        json!({ "source": "dice" }),
    ] {
        assert_eq!(bed.write("sys/tools/random", fields.clone()).await.0, 400, "{fields}");
    }
    assert_eq!(bed.write("sys/tools/random/platform/many", json!({})).await.0, 400);
    let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let input = json!({ "input": "YWJj" });
    for path in ["sys/tools/hash", "sys/tools/hash/sha2-256"] {
        assert_eq!(bed.write(path, input.clone()).await.1["data"]["sum"], of_abc, "{path}");
    }
    let base64 = json!({ "input": "YWJj", "algorithm": "sha2-224", "format": "base64" });
    let (_, answer) = bed.write("sys/tools/hash", base64).await;
    assert_eq!(answer["data"]["sum"], "Iwl9IjQF2CKGQqR3vaJVsyqtvOS9oLP342ydpw==");
    for fields in [json!({ "input": "?" }), json!({ "input": "YWJj", "algorithm": "md5" })] {
        assert_eq!(bed.write("sys/tools/hash", fields.clone()).await.0, 400, "{fields}");
    }
    bed.end().await;
}
