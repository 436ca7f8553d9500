//! Key holders at different addresses, while callers without a key give bogus shares.

use crate::bed::{Bed, request};
use bulkhead_wire::description::Verb;
use serde_json::{Value, json};

const OUTSIDER_ADDRESS: &str = "198.51.100.7";

/// An open service with three shares and a threshold of two.
async fn two_of_three(name: &str) -> (Bed, Vec<String>) {
    let directory =
        std::env::temp_dir().join(format!("bulkhead-core-{name}-{}", std::process::id()));
    let bed = Bed::sealed(directory).await;
    let fields = json!({ "secret_shares": 3, "secret_threshold": 2 });
    let (status, answer) = bed.call_as("", Verb::Write, "sys/init", fields).await;
    assert_eq!(status, 200, "{answer}");
    let keys: Vec<String> = serde_json::from_value(answer["keys"].clone()).unwrap();
    for key in &keys[..2] {
        bed.call_as("", Verb::Write, "sys/unseal", json!({ "key": key })).await;
    }
    (bed, keys)
}

/// Writes without a token from this address.
async fn write_from(bed: &Bed, remote: &str, path: &str, fields: Value) -> (u16, Value) {
    let mut request = request("", Verb::Write, path, fields);
    request.remote = remote.parse().unwrap();
    let (status, _, body) = bed.service.handle(request).await.into_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Begins at `start`, and lets a caller without a key and then two holders give their shares at
/// `update`. Returns the last answer.
async fn complete_despite_bogus_shares(
    bed: &Bed,
    keys: &[String],
    (start, fields): (&str, Value),
    update: &str,
) -> Value {
    let (status, begun) = write_from(bed, "192.0.2.1", start, fields).await;
    assert_eq!(status, 200, "{begun}");
    let share = |key: &str| json!({ "key": key, "nonce": begun["nonce"] });
    let bogus = |number: u8| format!("{}{number:02x}", "ab".repeat(32));
    let (status, first) = write_from(bed, "192.0.2.1", update, share(&keys[2])).await;
    assert_eq!((status, &first["progress"]), (200, &json!(1)), "{first}");
    for _ in 0..3 {
        assert_eq!(write_from(bed, OUTSIDER_ADDRESS, update, share(&bogus(1))).await.0, 200);
        let (status, refused) = write_from(bed, OUTSIDER_ADDRESS, update, share(&bogus(2))).await;
        assert_eq!(status, 400, "{refused}");
    }
    let (status, done) = write_from(bed, "192.0.2.2", update, share(&keys[0])).await;
    assert_eq!((status, &done["complete"]), (200, &json!(true)), "{done}");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn bogus_shares_do_not_end_root_generation() {
    let (bed, keys) = two_of_three("generation").await;
    let start = ("sys/generate-root/attempt", json!({}));
    let done = complete_despite_bogus_shares(&bed, &keys, start, "sys/generate-root/update").await;
    assert_eq!(done["encoded_token"].as_str().map(str::len), Some(48), "{done}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bogus_shares_do_not_end_rekey() {
    let (bed, keys) = two_of_three("rekey").await;
    let start = ("sys/rekey/init", json!({ "secret_shares": 2, "secret_threshold": 2 }));
    let done = complete_despite_bogus_shares(&bed, &keys, start, "sys/rekey/update").await;
    assert_eq!(done["keys"].as_array().map(Vec::len), Some(2), "{done}");
    let (_, status) = bed.call_as("", Verb::Read, "sys/seal-status", json!({})).await;
    assert_eq!((&status["t"], &status["n"]), (&json!(2), &json!(2)), "{status}");
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_stranger_gives_no_more_shares() {
    let (bed, _) = two_of_three("guesses").await;
    let (_, begun) = write_from(&bed, "192.0.2.1", "sys/generate-root/attempt", json!({})).await;
    let guess = json!({ "key": "00".repeat(33), "nonce": begun["nonce"] });
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) && statuses.len() < 2_000 {
        let update = "sys/generate-root/update";
        statuses.push(write_from(&bed, OUTSIDER_ADDRESS, update, guess.clone()).await.0);
    }
    assert_eq!(statuses.last(), Some(&429), "after {} guesses", statuses.len());
    bed.end().await;
}
