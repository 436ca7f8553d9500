//! Rows of a component that ask for no token, and rows for PATCH.

use crate::bed::Bed;
use bulkhead_wire::description::Verb;
use serde_json::json;

const PATH: &str = "probe/patched/door";

#[tokio::test(flavor = "multi_thread")]
async fn public_row_serves_without_token_and_neighbour_refuses() {
    let bed = Bed::new("public-row").await;
    assert_eq!(bed.call(Verb::Patch, PATH, json!({"colour": "red"})).await.0, 204);
    for token in ["", "s.no-token-that-holds"] {
        let (status, seen) = bed.call_as(token, Verb::Read, PATH, json!({})).await;
        assert_eq!((status, &seen["data"]), (200, &json!({"colour": "red"})), "{seen}");
        let (status, refused) = bed.call_as(token, Verb::Patch, PATH, json!({"age": 1})).await;
        assert_eq!(status, 403, "{refused}");
    }
    assert_eq!(bed.read(PATH).await.1["data"], json!({"colour": "red"}));
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_changes_named_fields_and_null_removes() {
    let bed = Bed::new("patch").await;
    assert_eq!(bed.call(Verb::Patch, PATH, json!({"colour": "red", "age": "1m"})).await.0, 204);
    assert_eq!(bed.call(Verb::Patch, PATH, json!({"colour": null})).await.0, 204);
    assert_eq!(bed.read(PATH).await.1["data"], json!({"age": 60}));
    let (status, refused) = bed.call(Verb::Patch, PATH, json!({"age": "old"})).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(bed.read(PATH).await.1["data"], json!({"age": 60}));
    let policy = json!({"policy": "path \"probe/*\" { capabilities = [\"update\", \"create\"] }"});
    bed.write("sys/policies/acl/writer", policy).await;
    let answer = bed.write("auth/token/create", json!({"policies": "writer"})).await.1;
    let token = answer["auth"]["client_token"].as_str().unwrap();
    let (status, refused) = bed.call_as(token, Verb::Patch, PATH, json!({"age": 2})).await;
    assert_eq!(status, 403, "PATCH has its own capability: {refused}");
    bed.end().await;
}
